//! What is durable, and who waits for it: flushes, forced writes, the clean shutdown.
//!
//! A write to the log is durable with its record; one that went straight home is durable when its
//! home has been flushed *and* what the log still had of its blocks is cancelled by a tombstone in
//! a durable record. In that order: a tombstone that comes first would cancel the only durable
//! version. (Claim D14 wants it before the write; then a crash between the two loses the block.)

use super::log::Log;
use super::stale_marker::MARKER_BLOCK;
use super::{Dcd, FLUSH, MARKER, format};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::io::{Done, Io, Purpose};
use seekless_engine::layer::{Cx, Port};
use seekless_engine::planted::{PlantedBug, planted};
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
    homes: Stamps,
    /// Its tombstones have been appended, so that `seq` covers them.
    buried: bool,
    /// It waits until its blocks have been written home.
    pub through: bool,
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
}

/// What a clean shutdown leaves behind the last record on an origin that is apart from its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    /// The last record.
    seq: u64,
    /// The writes home that must be durable for the stale-log marker to be; `None` while it is
    /// being written.
    marker: Option<u64>,
}

impl Farewell {
    /// The marker was written; it is durable when so many writes home are.
    pub fn marker_written(&mut self, stamp: u64) {
        self.marker = Some(stamp);
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
        self.requests.wait(request, Needs { seq, homes, buried: !pending, through });
    }

    /// Appends tombstones, and answers requests that wait for what is durable now.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        self.log.bury(cx.now);
        let Dcd { requests, settling, log, .. } = self;
        let is_met = |needs: &mut Needs| {
            let homes = within(needs.homes, settling.durable);
            if !needs.buried && homes && log.graves.is_empty() {
                needs.buried = true;
                needs.seq = needs.seq.max(log.last_seq());
            }
            let settled = needs.buried && homes && needs.seq <= log.durable;
            settled && (!needs.through || is_home(log, needs.seq))
        };
        requests.answer_met(is_met, cx);
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

    /// Flushes the devices on which a request waits for durability.
    pub(super) fn advance_flushes(&mut self, cx: &mut Cx<'_>) {
        if !self.volatile || self.requests.failed().is_some() {
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
            && (self.requests.any_waits(|needs| ready(needs.seq))
                || log.wants_flush()
                || self.destage.wants_log()
                || (self.requests.shutdown() == CleanShutdown::Record && ready(self.farewell.seq)));
        let durable = self.settling.durable[port];
        let missing = |stamps: Stamps| stamps[port] > durable;
        let pressed = !log.killed.is_empty() && (self.is_pressed() || !self.requests.is_running());
        let homes = self.requests.any_waits(|needs| missing(needs.homes))
            || self.destage.waits_for().is_some_and(missing)
            || (pressed && missing(self.settling.done));
        let noted = port == 0
            && self.requests.shutdown() == CleanShutdown::Flush
            && self.farewell.marker.is_some_and(|stamp| stamp > durable);
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
        if self.requests.failed().is_some() {
            return;
        }
        self.requests.spend_on_waiters(&done.spent);
        if port == self.log_port() {
            self.log.made_durable(mark.seq);
            if self.log.writing.is_none() && mark.seq >= self.log.written {
                self.gaps.durable(cx.now);
            }
        }
        self.home_durable(port, mark.homes);
        self.settle(cx);
    }

    /// Brings a clean shutdown about: everything durable, then a record that says so, then, on an
    /// origin apart, a stale-log marker. True if that record has been appended.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) -> bool {
        let failed = self.requests.failed().is_some();
        match self.requests.shutdown() {
            CleanShutdown::Asked if self.destage.rests() && self.requests.must_leave_clean() => {
                // Until then a flush brings tombstones about, and room in a buffer the rest.
                let settled = self.log.killed.is_empty() && self.log.graves.is_empty();
                if settled && self.log.has_room(0) {
                    self.farewell.seq = self.log.end(cx.now);
                    self.requests.advance_shutdown(CleanShutdown::Record);
                    return true;
                }
            }
            CleanShutdown::Record
                if self.destage.rests() && (self.log.durable >= self.farewell.seq || failed) =>
            {
                let marker = if failed { None } else { self.last_marker() };
                let Some(marker) = marker else {
                    self.requests.end_shutdown();
                    return false;
                };
                self.requests.advance_shutdown(CleanShutdown::Flush);
                let io = Io::write(MARKER, MARKER_BLOCK, marker).for_purpose(Purpose::Destaging);
                self.send(0, io, cx);
            }
            CleanShutdown::Flush => {
                let durable = self.settling.durable[0];
                if failed || self.farewell.marker.is_some_and(|stamp| durable >= stamp) {
                    self.requests.end_shutdown();
                }
            }
            _ => {}
        }
        false
    }
}

/// True if everything in the records up to `seq` is durable at home.
fn is_home(log: &Log, seq: u64) -> bool {
    let segment = |number: u64| log.segments[log.place(number)];
    let mut numbers = log.tail..=log.head;
    !numbers.any(|number| segment(number).first_seq <= seq && segment(number).dirty > 0)
}
