//! The content of a buffer: one block of the file system, shared by reference with writes in
//! flight, and masks of its sectors.
//!
//! A change of a page that a write in flight shares copies the page first, so a write carries the
//! bytes of the moment in which it began.

use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a sector: the unit of validity, of dirtiness and of seals.
pub const SECTOR: usize = 512;

/// Sectors of a block of an engine.
pub const ENGINE_SECTORS: usize = 8;

/// Bytes of a block of an engine.
pub const ENGINE_BYTES: usize = ENGINE_SECTORS * SECTOR;

/// Most sectors of a block of a file system.
pub const MOST_SECTORS: usize = 16;

/// A set of sectors of one block; bit 0 is the first.
pub type Mask = u16;

/// Sizes of the blocks of a file system and of the volume below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a block: 4096 or 8192.
    pub block_bytes: usize,
    /// Bytes of a fragment.
    pub fragment_bytes: usize,
    /// Blocks may be divided between a directory and a file.
    pub mixed: bool,
    /// Blocks of the volume, of 4096 bytes each.
    pub engine_blocks: u64,
}

impl Shape {
    /// Sectors of a block.
    #[inline]
    pub fn sectors(&self) -> usize {
        self.block_bytes / SECTOR
    }

    /// Blocks of the volume in a block of the file system.
    #[inline]
    pub fn engine_per_block(&self) -> u64 {
        (self.block_bytes / ENGINE_BYTES) as u64
    }

    /// All sectors of a block.
    #[inline]
    pub fn whole(&self) -> Mask {
        mask(0, self.block_bytes)
    }

    /// Blocks of the file system that the volume holds, the last perhaps in part.
    pub fn blocks(&self) -> u64 {
        self.engine_blocks.div_ceil(self.engine_per_block())
    }
}

/// The sectors that `length` bytes from `at` on touch.
#[inline]
pub fn mask(at: usize, length: usize) -> Mask {
    if length == 0 {
        return 0;
    }
    let (first, last) = (at / SECTOR, (at + length - 1) / SECTOR);
    debug_assert!(last < MOST_SECTORS, "{at}+{length} lies in a block");
    let upto = ((1_u32 << (last + 1)) - 1) as Mask;
    upto & !(((1_u32 << first) - 1) as Mask)
}

/// The sectors of the engine block `index` of a block.
#[inline]
pub fn engine_mask(index: usize) -> Mask {
    0xff << (index * ENGINE_SECTORS)
}

/// The sectors of a range.
#[inline]
pub fn run_mask(run: &Range<usize>) -> Mask {
    mask(run.start * SECTOR, run.len() * SECTOR)
}

/// The neighbouring sectors of a mask around one of them.
#[inline]
pub fn run_around(mask: Mask, sector: usize) -> Range<usize> {
    debug_assert!(mask & (1 << sector) != 0, "{sector} is in {mask:#b}");
    let is_in = |index: &usize| mask & (1 << *index) != 0;
    let before = (0..sector).rev().take_while(is_in).count();
    let after = (sector..MOST_SECTORS).take_while(is_in).count();
    sector - before..sector + after
}

/// The sectors of a mask, in order.
pub fn each(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let index = rest.trailing_zeros() as usize;
        rest &= rest.checked_sub(1)?;
        Some(index)
    })
}

/// The bytes of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(Arc<[u8]>);

impl Page {
    /// Zeros.
    pub fn zeros(bytes: usize) -> Page {
        Page(std::iter::repeat_n(0, bytes).collect())
    }

    /// The content.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The content, to be changed; copied first if a write in flight shares it.
    #[inline]
    pub fn make_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0)
    }

    /// A part of the content by reference.
    pub fn share(&self, from: usize, to: usize) -> Bytes {
        Bytes::from_owner(Owner(Arc::clone(&self.0))).slice(from..to)
    }
}

/// Lets [`Bytes`] hold a page.
struct Owner(Arc<[u8]>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_the_sectors_that_bytes_touch() {
        assert_eq!(mask(0, 0), 0);
        assert_eq!(mask(0, 1), 1);
        assert_eq!(mask(511, 2), 3);
        assert_eq!(mask(4096, 4096), 0xff00);
        assert_eq!(mask(0, 8192), 0xffff);
        assert_eq!(engine_mask(1), 0xff00);
        assert_eq!((run_around(0b1011_1001, 4), run_around(0b1011_1001, 0)), (3..6, 0..1));
        assert_eq!((run_around(0xffff, 9), run_around(0xff00, 15)), (0..16, 8..16));
        assert_eq!(run_mask(&(3..6)), 0b11_1000);
        assert_eq!(each(0b1010).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn a_shared_page_keeps_its_bytes_when_the_page_changes() {
        let mut page = Page::zeros(4096);
        page.make_mut()[1] = 7;
        let image = page.share(0, 4096);
        page.make_mut()[1] = 8;
        assert_eq!((image[1], page.bytes()[1]), (7, 8));
    }
}
