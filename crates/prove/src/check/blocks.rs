//! Blocks of the states of an epoch. A torn block, or one of which some sectors were written, is
//! put together once for all states that have it.

use seekless_crash::fate::Fate;
use seekless_crash::moment::Moment;
use seekless_engine::data::Body;
use seekless_engine::device::medium::{Cells, Medium as _};
use std::collections::BTreeMap;

/// Blocks by device, number, and what their content comes from; see [`Moment::origins_of`].
#[derive(Debug, Default)]
pub struct Blocks {
    bodies: BTreeMap<(usize, u64, u64), Body>,
}

impl Blocks {
    /// A new epoch: origins mean something else.
    pub fn clear(&mut self) {
        self.bodies.clear();
    }

    /// The media in a state of a moment.
    pub fn build(&mut self, moment: &Moment, fates: &[Fate]) -> Vec<Cells> {
        // The label of a torn block comes with its beginning, whatever else is there.
        if moment.durable.iter().any(|medium| medium.has_labels()) {
            return moment.build(fates);
        }
        let origins = moment.origins_of(fates);
        let changed = || moment.slots.iter().zip(&origins).filter(|(slot, to)| slot.origin != **to);
        let mut media = moment.durable.clone();
        for (slot, &origin) in changed() {
            match self.bodies.get(&(slot.device, slot.at, origin)) {
                Some(body) => media[slot.device].set(slot.at, body.clone()),
                None => {
                    media = moment.build(fates);
                    for (slot, &origin) in changed() {
                        let body = media[slot.device].get(slot.at);
                        self.bodies.entry((slot.device, slot.at, origin)).or_insert(body);
                    }
                    break;
                }
            }
        }
        media
    }
}
