//! The map in memory: where each block of the volume lies, where the blocks that keep the map lie,
//! and what of it has changed since it was last written.

use super::format::{Entry, Geometry, MAP_ENTRIES};
use bytes::Bytes;
use seekless_engine::units::BlockNr;

/// A block that keeps part of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaBlock {
    /// The entries of a slice.
    Slice(u32),
    /// The places of map blocks.
    Index(u32),
}

/// Numbers that are marked, each once, in the order of marking.
#[derive(Clone, Debug, Default)]
struct Marked {
    is: Vec<bool>,
    list: Vec<u32>,
}

impl Marked {
    fn new(count: u64) -> Marked {
        Marked { is: vec![false; count as usize], list: Vec::new() }
    }

    fn mark(&mut self, number: u32) {
        if !std::mem::replace(&mut self.is[number as usize], true) {
            self.list.push(number);
        }
    }

    fn take(&mut self) -> Vec<u32> {
        for &number in &self.list {
            self.is[number as usize] = false;
        }
        std::mem::take(&mut self.list)
    }
}

/// The map.
#[derive(Clone, Debug)]
pub struct Map {
    blocks: u64,
    entries: Vec<Entry>,
    /// Where the map block of each slice lies.
    slices: Vec<Entry>,
    /// Where each index block lies.
    indices: Vec<Entry>,
    changed: Marked,
    changed_indices: Marked,
    stored: u64,
}

impl Map {
    /// A map of unmapped blocks.
    pub fn new(geometry: &Geometry) -> Map {
        let slices = geometry.slices();
        let indices = geometry.indices();
        Map {
            blocks: geometry.blocks,
            entries: vec![Entry::UNMAPPED; geometry.blocks as usize],
            slices: vec![Entry::UNMAPPED; slices as usize],
            indices: vec![Entry::UNMAPPED; indices as usize],
            changed: Marked::new(slices),
            changed_indices: Marked::new(indices),
            stored: 0,
        }
    }

    /// Blocks that are stored.
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Entry {
        self.entries[at as usize]
    }

    /// The entries of a range.
    pub fn range(&self, at: BlockNr, count: u64) -> &[Entry] {
        &self.entries[at as usize..(at + count) as usize]
    }

    /// Points to another place; returns the one before.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        debug_assert!(at < self.blocks, "block {at} of {}", self.blocks);
        let old = std::mem::replace(&mut self.entries[at as usize], entry);
        if old != entry {
            self.changed.mark((at / MAP_ENTRIES as u64) as u32);
        }
        self.stored += u64::from(entry.is_mapped());
        self.stored -= u64::from(old.is_mapped());
        old
    }

    /// How long, from `at` on, blocks stay stored or not stored, at most `limit`.
    pub fn extent(&self, at: BlockNr, limit: u64) -> (bool, u64) {
        debug_assert!(at < self.blocks && limit > 0, "an extent of {limit} blocks at {at}");
        let entries = self.range(at, limit.min(self.blocks - at));
        let mapped = entries.first().is_some_and(|entry| entry.is_mapped());
        let same = entries.iter().take_while(|entry| entry.is_mapped() == mapped);
        (mapped, (same.count() as u64).max(1))
    }

    /// Where a block of the map lies.
    pub fn place_of(&self, meta: MetaBlock) -> Entry {
        match meta {
            MetaBlock::Slice(slice) => self.slices[slice as usize],
            MetaBlock::Index(index) => self.indices[index as usize],
        }
    }

    /// A block of the map has a new place; returns the one before.
    pub fn settle(&mut self, meta: MetaBlock, entry: Entry) -> Entry {
        match meta {
            MetaBlock::Slice(slice) => {
                self.changed_indices.mark(slice / MAP_ENTRIES as u32);
                std::mem::replace(&mut self.slices[slice as usize], entry)
            }
            MetaBlock::Index(index) => std::mem::replace(&mut self.indices[index as usize], entry),
        }
    }

    /// A block of the map is to be written anew, though it has not changed.
    pub fn mark(&mut self, meta: MetaBlock) {
        match meta {
            MetaBlock::Slice(slice) => self.changed.mark(slice),
            MetaBlock::Index(index) => self.changed_indices.mark(index),
        }
    }

    /// Blocks of the map that are to be written by the next checkpoint.
    pub fn changed(&self) -> u64 {
        // Every slice that is written changes an index block.
        let slices = self.changed.list.len();
        (slices + slices.min(self.indices.len()) + self.changed_indices.list.len()) as u64
    }

    /// Slices that have changed; they count as unchanged from now on.
    pub fn take_changed(&mut self) -> Vec<u32> {
        self.changed.take()
    }

    /// Index blocks that have changed, or will when these slices are written; they count as
    /// unchanged from now on.
    pub fn take_changed_indices(&mut self, slices: &[u32]) -> Vec<u32> {
        for slice in slices {
            self.changed_indices.mark(slice / MAP_ENTRIES as u32);
        }
        self.changed_indices.take()
    }

    /// A block of the map as it is to be written; `None` if it would be empty.
    pub fn encode(&self, meta: MetaBlock) -> Option<Bytes> {
        let (entries, number) = match meta {
            MetaBlock::Slice(slice) => (&self.entries, slice),
            MetaBlock::Index(index) => (&self.slices, index),
        };
        let entries = entries.chunks(MAP_ENTRIES).nth(number as usize).unwrap_or_default();
        if entries.iter().all(|entry| !entry.is_mapped()) {
            return None;
        }
        let mut out: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
        out.resize(MAP_ENTRIES * 8, 0);
        Some(Bytes::from(out))
    }

    /// The index blocks, for a checkpoint record.
    pub fn roots(&self) -> &[Entry] {
        &self.indices
    }

    /// The map blocks.
    pub fn slices(&self) -> &[Entry] {
        &self.slices
    }

    /// What a recovery found in an index block or a map block.
    pub fn restore(&mut self, meta: MetaBlock, found: &[Entry]) {
        let (entries, number) = match meta {
            MetaBlock::Slice(slice) => (&mut self.entries, slice),
            MetaBlock::Index(index) => (&mut self.slices, index),
        };
        let at = number as usize * MAP_ENTRIES;
        let end = entries.len().min(at + MAP_ENTRIES);
        entries[at..end].copy_from_slice(&found[..end - at]);
        if let MetaBlock::Slice(_) = meta {
            self.stored += found.iter().filter(|entry| entry.is_mapped()).count() as u64;
        }
    }

    /// What a recovery found in a checkpoint record.
    pub fn restore_roots(&mut self, roots: &[Entry]) {
        debug_assert_eq!(self.stored, 0, "a map is restored before it is used");
        self.indices.copy_from_slice(roots);
    }
}
