//! The homes of a compressed volume: where each block lies unless it is misplaced. It is a formula
//! of the areas of the device alone, so that every mount finds the same.
//!
//! The pool is cut into stripes of a megabyte. The first places of each are the homes of blocks
//! that follow one another, the rest is *spare*: free space near every head, as the empty tracks of
//! the paper's well-ordered disk (section 5.2.1). No home is ever used for another block, so a
//! misplaced block can always go home.

use super::format::{Areas, GROUP};
use seekless_engine::units::BlockNr;

/// Places of a stripe, about: a megabyte.
const STRIPE: u64 = 256;

/// Which place is the home of which block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Homes {
    areas: Areas,
    /// Places of the pool in the group that it begins in, if labels lie between them.
    in_first_group: u64,
    /// Homes of a stripe, and places of it.
    homes: u64,
    places: u64,
}

impl Homes {
    /// The homes of a volume with as many places as blocks at least, and some more.
    pub fn new(areas: Areas) -> Homes {
        let (pool, blocks) = (areas.pool(), areas.blocks);
        let slack = pool - blocks;
        // Rounding costs up to two places of each stripe.
        let stripes = (pool / STRIPE).min(slack / 2).max(1);
        let (homes, places) = (blocks.div_ceil(stripes), pool / stripes);
        debug_assert!(homes <= places, "{areas:?}");
        let start = areas.start();
        let in_first_group = (start / GROUP + 1) * GROUP - start - 1;
        Homes { areas, in_first_group, homes, places }
    }

    /// The home of a block.
    pub fn of(&self, at: BlockNr) -> u32 {
        let index = at / self.homes * self.places + at % self.homes;
        let start = self.areas.start();
        let place = if self.areas.headers {
            start + index
        } else if index < self.in_first_group {
            start + 1 + index
        } else {
            // Each group but the first has its labels in its first block.
            let behind = index - self.in_first_group;
            (start / GROUP + 1 + behind / (GROUP - 1)) * GROUP + 1 + behind % (GROUP - 1)
        };
        place as u32
    }

    /// The block whose home is at a place of the pool, if any is.
    pub fn owner(&self, place: u32) -> Option<BlockNr> {
        let (place, start) = (u64::from(place), self.areas.start());
        let index = if self.areas.headers {
            place - start
        } else if place / GROUP == start / GROUP {
            place - start - 1
        } else {
            let groups = place / GROUP - start / GROUP - 1;
            self.in_first_group + groups * (GROUP - 1) + place % GROUP - 1
        };
        let at = index / self.places * self.homes + index % self.places;
        (index % self.places < self.homes && at < self.areas.blocks).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_a_home_of_its_own_in_the_pool() {
        let sizes = [(1, 300), (500, 700), (1000, 1153), (200, 275), (9000, 11_000), (40, 126)];
        for (blocks, device_blocks) in sizes {
            for headers in [false, true] {
                let areas = Areas { blocks, device_blocks, headers };
                let homes = Homes::new(areas);
                let mut last = 0;
                for at in 0..blocks {
                    let home = homes.of(at);
                    assert!(home > last && areas.is_pool(u64::from(home)), "{areas:?}, {at}");
                    assert_eq!(homes.owner(home), Some(at), "{areas:?}");
                    last = home;
                }
                let pool = (0..device_blocks).filter(|&place| areas.is_pool(place));
                let owned = pool.filter(|&place| homes.owner(place as u32).is_some()).count();
                assert_eq!(owned as u64, blocks, "{areas:?}");
            }
        }
    }

    #[test]
    fn spare_places_are_spread_evenly() {
        let areas = Areas { blocks: 8000, device_blocks: 10_000, headers: true };
        let homes = Homes::new(areas);
        let spare = |from: u32| (from..from + 1000).filter(|&at| homes.owner(at).is_none()).count();
        for from in [1000, 3000, 5000, 7000] {
            assert!((150..250).contains(&spare(from)), "{}", spare(from));
        }
    }
}
