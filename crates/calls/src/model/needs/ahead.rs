//! Which micro-operations a sync may write before earlier ones of other objects.

use super::Need;
use crate::model::kept::Kept;
use crate::model::micro::{Change, Micro, ObjectId, Recorded, Sync};
use crate::model::rules::{Covers, Model, Rule};
use std::collections::BTreeMap;

/// What syncs take ahead.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    taken: Kept,
    /// Of each micro-operation the entry from which on it is durable by a sync of its object.
    durable_from: Vec<u64>,
}

impl Ahead {
    /// Looks for the metadata of objects that are synced later, and earlier changes of the same
    /// places: `needs` says what each micro-operation needs by the rules that all models have.
    pub(super) fn of(model: Model, recorded: &Recorded, needs: &[Vec<Need>]) -> Ahead {
        let mut syncs: BTreeMap<ObjectId, Vec<Sync>> = BTreeMap::new();
        for sync in &recorded.syncs {
            if let Some(object) = sync.object {
                syncs.entry(object).or_default().push(*sync);
            }
        }
        let of = |object: &ObjectId| syncs.get(object).map_or(&[][..], Vec::as_slice);
        let with_names = model.file_sync != Covers::Object;
        let (micros, mut taken) = (&recorded.micros, Kept::default());
        let mut durable_from = vec![u64::MAX; micros.len()];
        for (index, micro) in micros.iter().enumerate() {
            let (covering, naming) = objects(micro);
            // In the order of their answers: the last one counts.
            let last = |object: &ObjectId| of(object).last().map(|sync| sync.answered);
            if covering.iter().chain(&naming).filter_map(last).any(|last| micro.asked < last) {
                taken.insert(index);
            }
            let named = naming.iter().filter(|_| with_names);
            let first = covering.iter().chain(named).filter_map(|object| {
                let first = of(object).partition_point(|sync| !micro.is_complete_at(sync.asked));
                let covers = |sync: &&Sync| !sync.data_only && micro.is_complete_at(sync.asked);
                of(object)[first..].iter().find(covers).map(|sync| sync.answered)
            });
            durable_from[index] = first.min().unwrap_or(u64::MAX);
        }
        for (micro, needs) in needs.iter().enumerate().rev() {
            if taken.contains(micro) {
                let places = needs.iter().filter(|need| need.rule == Rule::OnePlace);
                taken.extend(places.map(|need| need.micro as usize));
            }
        }
        Ahead { taken, durable_from }
    }

    /// True if a sync may write it before earlier metadata.
    pub(super) fn has(&self, micro: u32) -> bool {
        self.taken.contains(micro as usize)
    }

    /// True if a sync was answered that makes it durable before the entry at this position.
    pub(super) fn is_durable(&self, micro: u32, position: u64) -> bool {
        self.durable_from[micro as usize] < position
    }
}

/// The objects whose sync covers a change, and those that it names.
fn objects(micro: &Micro) -> (Vec<ObjectId>, Vec<ObjectId>) {
    match &micro.change {
        Change::Names { sets, .. } => {
            let directories = sets.iter().map(|set| set.directory).collect();
            (directories, sets.iter().filter_map(|set| set.object).collect())
        }
        change => (change.object().into_iter().collect(), Vec::new()),
    }
}
