//! When background work runs: a step between two calls while no call is under way, one a second
//! while calls are, and all at once while a call waits for space.

use super::pending::{Pending, Work};
use super::personality::{Background, Personality};
use super::{Mounted, Phase};
use crate::system::FsCx;
use seekless_engine::units::{SECONDS, Time};

/// A step is put off so long at most while calls are under way.
const BUSY: Time = SECONDS;

impl<P: Personality> Mounted<P> {
    /// True if background work is under way that may still make room.
    pub(crate) fn may_make_room(&self) -> bool {
        self.format.background() != Background::None && !self.core.is_read_only()
    }

    /// True if the next step can run: it has a mount to run in, and waits for nothing.
    fn can_step(&self) -> bool {
        let mounted = self.phase == Phase::Running || !self.no_room.is_empty();
        self.format.background() == Background::Ready
            && !self.pace.running
            && self.may_move()
            && mounted
            && !self.core.is_read_only()
    }

    /// When the next step runs, if nothing else happens.
    pub(crate) fn steps_at(&self) -> Option<Time> {
        let due = self.pace.due.filter(|_| self.can_step())?;
        let is_idle = self.pending() == 0 || !self.no_room.is_empty();
        Some(if is_idle { due } else { due + BUSY })
    }

    /// Runs a step if it is due.
    pub(crate) fn work_in_background(&mut self, cx: &mut FsCx<'_, '_>) {
        if !self.can_step() {
            return;
        }
        let pause = if self.no_room.is_empty() { self.core.options().idle_step } else { 0 };
        let next = cx.now() + pause;
        self.pace.due = Some(self.pace.due.map_or(next, |due| due.min(next)));
        if self.steps_at().is_some_and(|at| at <= cx.now()) {
            (self.pace.running, self.pace.due) = (true, None);
            self.queue.push_back(Pending::own(Work::Background, self.last));
            self.run_ready(cx);
            if self.can_step() {
                self.pace.due = Some(next);
            }
        }
    }

    /// A step has come to its end.
    pub(crate) fn background_stepped(&mut self, failed: bool) {
        self.pace.running = false;
        if self.format.background_stepped(failed) {
            self.space_came();
        }
    }

    /// Calls that wait for space run again.
    pub(crate) fn space_came(&mut self) {
        let waiting = std::mem::take(&mut self.no_room);
        waiting.into_iter().for_each(|key| self.core.make_ready(key));
    }
}
