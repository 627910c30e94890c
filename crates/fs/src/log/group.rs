//! The bytes of groups and their records.
//!
//! A group holds all that one operation changes. It counts as a whole if its check is right, and
//! not at all otherwise; there is no record of a commit.

use crate::fields::{put, u16_at, u32_at, u64_at};
use crate::log::format::Lsn;
use crate::tx::SECTOR_CONTENT;
use seekless_engine::checksum::{Identity, Sums, crc32c_append};
use seekless_engine::units::SECTOR_BYTES;
use thiserror::Error;

/// The first bytes of a group.
pub const MAGIC: [u8; 4] = *b"GRP1";
/// Bytes in front of the first record.
pub const HEAD: usize = 40;
/// Bytes of the longest group.
pub const MOST_BYTES: usize = 256 << 10;
/// Room for a group at first: 99 of 100 are shorter.
const EXPECTED_BYTES: usize = 384;
/// Bytes in front of what a record holds beside its address.
pub const RECORD_HEAD: usize = 8;
/// Bytes of the longest entry.
pub const MOST_ENTRY: usize = MOST_BYTES - HEAD - RECORD_HEAD;
/// Bytes of the largest block of a file system.
pub(crate) const MOST_BLOCK: usize = 8192;

const LENGTH: usize = 4;
const LSN: usize = 8;
const BEFORE: usize = 16;
const RECORDS: usize = 24;
const OPERATION: usize = 26;
const FLAGS: usize = 27;
const TIME: usize = 28;
const CHECK: usize = 36;
const _: () = assert!(CHECK + 4 == HEAD);

/// One change. Addresses are those of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Bytes of a sealed sector as they are after the operation.
    Bytes {
        /// Kind of the seal of the sector.
        seal: u8,
        /// Offset in the block.
        at: u16,
        /// The block.
        block: u32,
        /// The bytes, all of them content of one sector.
        bytes: &'a [u8],
    },
    /// Whole sectors of a block become zeros under seals.
    Fresh {
        /// Kind of their seals.
        seal: u8,
        /// Offset in the block.
        at: u16,
        /// The block.
        block: u32,
        /// Bytes.
        length: u16,
    },
    /// The operation gives up space. Earlier records of its bytes mean nothing.
    Free {
        /// What it is; only the format reads it.
        what: u8,
        /// The first fragment, or the inode.
        first: u32,
        /// How many.
        count: u16,
    },
    /// The space of an earlier record `Free` is free in the maps.
    Freed {
        /// As there.
        what: u8,
        /// As there.
        first: u32,
        /// As there.
        count: u16,
    },
    /// An inode without a name that is open, or is being freed.
    Orphan(u32),
    /// The inode of an earlier record `Orphan` is no orphan.
    Adopted(u32),
    /// The next `count` records, of kinds `Free` and `Orphan`, are open, and their first ones may
    /// lie before the start.
    Checkpoint(u32),
    /// What a user of a log of its own has appended. Recovery of a file system knows no such
    /// record, nor the next one.
    Entry(&'a [u8]),
    /// First of an epoch of a log that keeps its groups: how the epoch before ended.
    Epoch {
        /// The epoch before.
        before: u32,
        /// Behind its last group.
        end: Lsn,
    },
}

impl Record<'_> {
    fn kind(&self) -> u8 {
        match self {
            Record::Bytes { .. } => 1,
            Record::Fresh { .. } => 2,
            Record::Free { .. } => 3,
            Record::Freed { .. } => 4,
            Record::Orphan(_) => 5,
            Record::Adopted(_) => 6,
            Record::Checkpoint(_) => 7,
            Record::Entry(_) => 8,
            Record::Epoch { .. } => 9,
        }
    }

    /// True if a program writes such a record.
    fn is_valid(&self) -> bool {
        match *self {
            Record::Bytes { at, bytes, .. } => {
                let at = usize::from(at);
                let in_sector = at % SECTOR_BYTES;
                !bytes.is_empty() && at < MOST_BLOCK && in_sector + bytes.len() <= SECTOR_CONTENT
            }
            Record::Fresh { at, length, .. } => {
                let (at, length) = (usize::from(at), usize::from(length));
                length > 0
                    && at % SECTOR_BYTES == 0
                    && length % SECTOR_BYTES == 0
                    && at + length <= MOST_BLOCK
            }
            Record::Free { count, .. } | Record::Freed { count, .. } => count > 0,
            Record::Orphan(_) | Record::Adopted(_) | Record::Checkpoint(_) => true,
            Record::Entry(bytes) => bytes.len() <= MOST_ENTRY,
            Record::Epoch { before, .. } => before > 0,
        }
    }
}

/// A group that is being made.
#[derive(Clone, Debug)]
pub struct GroupBuilder {
    bytes: Vec<u8>,
    records: u16,
}

impl GroupBuilder {
    /// A group without records. `time` is in nanoseconds since 1970; only the caller reads
    /// operation and flags.
    pub fn new(operation: u8, flags: u8, time: i64) -> GroupBuilder {
        let mut bytes = Vec::with_capacity(EXPECTED_BYTES);
        bytes.resize(HEAD, 0);
        put(&mut bytes, 0, &MAGIC);
        bytes[OPERATION] = operation;
        bytes[FLAGS] = flags;
        put(&mut bytes, TIME, &time.to_le_bytes());
        GroupBuilder { bytes, records: 0 }
    }

    /// Adds a record. False, and nothing is added, if the group would be too long.
    ///
    /// # Panics
    /// If no reader would take the record, with debug assertions.
    #[must_use]
    pub fn push(&mut self, record: Record<'_>) -> bool {
        debug_assert!(record.is_valid(), "{record:?}");
        let body = match record {
            Record::Bytes { bytes, .. } => 2 + bytes.len(),
            Record::Fresh { .. } => 2,
            Record::Free { .. } | Record::Freed { .. } => 3,
            Record::Orphan(_) | Record::Adopted(_) | Record::Checkpoint(_) => 0,
            Record::Entry(bytes) => bytes.len(),
            Record::Epoch { .. } => 8,
        };
        let length = (RECORD_HEAD + body).next_multiple_of(4);
        let at = self.bytes.len();
        if at + length > MOST_BYTES || self.records == u16::MAX {
            return false;
        }
        self.bytes.resize(at + length, 0);
        encode(&record, &mut self.bytes[at..]);
        self.records += 1;
        true
    }

    /// Bytes of the group.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True without records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The bytes of the group at its position.
    pub(crate) fn finish(mut self, id: u128, lsn: Lsn, before: Lsn) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        put(&mut self.bytes, LENGTH, &length.to_le_bytes());
        put(&mut self.bytes, LSN, &lsn.0.to_le_bytes());
        put(&mut self.bytes, BEFORE, &before.0.to_le_bytes());
        put(&mut self.bytes, RECORDS, &self.records.to_le_bytes());
        let check = check(id, &self.bytes);
        put(&mut self.bytes, CHECK, &check.to_le_bytes());
        self.bytes
    }
}

/// Records that a group of a checkpoint has at most: fewer than fit.
const MOST_CARRIED: usize = 16_000;

/// The groups that carry on records of kinds `Free` and `Orphan`; one without records if there are
/// none.
///
/// # Panics
/// If a record is longer than those.
pub fn checkpoint(open: &[Record<'_>]) -> Vec<GroupBuilder> {
    let group = |records: &[Record<'_>]| {
        let mut group = GroupBuilder::new(0, 0, 0);
        let fits = group.push(Record::Checkpoint(records.len() as u32))
            && records.iter().all(|&record| group.push(record));
        assert!(fits, "that many records fit in a group");
        group
    };
    match open {
        [] => vec![group(&[])],
        open => open.chunks(MOST_CARRIED).map(group).collect(),
    }
}

fn encode(record: &Record<'_>, out: &mut [u8]) {
    out[0] = record.kind();
    let mut address = |number: u32| put(out, 4, &number.to_le_bytes());
    match *record {
        Record::Bytes { seal, at, block, bytes } => {
            address(block);
            out[1] = seal;
            put(out, 2, &at.to_le_bytes());
            put(out, RECORD_HEAD, &(bytes.len() as u16).to_le_bytes());
            put(out, RECORD_HEAD + 2, bytes);
        }
        Record::Fresh { seal, at, block, length } => {
            address(block);
            out[1] = seal;
            put(out, 2, &at.to_le_bytes());
            put(out, RECORD_HEAD, &length.to_le_bytes());
        }
        Record::Free { what, first, count } | Record::Freed { what, first, count } => {
            address(first);
            put(out, RECORD_HEAD, &count.to_le_bytes());
            out[RECORD_HEAD + 2] = what;
        }
        Record::Orphan(number) | Record::Adopted(number) | Record::Checkpoint(number) => {
            address(number);
        }
        Record::Entry(bytes) => {
            address(bytes.len() as u32);
            put(out, RECORD_HEAD, bytes);
        }
        Record::Epoch { before, end } => {
            address(before);
            put(out, RECORD_HEAD, &end.0.to_le_bytes());
        }
    }
}

/// The check of a group: all its bytes but the check itself, behind the id of the log.
fn check(id: u128, bytes: &[u8]) -> u32 {
    let crc = crc32c_append(0, &id.to_le_bytes());
    let crc = crc32c_append(crc, &bytes[..CHECK]);
    Identity::new(id, Sums::Mixed).of_crc(crc32c_append(crc, &bytes[HEAD..]))
}

/// A group, or one of its records, has values that no program writes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a group of the log has a record that no program writes")]
pub struct Malformed;

/// A group that was read: its check is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupView<'a>(&'a [u8]);

/// The length that the first [`HEAD`] bytes of a group state; none if they begin no group.
pub fn length_of(head: &[u8]) -> Option<usize> {
    let length = u32_at(head, LENGTH) as usize;
    let makes_sense =
        head[..4] == MAGIC && (HEAD..=MOST_BYTES).contains(&length) && length.is_multiple_of(4);
    makes_sense.then_some(length)
}

impl<'a> GroupView<'a> {
    /// The group with these bytes at this position, if its check is right.
    pub fn read(bytes: &'a [u8], id: u128, lsn: Lsn) -> Option<GroupView<'a>> {
        let is_right = length_of(bytes) == Some(bytes.len())
            && u64_at(bytes, LSN) == lsn.0
            && u32_at(bytes, CHECK) == check(id, bytes);
        is_right.then_some(GroupView(bytes))
    }

    /// Where it begins.
    pub fn lsn(&self) -> Lsn {
        Lsn(u64_at(self.0, LSN))
    }

    /// Where the group before it begins; 0 for the first one of an epoch.
    pub fn before(&self) -> Lsn {
        Lsn(u64_at(self.0, BEFORE))
    }

    /// The operation, as its writer has it.
    pub fn operation(&self) -> u8 {
        self.0[OPERATION]
    }

    /// The flags, as its writer has them.
    pub fn flags(&self) -> u8 {
        self.0[FLAGS]
    }

    /// When the operation ran, in nanoseconds since 1970.
    pub fn time(&self) -> i64 {
        u64_at(self.0, TIME).cast_signed()
    }

    /// Its records.
    ///
    /// # Errors
    /// [`Malformed`] if one has values that no program writes, or their number is wrong.
    pub fn records(&self) -> Result<Vec<Record<'a>>, Malformed> {
        let mut rest = &self.0[HEAD..];
        // A record takes at least its head, whatever the count says.
        let count = usize::from(u16_at(self.0, RECORDS)).min(rest.len() / RECORD_HEAD);
        let mut records = Vec::with_capacity(count);
        while !rest.is_empty() {
            let (record, length) = decode(rest).ok_or(Malformed)?;
            records.push(record);
            rest = &rest[length..];
        }
        if records.len() != usize::from(u16_at(self.0, RECORDS)) {
            return Err(Malformed);
        }
        Ok(records)
    }
}

/// The first record of some bytes, and its length.
fn decode(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let head: &[u8; RECORD_HEAD] = bytes.first_chunk()?;
    let (seal, at, number) = (head[1], u16_at(head, 2), u32_at(head, 4));
    let body = &bytes[RECORD_HEAD..];
    let word = || body.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    let (record, length) = match head[0] {
        1 => {
            let length = usize::from(word()?);
            let content = body.get(2..2 + length)?;
            (Record::Bytes { seal, at, block: number, bytes: content }, 2 + length)
        }
        2 => (Record::Fresh { seal, at, block: number, length: word()? }, 2),
        3 => (Record::Free { what: *body.get(2)?, first: number, count: word()? }, 3),
        4 => (Record::Freed { what: *body.get(2)?, first: number, count: word()? }, 3),
        5 => (Record::Orphan(number), 0),
        6 => (Record::Adopted(number), 0),
        7 => (Record::Checkpoint(number), 0),
        8 => (Record::Entry(body.get(..number as usize)?), number as usize),
        9 => {
            let end = Lsn(u64::from_le_bytes(*body.first_chunk()?));
            (Record::Epoch { before: number, end }, 8)
        }
        _ => return None,
    };
    let length = (RECORD_HEAD + length).next_multiple_of(4);
    (record.is_valid() && length <= bytes.len()).then_some((record, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Record<'static>> {
        vec![
            Record::Bytes { seal: 3, at: 768, block: 70, bytes: b"absolute" },
            Record::Fresh { seal: 5, at: 1024, block: 71, length: 1024 },
            Record::Free { what: 2, first: 99, count: 8 },
            Record::Freed { what: 2, first: 99, count: 8 },
            Record::Orphan(12),
            Record::Adopted(12),
            Record::Checkpoint(0),
            Record::Entry(b"of a user"),
            Record::Entry(b""),
            Record::Epoch { before: 3, end: Lsn(600) },
        ]
    }

    fn group(records: &[Record<'_>]) -> Vec<u8> {
        let mut group = GroupBuilder::new(4, 1, -6);
        records.iter().for_each(|&record| assert!(group.push(record)));
        group.finish(9, Lsn(536), Lsn(24))
    }

    #[test]
    fn a_group_comes_back() {
        let bytes = group(&all());
        let view = GroupView::read(&bytes, 9, Lsn(536)).expect("its check is right");
        assert_eq!((view.lsn(), view.before()), (Lsn(536), Lsn(24)));
        assert_eq!((view.operation(), view.flags(), view.time()), (4, 1, -6));
        assert_eq!(view.records(), Ok(all()));
        assert_eq!(GroupView::read(&bytes, 8, Lsn(536)), None, "another log");
        assert_eq!(GroupView::read(&bytes, 9, Lsn(540)), None, "another position");
    }

    #[test]
    fn each_changed_bit_of_a_group_refuses_it() {
        let bytes = group(&all());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(GroupView::read(&changed, 9, Lsn(536)), None, "bit {bit}");
        }
    }

    #[test]
    fn records_that_no_program_writes_are_refused_under_a_right_check() {
        let refused = |at: usize, value: u8| {
            let mut bytes = group(&all()[..2]);
            bytes[HEAD + at] = value;
            let sum = check(9, &bytes);
            put(&mut bytes, CHECK, &sum.to_le_bytes());
            let view = GroupView::read(&bytes, 9, Lsn(536)).expect("its check is right");
            view.records() == Err(Malformed)
        };
        assert!(refused(0, 0), "an unknown kind");
        assert!(refused(8, 200), "more bytes than there are");
        assert!(refused(2, 0xf8), "bytes of a seal");
        assert!(refused(20 + 2, 4), "a piece of a sector");
        assert!(!refused(1, 4), "another kind of seal is for the format to judge");
    }

    #[test]
    fn the_longest_entry_fits_in_a_group_and_no_longer_one_is_read() {
        let mut group = GroupBuilder::new(0, 0, 0);
        assert!(group.push(Record::Entry(&[7; MOST_ENTRY])));
        assert_eq!(group.len(), MOST_BYTES);
        let mut bytes = group.finish(9, Lsn(24), Lsn(0));
        put(&mut bytes, HEAD + 4, &(MOST_ENTRY as u32 + 1).to_le_bytes());
        let sum = check(9, &bytes);
        put(&mut bytes, CHECK, &sum.to_le_bytes());
        let view = GroupView::read(&bytes, 9, Lsn(24)).expect("its check is right");
        assert_eq!(view.records(), Err(Malformed));
    }

    #[test]
    fn a_group_has_an_upper_limit() {
        let mut group = GroupBuilder::new(0, 0, 0);
        let record = Record::Bytes { seal: 3, at: 0, block: 1, bytes: &[1; SECTOR_CONTENT] };
        while group.push(record) {}
        let length = group.len();
        assert!(length <= MOST_BYTES && length + SECTOR_CONTENT + 12 > MOST_BYTES, "{length}");
        let bytes = group.finish(9, Lsn(24), Lsn(0));
        assert!(GroupView::read(&bytes, 9, Lsn(24)).is_some());
    }
}
