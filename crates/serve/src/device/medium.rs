//! A medium over a file: where an emulated disk keeps its bytes.

use super::raw::{self, ZeroWay};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Medium;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::fs::File;

/// The blocks of a file or a block device, through the page cache. Blocks behind the end of the
/// file read as zeros; a write there lengthens it.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    blocks: u64,
    zero_way: ZeroWay,
}

impl FileMedium {
    /// A medium of `blocks` blocks in `file`, which has been opened for what will be asked of it.
    pub fn new(file: File, blocks: u64) -> FileMedium {
        FileMedium { file, blocks, zero_way: ZeroWay::Punch }
    }
}

impl Medium for FileMedium {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        raw::read_blocks(&self.file, at, count)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        raw::write_blocks(&self.file, at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        if count == 0 {
            return Ok(());
        }
        let bytes = u64::from(count) * BLOCK_BYTES as u64;
        raw::zero_full(&self.file, raw::offset_of(at), bytes, &mut self.zero_way)
            .map_err(|errno| raw::io_error(errno, at))
    }

    fn sync(&mut self) -> Result<(), IoError> {
        raw::sync(&self.file).map_err(|errno| raw::io_error(errno, 0))
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        raw::next_data(&self.file, at, self.blocks)
    }
}
