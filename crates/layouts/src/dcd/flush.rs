//! When a device is flushed, and what that makes durable.

use super::durability::Stamps;
use super::{Dcd, FLUSH};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::edge::Edge;
use seekless_engine::io::Done;
use seekless_engine::layer::{Cx, Port};

/// What a flush in flight makes durable: all that was on the device when it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushInFlight {
    /// Records up to this one.
    seq: u64,
    /// So many writes home.
    homes: u64,
}

impl Dcd {
    /// Flushes the devices where something waits for durability.
    pub(super) fn advance_flushes(&mut self, cx: &mut Cx<'_>) {
        if !self.volatile || self.requests.failed().is_some() {
            return;
        }
        for port in 0..=self.log_port() {
            if self.home_writes.flushing[port].is_none() && self.wants_flush(port) {
                let homes = self.home_writes.done()[port];
                let mark = FlushInFlight { seq: self.log.written, homes };
                debug_assert!(self.home_writes.durable()[port] <= mark.homes);
                self.home_writes.flushing[port] = Some(mark);
                self.send(port, Edge::DcdFlush.flush(FLUSH), cx);
            }
        }
    }

    /// True if somewhere below a port lies what a request, the destager or a shutdown waits for.
    fn wants_flush(&self, port: Port) -> bool {
        let records = port == self.log_port() && self.wants_durable_records();
        records || self.wants_durable_homes(port) || self.wants_durable_marker(port)
    }

    /// True if something waits for a record that is on the device and not durable.
    fn wants_durable_records(&self) -> bool {
        let log = &self.log;
        let ready = |seq: u64| seq > log.durable && seq <= log.written;
        let ends = self.requests.shutdown() == CleanShutdown::Record;
        log.durable < log.written
            && (self.requests.any_waits(|needs| ready(needs.seq))
                || log.wants_flush()
                || self.destage.wants_log()
                || ready(log.progress.wanted())
                || (ends && ready(self.clean_record.seq)))
    }

    /// True if something waits for a write home that is done and not durable.
    fn wants_durable_homes(&self, port: Port) -> bool {
        let durable = self.home_writes.durable()[port];
        let missing = |stamps: Stamps| stamps[port] > durable;
        let killed = !self.log.killed.is_empty();
        let pressed = killed && (self.is_pressed() || !self.requests.is_running());
        self.requests.any_waits(|needs| missing(needs.homes))
            || self.destage.waits_for().is_some_and(missing)
            || (pressed && missing(self.home_writes.done()))
    }

    /// True if a shutdown waits for the last stale-log marker, which is on the origin.
    fn wants_durable_marker(&self, port: Port) -> bool {
        let durable = self.home_writes.durable()[port];
        port == 0
            && self.requests.shutdown() == CleanShutdown::Flush
            && self.clean_record.marker.is_some_and(|stamp| stamp > durable)
    }

    /// A flush has been answered.
    pub(super) fn flush_done(&mut self, port: Port, done: Done, cx: &mut Cx<'_>) {
        let Some(FlushInFlight { seq, homes }) = self.home_writes.flushing[port].take() else {
            return;
        };
        let mark = FlushInFlight {
            seq: Edge::DcdFlushCoversRecords.covers(seq, self.log.written),
            homes: Edge::DcdFlushCoversHomes.covers(homes, self.home_writes.done()[port]),
        };
        if let Err(error) = done.outcome {
            // Never tried again: what the device has dropped it may call clean the next time.
            self.fail_volume(error, cx);
            return;
        }
        if self.requests.failed().is_some() {
            return;
        }
        debug_assert!(mark.seq <= self.log.written, "a flush covers what was written");
        self.requests.spend_on_waiters(&done.spent);
        if port == self.log_port() {
            self.log.made_durable(mark.seq);
            if self.log.writing.is_none() && mark.seq >= self.log.written {
                self.gaps.durable(cx.now);
            }
        }
        self.home_durable(port, mark.homes);
        self.answer_durable(cx);
    }
}
