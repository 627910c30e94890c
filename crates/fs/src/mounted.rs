//! A mounted file system: the call loop that all formats share, over the core.
//!
//! Calls come in, replies go out, requests go to one volume below. The loop runs each call as steps
//! of its format ([`personality::Personality`]), lets it wait for blocks, inodes, space and
//! durability, and does the work of the file system itself: deletions, background steps, the clean
//! unmount.
//!
//! Invariant between calls: each call without a reply is in the queue, or parked and known to what
//! it waits for.

mod ahead;
mod background;
mod flow;
mod later;
pub mod pending;
pub mod personality;
mod rounds;
mod still;
mod stop;

use crate::call::{Call, Ino, Timestamp};
use crate::core::handles::Handles;
use crate::core::waiting::Locks;
use crate::core::{CallKey, Core};
use crate::policy::PolicyKind;
use crate::system::{FileSystem, FsCx};
use pending::{Pending, Work};
use personality::Personality;
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use slab::Slab;
use std::collections::VecDeque;

/// How far an unmount has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Mounted.
    Running,
    /// Calls in flight and deletions of orphans come to their end.
    Draining,
    /// Changes that wait for others are written, and what that frees is freed.
    Ordering,
    /// Headers of groups are stored.
    Storing,
    /// Everything is written.
    Writing,
    /// Everything is durable.
    Written,
    /// The log comes to its end.
    Ending,
    /// The clean mark is written.
    Marking,
    /// The clean mark is flushed.
    Flushing,
    /// The mark is durable, or there is none.
    Stopped,
}

/// Deletions that are put off.
#[derive(Clone, Debug)]
struct Later<M> {
    /// With the time since when each waits.
    waiting: VecDeque<(Time, Pending<M>)>,
    /// Those that no longer wait and have not come to their end.
    running: usize,
    /// Calls for durability that wait for those.
    syncs: Vec<CallKey>,
    /// When the last call came.
    last_call: Time,
}

/// When the steps of background work run.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// A step is under way.
    running: bool,
    /// When the next one is due.
    due: Option<Time>,
}

/// A mounted file system of a format.
#[derive(Clone, Debug)]
pub struct Mounted<P: Personality> {
    core: Core,
    format: P,
    handles: Handles,
    locks: Locks,
    /// Calls that have not run, in order.
    queue: VecDeque<Pending<P::Mark>>,
    /// Calls that wait.
    parked: Slab<Pending<P::Mark>>,
    /// Those of them that wait for space.
    no_room: Vec<CallKey>,
    phase: Phase,
    /// What an unmount waits for.
    waiting: stop::Waiting,
    /// Work of the kind [`Work::Store`] is under way.
    storing: bool,
    /// When the format is to store what it notes late.
    store_at: Option<Time>,
    /// The time of the last call, for work of the file system itself.
    last: Timestamp,
    pace: Pace,
    later: Later<P::Mark>,
    /// Calls that wait for durability.
    awaiting: usize,
    still: still::Still,
}

impl<P: Personality> Mounted<P> {
    /// A file system that is loaded, over a core that has its volume as port 0.
    pub fn new(core: Core, format: P) -> Mounted<P> {
        let (waiting, syncs) = (VecDeque::new(), Vec::new());
        Mounted {
            core,
            format,
            handles: Handles::default(),
            locks: Locks::default(),
            queue: VecDeque::new(),
            parked: Slab::new(),
            no_room: Vec::new(),
            phase: Phase::Running,
            waiting: stop::Waiting::default(),
            storing: false,
            store_at: None,
            last: 0,
            pace: Pace::default(),
            later: Later { waiting, running: 0, syncs, last_call: 0 },
            awaiting: 0,
            still: still::Still::default(),
        }
    }

    /// A copy that shares everything with this one until either changes. Both go on from here: the
    /// same calls and answers bring the same replies and requests. Requests in flight are in flight
    /// for both, so the volume below must be copied at the same moment.
    ///
    /// `clone` is the same through a shared reference, and copies what has changed since the last
    /// fork.
    pub fn fork(&mut self) -> Mounted<P> {
        self.core.share();
        self.format.share();
        self.handles.share();
        self.clone()
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// What the format knows.
    pub fn format(&self) -> &P {
        &self.format
    }

    /// The format with its core, for tests that look below the calls.
    pub fn parts_mut(&mut self) -> (&mut P, &mut Core) {
        (&mut self.format, &mut self.core)
    }

    /// How writes of metadata are ordered.
    pub fn policy(&self) -> PolicyKind {
        self.core.policy.kind()
    }

    /// Calls without a reply, and work of the file system itself.
    pub fn pending(&self) -> usize {
        self.queue.len() + self.parked.len()
    }

    /// Stores what the format notes late when its time has come: that of metadata.
    fn store_late(&mut self, now: Time) {
        if !self.format.is_behind() || self.storing || self.core.is_read_only() {
            self.store_at = None;
            return;
        }
        let at = *self.store_at.get_or_insert(now + self.core.options().metadata_age());
        if at <= now {
            self.store_at = None;
            self.start_storing();
        }
    }

    /// Inodes without a name that a recovery has found: they are deleted.
    pub fn delete_orphans(&mut self, orphans: impl IntoIterator<Item = Ino>) {
        let work = orphans.into_iter().map(|ino| Pending::own(Work::Reap(ino), self.last));
        self.queue.extend(work);
    }

    /// Begins to store what the format notes late.
    pub(crate) fn start_storing(&mut self) {
        self.storing = true;
        self.queue.push_back(Pending::own(Work::Store, self.last));
    }
}

impl<P: Personality> FileSystem for Mounted<P> {
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        self.last = self.last.max(call.now);
        self.later.last_call = cx.now();
        self.take(call, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut FsCx<'_, '_>) {
        self.core.complete(port, done, cx.below);
    }

    fn pump(&mut self, cx: &mut FsCx<'_, '_>) {
        self.core.ask_room(cx.below);
        self.run_ready(cx);
        self.delete_later(cx);
        self.store_late(cx.now());
        self.core.pump(cx.below);
        if self.take_frees() {
            self.run_ready(cx);
        }
        if self.hurry_frees(cx) {
            self.run_ready(cx);
        }
        self.work_in_background(cx);
        if self.go_on_still() {
            self.run_ready(cx);
        }
        self.go_on_stopping(cx);
    }

    fn deadline(&self) -> Option<Time> {
        let all = [self.core.deadline(), self.store_at, self.steps_at(), self.deletes_at()];
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
        let own = [
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
        ];
        let own = own.into_iter().map(|(name, count)| (name, count as f64));
        let log = self.core.policy.log_stats().into_iter();
        let log = log.map(|(name, count)| (name, count as f64));
        own.chain(self.format.stats()).chain(log).collect()
    }

    fn unwritten_bytes(&self) -> u64 {
        (self.core.cache.dirty() * self.core.shape.block_bytes) as u64
    }
}
