//! Loge: every write goes to a free block near the head, and a *label* beside each block says what
//! it holds: which logical block, written when, by which transaction. There is no map on disk; a
//! recovery reads all labels, and of several versions of a block the youngest counts. (English and
//! Stepanov, "Loge: a self-organizing disk controller", USENIX Winter 1992.)
//!
//! A request is a *transaction* of one time stamp; each of its labels says which of how many
//! blocks it is, so a recovery can tell a transaction that is there as a whole from one that is
//! not, and drops the latter. A label counts if the block has the content of its checksum: data and
//! labels need no order between them, and one flush makes both durable. A place is used again
//! only when the version that superseded it is durable. Several requests can be one transaction,
//! see [`group`].
//!
//! On a device with sector headers (the simulated disk) a label lands with its block. On others,
//! labels lie in label blocks, one for each group of 128 blocks, and wait for a flush, a limit or
//! a pause where the device has a volatile cache. What was forgotten (trimmed, or overwritten with
//! zeros) has a tombstone at a fixed place, the *trim map*: older versions of a block may be found
//! for years. [`write`] and [`commit`] have the details, `SPEC.md` the bytes.

mod bands;
mod check;
mod commit;
mod compact;
mod descriptor;
mod exceptions;
mod form;
mod format;
mod group;
mod home;
mod homes;
mod idle;
pub mod options;
mod parity;
mod place;
mod recover;
mod relocation;
mod route;
mod sort;
mod sparse;
mod table;
mod write;

pub use form::TableForm;
pub use place::{Heuristic, Order};
pub use sparse::sparse_device_blocks;

use crate::descriptor::Descriptor;
use crate::eager::ATOMIC_BLOCKS;
use crate::eager::commit::Commits;
use crate::eager::freemap::FreeMap;
use crate::eager::place::Plan;
use crate::eager::punch::Punching;
use crate::eager::read::Reads;
use crate::eager::writes::Writes;
use crate::punch::NO_PUNCH;
use crate::witness::Witness;
use format::{Areas, FIXED_BLOCKS, GROUP, MAX_DEVICE_BLOCKS, MAX_MEMBERS, TRIM_SLICE};
use group::Descriptors;
use idle::Idle;
use place::Placer;
use relocation::Relocation;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::disk::Disk;
use seekless_engine::io::Extent;
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::{Cx, Layer, Limits as LayerLimits, Port, Status, Transactions};
use seekless_engine::layout::Promises;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::PlantedBug;
use seekless_engine::request_table::{Limits, RequestTable, Work};
use seekless_engine::superblock::Superblock;
use seekless_engine::transaction::Transaction as Group;
use seekless_engine::units::{BlockNr, Time};
use sort::Sorter;
use std::collections::BTreeSet;
use std::fmt;
use table::{Entry, LabelArea, Table, TrimMap};
use write::Transaction;

/// Most blocks of a part of a trim.
const TRIM_BLOCKS: u64 = MAX_MEMBERS;
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
const SORT: Tag = 6 << 32;
const HOVER: Tag = 7 << 32;
const FETCH: Tag = 8 << 32;
const RETURN: Tag = 9 << 32;
const PUNCH: Tag = 10 << 32;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    label_blocks: u64,
    trim_blocks: u64,
    commits: u64,
}

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Loge {
    id: Identity,
    /// How the checksums of blocks are made.
    sums: Sums,
    areas: Areas,
    /// The device has a head: one batch at a time, placed where the head is.
    headed: bool,
    counters: Counters,

    requests: RequestTable,

    table: Table,
    /// On a device without sector headers.
    labels: Option<LabelArea>,
    trims: TrimMap,
    free: FreeMap,
    punching: Punching,
    placer: Placer,
    plan: Option<Plan>,
    writes: Writes<Transaction>,
    next_stamp: u64,
    /// Transactions whose data is on its way to the device.
    in_flight: BTreeSet<u64>,
    /// Blocks that it can store, and free blocks that are left then.
    capacity: u64,
    slack: u64,
    /// Blocks that it stores.
    stored: u64,
    atomic_blocks: u64,
    /// Made by a program that knows transactions of several requests.
    takes_groups: bool,
    descriptors: Descriptors,
    /// Where the next write begins if it continues the last one.
    sequential_at: BlockNr,

    commits: Commits<Entry>,
    /// Number of the last commit that wrote tombstones.
    last_with_trims: u64,
    /// Number of the last record on the device.
    record: u64,
    /// It says that the volume is at rest.
    at_rest: bool,
    witness: Witness,
    /// Blocks of labels and of the trim map that the mount has made whole.
    mended: BTreeSet<BlockNr>,
    reads: Reads<Entry>,

    idle: Idle,
    sorter: Sorter,
    relocation: Relocation,
}

impl Loge {
    fn empty(superblock: &Superblock, areas: Areas, options: &MountOptions<'_>) -> Loge {
        let capacity = sparse::capacity(superblock, &areas);
        let slack = areas.pool().saturating_sub(capacity);
        let heuristic = Heuristic::decode(superblock.options >> 8);
        Loge {
            id: superblock.identity(),
            sums: superblock.sums,
            areas,
            headed: options.arm.is_some(),
            counters: Counters::default(),
            requests: RequestTable::new(options.read_only),
            table: Table::new(areas.blocks),
            labels: (!areas.headers).then(|| LabelArea::new(areas)),
            trims: TrimMap::new(superblock.identity(), &areas),
            free: FreeMap::new(areas.device_blocks, options.arm),
            punching: Punching::new(
                areas.start()..areas.end(),
                (!areas.headers).then_some(GROUP as u32),
                !options.read_only && !areas.headers && !options.options.get(&NO_PUNCH),
                PUNCH,
            ),
            placer: Placer::new(heuristic),
            plan: None,
            writes: Writes::new(DATA),
            next_stamp: 1,
            in_flight: BTreeSet::new(),
            capacity,
            slack,
            stored: 0,
            takes_groups: superblock.options & recover::GROUPS != 0,
            descriptors: Descriptors::default(),
            atomic_blocks: (slack / 4).clamp(1, ATOMIC_BLOCKS),
            sequential_at: 0,
            commits: Commits::new(options.volatile, FLUSH),
            last_with_trims: 0,
            record: 0,
            at_rest: false,
            witness: Witness::default(),
            mended: BTreeSet::new(),
            reads: Reads::new(READ, superblock.sums),
            idle: Idle::new(options.options.get(&self::options::ANTICIPATE)),
            sorter: Sorter::new(
                options.options.get(&self::options::SORT),
                options.options.get(&self::options::CLUSTERS),
            ),
            relocation: Relocation::default(),
        }
    }

    /// Dispatches what waits, in order of arrival.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        if self.commits.is_serial() {
            // Holes are read, and forgotten anew, without the device: go on with the next.
            let mut before = usize::MAX;
            while !self.commits.is_running()
                && self.reads.is_empty()
                && self.requests.queued() < before
            {
                before = self.requests.queued();
                self.begin_batch(cx);
            }
            return;
        }
        loop {
            self.refuse_what_exceeds(cx);
            if !self.next_may_begin() {
                break;
            }
            match self.requests.pop() {
                Some(Work::Read { request, at, count }) => self.begin_read(request, at, count, cx),
                Some(Work::Write { request, at, data, keep }) => {
                    self.begin_write(request, at, (&data, keep), cx);
                }
                Some(Work::Trim { request, at, count }) => self.trim(request, at, count, cx),
                Some(Work::Group { request, all }) => self.begin_group(request, &all, cx),
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
        if let Some(flush) = self.requests.accept(io, limits, cx) {
            self.commits.wait(flush, &mut self.requests, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            READ => self.reads.done(index, done, &mut self.requests, cx),
            DATA => self.data_done(index, done, cx),
            META => self.commit_part_done(done, cx),
            FLUSH => self.commits.flush_done(done, &mut self.requests, cx),
            RECORD => self.requests.shutdown_record_answered(RECORD, done, cx),
            PUNCH => self.punching.done(&done, &mut self.free, cx),
            SORT => self.sorter_read(done),
            HOVER => self.idle.moved(),
            FETCH => self.fetched(index, done),
            RETURN => self.returned(done, cx),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.plan = None;
        if !self.requests.is_idle() {
            self.abandon_sorting();
        }
        let durable = self.commits.durable();
        self.commits.release(durable, &self.reads, &mut self.free, &mut self.punching);
        self.dispatch(cx);
        self.advance_commits(cx);
        if self.advance_relocation(cx) {
            // Nothing can be brought home: what waits for it goes on.
            self.dispatch(cx);
            self.advance_commits(cx);
        }
        match self.requests.is_running() && self.requests.failed().is_none() {
            true => {
                let hastens = self.punching.hastens(&self.commits, cx);
                if hastens && !self.commits.is_durable() {
                    self.commits.begin_flush(cx);
                }
                self.punching.advance(&self.commits, &mut self.free, cx);
            }
            false => self.punching.rest(),
        }
        self.advance_witness(cx);
        self.advance_shutdown(cx);
        self.advance_idle(cx);
    }

    fn deadline(&self) -> Option<Time> {
        // What waits for a flush goes on when that is answered.
        let flushing = self.commits.is_flushing() && !self.may_commit();
        let commit = self.commits.due(&self.requests).filter(|_| !flushing);
        let idle = self.idle.due().into_iter().chain(self.witness.due());
        let others = idle.chain(self.relocation.due());
        commit.into_iter().chain(others).chain(self.punching.due()).min()
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

impl Transactions for Loge {
    fn submit(&mut self, tag: Tag, all: Group, fua: bool, cx: &mut Cx<'_>) {
        self.requests.accept_group(tag, all, fua, cx);
    }
}

impl Status for Loge {
    fn transaction_blocks(&self) -> u64 {
        if self.takes_groups { self.most_of_group() } else { 0 }
    }

    fn check(&self) {
        self.requests.check();
        self.commits.check();
    }

    fn limits(&self) -> LayerLimits {
        LayerLimits { may_be_full: self.capacity < self.areas.blocks, ..LayerLimits::default() }
    }

    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let (mapped, length) = self.table.extent(at, limit);
        (if mapped { Extent::Data } else { Extent::Hole }, length)
    }

    fn free_profile(&self, parts: usize) -> Vec<f64> {
        let tracks = self.free.tracks() as usize;
        let mut free = vec![(0, 0); parts];
        for track in 0..tracks {
            let (free, slots) = &mut free[track * parts / tracks];
            *free += self.free.free_on(track as u32);
            *slots += self.free.slots(track as u32);
        }
        free.into_iter().map(|(free, slots)| f64::from(free) / f64::from(slots.max(1))).collect()
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, label_blocks, trim_blocks, commits } = self.counters;
        let data_blocks = self.commits.data_blocks();
        let written = data_blocks + label_blocks + trim_blocks;
        let mut stats = vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", written as f64),
            ("data_blocks_written", data_blocks as f64),
            ("label_blocks_written", label_blocks as f64),
            ("trim_blocks_written", trim_blocks as f64),
            ("commits", commits as f64),
            ("free_blocks", (self.free.free() + self.free.free_by_name()) as f64),
            ("stored_blocks", self.stored as f64),
            ("capacity_blocks", self.capacity as f64),
            ("refused_blocks", self.writes.refused() as f64),
            ("descriptors", self.descriptors.len() as f64),
            ("blocks_sorted", self.sorter.blocks_sorted as f64),
            ("clusters_sorted", self.sorter.clusters as f64),
            ("seeks_ahead", self.idle.seeks as f64),
        ];
        stats.extend(self.table_stats());
        stats
    }
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 3,
    name: "loge",
    summary: "Loge: eager writing, a label beside each block says what it holds",
    promises: Promises {
        atomic: true,
        ordered: false,
        checked: true,
        immediate: true,
        elsewhere: true,
    },
    format_options: &[&self::options::HEURISTIC, &self::options::TABLE, &self::options::SPARSE],
    mount_options: &[
        &self::options::SORT,
        &self::options::CLUSTERS,
        &self::options::ANTICIPATE,
        &NO_PUNCH,
    ],
    device_flags: &["headers", "no-headers"],
    planted_bugs: &PlantedBug::LOGE,
    salvage: |disk, superblock| Ok(Box::new(recover::salvage::open(disk, superblock)?)),
    repair: recover::repair::repair,
    ..Descriptor::of::<Loge>()
};

impl Layout for Loge {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// An eighth more than the volume, and what labels and the trim map take.
    fn device_blocks(logical: u64, options: &Options) -> u64 {
        if let Some(addresses) = options.get(&self::options::SPARSE) {
            return sparse::sparse_device_blocks(logical, addresses);
        }
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
        crate::sizes::largest(device_blocks, fits)
    }

    fn usual_volume(device: u64) -> u64 {
        crate::sizes::with_an_eighth_left::<Self>(device)
    }

    fn accepts(superblock: &Superblock) -> bool {
        let most = match sparse::is_sparse(superblock) {
            true => sparse::most_addresses(superblock),
            false => Loge::largest_volume(superblock.device_blocks),
        };
        superblock.blocks <= most
    }

    fn check_size(name: &str, device: u64, options: &FormatOptions) -> Result<(), LayoutError> {
        if let Some(addresses) = options.options.get(&self::options::SPARSE) {
            return sparse::check_sparse(device, options.blocks, addresses);
        }
        seekless_engine::layout::check_size::<Loge>(name, device, options)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Loge, LayoutError> {
        recover::mount(disk, superblock, options, steps)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}
