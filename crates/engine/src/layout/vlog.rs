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
pub(super) mod columns;
mod commit;
mod compact;
mod crc;
mod format;
pub(super) mod freemap;
mod map;
mod patch;
pub(super) mod place;
mod read;
mod recover;
mod tree;
mod write;

use super::desk::{Desk, Limits, Work};
use super::{
    CheckReport, Compaction, FormatOptions, Layout, LayoutError, MountOptions, MountReport,
};
use crate::arm::Track;
use crate::disk::Disk;
use crate::io::{Done, Io, IoError, Tag};
use crate::layer::{Cx, Extent, Layer, Port};
use crate::superblock::Superblock;
use crate::units::{BlockNr, MILLIS, Time};
use commit::{Commit, History, Stop};
use compact::Compactor;
use format::{Changed, EntriesSum, FIXED_BLOCKS, MAX_DEVICE_BLOCKS, SLICE_ENTRIES};
use freemap::FreeMap;
use map::Map;
use place::{Placer, Plan};
use read::{Part, Reading};
use slab::Slab;
use std::collections::VecDeque;
use std::fmt;
use tree::{SliceNr, Tree};
use write::Piece;

/// Blocks that a request of more is split into; each part is atomic. 1 MiB.
const ATOMIC_BLOCKS: u64 = 256;
/// Free blocks that only map blocks may take, beyond one for each slice that waits for a commit.
const RESERVE: u64 = 16;
/// How long an acknowledged write may wait for its map block on a device with a volatile cache.
const COMMIT_DELAY: Time = 200 * MILLIS;
/// Blocks of data written since the last durable commit beyond which a flush is asked for, and half
/// of them since the last commit beyond which one is begun: bounds what a recovery has to verify.
const UNVERIFIED_LIMIT: u64 = 16 * 1024;

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

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    client_blocks: u64,
    data_blocks: u64,
    map_blocks: u64,
    commits: u64,
}

/// The layout. Its fields are grouped by the file that works on them.
#[derive(Clone, Debug)]
pub struct Vlog {
    id: u128,
    blocks: u64,
    device_blocks: u64,
    /// The device may lose completed writes until it is flushed.
    volatile: bool,
    /// The device has a head: one batch at a time, placed where the head is.
    headed: bool,
    counters: Counters,

    desk: Desk,

    map: Map,
    changed: Vec<Changed>,
    sums: Vec<EntriesSum>,
    dirty: Vec<SliceNr>,
    dirty_since: Option<Time>,
    dirty_limit: usize,
    atomic_blocks: u64,
    free: FreeMap,
    placer: Placer,
    plan: Option<Plan>,
    pieces: Slab<Piece>,
    /// Where the next write begins if it continues the last one.
    sequential_at: BlockNr,
    starving: bool,
    compactor: Compactor,
    /// The track that is being emptied: nothing goes there, nor to empty tracks.
    avoid: Option<Track>,

    tree: Tree,
    next_sequence: u64,
    commit: Option<Commit>,
    history: History,
    flush: Option<u64>,
    /// Data blocks written when a commit last became durable, and when one was last begun.
    verified_at: u64,
    committed_at: u64,
    stop: Stop,

    reads: Slab<Reading>,
    parts: Slab<Part>,
    /// Reads in flight by the commit that was open when they began.
    read_epochs: VecDeque<(u64, u32)>,
}

impl Vlog {
    fn empty(superblock: &Superblock, options: &MountOptions<'_>) -> Vlog {
        let blocks = superblock.blocks;
        let slices = slices(blocks) as u32;
        let pool = superblock.device_blocks - FIXED_BLOCKS;
        let slack = pool - blocks - u64::from(slices);
        let compaction = match options.volatile || options.read_only {
            true => Compaction::Off,
            false => options.tuning.compaction.unwrap_or(match options.arm {
                Some(_) => Compaction::LeastUsed,
                None => Compaction::Off,
            }),
        };
        Vlog {
            id: superblock.id,
            blocks,
            device_blocks: superblock.device_blocks,
            volatile: options.volatile,
            headed: options.arm.is_some(),
            counters: Counters::default(),
            desk: Desk::new(options.read_only),
            map: Map::new(slices),
            changed: vec![Changed::default(); slices as usize],
            sums: vec![EntriesSum::default(); slices as usize],
            dirty: Vec::new(),
            dirty_since: None,
            dirty_limit: (slack / 8).clamp(4, 4096) as usize,
            atomic_blocks: (slack / 4).clamp(1, ATOMIC_BLOCKS),
            free: FreeMap::new(superblock.device_blocks, options.arm),
            placer: Placer::new(options.tuning.fill_percent, options.arm),
            plan: None,
            pieces: Slab::new(),
            sequential_at: 0,
            starving: false,
            compactor: Compactor::new(compaction),
            avoid: None,
            tree: Tree::new(slices),
            next_sequence: 1,
            commit: None,
            history: History::default(),
            flush: None,
            verified_at: 0,
            committed_at: 0,
            stop: Stop::default(),
            reads: Slab::new(),
            parts: Slab::new(),
            read_epochs: VecDeque::new(),
        }
    }

    /// True if batches go one by one, each committed at once.
    fn is_serial(&self) -> bool {
        !self.volatile
    }

    /// Dispatches what waits, in order of arrival.
    fn dispatch(&mut self, cx: &mut Cx<'_>) {
        if self.is_serial() {
            // Holes are read, and zeros written to them, without the device: go on with the next.
            let mut before = usize::MAX;
            while self.commit.is_none() && self.reads.is_empty() && self.desk.queued() < before {
                before = self.desk.queued();
                self.begin_batch(cx);
            }
            return;
        }
        while self.next_has_room() {
            match self.desk.pop() {
                Some(Work::Read { request, at, count }) => self.begin_read(request, at, count, cx),
                Some(Work::Write { request, at, data }) => self.begin_write(request, at, &data, cx),
                Some(Work::Trim { request, at, count }) => self.trim(request, at, count, cx),
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
        if let Some(flush) = self.desk.accept(io, limits, cx) {
            self.wait_durable(flush, cx);
        }
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        let index = (done.tag & 0xffff_ffff) as usize;
        match done.tag & !0xffff_ffff {
            READ => self.read_done(index, done, cx),
            DATA => self.data_done(index, done, cx),
            MAP => self.commit_part_done(done, cx),
            FLUSH => self.flush_done(done, cx),
            TAIL => self.tail_done(done, cx),
            COMPACT => self.compaction_read(done),
            _ => panic!("answer to the unknown command {:#x}", done.tag),
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.plan = None;
        self.release_superseded();
        self.dispatch(cx);
        self.advance_commits(cx);
        self.advance_compaction(cx);
        self.advance_stop(cx);
    }

    fn deadline(&self) -> Option<Time> {
        let waiting = self.desk.latched().is_none() && self.commit.is_none() && self.volatile;
        let commit = self.dirty_since.filter(|_| waiting).map(|since| since + COMMIT_DELAY);
        commit.or(self.compactor.due())
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
        let (mapped, length) = self.map.extent(at, limit);
        (if mapped { Extent::Data } else { Extent::Hole }, length)
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let Counters { client_blocks, data_blocks, map_blocks, commits } = self.counters;
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
            ("tracks_emptied", self.compactor.tracks_emptied as f64),
        ]
    }

    fn fork(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

impl Layout for Vlog {
    const MOST_DEVICE_BLOCKS: u64 = MAX_DEVICE_BLOCKS;

    /// An eighth more than the volume, so that a track is never crowded, and the map.
    fn device_blocks(logical: u64) -> u64 {
        logical + slices(logical) + (logical / 8).max(1024) + FIXED_BLOCKS
    }

    fn largest_volume(device: u64) -> u64 {
        let device = device.min(MAX_DEVICE_BLOCKS);
        let fits =
            |blocks: u64| blocks + slices(blocks) + least_slack(blocks) + FIXED_BLOCKS <= device;
        super::largest(device, fits)
    }

    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError> {
        recover::format(disk, options)
    }

    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
    ) -> Result<(Vlog, MountReport), LayoutError> {
        recover::mount(disk, superblock, options)
    }

    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
        check::check(self, disk)
    }

    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError> {
        check::dump(self, disk, out)
    }
}
