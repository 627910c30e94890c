//! The vocabulary of requests and answers, the same above and below every layer.

use crate::checksum::Sums;
use crate::data::{Body, Data, Piece};
use crate::transaction::Transaction;
use crate::units::{BLOCK_SECTORS, BlockNr, Time};
use smallvec::{SmallVec, smallvec};
use std::hint::cold_path;
use std::ops::Range;
use std::sync::Arc;

/// Names a request for its submitter; unique among that submitter's requests in flight.
pub type Tag = u64;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read `count` blocks.
    Read,
    /// Write `count` blocks.
    Write,
    /// Make everything that was acknowledged before this request durable.
    Flush,
    /// Trim `count` blocks: they read as zeros afterwards.
    Trim,
}

/// The purpose of a request to a device. Devices ignore it; reports use it to show where the time
/// of a disk goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Data of clients, in place or in a log.
    #[default]
    Data,
    /// Metadata: maps, checkpoints, marks.
    Map,
    /// Reclaiming space: cleaning segments, plugging holes, emptying tracks.
    Cleaning,
    /// Moving blocks from a log to their home location.
    Destaging,
    /// Sorting blocks while no client waits, and moving the arm in advance.
    Ordering,
    /// Redundancy: reads of old content, parity, its log.
    Parity,
    /// Filling a new member of an array.
    Rebuild,
    /// Metadata of a file system: inodes, directories, bitmaps.
    Metadata,
    /// The log of a file system.
    Journal,
}

impl Purpose {
    /// All of them, in the order of their declaration, which is that of reports.
    pub const ALL: [Purpose; 9] = [
        Purpose::Data,
        Purpose::Map,
        Purpose::Cleaning,
        Purpose::Destaging,
        Purpose::Ordering,
        Purpose::Parity,
        Purpose::Rebuild,
        Purpose::Metadata,
        Purpose::Journal,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Data => "data",
            Purpose::Map => "map",
            Purpose::Cleaning => "cleaning",
            Purpose::Destaging => "destaging",
            Purpose::Ordering => "ordering",
            Purpose::Parity => "parity",
            Purpose::Rebuild => "rebuild",
            Purpose::Metadata => "metadata",
            Purpose::Journal => "journal",
        }
    }
}

/// A few bytes that a device with sector headers stores beside a block, for the layout. They are
/// written with the block and cost no time. All zeros without headers.
pub type Label = [u8; 32];

/// The labels of the blocks of a write, in order.
pub type Labels = Arc<SmallVec<[Label; 1]>>;

/// The sectors of 512 bytes that a write changes, where it changes less than its blocks. They are
/// consecutive, and some of them lie in each block of the request. The payload is whole blocks; its
/// other sectors are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// First sector, counted from the first block of the request.
    pub first: u32,
    /// Number of sectors.
    pub sectors: u32,
}

impl Part {
    /// The sector behind the last one.
    pub fn end(self) -> u32 {
        self.first + self.sectors
    }

    /// True if some of its sectors lie in each of `count` blocks, and none elsewhere.
    pub fn fits(self, count: u32) -> bool {
        let block = BLOCK_SECTORS as u32;
        self.sectors > 0
            && self.first < block
            && self.first.checked_add(self.sectors).map(|end| end.div_ceil(block)) == Some(count)
    }

    /// Its sectors in block `index` of the request, counted from the beginning of that block.
    pub fn in_block(self, index: u32) -> Range<usize> {
        let block = BLOCK_SECTORS as u32;
        let base = index * block;
        let from = self.first.max(base) - base;
        let to = self.end().clamp(base, base + block) - base;
        from as usize..to as usize
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Chosen by the submitter; the answer carries it.
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// For writes and trims: acknowledge only when durable (forced unit access).
    pub fua: bool,
    /// For writes: blocks of zeros allocate space, too, on a volume that may run out of it.
    pub keep: bool,
    /// Its purpose.
    pub purpose: Purpose,
    /// First block.
    pub at: BlockNr,
    /// Number of blocks; 0 for a flush.
    pub count: u32,
    /// For writes to devices that take parts: the sectors to write. All of them if `None`.
    pub part: Option<Part>,
    /// For writes to devices with transactions: where each block of the payload goes, the first one
    /// to `at`. They take hold together or not at all.
    pub places: Option<Arc<Vec<BlockNr>>>,
    /// Payload of a write, empty otherwise.
    pub data: Data,
    /// For writes to devices with sector headers: a label for each block.
    pub labels: Option<Labels>,
    /// For reads of devices with copies: the checksums that the blocks must have.
    pub expected: Option<Arc<Expected>>,
}

/// Expected checksums of blocks that are read, block by block, so that a device with copies can
/// find a right one. `None` if unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The algorithm.
    pub sums: Sums,
    /// One for each block.
    pub each: SmallVec<[Option<u32>; 4]>,
}

impl Expected {
    /// One block with this checksum.
    pub fn one(sums: Sums, sum: u32) -> Expected {
        Expected { sums, each: smallvec![Some(sum)] }
    }

    /// True if block `index` may have this content.
    pub fn is_met(&self, index: u32, block: &Piece) -> bool {
        self.each[index as usize].is_none_or(|sum| self.sums.is_of(block, sum))
    }
}

impl Io {
    /// A read for a client; the following constructors are for clients as well.
    pub fn read(tag: Tag, at: BlockNr, count: u32) -> Io {
        Io {
            tag,
            op: Op::Read,
            fua: false,
            keep: false,
            purpose: Purpose::Data,
            at,
            count,
            part: None,
            places: None,
            data: Data::none(),
            labels: None,
            expected: None,
        }
    }

    /// Brings the head over the track of a block, without reading anything: a read of no blocks.
    /// Only devices of which [`crate::arm::Arm::seeks`] says so carry it out.
    pub fn seek(tag: Tag, at: BlockNr) -> Io {
        Io::read(tag, at, 0).for_purpose(Purpose::Ordering)
    }

    /// A write; its length is that of `data`.
    pub fn write(tag: Tag, at: BlockNr, data: Data) -> Io {
        let count = data.blocks();
        Io { op: Op::Write, data, ..Io::read(tag, at, count) }
    }

    /// A flush.
    pub fn flush(tag: Tag) -> Io {
        Io {
            tag,
            op: Op::Flush,
            fua: false,
            keep: false,
            purpose: Purpose::Data,
            at: 0,
            count: 0,
            part: None,
            places: None,
            data: Data::none(),
            labels: None,
            expected: None,
        }
    }

    /// A trim.
    pub fn trim(tag: Tag, at: BlockNr, count: u32) -> Io {
        Io {
            tag,
            op: Op::Trim,
            fua: false,
            keep: false,
            purpose: Purpose::Data,
            at,
            count,
            part: None,
            places: None,
            data: Data::none(),
            labels: None,
            expected: None,
        }
    }

    /// The same request with forced unit access.
    pub fn with_fua(mut self) -> Io {
        self.fua = true;
        self
    }

    /// The same write, which also allocates space for blocks of zeros.
    pub fn with_room(mut self) -> Io {
        self.keep = true;
        self
    }

    /// The same write with labels for its blocks.
    pub fn with_labels(mut self, labels: Labels) -> Io {
        debug_assert_eq!(labels.len() as u32, self.count);
        self.labels = Some(labels);
        self
    }

    /// The same read, with expected checksums.
    pub fn expecting(mut self, expected: Expected) -> Io {
        debug_assert_eq!(expected.each.len() as u32, self.count);
        self.expected = Some(Arc::new(expected));
        self
    }

    /// The same write, of these sectors only.
    ///
    /// # Panics
    /// If they do not fit the request, or if it is no write or has labels.
    pub fn of_part(mut self, part: Part) -> Io {
        self.part = Some(part);
        assert!(self.has_sound_part(), "{self:?}");
        self
    }

    /// A write of all that a transaction changes. What it forgets is written as zeros.
    ///
    /// # Panics
    /// If the transaction changes nothing.
    pub fn write_all(tag: Tag, all: &Transaction) -> Io {
        let mut data = Data::none();
        let mut places = Vec::new();
        for (at, piece) in all.changes() {
            places.push(at);
            data.push(piece.cloned().unwrap_or_else(|| Piece::block(Body::Zeros)));
        }
        let first = places[0];
        Io { places: Some(Arc::new(places)), ..Io::write(tag, first, data) }
    }

    /// True if the request has no part, or is a write that may have this one.
    pub fn has_sound_part(&self) -> bool {
        self.part.is_none_or(|part| {
            self.op == Op::Write && self.labels.is_none() && part.fits(self.count)
        })
    }

    /// The first sector of the device that the request touches.
    #[inline]
    pub fn first_sector(&self) -> u64 {
        self.at * BLOCK_SECTORS + self.part.map_or(0, |part| u64::from(part.first))
    }

    /// Number of sectors that the request touches.
    #[inline]
    pub fn sectors(&self) -> u32 {
        self.part.map_or(self.count * BLOCK_SECTORS as u32, |part| part.sectors)
    }

    /// The same request for a purpose of the layout's own.
    pub fn for_purpose(mut self, purpose: Purpose) -> Io {
        self.purpose = purpose;
        self
    }

    /// True if the request touches the block range `at..at + count`.
    pub fn overlaps(&self, at: BlockNr, count: u64) -> bool {
        self.at < at + count && at < self.at + u64::from(self.count)
    }
}

/// Where the time of a request went, in nanoseconds. The parts add up to the time between
/// submission and completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Controller and bus command overhead.
    pub overhead_ns: Time,
    /// Waiting for other requests.
    pub queue_ns: Time,
    /// Moving the arm to another cylinder, settling included.
    pub seek_ns: Time,
    /// Switching to another head in the same cylinder.
    pub head_switch_ns: Time,
    /// Waiting for the platter to turn.
    pub rotation_ns: Time,
    /// Moving bytes between platter (or track buffer) and host.
    pub transfer_ns: Time,
}

impl Breakdown {
    /// Sum of all parts.
    pub fn total_ns(&self) -> Time {
        self.overhead_ns
            + self.queue_ns
            + self.seek_ns
            + self.head_switch_ns
            + self.rotation_ns
            + self.transfer_ns
    }

    /// Adds the parts of `other`.
    pub fn add(&mut self, other: &Breakdown) {
        self.overhead_ns += other.overhead_ns;
        self.queue_ns += other.queue_ns;
        self.seek_ns += other.seek_ns;
        self.head_switch_ns += other.head_switch_ns;
        self.rotation_ns += other.rotation_ns;
        self.transfer_ns += other.transfer_ns;
    }

    /// The difference to `before`, an earlier state of the same sums.
    pub fn since(&self, before: &Breakdown) -> Breakdown {
        Breakdown {
            overhead_ns: self.overhead_ns - before.overhead_ns,
            queue_ns: self.queue_ns - before.queue_ns,
            seek_ns: self.seek_ns - before.seek_ns,
            head_switch_ns: self.head_switch_ns - before.head_switch_ns,
            rotation_ns: self.rotation_ns - before.rotation_ns,
            transfer_ns: self.transfer_ns - before.transfer_ns,
        }
    }

    /// One of `count` equal shares of each part, for requests that were served together: the shares
    /// of the others count as queueing.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn share(&self, count: u64) -> Breakdown {
        if count == 1 {
            return *self; // Six divisions less, for nearly every request with one client.
        }
        Breakdown {
            overhead_ns: self.overhead_ns / count,
            queue_ns: self.queue_ns / count,
            seek_ns: self.seek_ns / count,
            head_switch_ns: self.head_switch_ns / count,
            rotation_ns: self.rotation_ns / count,
            transfer_ns: self.transfer_ns / count,
        }
    }

    /// The same service for a client that waited `total_ns` in all: time that the parts do not
    /// explain is queueing. If services overlapped (several commands in flight at once), the parts
    /// are scaled down to fit.
    pub fn within(mut self, total_ns: Time) -> Breakdown {
        self.queue_ns = 0;
        let served = self.total_ns();
        if served > total_ns {
            cold_path();
            let scale = |part: &mut Time| {
                // The quotient never exceeds `part`, so it fits.
                *part = (u128::from(*part) * u128::from(total_ns) / u128::from(served)) as Time;
            };
            scale(&mut self.overhead_ns);
            scale(&mut self.seek_ns);
            scale(&mut self.head_switch_ns);
            scale(&mut self.rotation_ns);
            scale(&mut self.transfer_ns);
        }
        self.queue_ns = total_ns - self.total_ns();
        self
    }
}

/// Why a request failed. Small and copyable: it travels through every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The medium could not read or write a block.
    #[error("block {block}: the medium reports an error")]
    Media {
        /// Device block.
        block: BlockNr,
    },
    /// The content that was read is not the content that was written.
    #[error("block {block}: checksum mismatch, the stored bytes are damaged")]
    Checksum {
        /// Block in the numbering of the layer that found it.
        block: BlockNr,
    },
    /// The backing store has no space left.
    #[error("the backing store is full")]
    NoSpace,
    /// The volume refuses writes.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The request leaves the device.
    #[error("blocks {at}+{count} lie outside the device")]
    OutOfRange {
        /// First block asked for.
        at: BlockNr,
        /// Number of blocks asked for.
        count: u32,
    },
    /// The operating system failed the request.
    #[error("the system says: {}", std::io::Error::from_raw_os_error(*errno))]
    Os {
        /// The value of `errno`.
        errno: i32,
    },
    /// A host-managed shingled disk refuses what breaks the rules of its zones. It changed nothing.
    /// The same request succeeds when the rules allow it.
    #[error("block {block}: {rule}")]
    Zone {
        /// First block of the request.
        block: BlockNr,
        /// The rule.
        rule: ZoneRule,
    },
    /// The power is off: the request vanished.
    #[error("the device lost power")]
    PowerOff,
}

impl IoError {
    /// True if the device is there and only this place of it is bad, as far as the error tells:
    /// Linux reports `EIO`, or `ENODATA` for an error of the medium itself.
    pub fn is_of_the_medium(self) -> bool {
        matches!(self, IoError::Media { .. } | IoError::Os { errno: 5 | 61 })
    }
}

/// A rule of zones that are written in order, by the name that the standards ZBC and ZAC give to
/// its violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneRule {
    /// A write begins at the write pointer of its zone.
    #[error("UNALIGNED WRITE COMMAND: a write must begin at the write pointer of its zone")]
    UnalignedWrite,
    /// A write stays in its zone.
    #[error("WRITE BOUNDARY VIOLATION: a write must end in the zone it begins in")]
    WriteBoundary,
    /// A read ends at the write pointer.
    #[error("ATTEMPT TO READ INVALID DATA: nothing was written behind the write pointer")]
    ReadInvalid,
    /// A read stays in its zone.
    #[error("READ BOUNDARY VIOLATION: a read must end in the zone it begins in")]
    ReadBoundary,
    /// The limit of open zones.
    #[error("INSUFFICIENT ZONE RESOURCES: too many zones are open; fill or reset one")]
    TooManyOpen,
    /// A trim of sequential zones covers whole zones: it resets them.
    #[error("INVALID FIELD IN CDB: only whole zones can be reset")]
    PartialReset,
}

/// The outcome of a request: the payload for a read, empty otherwise.
pub type Outcome = Result<Data, IoError>;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Tag of the request.
    pub tag: Tag,
    /// Payload or error.
    pub outcome: Outcome,
    /// Where its time went.
    pub spent: Breakdown,
}

impl Done {
    /// An answer without service time.
    pub fn new(tag: Tag, outcome: Outcome) -> Done {
        Done { tag, outcome, spent: Breakdown::default() }
    }
}

/// What a range of blocks holds, as far as the layer knows without reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Data may be there.
    Data,
    /// Nothing is stored; reads as zeros.
    Hole,
}

/// How far the filling of a member that was put into an array has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// It is under way.
    Running {
        /// Stripes that are filled.
        done: u64,
        /// Of how many.
        stripes: u64,
    },
    /// The member counts as one that has everything, and all members know.
    Ended,
    /// The member, or what it was filled from, has failed.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_sectors_in_each_block_and_nowhere_else() {
        let part = |first, sectors| Part { first, sectors };
        assert!(part(0, 1).fits(1) && part(7, 1).fits(1) && part(0, 8).fits(1));
        assert!(part(7, 2).fits(2) && part(3, 13).fits(2) && part(7, 10).fits(3));
        assert!(!part(0, 0).fits(1) && !part(8, 1).fits(2) && !part(7, 2).fits(1));
        assert!(!part(0, 8).fits(2) && !part(1, u32::MAX).fits(1));
        let blocks = [part(6, 12).in_block(0), part(6, 12).in_block(1), part(6, 12).in_block(2)];
        assert_eq!(blocks, [6..8, 0..8, 0..2]);
        let write = Io::write(1, 5, Data::zeros(2)).of_part(part(6, 3));
        assert_eq!((write.first_sector(), write.sectors()), (46, 3));
        assert_eq!((Io::read(1, 5, 2).first_sector(), Io::read(1, 5, 2).sectors()), (40, 16));
    }

    #[test]
    fn parts_always_add_up() {
        let served =
            Breakdown { overhead_ns: 3, seek_ns: 50, transfer_ns: 7, ..Breakdown::default() };
        for total in [0, 1, 59, 60, 61, 1000] {
            assert_eq!(served.within(total).total_ns(), total);
        }
        assert_eq!(served.within(100).queue_ns, 40);
        let shared = served.share(4).within(60);
        assert_eq!((shared.seek_ns, shared.transfer_ns, shared.queue_ns), (12, 1, 47));
    }
}
