//! What is durable, and who waits for it: flushes, forced writes, the clean shutdown.
//!
//! A write to the log is durable with its record; one that went straight home is durable when its
//! home has been flushed *and* what the log still had of its blocks is cancelled by a tombstone in
//! a durable record. In that order: a tombstone that comes first would cancel the only durable
//! version. (Claim D14 wants it before the write; then a crash between the two loses the block.)

use super::stale_marker::MARKER_BLOCK;
use super::{Dcd, FLUSH, MARKER, Request, format};
use seekless_engine::io::{Breakdown, Done, Io, Purpose};
use seekless_engine::layer::{Cx, Port};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BlockNr;
use slab::Slab;

/// Counts writes home by device, since the first blocks of an attached origin have theirs on the
/// log device.
pub type Stamps = [u64; 2];

/// True if all of `stamps` lie within `limits`.
pub fn within(stamps: Stamps, limits: Stamps) -> bool {
    stamps[0] <= limits[0] && stamps[1] <= limits[1]
}

/// A request that is answered when it is durable.
#[derive(Clone, Debug)]
struct Waiter {
    request: usize,
    /// The last record it needs.
    seq: u64,
    /// The writes home that it needs.
    homes: Stamps,
    /// Its tombstones have been appended, so that `seq` covers them.
    buried: bool,
    /// It waits until its blocks have been written home.
    through: bool,
}

/// What a flush in flight makes durable.
#[derive(Clone, Copy, Debug)]
struct Mark {
    seq: u64,
    homes: u64,
}

/// Durability of what is at home, and who waits.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    waiters: Vec<Waiter>,
    flushing: [Option<Mark>; 2],
    done: Stamps,
    durable: Stamps,
}

impl Settling {
    /// Writes home that are done, and those that are durable.
    pub fn done(&self) -> Stamps {
        self.done
    }

    /// See [`Settling::done`].
    pub fn durable(&self) -> Stamps {
        self.durable
    }

    /// Nothing more will be durable: hands back who waits.
    pub fn give_up(&mut self) -> Vec<usize> {
        self.waiters.drain(..).map(|waiter| waiter.request).collect()
    }

    /// True if somebody waits for blocks to be written home.
    pub fn wants_home(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.through)
    }

    /// Tells whoever waited for a record what it took.
    pub fn charge(&self, seq: u64, spent: &Breakdown, requests: &mut Slab<Request>) {
        for waiter in self.waiters.iter().filter(|waiter| waiter.seq == seq) {
            requests[waiter.request].spent.add(spent);
        }
    }
}

/// A clean shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Not asked for.
    #[default]
    No,
    /// Asked for.
    Asked,
    /// The last record is on its way.
    CleanShutdown(u64),
    /// The origin is about to know of it.
    Noting,
    /// It does, once so many writes home are durable.
    Noted(u64),
    /// Complete.
    Done,
}

impl Stop {
    /// Asks for it.
    pub fn ask(&mut self) {
        if *self == Stop::No {
            *self = Stop::Asked;
        }
    }

    /// True if it is complete.
    pub fn is_done(self) -> bool {
        self == Stop::Done
    }
}

impl Dcd {
    /// Lets a request wait until all that it stands for is durable.
    pub(super) fn wait(&mut self, request: usize, through: bool) {
        let homes = self.settling.done;
        let pending = !within(homes, self.settling.durable)
            || !self.log.killed.is_empty()
            || !self.log.graves.is_empty();
        let seq = match planted(PlantedBug::AckBeforeDurable) {
            true => 0,
            false => self.log.last_seq(),
        };
        let waiter = Waiter { request, seq, homes, buried: !pending, through };
        self.settling.waiters.push(waiter);
    }

    /// Appends tombstones, and answers whoever waits for what is durable now.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) {
        if self.failed.is_some() {
            return;
        }
        self.log.bury(cx.now);
        let mut waiters = std::mem::take(&mut self.settling.waiters);
        waiters.retain_mut(|waiter| {
            let homes = within(waiter.homes, self.settling.durable);
            if !waiter.buried && homes && self.log.graves.is_empty() {
                waiter.buried = true;
                waiter.seq = waiter.seq.max(self.log.last_seq());
            }
            let settled = waiter.buried && homes && waiter.seq <= self.log.durable;
            let done = settled && (!waiter.through || self.is_home(waiter.seq));
            if done {
                self.answer(waiter.request, cx);
            }
            !done
        });
        self.settling.waiters = waiters;
    }

    /// True if everything in the records up to `seq` is durable at home.
    fn is_home(&self, seq: u64) -> bool {
        let segment = |number: u64| self.log.segments[self.log.place(number)];
        let mut numbers = self.log.tail..=self.log.head;
        !numbers.any(|number| segment(number).first_seq <= seq && segment(number).dirty > 0)
    }

    /// A write to a home is complete.
    pub(super) fn home_written(&mut self, port: Port) {
        self.settling.done[port] += 1;
        if !self.volatile || planted(PlantedBug::MissingFlush) {
            self.home_durable(port, self.settling.done[port]);
        }
    }

    /// Writes home up to a stamp are durable: what the log had of those blocks may go.
    pub(super) fn home_durable(&mut self, port: Port, stamp: u64) {
        self.settling.durable[port] = self.settling.durable[port].max(stamp);
        self.settle_killed();
    }

    /// Buries the blocks whose content at home has become durable. Where a younger version has come
    /// to the log meanwhile, that stands for a tombstone.
    pub(super) fn settle_killed(&mut self) {
        let durable = self.settling.durable;
        let killed = std::mem::take(&mut self.log.killed);
        for (block, (addrs, stamp)) in killed {
            // One number stands for both devices: a block has one home only.
            let port = self.home_port(u64::from(block));
            if stamp <= durable[port] || planted(PlantedBug::TombstoneEarly) {
                addrs.into_iter().for_each(|addr| self.log.release(addr));
                if self.log.table.get(block).is_none() {
                    self.log.graves.insert(block);
                }
            } else {
                self.log.killed.insert(block, (addrs, stamp));
            }
        }
    }

    /// The device on which a block has its home.
    pub(super) fn home_port(&self, block: BlockNr) -> Port {
        if self.areas.physical && block < format::BOUND_BLOCKS { 1 } else { 0 }
    }

    /// Flushes the devices on which somebody waits for durability.
    pub(super) fn advance_flushes(&mut self, cx: &mut Cx<'_>) {
        if !self.volatile || self.failed.is_some() {
            return;
        }
        for port in 0..=self.log_port() {
            if self.settling.flushing[port].is_none() && self.wants_flush(port) {
                let mark = Mark { seq: self.log.written, homes: self.settling.done[port] };
                self.settling.flushing[port] = Some(mark);
                self.send(port, Io::flush(FLUSH), cx);
            }
        }
    }

    fn wants_flush(&self, port: Port) -> bool {
        let log = &self.log;
        let unflushed = log.durable < log.written;
        let ready = |seq: u64| seq > log.durable && seq <= log.written;
        let records = port == self.log_port()
            && unflushed
            && (self.settling.waiters.iter().any(|waiter| ready(waiter.seq))
                || log.wants_flush()
                || self.destage.wants_log()
                || matches!(self.stop, Stop::CleanShutdown(seq) if ready(seq)));
        let durable = self.settling.durable[port];
        let missing = |stamps: Stamps| stamps[port] > durable;
        let pressed = !log.killed.is_empty() && (self.is_pressed() || self.stop != Stop::No);
        let homes = self.settling.waiters.iter().any(|waiter| missing(waiter.homes))
            || self.destage.waits_for().is_some_and(missing)
            || (pressed && missing(self.settling.done));
        let noted = port == 0 && matches!(self.stop, Stop::Noted(stamp) if stamp > durable);
        records || homes || noted
    }

    /// A flush has been answered.
    pub(super) fn flush_done(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        let Some(mark) = self.settling.flushing[port].take() else { return };
        if let Err(error) = done.outcome {
            // Never tried again: what the device has dropped it may call clean the next time.
            self.fail_volume(error, cx);
            return;
        }
        if self.failed.is_some() {
            return;
        }
        for waiter in &self.settling.waiters {
            self.requests[waiter.request].spent.add(&done.spent);
        }
        if port == self.log_port() {
            self.log.made_durable(mark.seq);
            if self.log.writing.is_none() && mark.seq >= self.log.written {
                self.gaps.durable(cx.now);
            }
        }
        self.home_durable(port, mark.homes);
        self.settle(cx);
    }

    /// Brings a clean shutdown about: everything durable, then a record that says so. True if that
    /// record has been appended.
    pub(super) fn advance_stop(&mut self, cx: &mut Cx<'_>) -> bool {
        match self.stop {
            Stop::Asked if self.requests.is_empty() && self.destage.rests() => {
                if self.failed.is_some() || self.read_only {
                    self.stop = Stop::Done;
                    return false;
                }
                // Until then a flush brings tombstones about, and room in a buffer the rest.
                let settled = self.log.killed.is_empty() && self.log.graves.is_empty();
                if settled && self.log.has_room(0) {
                    self.stop = Stop::CleanShutdown(self.log.end(cx.now));
                    return true;
                }
            }
            Stop::CleanShutdown(seq)
                if self.destage.rests() && (self.log.durable >= seq || self.failed.is_some()) =>
            {
                let stale_marker = if self.failed.is_none() { self.last_marker() } else { None };
                let Some(stale_marker) = stale_marker else {
                    self.stop = Stop::Done;
                    return false;
                };
                self.stop = Stop::Noting;
                let io =
                    Io::write(MARKER, MARKER_BLOCK, stale_marker).for_purpose(Purpose::Destaging);
                self.send(0, io, cx);
            }
            Stop::Noted(stamp) if self.settling.durable[0] >= stamp || self.failed.is_some() => {
                self.stop = Stop::Done;
            }
            Stop::Noting if self.failed.is_some() => self.stop = Stop::Done,
            _ => {}
        }
        false
    }
}
