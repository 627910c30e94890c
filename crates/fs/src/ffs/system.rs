//! FFS as a [`FileSystem`]: calls in, replies out, requests to one volume below.

use crate::call::{Call, Timestamp};
use crate::core::handles::Handles;
use crate::core::waiting::Locks;
use crate::core::{CallKey, Core};
use crate::ffs::flow::{Pending, Work};
use crate::ffs::format::Superblock;
use crate::ffs::later::Later;
use crate::ffs::reclaim::idle::Pace;
use crate::ffs::stop::Phase;
use crate::ffs::volume::Volume;
use crate::system::{FileSystem, FsCx};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::{SECONDS, Time};
use slab::Slab;
use std::collections::VecDeque;

/// Headers of groups are brought up to date so long after the first change.
const STORE_AGE: Time = 28 * SECONDS;

/// A mounted FFS.
#[derive(Clone, Debug)]
pub struct Ffs {
    pub(crate) core: Core,
    pub(crate) volume: Volume,
    pub(crate) superblock: Superblock,
    /// Write counter of the superblock.
    pub(crate) counter: u16,
    pub(crate) handles: Handles,
    pub(crate) locks: Locks,
    /// Calls that have not run, in order.
    pub(crate) queue: VecDeque<Pending>,
    /// Calls that wait.
    pub(crate) parked: Slab<Pending>,
    /// Those of them that wait for space.
    pub(crate) no_room: Vec<CallKey>,
    pub(crate) phase: Phase,
    /// Work of the kind [`Work::Store`] is under way.
    pub(crate) storing: bool,
    /// When headers are to be stored.
    store_at: Option<Time>,
    /// The time of the last call, for work of the file system itself.
    pub(crate) last: Timestamp,
    /// A crash before this mount may have left space in use that nothing leads to.
    pub(crate) leaks: bool,
    /// When the steps run that find what has leaked.
    pub(crate) pace: Pace,
    /// Deletions that are put off.
    pub(crate) later: Later,
    /// Calls that wait for durability.
    pub(crate) awaiting: usize,
}

impl Ffs {
    /// A file system of which all groups are loaded.
    pub(crate) fn new(core: Core, volume: Volume, superblock: Superblock, counter: u16) -> Ffs {
        Ffs {
            core,
            volume,
            superblock,
            counter,
            handles: Handles::default(),
            locks: Locks::default(),
            queue: VecDeque::new(),
            parked: Slab::new(),
            no_room: Vec::new(),
            phase: Phase::Running,
            storing: false,
            store_at: None,
            last: 0,
            leaks: false,
            pace: Pace::default(),
            later: Later::default(),
            awaiting: 0,
        }
    }

    /// A copy that shares everything with this one until either changes. Both go on from here: the
    /// same calls and answers bring the same replies and requests. Requests in flight are in flight
    /// for both, so the volume below must be copied at the same moment.
    ///
    /// `clone` is the same through a shared reference, and copies what has changed since the last
    /// fork.
    pub fn fork(&mut self) -> Ffs {
        self.core.share();
        self.volume.share();
        self.handles.share();
        self.clone()
    }

    /// The superblock, as the mount has it.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Groups in which nothing is allocated because their maps are damaged.
    pub fn closed_groups(&self) -> Vec<u32> {
        self.volume.closed().iter().copied().collect()
    }

    /// True if a crash before the mount may have left space in use that nothing leads to. A reclaim
    /// is under way that frees it, unless the file system cannot be written or has damage; then a
    /// check does.
    pub fn may_leak(&self) -> bool {
        self.leaks
    }

    /// Calls without a reply, and work of the file system itself.
    pub fn pending(&self) -> usize {
        self.queue.len() + self.parked.len()
    }

    /// Stores the headers of groups when their time has come.
    fn store_headers(&mut self, now: Time) {
        if self.volume.stale_group().is_none() || self.storing || self.core.is_read_only() {
            self.store_at = None;
            return;
        }
        let at = *self.store_at.get_or_insert(now + STORE_AGE);
        if at <= now {
            self.store_at = None;
            self.start_storing();
        }
    }

    /// Begins to store the headers of groups.
    pub(crate) fn start_storing(&mut self) {
        self.storing = true;
        self.queue.push_back(Pending::own(Work::Store, self.last));
    }
}

impl FileSystem for Ffs {
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        self.last = self.last.max(call.now);
        self.later.call_came(cx.now());
        self.take(call, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut FsCx<'_, '_>) {
        self.core.complete(port, done, cx.below);
    }

    fn pump(&mut self, cx: &mut FsCx<'_, '_>) {
        self.run_ready(cx);
        self.delete_later(cx);
        self.store_headers(cx.now());
        self.core.pump(cx.below);
        if self.take_frees() {
            self.run_ready(cx);
        }
        self.hurry_frees(cx);
        self.reclaim(cx);
        self.go_on_stopping(cx);
    }

    fn deadline(&self) -> Option<Time> {
        let all = [self.core.deadline(), self.store_at, self.reclaims_at(), self.deletes_at()];
        all.into_iter().flatten().min()
    }

    fn stop(&mut self, cx: &mut FsCx<'_, '_>) {
        self.begin_stopping(cx);
    }

    fn stopped(&self) -> bool {
        self.phase == Phase::Stopped
    }

    fn failed(&self) -> Option<IoError> {
        self.core.failed()
    }

    fn failure(&self) -> Option<String> {
        self.core.failure().map(ToString::to_string)
    }

    fn requests(&self) -> u64 {
        let stats = self.core.stats();
        stats.reads + stats.writes + stats.flushes
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        let stats = self.core.stats();
        [
            ("operations", stats.committed),
            ("operations undone", stats.undone),
            ("reads", stats.reads),
            ("metadata reads", stats.metadata_reads),
            ("blocks read", stats.blocks_read),
            ("blocks read ahead", stats.read_ahead),
            ("hidden reads", stats.hidden_reads),
            ("writes", stats.writes),
            ("metadata writes", stats.metadata_writes),
            ("blocks written", stats.blocks_written),
            ("metadata blocks written", stats.metadata_blocks_written),
            ("sectors written", stats.sectors_written),
            ("flushes", stats.flushes),
            ("images rolled back", stats.rolled_back),
            ("guards and facts", self.core.policy.load() as u64),
            ("most guards and facts", stats.most_guards),
            ("buffers evicted", stats.evicted),
            ("free fragments", self.volume.free_fragments()),
        ]
        .map(|(name, count)| (name, count as f64))
        .to_vec()
    }
}
