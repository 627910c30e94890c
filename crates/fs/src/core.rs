//! The core that file systems share: cached blocks, transactions with undo, and their I/O.
//!
//! An operation runs over a [`tx::CoreTx`] from start to end. Blocks that it misses are read
//! ([`input`]); blocks that it changed are written later ([`output`], [`syncer`]); [`settle`] says
//! when a call that asked for durability may be answered. Calls are known by a [`CallKey`]; the
//! file system owns them and takes the keys of those that can run from [`Core::take_ready`].
//!
//! Invariant between calls: no transaction is open, each dirty sector is valid, and each buffer has
//! at most one write in flight.

pub mod cache;
pub mod failure;
pub mod handles;
pub mod input;
pub mod logged;
pub mod nvram;
pub mod output;
pub mod owned;
pub mod page;
pub mod settle;
pub mod syncer;
pub mod transactions;
pub(crate) mod trim;
pub mod tx;
pub mod waiting;

pub use crate::seal::Seals;

use crate::policy::Policy;
use crate::policy::guard::Manifest;
use crate::tx::BlockNo;
use cache::Cache;
use failure::{Failure, Lost};
use input::Input;
use output::Output;
use page::Shape;
use seekless_engine::client::{Below, Slots};
use seekless_engine::io::{Done, Io, IoError, Purpose};
use seekless_engine::layer::{Port, Room};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, MILLIS, SECONDS, Time};
use settle::Barriers;
use std::ops::RangeInclusive;
use std::sync::Arc;
use syncer::Wheel;
use waiting::Ready;

/// Names a call of the file system inside the core.
pub type CallKey = usize;

/// What the write of a part of a block covers, on volumes that take parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteUnit {
    /// Whole fragments of data and directories, and whole blocks of 4096 bytes of other metadata.
    #[default]
    Fragments,
    /// The sectors that have changed.
    Dirty,
}

/// Options of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreOptions {
    /// Bytes of cached blocks at most, apart from those that calls in flight pin.
    pub cache_bytes: u64,
    /// Writes in flight at most.
    pub writes: usize,
    /// Refuses changes.
    pub read_only: bool,
    /// Bytes of one write at most.
    pub cluster_bytes: u32,
    /// What a write covers, on volumes that take parts of blocks.
    pub write_unit: WriteUnit,
    /// Bytes that are read ahead at most; 0 turns it off.
    pub read_ahead_bytes: u32,
    /// When writes count as ordered before later ones.
    pub ordering: Ordering,
    /// Guards, facts and deferred actions that a policy keeps at most, before calls wait; an eighth
    /// of the cache if it is not given.
    pub most_guards: Option<usize>,
    /// Time between two steps of background work.
    pub idle_step: Time,
    /// Seconds from the first change of a file's content to its write, of [`WRITE_AGES_S`].
    /// Directories go a second earlier and other metadata two, so that a file finds its name on the
    /// disk.
    pub write_age_s: u64,
    /// Soft updates write the content of a file before what leads there. Only measurements of what
    /// that costs do without it: a crash may then show what a block held before.
    pub data_order: bool,
    /// The cache survives a power cut.
    pub nvram: Option<nvram::Nvram>,
}

/// Seconds that a change may wait for its write: [`CoreOptions::write_age_s`].
pub const WRITE_AGES_S: RangeInclusive<u64> = 3..=3600;

/// Bytes of a guard or a fact with what it keeps: a guard of an inode takes the most.
const GUARD_BYTES: u64 = 256;
/// Guards and facts that are allowed in the smallest cache.
const LEAST_GUARDS: u64 = 512;

impl CoreOptions {
    /// Guards, facts and deferred actions that a policy keeps at most, before calls wait.
    pub fn guards(&self) -> usize {
        let eighth = (self.cache_bytes / 8 / GUARD_BYTES).max(LEAST_GUARDS);
        self.most_guards.unwrap_or(usize::try_from(eighth).unwrap_or(usize::MAX))
    }

    /// Time from the first change of metadata to its write.
    pub fn metadata_age(&self) -> Time {
        (self.write_age_s - 2) * SECONDS
    }
}

/// When a write is ordered before all later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// When a flush that was sent after its completion has completed: any volume.
    #[default]
    Flush,
    /// When it has completed: volumes that keep completed writes, or that keep a prefix of them.
    Completion,
    /// When it has completed, and then it counts as durable, too: no flush is sent. So did the
    /// kernels of 1999. On a volume that reports a write before it is durable, a power cut breaks
    /// every promise of the policy.
    Trusted,
}

impl Default for CoreOptions {
    fn default() -> CoreOptions {
        CoreOptions {
            cache_bytes: 64 << 20,
            writes: 32,
            read_only: false,
            cluster_bytes: 64 << 10,
            write_unit: WriteUnit::default(),
            read_ahead_bytes: 128 << 10,
            ordering: Ordering::default(),
            most_guards: None,
            idle_step: 10 * MILLIS,
            write_age_s: 30,
            data_order: true,
            nvram: None,
        }
    }
}

/// What a request to the volume is for.
#[derive(Clone, Debug)]
pub(crate) enum Sent {
    /// Fills `count` blocks from `first` on.
    Fill { first: BlockNo, count: u32 },
    /// Fills 4096 bytes of a block: a read of more has failed.
    Piece { block: BlockNo, index: usize },
    /// Writes these blocks, and brings what hangs on them.
    Write { blocks: Vec<BlockNo>, manifest: Manifest },
    /// Makes the writes durable that completed before.
    Flush,
    /// Writes bytes that no buffer holds: a superblock.
    Raw,
    /// Gives space back, for a call.
    Trim(CallKey),
    /// Writes sectors of the log, from this number on.
    Log(u64),
    /// Writes a superblock of the log.
    LogSuperblock,
    /// Writes blocks in one transaction of the volume, which has this number for the policy.
    Transaction { number: u64, blocks: Vec<BlockNo>, manifest: Manifest },
}

/// Cache, transactions and I/O of one file system over one volume. Clones share the buffers until
/// they change.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) shape: Shape,
    pub(crate) options: CoreOptions,
    pub(crate) seals: Arc<dyn Seals>,
    pub(crate) cache: Cache,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) wheel: Wheel,
    pub(crate) logged: logged::Logged,
    pub(crate) barriers: Barriers,
    pub(crate) leaving: nvram::Leaving,
    pub(crate) owned: owned::Owned,
    pub(crate) ready: Ready,
    pub(crate) policy: Box<dyn Policy>,
    /// [`CoreOptions::guards`].
    pub(crate) most_guards: usize,
    pub(crate) sent: Slots<Sent>,
    /// Writes of [`Core::write_raw`] in flight.
    raw: usize,
    trims: trim::Trims,
    /// What the volume last said of its space.
    pub(crate) room: Option<Room>,
    /// What calls that wait for space were last told of it: blocks, and whether there may be more.
    told_room: Option<(u64, bool)>,
    failed: Option<Failure>,
    pub(crate) scratch: tx::Scratch,
    pub(crate) stats: Stats,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Runs of operations that stopped and were undone.
    pub undone: u64,
    /// Runs that succeeded.
    pub committed: u64,
    /// Read requests, and blocks of the file system they brought.
    pub reads: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Of the read requests, those for metadata.
    pub metadata_reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Of them, those of metadata.
    pub metadata_writes: u64,
    /// Blocks of 4096 bytes of metadata written.
    pub metadata_blocks_written: u64,
    /// Blocks of 4096 bytes written, wholly or in part.
    pub blocks_written: u64,
    /// Sectors of 512 bytes written.
    pub sectors_written: u64,
    /// Blocks that had to be read because a fragment smaller than 4096 bytes was written.
    pub hidden_reads: u64,
    /// Flushes.
    pub flushes: u64,
    /// Write requests to the log.
    pub log_writes: u64,
    /// Sectors of 512 bytes written there.
    pub log_sectors: u64,
    /// The most guards, facts and deferred actions that a policy kept at once.
    pub most_guards: u64,
    /// Images of blocks with changes that the policy kept back.
    pub rolled_back: u64,
    /// Blocks read ahead.
    pub read_ahead: u64,
    /// Buffers evicted.
    pub evicted: u64,
}

impl Core {
    /// An empty cache over a volume of this shape.
    pub fn new(
        shape: Shape,
        seals: Arc<dyn Seals>,
        policy: Box<dyn Policy>,
        options: CoreOptions,
    ) -> Core {
        Core {
            shape,
            most_guards: options.guards(),
            options,
            seals,
            cache: Cache::new(shape),
            input: Input::default(),
            output: Output::default(),
            wheel: Wheel::new(options.write_age_s),
            logged: logged::Logged::default(),
            barriers: Barriers::default(),
            leaving: nvram::Leaving::default(),
            owned: owned::Owned::default(),
            ready: Ready::default(),
            policy,
            sent: Slots::default(),
            raw: 0,
            trims: trim::Trims::default(),
            room: None,
            told_room: None,
            failed: None,
            scratch: tx::Scratch::default(),
            stats: Stats::default(),
        }
    }

    /// Makes clones cheap: what has changed since the last time is shared from now on.
    pub fn share(&mut self) {
        self.cache.share();
        self.input.share();
        self.output.queue.share();
        self.wheel.share();
        self.owned.share();
        self.ready.share();
    }

    /// The first error of the write path. After it the core writes nothing.
    pub fn failed(&self) -> Option<IoError> {
        self.failed.as_ref().map(|failure| failure.error)
    }

    /// The same with the block and what it holds.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref()
    }

    /// Asks the volume for its space.
    pub(crate) fn ask_room(&mut self, below: &Below<'_>) {
        self.room = below.node(0).layer.status().room();
    }

    /// True if calls that wait for space may find what they did not find when this was asked last.
    pub(crate) fn room_has_changed(&mut self) -> bool {
        let blocks = self.room.map(|room| room.blocks.saturating_sub(self.policy.blocks_to_come()));
        let now = blocks.map(|blocks| (blocks, self.room_may_grow()));
        std::mem::replace(&mut self.told_room, now) != now
    }

    /// The options.
    pub fn options(&self) -> &CoreOptions {
        &self.options
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// True if a change must be refused.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only || self.failed.is_some()
    }

    /// Blocks in the cache.
    pub fn buffers(&self) -> usize {
        self.cache.len()
    }

    /// Of them, those with changes that are not written.
    pub fn dirty_buffers(&self) -> usize {
        self.cache.dirty()
    }

    /// Requests to the volume in flight.
    pub fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// Everything is in place: ends the log. [`Core::log_has_ended`] tells when it is done.
    pub fn end_log(&mut self, below: &mut Below<'_>) {
        self.policy.end_log();
        self.push_output(below);
    }

    /// True if the policy keeps no log, or the log says that it has ended.
    pub fn log_has_ended(&self) -> bool {
        !self.policy.takes_groups() || self.policy.has_ended()
    }

    /// True if nothing is dirty and nothing is in flight.
    pub fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.cache.dirty() == 0
    }

    /// The next call that can run.
    pub fn take_ready(&mut self) -> Option<CallKey> {
        self.ready.pop()
    }

    /// Appends a call to those that can run.
    pub fn make_ready(&mut self, key: CallKey) {
        self.ready.push(key);
    }

    /// Writes bytes that the cache does not hold. [`Core::raw_in_flight`] tells when it is done.
    pub fn write_raw(
        &mut self,
        at: BlockNr,
        data: seekless_engine::data::Data,
        below: &mut Below<'_>,
    ) {
        let tag = self.sent.insert(Sent::Raw);
        self.raw += 1;
        below.submit(0, Io::write(tag, at, data).for_purpose(Purpose::Metadata));
    }

    /// Writes of [`Core::write_raw`] in flight.
    pub fn raw_in_flight(&self) -> usize {
        self.raw
    }

    /// Takes an answer of the volume.
    pub fn complete(&mut self, _port: Port, done: Done, below: &mut Below<'_>) {
        match self.sent.remove(done.tag) {
            Sent::Fill { first, count } => self.filled(first, count, &done.outcome, below),
            Sent::Piece { block, index } => self.piece_filled(block, index, &done.outcome),
            Sent::Write { blocks, manifest } => {
                let outcome = error_of(done.outcome).map_or(Ok(()), Err);
                self.written(&blocks, manifest, outcome, below.now());
                self.nvram_wrote(&blocks);
            }
            Sent::Flush => self.flushed(error_of(done.outcome)),
            Sent::Log(number) => {
                self.log_written(number, error_of(done.outcome).map_or(Ok(()), Err));
            }
            Sent::LogSuperblock => {
                self.log_superblock_written(error_of(done.outcome).map_or(Ok(()), Err));
            }
            Sent::Transaction { number, blocks, manifest } => {
                let outcome = error_of(done.outcome).map_or(Ok(()), Err);
                self.written(&blocks, Manifest::default(), outcome, below.now());
                self.nvram_lets_go(&blocks);
                if outcome.is_ok() {
                    // It was forced, so what it brings holds.
                    self.policy.settled(manifest);
                }
                self.log_written(number, outcome);
            }
            Sent::Trim(key) => self.trimmed(key, done.outcome.err()),
            Sent::Raw => {
                self.raw -= 1;
                self.barriers.wrote();
                if let Err(error) = done.outcome {
                    self.fail(error, Lost::Superblock);
                }
            }
        }
        self.push_output(below);
    }

    /// Sends what is due: blocks of which the age has come, the queue of writes, flushes.
    pub fn pump(&mut self, below: &mut Below<'_>) {
        if !self.is_durable_at_once() {
            self.fire_wheel(below.now());
        }
        self.relieve();
        self.relieve_nvram(below.now());
        self.push_output(below);
    }

    /// When the syncer wants to run.
    pub fn deadline(&self) -> Option<seekless_engine::units::Time> {
        if self.failed.is_some() {
            return None;
        }
        if self.is_durable_at_once() {
            return self.nvram_due();
        }
        self.wheel.deadline().into_iter().chain(self.policy.log_due()).min()
    }

    /// Notes a failed write. From here on the core refuses changes, and each call that
    /// waits for durability fails.
    pub(crate) fn fail(&mut self, error: IoError, lost: Lost) {
        self.failed.get_or_insert(Failure { error, lost });
        self.output.queue.clear();
        self.fail_barriers();
    }
}

/// Why a write or a flush failed.
fn error_of(outcome: seekless_engine::io::Outcome) -> Option<IoError> {
    outcome.err().filter(|_| !planted(PlantedBug::ErrorSwallowed))
}

#[cfg(test)]
mod tests;
