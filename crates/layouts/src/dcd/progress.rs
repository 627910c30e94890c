//! Progress of destaging: which blocks are home, as the log records it.
//!
//! A block that is durable at home stays in its old record, and a recovery would write it home
//! again. A tombstone says that it need not. Tombstones of progress travel for nothing in the
//! headers of records that are written anyway. Where no client writes, a record of their own
//! follows once a second, and when nothing is left to destage. Then the log is flushed.
//!
//! Between calls each listed block has its content durable at home, and no younger version
//! anywhere.

use super::Dcd;
use super::format::MAX_ENTRIES;
use super::log::{Buffer, Log, Slot};
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::units::{SECONDS, Time};
use std::collections::BTreeSet;

/// Longest time between a block coming home and the record that says so.
const PAUSE: Time = SECONDS;

/// What is home and not recorded yet.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Blocks that came home since the last time progress was due.
    fresh: BTreeSet<u32>,
    /// Blocks that came home before: their tombstones do not wait for another record.
    overdue: BTreeSet<u32>,
    due: Option<Time>,
    /// The last record with progress in it.
    recorded: u64,
    /// The record that must become durable, though no client waits for it.
    wanted: u64,
}

impl Progress {
    /// A block is durable at home, and no version of it is younger.
    pub fn came_home(&mut self, block: u32, now: Time) {
        self.fresh.insert(block);
        self.due.get_or_insert(now + PAUSE);
    }

    /// A block has a younger version, or no record that counts has it.
    pub fn forget(&mut self, block: u32) {
        self.fresh.remove(&block);
        self.overdue.remove(&block);
    }

    /// The record with progress that a flush must make durable.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// True if all progress is in a record, or will be.
    pub fn is_recorded(&self) -> bool {
        self.fresh.is_empty() && self.overdue.is_empty()
    }

    /// Progress is due.
    pub(super) fn fall_due(&mut self) {
        self.due = None;
        self.overdue.append(&mut self.fresh);
        if self.overdue.is_empty() {
            self.wanted = self.recorded;
        }
    }

    /// Adds tombstones to a record that is about to be written.
    fn enter(&mut self, buffer: &mut Buffer) {
        let before = buffer.slots.len();
        let overdue = !self.overdue.is_empty();
        while buffer.slots.len() < MAX_ENTRIES {
            let Some(block) = self.overdue.pop_first().or_else(|| self.fresh.pop_first()) else {
                break;
            };
            buffer.slots.push(Slot::tombstone(block));
        }
        if buffer.slots.len() > before {
            self.recorded = buffer.seq;
        }
        if overdue && self.overdue.is_empty() {
            self.wanted = buffer.seq;
        }
    }
}

impl Log {
    /// Adds what is known of progress to a record that is about to be written.
    pub fn enter_progress(&mut self, buffer: &mut Buffer) {
        self.progress.enter(buffer);
        if self.dirty() == 0 && buffer.data == 0 {
            // Its tail says it of all of them.
            self.progress.fresh.clear();
            self.progress.overdue.clear();
            (self.progress.recorded, self.progress.wanted) = (buffer.seq, buffer.seq);
        }
    }

    /// True if a record without data has a place.
    pub fn has_place(&self) -> bool {
        self.offset < self.areas.segment || self.may_begin(self.head + 1)
    }
}

impl Dcd {
    /// True if progress may be recorded: nothing follows the record of a clean shutdown.
    fn records_progress(&self) -> bool {
        self.requests.shutdown() <= CleanShutdown::Asked && self.requests.failed().is_none()
    }

    /// When progress is due, if that is recorded at all.
    pub(super) fn progress_due(&self) -> Option<Time> {
        self.log.progress.due.filter(|_| self.records_progress())
    }

    /// Opens a record for progress that is due, if no other record is about to take it along; true
    /// if it has.
    pub(super) fn advance_progress(&mut self, now: Time) -> bool {
        if !self.records_progress() {
            return false;
        }
        let over = self.log.dirty() == 0 && !self.destage.has_batch();
        let log = &mut self.log;
        let due = log.progress.due.is_some_and(|due| due <= now || over);
        if due || (!self.requests.is_running() && !log.progress.is_recorded()) {
            log.progress.fall_due();
        }
        let idle = log.buffers.is_empty() && log.writing.is_none();
        if log.progress.overdue.is_empty() || !idle || !log.has_place() {
            return false;
        }
        let index = log.open(0, now);
        let Log { progress, buffers, .. } = log;
        // The others follow when it is about to be written.
        buffers[index].slots.extend(progress.overdue.pop_first().map(Slot::tombstone));
        (progress.recorded, progress.wanted) = (buffers[index].seq, buffers[index].seq);
        true
    }
}
