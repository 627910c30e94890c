//! Loge: every write goes to a free block near the head, and a *label* beside each block says what
//! it holds: which logical block, written when, by which transaction. There is no map on disk; a
//! recovery reads all labels, and of several versions of a block the youngest counts. (English and
//! Stepanov, "Loge: a self-organizing disk controller", USENIX Winter 1992.)
//!
//! A request is a *transaction* of one time stamp; each of its labels says which of how many
//! blocks it is, so a recovery can tell a transaction that is there as a whole from one that is
//! not, and drops the latter. A label counts if the block has the content of its checksum: data and
//! labels need no order between them, and one flush makes both durable. A place is used again
//! only when the version that superseded it is durable.
//!
//! On a device with sector headers (the simulated disk) a label lands with its block. On others,
//! labels lie in label blocks, one for each group of 128 blocks, and wait for a flush, a limit or
//! a pause where the device has a volatile cache. What was forgotten (trimmed, or overwritten with
//! zeros) has a tombstone at a fixed place, the *trim map*: older versions of a block may be found
//! for years. [`write`] and [`commit`] have the details, `SPEC.md` the bytes.

mod check;
mod commit;
mod format;
mod place;
mod read;
mod recover;
mod table;
mod write;

pub use place::{Heuristic, Order};

use super::desk::{Desk, Limits, Work};
use super::vlog::freemap::FreeMap;
use super::{CheckReport, FormatOptions, Layout, LayoutError, MountOptions, MountReport};
use crate::disk::Disk;
use crate::io::{Done, Io, IoError, Tag};
use crate::layer::{Cx, Extent, Layer, Port};
use crate::superblock::Superblock;
use crate::units::{BlockNr, MILLIS, Time};
use commit::{Commit, History, Stop};
use format::{Areas, FIXED_BLOCKS, GROUP, MAX_DEVICE_BLOCKS, MAX_MEMBERS, TRIM_SLICE};
use place::{Placer, Plan};
use read::{Part, Reading};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use table::{LabelArea, Table, TrimMap};
use write::Piece;

/// Blocks that a request of more is split into; each part is atomic. 1 MiB.
const ATOMIC_BLOCKS: u64 = 256;
/// Most blocks of a part of a trim.
const TRIM_BLOCKS: u64 = MAX_MEMBERS;
/// How long an acknowledged write may wait for its label on a device with a volatile cache.
const COMMIT_DELAY: Time = 200 * MILLIS;
/// Blocks of data written since the last durable commit beyond which a flush is asked for, and half
/// of them since the last commit beyond which one is begun: bounds what a recovery has to verify.
const UNVERIFIED_LIMIT: u64 = 16 * 1024;

/// Free blocks that must remain when every block of the volume is stored.
fn least_slack(blocks: u64) -> u64 {
    64 + blocks / 256
}

/// Kinds of commands below, in the upper half of a tag.
const DATA: Tag = 1 << 32;
const META: Tag = 2 << 32;
const FLUSH: Tag = 3 << 32;
const READ: Tag = 4 << 32;
const RECORD: Tag = 5 << 32;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    data_blocks: u64,
    label_blocks: u64,
    trim_blocks: u64,
    commits: u64,
}

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Loge {
    id: u128,
    areas: Areas,
    /// The device may lose completed writes until it is flushed.
    volatile: bool,
    /// The device has a head: one batch at a time, placed where the head is.
    headed: bool,
    counters: Counters,

    desk: Desk,

    table: Table,
    /// On a device without sector headers.
    labels: Option<LabelArea>,
    trims: TrimMap,
    free: FreeMap,
    placer: Placer,
    plan: Option<Plan>,
    pieces: Slab<Piece>,
    next_stamp: u64,
    /// Transactions whose data is on its way to the device.
    in_flight: BTreeSet<u64>,
    atomic_blocks: u64,
    /// Where the next write begins if it continues the last one.
    sequential_at: BlockNr,
    starving: bool,

    commit: Option<Commit>,
    history: History,
    flush: Option<u64>,
    /// Something changed since the last commit was begun, and since when.
    changed_since: Option<Time>,
    /// Data blocks written when a commit last became durable, and when one was last begun.
    verified_at: u64,
    committed_at: u64,
    /// Number of the last record on the device.
    record: u64,
    stop: Stop,

    reads: Slab<Reading>,
    parts: Slab<Part>,
    /// Reads in flight by the commit that was open when they began.
    read_epochs: VecDeque<(u64, u32)>,
}

impl Loge {
    fn empty(superblock: &Superblock, areas: Areas, options: &MountOptions<'_>) -> Loge {
        let slack = areas.pool().saturating_sub(areas.blocks);
        let heuristic = Heuristic::decode(superblock.options >> 8);
        Loge {
            id: superblock.id,
            areas,
            volatile: options.volatile,
            headed: options.arm.is_some(),
            counters: Counters::default(),
            desk: Desk::new(options.read_only),
            table: Table::new(areas.blocks),
            labels: (!areas.headers).then(|| LabelArea::new(areas)),
            trims: TrimMap::new(superblock.id, &areas),
            free: FreeMap::new(areas.device_blocks, options.arm),
            placer: Placer::new(heuristic),
            plan: None,
            pieces: Slab::new(),
            next_stamp: 1,
            in_flight: BTreeSet::new(),
            atomic_blocks: (slack / 4).clamp(1, ATOMIC_BLOCKS),
            sequential_at: 0,
            starving: false,
            commit: None,
            history: History::default(),
            flush: None,
            changed_since: None,
            verified_at: 0,
            committed_at: 0,
            record: 0,
            stop: Stop::default(),
            reads: Slab::new(),
            parts: Slab::new(),
            read_epochs: VecDeque::new(),
        }
    }

    /// True if batches go one by one, each durable when it is answered.
    fn is_serial(&self) -> bool {
        !self.volatile
    }

    /// Dispatches what waits, in order of arrival.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        if self.is_serial() {
            // Holes are read, and forgotten anew, without the device: go on with the next.
            let mut before = usize::MAX;
            while self.commit.is_none() && self.reads.is_empty() && self.desk.queued() < before {
                before = self.desk.queued();
                self.begin_batch(cx);
            }
            return;
        }
        while self.next_may_begin() {
            match self.desk.pop() {
                Some(Work::Read { request, at, count }) => self.begin_read(request, at, count, cx),
                Some(Work::Write { request, at, data }) => self.begin_write(request, at, &data, cx),
                Some(Work::Trim { request, at, count }) => self.trim(request, at, count, cx),
                None => {}
            }
        }
    }
}

impl Layer for Loge {
    fn blocks(&self) -> u64 {
        self.areas.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let limits = Limits { write: self.atomic_blocks, trim: TRIM_BLOCKS };
        if let Some(flush) = self.desk.accept(io, limits, cx) {
            self.wait_durable(flush, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            READ => self.read_done(index, done, cx),
            DATA => self.data_done(index, done, cx),
            META => self.commit_part_done(done, cx),
            FLUSH => self.flush_done(done, cx),
            RECORD => self.record_done(done, cx),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.plan = None;
        self.release_superseded();
        self.dispatch(cx);
        self.advance_commits(cx);
        self.advance_stop(cx);
    }

    fn deadline(&self) -> Option<Time> {
        // What waits for a flush goes on when that is answered.
        let flushing = self.flush.is_some() && !self.may_commit();
        let waiting = self.desk.latched().is_none() && self.commit.is_none() && self.volatile;
        let waiting = waiting && !flushing;
        self.changed_since.filter(|_| waiting).map(|since| since + COMMIT_DELAY)
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.stop.ask();
    }

    fn stopped(&self) -> bool {
        self.stop.is_done()
    }

    fn latched(&self) -> Option<IoError> {
        self.desk.latched()
    }

    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let (mapped, length) = self.table.extent(at, limit);
        (if mapped { Extent::Data } else { Extent::Hole }, length)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, data_blocks, label_blocks, trim_blocks, commits } =
            self.counters;
        let written = data_blocks + label_blocks + trim_blocks;
        vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", written as f64),
            ("data_blocks_written", data_blocks as f64),
            ("label_blocks_written", label_blocks as f64),
            ("trim_blocks_written", trim_blocks as f64),
            ("commits", commits as f64),
            ("free_blocks", self.free.free() as f64),
        ]
    }

    fn fork(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

impl Layout for Loge {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// An eighth more than the volume, and what labels and the trim map take.
    fn device_blocks(logical: u64) -> u64 {
        let used = logical + (logical / 8).max(1024) + logical.div_ceil(TRIM_SLICE) + FIXED_BLOCKS;
        used + used / (GROUP - 1) + 2
    }

    fn largest_volume(device: u64) -> u64 {
        let device_blocks = device.min(MAX_DEVICE_BLOCKS);
        if device_blocks <= FIXED_BLOCKS {
            return 0;
        }
        let fits = |blocks: u64| {
            let areas = Areas { blocks, device_blocks, headers: false };
            areas.pool() >= blocks + least_slack(blocks)
        };
        super::largest(device_blocks, fits)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
    ) -> Result<(Loge, MountReport), LayoutError> {
        recover::mount(disk, superblock, options)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}
