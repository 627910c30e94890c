//! Buffers by block number: what is valid, what is dirty, who holds them, and which go first.
//!
//! The cache moves no bytes to or from the volume. It owns the buffers, their order of use, and the
//! count of dirty ones.

use super::page::{MOST_SECTORS, Mask, Page, Shape};
use crate::call::Ino;
use crate::tx::{BlockNo, PageKind};
use slab::Slab;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Index of a buffer. It stays the same while the buffer is pinned.
pub type Slot = u32;

/// No buffer: the end of the order of use.
const NONE: Slot = Slot::MAX;

/// One block in memory.
#[derive(Debug)]
pub struct Buffer {
    /// Its number.
    pub block: BlockNo,
    /// Its content.
    pub page: Page,
    /// Sectors that hold the content of the volume, or newer content.
    pub valid: Mask,
    /// Sectors that are newer than the volume; all of them are valid.
    pub dirty: Mask,
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
    /// It wants to be written again when the write in flight is done.
    pub again: bool,
    /// The epoch in which the oldest change that is not being written was made.
    pub epoch: u64,
    /// The second in which the syncer writes it.
    pub due: u64,
    /// An inode that its changes belong to, and that [`super::owned::Owned`] knows; 0 for none.
    pub owner: Ino,
    /// The transaction that changed it last.
    pub touched: u64,
    older: Slot,
    newer: Slot,
}

/// Hashes block numbers: one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// A map by number without a seed: its order reaches no decision.
pub type NumberMap<T> = HashMap<u64, T, BuildHasherDefault<BlockHasher>>;

/// The buffers of a file system.
#[derive(Debug)]
pub struct Cache {
    shape: Shape,
    buffers: Slab<Buffer>,
    by_block: NumberMap<Slot>,
    oldest: Slot,
    newest: Slot,
    dirty: usize,
}

impl Cache {
    /// No buffers.
    pub fn new(shape: Shape) -> Cache {
        Cache {
            shape,
            buffers: Slab::new(),
            by_block: NumberMap::default(),
            oldest: NONE,
            newest: NONE,
            dirty: 0,
        }
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

    /// The buffer of a block.
    #[inline]
    pub fn find(&self, block: BlockNo) -> Option<Slot> {
        self.by_block.get(&block).copied()
    }

    /// A buffer.
    #[inline]
    pub fn get(&self, slot: Slot) -> &Buffer {
        &self.buffers[slot as usize]
    }

    /// A buffer, to be changed. Dirty bits change only through [`Cache::set_dirty`].
    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> &mut Buffer {
        &mut self.buffers[slot as usize]
    }

    /// Sets the dirty sectors of a buffer. True if it was clean before and is dirty now.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot, dirty: Mask) -> bool {
        let buffer = &mut self.buffers[slot as usize];
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
            page: Page::zeros(self.shape.block_bytes),
            valid: 0,
            dirty: 0,
            checked: 0,
            kinds: [kind; MOST_SECTORS],
            kind,
            pins: 0,
            reading: false,
            writing: None,
            again: false,
            epoch: 0,
            due: 0,
            owner: 0,
            touched: 0,
            older: NONE,
            newer: NONE,
        }) as Slot;
        self.by_block.insert(block, slot);
        self.append(slot);
        slot
    }

    /// Notes a use of a buffer.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if self.newest != slot {
            self.unlink(slot);
            self.append(slot);
        }
    }

    /// Drops a buffer that is clean and that no one holds, least recently used first. False if
    /// there is none among the `most` oldest.
    pub fn evict(&mut self, most: usize) -> bool {
        let mut slot = self.oldest;
        for _ in 0..most {
            if slot == NONE {
                return false;
            }
            let newer = self.get(slot).newer;
            if self.is_free(slot) {
                self.remove(slot);
                return true;
            }
            // Out of the way: the next search begins behind it.
            self.touch(slot);
            slot = newer;
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
        self.unlink(slot);
        let buffer = self.buffers.remove(slot as usize);
        self.by_block.remove(&buffer.block);
    }

    fn unlink(&mut self, slot: Slot) {
        let Buffer { older, newer, .. } = *self.get(slot);
        match older {
            NONE => self.oldest = newer,
            older => self.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.get_mut(newer).older = older,
        }
    }

    fn append(&mut self, slot: Slot) {
        let newest = self.newest;
        let buffer = self.get_mut(slot);
        (buffer.older, buffer.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = slot,
            newest => self.get_mut(newest).newer = slot,
        }
        self.newest = slot;
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
