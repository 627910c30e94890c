//! The disk caching disk: small writes are collected in memory and appended to a log in one large
//! write; while no client waits they are written home. (Nightingale, Hu and Yang, "The Design and
//! Implementation of a DCD Device Driver for UNIX", USENIX 1999; Hu and Yang, ISCA 1996.)
//!
//! The *origin* is the disk as its clients see it: block `b` has a fixed home there. The *log* is a
//! ring of fixed segments, on the same device (logical) or on one of its own (physical). It grows
//! by *records*: a header that lists blocks with checksums, and their content. A record counts as
//! a whole or not at all, and what counts is a prefix of the records; so there is no order to keep
//! between header and data, and one flush makes both durable. A segment is used again in ring
//! order only, when everything in it is durable at home and a durable record says so: whatever
//! older header is still found is then overruled by a younger one (claim D14).
//!
//! Requests that are large, or go on with a long stream, go straight home. What the log had of
//! their blocks gets a tombstone, but not before the new content is durable: before that it would
//! take away the only durable version. [`append`] has writing the log, [`log`] the ring, [`direct`]
//! what goes straight home, [`destage`] writing home, [`durability`] what waits for a flush,
//! [`tombstones`] what cancels old versions, [`recover`] mounting; `SPEC.md` the bytes.

mod abandon;
mod append;
mod attach;
mod binding;
mod check;
mod choose;
mod destage;
mod direct;
mod drain;
mod durability;
mod flush;
mod format;
mod gap;
mod log;
mod moves;
mod options;
mod progress;
mod read;
mod recover;
mod rescue;
mod shutdown;
mod stale_marker;
mod table;
mod tombstones;

pub use abandon::{Abandoned, abandon, abandoned, restore};
pub use attach::{attach, check, detach, dump, mount, stands_alone};
pub use drain::drain;
pub use options::{
    BYPASS, BYPASS_BLOCKS, CACHE, Caching, DESTAGE, LOG_SIZE, Mode, Order, REPORT, Report,
    SEGMENT_BLOCKS, SEQUENTIAL, SEQUENTIAL_BLOCKS, Shape, UnknownName,
};
pub use rescue::{FIRST_BYTES, Kept};

use crate::descriptor::Descriptor;
use crate::inplace::header_blocks;
use crate::shared::{PAST_UNREADABLE, SEGMENT};
use append::Aim;
use destage::Destage;
use direct::Directs;
use durability::{HomeWrites, Needs};
use format::{Areas, MAX_DEVICE_BLOCKS};
use gap::Gaps;
use log::Log;
use moves::Move;
use read::{Part, Reading};
use seekless_engine::checksum::Identity;
use seekless_engine::checksum::Sums;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Done, Io, IoError, Op, Tag};
use seekless_engine::layer::{Cx, Layer, Limits, Port, Status};
use seekless_engine::layout::Promises;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::PlantedBug;
use seekless_engine::request_table::{RequestNr, RequestTable};
use seekless_engine::superblock::{Superblock, SuperblockError};
use seekless_engine::units::{BlockNr, Time};
use shutdown::CleanRecord;
use slab::Slab;
use stale_marker::StaleMarkers;
use std::collections::VecDeque;
use std::fmt;

/// Kinds of commands below, in the upper half of a tag.
const READ: Tag = 1 << 32;
const LOG: Tag = 2 << 32;
const DIRECT: Tag = 3 << 32;
const DESTAGE_READ: Tag = 4 << 32;
const DESTAGE_WRITE: Tag = 5 << 32;
const FLUSH: Tag = 6 << 32;
const MARKER: Tag = 7 << 32;
const MOVE: Tag = 8 << 32;

/// Part of a write or trim that waits to be begun.
#[derive(Clone, Debug)]
enum Work {
    /// Goes to the log.
    Log { request: usize, at: BlockNr, data: Data },
    /// Goes home; a trim has no data.
    Direct { request: usize, at: BlockNr, count: u32, data: Data },
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    requests: u64,
    header_blocks: u64,
    log_blocks: u64,
    destaged_blocks: u64,
    direct_blocks: u64,
    records: u64,
    reads: u64,
    reads_from_origin: u64,
    /// Longest time that a write was in memory only, in nanoseconds.
    exposed_ns: Time,
}

/// A few streams of adjoining writes.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Where the next write of it begins.
    next: BlockNr,
    blocks: u64,
    used: u64,
}

const STREAMS: usize = 8;

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Dcd {
    id: Identity,
    areas: Areas,
    caching: Caching,
    volatile: bool,
    /// The log is on a device with a head: its records go where the head is.
    headed: bool,
    counters: Counters,
    requests: RequestTable<Needs>,
    queue: VecDeque<Work>,
    streams: [Stream; STREAMS],
    stream_clock: u64,

    log: Log,
    aim: Aim,
    gaps: Gaps,
    directs: Directs,
    reads: Slab<Reading>,
    parts: Slab<Part>,
    destage: Destage,
    home_writes: HomeWrites,
    /// What the binding of an origin apart is to say.
    markers: Option<StaleMarkers>,
    /// The first blocks of an origin apart are being moved.
    moving: Option<Move>,
    /// How far a clean shutdown has come beyond its record.
    clean_record: CleanRecord,
}

/// Completes the superblock of one of its volumes, and refuses one that none can have. Those of
/// other layouts pass: the caller finds that they are no part of a disk caching disk.
fn known(superblock: Superblock) -> Result<Superblock, SuperblockError> {
    if superblock.layout.0 != DESCRIPTOR.number {
        return Ok(superblock);
    }
    let superblock = superblock.with_oldest_sums(DESCRIPTOR.oldest_sums);
    match Dcd::accepts(&superblock) {
        true => Ok(superblock),
        false => Err(SuperblockError::Damaged),
    }
}

/// True if a superblock is that of a log, or of an origin, whose other part is another device.
pub fn is_half(superblock: &Superblock) -> bool {
    let half = format::PHYSICAL | format::BOUND;
    superblock.layout.0 == DESCRIPTOR.number && superblock.options & half != 0
}

/// True if a superblock binds an origin.
pub fn is_binding(superblock: &Superblock) -> bool {
    superblock.layout.0 == DESCRIPTOR.number && superblock.options & format::BOUND != 0
}

impl Dcd {
    fn log_port(&self) -> Port {
        usize::from(self.areas.physical)
    }

    /// Where a range of blocks has its home, as one or two runs: port, first block, length.
    fn homes(&self, at: BlockNr, count: u32) -> impl Iterator<Item = (Port, BlockNr, u32)> {
        let sealed = self.areas.moved;
        let beside = sealed.saturating_sub(at).min(u64::from(count)) as u32;
        let first = (self.log_port(), self.areas.log_first - sealed.min(self.areas.log_first) + at);
        let rest = (0, self.areas.origin_first + at + u64::from(beside));
        [(first.0, first.1, beside), (rest.0, rest.1, count - beside)]
            .into_iter()
            .filter(|&(_, _, count)| count > 0)
    }

    /// Sends a command and counts it.
    fn send(&mut self, port: Port, io: Io, cx: &mut Cx<'_>) {
        self.counters.requests += 1;
        cx.send(port, io);
    }

    /// Requests of fewer blocks go to the log, if they are no part of a stream.
    fn bypass(&self) -> u32 {
        let fits = self.areas.most_data() + 1;
        match (self.caching.mode, self.caching.bypass_blocks) {
            (Mode::Around, _) => 0,
            (_, 0) => u32::MAX,
            (_, blocks) => blocks.min(fits),
        }
    }

    /// True if a write goes on with a stream that has become long.
    fn is_streaming(&mut self, io: &Io) -> bool {
        let limit = u64::from(self.caching.sequential_blocks);
        self.stream_clock += 1;
        let known = self.streams.iter().position(|one| one.next == io.at && one.used > 0);
        let least = |one: &usize| self.streams[*one].used;
        let index = known.unwrap_or_else(|| (0..STREAMS).min_by_key(least).unwrap_or(0));
        let before = if known.is_some() { self.streams[index].blocks } else { 0 };
        let blocks = before + u64::from(io.count);
        let next = io.at + u64::from(io.count);
        self.streams[index] = Stream { next, blocks, used: self.stream_clock };
        limit > 0 && before >= limit
    }

    /// Refuses all further writes; everything that waits for durability fails now.
    fn fail_volume(&mut self, error: IoError, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        self.requests.fail_volume(error, cx);
        // A request may wait with several parts, in buffers and in the queue.
        let queued = std::mem::take(&mut self.queue).into_iter().map(|work| match work {
            Work::Log { request, .. } | Work::Direct { request, .. } => request,
        });
        for request in self.log.give_up().into_iter().chain(queued) {
            self.requests.fail(request, error);
            self.requests.part_done(request, cx);
        }
    }

    /// One part of a write or trim is where it goes first; answers the request after the last.
    /// `lasting` says that it must be durable before it is answered, though its client did not ask.
    fn part_done(&mut self, request: RequestNr, lasting: bool, cx: &mut Cx<'_>) {
        let through = self.caching.mode == Mode::Through;
        if lasting || through {
            self.requests.force(request);
        }
        if let Some(request) = self.requests.part_written(request, cx) {
            self.wait(request, through);
        }
    }

    /// Decides where a write or trim goes, and cuts it into parts if it must be.
    fn enqueue(&mut self, io: Io, cx: &mut Cx<'_>) {
        let streaming = io.op == Op::Write && self.is_streaming(&io);
        let written = if io.op == Op::Write { u64::from(io.count) } else { 0 };
        if io.fua {
            self.streams = Default::default();
        }
        if io.count >= self.bypass() || (streaming && !io.fua) {
            let Some(request) = self.requests.begin(&io, 1, cx) else { return };
            self.counters.client_blocks += written;
            let Io { at, count, data, .. } = io;
            self.queue.push_back(Work::Direct { request, at, count, data });
            return;
        }
        let most = self.areas.most_data();
        let parts = io.count.div_ceil(most);
        let Some(request) = self.requests.begin(&io, parts, cx) else { return };
        self.counters.client_blocks += written;
        let data = if io.op == Op::Trim { Data::zeros(io.count) } else { io.data };
        for from in (0..io.count).step_by(most as usize) {
            let data = data.slice(from, most.min(io.count - from));
            self.queue.push_back(Work::Log { request, at: io.at + u64::from(from), data });
        }
    }

    /// Begins what waits, in order of arrival, as far as there is room and nothing is overtaken.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        while self.requests.failed().is_none() {
            let begins = match self.queue.front() {
                None => return,
                Some(Work::Log { at, data, .. }) => {
                    !self.directs.overlap(*at, data.blocks()) && self.log.has_room(data.blocks())
                }
                Some(&Work::Direct { at, count, .. }) => self.may_go_home(at, count),
            };
            if !begins {
                return;
            }
            match self.queue.pop_front() {
                Some(Work::Log { request, at, data }) => self.append(request, at, &data, cx),
                Some(Work::Direct { request, at, count, data }) => {
                    self.begin_direct(request, at, count, data, cx);
                }
                None => {}
            }
        }
    }
}

impl Layer for Dcd {
    fn blocks(&self) -> u64 {
        self.areas.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        match io.op {
            Op::Read => self.begin_read(&io, cx),
            Op::Write | Op::Trim => {
                self.enqueue(io, cx);
            }
            Op::Flush => {
                let Some(request) = self.requests.begin(&io, 1, cx) else { return };
                self.streams = Default::default();
                self.wait(request, false);
            }
        }
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            READ => self.read_done(index, done, cx),
            // Only with a bug planted is there more than the record itself.
            LOG if index > 0 => {}
            LOG => self.log_done(done, cx),
            DIRECT => self.direct_done(index, done, cx),
            DESTAGE_READ => self.destage_read_done(index, done),
            DESTAGE_WRITE => self.destage_write_done(index, done, cx),
            FLUSH => self.flush_done(port, done, cx),
            MARKER => self.marker_done(done, cx),
            MOVE => self.move_done(done, cx),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.dispatch(cx);
            self.answer_durable(cx);
            self.begin_log_write(cx);
            // A buffer that is on its way makes room for another.
            self.dispatch(cx);
            // What has come home makes room, and a request may have waited for it; the last record
            // wants room as well.
            let home = self.advance_destage(cx);
            let progress = self.advance_progress(cx.now);
            self.advance_moves(cx);
            if !self.advance_shutdown(cx) && !home && !progress {
                break;
            }
        }
        self.advance_flushes(cx);
    }

    fn deadline(&self) -> Option<Time> {
        let others = [self.progress_due(), self.refresh_due(), self.leaves_until()];
        self.destage_deadline().into_iter().chain(others.into_iter().flatten()).min()
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        if self.requests.is_running() {
            self.clean_record.asked = cx.now;
        }
        self.requests.ask_shutdown();
    }

    fn stopped(&self) -> bool {
        self.requests.is_shut_down()
    }

    fn failed(&self) -> Option<IoError> {
        self.requests.failed()
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Status for Dcd {
    fn check(&self) {
        self.requests.check();
        self.log.check();
    }

    fn limits(&self) -> Limits {
        let most = self.areas.most_data();
        let streams = self.caching.sequential_blocks > 0;
        Limits {
            // A stream goes home in requests of any size.
            whole_blocks: if streams { 0 } else { self.bypass().saturating_sub(1).min(most) },
            reports_early: self.caching.report == Report::Immediate,
            ..Limits::default()
        }
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, header_blocks, log_blocks, .. } = self.counters;
        let Counters { destaged_blocks, direct_blocks, records, reads, .. } = self.counters;
        let written = header_blocks + log_blocks + destaged_blocks + direct_blocks;
        vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", written as f64),
            ("device_requests", self.counters.requests as f64),
            ("log_blocks_written", log_blocks as f64),
            ("header_blocks_written", header_blocks as f64),
            ("destaged_blocks", destaged_blocks as f64),
            ("direct_blocks_written", direct_blocks as f64),
            ("records", records as f64),
            ("reads", reads as f64),
            ("reads_from_origin", self.counters.reads_from_origin as f64),
            ("dirty_blocks", self.log.dirty() as f64),
            ("log_segments", f64::from(self.areas.segments)),
            ("log_segments_free", self.log.free_segments() as f64),
            ("longest_exposure_ms", self.counters.exposed_ns as f64 / 1e6),
        ]
    }
}

/// Blocks of a device with room for a volume of `logical` blocks beside a log of `log`, no fewer
/// than without that wish.
pub fn device_blocks_beside(logical: u64, log: u64) -> u64 {
    let used = logical + log + 1;
    // A device large enough for the longer header has it.
    let longest = header_blocks(u64::MAX);
    (used + header_blocks(used + longest)).max(Dcd::device_blocks(logical, &Options::default()))
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 4,
    name: "dcd",
    summary: "disk caching disk: small writes go to a log in large ones, and home when idle",
    // Blocks at home have no checksums.
    promises: Promises {
        atomic: true,
        ordered: true,
        checked: false,
        immediate: true,
        elsewhere: false,
    },
    format_options: &[&SEGMENT, &LOG_SIZE],
    mount_options: &[&CACHE, &REPORT, &DESTAGE, &BYPASS, &SEQUENTIAL, &PAST_UNREADABLE],
    device_flags: &["log", "log-disk"],
    oldest_sums: Sums::TurnedCrc,
    planted_bugs: &PlantedBug::DCD,
    salvage: |disk, superblock| Ok(Box::new(recover::salvage::open(disk, superblock)?)),
    repair: recover::repair::repair,
    ..Descriptor::of::<Dcd>()
};

impl Layout for Dcd {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// A fifteenth more than the volume for the log, within its bounds.
    fn device_blocks(logical: u64, options: &Options) -> u64 {
        if let Some(log) = options.get(&LOG_SIZE) {
            return device_blocks_beside(logical, log.min(MAX_DEVICE_BLOCKS));
        }
        // Never less than the device that comes of it.
        let most = logical + logical / 15 + 400;
        let used = logical + format::default_log(most).next_multiple_of(32) + 1;
        used + header_blocks(used + header_blocks(most))
    }

    fn largest_volume(device: u64) -> u64 {
        let device = device.min(MAX_DEVICE_BLOCKS);
        let used = format::default_log(device).div_ceil(32) * 32 + header_blocks(device) + 1;
        device.saturating_sub(used)
    }

    fn accepts(superblock: &Superblock) -> bool {
        let most = match is_half(superblock) {
            true => MAX_DEVICE_BLOCKS,
            false => Dcd::largest_volume(superblock.device_blocks),
        };
        superblock.blocks <= most
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Dcd, LayoutError> {
        recover::mount(disk, superblock, options, steps)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}
