//! When a reclaim runs: a step between two calls while no call is under way, one a second while
//! calls are, and all at once while a call waits for space.

use super::Reclaimed;
use crate::ffs::flow::{Pending, Work};
use crate::ffs::stop::Phase;
use crate::ffs::system::Ffs;
use crate::ffs::volume::Owed;
use crate::system::FsCx;
use seekless_engine::units::{SECONDS, Time};

/// A step is put off so long at most while calls are under way.
const BUSY: Time = SECONDS;

/// When the steps of a reclaim run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// A step is under way.
    pub running: bool,
    /// When the next one is due.
    pub due: Option<Time>,
    /// What the last reclaim has freed.
    last: Reclaimed,
}

impl Ffs {
    /// What the reclaim since the mount has freed. It has come to its end when
    /// [`Ffs::may_leak`] says so.
    pub fn reclaimed(&self) -> Reclaimed {
        self.volume.reclaimed().unwrap_or(self.pace.last)
    }

    /// True while a reclaim is under way.
    pub fn reclaims(&self) -> bool {
        self.volume.reclaim.is_some()
    }

    /// True if a reclaim is under way and may still make room.
    pub(crate) fn may_reclaim(&self) -> bool {
        self.volume.reclaim.is_some() && !self.core.is_read_only()
    }

    /// True if the next step can run: it has a mount to run in, and waits for nothing.
    fn can_step(&self) -> bool {
        let Some(reclaim) = &self.volume.reclaim else { return false };
        let waits = reclaim.waits_for_frees() && self.volume.owed() != Owed::default();
        let mounted = self.phase == Phase::Running || !self.no_room.is_empty();
        !self.pace.running && !waits && mounted && !self.core.is_read_only()
    }

    /// When the next step runs, if nothing else happens.
    pub(crate) fn reclaims_at(&self) -> Option<Time> {
        let due = self.pace.due.filter(|_| self.can_step())?;
        let is_idle = self.pending() == 0 || !self.no_room.is_empty();
        Some(if is_idle { due } else { due + BUSY })
    }

    /// Runs a step if it is due.
    pub(crate) fn reclaim(&mut self, cx: &mut FsCx<'_, '_>) {
        if !self.can_step() {
            return;
        }
        let pause = if self.no_room.is_empty() { self.core.options().idle_step } else { 0 };
        let next = cx.now() + pause;
        self.pace.due = Some(self.pace.due.map_or(next, |due| due.min(next)));
        if self.reclaims_at().is_some_and(|at| at <= cx.now()) {
            (self.pace.running, self.pace.due) = (true, None);
            self.queue.push_back(Pending::own(Work::Reclaim, self.last));
            self.run_ready(cx);
            if self.can_step() {
                self.pace.due = Some(next);
            }
        }
    }

    /// A step has come to its end. After one that has failed the leaks stay for a repair.
    pub(crate) fn reclaim_stepped(&mut self, failed: bool) {
        self.pace.running = false;
        let Some(reclaim) = &self.volume.reclaim else { return };
        let (is_complete, done) = (reclaim.is_complete(), reclaim.done());
        let room = |done: Reclaimed| (done.fragments, done.inodes);
        let freed = room(done) != room(self.pace.last);
        let leaves = failed || reclaim.leaves_two_names();
        self.pace.last = done;
        if failed || is_complete {
            self.volume.reclaim = None;
            self.leaks &= leaves;
            if !leaves {
                self.volume.have_one_name();
            }
        }
        if failed || is_complete || freed {
            self.space_came();
        }
    }

    /// Calls that wait for space run again.
    pub(crate) fn space_came(&mut self) {
        let waiting = std::mem::take(&mut self.no_room);
        waiting.into_iter().for_each(|key| self.core.make_ready(key));
    }
}
