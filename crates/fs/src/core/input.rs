//! Reads: missing blocks, joined with their neighbours, and blocks that are read ahead.
//!
//! A read fills the sectors of a buffer that are invalid when it completes; what an operation
//! wrote in between stays. A read that meets a bad place is repeated in pieces of 4096 bytes. The
//! calls that wait run in any case, and fail only if they need a sector that is bad.

use super::cache::Slot;
use super::page::{ENGINE_BYTES, Mask, SECTOR, each, engine_mask};
use super::tx::Wanted;
use super::{CallKey, Core, Sent};
use crate::cow::CowMap;
use crate::tx::{BlockNo, PageKind};
use bytes::Bytes;
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Io, IoError, Outcome, Purpose};
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;
use std::fmt::Debug;
use std::sync::Arc;

/// Blocks that one run of an operation may announce.
pub(crate) const MOST_EXPECTED: usize = 64;

/// Blocks in one read at most, in bytes.
const MOST_READ: u64 = 128 << 10;

/// Changes what reads bring before the cache takes it: a mount that writes nothing sees blocks as
/// the recovery of its log would leave them.
pub trait Overlay: Debug + Send + Sync {
    /// Changes whole blocks of 4096 bytes of the volume, of which the first one has this number.
    fn patch(&self, first: BlockNr, bytes: &mut [u8]);
}

/// Calls that wait for blocks in flight.
#[derive(Clone, Debug, Default)]
pub struct Input {
    overlay: Option<Arc<dyn Overlay>>,
    waiting: CowMap<BlockNo, SmallVec<[CallKey; 2]>>,
    /// Blocks that are read piece by piece.
    pieces: CowMap<BlockNo, Pieces>,
}

impl Input {
    /// Makes clones cheap.
    pub(crate) fn share(&mut self) {
        self.waiting.share(|_| {});
        self.pieces.share(|_| {});
    }
}

/// Reads in flight of the pieces of one block.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    left: usize,
    error: Option<IoError>,
}

/// Buffers that a call pins.
pub type Pins = SmallVec<[Slot; 8]>;

impl Core {
    /// From now on reads go through this.
    pub fn read_through(&mut self, overlay: Arc<dyn Overlay>) {
        self.input.overlay = Some(overlay);
    }

    /// What a read of blocks of the volume has brought, as the cache takes it.
    fn seen(&self, first: BlockNr, data: &Data) -> Bytes {
        let bytes = data.to_bytes();
        let Some(overlay) = &self.input.overlay else { return bytes };
        let mut bytes = bytes.to_vec();
        overlay.patch(first, &mut bytes);
        bytes.into()
    }

    /// Reads what a call misses. The call becomes ready when all of it is there; until
    /// [`Core::unpin`] the blocks stay in the cache.
    pub fn fetch(&mut self, key: CallKey, wanted: &Wanted, pins: &mut Pins, below: &mut Below<'_>) {
        let mut batch: SmallVec<[(BlockNo, PageKind); 16]> = SmallVec::new();
        let mut waits = 0;
        for &(block, kind) in wanted {
            let slot = self.cache.find_or_make(block, kind);
            self.cache.get_mut(slot).pins += 1;
            pins.push(slot);
            if !self.is_missing(block) {
                continue;
            }
            waits += 1;
            self.input.waiting.update(block, SmallVec::new, |keys| keys.push(key));
            if !self.cache.get(slot).reading {
                batch.push((block, kind));
            }
        }
        if waits == 0 {
            self.ready.push(key);
            return;
        }
        self.ready.wait(key, waits);
        self.read_all(&mut batch, below);
    }

    /// Reads a block at once, while the volume is a disk in blocking style.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn read_now(
        &mut self,
        block: BlockNo,
        kind: PageKind,
        disk: &mut dyn Disk,
    ) -> Result<(), IoError> {
        let per_block = self.shape.engine_per_block();
        let from = block * per_block;
        let to = (from + per_block).min(self.shape.engine_blocks);
        let count = u32::try_from(to - from).expect("a block is small");
        let data = disk.read(from, count)?;
        let bytes = self.seen(from, &data);
        self.cache.find_or_make(block, kind);
        self.fill(block, 0, self.shape.whole(), &bytes);
        Ok(())
    }

    /// Lets the buffers go that a call has pinned.
    pub fn unpin(&mut self, pins: &mut Pins) {
        for slot in pins.drain(..) {
            let buffer = self.cache.get_mut(slot);
            buffer.pins -= 1;
            if buffer.pins == 0 {
                // Another call tries again.
                buffer.bad = 0;
            }
        }
    }

    /// Reads blocks for which no call waits yet.
    pub fn read_ahead(&mut self, wanted: &[(BlockNo, PageKind)], below: &mut Below<'_>) {
        let mut batch: SmallVec<[(BlockNo, PageKind); 16]> = SmallVec::new();
        for &(block, kind) in wanted {
            if block < self.shape.blocks() && self.cache.find(block).is_none() {
                self.stats.read_ahead += 1;
                batch.push((block, kind));
            }
        }
        self.read_all(&mut batch, below);
    }

    /// Reads the rest of a buffer that has to be written.
    pub(crate) fn read_rest(&mut self, block: BlockNo, kind: PageKind, below: &mut Below<'_>) {
        self.stats.hidden_reads += 1;
        self.read_all(&mut SmallVec::from_slice(&[(block, kind)]), below);
    }

    /// Sends reads for blocks in order of their addresses, neighbours together.
    fn read_all(&mut self, batch: &mut SmallVec<[(BlockNo, PageKind); 16]>, below: &mut Below<'_>) {
        batch.retain(|&mut (block, kind)| !self.is_nothing(block, kind));
        batch.sort_unstable_by_key(|one| one.0);
        batch.dedup_by_key(|one| one.0);
        let most = MOST_READ / self.shape.block_bytes as u64;
        let mut rest = &batch[..];
        while let Some(&(first, kind)) = rest.first() {
            let count = rest
                .iter()
                .zip(first..first + most)
                .take_while(|((block, other), at)| {
                    block == at && (*other == PageKind::Data) == (kind == PageKind::Data)
                })
                .count();
            self.read_run(&rest[..count], below);
            rest = &rest[count..];
        }
    }

    /// A block that was cut holds nothing, whatever the volume says before it knows. True for such
    /// a one; those who wait for it can go on.
    fn is_nothing(&mut self, block: BlockNo, kind: PageKind) -> bool {
        if !self.policy.writes_patches() || !self.policy.is_cut(block) {
            return false;
        }
        self.cache.find_or_make(block, kind);
        self.fill(block, 0, self.shape.whole(), &[]);
        self.fill_ended(block, None);
        true
    }

    fn read_run(&mut self, run: &[(BlockNo, PageKind)], below: &mut Below<'_>) {
        for &(block, kind) in run {
            let slot = self.cache.find_or_make(block, kind);
            self.cache.get_mut(slot).reading = true;
        }
        let ((first, kind), count) = (run[0], run.len() as u32);
        let per_block = self.shape.engine_per_block();
        let from = first * per_block;
        let to = ((first + u64::from(count)) * per_block).min(self.shape.engine_blocks);
        self.stats.reads += 1;
        self.stats.blocks_read += u64::from(count);
        self.stats.metadata_reads += u64::from(kind != PageKind::Data);
        let tag = self.sent.insert(Sent::Fill { first, count });
        let purpose = purpose(kind);
        let count = u32::try_from(to - from).expect("a read is short");
        below.submit(0, Io::read(tag, from, count).for_purpose(purpose));
    }

    /// A read has completed. If part of what it asked for cannot be read, the rest is read again in
    /// pieces, so that a bad place costs only what lies there.
    pub(crate) fn filled(
        &mut self,
        first: BlockNo,
        count: u32,
        outcome: &Outcome,
        below: &mut Below<'_>,
    ) {
        let blocks = first..first + u64::from(count);
        let error = match outcome {
            Ok(data) => {
                let bytes = self.seen(first * self.shape.engine_per_block(), data);
                let mut parts = bytes.chunks(self.shape.block_bytes);
                for block in blocks.clone() {
                    self.fill(block, 0, self.shape.whole(), parts.next().unwrap_or_default());
                }
                None
            }
            Err(IoError::Media { .. } | IoError::Checksum { .. }) => {
                return blocks.for_each(|block| self.read_pieces(block, below));
            }
            Err(error) => Some(*error),
        };
        blocks.for_each(|block| self.fill_ended(block, error));
    }

    /// Reads each block of the volume in a block for itself.
    fn read_pieces(&mut self, block: BlockNo, below: &mut Below<'_>) {
        let per_block = self.shape.engine_per_block();
        let first = block * per_block;
        let count = per_block.min(self.shape.engine_blocks - first) as usize;
        self.input.pieces.insert(block, Pieces { left: count, error: None });
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let purpose = purpose(self.cache.get(slot).kind);
        for index in 0..count {
            self.stats.reads += 1;
            let tag = self.sent.insert(Sent::Piece { block, index });
            let read = Io::read(tag, first + index as u64, 1);
            below.submit(0, read.for_purpose(purpose));
        }
    }

    /// A read of a piece has completed.
    pub(crate) fn piece_filled(&mut self, block: BlockNo, index: usize, outcome: &Outcome) {
        let sectors = engine_mask(index);
        let error = match outcome {
            Ok(data) => {
                let at = block * self.shape.engine_per_block() + index as u64;
                self.fill(block, index * ENGINE_BYTES, sectors, &self.seen(at, data));
                None
            }
            Err(error) => {
                let slot = self.cache.find(block).expect("a buffer stays while it is read");
                let buffer = self.cache.get_mut(slot);
                if buffer.pins > 0 {
                    buffer.bad |= sectors;
                }
                Some(*error)
            }
        };
        let pieces = self.input.pieces.get_mut(&block).expect("it is read in pieces");
        pieces.left -= 1;
        pieces.error = pieces.error.or(error);
        let Pieces { left, error } = *pieces;
        if left == 0 {
            self.input.pieces.remove(&block);
            self.pieces_ended(block, error);
        }
    }

    /// All pieces of a block have been read, or have failed. Calls that wait for it run: those that
    /// need a bad sector fail.
    fn pieces_ended(&mut self, block: BlockNo, error: Option<IoError>) {
        let per_block = self.shape.engine_per_block();
        let count = per_block.min(self.shape.engine_blocks - block * per_block) as usize;
        let behind = (count..per_block as usize).fold(0, |mask, n| mask | engine_mask(n));
        self.fill(block, count * ENGINE_BYTES, behind, &[]);
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let buffer = self.cache.get(slot);
        let lacks =
            |n: usize| buffer.dirty & engine_mask(n) != 0 && engine_mask(n) & !buffer.valid != 0;
        // Zeros in place of what cannot be read would make damage look like content.
        let stuck = buffer.again && buffer.writing.is_none() && (0..count).any(lacks);
        if let Some(error) = error.filter(|_| stuck) {
            self.fail(error, self.lost(&[block], error, true));
        }
        self.fill_ended(block, None);
    }

    /// Gives a buffer the content of those of some sectors that are invalid. The bytes stand for
    /// the block from `from` on; what lies behind them is zeros.
    fn fill(&mut self, block: BlockNo, from: usize, sectors: Mask, bytes: &[u8]) {
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let whole = self.shape.whole();
        let buffer = self.cache.get_mut(slot);
        let page = buffer.page.make_mut();
        debug_assert_eq!(bytes.len() % ENGINE_BYTES, 0, "reads are whole blocks");
        if buffer.valid == 0 && sectors == whole {
            page[..bytes.len()].copy_from_slice(bytes);
            page[bytes.len()..].fill(0);
        } else {
            for index in each(sectors & !buffer.valid) {
                let sector = index * SECTOR..(index + 1) * SECTOR;
                match bytes.get(sector.start - from..sector.end - from) {
                    Some(old) => page[sector].copy_from_slice(old),
                    None => page[sector].fill(0),
                }
            }
        }
        buffer.checked &= !(sectors & !buffer.valid);
        buffer.valid |= sectors;
        buffer.bad &= !sectors;
    }

    fn fill_ended(&mut self, block: BlockNo, error: Option<IoError>) {
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let buffer = self.cache.get_mut(slot);
        buffer.reading = false;
        let again = buffer.writing.is_none() && std::mem::take(&mut buffer.again);
        if again {
            match error {
                Some(error) => self.fail(error, self.lost(&[block], error, true)),
                None => self.queue_write(slot),
            }
        }
        for key in self.input.waiting.remove(&block).unwrap_or_default() {
            self.ready.arrived(key, error);
        }
    }
}

fn purpose(kind: PageKind) -> Purpose {
    if kind == PageKind::Data { Purpose::Data } else { Purpose::Metadata }
}
