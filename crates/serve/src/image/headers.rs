//! Sector headers of an image: a label for each of its blocks, in a trailer behind them.
//!
//! Such an image is an emulated disk whose sectors have headers that a layout may use. It consists
//! of the blocks, their labels (32 bytes each, padded to whole blocks), and a trailer block.
//! `SPEC.md` has the bytes.

use crate::device::raw;
use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::io::{IoError, Label};
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::fs::File;

const MAGIC: [u8; 8] = *b"SKLSHEAD";
const VERSION: u32 = 1;
const SUM_AT: usize = BLOCK_BYTES - 4;
const LABEL_BYTES: usize = size_of::<Label>();
const _: () = assert!(LABEL_BYTES == 32 && SUM_AT == 4092);

/// Place of the labels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Blocks of the image, without the trailer.
    pub blocks: u64,
}

impl Headers {
    /// Blocks that the labels take.
    fn label_blocks(self) -> u64 {
        (self.blocks * LABEL_BYTES as u64).div_ceil(BLOCK_BYTES as u64)
    }

    /// Blocks of the file: the image and its trailer.
    pub fn file_blocks(self) -> u64 {
        self.blocks + self.label_blocks() + 1
    }

    /// Parses the last block of a file of `file_blocks` blocks, if it is a trailer. An unreadable
    /// block counts as no trailer: the volume then reports the missing labels.
    pub fn find(file: &File, file_blocks: u64) -> Option<Headers> {
        let last = file_blocks.checked_sub(1)?;
        let bytes = raw::read_blocks(file, last, 1).ok()?.to_bytes();
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let sound = bytes[..8] == MAGIC && word(8) == VERSION;
        if !sound || crc32c(&bytes[..SUM_AT]) != word(SUM_AT) {
            return None;
        }
        let headers = Headers { blocks: u64::from(word(16)) | u64::from(word(20)) << 32 };
        // A forged size must not overflow.
        let fits = headers.blocks < file_blocks && headers.file_blocks() == file_blocks;
        fits.then_some(headers)
    }

    /// Writes the trailer block at the end of the file.
    pub fn write_descriptor(self, file: &File) -> Result<(), IoError> {
        let mut block = vec![0; BLOCK_BYTES];
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.blocks.to_le_bytes());
        let sum = crc32c(&block[..SUM_AT]);
        block[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        self.write_bytes(file, raw::offset_of(self.file_blocks() - 1), block)
    }

    fn offset(self, at: BlockNr) -> u64 {
        raw::offset_of(self.blocks) + at * LABEL_BYTES as u64
    }

    fn write_bytes(self, file: &File, offset: u64, bytes: Vec<u8>) -> Result<(), IoError> {
        let block = offset / BLOCK_BYTES as u64;
        raw::write_full(file, &[Bytes::from(bytes)], offset)
            .map_err(|errno| raw::io_error(errno, block))
    }

    /// The labels of `count` blocks.
    pub fn read(self, file: &File, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        let mut bytes = vec![0; count as usize * LABEL_BYTES];
        raw::read_full(file, &mut bytes, self.offset(at))
            .map_err(|errno| raw::io_error(errno, at))?;
        Ok(bytes.as_chunks().0.to_vec())
    }

    /// Replaces the labels of consecutive blocks.
    pub fn write(self, file: &File, at: BlockNr, labels: &[Label]) -> Result<(), IoError> {
        self.write_bytes(file, self.offset(at), labels.concat())
    }

    /// Removes the labels of consecutive blocks.
    pub fn clear(self, file: &File, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.write_bytes(file, self.offset(at), vec![0; count as usize * LABEL_BYTES])
    }
}
