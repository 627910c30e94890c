//! The virtual-time driver: runs a node as fast as the host can, jumping from event to event.
//!
//! It differs from the wall-clock driver only in where the time comes from: the next arrival or
//! the next event of the node, whichever is earlier. The clients of a described workload are a
//! closed loop: a fixed number of requests in flight, each answer lets the next one go. Traces have
//! a [`Player`].

mod replay;

pub use replay::{MAX_USERS, Pacing, PlayCounts, Player, PoolOptions, ReplayError, ReplayOptions};

use crate::oracle::{Oracle, WrongContent};
use crate::workload::{Generator, Pattern, Request, Upcoming, Workload};
use seekless_engine::data::Data;
use seekless_engine::io::{Breakdown, Done, Io, IoError, Op, Tag};
use seekless_engine::node::Node;
use seekless_engine::units::{BlockNr, Time};
use std::collections::VecDeque;
use std::hint::cold_path;

/// Settling this often at one instant without an answer means that the node asks to be called
/// again for ever: no layout has that many chunks of background work due at once.
const MAX_SPINS: u32 = 1_000_000;

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// What it was.
    pub op: Op,
    /// First block.
    pub at: BlockNr,
    /// Number of blocks; 0 for a flush.
    pub count: u32,
    /// When it was handed in.
    pub submitted: Time,
    /// Where its time went; the parts add up to its latency.
    pub spent: Breakdown,
}

/// Why a run cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveError {
    /// A read returned something else than what was written.
    #[error("at {now_ns} ns of virtual time: {wrong}")]
    WrongContent {
        /// What came and what should have come.
        wrong: WrongContent,
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
    /// A request failed though nothing injects faults.
    #[error("at {now_ns} ns of virtual time: {op:?} of blocks {at}+{count} failed: {error}")]
    Failed {
        /// What it was.
        op: Op,
        /// First block.
        at: BlockNr,
        /// Number of blocks.
        count: u32,
        /// How it failed.
        error: IoError,
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
    /// Requests are in flight but nothing is going to happen: a defect of a layer or a device.
    #[error("at {now_ns} ns of virtual time: {in_flight} requests in flight and no event to come")]
    Stalled {
        /// Requests in flight.
        in_flight: usize,
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
    /// The node asks again and again to be called at the same instant: a defect of a layer.
    #[error("at {now_ns} ns of virtual time: time does not advance")]
    Spinning {
        /// When, in nanoseconds of virtual time.
        now_ns: Time,
    },
}

/// A request to the volume.
#[derive(Clone, Copy, Debug)]
struct Part {
    op: Op,
    at: BlockNr,
    count: u32,
    fua: bool,
}

impl Part {
    const FLUSH: Part = Part { op: Op::Flush, at: 0, count: 0, fua: false };
}

/// A request in flight; its tag is the index.
#[derive(Clone, Copy, Debug)]
struct Slot {
    op: Op,
    at: BlockNr,
    count: u32,
    submitted: Time,
}

/// A node in virtual time with its clients.
#[derive(Debug)]
pub struct Driver {
    node: Node,
    now: Time,
    oracle: Option<Oracle>,
    version: u32,
    slots: Vec<Slot>,
    free: Vec<Tag>,
    /// For each slot, the oldest versions its read may return, `stride` of them.
    floors: Vec<u32>,
    stride: usize,
    /// When each client that waits for no answer goes on; ascending.
    ready: VecDeque<Time>,
    answers: Vec<Done>,
}

impl Driver {
    /// A driver at time zero over a node whose volume is empty. With `verify` every read is
    /// compared with what was written.
    pub fn new(node: Node, verify: bool) -> Driver {
        let oracle = verify.then(|| Oracle::new(node.layer.blocks()));
        Driver {
            node,
            now: 0,
            oracle,
            version: 0,
            slots: Vec::new(),
            free: Vec::new(),
            floors: Vec::new(),
            stride: 0,
            ready: VecDeque::new(),
            answers: Vec::new(),
        }
    }

    /// Virtual time, in nanoseconds since the beginning.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The node, for whoever wants to go on with it.
    pub fn into_node(self) -> Node {
        self.node
    }

    /// Runs `requests` requests of `generator` (flushes come on top) in the closed loop that
    /// `workload` describes, until all are answered. `observe` sees each answer.
    ///
    /// # Errors
    /// Wrong content, failed requests, and nodes that come to a halt. The driver must not be used
    /// any more after an error.
    pub fn run(
        &mut self,
        workload: &Workload,
        generator: &mut Generator,
        requests: u64,
        mut observe: impl FnMut(&Completion),
    ) -> Result<(), DriveError> {
        self.prepare(workload);
        let mut upcoming = Upcoming::new(generator, requests);
        let burst = workload.bursts.map_or(u64::MAX, |bursts| bursts.requests);
        let mut burst_left = burst;
        let mut left = requests;
        let mut spins = 0;
        loop {
            let mut may_issue = left.min(burst_left);
            while may_issue > 0 && self.ready.front().is_some_and(|&at| at <= self.now) {
                self.ready.pop_front();
                let Some(request) = upcoming.next(|at| self.expect(at)) else { break };
                if request != Request::Flush {
                    left -= 1;
                    burst_left -= 1;
                    may_issue -= 1;
                }
                self.submit(request, workload);
            }
            self.node.settle(self.now, &mut self.answers);
            if self.answers.is_empty() {
                let arrival = self.ready.front().filter(|_| may_issue > 0).copied();
                self.advance(arrival, &mut spins)?;
                continue;
            }
            spins = 0;
            self.take_answers(workload, &mut observe)?;
            if self.node.in_flight() > 0 {
                continue;
            }
            if left == 0 {
                return Ok(());
            }
            if let Some(bursts) = workload.bursts.filter(|_| burst_left == 0) {
                burst_left = burst;
                self.ready.iter_mut().for_each(|at| *at = self.now + bursts.idle_ns);
            }
        }
    }

    /// Lets `span_ns` pass without client requests: time for background work.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn idle(&mut self, span_ns: Time) -> Result<(), DriveError> {
        let end = self.now + span_ns;
        let mut spins = 0;
        loop {
            self.node.settle(self.now, &mut self.answers);
            if self.now == end {
                return Ok(());
            }
            self.advance(Some(end), &mut spins)?;
        }
    }

    /// Brings the volume to a clean shutdown.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn stop(&mut self) -> Result<(), DriveError> {
        self.node.stop(self.now);
        let mut spins = 0;
        loop {
            self.node.settle(self.now, &mut self.answers);
            if self.node.stopped() {
                return Ok(());
            }
            self.advance(None, &mut spins)?;
        }
    }

    /// Writes the whole volume once, in order, in requests of `request_blocks` blocks.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn fill(&mut self, request_blocks: u32) -> Result<(), DriveError> {
        self.sweep(0.0, request_blocks)
    }

    /// Reads the whole volume back and compares it with what was written, in requests of
    /// `request_blocks` blocks. Does nothing if the driver does not verify.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn read_back(&mut self, request_blocks: u32) -> Result<(), DriveError> {
        if self.oracle.is_none() { Ok(()) } else { self.sweep(1.0, request_blocks) }
    }

    fn sweep(&mut self, read_share: f64, request_blocks: u32) -> Result<(), DriveError> {
        let blocks = self.node.layer.blocks();
        let large = u64::from(request_blocks).min(blocks) as u32;
        let whole = blocks - blocks % u64::from(large);
        // What does not fill a large request at the end goes block by block.
        for (request_blocks, from, to) in [(large, 0, whole), (1, whole, blocks)] {
            if from == to {
                continue;
            }
            let pattern = Pattern::Sequential;
            let workload = Workload { pattern, read_share, request_blocks, ..Workload::default() };
            let mut generator = Generator::starting_at(&workload, to, from);
            self.run(&workload, &mut generator, (to - from) / u64::from(request_blocks), |_| {})?;
        }
        Ok(())
    }

    /// Makes room for the requests of `workload`, so that the loop allocates nothing.
    fn prepare(&mut self, workload: &Workload) {
        assert_eq!(self.node.in_flight(), 0, "an earlier run was left unfinished");
        let depth = workload.depth as usize;
        let idle = Slot { op: Op::Flush, at: 0, count: 0, submitted: 0 };
        self.slots.clear();
        self.slots.resize(depth, idle);
        self.free.clear();
        self.free.extend((0..depth as Tag).rev());
        self.ready.clear();
        self.ready.extend(std::iter::repeat_n(self.now, depth));
        self.stride = workload.request_blocks as usize;
        self.floors.clear();
        if self.oracle.is_some() && workload.read_share > 0.0 {
            self.floors.resize(depth * self.stride, 0);
        }
    }

    /// What is known of a block will be needed soon.
    fn expect(&self, at: BlockNr) {
        self.node.layer.status().expect(at);
        if let Some(oracle) = &self.oracle {
            oracle.expect(at);
        }
    }

    fn submit(&mut self, request: Request, workload: &Workload) {
        let count = workload.request_blocks;
        self.send(match request {
            Request::Read { at } => Part { op: Op::Read, at, count, fua: false },
            Request::Write { at } => Part { op: Op::Write, at, count, fua: workload.fua },
            Request::Flush => Part::FLUSH,
        });
    }

    /// Hands a request in.
    #[inline(always)]
    fn send(&mut self, part: Part) -> Tag {
        let Part { op, at, count, fua } = part;
        let tag = self.free.pop().expect("whoever drives has made room for its requests");
        let io = match op {
            Op::Read => {
                if let Some(oracle) = &self.oracle {
                    let first = tag as usize * self.stride;
                    oracle.read_begins(at, &mut self.floors[first..first + count as usize]);
                }
                Io::read(tag, at, count)
            }
            Op::Write => {
                self.version += 1;
                if let Some(oracle) = &mut self.oracle {
                    oracle.write_begins(at, count, self.version);
                }
                let mut io = Io::write(tag, at, Data::stamp(count, at, u64::from(self.version)));
                io.fua = fua;
                io
            }
            Op::Trim => {
                self.version += 1;
                if let Some(oracle) = &mut self.oracle {
                    oracle.trim_begins(at, count, self.version);
                }
                Io::trim(tag, at, count)
            }
            Op::Flush => Io::flush(tag),
        };
        self.slots[tag as usize] = Slot { op, at, count, submitted: self.now };
        self.node.submit(self.now, io);
        tag
    }

    fn take_answers(
        &mut self,
        workload: &Workload,
        observe: &mut impl FnMut(&Completion),
    ) -> Result<(), DriveError> {
        // Taken out and put back so that its room is kept.
        let mut answers = std::mem::take(&mut self.answers);
        for done in answers.drain(..) {
            let completion = self.finish(done)?;
            observe(&completion);
            self.ready.push_back(self.now + workload.think_ns);
        }
        self.answers = answers;
        Ok(())
    }

    #[inline(always)]
    fn finish(&mut self, done: Done) -> Result<Completion, DriveError> {
        let Slot { op, at, count, submitted } = self.slots[done.tag as usize];
        let now_ns = self.now;
        let data = match done.outcome {
            Ok(data) => data,
            Err(error) => {
                cold_path();
                return Err(DriveError::Failed { op, at, count, error, now_ns });
            }
        };
        match (&mut self.oracle, op) {
            (Some(oracle), Op::Write | Op::Trim) => oracle.write_ends(at, count),
            (Some(oracle), Op::Read) => {
                let first = done.tag as usize * self.stride;
                let floors = &self.floors[first..first + count as usize];
                oracle
                    .read_ends(at, floors, &data)
                    .map_err(|wrong| DriveError::WrongContent { wrong, now_ns })?;
            }
            _ => {}
        }
        self.free.push(done.tag);
        let latency = now_ns - submitted;
        let mut spent = done.spent;
        if spent.total_ns() != latency {
            spent = spent.within(latency);
        }
        Ok(Completion { op, at, count, submitted, spent })
    }

    /// Jumps to the next event of the node or to `arrival`.
    fn advance(&mut self, arrival: Option<Time>, spins: &mut u32) -> Result<(), DriveError> {
        let now_ns = self.now;
        let next = match (self.node.next_event(), arrival) {
            (Some(a), Some(b)) => a.min(b),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => {
                return Err(DriveError::Stalled { in_flight: self.node.in_flight(), now_ns });
            }
        };
        if next > now_ns {
            *spins = 0;
            self.now = next;
            return Ok(());
        }
        *spins += 1;
        if *spins > MAX_SPINS { Err(DriveError::Spinning { now_ns }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
