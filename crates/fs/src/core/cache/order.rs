//! The order in which buffers were used last.
//!
//! A use only notes its time. The queue holds each slot once, by a time that may be older than its
//! last use; a slot that comes to the front with an older time goes back to where it belongs. So
//! the front is the least recently used slot, a use costs one store, and a clone shares the times
//! in chunks.

use super::Slot;
use crate::cow::{CowSet, Part};

/// Slots of a chunk.
const CHUNK: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// The last use.
    last: u64,
    /// The time by which the queue has the slot; 0 if it does not.
    queued: u64,
}

/// Slots by their last use.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    clock: u64,
    uses: Vec<Part<[Use; CHUNK]>>,
    queue: CowSet<(u64, Slot)>,
}

impl Order {
    /// Makes clones cheap.
    pub(super) fn share(&mut self) {
        self.uses.iter_mut().for_each(|chunk| chunk.share(|_| {}));
        self.queue.share();
    }

    /// Notes a use.
    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        self.clock += 1;
        let clock = self.clock;
        self.of(slot).last = clock;
    }

    #[inline]
    fn of(&mut self, slot: Slot) -> &mut Use {
        &mut self.uses[slot as usize / CHUNK].make_mut()[slot as usize % CHUNK]
    }

    /// The least recently used slot.
    pub(super) fn oldest(&mut self) -> Option<Slot> {
        loop {
            let (queued, slot) = *self.queue.first()?;
            let one = self.of(slot);
            if one.last == queued {
                return Some(slot);
            }
            one.queued = one.last;
            let last = one.last;
            self.queue.remove(&(queued, slot));
            self.queue.insert((last, slot));
        }
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, slot: Slot) {
        let queued = std::mem::take(&mut self.of(slot).queued);
        let was_there = self.queue.remove(&(queued, slot));
        debug_assert!(was_there, "slot {slot} is in the queue");
    }

    /// Adds a slot as the most recently used one.
    pub(super) fn append(&mut self, slot: Slot) {
        while slot as usize / CHUNK >= self.uses.len() {
            self.uses.push(Part::new([Use::default(); CHUNK]));
        }
        self.touch(slot);
        let clock = self.clock;
        self.of(slot).queued = clock;
        self.queue.insert((clock, slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oldest slot is that of a list in which each use moves a slot to the end.
        #[test]
        fn an_order_and_its_clones_are_lists(
            steps in prop::collection::vec((0u8..8, 0u32..200), 1..600),
        ) {
            let (mut order, mut model) = (Order::default(), Vec::new());
            let mut clones = Vec::new();
            for (what, slot) in steps {
                let place = model.iter().position(|&one| one == slot);
                match (what, place) {
                    (0, _) => {
                        if slot % 4 > 0 {
                            order.share();
                        }
                        clones.push((order.clone(), model.clone()));
                    }
                    (1, Some(at)) => {
                        order.remove(slot);
                        model.remove(at);
                    }
                    (2, _) => prop_assert_eq!(order.oldest(), model.first().copied()),
                    (_, Some(at)) => {
                        order.touch(slot);
                        model[at..].rotate_left(1);
                    }
                    (_, None) => {
                        order.append(slot);
                        model.push(slot);
                    }
                }
            }
            clones.push((order, model));
            for (mut order, model) in clones {
                for slot in model {
                    prop_assert_eq!(order.oldest(), Some(slot));
                    order.remove(slot);
                }
                prop_assert_eq!(order.oldest(), None);
            }
        }
    }
}
