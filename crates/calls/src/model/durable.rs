//! What syncs make durable.
//!
//! A sync covers what was complete when it was asked, and counts from its answer on. What it makes
//! durable is closed over the needs: what a durable micro-operation needs is durable.

use super::kept::Kept;
use super::micro::{Change, ObjectId, Sync};
use super::needs::Modelled;
use super::rules::Covers;
use std::ops::Range;

/// Walks from answered sync to answered sync of the workload.
#[derive(Clone, Debug)]
pub struct Barriers<'m> {
    modelled: &'m Modelled,
    /// The next sync.
    next: usize,
    durable: Kept,
    /// What is not durable, in order.
    pending: Vec<usize>,
    /// The micro-operation that gave each object its first name.
    made: Vec<Option<usize>>,
}

impl Modelled {
    /// The syncs of the workload in the order of their answers, each with what it makes durable.
    pub fn barriers(&self) -> Barriers<'_> {
        let recorded = self.recorded();
        let begin = recorded.begin;
        let first = recorded.micros.partition_point(|micro| micro.asked < begin);
        let mut made = vec![None; recorded.objects.len()];
        for (index, micro) in recorded.micros.iter().enumerate() {
            if let Change::Names { sets, .. } = &micro.change {
                for object in sets.iter().filter_map(|set| set.object) {
                    made[object as usize].get_or_insert(index);
                }
            }
        }
        Barriers {
            modelled: self,
            next: recorded.syncs.partition_point(|sync| sync.answered < begin),
            durable: Kept::below(first),
            pending: (first..recorded.micros.len()).collect(),
            made,
        }
    }

    /// What is durable right before the entry at this position.
    pub fn durable(&self, position: u64) -> Kept {
        let mut barriers = self.barriers();
        while barriers.peek().is_some_and(|sync| sync.answered < position) {
            barriers.next();
        }
        barriers.durable
    }
}

impl Barriers<'_> {
    /// The next sync.
    pub fn peek(&self) -> Option<Sync> {
        self.modelled.recorded().syncs.get(self.next).copied()
    }

    /// What is durable before it is answered.
    pub fn durable(&self) -> &Kept {
        &self.durable
    }

    /// What is not durable and was asked for before the entry at this position, in order.
    pub fn pending(&self, position: u64) -> impl Iterator<Item = usize> + '_ {
        let micros = &self.modelled.recorded().micros;
        self.pending.iter().copied().take_while(move |&index| micros[index].asked < position)
    }

    /// What a sync makes durable beyond what is, in order.
    fn covered(&self, sync: &Sync) -> Vec<usize> {
        let micros = &self.modelled.recorded().micros;
        let complete = self.pending(sync.asked);
        let complete: Vec<usize> =
            complete.filter(|&index| micros[index].is_complete_at(sync.asked)).collect();
        let mut made: Vec<usize> = Vec::new();
        match sync.object {
            None => made = complete,
            Some(object) => {
                let with_names = self.covers(object) == Covers::ObjectAndNames;
                let belongs = |&&index: &&usize| {
                    let change = &micros[index].change;
                    is_of(change, object, sync) || with_names && change.names(object)
                };
                made.extend(complete.iter().filter(belongs));
                if let Some(last) = self.committed(object, sync.data_only, &complete) {
                    let metadata = complete.iter().copied().filter(|&index| index < last);
                    made.extend(metadata.filter(|&i| !micros[i].change.is_written_back()));
                }
            }
        }
        let mut all = self.durable.clone();
        self.modelled.add(&mut all, made);
        self.pending.iter().copied().filter(|&index| all.contains(index)).collect()
    }

    /// The last change of an object for which its sync commits the journal. Later metadata need not
    /// be in that transaction: the journal may have committed right behind the change, and then the
    /// sync finds nothing to commit.
    fn committed(&self, object: ObjectId, data_only: bool, complete: &[usize]) -> Option<usize> {
        let recorded = self.modelled.recorded();
        let waits = |&index: &usize| {
            let change = &recorded.micros[index].change;
            match change {
                Change::Names { sets, .. } => {
                    let is_directory = sets.iter().any(|set| set.directory == object);
                    let is_named = change.names(object);
                    let is_made = self.made[object as usize] == Some(index);
                    is_directory || if data_only { is_made } else { is_named }
                }
                // A write changes times; without those its bytes may lie where bytes lay before.
                Change::Page { .. } | Change::Zeros { .. } => {
                    !data_only && change.object() == Some(object)
                }
                Change::Grow { .. } | Change::SetSize { .. } => change.object() == Some(object),
                Change::Attributes { .. } | Change::Attribute { .. } => {
                    !data_only && change.object() == Some(object)
                }
            }
        };
        let last = complete.iter().copied().rfind(|index| waits(index));
        last.filter(|_| self.covers(object) == Covers::EarlierMetadata)
    }

    /// What a sync of an object covers.
    fn covers(&self, object: ObjectId) -> Covers {
        let model = self.modelled.model();
        match self.modelled.recorded().objects[object as usize].is_directory() {
            true => model.directory_sync,
            false => model.file_sync,
        }
    }
}

/// True for a part of the object that a sync of it covers.
fn is_of(change: &Change, object: ObjectId, sync: &Sync) -> bool {
    let is_in_range = |bytes: Range<u64>| {
        sync.range.is_none_or(|(from, to)| bytes.start < to && from < bytes.end)
    };
    match change {
        Change::Names { sets, .. } => sets.iter().any(|set| set.directory == object),
        Change::Attributes { .. } | Change::Attribute { .. } if sync.data_only => false,
        Change::Page { .. } | Change::Zeros { .. } if !is_in_range(change.bytes()) => false,
        // The size that the last byte of the range needs.
        Change::Grow { to, .. } if !is_in_range(*to - 1..*to) => false,
        change => change.object() == Some(object),
    }
}

impl Iterator for Barriers<'_> {
    type Item = (Sync, Vec<usize>);

    fn next(&mut self) -> Option<(Sync, Vec<usize>)> {
        let sync = self.peek()?;
        self.next += 1;
        let made = self.covered(&sync);
        self.durable.extend(made.iter().copied());
        if !made.is_empty() {
            let durable = &self.durable;
            self.pending.retain(|&index| !durable.contains(index));
        }
        Some((sync, made))
    }
}
