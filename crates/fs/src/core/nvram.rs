//! A cache that survives a power cut: the NVRAM in front of the logical disk (paper 000, section
//! 4.4; claim V10).
//!
//! What an operation changes is durable when it is in the cache, so a call for durability is
//! answered at once, and nothing is written because it is old. The cache is written when it is
//! full, and piece by piece while no call comes. A block keeps its place until the volume has it
//! durably, so what a crash leaves is the volume with [`Core::nvram_image`] over it.

use super::cache::Buffer;
use super::page::{Mask, Page, SECTOR, each};
use super::{Core, Ordering};
use crate::tx::BlockNo;
use seekless_engine::units::{MILLIS, Time};

/// Bytes that are written together while no call comes, or by [`NvramFlush::Segment`]: a segment of
/// the logical disk.
pub const PIECE_BYTES: u64 = 512 << 10;
/// So long no call has come before the cache is written in idle time.
const IDLE: Time = 100 * MILLIS;

/// A cache that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nvram {
    /// Bytes of changed blocks that it holds.
    pub bytes: u64,
    /// What is written when it is full.
    pub flush: NvramFlush,
}

/// What is written when a cache that survives a power cut is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NvramFlush {
    /// All of it; calls that change something wait until it is empty.
    #[default]
    Whole,
    /// The oldest changes, as many as a segment holds.
    Segment,
}

/// Blocks that leave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving {
    /// Being written, written and not flushed, or covered by the flush in flight.
    count: usize,
    /// Written since the last flush was sent.
    unflushed: Vec<BlockNo>,
    /// Covered by the flush in flight.
    flushing: Vec<BlockNo>,
    /// When the last call has ended well.
    called_at: Time,
}

impl Core {
    /// True if a change is durable as soon as it is made.
    pub fn is_durable_at_once(&self) -> bool {
        self.options.nvram.is_some()
    }

    /// Bytes of blocks whose only durable copy is in the cache.
    fn nvram_bytes(&self) -> u64 {
        (self.cache.dirty() + self.leaving.count) as u64 * self.shape.block_bytes as u64
    }

    /// True if changes must wait until blocks have left the cache.
    pub(crate) fn is_nvram_full(&self) -> bool {
        self.options.nvram.is_some_and(|nvram| self.nvram_bytes() > nvram.bytes)
    }

    /// A step of a call has ended well.
    pub(crate) fn nvram_called(&mut self, at: Time) {
        self.leaving.called_at = at;
    }

    /// A write of a block has begun: the buffer stays until it is durable.
    pub(crate) fn nvram_sends(&mut self, block: BlockNo) {
        if self.is_durable_at_once() {
            self.leaving.count += 1;
            let slot = self.cache.find(block).expect("it is being written");
            self.cache.get_mut(slot).pins += 1;
        }
    }

    /// Writes have completed, and are durable after a flush.
    pub(crate) fn nvram_wrote(&mut self, blocks: &[BlockNo]) {
        match self.options.ordering {
            _ if !self.is_durable_at_once() => {}
            Ordering::Trusted => self.nvram_lets_go(blocks),
            Ordering::Flush | Ordering::Completion => {
                self.leaving.unflushed.extend_from_slice(blocks);
            }
        }
    }

    /// These blocks are durable on the volume.
    pub(crate) fn nvram_lets_go(&mut self, blocks: &[BlockNo]) {
        if !self.is_durable_at_once() {
            return;
        }
        for &block in blocks {
            self.leaving.count -= 1;
            let slot = self.cache.find(block).expect("it is pinned");
            self.cache.get_mut(slot).pins -= 1;
        }
    }

    /// True if a flush would let blocks go, and no write is under way that it should cover.
    pub(crate) fn nvram_wants_flush(&self) -> bool {
        !self.leaving.unflushed.is_empty() && self.is_idle()
    }

    /// A flush has gone out.
    pub(crate) fn nvram_flushes(&mut self) {
        self.leaving.flushing.append(&mut self.leaving.unflushed);
    }

    /// It has completed.
    pub(crate) fn nvram_flushed(&mut self) {
        let blocks = std::mem::take(&mut self.leaving.flushing);
        self.nvram_lets_go(&blocks);
    }

    /// True if nothing leaves the cache now.
    fn nvram_rests(&self) -> bool {
        self.leaving.count == 0 && self.is_idle() && self.logged.blocks() == 0
    }

    /// Queues what is to go when the cache is full, or has been idle. True if something is.
    pub(crate) fn relieve_nvram(&mut self, now: Time) -> bool {
        let Some(nvram) = self.options.nvram.filter(|_| self.nvram_rests()) else { return false };
        let is_full = self.is_nvram_full();
        if is_full && nvram.flush == NvramFlush::Whole {
            self.queue_all();
        } else if is_full || self.nvram_due().is_some_and(|due| due <= now) {
            self.queue_oldest(PIECE_BYTES / self.shape.block_bytes as u64);
        }
        !self.output.queue.is_empty()
    }

    /// When the cache is written if no call comes.
    pub(crate) fn nvram_due(&self) -> Option<Time> {
        let waits = self.cache.dirty() > 0 && self.nvram_rests();
        waits.then_some(self.leaving.called_at + IDLE)
    }

    /// The page of a buffer with the seals that a write of it would set.
    fn sealed(&self, buffer: &Buffer) -> Page {
        let mut page = buffer.page.clone();
        let first = buffer.block * self.shape.sectors() as u64;
        for index in each(buffer.dirty).filter(|&index| buffer.kinds[index].is_sealed()) {
            let sector = &mut page.make_mut()[index * SECTOR..(index + 1) * SECTOR];
            self.seals.set(first + index as u64, buffer.kinds[index], sector);
        }
        page
    }

    /// What the cache would hold after a power cut: blocks of the file system, the sectors of them
    /// that count, and their bytes.
    pub fn nvram_image(&self) -> Vec<(BlockNo, Mask, Page)> {
        let leaving = self.leaving.unflushed.iter().chain(&self.leaving.flushing).copied();
        let mut blocks = self.cache.unwritten();
        blocks.extend(leaving);
        blocks.sort_unstable();
        blocks.dedup();
        let found = blocks.into_iter().filter_map(|block| self.cache.find(block));
        let buffers = found.map(|slot| self.cache.get(slot));
        buffers.map(|buffer| (buffer.block, buffer.valid, self.sealed(buffer))).collect()
    }
}
