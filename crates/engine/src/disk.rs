//! Plain blocking access, for the code that runs alone: format, mount, check, dump.

use crate::data::{Data, Piece};
use crate::edge::Edge;
use crate::io::{Expected, IoError, Label};
use crate::transaction::Transaction;
use crate::units::BlockNr;

/// A device in blocking style.
pub trait Disk {
    /// Size in blocks.
    fn blocks(&self) -> u64;

    /// Reads `count` blocks.
    ///
    /// # Errors
    /// What the medium reports; a range outside the device is [`IoError::OutOfRange`].
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError>;

    /// Reads blocks of which something is known: a device with copies looks for the one that is
    /// right; see [`crate::io::Io::expected`]. What comes back need not be.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        self.read(at, expected.each.len() as u32)
    }

    /// Reads blocks that tell by themselves whether they are whole, by checksums of their own: a
    /// device with copies looks for one that is where `is_whole`, which is given the index of a
    /// block and its content, says no, and gives it to the others. What comes back need not be
    /// whole.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn read_whole(
        &mut self,
        at: BlockNr,
        count: u32,
        _is_whole: &dyn Fn(u32, &Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.read(at, count)
    }

    /// The same for one block of which it is not certain that such a one belongs there: what is
    /// whole may be something old that only one copy still holds. No copy is corrected.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn look_for_whole(
        &mut self,
        at: BlockNr,
        _is_whole: &dyn Fn(&Piece) -> bool,
    ) -> Result<Data, IoError> {
        self.read(at, 1)
    }

    /// True if it matters whether one of these blocks is whole. A check may leave out stored blocks
    /// that the disk does not ask about.
    fn is_asked(&self, _at: BlockNr, _count: u32) -> bool {
        true
    }

    /// True if no device has a block, and reading it computes it from what several devices have at
    /// the same place: wrong bytes of one of them make two blocks wrong.
    fn is_computed(&self, _at: BlockNr) -> bool {
        false
    }

    /// Writes blocks; durable after the next [`Disk::flush`].
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError>;

    /// True if each block has room for a label beside it; see [`crate::device::medium::Medium`].
    fn has_labels(&self) -> bool {
        false
    }

    /// True if requests to the volume may write single sectors of a block.
    fn takes_parts(&self) -> bool {
        false
    }

    /// Most blocks of a transaction of the volume; 0 if it has none. See
    /// [`crate::node::Node::submit_transaction`].
    fn transaction_blocks(&self) -> u64 {
        0
    }

    /// As [`crate::layer::Status::patch_bytes`] of the volume, if it takes patches; else 0.
    fn patch_bytes(&self) -> u64 {
        0
    }

    /// Carries out a transaction on a volume that takes patches: all of it is durable afterwards,
    /// or nothing of it has happened.
    ///
    /// # Errors
    /// What the volume reports; [`IoError::ReadOnly`] on others.
    fn transact(&mut self, _all: Transaction) -> Result<(), IoError> {
        Err(IoError::ReadOnly)
    }

    /// Writes blocks and their labels; a device without labels drops them.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn write_labelled(
        &mut self,
        at: BlockNr,
        data: Data,
        _labels: &[Label],
    ) -> Result<(), IoError> {
        self.write(at, data)
    }

    /// The labels of `count` blocks.
    ///
    /// # Errors
    /// As for [`Disk::read`].
    fn labels(&mut self, _at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        Ok(vec![Label::default(); count as usize])
    }

    /// Blocks of a stripe where writing a whole one costs less than writing parts of it, 1 if there
    /// is no such thing. Stripes begin at multiples of it.
    fn stripe(&self) -> u64 {
        1
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// What the medium reports.
    fn flush(&mut self) -> Result<(), IoError>;

    /// The same, for this reason.
    ///
    /// # Errors
    /// As for [`Disk::flush`].
    fn flush_for(&mut self, edge: Edge) -> Result<(), IoError> {
        if edge.stands() { self.flush() } else { Ok(()) }
    }

    /// The first block at or after `at` that may hold something other than zeros, if the device
    /// can tell cheaply (a sparse file can). Lets a scan skip holes.
    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        (at < self.blocks()).then_some(at)
    }
}

impl<D: Disk + ?Sized> Disk for &mut D {
    fn blocks(&self) -> u64 {
        (**self).blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        (**self).read(at, count)
    }

    fn read_expecting(&mut self, at: BlockNr, expected: Expected) -> Result<Data, IoError> {
        (**self).read_expecting(at, expected)
    }

    fn read_whole(
        &mut self,
        at: BlockNr,
        count: u32,
        is_whole: &dyn Fn(u32, &Piece) -> bool,
    ) -> Result<Data, IoError> {
        (**self).read_whole(at, count, is_whole)
    }

    fn look_for_whole(
        &mut self,
        at: BlockNr,
        is_whole: &dyn Fn(&Piece) -> bool,
    ) -> Result<Data, IoError> {
        (**self).look_for_whole(at, is_whole)
    }

    fn is_asked(&self, at: BlockNr, count: u32) -> bool {
        (**self).is_asked(at, count)
    }

    fn is_computed(&self, at: BlockNr) -> bool {
        (**self).is_computed(at)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        (**self).write(at, data)
    }

    fn has_labels(&self) -> bool {
        (**self).has_labels()
    }

    fn takes_parts(&self) -> bool {
        (**self).takes_parts()
    }

    fn transaction_blocks(&self) -> u64 {
        (**self).transaction_blocks()
    }

    fn patch_bytes(&self) -> u64 {
        (**self).patch_bytes()
    }

    fn transact(&mut self, all: Transaction) -> Result<(), IoError> {
        (**self).transact(all)
    }

    fn write_labelled(&mut self, at: BlockNr, data: Data, labels: &[Label]) -> Result<(), IoError> {
        (**self).write_labelled(at, data, labels)
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        (**self).labels(at, count)
    }

    fn stripe(&self) -> u64 {
        (**self).stripe()
    }

    fn flush(&mut self) -> Result<(), IoError> {
        (**self).flush()
    }

    fn flush_for(&mut self, edge: Edge) -> Result<(), IoError> {
        (**self).flush_for(edge)
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        (**self).next_data(at)
    }
}

/// Blocking access to a medium.
#[derive(Debug)]
pub struct MediumDisk<'m>(pub &'m mut dyn crate::device::medium::Medium);

impl Disk for MediumDisk<'_> {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.0.blocks(), at, count)?;
        self.0.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        check_range(self.0.blocks(), at, data.blocks())?;
        self.0.write(at, &data)
    }

    fn has_labels(&self) -> bool {
        self.0.has_labels()
    }

    fn write_labelled(&mut self, at: BlockNr, data: Data, labels: &[Label]) -> Result<(), IoError> {
        debug_assert_eq!(labels.len() as u32, data.blocks(), "a label for each block");
        check_range(self.0.blocks(), at, data.blocks())?;
        self.0.write_labelled(at, &data, labels)
    }

    fn labels(&mut self, at: BlockNr, count: u32) -> Result<Vec<Label>, IoError> {
        check_range(self.0.blocks(), at, count)?;
        self.0.labels(at, count)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.0.sync()
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.0.next_data(at)
    }
}

/// Refuses a range of blocks that leaves `0..blocks`.
///
/// # Errors
/// [`IoError::OutOfRange`] with the range.
pub fn check_range(blocks: u64, at: BlockNr, count: u32) -> Result<(), IoError> {
    if at + u64::from(count) > blocks {
        return Err(IoError::OutOfRange { at, count });
    }
    Ok(())
}
