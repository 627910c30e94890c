//! The clean shutdown: everything durable, then a record that says so. On an origin apart what is
//! left in the log goes home before that, as far as it can in a while. If all of it is home the
//! origin gets its first blocks back, else it gets a stale-log marker.

use super::stale_marker::MARKER_BLOCK;
use super::{Dcd, MARKER};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::io::{Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::units::{SECONDS, Time};

/// A clean shutdown writes home for so long at the most.
const PATIENCE: Time = 10 * SECONDS;

/// The record of a clean shutdown, and what follows it on an origin that is apart from its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanRecord {
    /// Its number.
    pub(super) seq: u64,
    /// The writes home that must be durable for the stale-log marker to be; `None` while it is
    /// being written.
    pub(super) marker: Option<u64>,
    /// When the shutdown was asked for.
    pub(super) asked: Time,
    /// Writing home took too long.
    gave_up: bool,
    /// The origin is given its first blocks back.
    releases: bool,
}

impl CleanRecord {
    /// The marker was written; it is durable when so many writes home are.
    pub fn marker_written(&mut self, stamp: u64) {
        self.marker = Some(stamp);
    }
}

impl Dcd {
    /// True if nothing is in the log or in memory only.
    fn is_home(&self) -> bool {
        self.log.dirty() == 0 && self.log.buffers.is_empty() && self.log.writing.is_none()
    }

    /// Until when a clean shutdown writes home what is in the log of an origin apart, if it does.
    pub(super) fn leaves_until(&self) -> Option<Time> {
        let asked = self.requests.shutdown() == CleanShutdown::Asked;
        let may = asked && self.markers.is_some() && self.requests.failed().is_none();
        let goes = may && !self.is_home() && !self.destage.is_stuck();
        let goes = goes && !self.clean_record.gave_up;
        goes.then_some(self.clean_record.asked + PATIENCE)
    }

    /// Brings a clean shutdown about. True if there is something to go on with at once.
    pub(super) fn advance_shutdown(&mut self, cx: &mut Cx<'_>) -> bool {
        let failed = self.requests.failed().is_some();
        self.clean_record.gave_up |= self.leaves_until().is_some_and(|end| end <= cx.now);
        let rests = self.destage.rests() && self.leaves_until().is_none();
        let rests = rests && (self.moving.is_none() || failed);
        match self.requests.shutdown() {
            CleanShutdown::Asked if rests && self.requests.must_leave_clean() => {
                // Until then a flush brings tombstones about, and room in a buffer the rest.
                let cancelled = self.log.killed.is_empty() && self.log.graves.is_empty();
                let recorded = self.log.progress.is_recorded() || !self.log.has_place();
                if cancelled && recorded && self.log.has_room(0) {
                    self.clean_record.seq = self.log.end(cx.now);
                    self.requests.advance_shutdown(CleanShutdown::Record);
                    return true;
                }
            }
            CleanShutdown::Record
                if self.destage.rests()
                    && (self.log.durable >= self.clean_record.seq || failed) =>
            {
                if !failed && self.is_home() && self.begin_release() {
                    self.clean_record.releases = true;
                    self.requests.advance_shutdown(CleanShutdown::Flush);
                    return true;
                }
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
                let over = match self.clean_record.releases {
                    true => self.moving.is_none(),
                    false => self.clean_record.marker.is_some_and(|stamp| durable >= stamp),
                };
                if failed || over {
                    self.requests.end_shutdown();
                }
            }
            _ => {}
        }
        false
    }
}
