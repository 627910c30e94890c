//! Transactions of several requests, and how long their descriptors are needed.
//!
//! A transaction whose blocks do not follow one another says in a *descriptor*, one more block,
//! which ones they are: a recovery takes it if the descriptor is there and each block that it lists
//! is there or has a younger version that holds. Nothing else differs from a plain request: one
//! stamp, no order between the blocks, one flush for all of them.
//!
//! A descriptor is needed until no recovery has to verify its transaction: until a record is
//! durable that says that everything up to its stamp was. One is written when descriptors pile up
//! or free blocks run out, with whatever commit comes next.

use super::descriptor::{self, MOST_RUNS};
use super::format::{DESCRIPTOR, Record, SCATTERED};
use super::write::{Commands, Transaction};
use super::{Loge, table};
use crate::eager::Mapped;
use crate::eager::runs::runs;
use seekless_engine::data::{Body, Piece};
use seekless_engine::edge::Edge;
use seekless_engine::io::Label;
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::transaction::Transaction as Group;
use std::collections::VecDeque;

/// Descriptors that may pile up where there is much room.
const MOST_DESCRIPTORS: u64 = 64;

/// Descriptors that are still needed, and the records that make an end of that.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors {
    /// Stamp and place, the oldest first.
    kept: VecDeque<(u64, u32)>,
    /// The commit that the last record went out with.
    recorded_with: u64,
}

impl Descriptors {
    /// Number of descriptors in the pool.
    pub fn len(&self) -> u64 {
        self.kept.len() as u64
    }
}

impl Loge {
    /// Most blocks of a transaction of several requests: as many as a descriptor surely lists,
    /// and a quarter of the free blocks of a full volume.
    pub(super) fn most_of_group(&self) -> u64 {
        (self.slack / 4).clamp(1, MOST_RUNS)
    }

    /// Gives a transaction its stamp, places, labels and descriptor, and collects the commands.
    /// `None` if all it does is to forget holes. Beside other changes holes are forgotten anew:
    /// what made them may not survive, and the transaction takes hold as a whole.
    pub(super) fn prepare_group(
        &mut self,
        all: &Group,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Option<Transaction> {
        let changes: Vec<_> = all.changes().collect();
        let stored = |at: u64| self.table.get(at).is_mapped();
        if !changes.iter().any(|&(at, piece)| piece.is_some() || stored(at)) {
            return None;
        }
        let runs = runs(changes.iter().map(|&(at, _)| at));
        let count = changes.len() as u32;
        let (first, _) = *changes.first()?;
        let scattered = runs.len() > 1;
        let stamp = self.new_stamp();
        self.counters.client_blocks += u64::from(count);
        let mut transaction = Transaction::new(runs.into(), stamp);
        for (index, &(at, piece)) in (0..).zip(&changes) {
            let last = (count - 1) as u16;
            let member = if scattered { SCATTERED } else { (index as u16, last) };
            let piece = piece.cloned();
            let how = (member, count - index, scattered);
            self.store(&mut transaction, at, piece, how, commands, cx);
        }
        if scattered {
            let content = descriptor::encode(self.id, stamp, &transaction.runs);
            let content = Piece::block(Body::Bytes(content));
            let sum = self.sums.of(&content);
            let place = self.place_away(first, 1, true, cx);
            let label = table::label(u64::from(DESCRIPTOR), sum, stamp, self.known_durable(stamp));
            let label = label.encode(self.id, u64::from(place));
            transaction.descriptor = Some((place, label));
            commands.push_map(place, content, label);
        }
        Some(transaction)
    }

    /// The blocks of a transaction are in the table: its descriptor is kept.
    pub(super) fn keep_descriptor(&mut self, stamp: u64, place: u32, label: &Label) {
        if let Some(area) = &mut self.labels {
            area.set(u64::from(place), label);
        }
        if planted(PlantedBug::DescriptorFreedEarly) {
            self.commits.supersede(place);
            return;
        }
        // Data arrives in any order; there are few.
        let kept = &mut self.descriptors.kept;
        let at = kept.partition_point(|&(other, _)| other < stamp);
        kept.insert(at, (stamp, place));
    }

    /// True if the last record is durable, so that another one may be written: a crash tears one of
    /// the two at most.
    pub(super) fn last_record_is_durable(&self) -> bool {
        Edge::LogeRecordsApart.allows(self.descriptors.recorded_with <= self.commits.durable())
    }

    /// True if a record would free descriptors, and may be written.
    pub(super) fn record_would_free(&self) -> bool {
        let oldest = self.descriptors.kept.front();
        oldest.is_some_and(|&(stamp, _)| stamp <= self.commits.noted())
            && self.last_record_is_durable()
    }

    /// Adds a record to the commands of the open commit if one is wanted: where the last one says
    /// that the volume is at rest, or, when that commit is durable, descriptors are free.
    pub(super) fn record_if_wanted(&mut self, commands: &mut Commands) {
        let many = (self.slack / 16).clamp(1, MOST_DESCRIPTORS);
        let wanted = self.descriptors.len() > many || self.commits.is_stuck();
        let rested = std::mem::take(&mut self.at_rest);
        let wanted = rested || wanted && self.record_would_free();
        if !wanted {
            return;
        }
        debug_assert!(self.last_record_is_durable(), "a crash may tear both records");
        let durable = self.commits.noted();
        let record = Record { durable, ..Record::default() };
        self.push_record(record, commands);
    }

    /// Adds a record to the commands of the open commit. When that is durable, the descriptors of
    /// transactions that the record calls durable are free.
    pub(super) fn push_record(&mut self, record: Record, commands: &mut Commands) {
        let durable = record.durable;
        self.descriptors.recorded_with = self.commits.open();
        let (at, block) = self.next_record(record);
        commands.push_map(at as u32, Piece::block(Body::Bytes(block)), Label::default());
        while let Some(&(stamp, place)) = self.descriptors.kept.front()
            && Edge::LogeDescriptorNoted.allows(stamp <= durable)
        {
            self.commits.supersede(place);
            self.descriptors.kept.pop_front();
        }
    }
}
