//! What reads must return: a flat table of versions beside the volume.
//!
//! Every write carries stamps: the block it is meant for and a version that counts up. While
//! writes to one block overlap in time, the order in which they take effect is the device's
//! affair, so the table holds for each block the range of versions that a read may return. Where
//! writes do not overlap, the range is exactly one version.

use seekless_engine::checksum::are_zeros;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::table::Table;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use slab::Slab;
use std::fmt;

/// Blocks in a page. Random writes to a large disk fill one block of a page each.
const PAGE: usize = 16;

/// What is known of one block. Version 0 stands for zeros, which is what was never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell {
    /// Youngest version handed in.
    latest: u32,
    /// Oldest version that a read submitted now may return.
    floor: u32,
    /// First of the overlapping writes in flight.
    first: u32,
    /// Writes in flight.
    busy: u32,
    /// Youngest version that is zeros, because it is a trim; 0 for what was never written.
    zeros: u32,
}

impl Cell {
    /// A block that holds this version and is not being written.
    fn quiet(version: u32) -> Cell {
        Cell { latest: version, floor: version, ..Cell::default() }
    }

    /// True if the latest version says it all. A read under way may still find an old trim.
    fn is_quiet(&self) -> bool {
        self.busy == 0 && self.floor == self.latest && self.zeros == 0
    }
}

/// Set where a block has a cell, whose number is in the other bits.
const HAS_CELL: u64 = 1 << 63;

/// The table. Sparse, since a simulated disk may be much larger than what is written.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// For each block the version of a quiet one, or the number of its cell.
    pages: Table<Box<[u64; PAGE]>>,
    cells: Slab<Cell>,
}

/// What was found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeros.
    Zeros,
    /// This version of this block.
    Stamp {
        /// Block the content was written to.
        key: u64,
        /// Its version.
        version: u64,
    },
    /// Bytes that no client wrote.
    Garbage,
    /// The answer had another length than the request.
    Length {
        /// Blocks in the answer.
        blocks: u32,
    },
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Zeros => f.write_str("zeros"),
            Found::Stamp { key, version } => write!(f, "version {version} of block {key}"),
            Found::Garbage => f.write_str("bytes that no client wrote"),
            Found::Length { blocks } => write!(f, "an answer of {blocks} blocks"),
        }
    }
}

/// A read returned what it must not return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block} read back wrong: expected {}, found {found}", versions(*.oldest, *.newest))]
pub struct WrongContent {
    /// Block of the volume.
    pub block: BlockNr,
    /// Oldest version that would have been right; 0 stands for zeros.
    pub oldest: u32,
    /// Youngest version that would have been right.
    pub newest: u32,
    /// What came instead.
    pub found: Found,
}

fn versions(oldest: u32, newest: u32) -> String {
    match (oldest, newest) {
        (0, 0) => "zeros".to_owned(),
        (a, b) if a == b => format!("version {a}"),
        (a, b) => format!("a version from {a} to {b}"),
    }
}

impl Oracle {
    /// A table for a volume of `blocks` blocks, all of them zeros.
    pub fn new(blocks: u64) -> Oracle {
        Oracle { pages: Table::new(blocks.div_ceil(PAGE as u64)), cells: Slab::new() }
    }

    fn cell(&self, block: BlockNr) -> Cell {
        let word =
            self.pages.get(block as usize / PAGE).map_or(0, |page| page[block as usize % PAGE]);
        match word & HAS_CELL {
            0 => Cell::quiet(word as u32),
            _ => self.cells[(word & !HAS_CELL) as usize],
        }
    }

    /// Changes what is known of a block.
    fn change(&mut self, block: BlockNr, change: impl FnOnce(&mut Cell)) {
        let page = self.pages.entry(block as usize / PAGE, || Box::new([0; PAGE]));
        let word = &mut page[block as usize % PAGE];
        if *word & HAS_CELL == 0 {
            *word = HAS_CELL | self.cells.insert(Cell::quiet(*word as u32)) as u64;
        }
        let number = (*word & !HAS_CELL) as usize;
        let cell = &mut self.cells[number];
        change(cell);
        if cell.is_quiet() {
            *word = u64::from(cell.latest);
            self.cells.remove(number);
        }
    }

    /// A hint: something about this block is noted soon. It is fetched from memory meanwhile.
    pub fn expect(&self, block: BlockNr) {
        if let Some(page) = self.pages.get(block as usize / PAGE) {
            std::hint::black_box(page[block as usize % PAGE]);
        }
    }

    /// Notes that version `version` of `count` blocks is handed in. Versions count up.
    #[inline(always)]
    pub fn write_begins(&mut self, at: BlockNr, count: u32, version: u32) {
        for block in at..at + u64::from(count) {
            self.change(block, |cell| {
                if cell.busy == 0 {
                    cell.first = version;
                }
                cell.busy += 1;
                cell.latest = version;
            });
        }
    }

    /// Notes that a trim of `count` blocks is handed in as version `version`: a write of zeros. It
    /// ends as a write does.
    pub fn trim_begins(&mut self, at: BlockNr, count: u32, version: u32) {
        self.write_begins(at, count, version);
        for block in at..at + u64::from(count) {
            self.change(block, |cell| cell.zeros = version);
        }
    }

    /// Notes that a write is acknowledged. Once no other write to a block is in flight, what was
    /// there before can never come back.
    pub fn write_ends(&mut self, at: BlockNr, count: u32) {
        for block in at..at + u64::from(count) {
            self.change(block, |cell| {
                cell.busy -= 1;
                if cell.busy == 0 {
                    cell.floor = cell.first;
                }
            });
        }
    }

    /// Notes for a read that is handed in the oldest version that each block may return.
    pub fn read_begins(&self, at: BlockNr, floors: &mut [u32]) {
        for (floor, block) in floors.iter_mut().zip(at..) {
            *floor = self.cell(block).floor;
        }
    }

    /// Checks the answer to a read against what was noted at its beginning.
    ///
    /// # Errors
    /// The first block with wrong content.
    pub fn read_ends(&self, at: BlockNr, floors: &[u32], data: &Data) -> Result<(), WrongContent> {
        let wrong = |index: usize, found| {
            let block = at + index as u64;
            let newest = self.cell(block).latest;
            Err(WrongContent { block, oldest: floors[index], newest, found })
        };
        if data.blocks() as usize != floors.len() {
            return wrong(0, Found::Length { blocks: data.blocks() });
        }
        let mut index = 0;
        for piece in data.pieces() {
            for offset in 0..piece.blocks {
                let block = at + index as u64;
                let found = identify(&piece.body, offset);
                let version = match found {
                    Found::Zeros => Some(u64::from(self.cell(block).zeros)),
                    Found::Stamp { key, version } if key == block => Some(version),
                    _ => None,
                };
                let newest = self.cell(block).latest;
                let right = u64::from(floors[index])..=u64::from(newest);
                if !version.is_some_and(|version| right.contains(&version)) {
                    return wrong(index, found);
                }
                index += 1;
            }
        }
        Ok(())
    }
}

/// What block `offset` of a piece holds. Real bytes count as a stamp if they are the bytes that
/// the stamp stands for, all of them.
fn identify(body: &Body, offset: u32) -> Found {
    let bytes = match body {
        Body::Zeros => return Found::Zeros,
        Body::Stamp { key, version } => {
            return Found::Stamp { key: key + u64::from(offset), version: *version };
        }
        Body::Bytes(bytes) => &bytes[offset as usize * BLOCK_BYTES..][..BLOCK_BYTES],
        Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => {
            &Piece::block(body.clone()).to_bytes()
        }
    };
    if are_zeros(bytes) {
        return Found::Zeros;
    }
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(word)
    };
    // The first two words of a stamped block are its key and version as they are.
    let (key, version) = (word(0), word(8));
    if Data::stamp(1, key, version).to_bytes() == bytes {
        Found::Stamp { key, version }
    } else {
        Found::Garbage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::Bytes;

    fn begin(oracle: &Oracle, at: BlockNr) -> u32 {
        let mut floors = [0];
        oracle.read_begins(at, &mut floors);
        floors[0]
    }

    fn allowed(oracle: &Oracle, floor: u32, version: u64) -> bool {
        let data = if version == 0 { Data::zeros(1) } else { Data::stamp(1, 7, version) };
        oracle.read_ends(7, &[floor], &data).is_ok()
    }

    #[test]
    fn without_overlap_exactly_one_version_is_right() {
        let mut oracle = Oracle::new(10);
        for version in 1..5 {
            oracle.write_begins(7, 1, version);
            oracle.write_ends(7, 1);
            let floor = begin(&oracle, 7);
            for read in 0..6 {
                assert_eq!(allowed(&oracle, floor, read), read == u64::from(version));
            }
        }
    }

    #[test]
    fn a_read_beside_a_write_sees_old_or_new() {
        let mut oracle = Oracle::new(10);
        oracle.write_begins(7, 1, 1);
        oracle.write_ends(7, 1);
        let before = begin(&oracle, 7);
        oracle.write_begins(7, 1, 2);
        let during = begin(&oracle, 7);
        oracle.write_ends(7, 1);
        let after = begin(&oracle, 7);
        for floor in [before, during] {
            assert!(allowed(&oracle, floor, 1) && allowed(&oracle, floor, 2));
            assert!(!allowed(&oracle, floor, 0));
        }
        assert!(!allowed(&oracle, after, 1) && allowed(&oracle, after, 2));
    }

    #[test]
    fn overlapping_writes_may_end_in_either_order() {
        let mut oracle = Oracle::new(10);
        oracle.write_begins(7, 1, 1);
        oracle.write_begins(7, 1, 2);
        oracle.write_ends(7, 1);
        oracle.write_ends(7, 1);
        let floor = begin(&oracle, 7);
        assert!(allowed(&oracle, floor, 1) && allowed(&oracle, floor, 2));
        assert!(!allowed(&oracle, floor, 0));
    }

    #[test]
    fn a_trim_is_a_version_of_zeros() {
        let mut oracle = Oracle::new(10);
        oracle.write_begins(7, 1, 1);
        oracle.write_ends(7, 1);
        let before = begin(&oracle, 7);
        assert!(!allowed(&oracle, before, 0), "nothing was trimmed yet");
        oracle.trim_begins(7, 1, 2);
        assert!(allowed(&oracle, before, 0) && allowed(&oracle, before, 1), "it may have happened");
        oracle.write_ends(7, 1);
        let after = begin(&oracle, 7);
        assert!(allowed(&oracle, after, 0) && !allowed(&oracle, after, 1));
        oracle.write_begins(7, 1, 3);
        oracle.write_ends(7, 1);
        let last = begin(&oracle, 7);
        assert!(!allowed(&oracle, last, 0) && allowed(&oracle, last, 3));
    }

    #[test]
    fn content_of_another_block_is_wrong() {
        let mut oracle = Oracle::new(2000);
        oracle.write_begins(600, 3, 9);
        oracle.write_ends(600, 3);
        let right = Data::stamp(3, 600, 9);
        let floors = [9; 3];
        assert_eq!(oracle.read_ends(600, &floors, &right), Ok(()));
        assert_eq!(oracle.read_ends(600, &floors, &Data::bytes(right.to_bytes())), Ok(()));
        let mut swapped = Data::stamp(1, 600, 9);
        swapped.append(Data::stamp(2, 600, 9));
        let error = oracle.read_ends(600, &floors, &swapped).unwrap_err();
        assert_eq!((error.block, error.found), (601, Found::Stamp { key: 600, version: 9 }));
        let mut torn = right.to_bytes().to_vec();
        torn[2 * BLOCK_BYTES + 512..][..512].fill(0);
        let error = oracle.read_ends(600, &floors, &Data::bytes(Bytes::from(torn))).unwrap_err();
        assert_eq!((error.block, error.found), (602, Found::Garbage));
        let short = oracle.read_ends(600, &floors, &Data::stamp(2, 600, 9)).unwrap_err();
        assert_eq!(short.found, Found::Length { blocks: 2 });
    }
}
