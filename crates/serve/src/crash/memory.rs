//! A medium in memory whose blocks change hands instead of being copied.
//!
//! The memory of a block that was replaced serves the next write, so nothing is allocated either.

use bytes::Bytes;
use seekless_engine::data::{Body, Data};
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::table::Table;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

/// One block.
pub(super) type Buffer = Box<[u8; BLOCK_BYTES]>;

/// What a processor fetches at once.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// Buffers that wait to be used, at most: 8 MiB.
const MOST_SPARE: usize = 2048;

/// The medium. Blocks never written read as zeros and take no memory.
#[derive(Debug)]
pub struct Memory {
    blocks: u64,
    buffers: Table<Buffer>,
    spare: Vec<Buffer>,
}

impl Memory {
    /// Zeros.
    pub fn new(blocks: u64) -> Memory {
        Memory { blocks, buffers: Table::new(blocks), spare: Vec::new() }
    }

    /// A buffer with the content of a block.
    pub(super) fn filled(&mut self, bytes: &[u8]) -> Buffer {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Box::new([0; BLOCK_BYTES]));
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Makes a buffer the content of a block, or none: zeros. Returns what was there.
    pub(super) fn exchange(&mut self, at: BlockNr, buffer: Option<Buffer>) -> Option<Buffer> {
        let index = at as usize;
        match (self.buffers.get_mut(index), buffer) {
            (Some(old), Some(buffer)) => Some(std::mem::replace(old, buffer)),
            (Some(_), None) => self.buffers.remove(index),
            (None, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.entry(index, || buffer);
                }
                None
            }
        }
    }

    /// Takes memory back that nobody needs any more.
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

    fn copy_in(&mut self, at: BlockNr, bytes: &[u8]) {
        match self.buffers.get_mut(at as usize) {
            Some(buffer) => buffer.copy_from_slice(bytes),
            None => {
                let buffer = self.filled(bytes);
                self.exchange(at, Some(buffer));
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
            match self.buffers.get(block as usize) {
                Some(buffer) => out.extend_from_slice(&**buffer),
                None => out.resize(out.len() + BLOCK_BYTES, 0),
            }
        }
        Ok(Data::bytes(Bytes::from(out)))
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let mut at = at;
        for piece in data.pieces() {
            let whole;
            let bytes: &[u8] = match &piece.body {
                Body::Bytes(bytes) => bytes,
                _ => {
                    whole = piece.to_bytes();
                    &whole
                }
            };
            for block in bytes.chunks(BLOCK_BYTES) {
                self.copy_in(at, block);
                at += 1;
            }
        }
        Ok(())
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        // Most of a large range may never have been written.
        let (mut next, end) = (at as usize, (at + u64::from(count)) as usize);
        while let Some(index) = self.buffers.next(next).filter(|&index| index < end) {
            if let Some(buffer) = self.buffers.remove(index) {
                self.give_back(buffer);
            }
            next = index + 1;
        }
        Ok(())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.buffers.next(at as usize).map(|index| index as u64)
    }
}
