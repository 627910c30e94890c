//! A device of which the end was cut off, as it was before: what was there cannot be read.

use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::{Expected, IoError, Label};
use seekless_engine::units::BlockNr;

/// The device. It may also be as long as it was, or longer.
pub struct Lengthened<'d> {
    disk: &'d mut dyn Disk,
    blocks: u64,
}

impl<'d> Lengthened<'d> {
    /// The device with so many blocks.
    pub fn new(disk: &'d mut dyn Disk, blocks: u64) -> Lengthened<'d> {
        let blocks = blocks.max(disk.blocks());
        Lengthened { disk, blocks }
    }

    /// Refuses blocks that are not there.
    fn find(&mut self, at: BlockNr, count: u32) -> Result<&mut dyn Disk, IoError> {
        let (end, present) = (at.saturating_add(u64::from(count)), self.disk.blocks());
        if end > present && end <= self.blocks {
            return Err(IoError::Media { block: at.max(present) });
        }
        Ok(self.disk)
    }
}

impl Disk for Lengthened<'_> {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.find(at, count)?.read(at, count)
    }

    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        self.find(at, expected.each.len() as u32)?.read_expecting(at, expected)
    }

    fn read_whole(
        &mut self,
        at: BlockNr,
        count: u32,
        is_whole: &dyn Fn(u32, &Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.find(at, count)?.read_whole(at, count, is_whole)
    }

    fn look_for_whole(
        &mut self,
        at: BlockNr,
        is_whole: &dyn Fn(&Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.find(at, 1)?.look_for_whole(at, is_whole)
    }

    fn is_asked(&self, at: BlockNr, count: u32) -> bool {
        self.disk.is_asked(at, count)
    }

    fn is_computed(&self, at: BlockNr) -> bool {
        self.disk.is_computed(at)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.find(at, data.blocks())?.write(at, data)
    }

    fn has_labels(&self) -> bool {
        self.disk.has_labels()
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        self.find(at, count)?.labels(at, count)
    }

    fn stripe(&self) -> u64 {
        self.disk.stripe()
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.disk.flush()
    }

    /// What was cut off may have held anything.
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        let present = self.disk.blocks();
        let cut = (at.max(present) < self.blocks).then(|| at.max(present));
        if at < present { self.disk.next_data(at).or(cut) } else { cut }
    }
}
