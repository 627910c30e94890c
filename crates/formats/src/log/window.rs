//! The range of a log on a volume, read in long pieces.

use crate::error::is_damage;
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_fs::log::LogSource;
use std::ops::Range;

/// Blocks in one read of a whole log.
pub const AHEAD: u64 = 64;

/// A range of a volume. It remembers the last piece that it has read.
pub struct Window<'d> {
    disk: &'d mut dyn Disk,
    range: Range<BlockNr>,
    /// Blocks in one read.
    ahead: u64,
    /// The first block of the last piece, and its blocks.
    piece: (u64, Vec<Option<Bytes>>),
    failed: Option<IoError>,
}

impl<'d> Window<'d> {
    /// The blocks `range` of a volume, read `ahead` at a time.
    pub fn new(disk: &'d mut dyn Disk, range: Range<BlockNr>, ahead: u64) -> Window<'d> {
        Window { disk, range, ahead, piece: (0, Vec::new()), failed: None }
    }

    /// Why the volume failed, if it did: blocks that cannot be read for themselves are no failure.
    pub fn failed(&self) -> Option<IoError> {
        self.failed
    }

    fn read(&mut self, first: u64, count: u64) -> Result<Data, IoError> {
        let count = u32::try_from(count).expect("a piece is short");
        self.disk.read(self.range.start + first, count)
    }

    fn read_piece(&mut self, first: u64) -> Vec<Option<Bytes>> {
        let blocks = self.range.end - self.range.start;
        let count = self.ahead.min(blocks.saturating_sub(first));
        match self.read(first, count) {
            // Block by block: a volume may have them apart, and each is looked at alone.
            Ok(data) => data.each().map(|block| Some(block.to_bytes())).collect(),
            Err(_) => (first..first + count).map(|block| self.read_one(block)).collect(),
        }
    }

    fn read_one(&mut self, block: u64) -> Option<Bytes> {
        match self.read(block, 1) {
            Ok(data) => Some(data.to_bytes()),
            Err(error) => {
                self.failed = self.failed.or(Some(error).filter(|error| !is_damage(error)));
                None
            }
        }
    }
}

impl LogSource for Window<'_> {
    fn block(&mut self, block: u64) -> Option<Bytes> {
        let first = block / self.ahead * self.ahead;
        if self.piece.0 != first || self.piece.1.is_empty() {
            self.piece = (first, self.read_piece(first));
        }
        self.piece.1.get((block - first) as usize)?.clone()
    }
}
