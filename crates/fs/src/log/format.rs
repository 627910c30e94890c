//! The bytes of superblocks and sectors, and where they lie in the range of a log.

use crate::fields::{array_at, put, u16_at, u32_at, u64_at};
use crate::seal::{SealKind, Sealer};
use crate::tx::SECTOR_CONTENT;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use std::fmt;

/// The first bytes of a superblock.
pub const MAGIC: [u8; 8] = *b"SEEKWAL\n";
/// The version of the format that this program reads and writes.
pub const VERSION: u32 = 1;
/// Blocks of the smallest range.
pub const LEAST_BLOCKS: u32 = 256;
/// The same of a log that keeps its groups, which needs no space for what a file system carries on.
pub const LEAST_KEPT_BLOCKS: u32 = 32;
/// Blocks in front of the ring: the superblocks.
pub const SUPERBLOCKS: u32 = 2;
/// Bytes of the largest log write.
pub const MOST_UNIT: u32 = 64 << 10;
/// Bytes of a sector in front of its payload.
pub const SECTOR_HEAD: usize = 24;
/// Bytes of payload in a sector.
pub const PAYLOAD: usize = SECTOR_CONTENT - SECTOR_HEAD;
/// Sector numbers lie below this, so that a position has 64 bits.
pub const MOST_NUMBER: u64 = 1 << 54;
/// The file system of a log that belongs to none.
pub const NO_FILE_SYSTEM: u128 = 0;
/// Sequences of superblocks lie below this.
pub const MOST_SEQUENCE: u64 = 1 << 63;

const NUMBER: usize = 0;
const EPOCH: usize = 8;
const USED: usize = 12;
const FIRST: usize = 14;
const DURABLE: usize = 16;
const _: () = assert!(DURABLE + 8 == SECTOR_HEAD && PAYLOAD == 480);

const SUPER_UNIT: usize = 12;
const SUPER_ID: usize = 16;
const SUPER_FILE_SYSTEM: usize = 32;
const SUPER_SEQUENCE: usize = 48;
const SUPER_START: usize = 56;
const SUPER_EPOCH: usize = 64;
const SUPER_BLOCKS: usize = 68;
const SUPER_FLAGS: usize = 72;
const SUPER_DURABLE: usize = 80;
const SUPER_OLDEST: usize = 88;
const SUPER_BEGIN: usize = 96;
const _: () = assert!(SUPER_BEGIN + 8 <= SECTOR_CONTENT);

/// Bit of the flags: a clean unmount has released everything.
const CLEAN: u32 = 1;
/// Bit of the flags: groups of earlier epochs count, see [`Kept`].
const KEPT: u32 = 2;

/// A position in the log: 512 · sector number + offset in the sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lsn(pub u64);

impl Lsn {
    /// A byte of a sector.
    pub fn new(number: u64, offset: usize) -> Lsn {
        debug_assert!(offset < SECTOR_BYTES, "{offset} lies in a sector");
        Lsn(number * SECTOR_BYTES as u64 + offset as u64)
    }

    /// The number of the sector.
    pub fn number(self) -> u64 {
        self.0 / SECTOR_BYTES as u64
    }

    /// The offset in the sector.
    pub fn offset(self) -> usize {
        (self.0 % SECTOR_BYTES as u64) as usize
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The sizes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Blocks of the range, of 4096 bytes each.
    pub blocks: u32,
    /// Bytes of the largest write: a power of two from 4096 to [`MOST_UNIT`]. A write does not
    /// cross a multiple of it.
    pub unit: u32,
}

impl LogShape {
    /// True if a log of at least so many blocks can have these sizes.
    pub fn is_valid(self, least: u32) -> bool {
        self.blocks >= least
            && self.unit.is_power_of_two()
            && (BLOCK_BYTES as u32..=MOST_UNIT).contains(&self.unit)
    }

    /// Sectors of the ring.
    pub fn sectors(self) -> u64 {
        BLOCK_SECTORS * u64::from(self.blocks - SUPERBLOCKS)
    }

    /// The sector of the range, from its start, where the sector with this number lies.
    pub fn place(self, number: u64) -> u64 {
        BLOCK_SECTORS * u64::from(SUPERBLOCKS) + number % self.sectors()
    }

    /// Sectors of a unit.
    pub fn unit_sectors(self) -> u64 {
        u64::from(self.unit) / SECTOR_BYTES as u64
    }
}

/// What the superblock of a log says whose groups outlive their epoch: nothing brings them in
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The epoch of the sector at the start.
    pub oldest: u32,
    /// The number of the first sector of the newest epoch.
    pub begin: u64,
}

/// The superblock of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSuperblock {
    /// Sizes.
    pub shape: LogShape,
    /// Identity of the log, part of every seal.
    pub id: u128,
    /// Identity of the file system that the log belongs to.
    pub file_system: u128,
    /// Counts superblocks; its lowest bit is the block in which this one lies.
    pub sequence: u64,
    /// Where recovery begins.
    pub start: Lsn,
    /// Up to here the log was durable when this was written.
    pub durable: Lsn,
    /// Each mount and each recovery raises it.
    pub epoch: u32,
    /// A clean unmount has written everything in place.
    pub clean: bool,
    /// Groups of earlier epochs count, too.
    pub kept: Option<Kept>,
}

impl Kept {
    fn makes_sense(self, superblock: &LogSuperblock) -> bool {
        let LogSuperblock { start, durable, epoch, clean, .. } = *superblock;
        let is_behind = start.number() < self.begin;
        let is_ordered = (self.oldest < epoch) == is_behind && self.oldest <= epoch;
        !clean && is_ordered && self.begin <= durable.number()
    }
}

impl LogSuperblock {
    /// The block of the range in which this superblock lies.
    pub fn block(&self) -> u64 {
        self.sequence % u64::from(SUPERBLOCKS)
    }

    /// The block of 4096 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; BLOCK_BYTES];
        put(&mut out, 0, &MAGIC);
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, SUPER_UNIT, &self.shape.unit.to_le_bytes());
        put(&mut out, SUPER_ID, &self.id.to_le_bytes());
        put(&mut out, SUPER_FILE_SYSTEM, &self.file_system.to_le_bytes());
        put(&mut out, SUPER_SEQUENCE, &self.sequence.to_le_bytes());
        put(&mut out, SUPER_START, &self.start.0.to_le_bytes());
        put(&mut out, SUPER_EPOCH, &self.epoch.to_le_bytes());
        put(&mut out, SUPER_BLOCKS, &self.shape.blocks.to_le_bytes());
        let clean = if self.clean { CLEAN } else { 0 };
        let kept = if self.kept.is_some() { KEPT } else { 0 };
        put(&mut out, SUPER_FLAGS, &(clean | kept).to_le_bytes());
        put(&mut out, SUPER_DURABLE, &self.durable.0.to_le_bytes());
        if let Some(Kept { oldest, begin }) = self.kept {
            put(&mut out, SUPER_OLDEST, &oldest.to_le_bytes());
            put(&mut out, SUPER_BEGIN, &begin.to_le_bytes());
        }
        let address = self.block() * BLOCK_SECTORS;
        let sector = &mut out[..SECTOR_BYTES];
        Sealer::new(self.id).set(sector, address, SealKind::Log, self.sequence as u16);
        out
    }

    /// Reads the superblock of a block of the range. None without a valid seal, or with values that
    /// no program writes.
    pub fn decode(bytes: &[u8], block: u64) -> Option<LogSuperblock> {
        let sector = bytes.get(..SECTOR_BYTES)?;
        let id = u128::from_le_bytes(array_at(sector, SUPER_ID));
        let is_whole = sector[..8] == MAGIC
            && u32_at(sector, 8) == VERSION
            && Sealer::new(id).is_whole(sector, block * BLOCK_SECTORS, SealKind::Log);
        let flags = u32_at(sector, SUPER_FLAGS);
        let found = LogSuperblock {
            shape: LogShape {
                blocks: u32_at(sector, SUPER_BLOCKS),
                unit: u32_at(sector, SUPER_UNIT),
            },
            id,
            file_system: u128::from_le_bytes(array_at(sector, SUPER_FILE_SYSTEM)),
            sequence: u64_at(sector, SUPER_SEQUENCE),
            start: Lsn(u64_at(sector, SUPER_START)),
            durable: Lsn(u64_at(sector, SUPER_DURABLE)),
            epoch: u32_at(sector, SUPER_EPOCH),
            clean: flags & CLEAN != 0,
            kept: (flags & KEPT != 0).then(|| Kept {
                oldest: u32_at(sector, SUPER_OLDEST),
                begin: u64_at(sector, SUPER_BEGIN),
            }),
        };
        let least = if found.kept.is_some() { LEAST_KEPT_BLOCKS } else { LEAST_BLOCKS };
        let makes_sense = found.shape.is_valid(least)
            && flags & !(CLEAN | KEPT) == 0
            && found.kept.is_none_or(|kept| kept.makes_sense(&found))
            && found.block() == block
            && found.start <= found.durable
            && found.durable.number() < MOST_NUMBER
            && found.sequence < MOST_SEQUENCE
            && found.epoch < u32::MAX;
        (is_whole && makes_sense).then_some(found)
    }
}

/// What the first bytes of a sector of the ring say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorHead {
    /// Its number.
    pub number: u64,
    /// The epoch in which it was written.
    pub epoch: u32,
    /// Bytes of payload.
    pub used: u16,
    /// Offset in the sector of the first group that begins here, 0 if none does.
    pub first: u16,
    /// Up to here the log was durable when the sector was sealed.
    pub durable: Lsn,
}

impl SectorHead {
    /// Writes the head to a sector that holds its payload, and seals it.
    pub fn seal(&self, sector: &mut [u8], sealer: &Sealer, place: u64) {
        put(sector, NUMBER, &self.number.to_le_bytes());
        put(sector, EPOCH, &self.epoch.to_le_bytes());
        put(sector, USED, &self.used.to_le_bytes());
        put(sector, FIRST, &self.first.to_le_bytes());
        put(sector, DURABLE, &self.durable.0.to_le_bytes());
        sealer.set(sector, place, SealKind::Log, self.number as u16);
    }

    /// Reads the head. The seal is not looked at, so the values may be any.
    pub fn peek(sector: &[u8]) -> SectorHead {
        SectorHead {
            number: u64_at(sector, NUMBER),
            epoch: u32_at(sector, EPOCH),
            used: u16_at(sector, USED),
            first: u16_at(sector, FIRST),
            durable: Lsn(u64_at(sector, DURABLE)),
        }
    }

    /// Reads the head of a whole sector that belongs at this place of the range.
    pub fn read(sector: &[u8], sealer: &Sealer, shape: LogShape, place: u64) -> Option<SectorHead> {
        let head = SectorHead::peek(sector);
        let is_in_payload =
            |at: u16| (SECTOR_HEAD..SECTOR_HEAD + usize::from(head.used)).contains(&at.into());
        let makes_sense = head.number < MOST_NUMBER
            && shape.place(head.number) == place
            && usize::from(head.used) <= PAYLOAD
            && (head.first == 0 || is_in_payload(head.first))
            && head.durable <= Lsn::new(head.number, 0);
        (makes_sense && sealer.is_whole(sector, place, SealKind::Log)).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> LogSuperblock {
        LogSuperblock {
            shape: LogShape { blocks: 256, unit: 4096 },
            id: 9,
            file_system: 77,
            sequence: 5,
            start: Lsn::new(3, 24),
            durable: Lsn::new(4, 0),
            epoch: 2,
            clean: false,
            kept: None,
        }
    }

    #[test]
    fn a_superblock_of_a_log_comes_back_from_its_own_block_only() {
        let one = superblock();
        let bytes = one.encode();
        assert_eq!(LogSuperblock::decode(&bytes, 1), Some(one));
        assert_eq!(LogSuperblock::decode(&bytes, 0), None, "the other block");
        let clean = LogSuperblock { clean: true, sequence: 6, ..one };
        assert_eq!(LogSuperblock::decode(&clean.encode(), 0), Some(clean));
        let kept = LogSuperblock { kept: Some(Kept { oldest: 1, begin: 4 }), ..one };
        assert_eq!(LogSuperblock::decode(&kept.encode(), 1), Some(kept));
    }

    #[test]
    fn each_changed_bit_of_a_superblock_of_a_log_refuses_it() {
        let bytes = superblock().encode();
        for bit in 0..SECTOR_BYTES * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogSuperblock::decode(&changed, 1), None, "bit {bit}");
        }
    }

    /// Under valid seals, too: such values would make the reader divide by zero or overflow.
    #[test]
    fn impossible_sizes_and_positions_are_refused() {
        let refuses = |change: fn(&mut LogSuperblock)| {
            let mut one = superblock();
            change(&mut one);
            LogSuperblock::decode(&one.encode(), 1).is_none()
        };
        assert!(refuses(|one| one.shape.blocks = 2));
        assert!(refuses(|one| one.shape.unit = 0));
        assert!(refuses(|one| one.shape.unit = 6000));
        assert!(refuses(|one| one.start = Lsn::new(9, 24)));
        assert!(refuses(|one| one.durable = Lsn(u64::MAX)));
        assert!(refuses(|one| one.epoch = u32::MAX));
        assert!(refuses(|one| one.sequence = u64::MAX));
        assert!(!refuses(|one| one.kept = Some(Kept { oldest: 2, begin: 3 })));
        assert!(refuses(|one| one.kept = Some(Kept { oldest: 2, begin: 4 })), "begins behind");
        assert!(refuses(|one| one.kept = Some(Kept { oldest: 1, begin: 3 })), "begins in front");
        assert!(refuses(|one| one.kept = Some(Kept { oldest: 3, begin: 3 })), "a later epoch");
        assert!(refuses(|one| one.kept = Some(Kept { oldest: 1, begin: 9 })), "not durable");
        assert!(refuses(|one| one.kept = Some(Kept { oldest: 1, begin: u64::MAX })));
    }

    #[test]
    fn a_sector_is_read_at_its_place_only() {
        let shape = LogShape { blocks: 256, unit: 4096 };
        let sealer = Sealer::new(9);
        let number = shape.sectors() + 3;
        let head =
            SectorHead { number, epoch: 4, used: 480, first: 24, durable: Lsn::new(number, 0) };
        let mut sector = vec![7; SECTOR_BYTES];
        let place = shape.place(number);
        assert_eq!(place, 16 + 3);
        head.seal(&mut sector, &sealer, place);
        assert_eq!(SectorHead::read(&sector, &sealer, shape, place), Some(head));
        assert_eq!(SectorHead::read(&sector, &sealer, shape, place + 1), None);
        let senseless = SectorHead { used: 481, ..head };
        senseless.seal(&mut sector, &sealer, place);
        assert_eq!(SectorHead::read(&sector, &sealer, shape, place), None);
    }
}
