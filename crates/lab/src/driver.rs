//! The virtual-time driver: runs a node as fast as the host can, jumping from event to event.
//!
//! It differs from the wall-clock driver only in where the time comes from ([`virtual_time`]): the
//! next event of the node or the deadline of its client, whichever is earlier. The client is a
//! described workload ([`closed_loop`]) or a [`Player`] of a trace; both send through
//! [`requests`], which compares what is read with what was written.

mod closed_loop;
mod replay;
mod requests;
mod virtual_time;

pub use replay::{MAX_USERS, Pacing, PlayCounts, Player, PoolOptions, ReplayError, ReplayOptions};

use crate::oracle::WrongContent;
use crate::workload::{Generator, Pattern, Workload};
use closed_loop::ClosedLoop;
use requests::Written;
use seekless_engine::io::{Breakdown, IoError, Op};
use seekless_engine::node::Node;
use seekless_engine::units::{BlockNr, Time};
use virtual_time::VirtualTime;

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

/// A node in virtual time, and what its clients wrote to it.
#[derive(Debug)]
pub struct Driver {
    time: VirtualTime,
    written: Written,
}

impl Driver {
    /// A driver at time zero over a node whose volume is empty. With `verify` every read is
    /// compared with what was written.
    pub fn new(node: Node, verify: bool) -> Driver {
        let written = Written::nothing(node.layer.blocks(), verify);
        Driver { time: VirtualTime::new(node), written }
    }

    /// Virtual time, in nanoseconds since the beginning.
    pub fn now(&self) -> Time {
        self.time.now
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.time.node
    }

    /// The node, to go on with.
    pub fn into_node(self) -> Node {
        self.time.node
    }

    /// Runs `requests` requests of `generator` (flushes come on top) in the closed loop that
    /// `workload` describes, until all are answered. `observe` sees each answer.
    ///
    /// # Errors
    /// Wrong content, failed requests, and nodes that come to a halt. After an error the
    /// driver must not be used again.
    pub fn run(
        &mut self,
        workload: &Workload,
        generator: &mut Generator,
        requests: u64,
        observe: impl FnMut(&Completion),
    ) -> Result<(), DriveError> {
        let Driver { time, written } = self;
        debug_assert_eq!(time.node.in_flight(), 0, "an earlier run was left unfinished");
        let mut client = ClosedLoop::new(workload, generator, requests, written, time.now, observe);
        time.drive(&mut client)
    }

    /// Lets `span_ns` pass without client requests: time for background work.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn idle(&mut self, span_ns: Time) -> Result<(), DriveError> {
        self.time.idle(span_ns)
    }

    /// Brings the volume to a clean shutdown.
    ///
    /// # Errors
    /// As for [`Driver::run`].
    pub fn stop(&mut self) -> Result<(), DriveError> {
        self.time.stop()
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
        if self.written.oracle.is_none() { Ok(()) } else { self.sweep(1.0, request_blocks) }
    }

    fn sweep(&mut self, read_share: f64, request_blocks: u32) -> Result<(), DriveError> {
        let blocks = self.node().layer.blocks();
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
}

#[cfg(test)]
mod tests;
