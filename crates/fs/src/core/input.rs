//! Reads: missing blocks, joined with their neighbours, and blocks that are read ahead.
//!
//! A read fills the sectors of a buffer that are invalid when it completes; what an operation
//! wrote in between stays.

use super::cache::{NumberMap, Slot};
use super::page::{ENGINE_BYTES, SECTOR, each};
use super::tx::Wanted;
use super::{CallKey, Core, Sent};
use crate::tx::{BlockNo, PageKind};
use seekless_engine::client::Below;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Io, IoError, Outcome, Purpose};
use smallvec::SmallVec;

/// Blocks that one run of an operation may announce.
pub(crate) const MOST_EXPECTED: usize = 64;

/// Blocks in one read at most, in bytes.
const MOST_READ: u64 = 128 << 10;

/// Calls that wait for blocks in flight.
#[derive(Debug, Default)]
pub struct Input {
    waiting: NumberMap<SmallVec<[CallKey; 2]>>,
}

/// Buffers that a call pins.
pub type Pins = SmallVec<[Slot; 8]>;

impl Core {
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
            self.input.waiting.entry(block).or_default().push(key);
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
        let bytes = disk.read(from, count)?.to_bytes();
        self.cache.find_or_make(block, kind);
        self.fill(block, &bytes);
        Ok(())
    }

    /// Lets the buffers go that a call has pinned.
    pub fn unpin(&mut self, pins: &mut Pins) {
        for slot in pins.drain(..) {
            self.cache.get_mut(slot).pins -= 1;
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
        let purpose = if kind == PageKind::Data { Purpose::Data } else { Purpose::Metadata };
        let count = u32::try_from(to - from).expect("a read is short");
        below.submit(0, Io::read(tag, from, count).for_purpose(purpose));
    }

    /// A read has completed.
    pub(crate) fn filled(&mut self, first: BlockNo, count: u32, outcome: &Outcome) {
        let bytes = outcome.as_ref().map(seekless_engine::data::Data::to_bytes);
        for (index, block) in (first..first + u64::from(count)).enumerate() {
            let error = match &bytes {
                Ok(bytes) => {
                    let from = (index * self.shape.block_bytes).min(bytes.len());
                    let to = (from + self.shape.block_bytes).min(bytes.len());
                    self.fill(block, &bytes[from..to]);
                    None
                }
                Err(error) => Some(**error),
            };
            self.fill_ended(block, error);
        }
    }

    /// Gives a buffer the content of its invalid sectors.
    fn fill(&mut self, block: BlockNo, bytes: &[u8]) {
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let whole = self.shape.whole();
        let buffer = self.cache.get_mut(slot);
        let valid = buffer.valid;
        let page = buffer.page.make_mut();
        debug_assert_eq!(bytes.len() % ENGINE_BYTES, 0, "reads are whole blocks");
        if valid == 0 {
            page[..bytes.len()].copy_from_slice(bytes);
            page[bytes.len()..].fill(0);
        } else {
            for index in each(whole & !valid) {
                let sector = index * SECTOR..(index + 1) * SECTOR;
                match bytes.get(sector.clone()) {
                    Some(old) => page[sector].copy_from_slice(old),
                    None => page[sector].fill(0),
                }
            }
        }
        buffer.checked &= valid;
        buffer.valid = whole;
    }

    fn fill_ended(&mut self, block: BlockNo, error: Option<IoError>) {
        let slot = self.cache.find(block).expect("a buffer stays while it is read");
        let buffer = self.cache.get_mut(slot);
        buffer.reading = false;
        let again = buffer.writing.is_none() && std::mem::take(&mut buffer.again);
        if again {
            match error {
                Some(error) => self.fail(error),
                None => self.queue_write(slot),
            }
        }
        for key in self.input.waiting.remove(&block).unwrap_or_default() {
            self.ready.arrived(key, error);
        }
    }
}
