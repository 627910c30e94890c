//! Writes: a queue of dirty blocks in order of class and address, joined to clusters.
//!
//! Classes: 0 bitmaps; 1 data and indirect blocks; 2 inodes; 3 directories. Where the volume takes
//! parts, a write covers the fragments that changed. Elsewhere it carries whole blocks of 4096
//! bytes, and the rest of a block is read first if it is not in the cache. A buffer has one write
//! in flight; a change in the meantime makes it dirty again.

use super::cache::{Buffer, Slot};
use super::page::{
    ENGINE_BYTES, ENGINE_SECTORS, Mask, Page, SECTOR, each, engine_mask, run_around, run_mask,
};
use super::{Core, Sent, WriteUnit};
use crate::cow::CowSet;
use crate::policy::guard::Manifest;
use crate::tx::{BlockNo, PageKind};
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::io::{Io, IoError, Part, Purpose};
use seekless_engine::units::Time;
use std::ops::Range;

/// Blocks to be written, by class and address, and the writes in flight.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub(crate) queue: CowSet<(u8, BlockNo)>,
    pub(crate) writes: usize,
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
    /// Queues a dirty buffer: each of its dirty sectors is written once.
    pub(crate) fn queue_write(&mut self, slot: Slot) {
        self.cache.get_mut(slot).kept = 0;
        self.queue_rest(slot);
    }

    /// Queues what is dirty of a buffer and was not written since it was queued.
    fn queue_rest(&mut self, slot: Slot) {
        let buffer = self.cache.get(slot);
        if buffer.dirty != 0 && self.failed().is_none() {
            let kind = buffer.kinds[buffer.dirty.trailing_zeros() as usize];
            self.output.queue.insert((class(kind), buffer.block));
        }
    }

    /// Queues a block that is not to wait for its age. With a limit below one block, data does.
    pub(crate) fn queue_early(&mut self, block: BlockNo) {
        let Some(slot) = self.cache.find(block).filter(|_| !self.is_durable_at_once()) else {
            return;
        };
        let is_data = self.cache.get(slot).kind == PageKind::Data;
        if !is_data || self.options.cluster_bytes as usize >= self.shape.block_bytes {
            self.queue_write(slot);
        }
    }

    /// Sends writes while there is room for them, then a flush if calls wait for one.
    pub(crate) fn push_output(&mut self, below: &mut Below<'_>) {
        loop {
            while self.output.writes < self.options.writes
                && let Some((class, block)) = self.output.queue.pop_first()
            {
                self.write_from(class, block, below);
            }
            if !self.push_log(below) || self.output.writes >= self.options.writes {
                break;
            }
        }
        self.push_flush(below);
    }

    /// True if no write is in flight or to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.output.writes == 0 && self.output.queue.is_empty()
    }

    /// The sectors that a write of this buffer covers; `None` if it cannot be written now. Where
    /// the volume takes parts, what lies behind a gap stays for a later write. So do sectors that
    /// wait for the log, and where it takes whole blocks, those beside them.
    fn run(&self, block: BlockNo, parts: bool) -> Option<(Slot, Range<usize>)> {
        let slot = self.cache.find(block)?;
        let buffer = self.cache.get(slot);
        if buffer.dirty == 0 || buffer.writing.is_some() {
            return None;
        }
        let held = self.policy.held(block);
        if parts {
            // What the last write has kept back comes after what no write has carried.
            let unseen = buffer.dirty & !buffer.kept & !held;
            let next = if unseen != 0 { unseen } else { buffer.dirty & !held };
            if next == 0 {
                return None;
            }
            let first = next.trailing_zeros() as usize;
            return Some((slot, run_around(self.units(buffer) & buffer.valid & !held, first)));
        }
        let may = |index: &usize| held & engine_mask(*index) == 0;
        let dirty = |index: &usize| may(index) && buffer.dirty & engine_mask(*index) != 0;
        let per_block = self.shape.engine_per_block() as usize;
        let first = (0..per_block).find(dirty)?;
        let end = (first..per_block).find(|index| !may(index)).unwrap_or(per_block);
        let last = (first..end).rfind(dirty)?;
        Some((slot, first * ENGINE_SECTORS..(last + 1) * ENGINE_SECTORS))
    }

    /// The units that the dirty sectors of a buffer lie in.
    fn units(&self, buffer: &Buffer) -> Mask {
        if self.options.write_unit == WriteUnit::Dirty {
            return buffer.dirty;
        }
        let fragment = self.shape.fragment_bytes / SECTOR;
        each(buffer.dirty).fold(0, |units, index| {
            let unit = match buffer.kinds[index] {
                PageKind::Data | PageKind::Directory => fragment,
                PageKind::Bitmap | PageKind::Inodes | PageKind::Indirect => ENGINE_SECTORS,
            };
            let first = index / unit * unit;
            units | run_mask(&(first..first + unit))
        })
    }

    /// True if all that a write covers is in the cache.
    fn is_whole(&self, slot: Slot, run: &Range<usize>) -> bool {
        run_mask(run) & !self.cache.get(slot).valid == 0
    }

    /// Writes a block of the queue, and those behind it that are in the queue, too.
    fn write_from(&mut self, class: u8, block: BlockNo, below: &mut Below<'_>) {
        let parts = below.node(0).takes_parts();
        let Some((slot, run)) = self.run(block, parts) else {
            match self.waits_for_log(block) {
                Some(to) => self.wait_for_log(class, block, to),
                None => self.postpone(block),
            }
            return;
        };
        if !self.is_whole(slot, &run) {
            let buffer = self.cache.get_mut(slot);
            buffer.again = true;
            if !buffer.reading {
                let kind = buffer.kind;
                self.read_rest(block, kind, below);
            }
            return;
        }
        let per_block = self.shape.engine_per_block();
        let at = block * per_block + (run.start / ENGINE_SECTORS) as u64;
        let mut part = Part { first: (run.start % ENGINE_SECTORS) as u32, sectors: 0 };
        let kind = self.cache.get(slot).kind;
        let most = (self.options.cluster_bytes as usize / ENGINE_BYTES) as u32;
        let (mut data, mut manifest) = (Data::none(), Manifest::default());
        let mut blocks = Vec::new();
        let mut next = Some((slot, run));
        while let Some((slot, run)) = next.take() {
            let block = self.cache.get(slot).block;
            let (image, brings) = self.image(slot, run_mask(&run));
            let (from, to) = (run.start / ENGINE_SECTORS, run.end.div_ceil(ENGINE_SECTORS));
            data.append(Data::bytes(image.share(from * ENGINE_BYTES, to * ENGINE_BYTES)));
            manifest.append(brings);
            part.sectors += run.len() as u32;
            blocks.push(block);
            let reaches_end = run.end == self.shape.sectors();
            let follows = self.output.queue.contains(&(class, block + 1));
            if reaches_end && follows && data.blocks() + per_block as u32 <= most {
                next = self
                    .run(block + 1, parts)
                    .filter(|(slot, run)| run.start == 0 && self.is_whole(*slot, run));
                if next.is_some() {
                    self.output.queue.remove(&(class, block + 1));
                }
            }
        }
        self.stats.sectors_written += u64::from(part.sectors);
        let write = Io::write(0, at, data);
        let is_part = part.sectors < write.sectors();
        let write = if is_part { write.of_part(part) } else { write };
        self.send(write, Sent::Write { blocks, manifest }, kind, below);
    }

    fn send(&mut self, io: Io, sent: Sent, kind: PageKind, below: &mut Below<'_>) {
        self.output.writes += 1;
        self.stats.writes += 1;
        self.stats.blocks_written += u64::from(io.count);
        if kind != PageKind::Data {
            self.stats.metadata_writes += 1;
            self.stats.metadata_blocks_written += u64::from(io.count);
        }
        let purpose = if kind == PageKind::Data { Purpose::Data } else { Purpose::Metadata };
        let tag = self.sent.insert(sent);
        below.submit(0, Io { tag, ..io }.for_purpose(purpose));
    }

    /// A buffer with a write in flight is written again after it.
    fn postpone(&mut self, block: BlockNo) {
        if let Some(slot) = self.cache.find(block) {
            let buffer = self.cache.get_mut(slot);
            buffer.again = buffer.dirty != 0;
        }
    }

    /// The image of a buffer with seals set, and what a write of these sectors brings. They are
    /// clean afterwards, but for those with changes that the policy keeps back; others are written
    /// after this write.
    pub(crate) fn image(&mut self, slot: Slot, sectors: Mask) -> (Page, Manifest) {
        let Core { cache, seals, policy, shape, barriers, stats, .. } = &mut *self;
        let buffer = cache.get_mut(slot);
        let rest = buffer.dirty & !sectors;
        if buffer.dirty & !buffer.kept == 0 {
            // Each has had its turn.
            buffer.kept = 0;
        }
        let block = buffer.block;
        let first = block * shape.sectors() as u64;
        let kinds = buffer.kinds;
        let seal = |page: &mut Page, sectors: Mask| {
            for index in each(sectors).filter(|&index| kinds[index].is_sealed()) {
                let sector = &mut page.make_mut()[index * SECTOR..(index + 1) * SECTOR];
                seals.set(first + index as u64, kinds[index], sector);
            }
        };
        seal(&mut buffer.page, buffer.dirty & !rest);
        let mut shown = buffer.page.clone();
        let (manifest, kept_back) = policy.image(buffer.block, sectors, &mut shown);
        seal(&mut shown, kept_back);
        buffer.kept &= rest;
        buffer.writing = Some(buffer.epoch);
        buffer.unwritten = false;
        barriers.writing(buffer.block, sectors);
        if (rest | kept_back) != 0 {
            barriers.still_dirty(buffer.epoch);
            buffer.kept |= kept_back;
            buffer.again |= rest & !buffer.kept != 0;
        }
        stats.rolled_back += u64::from(kept_back != 0);
        barriers.kept_back |= kept_back != 0;
        cache.set_dirty(slot, rest | kept_back);
        self.nvram_sends(block);
        (shown, manifest)
    }

    /// A write has completed.
    pub(crate) fn written(
        &mut self,
        blocks: &[BlockNo],
        manifest: Manifest,
        outcome: Result<(), IoError>,
        now: Time,
    ) {
        self.output.writes -= 1;
        self.barriers.wrote();
        match outcome {
            Err(error) => {
                let lost = self.lost(blocks, error, false);
                self.fail(error, lost);
            }
            Ok(()) => self.brought(manifest),
        }
        for &block in blocks {
            let slot = self.cache.find(block).expect("a buffer stays while it is written");
            let buffer = self.cache.get_mut(slot);
            let epoch = buffer.writing.take().expect("a write was in flight");
            let again = std::mem::take(&mut buffer.again);
            self.barriers.cleaned(epoch);
            let dirty = buffer.dirty;
            self.barriers.wrote_block(block, dirty);
            if dirty == 0 {
                self.is_written(slot);
            }
            if again {
                self.queue_rest(slot);
            } else if dirty != 0 {
                self.cool(slot, now);
            }
        }
    }
}
