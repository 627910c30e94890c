//! A medium over a file: the bytes of an emulated disk.

use super::raw::{self, ZeroWay};
use crate::image::Headers;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Medium;
use seekless_engine::io::{IoError, Label};
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::fs::File;

/// The blocks of a file or a block device, through the page cache. Blocks behind the end of the
/// file read as zeros; a write there lengthens it.
#[derive(Debug)]
pub struct FileMedium {
    file: File,
    blocks: u64,
    headers: Option<Headers>,
    zero_way: ZeroWay,
}

impl FileMedium {
    /// A medium of `blocks` blocks in `file`, which is open for the required access.
    pub fn new(file: File, blocks: u64) -> FileMedium {
        FileMedium { file, blocks, headers: None, zero_way: ZeroWay::Punch }
    }

    /// The same medium with labels beside its blocks, if the file has them.
    pub(crate) fn with_headers(self, headers: Option<Headers>) -> FileMedium {
        FileMedium { headers, ..self }
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
        raw::write_blocks(&self.file, at, data)?;
        match self.headers {
            Some(headers) => headers.clear(&self.file, at, data.blocks()),
            None => Ok(()),
        }
    }

    fn has_labels(&self) -> bool {
        self.headers.is_some()
    }

    /// The data goes first: a server that is killed in between leaves a block without its label,
    /// which counts as unwritten.
    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: &[Label],
    ) -> Result<(), IoError> {
        raw::write_blocks(&self.file, at, data)?;
        match self.headers {
            Some(headers) => headers.write(&self.file, at, labels),
            None => Ok(()),
        }
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        match self.headers {
            Some(headers) => headers.read(&self.file, at, count),
            None => Ok(vec![Label::default(); count as usize]),
        }
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        if count == 0 {
            return Ok(());
        }
        let bytes = u64::from(count) * BLOCK_BYTES as u64;
        raw::zero_full(&self.file, raw::offset_of(at), bytes, &mut self.zero_way)
            .map_err(|errno| raw::io_error(errno, at))?;
        match self.headers {
            Some(headers) => headers.clear(&self.file, at, count),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<(), IoError> {
        raw::sync(&self.file).map_err(raw::sync_error)
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        raw::next_data(&self.file, at, self.blocks)
    }
}
