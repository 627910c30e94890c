//! Commits: writing label blocks and the trim map, knowing what is durable, and when a superseded
//! place may be used again.
//!
//! A commit is not a unit of atomicity here, transactions are; it is what becomes durable together.
//! It covers all that is installed when it begins. On a device that keeps completed writes each
//! batch is a commit; elsewhere commits wait for a flush, a limit or a pause.

use super::format::{RECORDS, Record, TRIMS_START};
use super::table::{Entry, LabelArea};
use super::write::{Commands, labelled};
use super::{Loge, META, RECORD};
use crate::eager::commit::Batch;
use bytes::Bytes;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, IoError, Label};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::Work;
use seekless_engine::units::BlockNr;

impl Loge {
    /// True if a commit may begin. A sector of the trim map keeps two tombstones of each block: the
    /// last one and the one before, which a recovery believes. Were it written again before the
    /// last one is durable, a recovery would believe a transaction that may not hold. And what
    /// follows a record of a volume at rest comes with another record, for which that must be
    /// durable.
    pub(super) fn may_commit(&self) -> bool {
        let tombs = !self.trims.is_dirty()
            || Edge::LogeTrimsDurable.allows(self.last_with_trims <= self.commits.durable());
        tombs && Edge::LogeRestDurable.allows(!self.at_rest || self.last_record_is_durable())
    }

    /// True on devices where a record says that the volume is at rest.
    pub(super) fn may_rest(&self) -> bool {
        !self.commits.is_serial() && self.labels.is_some()
    }

    /// Writes all labels and tombstones that changed, behind the data in `commands`.
    pub(super) fn begin_commit(
        &mut self,
        batch: Batch<Entry>,
        mut commands: Commands,
        cx: &mut Cx<'_>,
    ) {
        self.counters.commits += 1;
        self.record_if_wanted(&mut commands);
        let labels = self.labels.as_mut().map_or_else(Vec::new, |area| area.take_dirty());
        let buried = self.trims.take_dirty();
        let trims = buried.len() as u64;
        self.counters.trim_blocks += trims;
        self.counters.label_blocks += labels.len() as u64;
        let buried = buried.into_iter().map(|(block, sectors)| (TRIMS_START + block, sectors));
        for (at, sectors) in labels.into_iter().chain(buried) {
            commands.push_map(at as u32, Piece::block(Body::Sectors(sectors)), Label::default());
        }
        if trims > 0 {
            self.last_with_trims = self.commits.open();
        }
        let first_in_flight = self.in_flight.first().copied();
        let covers = first_in_flight.unwrap_or(self.next_stamp) - 1;
        let sent = commands.send(META, cx, labelled(self.areas.headers));
        self.commits.begin(batch, covers, sent);
        if let Some(commit) = self.commits.complete() {
            self.commits.close(commit, &mut self.requests, cx);
        }
    }

    /// A command of the commit has been answered.
    pub(super) fn commit_part_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Some(commit) = self.commits.part_done(done) {
            self.undo(commit.undo());
            self.commits.close(commit, &mut self.requests, cx);
        }
    }

    /// Begins whatever commit or flush is wanted now.
    pub(super) fn advance_commits(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        let wanted = self.commits.wants_commit(false, &self.free, &self.requests, cx.now);
        if wanted && self.may_commit() {
            self.begin_commit(Batch::default(), Commands::default(), cx);
        }
        let held_up = wanted && !self.may_commit() && !self.commits.is_flushing();
        if held_up || self.commits.wants_flush(&self.free, &self.requests) {
            self.commits.begin_flush(cx);
        }
        if self.commits.is_stuck() {
            self.relieve(cx);
        }
    }

    /// Something waits for free blocks, and no commit or flush would bring any: where nothing is
    /// in flight that may, the volume is too small, which is an error.
    fn relieve(&mut self, cx: &mut Cx<'_>) {
        let coming = self.relocation.is_active() || self.punching.is_busy();
        let moving = !self.writes.is_empty() || coming;
        if self.commits.waiting() > 0 || moving || !self.reads.is_empty() {
            return;
        }
        if self.record_would_free() {
            self.begin_commit(Batch::default(), Commands::default(), cx);
            return;
        }
        if let Some(Work::Write { request, .. } | Work::Group { request, .. }) =
            self.requests.front().cloned()
        {
            self.requests.pop();
            self.requests.fail(request, IoError::NoSpace);
            self.requests.part_done(request, cx);
        }
    }

    /// Brings a clean shutdown one step further: commit what changed, flush, write the record that
    /// says so, flush.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) {
        let moving = self.sorter.is_reading() || self.relocation.is_active();
        let idling = moving || self.idle.is_moving() || self.punching.is_busy();
        if self.commits.is_busy() || idling || !self.requests.must_leave_clean() {
            return;
        }
        if self.commits.has_changes() && self.may_commit() {
            self.begin_commit(Batch::default(), Commands::default(), cx);
            // A commit without commands is complete at once.
            self.advance_shutdown(cx);
        } else if Edge::LogeCleanLast.blocks(!self.commits.is_durable()) {
            self.commits.begin_flush(cx);
        } else {
            let record = Record { clean: true, ..self.record_at_rest() };
            let (at, record) = self.next_record(record);
            let record = Data::bytes(record);
            self.requests.write_shutdown_record(RECORD, at, record, cx);
        }
    }

    /// What a record says of a volume of which everything is durable.
    pub(super) fn record_at_rest(&self) -> Record {
        let (stored, digest) = self.table.digest();
        let durable = self.next_stamp - 1;
        Record { durable, at_rest: true, stored, digest, ..Record::default() }
    }

    /// The next record, and where it goes. One of a volume at rest has the parity of the labels.
    pub(super) fn next_record(&mut self, record: Record) -> (BlockNr, Bytes) {
        self.record += 1;
        let labels = self.labels.as_ref().filter(|_| record.at_rest);
        let parity = labels.and_then(LabelArea::parity);
        let record = Record { number: self.record, ..record };
        let block = record.encode_with(self.id, |block| {
            parity.iter().for_each(|parity| parity.put(block));
        });
        (RECORDS[self.record as usize % RECORDS.len()], block)
    }

    /// Says on the device that everything is durable, once no client has waited for a while. The
    /// next commit says in turn that the volume rests no longer.
    pub(super) fn advance_witness(&mut self, cx: &mut Cx<'_>) {
        let lacks = self.may_rest() && !(self.at_rest && self.commits.is_durable());
        let busy = self.commits.is_busy()
            || self.commits.has_changes()
            || self.relocation.is_active()
            || !self.writes.is_empty();
        if !self.witness.is_due(lacks, &self.requests, cx.now) || busy {
            return;
        }
        if Edge::LogeRestLast.blocks(!self.commits.is_durable()) {
            return self.commits.begin_flush(cx);
        }
        self.at_rest = true;
        let record = self.record_at_rest();
        let mut commands = Commands::default();
        self.push_record(record, &mut commands);
        let sent = commands.send(META, cx, labelled(self.areas.headers));
        self.commits.begin(Batch::default(), record.durable, sent);
    }
}
