//! The clean shutdown: everything durable, then a record that says so, then, on an origin apart, a
//! stale-log marker.

use super::stale_marker::MARKER_BLOCK;
use super::{Dcd, MARKER};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::io::{Io, Purpose};
use seekless_engine::layer::Cx;

/// The record of a clean shutdown, and the stale-log marker behind it on an origin that is apart
/// from its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanRecord {
    /// Its number.
    pub(super) seq: u64,
    /// The writes home that must be durable for the stale-log marker to be; `None` while it is
    /// being written.
    pub(super) marker: Option<u64>,
}

impl CleanRecord {
    /// The marker was written; it is durable when so many writes home are.
    pub fn marker_written(&mut self, stamp: u64) {
        self.marker = Some(stamp);
    }
}

impl Dcd {
    /// Brings a clean shutdown about: everything durable, then a record that says so, then, on an
    /// origin apart, a stale-log marker. True if that record has been appended.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) -> bool {
        let failed = self.requests.failed().is_some();
        match self.requests.shutdown() {
            CleanShutdown::Asked if self.destage.rests() && self.requests.must_leave_clean() => {
                // Until then a flush brings tombstones about, and room in a buffer the rest.
                let cancelled = self.log.killed.is_empty() && self.log.graves.is_empty();
                if cancelled && self.log.has_room(0) {
                    self.clean_record.seq = self.log.end(cx.now);
                    self.requests.advance_shutdown(CleanShutdown::Record);
                    return true;
                }
            }
            CleanShutdown::Record
                if self.destage.rests()
                    && (self.log.durable >= self.clean_record.seq || failed) =>
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
                let durable = self.home_writes.durable()[0];
                if failed || self.clean_record.marker.is_some_and(|stamp| durable >= stamp) {
                    self.requests.end_shutdown();
                }
            }
            _ => {}
        }
        false
    }
}
