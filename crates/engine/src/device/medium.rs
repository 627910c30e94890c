//! Media: passive stores of blocks, without time.

mod chunk;
mod labels;

use crate::data::{Body, Data, Piece};
use crate::io::Extent;
use crate::io::{IoError, Label, Part};
use crate::table::Table;
use crate::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, SECTOR_BYTES};
use bytes::Bytes;
use chunk::{CHUNK, Chunk};
use labels::LabelStore;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

/// A passive store of blocks. Blocks never written read as zeros.
pub trait Medium: Debug + Send {
    /// Size in blocks.
    fn blocks(&self) -> u64;

    /// Reads `count` blocks.
    ///
    /// # Errors
    /// What the store reports.
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError>;

    /// Writes blocks.
    ///
    /// # Errors
    /// What the store reports.
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError>;

    /// Writes some sectors of blocks; the payload is whole blocks. Labels are dropped.
    ///
    /// # Errors
    /// What the store reports.
    fn write_part(&mut self, at: BlockNr, data: &Data, part: Part) -> Result<(), IoError> {
        debug_assert!(part.fits(data.blocks()), "{part:?}");
        let mut merged = Data::none();
        for index in 0..data.blocks() {
            let (new, sectors) = (data.block(index), part.in_block(index));
            if sectors.len() < BLOCK_SECTORS as usize {
                let mut bytes = self.read(at + u64::from(index), 1)?.to_bytes().to_vec();
                let range = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
                bytes[range.clone()].copy_from_slice(&new.to_bytes()[range]);
                merged.append(Data::bytes(bytes.into()));
            } else {
                merged.push(new);
            }
        }
        self.write(at, &merged)
    }

    /// True if each block has room for a label beside it, as the sectors of a disk have headers.
    fn has_labels(&self) -> bool {
        false
    }

    /// Writes blocks and their labels. A medium without labels drops them; a plain write to one
    /// that has them leaves the blocks without.
    ///
    /// # Errors
    /// What the store reports.
    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: &[Label],
    ) -> Result<(), IoError> {
        debug_assert_eq!(labels.len() as u32, data.blocks());
        self.write(at, data)
    }

    /// The labels of `count` blocks.
    ///
    /// # Errors
    /// What the store reports.
    fn labels(&mut self, _at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        Ok(vec![Label::default(); count as usize])
    }

    /// Forgets blocks; they read as zeros.
    ///
    /// # Errors
    /// What the store reports.
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError>;

    /// Makes everything durable, where the store outlives the process.
    ///
    /// # Errors
    /// What the store reports.
    fn sync(&mut self) -> Result<(), IoError> {
        Ok(())
    }

    /// The first block at or after `at` that may hold something other than zeros, if any.
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        (at < self.blocks()).then_some(at)
    }

    /// The first block behind `at` that is known to hold nothing, or the end.
    fn next_hole(&mut self, _at: BlockNr) -> BlockNr {
        self.blocks()
    }

    /// What lies at `at` and for how many blocks it stays the same; see
    /// [`Device::extent`](super::Device::extent).
    fn extent(&mut self, at: BlockNr, limit: u64) -> (Extent, u64) {
        debug_assert!(limit > 0, "an extent of nothing");
        let end = at + limit;
        match self.next_data(at).unwrap_or(end) {
            next if next > at => (Extent::Hole, next.min(end) - at),
            _ => (Extent::Data, self.next_hole(at).clamp(at + 1, end) - at),
        }
    }
}

/// A store for simulation: keeps bodies as they are, so stamps cost no memory, and is cheap to
/// clone (chunks are shared until written), so that a sweep can fork it at every event. What was
/// never written takes no memory: a disk of 30 TB is as cheap as what is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    blocks: u64,
    chunks: Table<Chunk>,
    labels: LabelStore,
    /// Blocks that cannot be read until they are written again.
    unreadable: Option<Arc<BTreeSet<BlockNr>>>,
}

impl Cells {
    /// An empty store of `blocks` blocks.
    pub fn new(blocks: u64) -> Cells {
        let chunks = Table::new(blocks.div_ceil(CHUNK as u64));
        Cells { blocks, chunks, labels: LabelStore::default(), unreadable: None }
    }

    /// The same store with room for a label beside each block.
    pub fn with_labels(mut self) -> Cells {
        self.labels = LabelStore::new(self.blocks);
        self
    }

    /// The label of a block; zeros if it has none.
    pub fn label(&self, at: BlockNr) -> Label {
        self.labels.get(at)
    }

    /// Replaces the label of a block; without effect on a store that has none.
    pub fn set_label(&mut self, at: BlockNr, label: Label) {
        self.labels.set(at, label);
    }

    /// One block.
    pub fn get(&self, at: BlockNr) -> Body {
        assert!(at < self.blocks, "block {at} of {}", self.blocks);
        match self.chunks.get(at as usize / CHUNK) {
            Some(chunk) => chunk.get(at as usize % CHUNK),
            None => Body::Zeros,
        }
    }

    /// Replaces one block; `body` stands for exactly one block.
    #[inline(always)]
    pub fn set(&mut self, at: BlockNr, body: Body) {
        assert!(at < self.blocks, "block {at} of {}", self.blocks);
        if let Some(unreadable) = &mut self.unreadable {
            Arc::make_mut(unreadable).remove(&at);
        }
        let index = at as usize / CHUNK;
        match self.chunks.get_mut(index) {
            Some(chunk) => chunk.set(at as usize % CHUNK, body),
            None if matches!(body, Body::Zeros) => {}
            None => self.chunks.entry(index, Chunk::zeros).set(at as usize % CHUNK, body),
        }
    }

    #[inline(always)]
    fn set_all(&mut self, at: BlockNr, data: &Data) {
        let mut block = at;
        for piece in data.pieces() {
            for index in 0..piece.blocks {
                let body =
                    if piece.blocks == 1 { piece.body.clone() } else { piece.slice(index, 1).body };
                self.set(block, body);
                block += 1;
            }
        }
    }

    /// Makes a block unreadable, label and all, until it is written again: [`IoError::Media`].
    pub fn lose(&mut self, at: BlockNr) {
        assert!(at < self.blocks, "block {at} of {}", self.blocks);
        Arc::make_mut(self.unreadable.get_or_insert_default()).insert(at);
    }

    fn check_readable(&self, at: BlockNr, count: u32) -> Result<(), IoError> {
        let Some(unreadable) = &self.unreadable else { return Ok(()) };
        match unreadable.range(at..at + u64::from(count)).next() {
            Some(&block) => Err(IoError::Media { block }),
            None => Ok(()),
        }
    }

    /// The blocks that may hold something else in a fork of the same store: those that either has
    /// written since, unless both have kept the memory. No bytes are compared.
    pub fn unlike<'c>(&'c self, fork: &'c Cells) -> impl Iterator<Item = BlockNr> + 'c {
        debug_assert_eq!(self.blocks, fork.blocks, "forks have one size");
        let chunks = 0..self.blocks.div_ceil(CHUNK as u64) as usize;
        let both = move |chunk| (self.chunks.get(chunk), fork.chunks.get(chunk));
        let is_shared = move |chunk: &usize| match both(*chunk) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_shared(other),
            _ => false,
        };
        let in_chunk = move |chunk: usize| {
            let end = CHUNK.min((self.blocks as usize) - chunk * CHUNK);
            let differs = move |index: &usize| match both(chunk) {
                (Some(one), Some(other)) => !one.shares(other, *index),
                _ => true,
            };
            (0..end).filter(differs).map(move |index| (chunk * CHUNK + index) as BlockNr)
        };
        chunks.filter(move |chunk| !is_shared(chunk)).flat_map(in_chunk)
    }

    /// The first block at or after `at` whose chunk was ever written.
    pub fn next_written(&self, at: BlockNr) -> Option<BlockNr> {
        let chunk = self.chunks.next(at as usize / CHUNK)?;
        Some(at.max((chunk * CHUNK) as u64)).filter(|&block| block < self.blocks)
    }
}

/// Pieces for which a read makes room at once; most long reads are of few pieces.
const MOST_ROOM: u32 = 64;

impl Medium for Cells {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.check_readable(at, count)?;
        let mut data = match count {
            0..=4 => Data::none(),
            _ => Data::with_room(count.min(MOST_ROOM) as usize),
        };
        let (mut block, end) = (at, at + u64::from(count));
        assert!(end <= self.blocks, "blocks {at} to {end} of {}", self.blocks);
        while block < end {
            let first = block as usize % CHUNK;
            let last = CHUNK.min(first + (end - block) as usize);
            match self.chunks.get(block as usize / CHUNK) {
                Some(chunk) => chunk.append_to(&mut data, first..last),
                None => data.push(Piece { blocks: (last - first) as u32, body: Body::Zeros }),
            }
            block += (last - first) as u64;
        }
        debug_assert_eq!(data.blocks(), count, "a read is as long as it was asked to be");
        Ok(data)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.set_all(at, data);
        self.labels.clear(at, data.blocks());
        Ok(())
    }

    fn has_labels(&self) -> bool {
        self.labels.exists()
    }

    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: &[Label],
    ) -> Result<(), IoError> {
        self.set_all(at, data);
        self.labels.set_all(at, labels);
        Ok(())
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.check_readable(at, count)?;
        Ok(self.labels.range(at, count))
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        for block in at..at + u64::from(count) {
            self.set(block, Body::Zeros);
        }
        self.labels.clear(at, count);
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.next_written(at)
    }
}

/// Bytes in one page of [`Flat`]: large enough that allocation is rare, small enough that a
/// sparse disk stays sparse.
const PAGE_BYTES: usize = 1 << 20;
const PAGE_BLOCKS: u64 = (PAGE_BYTES / BLOCK_BYTES) as u64;

/// A store of real bytes in memory, sparse, for serving.
#[derive(Debug)]
pub struct Flat {
    blocks: u64,
    pages: Table<Box<[u8]>>,
    labels: LabelStore,
}

impl Flat {
    /// An empty store of `blocks` blocks.
    pub fn new(blocks: u64) -> Flat {
        let pages = Table::new(blocks.div_ceil(PAGE_BLOCKS));
        Flat { blocks, pages, labels: LabelStore::default() }
    }

    /// The same store with room for a label beside each block.
    pub fn with_labels(mut self) -> Flat {
        self.labels = LabelStore::new(self.blocks);
        self
    }

    /// Splits a block range at page boundaries: (page, offset in page, bytes).
    fn spans(at: BlockNr, count: u32) -> impl Iterator<Item = (usize, usize, usize)> {
        let mut at = at;
        let end = at + u64::from(count);
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let offset = (at % PAGE_BLOCKS) as usize * BLOCK_BYTES;
            let blocks = (end - at).min(PAGE_BLOCKS - at % PAGE_BLOCKS);
            let span = ((at / PAGE_BLOCKS) as usize, offset, blocks as usize * BLOCK_BYTES);
            at += blocks;
            Some(span)
        })
    }
}

impl Medium for Flat {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let mut out = Vec::with_capacity(count as usize * BLOCK_BYTES);
        for (page, offset, length) in Flat::spans(at, count) {
            match self.pages.get(page) {
                Some(bytes) => out.extend_from_slice(&bytes[offset..offset + length]),
                None => out.resize(out.len() + length, 0),
            }
        }
        Ok(Data::bytes(Bytes::from(out)))
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let (first, mut at) = (at, at);
        for piece in data.pieces() {
            let whole;
            let bytes: &[u8] = match &piece.body {
                Body::Bytes(bytes) => bytes,
                _ => {
                    whole = piece.to_bytes();
                    &whole
                }
            };
            let mut from = 0;
            for (page, offset, length) in Flat::spans(at, piece.blocks) {
                let page = self.pages.entry(page, || vec![0; PAGE_BYTES].into());
                page[offset..offset + length].copy_from_slice(&bytes[from..from + length]);
                from += length;
            }
            at += u64::from(piece.blocks);
        }
        self.labels.clear(first, data.blocks());
        Ok(())
    }

    fn next_hole(&mut self, at: BlockNr) -> BlockNr {
        let first = (at / PAGE_BLOCKS) as usize + 1;
        let pages = self.blocks.div_ceil(PAGE_BLOCKS) as usize;
        let page = (first..pages).find(|&page| self.pages.get(page).is_none());
        page.map_or(self.blocks, |page| page as u64 * PAGE_BLOCKS)
    }

    fn has_labels(&self) -> bool {
        self.labels.exists()
    }

    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: &[Label],
    ) -> Result<(), IoError> {
        self.write(at, data)?;
        self.labels.set_all(at, labels);
        Ok(())
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        Ok(self.labels.range(at, count))
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        for (page, offset, length) in Flat::spans(at, count) {
            if length == PAGE_BYTES {
                self.pages.remove(page);
            } else if let Some(bytes) = self.pages.get_mut(page) {
                bytes[offset..offset + length].fill(0);
            }
        }
        self.labels.clear(at, count);
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let page = self.pages.next((at / PAGE_BLOCKS) as usize)?;
        Some(at.max(page as u64 * PAGE_BLOCKS)).filter(|&block| block < self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_block_is_an_error_until_it_is_written() {
        let mut cells = Cells::new(8).with_labels();
        cells.write(0, &Data::stamp(8, 0, 1)).unwrap();
        let whole = cells.clone();
        cells.lose(5);
        assert_eq!(cells.read(4, 2), Err(IoError::Media { block: 5 }));
        assert_eq!(cells.labels(5, 1), Err(IoError::Media { block: 5 }));
        assert_eq!(cells.read(0, 5), Ok(Data::stamp(5, 0, 1)));
        assert_eq!(whole.clone().read(4, 2), Ok(Data::stamp(2, 4, 1)), "the original is whole");
        cells.write(5, &Data::stamp(1, 5, 2)).unwrap();
        assert_eq!(cells.read(5, 1), Ok(Data::stamp(1, 5, 2)));
    }

    #[test]
    fn what_was_never_written_takes_no_memory() {
        // 30 TB. A table with an entry for each chunk would be 3.7 GB.
        let blocks = 30_000_000_000_000 / BLOCK_BYTES as u64;
        let mut cells = Cells::new(blocks).with_labels();
        let mut flat = Flat::new(blocks).with_labels();
        for medium in [&mut cells as &mut dyn Medium, &mut flat] {
            assert_eq!(medium.next_data(0), None);
            for at in [blocks - 3, blocks / 2] {
                medium.write(at, &Data::stamp(2, at, 1)).unwrap();
                assert_eq!(
                    medium.read(at, 2).unwrap().to_bytes(),
                    Data::stamp(2, at, 1).to_bytes()
                );
            }
            let next = medium.next_data(blocks / 3).expect("there is some");
            assert!(next <= blocks / 2 && next + PAGE_BLOCKS > blocks / 2);
            assert!(medium.next_data(blocks / 2 + 2 * PAGE_BLOCKS).expect("more") <= blocks - 3);
            medium.trim(blocks - 3, 2).unwrap();
            assert_eq!(medium.read(blocks - 3, 2).unwrap().to_bytes(), Data::zeros(2).to_bytes());
        }
        assert!(cells.chunks.bytes() < 16 << 20 && flat.pages.bytes() < 16 << 20);
    }

    #[test]
    fn forks_are_unlike_where_one_was_written() {
        let bytes = |fill: u8| Data::bytes(Bytes::from(vec![fill; BLOCK_BYTES]));
        let mut one = Cells::new(100);
        one.write(3, &Data::stamp(2, 3, 1)).unwrap();
        one.write(40, &bytes(1)).unwrap();
        one.write(41, &bytes(2)).unwrap();
        let mut fork = one.clone();
        let unlike = |one: &Cells, fork: &Cells| one.unlike(fork).collect::<Vec<_>>();
        assert_eq!(unlike(&one, &fork), Vec::<BlockNr>::new());
        fork.write(4, &Data::stamp(1, 4, 2)).unwrap();
        fork.write(40, &bytes(3)).unwrap();
        assert_eq!(unlike(&one, &fork), [4, 40], "41 is the same memory in both");
        // A chunk that only one has may differ everywhere, up to the end.
        fork.write(99, &Data::stamp(1, 99, 2)).unwrap();
        assert_eq!(unlike(&one, &fork), [4, 40, 96, 97, 98, 99]);
        assert_eq!(unlike(&fork, &one), unlike(&one, &fork));
    }

    #[test]
    fn parts_change_their_sectors_only() {
        const BLOCKS: u64 = 6;
        let mut rng = crate::rng::Rng::stream(7, "parts");
        let mut cells = Cells::new(BLOCKS);
        let mut flat = Flat::new(BLOCKS);
        let mut model = vec![0; BLOCKS as usize * BLOCK_BYTES];
        for version in 1..400 {
            let at = rng.below(BLOCKS);
            let count = 1 + rng.below((BLOCKS - at).min(3)) as u32;
            let (first, last) = (rng.below(8) as u32, (count - 1) * 8 + rng.below(8) as u32);
            let part = Part { first: first.min(last), sectors: last + 1 - first.min(last) };
            let data = Data::stamp(count, at, version);
            let whole = rng.chance(0.2);
            let range = match whole {
                true => 0..data.to_bytes().len(),
                false => part.first as usize * SECTOR_BYTES..part.end() as usize * SECTOR_BYTES,
            };
            let from = at as usize * BLOCK_BYTES + range.start;
            model[from..from + range.len()].copy_from_slice(&data.to_bytes()[range]);
            for medium in [&mut cells as &mut dyn Medium, &mut flat] {
                match whole {
                    true => medium.write(at, &data).unwrap(),
                    false => medium.write_part(at, &data, part).unwrap(),
                }
                assert_eq!(medium.read(0, BLOCKS as u32).unwrap().to_bytes(), model, "{version}");
            }
        }
    }

    #[test]
    fn both_media_hold_what_was_written() {
        let blocks = 3 * PAGE_BLOCKS;
        let mut cells = Cells::new(blocks).with_labels();
        let mut flat = Flat::new(blocks).with_labels();
        let data = Data::stamp(300, 5, 2);
        for medium in [&mut cells as &mut dyn Medium, &mut flat] {
            medium.write(200, &data).unwrap();
            medium.trim(210, 3).unwrap();
            let mut expected = data.slice(0, 10);
            expected.append(Data::zeros(3));
            expected.append(data.slice(13, 287));
            assert_eq!(medium.read(200, 300).unwrap().to_bytes(), expected.to_bytes());
            assert_eq!(medium.read(0, 1).unwrap().to_bytes(), Data::zeros(1).to_bytes());
            medium.trim(0, blocks as u32).unwrap();
            assert_eq!(medium.read(205, 2).unwrap().to_bytes(), Data::zeros(2).to_bytes());
            // Labels come with a write and go with the next one that has none.
            let (none, labels) = ([0; 32], [[1; 32], [2; 32], [3; 32], [4; 32]]);
            medium.write_labelled(254, &Data::stamp(4, 0, 1), &labels).unwrap();
            medium.write(255, &Data::stamp(1, 0, 2)).unwrap();
            medium.trim(257, 9).unwrap();
            let expected = [none, [1; 32], none, [3; 32], none, none];
            assert_eq!(medium.labels(253, 6).unwrap(), expected);
        }
        assert!(!Flat::new(3).has_labels() && !Cells::new(3).has_labels());
    }
}
