//! Where a block lies in the cache: a tree of two levels by number of block.
//!
//! A look-up takes two loads and no hash. Neighbouring blocks share a leaf, so a file system of
//! 4 MiB has two leaves, and a clone counts two references. Leaves that are not there take 8 KiB
//! at most for each GiB of the volume. Volumes of objects are sparse; their blocks are in a map.

use super::Slot;
use crate::cow::{CowMap, Part};
use crate::tx::BlockNo;

/// Blocks of a leaf.
const LEAF: usize = 512;

/// Volumes of more blocks, 256 TiB, are sparse: none of blocks in a row is larger.
const MOST_IN_A_ROW: u64 = 1 << 36;

/// No buffer.
const NONE: Slot = Slot::MAX;

#[derive(Clone, Debug)]
struct Leaf {
    used: u32,
    slots: [Slot; LEAF],
}

/// Slots by block.
#[derive(Clone, Debug)]
pub(super) struct Places {
    leaves: Vec<Option<Part<Leaf>>>,
    /// In place of the leaves, of a sparse volume.
    sparse: Option<CowMap<BlockNo, Slot>>,
}

/// Places of a block in the two levels.
#[inline]
fn places(block: BlockNo) -> (usize, usize) {
    let number = block as usize;
    (number / LEAF, number % LEAF)
}

impl Places {
    /// None yet, on a volume of so many blocks.
    pub(super) fn new(blocks: u64) -> Places {
        let sparse = (blocks > MOST_IN_A_ROW).then(CowMap::default);
        Places { leaves: Vec::new(), sparse }
    }

    /// Makes clones cheap.
    pub(super) fn share(&mut self) {
        self.leaves.iter_mut().flatten().for_each(|leaf| leaf.share(|_| {}));
        self.sparse.iter_mut().for_each(|places| places.share(|_| {}));
    }

    /// The slot of a block.
    #[inline]
    pub(super) fn find(&self, block: BlockNo) -> Option<Slot> {
        if let Some(places) = &self.sparse {
            return places.get(&block).copied();
        }
        let (leaf, within) = places(block);
        let leaf = self.leaves.get(leaf)?.as_deref()?;
        Some(leaf.slots[within]).filter(|&slot| slot != NONE)
    }

    /// Notes the slot of a block that has none.
    pub(super) fn insert(&mut self, block: BlockNo, slot: Slot) {
        debug_assert!(self.find(block).is_none(), "block {block} has one buffer");
        if let Some(places) = &mut self.sparse {
            places.insert(block, slot);
            return;
        }
        let (leaf, within) = places(block);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let new = || Part::new(Leaf { used: 0, slots: [NONE; LEAF] });
        let leaf = self.leaves[leaf].get_or_insert_with(new).make_mut();
        leaf.slots[within] = slot;
        leaf.used += 1;
    }

    /// Forgets the slot of a block that has one.
    pub(super) fn remove(&mut self, block: BlockNo) {
        debug_assert!(self.find(block).is_some(), "block {block} has a buffer");
        if let Some(places) = &mut self.sparse {
            places.remove(&block);
            return;
        }
        let (number, within) = places(block);
        let Some(leaf) = self.leaves[number].as_mut().map(Part::make_mut) else { return };
        leaf.slots[within] = NONE;
        leaf.used -= 1;
        if leaf.used == 0 {
            self.leaves[number] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// It is a map, and clones keep what they had.
        #[test]
        fn places_and_their_clones_are_maps(
            steps in prop::collection::vec((0u64..4, 0u64..400), 1..400),
            is_sparse in any::<bool>(),
        ) {
            let (blocks, stride) = if is_sparse { (u64::MAX, 1 << 55) } else { (1 << 20, 65_500) };
            let at = |region, within| region * stride + within;
            let (mut places, mut model) = (Places::new(blocks), BTreeMap::new());
            let mut clones = Vec::new();
            for (slot, (region, within)) in steps.into_iter().enumerate() {
                let block = at(region, within);
                if model.remove(&block).is_some() {
                    places.remove(block);
                } else {
                    model.insert(block, slot as Slot);
                    places.insert(block, slot as Slot);
                }
                if slot % 90 == 0 {
                    if slot % 180 == 0 {
                        places.share();
                    }
                    clones.push((places.clone(), model.clone()));
                }
            }
            clones.push((places, model));
            for (places, model) in clones {
                for block in (0..4).flat_map(|region| (0..400).map(move |n| at(region, n))) {
                    prop_assert_eq!(places.find(block), model.get(&block).copied());
                }
                prop_assert_eq!(places.find(u64::MAX), None);
            }
        }
    }
}
