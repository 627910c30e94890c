//! The writer of a log: groups in, writes of sealed sectors out.
//!
//! A sector is *open* while groups are added to it, then *closed*, then in flight, then durable. A
//! force closes the open sector: the next group begins in a new one, so no sector is written twice.
//! Writes may complete in any order. The log is durable up to the first write that is not.
//!
//! The caller writes what [`Ring::next_write`] gives, and calls [`Ring::written`] when the write is
//! durable: after a flush, or at completion where the volume keeps what it has completed. Space is
//! used again after a superblock with a later start is durable.
//!
//! A ring that counts only what a superblock names ([`Ring::count_named_only`]) says that a group
//! is durable when a superblock behind it is: recovery ends there.

use crate::log::format::{
    Kept, LogShape, LogSuperblock, Lsn, NO_FILE_SYSTEM, PAYLOAD, SECTOR_HEAD, SectorHead,
};
use crate::log::group::GroupBuilder;
use crate::seal::Sealer;
use bytes::Bytes;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;

/// The ring has no space for a group: force it, write blocks in place, and move the start.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the log has no space: its start must move first")]
pub struct Full;

/// Where a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte.
    pub lsn: Lsn,
    /// Behind its last byte. It is durable when the log is durable up to here.
    pub end: Lsn,
}

/// A write of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// The number of its first sector: names the write.
    pub number: u64,
    /// The first sector, from the start of the range.
    pub sector: u64,
    /// Sealed sectors.
    pub bytes: Bytes,
}

/// A sector that is closed and not sent.
#[derive(Clone, Debug)]
struct Closed {
    used: u16,
    first: u16,
    bytes: Box<[u8; SECTOR_BYTES]>,
}

impl Default for Closed {
    fn default() -> Closed {
        Closed { used: 0, first: 0, bytes: Box::new([0; SECTOR_BYTES]) }
    }
}

/// A write in flight or behind one that is.
#[derive(Clone, Copy, Debug)]
struct Sent {
    count: u64,
    is_durable: bool,
}

/// The writer.
#[derive(Clone, Debug)]
pub struct Ring {
    /// The superblock on the disk.
    superblock: LogSuperblock,
    /// A superblock that is being written.
    coming: Option<LogSuperblock>,
    /// Only what the superblock names counts as durable.
    named_only: bool,
    sealer: Sealer,
    /// Sectors that a write covers at least, and at a multiple of which it begins.
    step: u64,
    /// The first group that was placed last; 0 if none was.
    before: Lsn,
    /// The first number that is not on the disk.
    on_disk: u64,
    /// Writes from there on, by the number of their first sector.
    sent: BTreeMap<u64, Sent>,
    /// The number of the first closed sector.
    next: u64,
    closed: VecDeque<Closed>,
    open: Closed,
    /// Sectors below this number go out as soon as they can.
    forced: u64,
    /// Bytes of the groups that would carry on what is open.
    carried: usize,
}

/// An epoch that begins.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The writer. It counts the carried groups as durable.
    pub ring: Ring,
    /// Whole blocks with the carried groups. They are written first, with a flush behind them.
    pub carried: Vec<LogWrite>,
    /// Written next, in their order, with a flush behind each.
    pub superblocks: [LogSuperblock; 2],
}

impl Ring {
    /// A new log: what `mkfs` writes. Both superblocks are to be written.
    pub fn format(shape: LogShape, id: u128, file_system: u128) -> [LogSuperblock; 2] {
        let first = LogSuperblock {
            shape,
            id,
            file_system,
            sequence: 0,
            start: Lsn::default(),
            durable: Lsn::default(),
            epoch: 1,
            clean: true,
            kept: None,
        };
        [first, LogSuperblock { sequence: 1, ..first }]
    }

    /// A new log that keeps its groups: both superblocks are to be written. It belongs to no file
    /// system.
    pub fn format_kept(shape: LogShape, id: u128) -> [LogSuperblock; 2] {
        // Position 0 says that nothing is durable.
        let begin = shape.unit_sectors();
        let at = Lsn::new(begin, 0);
        let kept = Some(Kept { oldest: 1, begin });
        Ring::format(shape, id, NO_FILE_SYSTEM).map(|one| LogSuperblock {
            start: at,
            durable: at,
            clean: false,
            kept,
            ..one
        })
    }

    /// Goes on with the epoch of a log that keeps its groups, at the sector `number`: all sectors
    /// in front of it are whole and durable, and none behind it is. `before` is the last group of
    /// the epoch, 0 if there is none. Single sectors are not written.
    ///
    /// # Panics
    /// If no block begins there.
    pub fn resume(found: &LogSuperblock, number: u64, before: Lsn) -> Ring {
        assert!(number.is_multiple_of(BLOCK_SECTORS), "a block is not written twice");
        Ring { before, on_disk: number, ..Ring::at(*found, number, 0) }
    }

    /// A writer that has written nothing yet.
    fn at(superblock: LogSuperblock, number: u64, carried: usize) -> Ring {
        Ring {
            superblock,
            coming: None,
            named_only: false,
            sealer: Sealer::new(superblock.id),
            step: BLOCK_SECTORS,
            before: Lsn::default(),
            on_disk: 0,
            sent: BTreeMap::new(),
            next: number,
            closed: VecDeque::new(),
            open: Closed::default(),
            forced: number,
            carried,
        }
    }

    /// Begins an epoch behind `found`, at the sector `number`. Everything that the log held is in
    /// place. `parts` is true if the volume takes writes of single sectors.
    ///
    /// The two superblocks are to be written in their order, with a flush behind each, before any
    /// group is: a superblock of the epoch before would have recovery end at its groups.
    pub fn begin(found: &LogSuperblock, number: u64, parts: bool) -> (Ring, [LogSuperblock; 2]) {
        let begun = Ring::begin_with(found, (number, found.epoch), parts, Vec::new());
        let Begun { ring, superblocks, .. } = begun.expect("nothing is carried");
        (ring, superblocks)
    }

    /// The same with groups that carry on what the log held open. `newest` is a number behind all
    /// sectors of the ring, and the newest epoch of a sector.
    ///
    /// The carried groups are durable before a superblock names their epoch. Until then the log of
    /// the epoch before counts, and nothing of it is written over. Their sectors state that nothing
    /// is durable, so that a reader tells them from sectors whose superblocks are lost. Recovery
    /// that starts over uses their places again, with an epoch of its own.
    ///
    /// # Errors
    /// [`Full`] if the groups have no place beside the log of the epoch before.
    pub fn begin_with(
        found: &LogSuperblock,
        newest: (u64, u32),
        parts: bool,
        groups: Vec<GroupBuilder>,
    ) -> Result<Begun, Full> {
        let unit = found.shape.unit_sectors();
        // Position 0 says that nothing is durable.
        let number = newest.0.next_multiple_of(unit).max(unit);
        let at = Lsn::new(number, 0);
        let epoch = newest.1 + 1;
        // Until the superblocks are written, the place from the old start on is not free.
        let start = if found.clean { at } else { found.start };
        let carried = groups.iter().map(GroupBuilder::len).sum();
        let mut ring = Ring::at(LogSuperblock { epoch, start, ..*found }, number, carried);
        for group in groups {
            ring.append_within(group, 0)?;
        }
        ring.force(ring.end());
        let carried: Vec<LogWrite> = std::iter::from_fn(|| ring.next_write(None)).collect();
        ring.on_disk = number;
        for write in &carried {
            ring.written(write.number);
        }
        ring.step = if parts { 1 } else { BLOCK_SECTORS };
        let (sequence, durable) = (found.sequence + 1, ring.durable());
        // What a log keeps stays in front of the new epoch.
        let (start, kept) = match found.kept {
            Some(Kept { oldest, .. }) if !found.clean => {
                (found.start, Some(Kept { oldest, begin: number }))
            }
            kept => (at, kept.map(|_| Kept { oldest: epoch, begin: number })),
        };
        let clean = false;
        let first = LogSuperblock { sequence, start, durable, epoch, clean, kept, ..*found };
        let second = LogSuperblock { sequence: sequence + 1, ..first };
        ring.superblock = second;
        Ok(Begun { ring, carried, superblocks: [first, second] })
    }

    /// Groups of so many bytes would carry on what is open: recovery needs space for them beside
    /// the log. [`Ring::has_room`] keeps it free.
    pub fn carries(&mut self, bytes: usize) {
        self.carried = bytes;
    }

    /// Sizes.
    pub fn shape(&self) -> LogShape {
        self.superblock.shape
    }

    /// The number of the open sector.
    fn head(&self) -> u64 {
        self.next + self.closed.len() as u64
    }

    /// The first number that is not free.
    fn limit(&self) -> u64 {
        self.superblock.start.number() + self.shape().sectors()
    }

    /// Where the next group would begin at the earliest.
    pub fn end(&self) -> Lsn {
        Lsn::new(self.head(), 0).max(self.position())
    }

    fn position(&self) -> Lsn {
        match usize::from(self.open.used) {
            0 => Lsn::new(self.head(), 0),
            PAYLOAD => Lsn::new(self.head() + 1, 0),
            used => Lsn::new(self.head(), SECTOR_HEAD + used),
        }
    }

    /// Where recovery would begin.
    pub fn start(&self) -> Lsn {
        self.superblock.start
    }

    /// Everything in front of it is on the disk.
    pub fn on_disk(&self) -> Lsn {
        Lsn::new(self.on_disk, 0)
    }

    /// Everything in front of it is there after a crash.
    pub fn durable(&self) -> Lsn {
        if self.named_only { self.superblock.durable } else { self.on_disk() }
    }

    /// Counts as durable what a superblock names, and nothing else.
    pub fn count_named_only(&mut self) {
        self.named_only = true;
    }

    /// Sectors from the start to the open one, of [`LogShape::sectors`].
    pub fn used_sectors(&self) -> u64 {
        self.head() - self.superblock.start.number()
    }

    /// Sectors that recovery needs behind the last one: it begins at a unit.
    fn reserve(&self) -> u64 {
        let carried = self.carried.div_ceil(PAYLOAD) as u64 + 1;
        self.shape().unit_sectors() + carried.next_multiple_of(BLOCK_SECTORS)
    }

    /// True if a group of so many bytes fits, and recovery has the space that it needs.
    pub fn has_room(&self, length: usize) -> bool {
        self.fits(length, self.reserve())
    }

    fn fits(&self, length: usize, reserve: u64) -> bool {
        let free = PAYLOAD - usize::from(self.open.used);
        let more = length.saturating_sub(free).div_ceil(PAYLOAD) as u64;
        // A force behind it fills the block of its last sector.
        (self.head() + more + 1).next_multiple_of(self.step) + reserve <= self.limit()
    }

    /// Adds a group behind the others. It is durable after a force.
    ///
    /// # Errors
    /// [`Full`], and nothing is added.
    pub fn append(&mut self, group: GroupBuilder) -> Result<Placed, Full> {
        self.append_within(group, self.reserve())
    }

    fn append_within(&mut self, group: GroupBuilder, reserve: u64) -> Result<Placed, Full> {
        if !self.fits(group.len(), reserve) {
            return Err(Full);
        }
        if usize::from(self.open.used) == PAYLOAD {
            self.close();
        }
        let lsn = Lsn::new(self.head(), SECTOR_HEAD + usize::from(self.open.used));
        if self.open.first == 0 {
            self.open.first = lsn.offset() as u16;
        }
        let before = std::mem::replace(&mut self.before, lsn);
        let bytes = group.finish(self.superblock.id, lsn, before);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let used = usize::from(self.open.used);
            let (now, later) = rest.split_at(rest.len().min(PAYLOAD - used));
            let at = SECTOR_HEAD + used;
            self.open.bytes[at..at + now.len()].copy_from_slice(now);
            self.open.used += now.len() as u16;
            rest = later;
            if !rest.is_empty() {
                self.close();
            }
        }
        let end = Lsn(Lsn::new(self.head(), SECTOR_HEAD).0 + u64::from(self.open.used));
        Ok(Placed { lsn, end })
    }

    fn close(&mut self) {
        self.closed.push_back(std::mem::take(&mut self.open));
    }

    /// The end of the write that has what lies in front of `to`: a write is of whole sectors or
    /// blocks. No group that begins in front of it may wait for anything.
    pub fn write_end(&self, to: Lsn) -> Lsn {
        let last = Lsn(to.0.saturating_sub(1)).number();
        Lsn::new((last / self.step + 1) * self.step, 0)
    }

    /// Makes everything up to here go out.
    pub fn force(&mut self, to: Lsn) {
        if to <= Lsn::new(self.forced, 0) {
            return;
        }
        if to > Lsn::new(self.head(), 0) && self.open.used > 0 {
            self.close();
        }
        // Whole blocks: no later write may touch this one.
        while !self.head().is_multiple_of(self.step) {
            self.close();
        }
        self.forced = self.head();
    }

    /// The next write, if there is one: forced sectors, or a whole unit. With `ready`, none of a
    /// sector that has a part of the group there, or of one behind it.
    pub fn next_write(&mut self, ready: Option<Lsn>) -> Option<LogWrite> {
        let shape = self.shape();
        let unit = shape.unit_sectors();
        let unit_end = (self.next / unit + 1) * unit;
        let wraps = (self.next / shape.sectors() + 1) * shape.sectors();
        let most = unit_end.min(wraps);
        let until = match self.head() >= most {
            true => most,
            false => self.forced.min(self.head()),
        };
        let ready = ready.map_or(until, |lsn| lsn.number() / self.step * self.step);
        let until = until.min(ready);
        if until <= self.next {
            return None;
        }
        let number = self.next;
        let count = until - number;
        debug_assert!(until <= self.limit(), "a sector that recovery needs is not written over");
        debug_assert!(number.is_multiple_of(self.step) && count.is_multiple_of(self.step));
        let durable = self.durable();
        let mut bytes = Vec::with_capacity(count as usize * SECTOR_BYTES);
        for number in number..until {
            let Closed { used, first, bytes: mut sector } =
                self.closed.pop_front().expect("it lies in front of the head");
            let head = SectorHead { number, epoch: self.superblock.epoch, used, first, durable };
            head.seal(&mut sector[..], &self.sealer, shape.place(number));
            bytes.extend_from_slice(&sector[..]);
        }
        self.next = until;
        self.sent.insert(number, Sent { count, is_durable: false });
        Some(LogWrite { number, sector: shape.place(number), bytes: bytes.into() })
    }

    /// The write with this number is durable. Returns up to where the log is.
    pub fn written(&mut self, number: u64) -> Lsn {
        let sent = self.sent.get_mut(&number).expect("a write in flight");
        sent.is_durable = true;
        while let Some(entry) = self.sent.first_entry()
            && entry.get().is_durable
        {
            self.on_disk = entry.key() + entry.get().count;
            entry.remove();
        }
        self.durable()
    }

    /// A superblock that moves the start to the group at `to`: all groups in front of it are
    /// durable, in place and flushed. None if the start is there, or a superblock is being written.
    ///
    /// # Panics
    /// If `to` is not durable, with debug assertions.
    pub fn release(&mut self, to: Lsn) -> Option<LogSuperblock> {
        debug_assert!(to <= self.durable(), "{to:?} is not durable");
        if to <= self.superblock.start {
            return None;
        }
        self.next_superblock(to)
    }

    /// The same for a log that keeps its groups: `oldest` is the epoch of the group at `to`.
    pub fn release_kept(&mut self, to: Lsn, oldest: u32) -> Option<LogSuperblock> {
        self.release(to)?;
        let coming = self.coming.as_mut()?;
        coming.kept = coming.kept.map(|kept| Kept { oldest, ..kept });
        Some(*coming)
    }

    /// A superblock that says up to where the log is durable, and moves nothing.
    ///
    /// # Panics
    /// If a superblock is being written.
    pub fn attest(&mut self) -> LogSuperblock {
        self.next_superblock(self.superblock.start).expect("no superblock is being written")
    }

    /// A copy of the superblock that is being written, for the other block: written when that one
    /// is durable, and before [`Ring::superblock_written`]. Then damage of either loses nothing.
    /// None if none is being written.
    pub fn copied(&mut self) -> Option<LogSuperblock> {
        let coming = self.coming.as_mut()?;
        coming.sequence += 1;
        Some(*coming)
    }

    /// A superblock that names what is on the disk. None if it is named, nothing depends on that,
    /// or a superblock is being written.
    pub fn name(&mut self) -> Option<LogSuperblock> {
        if self.on_disk() <= self.durable() {
            return None;
        }
        self.next_superblock(self.superblock.start)
    }

    fn next_superblock(&mut self, start: Lsn) -> Option<LogSuperblock> {
        if self.coming.is_some() {
            return None;
        }
        let (sequence, durable) = (self.superblock.sequence + 1, self.on_disk());
        self.coming = Some(LogSuperblock { sequence, start, durable, ..self.superblock });
        self.coming
    }

    /// The superblock of [`Ring::release`] or [`Ring::name`] is durable: the space in front of its
    /// start is free, and what it names counts.
    pub fn superblock_written(&mut self) {
        if let Some(superblock) = self.coming.take() {
            self.superblock = superblock;
        }
    }

    /// True if a superblock of [`Ring::release`] or [`Ring::name`] is being written.
    pub fn awaits_superblock(&self) -> bool {
        self.coming.is_some()
    }

    /// The volume takes writes of single sectors.
    pub fn use_parts(&mut self) {
        self.step = 1;
    }

    /// True if everything is durable, and no superblock is being written.
    pub fn is_quiet(&self) -> bool {
        self.open.used == 0 && self.on_disk == self.head() && self.coming.is_none()
    }

    /// The superblock of a clean unmount: everything is durable and in place.
    ///
    /// # Panics
    /// If something is not durable, with debug assertions.
    pub fn finish(self) -> LogSuperblock {
        let at = Lsn::new(self.head(), 0);
        debug_assert!(self.open.used == 0 && self.on_disk() == at, "it was forced");
        debug_assert!(self.coming.is_none(), "a superblock is being written");
        let sequence = self.superblock.sequence + 1;
        LogSuperblock { sequence, start: at, durable: at, clean: true, ..self.superblock }
    }
}
