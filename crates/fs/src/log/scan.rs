//! The reader of a log: which groups a crash has left, and whether something is missing.
//!
//! The log ends at the first sector with a bad seal, another number or another epoch. That is
//! damage if a trace says that more was durable. Traces are the superblocks, and later sectors of
//! the epoch: each says up to where the log was durable when it was sealed. So the reader looks at
//! all sectors of the ring.

mod epochs;

use crate::log::format::{
    LogShape, LogSuperblock, Lsn, MOST_NUMBER, NO_FILE_SYSTEM, PAYLOAD, SECTOR_HEAD, SUPERBLOCKS,
    SectorHead,
};
use crate::log::group::{GroupView, HEAD, length_of};
use crate::seal::Sealer;
use bytes::Bytes;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use std::ops::Range;
use thiserror::Error;

/// The range of a log, as the reader sees it.
pub trait LogSource {
    /// Block `block` of the range; none if it cannot be read.
    fn block(&mut self, block: u64) -> Option<Bytes>;
}

impl<F: FnMut(u64) -> Option<Bytes>> LogSource for F {
    fn block(&mut self, block: u64) -> Option<Bytes> {
        self(block)
    }
}

/// Why a log cannot be used.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// Neither superblock is one.
    #[error("the range holds no log: both of its superblocks are missing or damaged")]
    NoLog,
    /// It is the log of another file system.
    #[error("the log belongs to the file system {found:032x}, not to {wanted:032x}")]
    Foreign {
        /// The file system that the log names.
        found: u128,
        /// The file system at hand.
        wanted: u128,
    },
    /// The range is not as long as its superblock says.
    #[error("the log has {stated} blocks, but its range has {blocks}")]
    Size {
        /// Blocks that the superblock states.
        stated: u32,
        /// Blocks of the range.
        blocks: u32,
    },
    /// The newest superblock is lost: sectors are of a later epoch than the superblock at hand.
    #[error("the newest superblock of the log is lost: a sector is of epoch {found}, not {epoch}")]
    Stale {
        /// The epoch of the superblock.
        epoch: u32,
        /// The epoch of a sector.
        found: u32,
    },
    /// Groups that were durable are lost.
    #[error("sector {number} of the log is damaged: the log was durable up to sector {durable}")]
    Damaged {
        /// The number of the first bad sector.
        number: u64,
        /// The first number that may not have been durable.
        durable: u64,
    },
    /// All sectors of a group are whole, but the group is not.
    #[error("the group at sector {number}, byte {offset} of the log is malformed")]
    Group {
        /// The number of the sector in which it begins.
        number: u64,
        /// Its offset there.
        offset: usize,
    },
}

/// Where the groups of one epoch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochSpan {
    /// The epoch.
    pub epoch: u32,
    /// Where they begin.
    pub start: Lsn,
    /// Behind the last one that is whole.
    pub end: Lsn,
    /// The first number that is no sector of the epoch.
    pub next: u64,
    /// Sectors behind `end` hold a part of a group.
    pub is_cut_off: bool,
}

/// What a log holds.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// The superblock that counts.
    pub superblock: LogSuperblock,
    /// The other superblock is damaged.
    pub lacks_copy: bool,
    /// Behind the last whole group.
    pub end: Lsn,
    /// A number behind all sectors of the ring: a new epoch begins there. What a recovery has
    /// written ahead of its superblocks does not count.
    pub next: u64,
    /// The newest epoch of a sector, or of the superblock.
    pub epoch: u32,
    /// The epochs whose groups count, the oldest first. Without kept groups there is one.
    pub epochs: Vec<EpochSpan>,
    /// Payload of the sectors from the start on, without gaps.
    stream: Vec<u8>,
    /// Groups: where each lies in the stream, and its position.
    groups: Vec<(Range<usize>, Lsn)>,
}

impl Scanned {
    /// Where the last whole group begins.
    pub fn last_group(&self) -> Option<Lsn> {
        self.groups.last().map(|(_, lsn)| *lsn)
    }

    /// The whole groups from the start on, in order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = GroupView<'_>> {
        let id = self.superblock.id;
        self.groups.iter().map(move |(range, lsn)| {
            GroupView::read(&self.stream[range.clone()], id, *lsn).expect("it was read before")
        })
    }
}

/// Reads the superblocks of a range. Gives the newer one, and whether the other one is damaged.
///
/// # Errors
/// [`LogError::NoLog`], [`LogError::Foreign`] and [`LogError::Size`].
pub fn superblock(
    source: &mut impl LogSource,
    blocks: u32,
    file_system: u128,
) -> Result<(LogSuperblock, bool), LogError> {
    let found: Vec<LogSuperblock> = (0..u64::from(SUPERBLOCKS))
        .filter_map(|block| LogSuperblock::decode(&source.block(block)?, block))
        .collect();
    let newest = found.iter().max_by_key(|one| one.sequence).copied().ok_or(LogError::NoLog)?;
    if newest.file_system != file_system {
        return Err(LogError::Foreign { found: newest.file_system, wanted: file_system });
    }
    // The groups of a file system are in place before their epoch ends.
    if newest.kept.is_some() && file_system != NO_FILE_SYSTEM {
        return Err(LogError::NoLog);
    }
    if newest.shape.blocks != blocks {
        return Err(LogError::Size { stated: newest.shape.blocks, blocks });
    }
    let lacks_copy = found.len() < 2 || found.iter().any(|one| one.id != newest.id);
    Ok((newest, lacks_copy))
}

/// Reads a log.
///
/// # Errors
/// [`LogError`] if the log is not the one that is wanted, or groups that were durable are lost.
pub fn scan(
    source: &mut impl LogSource,
    blocks: u32,
    file_system: u128,
) -> Result<Scanned, LogError> {
    match scan_to_damage(source, blocks, file_system)? {
        (scanned, None) => Ok(scanned),
        (_, Some(damage)) => Err(damage),
    }
}

/// Reads a log up to damage, if there is some: the groups in front of it are whole.
///
/// # Errors
/// [`LogError`] if the log is not the one that is wanted, or has no superblock that counts.
pub fn scan_to_damage(
    source: &mut impl LogSource,
    blocks: u32,
    file_system: u128,
) -> Result<(Scanned, Option<LogError>), LogError> {
    let (superblock, lacks_copy) = superblock(source, blocks, file_system)?;
    let mut scanned = Scanned {
        superblock,
        lacks_copy,
        end: superblock.start,
        next: 0,
        epoch: 0,
        epochs: Vec::new(),
        stream: Vec::new(),
        groups: Vec::new(),
    };
    let mut reader = Reader::new(source, superblock);
    let (end, malformed) = reader.read_epochs(&mut scanned);
    let behind = reader.look_behind(end)?;
    (scanned.next, scanned.epoch) = (behind.next, behind.epoch);
    // Groups in front of either count, and what is malformed lies in front of the end.
    Ok((scanned, malformed.or(behind.lost)))
}

/// A number behind all sectors of the ring of a log with this id, and the newest epoch of one. For
/// a log whose superblocks are lost.
pub fn newest(source: &mut impl LogSource, shape: LogShape, id: u128) -> (u64, u32) {
    let sealer = Sealer::new(id);
    let (mut next, mut epoch) = (0, 0);
    for block in SUPERBLOCKS.into()..u64::from(shape.blocks) {
        let Some(bytes) = source.block(block) else { continue };
        for (sector, place) in bytes.chunks_exact(SECTOR_BYTES).zip(block * BLOCK_SECTORS..) {
            if let Some(head) = SectorHead::read(sector, &sealer, shape, place) {
                next = next.max(head.number + 1);
                epoch = epoch.max(head.epoch);
            }
        }
    }
    (next, epoch)
}

/// What the sectors behind the end say.
struct Behind {
    /// A number behind all sectors.
    next: u64,
    /// The newest epoch.
    epoch: u32,
    /// Durable groups are lost.
    lost: Option<LogError>,
}

/// A sector of the stream.
#[derive(Clone, Copy, Debug)]
struct Part {
    number: u64,
    /// Where its payload begins in the stream, and the offset of that byte in the sector.
    at: usize,
    offset: usize,
    used: usize,
    first: usize,
}

/// The block of the range that was read last.
type LastBlock = Option<(u64, Option<Bytes>)>;

struct Reader<'s, S> {
    source: &'s mut S,
    superblock: LogSuperblock,
    sealer: Sealer,
    block: LastBlock,
}

impl<'s, S: LogSource> Reader<'s, S> {
    fn new(source: &'s mut S, superblock: LogSuperblock) -> Reader<'s, S> {
        let sealer = Sealer::new(superblock.id);
        Reader { source, superblock, sealer, block: None }
    }

    fn shape(&self) -> LogShape {
        self.superblock.shape
    }

    /// The sector of the range at this place.
    fn sector<'b>(source: &mut S, block: &'b mut LastBlock, place: u64) -> Option<&'b [u8]> {
        let number = place / BLOCK_SECTORS;
        if block.as_ref().is_none_or(|one| one.0 != number) {
            *block = Some((number, source.block(number)));
        }
        let block = block.as_ref()?.1.as_ref()?;
        let at = (place % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        block.get(at..at + SECTOR_BYTES)
    }

    /// The head of the sector with this number, and the sector, if it is whole and there.
    fn numbered(&mut self, number: u64) -> Option<(SectorHead, &[u8])> {
        let shape = self.shape();
        let place = shape.place(number);
        let sector = Reader::sector(self.source, &mut self.block, place)?;
        let head = SectorHead::read(sector, &self.sealer, shape, place)?;
        (head.number == number).then_some((head, sector))
    }

    /// A number behind all places of the log.
    fn limit(&self) -> u64 {
        self.superblock.start.number() + self.shape().sectors()
    }

    /// Reads sectors of an epoch from `start` to the first one that is none. Appends their payload
    /// to the stream.
    fn read_epoch(&mut self, stream: &mut Vec<u8>, epoch: u32, start: Lsn) -> Vec<Part> {
        let mut sectors = Vec::new();
        let mut skip = start.offset().saturating_sub(SECTOR_HEAD);
        let limit = if self.superblock.clean { 0 } else { self.limit() };
        for number in start.number()..limit {
            let Some((head, sector)) = self.numbered(number) else { break };
            if head.epoch != epoch {
                break;
            }
            let used = usize::from(head.used);
            let skipped = skip.min(used);
            let offset = SECTOR_HEAD + skipped;
            let (at, first) = (stream.len(), usize::from(head.first));
            let used = used - skipped;
            sectors.push(Part { number, at, offset, used, first });
            stream.extend_from_slice(&sector[offset..offset + used]);
            skip = 0;
        }
        sectors
    }

    /// Looks at all other sectors for a trace of more than was read.
    fn look_behind(&mut self, end: u64) -> Result<Behind, LogError> {
        let LogSuperblock { epoch, start, durable, clean, .. } = self.superblock;
        let mut next = end.max(durable.number());
        let mut newest = epoch;
        let shape = self.shape();
        let mut lost = (!clean && durable > Lsn::new(end, 0)).then_some(durable.number());
        let ring = shape.place(0)..shape.place(0) + shape.sectors();
        // The place of a number is the rest of a division, which would be most of the work.
        let mut at = shape.place(end);
        for _ in end - start.number()..shape.sectors() {
            let place = at;
            at = if place + 1 == ring.end { ring.start } else { place + 1 };
            let sector = Reader::sector(self.source, &mut self.block, place);
            let Some(sector) = sector else { continue };
            let peeked = SectorHead::peek(sector);
            if peeked.number < end && peeked.epoch <= epoch {
                continue;
            }
            let Some(head) = SectorHead::read(sector, &self.sealer, shape, place) else {
                continue;
            };
            if head.epoch > epoch {
                // Only a recovery that was cut off writes sectors ahead of its superblocks.
                if head.durable > Lsn::default() {
                    return Err(LogError::Stale { epoch, found: head.epoch });
                }
                newest = newest.max(head.epoch);
                continue;
            }
            next = next.max(head.number + 1);
            let is_later = head.epoch == epoch && head.number > end && !clean;
            if is_later && head.durable > Lsn::new(end, 0) {
                lost = lost.max(Some(head.durable.number()));
            }
        }
        debug_assert!(next <= MOST_NUMBER, "numbers are limited");
        let lost = lost.map(|durable| LogError::Damaged { number: end, durable });
        Ok(Behind { next, epoch: newest, lost })
    }
}

/// Finds the groups in the stream of an epoch, which ends the stream. True if the last one is cut
/// off.
fn find_groups(scanned: &mut Scanned, sectors: &[Part]) -> Result<bool, LogError> {
    let mut parts = sectors.iter().copied().peekable();
    let mut before: Option<Lsn> = None;
    let mut at = sectors.first().map_or(0, |part| part.at);
    while let Some(part) = parts.peek().copied() {
        let offset = part.offset + (at - part.at);
        let is_through = at == part.at + part.used;
        if is_through {
            // An empty sector, or one that a group has filled to its end.
            parts.next();
            continue;
        }
        let lsn = Lsn::new(part.number, offset);
        let malformed = LogError::Group { number: part.number, offset };
        let rest = &scanned.stream[at..];
        let head = rest.get(..HEAD);
        let length = match head {
            Some(head) => length_of(head).ok_or(malformed)?,
            None => usize::MAX,
        };
        // The start may lie behind the first group of its sector.
        let is_first = part.offset == SECTOR_HEAD && !begun(scanned, part.number);
        if is_first && part.first != offset {
            return Err(malformed);
        }
        let end = at.saturating_add(length);
        if end > scanned.stream.len() {
            return cut_off(sectors, at, malformed).map(|()| true);
        }
        while let Some(part) = parts.peek()
            && part.at + part.used < end
        {
            // Only a full sector goes on in the next one.
            if part.offset + part.used != SECTOR_HEAD + PAYLOAD {
                return Err(malformed);
            }
            parts.next();
        }
        let group = GroupView::read(&scanned.stream[at..end], scanned.superblock.id, lsn);
        let group = group.filter(|group| before.is_none_or(|before| before == group.before()));
        if group.is_none() {
            return Err(malformed);
        }
        before = Some(lsn);
        scanned.groups.push((at..end, lsn));
        let last = parts.peek().copied().unwrap_or(part);
        scanned.end = Lsn(Lsn::new(last.number, last.offset).0 + (end - last.at) as u64);
        at = end;
    }
    Ok(false)
}

/// True if a group that begins in this sector was found.
fn begun(scanned: &Scanned, number: u64) -> bool {
    scanned.groups.last().is_some_and(|(_, lsn)| lsn.number() == number)
}

/// A group from `at` on has no end: its last sectors were not written. So all sectors are full.
fn cut_off(sectors: &[Part], at: usize, malformed: LogError) -> Result<(), LogError> {
    let is_full = |part: &Part| part.offset + part.used == SECTOR_HEAD + PAYLOAD;
    let mut rest = sectors.iter().filter(|part| part.at + part.used > at);
    if rest.all(is_full) { Ok(()) } else { Err(malformed) }
}
