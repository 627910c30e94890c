//! The log binding of an origin, and what a log says of its origin. `SPEC.md`, section "Layout 4:
//! `dcd`".

use super::format::{Areas, BOUND, BOUND_BLOCKS};
use super::rescue::Rescue;
use crate::inplace::header_blocks;
use bytes::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::data::sealed::CHECKED;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::layout::LayoutError;
use seekless_engine::superblock::{Superblock, SuperblockError, le32, le64};
use seekless_engine::units::BlockNr;

/// Where a binding has its generation, behind what every superblock has.
const GENERATION_AT: usize = 56;
/// Where a log says which generation it knows the binding of the origin to have.
const CONFIRMED_AT: usize = 60;
/// Where a binding says which record of the log was durable.
const SEEN_AT: usize = 64;
/// Where a log says where the first blocks of the volume are.
const FIRST_AT: usize = 72;
/// Where a binding says how many blocks were in the log only.
const DIRTY_AT: usize = 80;
/// Where a binding says how many blocks the log can hold.
const CAPACITY_AT: usize = 88;

/// Where the first 128 KiB of a volume are, as its log says it. Ordered as they follow each other
/// within a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FirstBlocks {
    /// On the log device; the origin is bound.
    #[default]
    OnLog,
    /// On their way from one to the other: block 0 of the origin tells which of both counts. The
    /// log holds nothing.
    Moving,
    /// On the origin, which is whole without the log. The log holds nothing.
    OnOrigin,
}

impl FirstBlocks {
    fn number(self) -> u32 {
        match self {
            FirstBlocks::OnLog => 0,
            FirstBlocks::Moving => 1,
            FirstBlocks::OnOrigin => 2,
        }
    }

    fn of(number: u32) -> FirstBlocks {
        match number {
            1 => FirstBlocks::Moving,
            2 => FirstBlocks::OnOrigin,
            _ => FirstBlocks::OnLog,
        }
    }
}

/// The place of the first blocks on the log device.
pub fn beside(log: &Superblock) -> BlockNr {
    header_blocks(log.device_blocks)
}

/// What lies in the place of block 0 of an origin while a log is attached to it, and in the
/// superblock of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Names the log, and the size of the origin.
    pub superblock: Superblock,
    /// How often log and origin have been mounted together.
    pub generation: u32,
    /// In a log: the last generation that the binding of the origin was known to have durably.
    /// Writes of a mount come only after that.
    pub confirmed: u32,
    /// In a log: where the first blocks of the volume are.
    pub first: FirstBlocks,
    /// In an origin: a record of the log that was durable when this was written.
    pub seen: u64,
    /// In an origin: blocks that were in the log only when this was written.
    pub dirty: u64,
    /// In an origin: blocks that the log can hold; 0 if an earlier version wrote it.
    pub capacity: u32,
}

impl Binding {
    /// A binding for the origin of the log that has this superblock.
    pub fn new(log: &Superblock, generation: u32) -> Binding {
        let superblock = Superblock { options: BOUND, device_blocks: log.blocks, ..*log };
        Binding { superblock, ..Binding::for_log(log, generation, 0, FirstBlocks::OnLog) }
    }

    /// The same with the size of the log.
    pub fn of_origin(log: &Superblock, generation: u32) -> Binding {
        let capacity = Areas::from_superblock(log).map_or(0, |areas| areas.log_blocks() as u32);
        Binding { capacity, ..Binding::new(log, generation) }
    }

    /// The superblock of a log as it is written at a mount.
    pub fn for_log(
        log: &Superblock,
        generation: u32,
        confirmed: u32,
        first: FirstBlocks,
    ) -> Binding {
        let (superblock, seen, dirty, capacity) = (*log, 0, 0, 0);
        Binding { superblock, generation, confirmed, first, seen, dirty, capacity }
    }

    fn with_marks(superblock: Superblock, block: &[u8]) -> Binding {
        let (generation, confirmed) = (le32(block, GENERATION_AT), le32(block, CONFIRMED_AT));
        Binding {
            superblock,
            generation,
            confirmed,
            first: FirstBlocks::of(le32(block, FIRST_AT)),
            seen: le64(block, SEEN_AT),
            dirty: le64(block, DIRTY_AT),
            capacity: le32(block, CAPACITY_AT),
        }
    }

    /// Reads the binding of an origin, if there is one. Of its two copies, in blocks 0 and 1, the
    /// later one counts.
    ///
    /// # Errors
    /// A damaged or newer one without a whole second copy, and what the medium reports.
    pub fn read(disk: &mut dyn Disk) -> Result<Option<Binding>, LayoutError> {
        let copies = [Binding::copy(disk, 0)?, Binding::copy(disk, 1)?];
        let whole = copies.iter().filter_map(|copy| copy.as_ref().ok());
        match (whole.max_by_key(|binding| (binding.generation, binding.seen)), &copies[0]) {
            (Some(binding), _) => Ok(Some(*binding)),
            (None, Ok(_) | Err(SuperblockError::Foreign)) => Ok(None),
            (None, Err(error)) => Err(error.clone().into()),
        }
    }

    /// The blocks of an origin in which a copy should be and none is that names this log.
    pub fn lost_copies(disk: &mut dyn Disk, log: &Superblock) -> Vec<BlockNr> {
        let whole =
            |copy| matches!(copy, Ok(Ok(Binding { superblock, .. })) if superblock.id == log.id);
        [0, 1].into_iter().filter(|&at| !whole(Binding::copy(disk, at))).collect()
    }

    /// One copy, or why it is none.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn copy(
        disk: &mut dyn Disk,
        at: BlockNr,
    ) -> Result<Result<Binding, SuperblockError>, IoError> {
        let block = disk.read(at, 1)?.to_bytes();
        Ok(match Superblock::decode(&block) {
            Ok(superblock) if superblock.options & BOUND != 0 => {
                Ok(Binding::with_marks(superblock, &block))
            }
            Ok(_) => Err(SuperblockError::Foreign),
            Err(error) => Err(error),
        })
    }

    /// Writes both copies, one after the other, the one that counts last: if this is cut off
    /// again and again, one of them is whole and not older than it was.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write(&self, disk: &mut dyn Disk, rescue: &Rescue) -> Result<(), IoError> {
        let generation = |copy: Result<Binding, _>| copy.ok().map(|binding| binding.generation);
        let first = generation(Binding::copy(disk, 0)?);
        let second = generation(Binding::copy(disk, 1)?);
        for at in if Edge::BindingOlderFirst.blocks(second > first) { [0, 1] } else { [1, 0] } {
            disk.write(at, self.copy_with(rescue, at))?;
            disk.flush_for(Edge::BindingCopies)?;
        }
        Ok(())
    }

    /// What a log says of its origin: of the copies of its superblock the later one counts.
    pub fn of_log(disk: &mut dyn Disk, superblock: &Superblock) -> Binding {
        let copies = [0, superblock.device_blocks - 1];
        let marks = copies.map(|at| Binding::marks_of_log(disk, superblock, at));
        let (generation, confirmed, first) = marks.into_iter().flatten().max().unwrap_or_default();
        Binding::for_log(superblock, generation, confirmed, first)
    }

    /// What one copy says, if it is whole.
    fn marks_of_log(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        at: BlockNr,
    ) -> Option<(u32, u32, FirstBlocks)> {
        let block = disk.read(at, 1).ok()?.to_bytes();
        let whole = Superblock::decode(&block).is_ok_and(|found| found == *superblock);
        let copy = Binding::with_marks(*superblock, &block);
        whole.then_some((copy.generation, copy.confirmed, copy.first))
    }

    /// Writes both copies of the superblock of a log, one after the other, the one that counts
    /// last: as in [`Binding::write`], one of them is whole whenever this is cut off.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_to_log(&self, disk: &mut dyn Disk) -> Result<(), IoError> {
        let end = self.superblock.device_blocks - 1;
        let first = Binding::marks_of_log(disk, &self.superblock, 0);
        let last = Binding::marks_of_log(disk, &self.superblock, end);
        for at in if Edge::LogMarksOlderFirst.blocks(last > first) { [0, end] } else { [end, 0] } {
            self.write_at(disk, at)?;
            disk.flush_for(Edge::LogMarksCopies)?;
        }
        Ok(())
    }

    /// Writes the superblock with the generation anywhere.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_at(&self, disk: &mut dyn Disk, at: BlockNr) -> Result<(), IoError> {
        disk.write(at, self.encode())
    }

    /// The block as it lies on disk, without anything to rescue.
    pub fn encode(&self) -> Data {
        self.copy_with(&Rescue::default(), 0)
    }

    /// The copy in block `at` of an origin.
    pub fn copy_with(&self, rescue: &Rescue, at: BlockNr) -> Data {
        let mut block = self.superblock.encode().to_vec();
        block[GENERATION_AT..GENERATION_AT + 4].copy_from_slice(&self.generation.to_le_bytes());
        block[CONFIRMED_AT..CONFIRMED_AT + 4].copy_from_slice(&self.confirmed.to_le_bytes());
        block[SEEN_AT..SEEN_AT + 8].copy_from_slice(&self.seen.to_le_bytes());
        block[FIRST_AT..FIRST_AT + 4].copy_from_slice(&self.first.number().to_le_bytes());
        block[DIRTY_AT..DIRTY_AT + 8].copy_from_slice(&self.dirty.to_le_bytes());
        block[CAPACITY_AT..CAPACITY_AT + 4].copy_from_slice(&self.capacity.to_le_bytes());
        rescue.encode(&mut block, at);
        let sum = crc32c(&block[..CHECKED]);
        block[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        Data::bytes(Bytes::from(block))
    }

    /// True if a block begins as a binding of this volume does, whether it is whole or torn.
    pub fn begins(&self, block: &[u8]) -> bool {
        block[..52] == self.encode().to_bytes()[..52]
    }
}

const _: () = assert!(BOUND_BLOCKS == 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Kind;
    use seekless_engine::checksum::Sums;
    use seekless_engine::device::medium::{Cells, Medium as _};
    use seekless_engine::disk::MediumDisk;
    use seekless_engine::units::BLOCK_BYTES;

    /// A disk whose power fails in the first write.
    struct Cut(Cells);

    impl Disk for Cut {
        fn blocks(&self) -> u64 {
            self.0.blocks()
        }
        fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
            self.0.read(at, count)
        }
        fn write(&mut self, at: BlockNr, _data: Data) -> Result<(), IoError> {
            self.0.write(at, &Data::bytes(vec![7; BLOCK_BYTES].into()))?;
            Err(IoError::PowerOff)
        }
        fn flush(&mut self) -> Result<(), IoError> {
            Ok(())
        }
    }

    #[test]
    fn a_seal_that_is_torn_again_and_again_never_grows_older() {
        let log = Superblock {
            layout: Kind::DCD.into(),
            version: 5,
            id: 9,
            blocks: 100,
            device_blocks: 100,
            options: BOUND,
            sums: Sums::NEWEST,
        };
        for generations in [[4, 4], [4, 5], [5, 4]] {
            let mut origin = Cut(Cells::new(100));
            for (at, generation) in (0..).zip(generations) {
                let mut disk = MediumDisk(&mut origin.0);
                Binding::new(&log, generation).write_at(&mut disk, at).expect("it is in range");
            }
            let before = generations.into_iter().max();
            let torn = Binding::new(&log, 6).write(&mut origin, &Rescue::default());
            assert_eq!(torn, Err(IoError::PowerOff));
            let left =
                Binding::read(&mut origin).expect("one is whole").map(|binding| binding.generation);
            assert_eq!(left, before, "{generations:?}");
        }
    }
}
