//! The map in memory: where each block of the volume lies, where the blocks that keep the map lie,
//! and what of it has changed since it was last written.
//!
//! A slice without mapped blocks takes no memory. Of the others the checksums are kept one by one,
//! and the places as [`Words`]: a volume that is written in order takes little more than four bytes
//! for each block.

use super::format::{Entry, Geometry, MAP_ENTRIES};
use super::words::Words;
use bytes::Bytes;
use seekless_engine::units::BlockNr;
use std::fmt;

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

/// The entries of a slice with mapped blocks.
#[derive(Clone)]
struct Page {
    sums: [u32; MAP_ENTRIES],
    /// What an entry says beside the checksum.
    words: Words,
    mapped: u16,
}

impl Page {
    fn empty() -> Box<Page> {
        Box::new(Page { sums: [0; MAP_ENTRIES], words: Words::default(), mapped: 0 })
    }

    /// A page of these entries, `None` if none of them is mapped.
    fn of(entries: &[Entry]) -> Option<Box<Page>> {
        let (mut page, mut words) = (Page::empty(), [0; MAP_ENTRIES]);
        for (index, entry) in entries.iter().enumerate().take(MAP_ENTRIES) {
            (words[index], page.sums[index]) = (entry.word(), entry.checksum());
            page.mapped += u16::from(entry.is_mapped());
        }
        page.words = Words::of(&words);
        (page.mapped > 0).then_some(page)
    }

    fn get(&self, index: usize) -> Entry {
        Entry::of(self.words.get(index), self.sums[index])
    }

    fn entries(&self) -> [Entry; MAP_ENTRIES] {
        let mut words = [0; MAP_ENTRIES];
        self.words.copy_to(&mut words);
        std::array::from_fn(|index| Entry::of(words[index], self.sums[index]))
    }
}

/// Slice, and index in it, of a block's entry.
fn locate(at: BlockNr) -> (usize, usize) {
    (at as usize / MAP_ENTRIES, at as usize % MAP_ENTRIES)
}

/// The map.
#[derive(Clone)]
pub struct Map {
    blocks: u64,
    /// `None` where no block is mapped.
    pages: Vec<Option<Box<Page>>>,
    /// Where the map block of each slice lies.
    slices: Vec<Entry>,
    /// Where each index block lies.
    indices: Vec<Entry>,
    changed: Marked,
    changed_indices: Marked,
    stored: u64,
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "map of {} blocks, {} stored", self.blocks, self.stored)
    }
}

impl Map {
    /// A map of unmapped blocks.
    pub fn new(geometry: &Geometry) -> Map {
        let slices = geometry.slices();
        let indices = geometry.indices();
        Map {
            blocks: geometry.blocks,
            pages: vec![None; slices as usize],
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
        let (slice, index) = locate(at);
        self.pages[slice].as_ref().map_or(Entry::UNMAPPED, |page| page.get(index))
    }

    /// The entries of a range.
    pub fn range(&self, at: BlockNr, count: u64) -> impl Iterator<Item = Entry> + Clone + '_ {
        (at..at + count).map(|at| self.get(at))
    }

    /// The blocks that are stored, in order, with their entries.
    pub fn all(&self) -> impl Iterator<Item = (BlockNr, Entry)> + '_ {
        let firsts = (0..).step_by(MAP_ENTRIES);
        let pages = firsts.zip(&self.pages).filter_map(|(at, page)| Some((at, page.as_ref()?)));
        let blocks = pages.flat_map(|(at, page): (BlockNr, _)| (at..).zip(page.entries()));
        blocks.filter(|(_, entry)| entry.is_mapped())
    }

    /// The first block in `at..end` that is stored.
    pub fn next_stored(&self, at: BlockNr, end: BlockNr) -> Option<BlockNr> {
        let mut at = at;
        while at < end {
            let (slice, index) = locate(at);
            let rest = ((MAP_ENTRIES - index) as u64).min(end - at);
            if let Some(page) = &self.pages[slice] {
                let mut places = (at..at + rest).zip(index..);
                if let Some((at, _)) = places.find(|&(_, index)| page.words.get(index) != 0) {
                    return Some(at);
                }
            }
            at += rest;
        }
        None
    }

    /// Points to another place; returns the one before.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        debug_assert!(at < self.blocks, "block {at} of {}", self.blocks);
        let (slice, index) = locate(at);
        let old = self.get(at);
        if old == entry {
            return old;
        }
        self.changed.mark(slice as u32);
        let page = self.pages[slice].get_or_insert_with(Page::empty);
        page.words.set(index, entry.word(), MAP_ENTRIES);
        page.sums[index] = entry.checksum();
        page.mapped += u16::from(entry.is_mapped());
        page.mapped -= u16::from(old.is_mapped());
        if page.mapped == 0 {
            self.pages[slice] = None;
        }
        self.stored += u64::from(entry.is_mapped());
        self.stored -= u64::from(old.is_mapped());
        old
    }

    /// How long, from `at` on, blocks stay stored or not stored, at most `limit`.
    pub fn extent(&self, at: BlockNr, limit: u64) -> (bool, u64) {
        debug_assert!(at < self.blocks && limit > 0, "an extent of {limit} blocks at {at}");
        let end = self.blocks.min(at + limit);
        match self.next_stored(at, end) {
            Some(first) if first == at => {
                let same = self.range(at, end - at).take_while(|entry| entry.is_mapped());
                (true, same.count() as u64)
            }
            next => (false, next.unwrap_or(end) - at),
        }
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
    pub fn encode(&mut self, meta: MetaBlock) -> Option<Bytes> {
        let of_page;
        let entries: &[Entry] = match meta {
            MetaBlock::Slice(slice) => {
                let page = self.pages[slice as usize].as_mut()?;
                of_page = page.entries();
                // What was written in any order may have been written in order since.
                page.words = Words::of(&of_page.map(Entry::word));
                &of_page
            }
            MetaBlock::Index(index) => {
                self.slices.chunks(MAP_ENTRIES).nth(index as usize).unwrap_or_default()
            }
        };
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
        match meta {
            MetaBlock::Slice(slice) => {
                let page = Page::of(found);
                self.stored += page.as_ref().map_or(0, |page| u64::from(page.mapped));
                self.pages[slice as usize] = page;
            }
            MetaBlock::Index(index) => {
                let at = index as usize * MAP_ENTRIES;
                let end = self.slices.len().min(at + MAP_ENTRIES);
                self.slices[at..end].copy_from_slice(&found[..end - at]);
            }
        }
    }

    /// What a recovery found in a checkpoint record.
    pub fn restore_roots(&mut self, roots: &[Entry]) {
        debug_assert_eq!(self.stored, 0, "a map is restored before it is used");
        self.indices.copy_from_slice(roots);
    }
}

#[cfg(test)]
impl Map {
    /// Memory of the entries, in bytes.
    pub fn bytes(&self) -> usize {
        let page = |page: &Page| size_of_val(page) + page.words.bytes();
        let pages: usize = self.pages.iter().flatten().map(|one| page(one)).sum();
        size_of_val(&*self.pages) + size_of_val(&*self.slices) + pages
    }
}
