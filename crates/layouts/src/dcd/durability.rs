//! What is durable, and which requests wait for it. [`super::flush`] makes more durable,
//! [`super::tombstones`] cancels what the log has of blocks whose home is durable.
//!
//! A write to the log is durable with its record; one that went straight home is durable when its
//! home has been flushed *and* what the log still had of its blocks is cancelled by a tombstone in
//! a durable record. In that order: a tombstone that comes first would cancel the only durable
//! version. (Claim D14 wants it before the write; then a crash between the two loses the block.)

use super::Dcd;
use super::flush::FlushInFlight;
use super::log::Log;
use seekless_engine::layer::{Cx, Port};
use seekless_engine::units::BlockNr;

/// Counts writes home by device, since the first blocks of an attached origin have theirs on the
/// log device.
pub type Stamps = [u64; 2];

/// True if all of `stamps` lie within `limits`.
pub fn within(stamps: Stamps, limits: Stamps) -> bool {
    stamps[0] <= limits[0] && stamps[1] <= limits[1]
}

/// What a request needs before it is answered: that all it stands for is durable.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The last record it needs.
    pub seq: u64,
    /// The writes home that it needs.
    pub homes: Stamps,
    /// Its tombstones have been appended, so that `seq` covers them.
    buried: bool,
    /// It waits until its blocks have been written home.
    pub through: bool,
}

/// Writes home, counted by device: how many are done, and how many of those are durable.
#[derive(Clone, Debug, Default)]
pub struct HomeWrites {
    pub(super) flushing: [Option<FlushInFlight>; 2],
    done: Stamps,
    durable: Stamps,
}

impl HomeWrites {
    /// Writes home that are done, and those that are durable.
    pub fn done(&self) -> Stamps {
        self.done
    }

    /// See [`HomeWrites::done`].
    pub fn durable(&self) -> Stamps {
        self.durable
    }
}

impl Dcd {
    /// Lets a request wait until all that it stands for is durable.
    pub(super) fn wait(&mut self, request: usize, through: bool) {
        let homes = self.home_writes.done;
        let pending = !within(homes, self.home_writes.durable)
            || !self.log.killed.is_empty()
            || !self.log.graves.is_empty();
        let seq = self.log.last_seq();
        self.requests.wait(request, Needs { seq, homes, buried: !pending, through });
    }

    /// Appends tombstones, and answers the requests that wait for what is durable now.
    pub(super) fn answer_durable(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        self.log.bury(cx.now);
        let Dcd { requests, home_writes, log, .. } = self;
        let is_met = |needs: &mut Needs| {
            let homes = within(needs.homes, home_writes.durable);
            if !needs.buried && homes && log.graves.is_empty() {
                needs.buried = true;
                needs.seq = needs.seq.max(log.last_seq());
            }
            let durable = needs.buried && homes && needs.seq <= log.durable;
            durable && (!needs.through || is_home(log, needs.seq))
        };
        requests.answer_met(is_met, cx);
    }

    /// A write to a home is complete.
    pub(super) fn home_written(&mut self, port: Port) {
        self.home_writes.done[port] += 1;
        self.first_blocks_written(port);
        if !self.volatile {
            self.home_durable(port, self.home_writes.done[port]);
        }
    }

    /// Writes home up to a stamp are durable: what the log had of those blocks may go.
    pub(super) fn home_durable(&mut self, port: Port, stamp: u64) {
        debug_assert!(stamp <= self.home_writes.done[port], "what is durable has been written");
        self.home_writes.durable[port] = self.home_writes.durable[port].max(stamp);
        self.bury_killed();
    }

    /// The device on which a block has its home.
    pub(super) fn home_port(&self, block: BlockNr) -> Port {
        if block < self.areas.moved { 1 } else { 0 }
    }
}

/// True if everything in the records up to `seq` is durable at home.
fn is_home(log: &Log, seq: u64) -> bool {
    let segment = |number: u64| log.segments[log.place(number)];
    let mut numbers = log.tail..=log.head;
    !numbers.any(|number| segment(number).first_seq <= seq && segment(number).dirty > 0)
}
