//! Bitmaps of a group: sectors of 4032 bits, each byte low bit first; a set bit is in use.

use crate::ffs::ondisk::format::SECTOR_BITS;
use crate::ffs::ondisk::geometry::{Bit, Geometry};
use seekless_fs::tx::{BlockNo, Field, PageKind, SECTOR_CONTENT, Stop, Tx};

/// Bytes of a sector with its seal.
const SECTOR: u64 = 512;

/// One bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Its first sector, counted from the start of the file system.
    first_sector: u64,
    block_bytes: u64,
    /// Bits that count.
    pub count: u32,
}

impl Bits {
    /// The fragments of a group.
    pub fn fragments(geometry: &Geometry, group: u32) -> Bits {
        let first = geometry.fragment_bit(geometry.group_start(group));
        Bits::new(geometry, first, geometry.group_fragments(group))
    }

    /// The inodes of a group.
    pub fn inodes(geometry: &Geometry, group: u32) -> Bits {
        let count = geometry.sizes().inodes_per_group;
        Bits::new(geometry, geometry.inode_bit(group * count), count)
    }

    fn new(geometry: &Geometry, first: Bit, count: u32) -> Bits {
        let block_bytes = geometry.block_bytes() as u64;
        let first_sector = (first.block * block_bytes + first.at as u64) / SECTOR;
        Bits { first_sector, block_bytes, count }
    }

    /// Block and offset of a sector of the bitmap.
    fn sector(self, number: u32) -> (BlockNo, usize) {
        let at = (self.first_sector + u64::from(number)) * SECTOR;
        (at / self.block_bytes, (at % self.block_bytes) as usize)
    }

    /// Block and offset of the byte that holds a bit.
    fn byte(self, bit: u32) -> (BlockNo, usize) {
        let (block, offset) = self.sector(bit / SECTOR_BITS);
        (block, offset + (bit % SECTOR_BITS / 8) as usize)
    }

    /// `length` bits from `bit` on, which lie in one byte.
    ///
    /// # Errors
    /// Those of [`Tx::page`].
    pub fn get(self, tx: &mut dyn Tx, bit: u32, length: u32) -> Result<u8, Stop> {
        debug_assert!(bit % 8 + length <= 8);
        let (block, at) = self.byte(bit);
        let byte = tx.page(block, PageKind::Bitmap)?[at];
        Ok((byte >> (bit % 8)) & ones(length))
    }

    /// The byte that holds a bit.
    pub fn field(self, bit: u32) -> Field {
        let (block, at) = self.byte(bit);
        Field::new(block, at, 1)
    }

    /// Replaces `length` bits from `bit` on, which lie in one byte.
    ///
    /// # Errors
    /// Those of [`Tx::page`].
    pub fn put(self, tx: &mut dyn Tx, bit: u32, length: u32, value: u8) -> Result<(), Stop> {
        let (block, at) = self.byte(bit);
        let byte = tx.page(block, PageKind::Bitmap)?[at];
        let mask = ones(length) << (bit % 8);
        tx.set(block, at, &[(byte & !mask) | (value << (bit % 8))]);
        Ok(())
    }

    /// Offers the words of the bits `from..to` in ascending order, with the number of their first
    /// bit, until one gives a result. Bits outside of the range are offered as set.
    ///
    /// # Errors
    /// Those of [`Tx::page`].
    pub fn scan<T>(
        self,
        tx: &mut dyn Tx,
        from: u32,
        to: u32,
        mut look: impl FnMut(u32, u64) -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let to = to.min(self.count);
        let mut bit = from;
        while bit < to {
            let number = bit / SECTOR_BITS;
            let (block, offset) = self.sector(number);
            let page = tx.page(block, PageKind::Bitmap)?;
            let content = &page[offset..offset + SECTOR_CONTENT];
            let end = to.min((number + 1) * SECTOR_BITS);
            let first_word = bit % SECTOR_BITS / 64;
            for (n, word) in content.chunks_exact(8).enumerate().skip(first_word as usize) {
                let base = number * SECTOR_BITS + n as u32 * 64;
                if base >= end {
                    break;
                }
                let mut bits = u64::from_le_bytes(word.try_into().expect("a word is 8 bytes"));
                bits |= outside(base, bit, end);
                if let Some(found) = look(base, bits) {
                    return Ok(Some(found));
                }
            }
            bit = end;
        }
        Ok(None)
    }
}

/// The lowest `length` bits.
pub fn ones(length: u32) -> u8 {
    ((1u32 << length) - 1) as u8
}

/// The bits of a word that lie outside of `from..to`.
fn outside(base: u32, from: u32, to: u32) -> u64 {
    let mut mask = 0;
    if from > base {
        mask |= (1u64 << (from - base)) - 1;
    }
    if to < base + 64 {
        mask |= u64::MAX << (to - base);
    }
    mask
}

/// The first bits of the blocks of a word that are free as a whole.
pub fn free_blocks(word: u64, fragments_per_block: u32) -> u64 {
    let free = !word;
    match fragments_per_block {
        1 => free,
        2 => free & (free >> 1) & 0x5555_5555_5555_5555,
        4 => {
            let pairs = free & (free >> 1);
            pairs & (pairs >> 2) & 0x1111_1111_1111_1111
        }
        _ => {
            let pairs = free & (free >> 1);
            let fours = pairs & (pairs >> 2);
            fours & (fours >> 4) & 0x0101_0101_0101_0101
        }
    }
}

/// Calls with start and length of each run of free fragments of a block.
pub fn free_runs(mask: u8, fragments_per_block: u32, mut each: impl FnMut(u32, u32)) {
    let mut start = None;
    for bit in 0..=fragments_per_block {
        let free = bit < fragments_per_block && mask & (1 << bit) == 0;
        match (free, start) {
            (true, None) => start = Some(bit),
            (false, Some(first)) => {
                each(first, bit - first);
                start = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_blocks_are_those_without_a_set_bit() {
        for per_block in [1u32, 2, 4, 8] {
            for word in [0u64, u64::MAX, 0x8001_0f00_f0ff_0180, 0x0102_0408_1020_4080] {
                let mut expected = 0;
                for first in (0..64).step_by(per_block as usize) {
                    if (word >> first) as u8 & ones(per_block) == 0 {
                        expected |= 1 << first;
                    }
                }
                assert_eq!(free_blocks(word, per_block), expected, "{word:x} by {per_block}");
            }
        }
    }

    #[test]
    fn runs_of_a_block_are_maximal() {
        let mut runs = Vec::new();
        free_runs(0b0110_0100, 8, |at, length| runs.push((at, length)));
        assert_eq!(runs, [(0, 2), (3, 2), (7, 1)]);
    }
}
