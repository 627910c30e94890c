//! Log-structured layouts: what clients write is collected and appended to a log in large segments;
//! segments that hold little are cleaned. (Rosenblum and Ousterhout, "The design and implementation
//! of a log-structured file system", ACM TOCS 10(1), 1992; Wang, Zhao and Bunt, "HyLog: a high
//! performance approach to managing disk layout", FAST 2004.)
//!
//! Writes are acknowledged from a write buffer in memory, like those of a disk with a volatile
//! cache: a flush, forced unit access, a full segment or a pause writes them out. What is written
//! out together is a *commit*: it takes hold after a crash if all of it is on the device with the
//! right checksums, so its blocks and summaries need no order between them and one flush makes it
//! durable. Commits form a chain that a recovery follows from the last checkpoint; what survives is
//! a prefix of what was written.
//!
//! [`log`] writes parts of the log, [`segments`] knows which segments are free, [`clean`] makes
//! more of them ([`choose`] says which and how, [`plug`] is one way), [`checkpoint`] writes the
//! map, [`recover`] mounts. `SPEC.md` has the bytes.

mod check;
mod checkpoint;
mod choose;
mod clean;
mod durability;
mod format;
mod hylog;
mod lld;
mod log;
mod map;
pub mod options;
mod overwrite;
mod plug;
mod policy;
mod pool;
mod punch;
mod read;
mod recover;
mod repeat;
mod segments;
mod service;
mod wolf;
mod words;
mod write;

use crate::descriptor::Descriptor;
use crate::punch::NO_PUNCH;
use crate::shared::{MOST_OF_GROUP, SEGMENT};
use crate::witness::Witness;
use checkpoint::{Checkpoint, Phase};
use clean::Cleaner;
use format::{Geometry, MAX_DEVICE_BLOCKS, PLUGGABLE, RESERVE, default_segment};
use hylog::Outlook;
use hylog::cost::Prices;
use seekless_engine::arm::Arm;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::disk::Disk;
use seekless_engine::io::Extent;
use seekless_engine::io::{Breakdown, Done, Io, IoError, Op, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status, Transactions};
use seekless_engine::layout::Promises;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::PlantedBug;
use seekless_engine::request_table::{Limits, RequestTable, Work};
use seekless_engine::superblock::Superblock;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, MILLIS, Time};

pub use format::segment_for;
use log::Log;
use map::Map;
pub use options::{CLEANING, Cleaning, HOT_PERCENT, INTERVAL, PARTIAL, Partial, VICTIMS, Victims};
use overwrite::{Command, Overwriting};
use policy::Policy;
use pool::Pool;
use punch::Punching;
use read::{Part, Reading};
use segments::Segments;
use service::Service;
use slab::Slab;
use std::fmt;

/// Blocks that a request of more is split into; each part is atomic. 1 MiB.
const ATOMIC_BLOCKS: u64 = 256;
/// How long an acknowledged write may wait in memory.
const COMMIT_DELAY: Time = 200 * MILLIS;
/// Blocks written since the log was last durable beyond which a flush is asked for: bounds what a
/// recovery verifies.
const UNVERIFIED_LIMIT: u64 = 16 * 1024;
/// Blocks of data between two checkpoints, at least.
const CHECKPOINT_BLOCKS: u64 = 16 * 1024;
/// How many times as much data as map is written between two checkpoints, at least.
const CHECKPOINT_RATIO: u64 = 32;

/// Segments that a head of its own for cold blocks keeps from being used.
const SECOND_HEAD: u64 = 3;

/// Kinds of commands below, in the upper half of a tag.
const PART: Tag = 1 << 32;
const FLUSH: Tag = 2 << 32;
const READ: Tag = 3 << 32;
const RECORD: Tag = 4 << 32;
const FLUSH_RECORD: Tag = 5 << 32;
const CLEAN: Tag = 6 << 32;
const OVERWRITE: Tag = 7 << 32;
const PLUG: Tag = 8 << 32;
const PUNCH: Tag = 9 << 32;

/// What is missing while a write waits for space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Short {
    /// Empty segments wait for what is on the device to be durable.
    flush: bool,
    /// Empty segments wait for what has not been written out.
    commit: bool,
    /// Empty segments wait for a checkpoint.
    checkpoint: bool,
    /// As many wait for a flush as are wanted.
    enough: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    data_blocks: u64,
    summaries: u64,
    map_blocks: u64,
    overwritten: u64,
}

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Lfs {
    id: Identity,
    /// How the checksums of blocks are made.
    sums: Sums,
    geometry: Geometry,
    /// The device may lose completed writes until it is flushed.
    volatile: bool,
    counters: Counters,
    requests: RequestTable,
    policy: Policy,

    map: Map,
    segments: Segments,
    punching: Punching,
    pool: Pool,
    /// Slots in the order in which they are written out; kept for its room.
    order: Vec<u32>,
    log: Log,
    witness: Witness,
    atomic_blocks: u64,
    /// Most blocks of a transaction.
    group_blocks: u64,
    in_flight_limit: u64,

    checkpoint: Checkpoint,
    checkpoint_interval: u64,

    cleaner: Cleaner,
    /// How space is to be won back, and whether the format allows holes to be plugged.
    cleaning: Cleaning,
    victims: Victims,
    pluggable: bool,
    service: Service,
    starving: bool,
    short: Short,

    reads: Slab<Reading>,
    parts: Slab<Part>,

    overwriting: Slab<Overwriting>,
    overwrites: Slab<Command>,
    /// Something was overwritten since the last commit: a flush must reach the device.
    touched: bool,
}

impl Lfs {
    fn empty(superblock: &Superblock, geometry: Geometry, options: &MountOptions<'_>) -> Lfs {
        let segment = u64::from(geometry.segment);
        let slack = geometry.capacity().saturating_sub(geometry.blocks);
        let meta = geometry.slices() + geometry.indices();
        let interval = CHECKPOINT_BLOCKS.max(CHECKPOINT_RATIO * meta);
        let policy = Policy::new(superblock.layout, geometry.blocks, options);
        // A full volume with a small reserve has room for less.
        let whole = if geometry.reserve < RESERVE { segment - 1 } else { 2 * (segment - 1) };
        Lfs {
            id: superblock.identity(),
            sums: superblock.sums,
            geometry,
            volatile: options.volatile,
            counters: Counters::default(),
            requests: RequestTable::new(options.read_only),
            victims: options.options.get(&VICTIMS).unwrap_or(policy.victims()),
            policy,
            map: Map::new(&geometry),
            segments: Segments::new(geometry),
            punching: Punching::new(
                geometry.segments(),
                !options.read_only && !options.options.get(&NO_PUNCH),
            ),
            pool: Pool::default(),
            order: Vec::new(),
            log: Log::default(),
            witness: Witness::default(),
            atomic_blocks: (whole + slack / 4).min(ATOMIC_BLOCKS),
            group_blocks: (whole + slack / 4).min(MOST_OF_GROUP),
            in_flight_limit: (4 * segment).max(ATOMIC_BLOCKS),
            checkpoint: Checkpoint::default(),
            checkpoint_interval: interval.min(geometry.device_blocks / 4),
            cleaner: Cleaner::default(),
            cleaning: options.options.get(&CLEANING),
            pluggable: superblock.options & PLUGGABLE != 0,
            service: Service::new(options.arm),
            starving: false,
            short: Short::default(),
            reads: Slab::new(),
            parts: Slab::new(),
            overwriting: Slab::new(),
            overwrites: Slab::new(),
            touched: false,
        }
    }

    /// Blocks that the write buffer collects before it is written out.
    fn capacity(&self) -> u64 {
        // Where space is scarce it is not spent on waiting.
        let buffers = if self.cleaner.is_pressed() { 1 } else { self.policy.buffers() };
        let more = (buffers - 1) * u64::from(self.geometry.segment - 1);
        u64::from(self.log.heads[0].room(&self.geometry)) + more
    }

    /// Lets the layout HyLog measure, and choose anew which blocks are hot.
    fn advance_policy(&mut self, now: Time) {
        let stored = self.map.stored();
        let reserve = self.low() + self.pass() / 2;
        let Policy::Hylog(hylog) = &mut self.policy else { return };
        let idle = self.log.is_quiet()
            && self.checkpoint.phase() == Phase::Idle
            && self.parts.is_empty()
            && self.overwrites.is_empty()
            && !self.cleaner.is_busy();
        hylog.note(idle, stored, now);
        if !hylog.is_due(stored, now) {
            return;
        }
        // The log never holds more: some segments are always free or nearly so.
        let (all, slots) = (self.geometry.segments(), u64::from(self.geometry.segment - 1));
        let space = all.saturating_sub(reserve) * slots;
        let spare = all.saturating_sub(stored.div_ceil(slots));
        let reserve = reserve + SECOND_HEAD;
        // What is expected of pages is good for trying what they take, and no more.
        let knows_pages = self.service.knows_pages();
        let has_room = knows_pages && spare > 2 * reserve;
        let mixed_space = has_room.then(|| all.saturating_sub(reserve) * slots);
        let plugs = self.pluggable && self.cleaning != Cleaning::Copy;
        let hole = plugs.then(|| self.service.hole_efficiency());
        let prices = self.service.efficiency().map(|page| Prices { page, hole });
        let (map, block_ns) = (&self.map, self.service.block_ns());
        let mechanical = self.service.is_mechanical();
        let outlook =
            Outlook { map, stored, space, mixed_space, prices, block_ns, knows_pages, mechanical };
        if hylog.has_turned() {
            self.service.doubt_small();
        }
        hylog.turn(&outlook, now);
    }

    /// The device was busy with the log, or with cleaning it.
    fn log_took(&mut self, spent: &Breakdown) {
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.log_ns += overwrite::service_ns(spent);
        }
    }

    /// Brings a clean shutdown one step further.
    fn advance_shutdown(&mut self, cx: &mut Cx<'_>) {
        if !self.requests.must_leave_clean() {
            return;
        }
        let busy = !self.log.is_quiet()
            || self.cleaner.is_busy()
            || self.punching.puncher.is_busy()
            || self.checkpoint.phase() != Phase::Idle;
        if busy {
            return;
        }
        if self.is_clean() {
            self.requests.end_shutdown();
        } else if !self.has_room_for_checkpoint() && !self.is_all_durable() {
            self.short.commit = true;
            self.advance_log(cx);
        } else {
            self.begin_checkpoint(true, cx);
            self.advance_checkpoint(cx);
            self.advance_log(cx);
        }
    }
}

impl Layer for Lfs {
    fn blocks(&self) -> u64 {
        self.geometry.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let reads = io.op == Op::Read;
        let limits = Limits { write: self.atomic_blocks, trim: u64::from(u32::MAX) };
        if let Some(request) = self.requests.accept(io, limits, cx) {
            self.wait_durable(request, cx);
        }
        // A read does not wait behind writes that wait for space.
        if reads && let Some(Work::Read { request, at, count }) = self.requests.pop_last() {
            self.begin_read(request, at, count, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            PART => self.part_done(index, done, cx),
            FLUSH => self.flush_done(done, cx),
            READ => self.read_done(index, done, cx),
            RECORD => self.record_done(done, cx),
            FLUSH_RECORD => self.record_flushed(done, cx),
            CLEAN => self.victim_read(done, cx),
            OVERWRITE => self.overwrite_done(index, done, cx),
            PLUG => self.plugged(index, done, cx),
            PUNCH => self.punched(&done, cx),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.segments.release(self.log.durable(), self.checkpoint.start());
        let hastens = self.hastens_space(cx);
        loop {
            self.dispatch(cx);
            self.look_for_space();
            if hastens && !self.starving {
                self.hasten_space();
            }
            if !self.advance_cleaning(cx) {
                break;
            }
        }
        self.advance_checkpoint(cx);
        self.advance_log(cx);
        self.advance_witness(cx);
        self.advance_punching(cx);
        self.advance_shutdown(cx);
        self.advance_policy(cx.now);
    }

    fn deadline(&self) -> Option<Time> {
        let write_out = self.write_out_at().filter(|_| self.requests.failed().is_none());
        let idle = self.cleaner.due().into_iter().chain(self.witness.due());
        write_out.into_iter().chain(idle).chain(self.punch_due()).min()
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
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

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        Some(self)
    }
}

impl Transactions for Lfs {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        self.requests.accept_group(tag, all, fua, cx);
    }
}

impl Status for Lfs {
    fn transaction_blocks(&self) -> u64 {
        self.group_blocks
    }

    fn check(&self) {
        self.requests.check();
    }

    fn expect(&self, at: BlockNr) {
        std::hint::black_box(self.map.get(at));
        self.policy.expect(at);
    }

    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let (mapped, length) = self.map.extent(at, limit);
        (if mapped { Extent::Data } else { Extent::Hole }, length)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, data_blocks, summaries, map_blocks, overwritten } =
            self.counters;
        let plugged = self.cleaner.plugs.blocks;
        let written = data_blocks + summaries + map_blocks + overwritten + plugged;
        let mut stats = vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", written as f64),
            ("data_blocks_written", data_blocks as f64),
            ("summaries_written", summaries as f64),
            ("map_blocks_written", map_blocks as f64),
            ("checkpoints", self.checkpoint.written as f64),
            ("segments_cleaned", self.cleaner.segments as f64),
            ("cleaner_blocks_read", self.cleaner.blocks_read as f64),
            ("blocks_moved", self.cleaner.blocks_moved as f64),
            ("blocks_plugged", plugged as f64),
            ("free_segments", self.segments.free() as f64),
            ("blocks_overwritten", overwritten as f64),
            ("hot_share", self.policy.hot_share()),
        ];
        if let Policy::Lld(lld) = &self.policy {
            stats.push(("blocks_rewritten", lld.again as f64));
        }
        stats
    }
}

/// Blocks of the device for a volume with segments of the size that `segment` gives.
pub(super) fn device_blocks(logical: u64, reserve: u64, segment: impl Fn(u64) -> u32) -> u64 {
    let mut device = logical + (logical / 8).max(1024) + logical / 64;
    while largest_volume(device, reserve, &segment) < logical && device < 2 * logical + 4096 {
        device += device / 64;
    }
    device
}

fn largest_volume(device: u64, reserve: u64, segment: impl Fn(u64) -> u32) -> u64 {
    let device_blocks = device.min(MAX_DEVICE_BLOCKS);
    let segment = segment(device_blocks);
    let geometry = Geometry { blocks: 0, device_blocks, segment, aligned: false, reserve };
    let fits = |blocks| Geometry { blocks, ..geometry }.fits_newly();
    crate::sizes::largest(device_blocks, fits)
}

/// What the plain log is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 5,
    name: "lfs",
    summary: "log-structured: writes are appended in large segments, which are cleaned",
    promises: Promises {
        atomic: true,
        ordered: true,
        checked: true,
        immediate: false,
        elsewhere: false,
    },
    format_options: &[&SEGMENT],
    mount_options: &[&CLEANING, &VICTIMS, &NO_PUNCH],
    device_flags: &["nvram"],
    planted_bugs: &PlantedBug::LFS,
    salvage: |disk, superblock| Ok(Box::new(recover::salvage::open(disk, superblock)?)),
    repair: recover::repair::repair,
    ..Descriptor::of::<Lfs>()
};

/// The log with a sorted write buffer.
pub const WOLF: Descriptor = Descriptor {
    number: 6,
    name: "wolf",
    summary: "log-structured with a write buffer sorted by how often blocks are written",
    planted_bugs: &PlantedBug::WOLF,
    ..DESCRIPTOR
};

/// The log for blocks that are written often.
pub const HYLOG: Descriptor = Descriptor {
    number: 7,
    name: "hylog",
    summary: "a log for blocks that are written often, update in place for the others",
    promises: Promises {
        atomic: false,
        ordered: false,
        checked: false,
        immediate: false,
        elsewhere: false,
    },
    mount_options: &[&CLEANING, &VICTIMS, &INTERVAL, &HOT_PERCENT, &NO_PUNCH],
    planted_bugs: &PlantedBug::HYLOG,
    ..DESCRIPTOR
};

/// The log as the logical disk keeps it.
pub const LLD: Descriptor = Descriptor {
    number: 8,
    name: "lld",
    summary: "the logical disk: a log of full segments of 512 KiB, cleaned in idle time",
    mount_options: &[&CLEANING, &VICTIMS, &PARTIAL, &NO_PUNCH],
    planted_bugs: &PlantedBug::LLD,
    device_blocks: |logical, options| match options.get(&SEGMENT) {
        Some(segment) => device_blocks(logical, lld::RESERVE, |_| segment),
        None => device_blocks(logical, lld::RESERVE, lld::segment),
    },
    largest_volume: |device| largest_volume(device, lld::RESERVE, lld::segment),
    usual_volume: |device| largest_volume(device, lld::RESERVE, lld::segment).min(device / 9 * 8),
    check_size: lld::check_size,
    suit: |_, _, options| options,
    ..DESCRIPTOR
};

impl Layout for Lfs {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// An eighth more than the volume, so that cleaning costs little.
    fn device_blocks(logical: u64, options: &Options) -> u64 {
        match options.get(&SEGMENT) {
            Some(segment) => device_blocks(logical, RESERVE, |_| segment),
            None => device_blocks(logical, RESERVE, default_segment),
        }
    }

    fn largest_volume(device: u64) -> u64 {
        largest_volume(device, RESERVE, default_segment)
    }

    fn usual_volume(device: u64) -> u64 {
        crate::sizes::with_an_eighth_left::<Self>(device)
    }

    fn suit(arm: &dyn Arm, device_blocks: u64, options: Options) -> Options {
        match options.get(&SEGMENT) {
            Some(_) => options,
            None => options.with(&SEGMENT, Some(segment_for(arm, device_blocks))),
        }
    }

    // How large a volume may be made has changed; the mount knows what its segments hold.
    fn accepts(superblock: &Superblock) -> bool {
        superblock.blocks <= superblock.device_blocks
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Lfs, LayoutError> {
        recover::mount(disk, superblock, options, steps)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}

#[cfg(test)]
mod tests;
