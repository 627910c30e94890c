//! A medium in memory whose blocks change hands instead of being copied.
//!
//! The memory of a block that was replaced serves the next write, so nothing is allocated either.

use bytes::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::table::Table;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use smallvec::SmallVec;

/// One block.
pub(super) type Buffer = Box<[u8; BLOCK_BYTES]>;

/// What a processor fetches at once.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// Blocks whose buffers are found together.
const PAGE: usize = 256;
/// Buffers that wait to be used, at most: 8 MiB.
const MOST_SPARE: usize = 2048;

/// The medium. Blocks never written read as zeros and take no memory.
#[derive(Debug)]
pub struct Memory {
    blocks: u64,
    pages: Table<Box<[Option<Buffer>; PAGE]>>,
    spare: Vec<Buffer>,
}

impl Memory {
    /// Zeros.
    pub fn new(blocks: u64) -> Memory {
        let pages = Table::new(blocks.div_ceil(PAGE as u64));
        Memory { blocks, pages, spare: Vec::new() }
    }

    /// A buffer with the content of a block.
    fn filled(&mut self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Box::new([0; BLOCK_BYTES]));
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Makes a buffer the content of a block, or none: zeros. Returns what was there.
    pub(super) fn exchange(&mut self, at: BlockNr, buffer: Option<Buffer>) -> Option<Buffer> {
        let (page, index) = (at as usize / PAGE, at as usize % PAGE);
        match buffer {
            None => self.pages.get_mut(page)?[index].take(),
            buffer => {
                let page = self.pages.entry(page, || Box::new([const { None }; PAGE]));
                std::mem::replace(&mut page[index], buffer)
            }
        }
    }

    fn get(&self, at: BlockNr) -> Option<&Buffer> {
        self.pages.get(at as usize / PAGE)?[at as usize % PAGE].as_ref()
    }

    /// A payload, block by block, as [`Memory::exchange`] takes it.
    pub(super) fn take_in(&mut self, data: &Data) -> SmallVec<[Option<Buffer>; 1]> {
        let mut buffers = SmallVec::with_capacity(data.blocks() as usize);
        for piece in data.pieces() {
            match &piece.body {
                Body::Zeros => buffers.extend((0..piece.blocks).map(|_| None)),
                _ => {
                    let bytes = piece.to_bytes();
                    buffers.extend(bytes.chunks(BLOCK_BYTES).map(|one| Some(self.filled(one))));
                }
            }
        }
        buffers
    }

    /// Takes a buffer back, for a later write.
    pub(super) fn give_back(&mut self, buffer: Buffer) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(buffer);
        }
    }

    /// Has the processor fetch the memory that the next write will fill, while it does other
    /// things: it was last touched long ago, and waiting for it is what a write costs most.
    pub(super) fn warm_up(&self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(next) = self.spare.last() {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            for line in next.chunks(LINE_BYTES) {
                // SAFETY: a hint about memory that is ours; it neither reads nor writes.
                unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) };
            }
        }
    }
}

impl Medium for Memory {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let mut out = Vec::with_capacity(count as usize * BLOCK_BYTES);
        for block in at..at + u64::from(count) {
            match self.get(block) {
                Some(buffer) => out.extend_from_slice(&**buffer),
                None => out.resize(out.len() + BLOCK_BYTES, 0),
            }
        }
        Ok(Data::bytes(Bytes::from(out)))
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        for (at, buffer) in (at..).zip(self.take_in(data)) {
            if let Some(old) = self.exchange(at, buffer) {
                self.give_back(old);
            }
        }
        Ok(())
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        // Most of a large range may never have been written.
        let mut next = at;
        while let Some(found) = self.next_data(next).filter(|&found| found - at < count.into()) {
            if let Some(old) = self.exchange(found, None) {
                self.give_back(old);
            }
            next = found + 1;
        }
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let (mut number, mut skip) = (at as usize / PAGE, at as usize % PAGE);
        while let Some(next) = self.pages.next(number) {
            let skipped = if next == number { skip } else { 0 };
            let page = self.pages.get(next)?;
            if let Some(index) = page[skipped..].iter().position(Option::is_some) {
                return Some((next * PAGE + skipped + index) as u64);
            }
            (number, skip) = (next + 1, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_takes_no_memory_and_no_time() {
        let blocks = 30_000_000_000_000 / BLOCK_BYTES as u64;
        let mut memory = Memory::new(blocks);
        assert_eq!(memory.next_data(0), None);
        let places = [255, 256, 1000, blocks - 3];
        for at in places {
            memory.write(at, &Data::stamp(1, at, 1)).expect("memory does not fail");
        }
        let mut found = Vec::new();
        while let Some(at) = memory.next_data(found.last().map_or(0, |at| at + 1)) {
            found.push(at);
        }
        assert_eq!(found, places);
        assert_eq!(
            memory.read(254, 3).expect("memory does not fail").to_bytes()[BLOCK_BYTES..],
            [Data::stamp(1, 255, 1).to_bytes(), Data::stamp(1, 256, 1).to_bytes()].concat()
        );
        memory.trim(256, u32::MAX).expect("memory does not fail");
        assert_eq!((memory.next_data(0), memory.next_data(256)), (Some(255), Some(blocks - 3)));
    }
}
