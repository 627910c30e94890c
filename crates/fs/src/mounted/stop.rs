//! A clean unmount, phase by phase: calls end, orphans are deleted, what waits for other writes is
//! written, headers are stored, everything is written, and at last the superblock says that the
//! file system is clean.
//!
//! The mark is written after a flush of everything else, and is flushed itself. After a failed
//! write there is no mark: the next mount asks for a check. So it does after a mount that met
//! damaged maps, which leaves the mark of an error.

use super::pending::{Pending, Work};
use super::personality::Personality;
use super::{Mounted, Phase};
use crate::system::FsCx;

/// The key of the unmount among calls that wait for durability; no parked call has it.
const UNMOUNT: usize = usize::MAX;

impl<P: Personality> Mounted<P> {
    /// Begins a clean unmount.
    pub(crate) fn begin_stopping(&mut self, cx: &mut FsCx<'_, '_>) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Draining;
        self.delete_all_now();
        self.reap_orphans();
        self.run_ready(cx);
        self.go_on_stopping(cx);
    }

    /// Makes work of deleting all objects without a name. True if there were some.
    fn reap_orphans(&mut self) -> bool {
        let orphans = self.handles.take_orphans();
        for &ino in orphans.iter() {
            self.queue.push_back(Pending::own(Work::Reap(ino), self.last));
        }
        !orphans.is_empty()
    }

    /// What the unmount waited for is durable.
    pub(crate) fn stop_settled(&mut self) {
        self.phase = match self.phase {
            Phase::Ordering => Phase::Draining,
            Phase::Writing => Phase::Written,
            Phase::Flushing => Phase::Stopped,
            other => other,
        };
    }

    /// Goes from phase to phase as far as it can.
    pub(crate) fn go_on_stopping(&mut self, cx: &mut FsCx<'_, '_>) {
        while self.next_phase(cx) {
            self.run_ready(cx);
        }
    }

    /// One phase further. False if it has to wait, or is mounted.
    fn next_phase(&mut self, cx: &mut FsCx<'_, '_>) -> bool {
        let idle = self.pending() == 0;
        // Calls that were under way have removed last names, and no client forgets the objects.
        if self.phase == Phase::Draining && idle && self.reap_orphans() {
            return true;
        }
        match self.phase {
            Phase::Running | Phase::Stopped => false,
            Phase::Ordering | Phase::Flushing | Phase::Writing => false,
            Phase::Marking if self.core.raw_in_flight() > 0 => false,
            // The flush covers only what has completed before it.
            Phase::Marking => {
                self.phase = Phase::Flushing;
                self.core.settle(UNMOUNT, cx.below);
                true
            }
            Phase::Draining if idle && self.core.is_read_only() => {
                let quiet = self.core.in_flight() == 0;
                if quiet {
                    self.phase = Phase::Stopped;
                }
                quiet
            }
            Phase::Draining if idle && self.core.policy.load() > 0 => {
                self.phase = Phase::Ordering;
                let blocks = self.unguarded(self.core.cache.unwritten());
                self.core.settle_blocks(UNMOUNT, &blocks, cx.below);
                true
            }
            Phase::Draining if idle => {
                self.phase = Phase::Storing;
                if self.format.is_behind() {
                    self.start_storing();
                }
                true
            }
            Phase::Storing if idle => {
                self.phase = Phase::Writing;
                self.core.settle(UNMOUNT, cx.below);
                true
            }
            Phase::Draining | Phase::Storing => false,
            Phase::Written if self.core.failed().is_some() => {
                self.phase = Phase::Stopped;
                true
            }
            Phase::Written => {
                self.phase = Phase::Marking;
                self.mark_clean(cx);
                true
            }
        }
    }

    fn mark_clean(&mut self, cx: &mut FsCx<'_, '_>) {
        let (block, mark) = self.format.clean_mark(self.last);
        self.core.write_raw(block, mark, cx.below);
    }
}
