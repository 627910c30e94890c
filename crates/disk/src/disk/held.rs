//! Data that the disk has reported and that is not on the platter.

use seekless_engine::data::{Data, Piece};
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::units::{BlockNr, Time};
use std::collections::{BTreeMap, VecDeque};

/// Blocks on their way to the platter.
#[derive(Debug)]
pub(super) struct Leaving {
    /// First block.
    pub(super) at: BlockNr,
    pub(super) data: Data,
    /// When the first sector passes the head.
    pub(super) media_start: Time,
    /// When the last has passed.
    media_end: Time,
    /// The last write that `data` may come from.
    number: u64,
}

/// A block as it was written last, and by which write.
#[derive(Debug)]
struct Block {
    piece: Piece,
    number: u64,
}

/// Written blocks in the memory of a disk. The medium holds what the platter does.
#[derive(Debug, Default)]
pub(super) struct Held {
    blocks: BTreeMap<BlockNr, Block>,
    leaving: VecDeque<Leaving>,
    writes: u64,
}

impl Held {
    /// A write was reported and is in memory only.
    pub(super) fn keep(&mut self, at: BlockNr, data: &Data) {
        self.writes += 1;
        let number = self.writes;
        for index in 0..data.blocks() {
            let piece = data.block(index);
            self.blocks.insert(at + u64::from(index), Block { piece, number });
        }
    }

    /// Starts writing blocks to the platter with their present content.
    pub(super) fn leave(&mut self, at: BlockNr, count: u32, media_start: Time, media_end: Time) {
        let mut data = Data::none();
        for block in at..at + u64::from(count) {
            let held = self.blocks.get(&block);
            debug_assert!(held.is_some(), "only what was reported leaves");
            let Some(held) = held else { return };
            data.push(held.piece.clone());
        }
        let number = self.writes;
        self.leaving.push_back(Leaving { at, data, media_start, media_end, number });
    }

    /// Moves the blocks that have arrived at `now` to the medium.
    pub(super) fn arrive(&mut self, now: Time, medium: &mut dyn Medium) -> Result<(), IoError> {
        let mut outcome = Ok(());
        while let Some(one) = self.leaving.pop_front_if(|one| one.media_end <= now) {
            outcome = outcome.and(medium.write(one.at, &one.data));
            for block in one.at..one.at + u64::from(one.data.blocks()) {
                if self.blocks.get(&block).is_some_and(|held| held.number <= one.number) {
                    self.blocks.remove(&block);
                }
            }
        }
        outcome
    }

    /// Drops blocks that were written past the memory or trimmed: their content here is out of
    /// date.
    pub(super) fn forget(&mut self, at: BlockNr, count: u32) {
        if self.blocks.is_empty() {
            return;
        }
        let end = at + u64::from(count);
        let gone: Vec<BlockNr> = self.blocks.range(at..end).map(|(&block, _)| block).collect();
        for block in gone {
            self.blocks.remove(&block);
        }
        for one in &mut self.leaving {
            let (first, last) = (at.max(one.at), end.min(one.at + u64::from(one.data.blocks())));
            if first < last {
                // Blocks that are on their way must not undo the trim.
                let (before, gone) = ((first - one.at) as u32, (last - first) as u32);
                let rest = one.data.blocks() - before - gone;
                let mut data = one.data.slice(0, before);
                data.append(Data::zeros(gone));
                data.append(one.data.slice(before + gone, rest));
                one.data = data;
            }
        }
    }

    /// The last written content of blocks, as a read returns it.
    pub(super) fn read(
        &self,
        at: BlockNr,
        count: u32,
        medium: &mut dyn Medium,
    ) -> Result<Data, IoError> {
        let found = medium.read(at, count)?;
        let mut held = self.blocks.range(at..at + u64::from(count)).peekable();
        if held.peek().is_none() {
            return Ok(found);
        }
        let mut data = Data::none();
        for index in 0..count {
            let here = held.next_if(|(block, _)| **block == at + u64::from(index));
            data.push(here.map_or_else(|| found.block(index), |(_, held)| held.piece.clone()));
        }
        Ok(data)
    }

    /// Blocks on their way, in the order of arrival.
    pub(super) fn into_leaving(self) -> VecDeque<Leaving> {
        self.leaving
    }

    /// Clean shutdown: moves everything to the medium.
    pub(super) fn empty(&mut self, medium: &mut dyn Medium) -> Result<(), IoError> {
        let mut outcome = self.arrive(Time::MAX, medium);
        for (at, held) in std::mem::take(&mut self.blocks) {
            let mut data = Data::none();
            data.push(held.piece);
            outcome = outcome.and(medium.write(at, &data));
        }
        outcome
    }
}
