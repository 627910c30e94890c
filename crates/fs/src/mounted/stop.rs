//! A clean unmount, phase by phase: calls end, orphans are deleted, what waits for other writes is
//! written, headers are stored, everything is written, and at last the superblock says that the
//! file system is clean.
//!
//! The mark is written after a flush of everything else, and is flushed itself. After a failed
//! write there is no mark: the next mount asks for a check. So it does where something waits for
//! other writes forever, and after a mount that met damaged maps, which leaves the mark of an
//! error.

use super::pending::{Pending, Work};
use super::personality::Personality;
use super::{Mounted, Phase};
use crate::system::FsCx;
use seekless_engine::edge::Edge;

/// The key of the unmount among calls that wait for durability; no parked call has it.
const UNMOUNT: usize = usize::MAX;
/// Rounds of writes after which an unmount gives up what they have not let go on. One is enough for
/// something that waits, unless it has another thing to wait for.
const MOST_ROUNDS: u32 = 1000;

/// How far an unmount is with what waits for other writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    /// The least that was left after a round of writes.
    least: usize,
    /// Rounds since then.
    rounds: u32,
}

impl Waiting {
    /// Takes note of a round that begins. False if many have changed nothing.
    fn goes_on(&mut self, left: usize) -> bool {
        if self.least == 0 || left < self.least {
            *self = Waiting { least: left, rounds: 0 };
        }
        self.rounds += 1;
        self.rounds <= MOST_ROUNDS
    }
}

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
        let phase = self.phase;
        match phase {
            Phase::Running | Phase::Stopped => false,
            Phase::Ordering | Phase::Flushing | Phase::Writing => false,
            Phase::Marking if Edge::UnmountRaw.blocks(self.core.raw_in_flight() > 0) => false,
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
            Phase::Draining if idle && self.core.policy.takes_groups() && self.is_ordering() => {
                self.phase = Phase::Ordering;
                let to = self.core.policy.log_end();
                self.core.settle_log(UNMOUNT, to, cx.below);
                true
            }
            Phase::Draining if idle && self.is_ordering() => {
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
            Phase::Storing if idle && Edge::UnmountMark.stands() => {
                self.phase = Phase::Writing;
                self.core.settle(UNMOUNT, cx.below);
                true
            }
            Phase::Storing if idle => {
                self.phase = Phase::Written;
                true
            }
            Phase::Draining | Phase::Storing => false,
            // What could not be written whole is for a check to mend.
            Phase::Written if self.core.failed().is_some() || self.core.policy.load() > 0 => {
                self.phase = Phase::Stopped;
                true
            }
            Phase::Written => {
                self.phase = Phase::Ending;
                if self.core.policy.takes_groups() {
                    self.core.end_log(cx.below);
                }
                true
            }
            Phase::Ending if self.core.failed().is_some() => {
                self.phase = Phase::Stopped;
                true
            }
            // The log is empty before the file system says that it has none.
            Phase::Ending if Edge::UnmountLog.blocks(!self.core.log_has_ended()) => false,
            Phase::Ending => {
                self.phase = Phase::Marking;
                self.mark_clean(cx);
                true
            }
        }
    }

    /// True if something waits for other writes, and rounds of writes help.
    fn is_ordering(&mut self) -> bool {
        let left = self.core.policy.load();
        left > 0 && self.waiting.goes_on(left)
    }

    fn mark_clean(&mut self, cx: &mut FsCx<'_, '_>) {
        if let Some((block, mark)) = self.format.clean_mark(self.last) {
            self.core.write_raw(block, mark, cx.below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_change_nothing_end() {
        let mut waiting = Waiting::default();
        let rounds = |waiting: &mut Waiting, left| {
            (0..2 * MOST_ROUNDS).take_while(|_| waiting.goes_on(left)).count() as u32
        };
        assert_eq!(rounds(&mut waiting, 7), MOST_ROUNDS);
        assert_eq!(rounds(&mut waiting, 8), 0, "more is no progress");
        assert_eq!(rounds(&mut waiting, 6), MOST_ROUNDS);
    }
}
