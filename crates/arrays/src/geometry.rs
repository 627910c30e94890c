//! Where the blocks of an array lie: pure arithmetic.
//!
//! RAID-0 deals chunks out in turn; RAID-1 keeps every chunk on all members; RAID-5 is the
//! left-symmetric arrangement of Lee and Katz (ASPLOS 1991): parity moves one member down with each
//! stripe, and the data of a stripe begins behind it, so that reading in order meets all members.

use super::Level;
use seekless_engine::units::BlockNr;

/// The arithmetic of one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Its level.
    pub level: Level,
    /// Number of members.
    pub members: usize,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// First block of a member that holds chunks.
    pub first: BlockNr,
    /// Chunks on each member.
    pub stripes: u64,
}

/// Where a block lies in its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stripe.
    pub stripe: u64,
    /// Which of the stripe's data chunks.
    pub index: usize,
    /// Block in the chunk.
    pub row: u32,
}

impl Geometry {
    /// Data chunks in a stripe.
    pub fn data_chunks(&self) -> usize {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid1 => 1,
            Level::Raid5 => self.members - 1,
        }
    }

    /// Data blocks in a stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.data_chunks() as u64 * u64::from(self.chunk)
    }

    /// Size of the array in blocks.
    pub fn blocks(&self) -> u64 {
        self.stripes * self.stripe_blocks()
    }

    /// Where block `at` of the array lies.
    pub fn place(&self, at: BlockNr) -> Place {
        let (chunk, row) = (at / u64::from(self.chunk), at % u64::from(self.chunk));
        let data = self.data_chunks() as u64;
        Place { stripe: chunk / data, index: (chunk % data) as usize, row: row as u32 }
    }

    /// The member that holds the parity of a stripe.
    pub fn parity(&self, stripe: u64) -> Option<usize> {
        let n = self.members as u64;
        (self.level == Level::Raid5).then(|| (n - 1 - stripe % n) as usize)
    }

    /// The member that holds data chunk `index` of a stripe; of a mirror, the first.
    pub fn member(&self, stripe: u64, index: usize) -> usize {
        debug_assert!(index < self.members, "chunk {index} of {} members", self.members);
        match self.parity(stripe) {
            Some(parity) => (parity + 1 + index) % self.members,
            None => index,
        }
    }

    /// The data chunk of a stripe that a member holds, unless it holds the parity.
    pub fn index(&self, stripe: u64, member: usize) -> Option<usize> {
        match (self.level, self.parity(stripe)) {
            (Level::Raid1, _) => Some(0),
            (_, None) => Some(member),
            (_, Some(parity)) if parity == member => None,
            (_, Some(parity)) => Some((member + self.members - parity - 1) % self.members),
        }
    }

    /// The block of a member that holds a row of its chunk in a stripe.
    pub fn block(&self, stripe: u64, row: u32) -> BlockNr {
        debug_assert!(row < self.chunk, "row {row} of a chunk of {} blocks", self.chunk);
        self.first + stripe * u64::from(self.chunk) + u64::from(row)
    }

    /// The stripe that a block of a member belongs to, and the row.
    pub fn stripe_of(&self, block: BlockNr) -> (u64, u32) {
        debug_assert!(block >= self.first, "block {block} is before the first chunk");
        let chunk = u64::from(self.chunk);
        let inside = block - self.first;
        (inside / chunk, (inside % chunk) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn each_geometry(mut act: impl FnMut(Geometry)) {
        for level in [Level::Raid0, Level::Raid1, Level::Raid5] {
            for members in level.least_members()..7 {
                for chunk in [1, 3, 16] {
                    act(Geometry { level, members, chunk, first: 5, stripes: 23 });
                }
            }
        }
    }

    #[test]
    fn every_block_has_a_place_of_its_own_beside_the_parity() {
        each_geometry(|geometry| {
            let mut used = BTreeMap::new();
            for at in 0..geometry.blocks() {
                let Place { stripe, index, row } = geometry.place(at);
                let member = geometry.member(stripe, index);
                let block = geometry.block(stripe, row);
                assert_eq!(geometry.index(stripe, member), Some(index));
                assert_eq!(geometry.stripe_of(block), (stripe, row));
                assert_ne!(geometry.parity(stripe), Some(member));
                assert_eq!(used.insert((member, block), at), None, "{geometry:?}");
            }
            let chunks = if geometry.level == Level::Raid1 { 1 } else { geometry.data_chunks() };
            let rows = geometry.stripes * u64::from(geometry.chunk);
            assert_eq!(used.len() as u64, rows * chunks as u64);
        });
    }

    /// The table that Linux's md documentation and the RAID literature print for five members.
    #[test]
    fn the_arrangement_is_left_symmetric() {
        let geometry = Geometry { level: Level::Raid5, members: 5, chunk: 1, first: 0, stripes: 5 };
        let mut rows = Vec::new();
        for stripe in 0..5 {
            let mut row =
                ["P".to_owned(), String::new(), String::new(), String::new(), String::new()];
            row.swap(0, geometry.parity(stripe).expect("has one"));
            for index in 0..4 {
                row[geometry.member(stripe, index)] = (stripe * 4 + index as u64).to_string();
            }
            rows.push(row.join(" "));
        }
        let table = ["0 1 2 3 P", "5 6 7 P 4", "10 11 P 8 9", "15 P 12 13 14", "P 16 17 18 19"];
        assert_eq!(rows, table);
    }

    #[test]
    fn reading_in_order_meets_all_members() {
        let geometry =
            Geometry { level: Level::Raid5, members: 4, chunk: 2, first: 0, stripes: 40 };
        for start in 0..100 {
            let chunks = (0..4).map(|n| geometry.place((start + n) * 2));
            let mut members: Vec<usize> =
                chunks.map(|place| geometry.member(place.stripe, place.index)).collect();
            members.sort_unstable();
            assert_eq!(members, [0, 1, 2, 3], "chunks {start} and the next three");
        }
    }
}
