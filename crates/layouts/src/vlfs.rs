//! The drive below VLFS: objects instead of blocks in a row, on one virtual log (section 3.3 of
//! the virtual log paper).
//!
//! A volume is a sparse space of objects ([`address`]). The drive itself keeps their inodes and
//! indirect blocks, so what lies below a file is mapped once and not twice. Every write goes to a
//! free block near the head. What it changes in pointers and in a few bytes is a *patch* in the map
//! block of its slice ([`patch`]), so that a small change is one commit of data and a map block.
//! When patches fill a map block they are spilled into inodes and indirect blocks ([`spill`]).
//!
//! Commits, the tree of map blocks, and when a superseded place may be used again are as in
//! [`vlog`](crate::vlog). A commit holds after a crash if its map blocks are there and every block
//! that they say was written with it.

pub mod address;
mod check;
pub mod checkpoint;
mod commit;
pub mod format;
mod load;
pub mod nodes;
pub mod objects;
pub mod patch;
mod pointers;
pub mod reader;
mod reclaim;
mod recover;
mod refused;
mod spill;
mod walk;
mod write;

use crate::descriptor::Descriptor;
use crate::eager::commit::Commits;
use crate::eager::freemap::FreeMap;
use crate::eager::place::Plan;
use crate::eager::punch::Punching;
use crate::eager::read::Reads;
use crate::eager::writes::Writes;
use crate::punch::NO_PUNCH;
use crate::shared::PAST_UNREADABLE;
use crate::vlog::FILL_PERCENT;
use crate::vlog::place::Placer;
use crate::vlog::tree::Tree;
use crate::witness::Witness;
use address::{SLICE_OBJECTS, WITHIN_BITS};
use checkpoint::Areas;
use checkpoint::taking::Checkpoints;
use format::{Entry, FIXED_BLOCKS};
use load::Loads;
use objects::{Objects, Slice};
use reclaim::Reclaim;
use refused::Sent;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::Piece;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Done, Extent, Io, IoError, Op, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Room, Status, Transactions};
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, RecoverySteps,
};
use seekless_engine::options::{Choice, Options};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{Limits, RequestTable};
use seekless_engine::size::Size;
use seekless_engine::superblock::Superblock;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, Time};
use std::collections::BTreeSet;
use std::fmt;
use write::Install;

/// Option: no change stays a patch. The form of the paper (section 3.3), to compare with: the
/// format is the same.
pub const LITERAL: Choice<bool> = Choice::switch(
    "literal",
    "With each change, write inode and indirect blocks anew in place of patches, to compare",
);

/// Option: at the clean shutdown, no change stays a patch. What `seekless fs compact` asks for.
pub const COMPACT: Choice<bool> = Choice::switch("compact", "Spill all patches at the end");

/// Blocks that a request of more is split into, and most blocks of a transaction: so many, each of
/// them alone, have room in a map block beside what a spill of its slice has written.
pub const BLOCKS_AT_ONCE: u64 = 96;
/// Free blocks that only map blocks and spills may take.
const RESERVE: u64 = 64;
/// Blocks that [`Status::room`] leaves out beside the reserve: the map blocks of a transaction and
/// of what it meets on its way.
const MAP_BLOCKS_KEPT: u64 = 16;
/// Device blocks for each object that a volume may have.
const BLOCKS_OF_OBJECT: u64 = 2;
/// Least pool: the reserve, and as much again to work with.
const LEAST_POOL: u64 = 4 * RESERVE;

/// Kinds of commands below, in the upper half of a tag.
const DATA: Tag = 1 << 32;
const MAP: Tag = 2 << 32;
const FLUSH: Tag = 3 << 32;
const READ: Tag = 4 << 32;
const TAIL: Tag = 5 << 32;
const LOAD: Tag = 6 << 32;
const PUNCH: Tag = 7 << 32;
const CHECKPOINT: Tag = 8 << 32;

/// On a smaller device a mount walks all inodes to find what is free, and no checkpoints are
/// written. Such a walk takes less time than a checkpoint is worth: there are few inodes. No
/// command offers the choice; tests and the prover make it, to have both on small devices.
pub static WALK_BELOW: Choice<u64> = Choice {
    name: "walk-below",
    value: "SIZE",
    help: "Walk all inodes at each mount of a smaller device, instead of keeping checkpoints",
    needs_arm: false,
    default: || (64 << 20) / BLOCK_BYTES as u64,
    parse: |text| text.parse::<Size>().map(Size::blocks).map_err(|error| error.to_string()),
    show: |_| String::new(),
};

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    map_blocks: u64,
    commits: u64,
    spills: u64,
    spilled_blocks: u64,
    loads: u64,
    reclaimed: u64,
}

/// The drive. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Vlfs {
    id: Identity,
    sums: Sums,
    /// Addresses: objects times 2³¹.
    blocks: u64,
    device_blocks: u64,
    /// The device has a head: one batch at a time, placed where the head is.
    headed: bool,
    /// [`LITERAL`].
    literal: bool,
    counters: Counters,

    requests: RequestTable,

    objects: Objects,
    loads: Loads,
    /// Slices that have changed since their last map block.
    dirty: BTreeSet<u32>,
    /// Slices with cuts: a spill frees what they cut.
    cut: BTreeSet<u32>,
    /// With [`COMPACT`], slices that may have patches.
    compacting: Option<BTreeSet<u32>>,
    /// Space is short, and a spill of what is there brought none back.
    spilled_in_vain: bool,
    /// Slices as they were before the batch that is on its way.
    undo: Vec<(u32, Option<Slice>)>,
    /// Blocks that spills have put down, each with its place, until a commit writes them.
    spilled: Vec<(u32, Piece)>,
    /// The same of the commit on its way: a device need not give what is being written.
    spilling: Vec<(u32, Piece)>,
    free: FreeMap,
    punching: Punching,
    placer: Placer,
    plan: Option<Plan>,
    writes: Writes<Install>,
    /// Where the next write begins if it continues the last one.
    sequential_at: BlockNr,

    tree: Tree,
    next_sequence: u64,
    commits: Commits<Entry>,
    sent: Sent,
    /// Number of the last commit with changes.
    last_with_changes: u64,
    witness: Witness,
    reads: Reads<Entry>,
    checkpoints: Checkpoints,
    reclaim: Reclaim,
    /// Blocks have become free by other means than commits: what waits may begin.
    freed: bool,
}

/// Slices of a volume.
fn slices(blocks: u64) -> u32 {
    (blocks >> WITHIN_BITS).div_ceil(u64::from(SLICE_OBJECTS)) as u32
}

impl Vlfs {
    fn empty(superblock: &Superblock, options: &MountOptions<'_>) -> Vlfs {
        let slices = slices(superblock.blocks);
        let areas = Areas::of(superblock);
        let keeps = superblock.device_blocks >= options.options.get(&WALK_BELOW);
        Vlfs {
            id: superblock.identity(),
            sums: superblock.sums,
            blocks: superblock.blocks,
            device_blocks: superblock.device_blocks,
            headed: options.arm.is_some(),
            literal: options.options.get(&LITERAL),
            counters: Counters::default(),
            requests: RequestTable::new(options.read_only),
            objects: Objects::new(superblock.identity(), slices),
            loads: Loads::new(LOAD, superblock.sums),
            dirty: BTreeSet::new(),
            cut: BTreeSet::new(),
            compacting: options.options.get(&COMPACT).then(BTreeSet::new),
            spilled_in_vain: false,
            undo: Vec::new(),
            spilled: Vec::new(),
            spilling: Vec::new(),
            free: FreeMap::new(superblock.device_blocks, options.arm),
            punching: Punching::new(
                areas.end()..superblock.device_blocks - 1,
                None,
                !options.read_only && !options.options.get(&NO_PUNCH),
                PUNCH,
            ),
            placer: Placer::new(options.options.get(&FILL_PERCENT), options.arm),
            plan: None,
            writes: Writes::new(DATA),
            sequential_at: 0,
            tree: Tree::new(slices),
            next_sequence: 1,
            commits: Commits::new(options.volatile, FLUSH),
            sent: Sent::default(),
            last_with_changes: 0,
            witness: Witness::default(),
            reads: Reads::new(READ, superblock.sums),
            checkpoints: Checkpoints::new(areas, keeps, options.read_only),
            reclaim: Reclaim::default(),
            freed: false,
        }
    }

    /// Where map blocks and data lie.
    fn pool(&self) -> std::ops::Range<BlockNr> {
        Areas::new(self.tree.slices(), self.device_blocks).end()..self.device_blocks - 1
    }

    /// A batch that has failed is taken back, so that reads find the old blocks.
    fn take_back(&mut self) {
        for (slice, old) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.objects.restore(slice, old);
        }
    }
}

impl Layer for Vlfs {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        let is_possible = match io.op {
            Op::Read => address::are_blocks(io.at, u64::from(io.count)),
            Op::Write | Op::Trim => address::is_within(io.at, u64::from(io.count)),
            _ => true,
        };
        if !is_possible {
            return cx.fail(io.tag, IoError::OutOfRange { at: io.at, count: io.count });
        }
        let limits = Limits { write: BLOCKS_AT_ONCE, trim: u64::MAX };
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
            CHECKPOINT => self.checkpoint_part_done(done, cx),
            LOAD => self.loads.done(index, done, &mut self.objects.nodes),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.plan = None;
        if self.commits.is_serial() && self.commits.is_running() {
            // Nothing begins before the batch on its way is complete.
            self.punching.rest();
            return;
        }
        // What is being read must stay as it is.
        if self.loads.is_empty() {
            let early = planted(PlantedBug::ReuseUnwitnessed);
            let settled = if early { self.commits.durable() } else { self.commits.noted() };
            self.commits.release(settled, &self.reads, &mut self.free, &mut self.punching);
            self.release_kept();
        }
        if self.requests.is_running() && self.requests.failed().is_none() {
            self.begin_pressed_checkpoint();
        }
        self.dispatch(cx);
        self.advance_commits(cx);
        while std::mem::take(&mut self.freed) {
            self.dispatch(cx);
            self.advance_commits(cx);
        }
        self.advance_witness(cx);
        match self.requests.is_running() && self.requests.failed().is_none() {
            true => {
                self.return_space(cx);
                self.advance_checkpoint(cx);
                self.advance_reclaim(cx);
                self.punching.advance(&self.commits, &mut self.free, cx);
            }
            false => self.punching.rest(),
        }
        if !self.requests.is_running() {
            self.advance_shutdown(cx);
        }
    }

    fn deadline(&self) -> Option<Time> {
        // What waits for a block to be read goes on when it is there.
        let waits = !self.loads.is_empty();
        let due = self.commits.due(&self.requests).filter(|_| !waits).or(self.space_due());
        let due = due.into_iter().chain(self.checkpoint_due()).chain(self.reclaim_due());
        due.chain(self.punching.due()).chain(self.witness.due()).min()
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

impl Transactions for Vlfs {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        if let Some(at) = write::out_of_range(&all) {
            return cx.fail(tag, IoError::OutOfRange { at, count: 1 });
        }
        self.requests.accept_group(tag, all, fua, cx);
    }
}

impl Status for Vlfs {
    fn transaction_blocks(&self) -> u64 {
        BLOCKS_AT_ONCE
    }

    fn takes_patches(&self) -> bool {
        true
    }

    fn patch_bytes(&self) -> u64 {
        write::FRESH_ROOM as u64
    }

    fn room(&self) -> Option<Room> {
        let keeps = self.reserve() + MAP_BLOCKS_KEPT;
        let comes = self.commits.waiting() + self.checkpoints.kept().len() as u64;
        let blocks = (self.free.free() + comes).saturating_sub(keeps);
        let comes_back = self.may_bring_back();
        let pool = self.pool();
        let all = (pool.end - pool.start).saturating_sub(keeps);
        Some(Room { blocks, comes_back, all })
    }

    fn limits(&self) -> seekless_engine::layer::Limits {
        let usual = seekless_engine::layer::Limits::default();
        let whole_blocks = BLOCKS_AT_ONCE as u32;
        seekless_engine::layer::Limits { may_be_full: true, whole_blocks, ..usual }
    }

    fn check(&self) {
        self.requests.check();
        self.commits.check();
    }

    /// By slices: whether something was ever stored in one.
    fn extent(&self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let slice = address::slice_of(address::split(at).0);
        let is_used = |slice: u32| self.objects.slice(slice).is_some();
        let extent = if is_used(slice) { Extent::Data } else { Extent::Hole };
        let mut after = slice + 1..slices(self.blocks);
        let next = after.find(|&other| is_used(other) != is_used(slice));
        let first = |slice: u32| address::address(slice * SLICE_OBJECTS, 0);
        (extent, (next.map_or(self.blocks, first) - at).min(limit))
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, map_blocks, commits, spills, spilled_blocks, .. } =
            self.counters;
        let Counters { loads, reclaimed, .. } = self.counters;
        let data_blocks = self.commits.data_blocks();
        vec![
            ("client_blocks_written", client_blocks as f64),
            ("device_blocks_written", (data_blocks + map_blocks + spilled_blocks) as f64),
            ("data_blocks_written", data_blocks as f64),
            ("map_blocks_written", map_blocks as f64),
            ("commits", commits as f64),
            ("spills", spills as f64),
            ("spilled_blocks_written", spilled_blocks as f64),
            ("blocks_loaded", loads as f64),
            ("patch_bytes", self.objects.patch_bytes() as f64),
            ("free_blocks", self.free.free() as f64),
            ("free_tracks", f64::from(self.free.empty_tracks())),
            ("live_map_blocks", f64::from(self.tree.live())),
            ("refused_blocks", (self.writes.refused() + self.sent.refused) as f64),
            ("kept_map_blocks", self.checkpoints.kept().len() as f64),
            ("checkpoints", self.checkpoints.taken() as f64),
            ("reclaimed_blocks", reclaimed as f64),
        ]
    }
}

/// Blocks beside the pool.
fn fixed_blocks(slices: u32, device: u64) -> u64 {
    FIXED_BLOCKS + 2 * Areas::new(slices, device).blocks()
}

/// What it is to those who choose.
pub const DESCRIPTOR: Descriptor = Descriptor {
    number: 9,
    name: "vlfs",
    summary: "the drive of VLFS: objects on one virtual log, small changes in its map blocks",
    mount_options: &[&FILL_PERCENT, &LITERAL, &PAST_UNREADABLE, &NO_PUNCH],
    ..Descriptor::of::<Vlfs>()
};

impl Layout for Vlfs {
    const MOST_DEVICE_BLOCKS: u64 = crate::vlog::format::MAX_DEVICE_BLOCKS;

    /// The size of a volume is that of its address space: see [`Vlfs::largest_volume`].
    fn device_blocks(logical: u64, _options: &Options) -> u64 {
        let objects = (logical >> WITHIN_BITS).max(1);
        let pool = (objects * BLOCKS_OF_OBJECT).max(LEAST_POOL);
        let around = |device| fixed_blocks(slices(logical), device);
        // The areas of checkpoints take the more, the larger the device.
        let mut device = pool;
        while device < pool + around(device) {
            device = pool + around(device);
        }
        device
    }

    /// As many objects as half of the blocks of the device, in whole slices.
    fn largest_volume(device: u64) -> u64 {
        let device = device.min(Self::MOST_DEVICE_BLOCKS);
        let slices = |pool: u64| (pool / BLOCKS_OF_OBJECT / u64::from(SLICE_OBJECTS)).max(1);
        let pool = device.saturating_sub(fixed_blocks(slices(device) as u32, device));
        let slices = slices(pool);
        if pool < LEAST_POOL { 0 } else { (slices * u64::from(SLICE_OBJECTS)) << WITHIN_BITS }
    }

    fn usual_volume(device: u64) -> u64 {
        Self::largest_volume(device)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Vlfs, LayoutError> {
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
