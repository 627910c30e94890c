//! An array as a layer: requests come in, are cut at chunks, and go to the members.
//!
//! Reads go straight to the member that has the block. Writes queue at their stripe: while one
//! operation holds a stripe the next ones gather, and are then carried out as one, so that small
//! writes in order become full stripes. What an operation does is in [`write`](mod@write); what all
//! members are told at once (flushes, superblocks, the bitmap) in [`broadcast`]; failing
//! members in [`reconstruct`] and [`rebuild`].

mod admit;
mod broadcast;
mod clean_shutdown;
mod heal;
mod member_queue;
mod overlay;
mod rebuild;
mod reconstruct;
mod request;
mod scrub;
mod status;
mod stripe_data;
mod write;

use super::Level;
use super::bitmap::Bitmap;
use super::geometry::Geometry;
use super::log::{Log, Run};
use super::member::{MemberState, MemberSuperblock};
use broadcast::{Broadcast, MemberFlush, Sending};
use heal::Heal;
use member_queue::{Answer, MemberQueue};
use rebuild::Rebuild;
use reconstruct::Reconstruct;
pub(super) use request::Source;
use request::{Part, Requests};
use scrub::Scrub;
use seekless_engine::data::{Data, Piece};

use seekless_engine::edge::Edge;
use seekless_engine::io::{Breakdown, Done, Io, IoError, Op, Purpose};
use seekless_engine::layer::{Cx, Layer, Port, Status};
use seekless_engine::replaceable::Replaceable;
use seekless_engine::request_table::RequestTable;
use seekless_engine::units::{BlockNr, Time};
use seekless_engine::upkeep::{Upkeep, UpkeepError};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use write::Write;

/// Writes that one stripe operation takes on at most; bounds what its log record has to name.
const MOST_PARTS: usize = 64;

/// What a part of a request to a member is for.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Part `slot` of the answer to a client's read.
    Read { request: usize, slot: usize },
    /// A write or trim of RAID-0.
    Plain { request: usize },
    /// Something an operation on a stripe needs; `slot` says what.
    Op { op: usize, slot: usize },
    /// A batch of the member's log.
    Log,
    /// The flush that follows it.
    LogFlush,
    /// A block that all members get.
    Broadcast(Broadcast),
    /// A flush of all members.
    MemberFlush { flush: usize },
    /// A step of the rebuild.
    Rebuild { step: u64 },
    /// The step of the scrub.
    Scrub,
}

/// What waits for a stripe.
#[derive(Clone, Debug)]
enum Job {
    Write(Part),
    Reconstruct(Reconstruct),
    Heal(Heal),
}

/// A stripe that an operation uses or waits for.
#[derive(Clone, Debug, Default)]
struct Lock {
    busy: bool,
    queue: VecDeque<Job>,
}

/// An operation that holds a stripe.
#[derive(Clone, Debug)]
struct StripeOp {
    stripe: u64,
    /// Answers to come before the next step.
    waiting: u32,
    spent: Breakdown,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Write(Box<Write>),
    Reconstruct(Reconstruct),
    Heal(Box<Heal>),
}

/// Counters for reports: requests to members and blocks in them, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Blocks that clients wrote.
    pub client_blocks_written: u64,
    /// Reads of old data and parity before writes.
    pub prereads: u64,
    /// Writes of data, and its blocks.
    pub data_writes: u64,
    /// Blocks of data written.
    pub data_blocks: u64,
    /// Writes of parity.
    pub parity_writes: u64,
    /// Blocks of parity written.
    pub parity_blocks: u64,
    /// Batches written to logs.
    pub log_writes: u64,
    /// Blocks in them.
    pub log_blocks: u64,
    /// Times that the intent bitmap was written.
    pub bitmap_writes: u64,
    /// Stripe operations that wrote whole stripes.
    pub full_stripes: u64,
    /// Stripe operations that wrote parts of stripes.
    pub partial_stripes: u64,
    /// Blocks computed from the other members because one could not be read.
    pub reconstructed: u64,
    /// Blocks of which a member gave something else than was written, and others did not.
    pub healed: u64,
    /// Members removed from the array since it was assembled.
    pub kicked: u64,
}

/// The array.
#[derive(Clone, Debug)]
pub struct Array {
    superblock: MemberSuperblock,
    geometry: Geometry,
    volatile: bool,
    /// What members should hold and may not: what a read-only array would have replayed from its
    /// logs, and the writes after which there were too few members to go on.
    overlay: BTreeMap<(usize, BlockNr), Piece>,
    /// Stripes in order in which parity or copies may disagree, and which a read-only array has not
    /// brought into step.
    distrusted: Vec<Range<u64>>,
    member_queue: MemberQueue,
    /// Requests from above. Each keeps its last part for the answer and waits with its kind: a
    /// change is answered when all members know which of them is out.
    table: RequestTable<Op>,
    /// What the array knows of each of them besides.
    requests: Requests,
    ops: Slab<StripeOp>,
    locks: BTreeMap<u64, Lock>,
    /// Stripes at which something waits and that may be free.
    ready: Vec<u64>,
    /// For spreading reads: requests under way and the end of the last one, member by member.
    heads: Vec<(u32, BlockNr)>,
    bitmap: Bitmap,
    logs: Vec<Log>,
    /// Operations that wait for their region to be marked.
    unmarked: Vec<usize>,
    /// Operations that wait until all members know which of them is out.
    unsettled: Vec<usize>,
    broadcasts: [Option<Sending>; 2],
    /// How many times the superblocks have to be written once more.
    stale: u32,
    /// Members that failed and were put out, and why.
    failed_members: Vec<(usize, IoError)>,
    /// What each member did not give as it should.
    faults: Vec<status::Faults>,
    member_flushes: Slab<MemberFlush>,
    /// Operations ended so far, and how many of them are durable for certain.
    clock: u64,
    flushed: u64,
    /// How many of them were durable on all members when one of these failed last.
    failed_clock: u64,
    /// When to look for regions whose marks can be cleared, and what may be cleared then.
    clear_at: Option<Time>,
    clear: Option<(Vec<usize>, Time)>,
    rebuild: Rebuild,
    scrub: Scrub,
    leaving: Option<clean_shutdown::Leaving>,
    counters: Counters,
}

/// What [`assemble`](super::assemble) hands over.
#[derive(Debug)]
pub(super) struct Parts {
    pub superblock: MemberSuperblock,
    pub volatile: bool,
    pub read_only: bool,
    pub distrusted: Vec<Range<u64>>,
    pub logs: Vec<Log>,
    /// Blocks of each member that the resync put right.
    pub healed: Vec<u64>,
}

impl Array {
    pub(super) fn new(parts: Parts) -> Array {
        let Parts { superblock, volatile, read_only, distrusted, logs, healed } = parts;
        let geometry = superblock.geometry;
        Array {
            rebuild: Rebuild::new(&superblock),
            scrub: Scrub::default(),
            geometry,
            volatile,
            table: RequestTable::new(read_only),
            overlay: BTreeMap::new(),
            distrusted,
            member_queue: MemberQueue::default(),
            requests: Requests::default(),
            ops: Slab::new(),
            locks: BTreeMap::new(),
            ready: Vec::new(),
            heads: vec![(0, 0); geometry.members],
            bitmap: Bitmap::new(&geometry),
            logs,
            unmarked: Vec::new(),
            unsettled: Vec::new(),
            broadcasts: [None, None],
            stale: 0,
            failed_members: Vec::new(),
            faults: status::Faults::healed(&healed),
            member_flushes: Slab::new(),
            // What ended before the first operation is durable.
            clock: 1,
            flushed: 0,
            failed_clock: 0,
            clear_at: None,
            clear: None,
            leaving: None,
            counters: Counters::default(),
            superblock,
        }
    }

    /// What its members know of it.
    pub fn superblock(&self) -> &MemberSuperblock {
        &self.superblock
    }

    /// Counts of what it has asked of its members.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Stripes rebuilt so far, and of how many, while a rebuild is under way.
    pub fn rebuilding(&self) -> Option<(u64, u64)> {
        let states = &self.superblock.states;
        let under_way = states.contains(&MemberState::Rebuilding);
        under_way.then_some((self.rebuild.done(), self.geometry.stripes))
    }

    /// True if a member has what it should have of a stripe.
    pub(super) fn present(&self, member: usize, stripe: u64) -> bool {
        match self.superblock.states[member] {
            MemberState::Active => true,
            MemberState::Out => false,
            MemberState::Rebuilding => stripe < self.rebuild.done(),
        }
    }

    /// True if a recovery would take a member to have what it should have of a stripe: of one that
    /// is being filled it knows only what the superblocks say.
    fn present_after_crash(&self, member: usize, stripe: u64) -> bool {
        let filling = self.superblock.states[member] == MemberState::Rebuilding;
        self.present(member, stripe) && !(filling && stripe >= self.superblock.rebuilt)
    }

    /// The members that are told of changes.
    fn informed(&self) -> Vec<usize> {
        let states = &self.superblock.states;
        (0..states.len()).filter(|&member| states[member] != MemberState::Out).collect()
    }

    /// Operations that ended up to this one need no protection: they are durable, and all members
    /// record which member has missed them.
    fn durable_clock(&self) -> u64 {
        let flushed = if self.volatile { self.flushed } else { u64::MAX };
        if self.is_settled() { flushed } else { flushed.min(self.failed_clock) }
    }

    /// A member has failed a request that changes something. It is removed from the array, unless
    /// the array cannot do without it; then the array fails all later writes.
    fn member_failed(&mut self, member: usize, error: IoError) {
        let states = &self.superblock.states;
        if states[member] == MemberState::Out || self.table.failed().is_some() {
            return;
        }
        let missing = states.iter().filter(|&&one| one != MemberState::Active).count();
        let spare = self.geometry.level.spare(self.geometry.members);
        debug_assert!(missing <= spare, "an array runs with {missing} members missing");
        let dispensable = states[member] == MemberState::Rebuilding || missing < spare;
        if error == IoError::PowerOff || !dispensable {
            // Nothing in flight is undone: a change that all members have is still acknowledged.
            self.table.refuse_changes(error);
            return;
        }
        self.superblock.states[member] = MemberState::Out;
        self.failed_members.push((member, error));
        self.counters.kicked += 1;
        if self.is_settled() {
            // What it has not flushed may be lost there, though the others flush it now.
            self.failed_clock = if self.volatile { self.flushed } else { self.clock };
        }
        // Into both copies: were the only one that knows it unreadable later, the member would be
        // taken back.
        self.stale = 2;
        if member < self.logs.len() {
            // Without the parity there is nothing to protect.
            self.abandon_log(member);
        }
    }

    /// Forgets the log of a member; who waited for it goes on without, in time.
    fn abandon_log(&mut self, member: usize) {
        for op in self.logs[member].abandon() {
            debug_assert!(
                matches!(self.ops[op].work, Work::Write(_)),
                "operation {op} is no write, and had a record"
            );
            self.ops[op].waiting = 0;
            self.unsettled.push(op);
        }
    }

    /// Queues a job at a stripe.
    fn enqueue(&mut self, stripe: u64, job: Job) {
        debug_assert!(stripe < self.geometry.stripes, "stripe {stripe} is behind the end");
        let lock = self.locks.entry(stripe).or_default();
        lock.queue.push_back(job);
        if !lock.busy {
            self.ready.push(stripe);
        }
    }

    /// Gives stripes that are free to those who wait for them.
    fn start_ready(&mut self, now: Time) {
        while let Some(stripe) = self.ready.pop() {
            let Some(lock) = self.locks.get_mut(&stripe).filter(|lock| !lock.busy) else {
                continue;
            };
            let Some(first) = lock.queue.pop_front() else {
                self.locks.remove(&stripe);
                continue;
            };
            lock.busy = true;
            match first {
                Job::Reconstruct(reconstruct) => self.start_reconstruct(stripe, reconstruct),
                Job::Heal(heal) => self.start_heal(stripe, heal),
                Job::Write(part) => {
                    let mut parts = vec![part];
                    while parts.len() < MOST_PARTS
                        && let Some(Job::Write(_)) = lock.queue.front()
                        && let Some(Job::Write(part)) = lock.queue.pop_front()
                    {
                        parts.push(part);
                    }
                    self.start_write(stripe, parts, now);
                }
            }
        }
    }

    /// True if an operation or the rebuild holds a stripe.
    fn is_held(&self, stripe: u64) -> bool {
        self.locks.get(&stripe).is_some_and(|lock| lock.busy)
    }

    fn release(&mut self, stripe: u64) {
        let lock = self.locks.get_mut(&stripe).expect("an operation holds its stripe");
        debug_assert!(lock.busy, "stripe {stripe} is released twice");
        lock.busy = false;
        self.ready.push(stripe);
    }

    /// Everything that can begin now.
    fn advance(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.start_ready(cx.now);
            // What goes on may want a record in a log or a mark, which are next.
            self.resume_settled();
            self.write_logs();
            // What a rebuild has to say goes out with the next superblocks; nothing else would.
            self.advance_rebuild(cx);
            self.advance_scrub(cx);
            self.advance_broadcasts(cx);
            self.advance_stop(cx);
            let resumable = self.is_settled() && !self.unsettled.is_empty();
            if self.ready.is_empty() && !resumable {
                break;
            }
        }
        self.member_queue.send(cx);
    }

    /// Sends the batches of all logs that have one.
    fn write_logs(&mut self) {
        if self.table.failed().is_some() {
            // No flush makes room in a failed array: operations that wait for a record hear why.
            return (0..self.logs.len()).for_each(|member| self.abandon_log(member));
        }
        let flushed = self.durable_clock();
        for member in 0..self.logs.len() {
            let Some((at, data)) = self.logs[member].next_batch(flushed) else { continue };
            self.counters.log_writes += 1;
            self.counters.log_blocks += u64::from(data.blocks());
            let io = Io::write(0, at, data).for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::Log);
        }
        let starved = self.logs.iter().any(Log::is_starved);
        let flushing_for_room = self.member_flushes.iter().any(|(_, flush)| flush.is_for_room());
        if starved && !flushing_for_room && self.volatile && self.flushed < self.clock {
            self.flush_members(broadcast::Then::Room);
        }
    }

    /// A batch of a member's log is written, or durable.
    fn log_answered(&mut self, member: usize, call: Call, outcome: Result<Data, IoError>) {
        if let Err(error) = outcome {
            self.member_failed(member, error);
            return;
        }
        if self.table.failed().is_some() || !self.logs[member].is_writing() {
            return;
        }
        if matches!(call, Call::Log) && self.volatile {
            let io = Edge::LogFlush.flush(0).for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::LogFlush);
            return;
        }
        debug_assert!(matches!(call, Call::Log | Call::LogFlush), "{call:?} is not of the log");
        let (seq, ops) = self.logs[member].written();
        for op in ops {
            self.ops[op].waiting -= 1;
            self.logged(op, member, seq);
        }
    }

    fn handle(&mut self, answer: Answer, cx: &mut Cx<'_>) {
        let Answer { call, done: Done { outcome, spent, .. }, member } = answer;
        match call {
            Call::Read { request, slot } => {
                self.table.spend(request, &spent);
                self.read_answered(request, slot, member, outcome);
            }
            Call::Plain { request } => {
                self.table.spend(request, &spent);
                self.plain_answered(request, member, outcome);
            }
            Call::Op { op, slot } => {
                self.ops[op].spent.add(&spent);
                self.op_answered(op, slot, member, outcome, cx);
            }
            Call::Log | Call::LogFlush => self.log_answered(member, call, outcome),
            Call::Broadcast(broadcast) => self.broadcast_answered(broadcast, member, outcome),
            Call::MemberFlush { flush } => self.member_flush_answered(flush, member, outcome),
            Call::Rebuild { step } => self.rebuild_answered(step, member, outcome, cx.now),
            Call::Scrub => {
                self.scrub_answered(member, outcome, cx.now, cx.idle_since.is_some());
            }
        }
        self.answer_finished(cx);
    }

    fn op_answered(
        &mut self,
        op: usize,
        slot: usize,
        member: usize,
        outcome: Result<Data, IoError>,
        cx: &Cx<'_>,
    ) {
        debug_assert!(self.ops[op].waiting > 0, "operation {op} waits for no answer");
        self.ops[op].waiting -= 1;
        match self.ops[op].work {
            Work::Write(_) => self.write_answered(op, slot, member, outcome, cx.now),
            Work::Reconstruct(_) => self.reconstruct_answered(op, slot, member, outcome),
            Work::Heal(_) => self.heal_answered(op, slot, member, outcome),
        }
    }
}

impl Layer for Array {
    fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        debug_assert!(
            io.op == Op::Flush || io.at + u64::from(io.count) <= self.geometry.blocks(),
            "{:?} of {}+{} leaves the array",
            io.op,
            io.at,
            io.count
        );
        debug_assert!(
            io.op != Op::Write || io.data.blocks() == io.count,
            "a payload of its length"
        );
        self.take_on(io, cx);
    }

    fn complete(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        for answer in self.member_queue.answered(done) {
            debug_assert_eq!(answer.member, port, "an answer comes from the member that was asked");
            self.handle(answer, cx);
        }
    }

    fn pump(&mut self, cx: &mut Cx<'_>) {
        self.advance(cx);
        self.answer_finished(cx);
    }

    fn deadline(&self) -> Option<Time> {
        if self.table.failed().is_some() {
            // A failed array clears and rebuilds nothing: a deadline would be met over and over.
            return None;
        }
        [self.clear_at, self.rebuild.deadline(), self.scrub.deadline()].into_iter().flatten().min()
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.table.ask_shutdown();
    }

    fn stopped(&self) -> bool {
        self.table.is_shut_down()
    }

    fn failed(&self) -> Option<IoError> {
        self.table.failed()
    }

    fn upkeep(&mut self, order: Upkeep, now: Time) -> Result<(), UpkeepError> {
        match order {
            Upkeep::Scrub { bytes_per_second } => self.begin_scrub(bytes_per_second, now),
            Upkeep::StopScrub => self.stop_scrub(),
            Upkeep::RebuildRate { bytes_per_second } => {
                self.rebuild.set_rate(bytes_per_second);
                Ok(())
            }
        }
    }

    fn replaceable(&mut self) -> Option<&mut dyn Replaceable> {
        Some(self)
    }

    fn status(&self) -> &dyn Status {
        self
    }
}

impl Array {
    /// True if nothing is under way, below or within.
    pub(super) fn is_at_rest(&self) -> bool {
        self.member_queue.is_idle() && self.ops.is_empty() && self.locks.is_empty()
    }

    /// True if copies or parity of a stripe may disagree.
    fn is_distrusted(&self, stripe: u64) -> bool {
        let next = self.distrusted.partition_point(|stripes| stripes.end <= stripe);
        self.distrusted.get(next).is_some_and(|stripes| stripes.contains(&stripe))
    }

    /// True if copies or parity may be used to compute what a member does not give. Parity that
    /// may be off still tells all that there is to know of a member that is out.
    fn can_compute(&self, stripe: u64) -> bool {
        match self.geometry.level {
            Level::Raid0 => false,
            Level::Raid1 => !self.is_distrusted(stripe),
            Level::Raid5 => {
                let out = |member| !self.present(member, stripe);
                !self.is_distrusted(stripe) || (0..self.geometry.members).any(out)
            }
        }
    }
}
