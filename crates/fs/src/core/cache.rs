//! Buffers by block number: what is valid, what is dirty, who holds them, and which go first.
//!
//! The cache moves no bytes to or from the volume. It owns the buffers, their order of use, and the
//! count of dirty ones. Everything in it is shared with its clones until it changes, so a fork of a
//! file system copies no block.

mod order;
mod places;

use super::page::{MOST_SECTORS, Mask, Page, Shape};
use crate::call::Ino;
use crate::cow::CowTable;
use crate::tx::{BlockNo, PageKind};
use order::Order;
use places::Places;
use std::ops::Range;

/// Index of a buffer. It stays the same while the buffer is pinned.
pub type Slot = u32;

/// One block in memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its number.
    pub block: BlockNo,
    /// Its content.
    pub page: Page,
    /// Sectors that hold the content of the volume, or newer content.
    pub valid: Mask,
    /// Sectors that are newer than the volume; all of them are valid.
    pub dirty: Mask,
    /// Sectors that could not be read, while a call pins the buffer. Those that are valid too were
    /// overwritten since.
    pub bad: Mask,
    /// Sectors with a seal that was found right, or that will be set.
    pub checked: Mask,
    /// What each dirty sector holds.
    pub kinds: [PageKind; MOST_SECTORS],
    /// The kind under which it was used last.
    pub kind: PageKind,
    /// Calls that need it to stay.
    pub pins: u32,
    /// A read is in flight that fills its invalid sectors.
    pub reading: bool,
    /// A write is in flight, of changes made in this epoch.
    pub writing: Option<u64>,
    /// No write of it has begun since the block was free as a whole.
    pub unwritten: bool,
    /// It wants to be written again when the write in flight is done.
    pub again: bool,
    /// Dirty sectors of which the last write has carried old bytes.
    pub kept: Mask,
    /// The epoch in which the oldest change that is not being written was made.
    pub epoch: u64,
    /// The second in which the syncer writes it.
    pub due: u64,
    /// An inode that its changes belong to, and that [`super::owned::Owned`] knows; 0 for none.
    pub owner: Ino,
    /// The transaction that changed it last.
    pub touched: u64,
}

/// The buffers of a file system. A clone shares them until one of the two changes them.
#[derive(Clone, Debug)]
pub struct Cache {
    shape: Shape,
    buffers: CowTable<Buffer>,
    places: Places,
    order: Order,
    /// The content of a new buffer.
    zeros: Page,
    dirty: usize,
}

impl Cache {
    /// No buffers.
    pub fn new(shape: Shape) -> Cache {
        Cache {
            shape,
            buffers: CowTable::default(),
            places: Places::new(shape.blocks()),
            order: Order::default(),
            zeros: Page::zeros(shape.block_bytes),
            dirty: 0,
        }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.buffers.share();
        self.places.share();
        self.order.share();
    }

    /// Number of buffers.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// True without buffers.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        (self.len() * self.shape.block_bytes) as u64
    }

    /// Number of dirty buffers.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// A page of zeros that is shared until it changes.
    pub fn zeros(&self) -> Page {
        self.zeros.clone()
    }

    /// True if a block has changes that are not written, or a write in flight.
    pub fn is_unwritten(&self, block: BlockNo) -> bool {
        let buffer = self.find(block).map(|slot| self.get(slot));
        buffer.is_some_and(|one| one.dirty != 0 || one.writing.is_some())
    }

    /// Blocks with changes that are not written, or with a write in flight, in order.
    pub fn unwritten(&self) -> Vec<BlockNo> {
        let buffers = self.buffers.values();
        let is_unwritten = |buffer: &&Buffer| buffer.dirty != 0 || buffer.writing.is_some();
        let mut blocks: Vec<BlockNo> = buffers.filter(is_unwritten).map(|b| b.block).collect();
        blocks.sort_unstable();
        blocks
    }

    /// The buffers of some blocks.
    pub fn slots_in(&self, blocks: &Range<BlockNo>) -> Vec<Slot> {
        if blocks.end - blocks.start <= self.len() as u64 {
            return blocks.clone().filter_map(|block| self.find(block)).collect();
        }
        let buffers = self.buffers.values().filter(|buffer| blocks.contains(&buffer.block));
        let mut found: Vec<BlockNo> = buffers.map(|buffer| buffer.block).collect();
        found.sort_unstable();
        found.into_iter().filter_map(|block| self.find(block)).collect()
    }

    /// The buffer of a block.
    #[inline]
    pub fn find(&self, block: BlockNo) -> Option<Slot> {
        self.places.find(block)
    }

    /// A buffer.
    #[inline]
    pub fn get(&self, slot: Slot) -> &Buffer {
        self.buffers.get(slot).expect("a slot in use")
    }

    /// A buffer, to be changed. Dirty bits change only through [`Cache::set_dirty`]
    /// and [`Cache::make_dirty`].
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut Buffer {
        self.buffers.get_mut(slot).expect("a slot in use")
    }

    /// Adds dirty sectors to a buffer.
    #[inline]
    pub fn make_dirty(&mut self, slot: Slot, sectors: Mask) -> &mut Buffer {
        let buffer = self.buffers.get_mut(slot).expect("a slot in use");
        self.dirty += usize::from(buffer.dirty == 0 && sectors != 0);
        buffer.dirty |= sectors;
        buffer
    }

    /// Sectors mean nothing.
    pub fn forget(&mut self, slot: Slot, sectors: Mask) {
        let dirty = self.get(slot).dirty & !sectors;
        self.set_dirty(slot, dirty);
        self.get_mut(slot).valid &= !sectors;
    }

    /// Sets the dirty sectors of a buffer. True if it was clean before and is dirty now.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: Mask) -> bool {
        let buffer = self.buffers.get_mut(slot).expect("a slot in use");
        debug_assert_eq!(dirty & !buffer.valid, 0, "dirty sectors are valid");
        let before = std::mem::replace(&mut buffer.dirty, dirty) != 0;
        match (before, dirty != 0) {
            (false, true) => self.dirty += 1,
            (true, false) => self.dirty -= 1,
            _ => {}
        }
        !before && dirty != 0
    }

    /// The buffer of a block, made without content if there is none.
    pub fn find_or_make(&mut self, block: BlockNo, kind: PageKind) -> Slot {
        if let Some(slot) = self.find(block) {
            return slot;
        }
        let slot = self.buffers.insert(Buffer {
            block,
            page: self.zeros.clone(),
            valid: 0,
            dirty: 0,
            bad: 0,
            checked: 0,
            kinds: [kind; MOST_SECTORS],
            kind,
            pins: 0,
            reading: false,
            writing: None,
            unwritten: false,
            again: false,
            kept: 0,
            epoch: 0,
            due: 0,
            owner: 0,
            touched: 0,
        });
        self.places.insert(block, slot);
        self.order.append(slot);
        slot
    }

    /// Notes a use of a buffer.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.order.touch(slot);
    }

    /// Drops a buffer that is clean and that no one holds, least recently used first. False if
    /// there is none among the `most` oldest.
    pub fn evict(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(slot) = self.order.oldest() else { return false };
            if self.is_free(slot) {
                self.remove(slot);
                return true;
            }
            // Out of the way: the next search begins behind it.
            self.touch(slot);
        }
        false
    }

    /// True if a buffer may go.
    pub fn is_free(&self, slot: Slot) -> bool {
        let buffer = self.get(slot);
        buffer.dirty == 0 && buffer.pins == 0 && !buffer.reading && buffer.writing.is_none()
    }

    /// Drops a buffer.
    pub fn remove(&mut self, slot: Slot) {
        debug_assert!(self.is_free(slot), "a buffer in use stays");
        self.order.remove(slot);
        let buffer = self.buffers.remove(slot).expect("a slot in use");
        self.places.remove(buffer.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Cache {
        Cache::new(Shape {
            block_bytes: 4096,
            fragment_bytes: 4096,
            mixed: false,
            engine_blocks: 100,
        })
    }

    #[test]
    fn the_least_recently_used_clean_buffer_goes_first() {
        let mut cache = cache();
        let slots: Vec<Slot> = (0..4).map(|n| cache.find_or_make(n, PageKind::Data)).collect();
        cache.get_mut(slots[1]).valid = 1;
        assert!(cache.set_dirty(slots[1], 1));
        cache.get_mut(slots[2]).pins = 1;
        cache.touch(slots[0]);
        assert!(cache.evict(4));
        assert_eq!(cache.find(3), None, "1 is dirty, 2 is pinned, 0 was used later");
        assert!(cache.evict(4));
        assert_eq!(cache.find(0), None);
        assert!(!cache.evict(4));
        assert!(!cache.set_dirty(slots[1], 0));
        cache.get_mut(slots[2]).pins = 0;
        assert!(cache.evict(4) && cache.evict(4) && !cache.evict(4));
        assert_eq!((cache.len(), cache.dirty()), (0, 0));
    }
}
