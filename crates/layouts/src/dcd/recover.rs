//! Making and mounting: all headers of the log are read, and the longest prefix of the records
//! that is whole counts.
//!
//! A record counts if it and all records before it that still matter, back to the one its header
//! names as the tail, are there, from lives that do not go back, with data that has its checksums.
//! The data of what some header calls durable is believed without a look, and verified on read.
//!
//! What does not count must never count later: its missing blocks could be made up for by records
//! to come that happen to bring the same content, and the client has been told that it is gone. So
//! a mount erases the headers of what it dropped before a client can read. And a block that cannot
//! be read in the part of the ring that comes next may have held the youngest record: such a log is
//! refused, not guessed at, unless the owner says that what can be read is all there is.

pub(in crate::dcd) mod repair;
pub(in crate::dcd) mod salvage;

use super::attach::LOST_WITH_LOG;
use super::format::{Areas, BOUND, Entry, Header, LEAST_LOG_BLOCKS, escape, looks_like_header};
use super::log::Log;
use super::options::{BUFFERS, Caching, Shape};
use super::read::is_sum_of;
use super::table::{Addr, ESCAPED};
use super::{Dcd, Directs};
use crate::shared::PAST_UNREADABLE;
use seekless_engine::checksum::Identity;
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::Expected;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions, MountPath, RecoverySteps};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::RequestTable;
use seekless_engine::superblock::Superblock;
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

fn damaged<T>(what: impl Into<String>) -> Result<T, LayoutError> {
    Err(LayoutError::Damaged(what.into()))
}

/// Writes an empty volume whose log is on the same device.
pub(super) fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
    let device = disk.blocks();
    let shape = Shape::of(&options.options).check()?;
    let areas = Areas::logical(&shape, device, options.blocks);
    if let Some(asked) = shape.log_blocks
        && areas.log_blocks() + u64::from(areas.segment) <= asked
    {
        return Err(LayoutError::BadSize(format!(
            "a log of {asked} blocks does not fit beside {} blocks of volume on {device} blocks; \
             choose a smaller size of the volume or of its log",
            options.blocks
        )));
    }
    if let Some(asked) = shape.log_blocks.filter(|&asked| asked < LEAST_LOG_BLOCKS) {
        return Err(LayoutError::BadSize(format!(
            "a log of {asked} blocks of 4 KiB is too small, it needs {LEAST_LOG_BLOCKS} at least; \
             choose a larger log, of 128k or more"
        )));
    }
    if !areas.fit(device) {
        let needed = areas.log_first + LEAST_LOG_BLOCKS + options.blocks + 1;
        return Err(LayoutError::TooSmall { device, needed });
    }
    write_first(disk, &areas, options.identity())?;
    let superblock = Superblock {
        layout: options.layout,
        version: Superblock::version_for(areas.sums, 1),
        id: options.id,
        blocks: options.blocks,
        device_blocks: device,
        options: areas.options(),
        sums: areas.sums,
    };
    superblock.write(disk)?;
    disk.flush_for(Edge::DcdFormatFlush)?;
    Ok(())
}

/// Writes the first record, which says nothing: a log without any record is a damaged one.
pub(super) fn write_first(
    disk: &mut dyn Disk,
    areas: &Areas,
    id: Identity,
) -> Result<(), LayoutError> {
    let first = Header {
        seq: 1,
        segment: 0,
        offset: 0,
        durable: 0,
        tail: 1,
        life: 1,
        clean: true,
        entries: Vec::new(),
        before: Some(Vec::new()),
    };
    disk.write(areas.log_first, Data::block_of(first.encode(id)))?;
    Ok(())
}

/// The headers of a log, by number; of two records with one number the one of the later life.
struct Scan {
    records: BTreeMap<u64, Header>,
    /// Up to which record a header calls everything durable.
    durable: u64,
    life: u32,
    /// Blocks of the log that cannot be read.
    unreadable: Vec<Addr>,
    /// Blocks that begin as a header and are none: torn by a power cut.
    torn: Vec<Addr>,
}

fn scan(disk: &mut dyn Disk, areas: &Areas, id: Identity, steps: &mut RecoverySteps) -> Scan {
    steps.begin("scan log");
    let mut scan = Scan {
        records: BTreeMap::new(),
        durable: 0,
        life: 0,
        unreadable: Vec::new(),
        torn: Vec::new(),
    };
    let segment = u64::from(areas.segment);
    for place in 0..areas.segments {
        let first = areas.log_first + u64::from(place) * segment;
        if disk.next_data(first).is_none_or(|at| at >= first + segment) {
            continue;
        }
        steps.read(segment);
        let own = |header: &Header, offset: u32| {
            let is_there = header.place(areas) == place && header.offset == offset;
            Edge::DcdHeaderPlace.allows(is_there)
        };
        let is_whole = |offset: u32, block: &Piece| {
            let header = || Header::decode(&block.to_bytes(), id, areas);
            !looks_like_header(block) || header().is_some_and(|header| own(&header, offset))
        };
        for (offset, block) in (0..).zip(read_segment(disk, first, areas.segment, &is_whole)) {
            if block.is_none() {
                scan.unreadable.push(place * areas.segment + offset);
            }
            let Some(block) = block.filter(looks_like_header) else { continue };
            let bytes = block.to_bytes();
            match Header::decode(&bytes, id, areas).filter(|header| own(header, offset)) {
                Some(header) => scan.take(header),
                None if bytes[8..24] == id.to_le_bytes() => {
                    scan.torn.push(place * areas.segment + offset);
                }
                None => {}
            }
        }
    }
    steps.count(scan.records.len() as u64, "records");
    scan
}

/// The blocks of a segment; nothing for one that cannot be read.
fn read_segment(
    disk: &mut dyn Disk,
    first: u64,
    count: u32,
    is_whole: &dyn Fn(u32, &Piece) -> bool,
) -> Vec<Option<Piece>> {
    if let Ok(data) = disk.read_whole(first, count, is_whole) {
        return data.each().map(Some).collect();
    }
    let blocks = first..first + u64::from(count);
    blocks.map(|at| disk.read(at, 1).ok().map(|data| data.block(0))).collect()
}

impl Scan {
    fn take(&mut self, header: Header) {
        self.durable = self.durable.max(header.durable);
        self.life = self.life.max(header.life);
        let known = self.records.get(&header.seq);
        let later = known.is_none_or(|known| known.life < header.life);
        if Edge::DcdLaterLife.allows(later) {
            self.records.insert(header.seq, header);
        }
    }

    /// The last record that counts.
    fn last(
        &mut self,
        disk: &mut dyn Disk,
        areas: &Areas,
        steps: &mut RecoverySteps,
    ) -> Result<u64, LayoutError> {
        steps.begin("find tail of log");
        let candidates: Vec<u64> =
            self.records.range(self.durable..).map(|(&seq, _)| seq).collect();
        // Of each record looked at, whether its data is whole.
        let mut whole = BTreeMap::new();
        for last in candidates.into_iter().rev() {
            let counts = self.counts(last, disk, areas, &mut whole, steps);
            steps.count(whole.len() as u64, "records verified");
            if counts {
                return Ok(last);
            }
        }
        match self.records.is_empty() {
            true => damaged("the log holds no record"),
            false => damaged("records of the log that were durable are missing"),
        }
    }

    /// True if a record and all before it that matter are there.
    fn counts(
        &mut self,
        last: u64,
        disk: &mut dyn Disk,
        areas: &Areas,
        whole: &mut BTreeMap<u64, bool>,
        steps: &mut RecoverySteps,
    ) -> bool {
        let mut life = u32::MAX;
        for seq in (self.records[&last].tail..=last).rev() {
            let Some(header) = self.records.get(&seq) else { return false };
            if Edge::DcdLivesInOrder.blocks(header.life > life) {
                return false;
            }
            life = header.life;
            if seq > self.durable {
                let read = || is_whole(header, disk, areas, steps);
                if !*whole.entry(seq).or_insert_with(read) {
                    return false;
                }
            }
        }
        true
    }
}

/// Address of the first block of data of a record.
fn first_addr(header: &Header, areas: &Areas) -> Addr {
    header.place(areas) * areas.segment + header.offset + 1
}

fn is_whole(
    header: &Header,
    disk: &mut dyn Disk,
    areas: &Areas,
    steps: &mut RecoverySteps,
) -> bool {
    let count = header.data_blocks();
    if count == 0 {
        return true;
    }
    steps.read(u64::from(count));
    let at = areas.log_first + u64::from(first_addr(header, areas));
    let sums = header.entries.iter().filter_map(|entry| match *entry {
        Entry::Data { sum, escaped, .. } => Some((sum, escaped)),
        Entry::Gone { .. } => None,
    });
    // The checksum of an escaped block is not that of what is stored, and zeros have none.
    let each = sums.clone().map(|(sum, escaped)| (!escaped && sum != 0).then_some(sum)).collect();
    let Ok(data) = disk.read_expecting(at, Expected { sums: areas.sums, each }) else {
        return false;
    };
    sums.zip(data.each()).all(|((sum, escaped), piece)| {
        let stored = if escaped { escape(&piece) } else { piece };
        Edge::DcdWholeData.allows(is_sum_of(areas.sums, sum, &stored))
    })
}

/// Does again what a record says.
fn replay(log: &mut Log, header: &Header) {
    let mut addr = first_addr(header, &log.areas);
    for entry in &header.entries {
        let (Entry::Data { block, .. } | Entry::Gone { block }) = *entry;
        if let Some(old) = log.table.get(block) {
            log.release(old);
        }
        match *entry {
            Entry::Gone { .. } => log.table.remove(block),
            Entry::Data { sum, escaped, .. } => {
                log.table.remove(block);
                log.dirty_slot(addr, block, sum, if escaped { ESCAPED } else { 0 });
                log.table.set(block, addr);
                addr += 1;
            }
        }
    }
}

/// What a log was recovered to.
pub(super) struct Recovered {
    pub log: Log,
    /// Blocks of the log to be erased before a client sees the volume.
    dropped: Vec<Addr>,
    /// Some record that counts is not known to be durable.
    unsettled: bool,
}

impl Recovered {
    /// Makes what was recovered last: flushes what counts, and erases what does not.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn persist(
        &self,
        disk: &mut dyn Disk,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<(), LayoutError> {
        if options.read_only {
            return Ok(());
        }
        steps.begin("erase dropped records");
        steps.count(self.dropped.len() as u64, "blocks");
        if options.volatile || self.unsettled {
            // A server may have been killed between a write and the flush for it.
            disk.flush_for(Edge::DcdMountFlush)?;
        }
        for &addr in &self.dropped {
            disk.write(self.log.device_block(addr), Data::zeros(1))?;
        }
        if !self.dropped.is_empty() {
            disk.flush_for(Edge::DcdEraseFlush)?;
        }
        Ok(())
    }
}

/// Those of some blocks where a record younger than the last one that counts would lie: everywhere
/// but from the tail to its end.
fn behind(blocks: &[Addr], log: &Log) -> Vec<Addr> {
    let tail = log.place(log.tail) as u64 * u64::from(log.areas.segment);
    let used = (log.head - log.tail) * u64::from(log.areas.segment) + u64::from(log.offset);
    let all = log.areas.log_blocks();
    let behind = |addr: &Addr| (u64::from(*addr) + all - tail) % all >= used;
    blocks.iter().copied().filter(behind).collect()
}

/// Recovers the log. `disk` is where it lies.
pub(super) fn recover(
    disk: &mut dyn Disk,
    areas: Areas,
    id: Identity,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Recovered, LayoutError> {
    let mut scan = scan(disk, &areas, id, steps);
    let last = scan.last(disk, &areas, steps)?;
    steps.begin("replay log");
    let mut log = Log::new(areas, options.options.get(&BUFFERS));
    let end = scan.records[&last].clone();
    let mut counting: Vec<&Header> =
        scan.records.range(end.tail..=last).map(|(_, header)| header).collect();
    log.head = end.segment;
    log.offset = end.offset + 1 + end.data_blocks();
    log.tail = counting.first().map_or(end.segment, |first| first.segment);
    (log.recorded, log.needed) = (log.tail, end.tail);
    if log.tail > log.head || log.head - log.tail >= u64::from(areas.segments) {
        return damaged("the log is longer than its ring");
    }
    // Only a forged image has records in another order, or one over the other.
    let end_of = |header: &Header| (header.segment, header.offset + 1 + header.data_blocks());
    if counting.windows(2).any(|two| end_of(two[0]) > (two[1].segment, two[1].offset)) {
        return damaged("records of the log overlap");
    }
    // Segments that were passed over begin with the record behind them.
    for header in counting.iter().rev() {
        for number in log.tail..=header.segment.min(log.head) {
            let place = log.place(number);
            log.segments[place].first_seq = header.seq;
        }
    }
    if planted(PlantedBug::StaleStampWins) {
        counting.reverse();
    }
    steps.count(counting.len() as u64, "records");
    counting.iter().for_each(|header| replay(&mut log, header));
    let life = scan.life + u32::from(Edge::DcdNewLife.stands());
    (log.written, log.durable, log.life) = (last, last, life);
    log.listed = Some(end.blocks());
    let suspects = behind(&scan.unreadable, &log);
    if let Some(&addr) = suspects.first()
        && Edge::DcdUnreadable.blocks(!options.options.get(&PAST_UNREADABLE))
    {
        return damaged(format!(
            "block {} of the log cannot be read, and the youngest writes may have been in it; \
             serve --past-unreadable takes what can be read for all there is",
            log.device_block(addr)
        ));
    }
    let dropped: Vec<&Header> = scan.records.range(last + 1..).map(|(_, header)| header).collect();
    let path = if end.clean { MountPath::Tail } else { MountPath::Scan };
    // A later record in the place of a torn one may be torn itself, and make it whole.
    let torn = behind(&scan.torn, &log);
    let count = (dropped.len() as u64).max(u64::from(!torn.is_empty()));
    steps.found(path, last.saturating_sub(scan.durable), count);
    let headers = dropped.into_iter().map(|header| first_addr(header, &areas) - 1);
    let headers = headers.filter(|_| Edge::DcdDroppedErased.stands());
    let torn = torn.into_iter().filter(|_| Edge::DcdTornErased.stands());
    let dropped = headers.chain(suspects).chain(torn).collect();
    Ok(Recovered { log, dropped, unsettled: last > scan.durable })
}

/// Mounts a volume whose log is on the same device.
pub(super) fn mount(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Dcd, LayoutError> {
    let areas = own_areas(superblock)?;
    let found = recover(disk, areas, superblock.identity(), options, steps)?;
    found.persist(disk, options, steps)?;
    Ok(assemble(superblock.identity(), found.log, options))
}

/// The areas of a volume whose log is on the same device.
fn own_areas(superblock: &Superblock) -> Result<Areas, LayoutError> {
    if superblock.options & BOUND != 0 {
        return Err(LayoutError::Apart(format!(
            "this disk is the origin of a disk caching disk, and what was written last is in its \
             log {:032x}; name that with --log (if it is gone{LOST_WITH_LOG})",
            superblock.id
        )));
    }
    let Some(areas) = Areas::from_superblock(superblock) else {
        return damaged("the superblock describes a log that does not fit the device");
    };
    if areas.physical {
        return Err(LayoutError::Apart(format!(
            "this is the log {:032x} of a disk caching disk; name the origin, and this with --log",
            superblock.id
        )));
    }
    Ok(areas)
}

/// A volume over a recovered log.
pub(super) fn assemble(id: Identity, log: Log, options: &MountOptions<'_>) -> Dcd {
    Dcd {
        id,
        areas: log.areas,
        caching: Caching::of(&options.options),
        volatile: options.volatile,
        headed: options.arm.is_some(),
        counters: super::Counters::default(),
        requests: RequestTable::new(options.read_only),
        queue: VecDeque::new(),
        streams: Default::default(),
        stream_clock: 0,
        log,
        aim: super::Aim::default(),
        gaps: super::Gaps::default(),
        directs: Directs::default(),
        reads: Slab::new(),
        parts: Slab::new(),
        destage: super::Destage::default(),
        home_writes: super::HomeWrites::default(),
        markers: None,
        moving: None,
        clean_record: super::CleanRecord::default(),
    }
}

#[cfg(test)]
mod tests;
