//! The clean shutdown of an array: what it does between the last request and the last superblock.

use super::Array;
use super::broadcast::Then;
use seekless_engine::clean_shutdown::CleanShutdown;
use seekless_engine::edge::Edge;
use seekless_engine::layer::Cx;
use seekless_engine::units::Time;

/// What a clean shutdown of an array does before its superblocks are written for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The members are flushed.
    Flushing,
    /// They are.
    Flushed,
    /// The marks of the bitmap are cleared.
    Clearing,
}

impl Array {
    /// The clean shutdown, step by step: everything durable, no marks, a clean superblock.
    pub(super) fn advance_stop(&mut self, cx: &mut Cx<'_>) {
        if self.table.is_running() || self.table.is_shut_down() {
            return;
        }
        let quiet = self.table.is_idle() && self.ops.is_empty();
        let quiet = quiet && self.rebuild.is_resting() && self.scrub.is_resting();
        if self.table.failed().is_some() || self.table.is_read_only() {
            // It leaves no clean state, at whatever step it failed.
            if quiet && self.member_queue.is_idle() {
                self.table.end_shutdown();
            }
            return;
        }
        let sending = self.broadcasts.iter().any(Option::is_some) || self.stale > 0;
        if self.table.shutdown() == CleanShutdown::Record {
            if !sending {
                self.table.end_shutdown();
            }
            return;
        }
        match self.leaving {
            None if quiet && !sending && self.member_flushes.is_empty() => {
                debug_assert_eq!(self.table.shutdown(), CleanShutdown::Asked, "it begins once");
                debug_assert!(!self.superblock.clean, "a running array is not clean");
                match Edge::StopFlush.stands() {
                    true => {
                        self.leaving = Some(Leaving::Flushing);
                        self.flush_members(Then::Stop);
                    }
                    false => self.leaving = Some(Leaving::Flushed),
                }
                self.advance_stop(cx);
            }
            Some(Leaving::Flushed) => {
                debug_assert!(quiet, "something began during the flush of a shutdown");
                self.end_rebuild();
                let marked = self.bitmap.quiet(Time::MAX);
                self.leaving = Some(Leaving::Clearing);
                self.clear = Some((marked, Time::MAX));
                self.advance_broadcasts(cx);
                self.advance_stop(cx);
            }
            Some(Leaving::Clearing) if !sending => {
                debug_assert!(quiet, "something began before the superblocks are clean");
                // The marks went first: a clean superblock says that there are none to look at.
                self.table.advance_shutdown(CleanShutdown::Record);
                self.superblock.clean = true;
                // Twice, as at the start: who misses the end is two behind.
                self.stale = self.stale.max(if Edge::StopTwice.stands() { 2 } else { 1 });
                self.advance_broadcasts(cx);
            }
            _ => {}
        }
    }
}
