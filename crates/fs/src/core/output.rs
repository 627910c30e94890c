//! Writes: a queue of dirty blocks in order of class and address, joined to clusters.
//!
//! Classes: 0 bitmaps; 1 data and indirect blocks; 2 inodes; 3 directories. A write carries whole
//! blocks of 4096 bytes. If a fragment is smaller and the rest of its block is not in the cache,
//! the rest is read first. A buffer has one write in flight; a change in the meantime makes it
//! dirty again.

use super::cache::Slot;
use super::page::{ENGINE_BYTES, SECTOR, each, engine_mask};
use super::{Core, Sent};
use crate::tx::{BlockNo, PageKind};
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::io::{Io, IoError, Purpose};
use std::collections::BTreeSet;
use std::ops::Range;

/// Blocks to be written, by class and address, and the writes in flight.
#[derive(Debug, Default)]
pub struct Output {
    pub(crate) queue: BTreeSet<(u8, BlockNo)>,
    writes: usize,
}

/// The class of a kind: lower ones are written first.
fn class(kind: PageKind) -> u8 {
    match kind {
        PageKind::Bitmap => 0,
        PageKind::Data | PageKind::Indirect => 1,
        PageKind::Inodes => 2,
        PageKind::Directory => 3,
    }
}

impl Core {
    /// Queues a dirty buffer.
    pub(crate) fn queue_write(&mut self, slot: Slot) {
        let buffer = self.cache.get(slot);
        if buffer.dirty != 0 && self.failed().is_none() {
            let kind = buffer.kinds[buffer.dirty.trailing_zeros() as usize];
            self.output.queue.insert((class(kind), buffer.block));
        }
    }

    /// Queues a cluster of data of which the last block has just been filled.
    pub(crate) fn queue_full_cluster(&mut self, slot: Slot) {
        let (buffer, whole) = (self.cache.get(slot), self.shape.whole());
        let cluster = u64::from(self.options.cluster_bytes) / self.shape.block_bytes as u64;
        let last = cluster > 0 && (buffer.block + 1).is_multiple_of(cluster);
        if buffer.kind != PageKind::Data || buffer.dirty != whole || !last {
            return;
        }
        for block in buffer.block + 1 - cluster..=buffer.block {
            if let Some(slot) = self.cache.find(block)
                && self.cache.get(slot).kind == PageKind::Data
            {
                self.queue_write(slot);
            }
        }
    }

    /// Sends writes while there is room for them, then a flush if calls wait for one.
    pub(crate) fn push_output(&mut self, below: &mut Below<'_>) {
        while self.output.writes < self.options.writes
            && let Some((class, block)) = self.output.queue.pop_first()
        {
            self.write_from(class, block, below);
        }
        self.push_flush(below);
    }

    /// The blocks of the volume that a write of this buffer covers, counted from its first; `None`
    /// if it cannot be written now.
    fn range(&mut self, block: BlockNo) -> Option<(Slot, Range<usize>)> {
        let slot = self.cache.find(block)?;
        let buffer = self.cache.get(slot);
        if buffer.dirty == 0 || buffer.writing.is_some() {
            return None;
        }
        let dirty = |index: &usize| buffer.dirty & engine_mask(*index) != 0;
        let per_block = self.shape.engine_per_block() as usize;
        let first = (0..per_block).find(dirty)?;
        let last = (0..per_block).rfind(dirty)?;
        Some((slot, first..last + 1))
    }

    /// True if all that a write covers is in the cache.
    fn is_whole(&self, slot: Slot, range: &Range<usize>) -> bool {
        range.clone().all(|index| engine_mask(index) & !self.cache.get(slot).valid == 0)
    }

    /// Writes a block of the queue, and those behind it that are in the queue, too.
    fn write_from(&mut self, class: u8, block: BlockNo, below: &mut Below<'_>) {
        let Some((slot, range)) = self.range(block) else {
            self.postpone(block);
            return;
        };
        if !self.is_whole(slot, &range) {
            let buffer = self.cache.get_mut(slot);
            buffer.again = true;
            if !buffer.reading {
                let kind = buffer.kind;
                self.read_rest(block, kind, below);
            }
            return;
        }
        let per_block = self.shape.engine_per_block();
        let at = block * per_block + range.start as u64;
        let kind = self.cache.get(slot).kind;
        let most = (self.options.cluster_bytes as usize / ENGINE_BYTES) as u32;
        let (mut data, mut blocks) = (Data::none(), Vec::new());
        let mut next = Some((slot, range));
        while let Some((slot, range)) = next.take() {
            let block = self.cache.get(slot).block;
            let reaches_end = range.end as u64 == per_block;
            if let Some(image) = self.image(slot, &range) {
                data.append(image);
                blocks.push(block);
            } else {
                break;
            }
            let follows = self.output.queue.contains(&(class, block + 1));
            if reaches_end && follows && data.blocks() + per_block as u32 <= most {
                next = self
                    .range(block + 1)
                    .filter(|(slot, range)| range.start == 0 && self.is_whole(*slot, range));
                if next.is_some() {
                    self.output.queue.remove(&(class, block + 1));
                }
            }
        }
        if !blocks.is_empty() {
            self.send(at, data, blocks, kind, below);
        }
    }

    fn send(
        &mut self,
        at: u64,
        data: Data,
        blocks: Vec<BlockNo>,
        kind: PageKind,
        below: &mut Below<'_>,
    ) {
        self.output.writes += 1;
        self.stats.writes += 1;
        self.stats.blocks_written += u64::from(data.blocks());
        if kind != PageKind::Data {
            self.stats.metadata_writes += 1;
            self.stats.metadata_blocks_written += u64::from(data.blocks());
        }
        let purpose = if kind == PageKind::Data { Purpose::Data } else { Purpose::Map };
        let tag = self.sent.insert(Sent::Write { blocks });
        below.submit(0, Io::write(tag, at, data).for_purpose(purpose));
    }

    /// A buffer with a write in flight is written again after it.
    fn postpone(&mut self, block: BlockNo) {
        if let Some(slot) = self.cache.find(block) {
            let buffer = self.cache.get_mut(slot);
            buffer.again = buffer.dirty != 0;
        }
    }

    /// The image of a buffer with seals set. The buffer is clean afterwards.
    fn image(&mut self, slot: Slot, range: &Range<usize>) -> Option<Data> {
        let Core { cache, seals, policy, shape, .. } = &mut *self;
        let buffer = cache.get_mut(slot);
        let sealed = each(buffer.dirty).filter(|&index| buffer.kinds[index].is_sealed());
        let first = buffer.block * shape.sectors() as u64;
        for index in sealed {
            let page = buffer.page.make_mut();
            let sector = &mut page[index * SECTOR..(index + 1) * SECTOR];
            seals.set(first + index as u64, buffer.kinds[index], sector);
        }
        let Some(page) = policy.image(buffer) else {
            buffer.again = true;
            return None;
        };
        buffer.writing = Some(buffer.epoch);
        cache.set_dirty(slot, 0);
        Some(Data::bytes(page.share(range.start * ENGINE_BYTES, range.end * ENGINE_BYTES)))
    }

    /// A write has completed.
    pub(crate) fn written(&mut self, blocks: &[BlockNo], error: Option<IoError>) {
        self.output.writes -= 1;
        self.barriers.wrote();
        if let Some(error) = error {
            self.fail(error);
        }
        for &block in blocks {
            let slot = self.cache.find(block).expect("a buffer stays while it is written");
            let buffer = self.cache.get_mut(slot);
            let epoch = buffer.writing.take().expect("a write was in flight");
            let again = std::mem::take(&mut buffer.again);
            self.barriers.cleaned(epoch);
            self.policy.written(block);
            if again {
                self.queue_write(slot);
            }
        }
    }
}
