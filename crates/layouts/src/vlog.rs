//! The virtual log disk: every write goes to a free block near the head, and the map that says
//! where blocks lie is kept as a log whose records are scattered over the disk just the same.
//!
//! A *commit* is the unit of atomicity: the map blocks of all slices that changed since the last
//! one, written together with, or after, the data they name. Whether a commit holds after a crash
//! is decided by what is on the medium: all its map blocks, and all blocks it names with the right
//! checksums. So data and map need no ordering between them, and one flush makes both durable.
//! Blocks that a commit supersedes become free only when a *later* commit that says "everything up
//! to there was durable" is itself durable: until then a recovery may still fall back on them.
//!
//! On a device that keeps completed writes (a plain mechanical disk) each batch of writes is
//! committed at once, data and map in one sweep of the head, and acknowledged when both are on the
//! medium. On a device with a volatile cache (a file behind the page cache) an acknowledged write
//! need not be durable before the next flush, so map blocks are held back until a flush, a limit
//! or a pause asks for them: [`write`] and [`commit`] have the two ways.

mod check;
mod commit;
mod compact;
pub(crate) mod format;
mod map;
pub mod options;
mod patch;
pub(crate) mod place;
pub(crate) mod recover;
mod refused;
mod reorganise;
pub(crate) mod tree;
mod write;

use crate::descriptor::Descriptor;
use crate::eager::ATOMIC_BLOCKS;
use crate::eager::commit::Commits;
use crate::eager::freemap::FreeMap;
use crate::eager::place::Plan;
use crate::eager::punch::Punching;
use crate::eager::read::Reads;
use crate::eager::writes::Writes;
use crate::punch::NO_PUNCH;
use crate::shared::{MOST_OF_GROUP, PAST_UNREADABLE};
use crate::witness::Witness;
use compact::Compactor;
use format::{Entry, FIXED_BLOCKS, MAX_DEVICE_BLOCKS, POOL_START, SLICE_ENTRIES};
use map::Map;
pub use options::{COMPACTION, Compaction, FILL_PERCENT, NO_REORGANISE};
use place::Placer;
use recover::repair::repair;
pub use recover::salvage;
use refused::Sent;
use reorganise::Reorganiser;
use seekless_engine::arm::Track;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::disk::Disk;
use seekless_engine::io::Extent;
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status, Transactions};
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::Options;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{Limits, RequestTable, Work};
use seekless_engine::superblock::Superblock;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, Time};
use std::fmt;
use tree::{SliceNr, Tree};
use write::Install;

/// Free blocks that only map blocks may take, beyond one for each slice that waits for a commit.
const RESERVE: u64 = 16;
/// Slices of the map of a volume.
fn slices(blocks: u64) -> u64 {
    blocks.div_ceil(SLICE_ENTRIES as u64)
}

/// Free blocks that must remain when every block of the volume is stored.
fn least_slack(blocks: u64) -> u64 {
    64 + blocks / 64
}

/// Kinds of commands below, in the upper half of a tag.
const DATA: Tag = 1 << 32;
const MAP: Tag = 2 << 32;
const FLUSH: Tag = 3 << 32;
const READ: Tag = 4 << 32;
const TAIL: Tag = 5 << 32;
const COMPACT: Tag = 6 << 32;
const PUNCH: Tag = 7 << 32;

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    map_blocks: u64,
    commits: u64,
}

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Vlog {
    id: Identity,
    /// How the checksums of blocks are made.
    sums: Sums,
    blocks: u64,
    device_blocks: u64,
    /// The device has a head: one batch at a time, placed where the head is.
    headed: bool,
    counters: Counters,

    requests: RequestTable,

    map: Map,
    dirty: Vec<SliceNr>,
    dirty_limit: usize,
    atomic_blocks: u64,
    /// Most blocks of a transaction.
    group_blocks: u64,
    free: FreeMap,
    punching: Punching,
    placer: Placer,
    plan: Option<Plan>,
    writes: Writes<Install>,
    /// Slices that what is in flight will make dirty, at most.
    touching: usize,
    /// Where the next write begins if it continues the last one.
    sequential_at: BlockNr,
    compactor: Compactor,
    reorganiser: Reorganiser,
    /// The track that is being emptied: nothing goes there, nor to empty tracks.
    avoid: Option<Track>,

    tree: Tree,
    next_sequence: u64,
    commits: Commits<Entry>,
    sent: Sent,
    /// Number of the last commit with changes.
    last_with_changes: u64,
    witness: Witness,
    reads: Reads<Entry>,
}

impl Vlog {
    fn empty(superblock: &Superblock, options: &MountOptions<'_>) -> Vlog {
        let blocks = superblock.blocks;
        let slices = slices(blocks) as u32;
        let pool = superblock.device_blocks - FIXED_BLOCKS;
        let slack = pool - blocks - u64::from(slices);
        let compaction = match options.volatile || options.read_only {
            true => Compaction::Off,
            false => options.options.get(&COMPACTION).unwrap_or(match options.arm {
                Some(_) => Compaction::LeastUsed,
                None => Compaction::Off,
            }),
        };
        Vlog {
            id: superblock.identity(),
            sums: superblock.sums,
            blocks,
            device_blocks: superblock.device_blocks,
            headed: options.arm.is_some(),
            counters: Counters::default(),
            requests: RequestTable::new(options.read_only),
            map: Map::new(slices),
            dirty: Vec::new(),
            dirty_limit: (slack / 8).clamp(4, 4096) as usize,
            atomic_blocks: (slack / 4).clamp(1, ATOMIC_BLOCKS),
            group_blocks: (slack / 4).clamp(1, MOST_OF_GROUP),
            free: FreeMap::new(superblock.device_blocks, options.arm),
            punching: Punching::new(
                POOL_START..superblock.device_blocks - 1,
                None,
                !options.read_only && !options.options.get(&NO_PUNCH),
                PUNCH,
            ),
            placer: Placer::new(options.options.get(&FILL_PERCENT), options.arm),
            plan: None,
            writes: Writes::new(DATA),
            touching: 0,
            sequential_at: 0,
            compactor: Compactor::new(compaction),
            reorganiser: Reorganiser::new(
                !options.options.get(&NO_REORGANISE) && compaction != Compaction::Off,
            ),
            avoid: None,
            tree: Tree::new(slices),
            next_sequence: 1,
            commits: Commits::new(options.volatile, FLUSH),
            sent: Sent::default(),
            last_with_changes: 0,
            witness: Witness::default(),
            reads: Reads::new(READ, superblock.sums),
        }
    }

    /// Dispatches what waits, in order of arrival.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        if self.commits.is_serial() {
            // Holes are read, and zeros written to them, without the device: go on with the next.
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
        while self.next_has_room() {
            match self.requests.pop() {
                Some(Work::Read { request, at, count }) => self.begin_read(request, at, count, cx),
                Some(Work::Write { request, at, data, .. }) => {
                    self.begin_write(request, at, &data, cx)
                }
                Some(Work::Trim { request, at, count }) => self.trim(request, at, count, cx),
                Some(Work::Group { request, all }) => self.begin_group(request, &all, cx),
                None => {}
            }
        }
    }
}

impl Layer for Vlog {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let limits = Limits {
            write: self.atomic_blocks,
            trim: (self.dirty_limit as u64 / 2).max(1) * SLICE_ENTRIES as u64,
        };
        if let Some(flush) = self.requests.accept(io, limits, cx) {
            self.commits.wait(flush, &mut self.requests, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            READ => self.reads.done(index, done, &mut self.requests, cx),
            DATA => self.data_done(index, done, cx),
            MAP => self.commit_part_done(done, cx),
            FLUSH => self.commits.flush_done(done, &mut self.requests, cx),
            PUNCH => self.punching.done(&done, &mut self.free, cx),
            TAIL => self.requests.shutdown_record_answered(TAIL, done, cx),
            COMPACT if index == 0 => self.compaction_read(done),
            COMPACT => self.reorganiser_read(done),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.plan = None;
        if self.commits.is_serial() && self.commits.is_running() {
            // Nothing begins before the batch on its way is complete.
            self.compactor.rest();
            self.punching.rest();
            return;
        }
        let early = planted(PlantedBug::ReuseUnwitnessed);
        let settled = if early { self.commits.durable() } else { self.commits.noted() };
        self.commits.release(settled, &self.reads, &mut self.free, &mut self.punching);
        self.dispatch(cx);
        self.advance_commits(cx);
        self.advance_compaction(cx);
        self.advance_witness(cx);
        match self.requests.is_running() && self.requests.failed().is_none() {
            true => {
                self.hasten(cx);
                self.punching.advance(&self.commits, &mut self.free, cx);
            }
            false => self.punching.rest(),
        }
        if !self.requests.is_running() {
            self.advance_shutdown(cx);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let due = self.commits.due(&self.requests).or(self.compactor.due());
        due.into_iter().chain(self.punching.due()).chain(self.witness.due()).min()
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

impl Transactions for Vlog {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        self.requests.accept_group(tag, all, fua, cx);
    }
}

impl Status for Vlog {
    fn transaction_blocks(&self) -> u64 {
        self.group_blocks
    }

    fn check(&self) {
        self.requests.check();
        self.commits.check();
    }

    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let (mapped, length) = self.map.extent(at, limit);
        (if mapped { Extent::Data } else { Extent::Hole }, length)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, map_blocks, commits } = self.counters;
        let data_blocks = self.commits.data_blocks();
        vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", (data_blocks + map_blocks) as f64),
            ("data_blocks_written", data_blocks as f64),
            ("map_blocks_written", map_blocks as f64),
            ("commits", commits as f64),
            ("free_blocks", self.free.free() as f64),
            ("free_tracks", f64::from(self.free.empty_tracks())),
            ("live_map_blocks", f64::from(self.tree.live())),
            ("blocks_moved", self.compactor.blocks_moved as f64),
            ("blocks_sorted", self.reorganiser.blocks_sorted as f64),
            ("refused_blocks", (self.writes.refused() + self.sent.refused) as f64),
            ("tracks_emptied", self.compactor.tracks_emptied as f64),
        ]
    }
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 2,
    name: "vlog",
    summary: "virtual log disk: eager writing to free blocks near the head, map kept as a log",
    mount_options: &[&COMPACTION, &FILL_PERCENT, &NO_REORGANISE, &PAST_UNREADABLE, &NO_PUNCH],
    planted_bugs: &PlantedBug::VLOG,
    salvage: |disk, superblock| Ok(Box::new(salvage::open(disk, superblock)?)),
    repair,
    ..Descriptor::of::<Vlog>()
};

impl Layout for Vlog {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// An eighth more than the volume, so that a track is never crowded, and the map.
    fn device_blocks(logical: u64, _options: &Options) -> u64 {
        logical + slices(logical) + (logical / 8).max(1024) + FIXED_BLOCKS
    }

    fn largest_volume(device: u64) -> u64 {
        let device = device.min(MAX_DEVICE_BLOCKS);
        let fits =
            |blocks: u64| blocks + slices(blocks) + least_slack(blocks) + FIXED_BLOCKS <= device;
        crate::sizes::largest(device, fits)
    }

    fn usual_volume(device: u64) -> u64 {
        crate::sizes::with_an_eighth_left::<Self>(device)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Vlog, LayoutError> {
        recover::mount(disk, superblock, options, steps)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}
