//! Deletions that read: under soft updates they wait until the file system is idle.
//!
//! An inode without names and users is deleted by the file system itself, and no call waits for
//! that. If the deletion misses a block, an indirect block say, its read would be in the way of
//! calls. So it is put off: until no call has come for a while, space or a sync is wanted, the
//! unmount begins, or it has waited for as long as a write may. A crash before leaves an inode
//! without names, as one before the deletion reaches the disk does.
//!
//! Memory: some 300 bytes a deletion, and at most [`MOST`] of them.

use super::pending::{Pending, Work};
use super::personality::Personality;
use super::{Mounted, Phase};
use crate::policy::PolicyKind;
use crate::system::FsCx;
use seekless_engine::units::{MILLIS, SECONDS, Time};

/// Deletions that wait at most.
const MOST: usize = 1000;
/// The file system is idle when no call has come for so long.
const QUIET: Time = 100 * MILLIS;

impl<P: Personality> Mounted<P> {
    /// Puts a deletion off that misses a block. Gives it back if it is not to wait.
    pub(crate) fn put_off(
        &mut self,
        pending: Pending<P::Mark>,
        now: Time,
    ) -> Option<Pending<P::Mark>> {
        let waits = matches!(pending.work, Work::Reap(_))
            && pending.id.is_none()
            && pending.held.is_none()
            && !pending.late
            && self.core.policy.kind() == PolicyKind::Soft
            && self.phase == Phase::Running
            && self.may_move()
            && self.no_room.is_empty();
        if !waits {
            return Some(pending);
        }
        let mut pending = Pending { late: true, runs: 0, ..pending };
        self.core.unpin(&mut pending.pins);
        self.later.waiting.push_back((now, pending));
        None
    }

    /// When the next deletion begins that is put off, if nothing else happens.
    pub(crate) fn deletes_at(&self) -> Option<Time> {
        let (since, _) = self.later.waiting.front()?;
        let idle = self.later.last_call + QUIET;
        // As long as the content of a file does.
        let latest = since + self.core.options().write_age_s * SECONDS;
        Some(if self.pending() == 0 { idle.min(latest) } else { latest })
    }

    /// Begins deletions that have waited for long enough.
    pub(crate) fn delete_later(&mut self, cx: &mut FsCx<'_, '_>) {
        let too_many = self.later.waiting.len() > MOST;
        let is_due = self.deletes_at().is_some_and(|at| at <= cx.now());
        if !self.no_room.is_empty() {
            self.delete_all_now();
        } else if too_many || is_due {
            self.delete_next();
        } else {
            return;
        }
        self.run_ready(cx);
    }

    fn delete_next(&mut self) {
        if let Some((_, pending)) = self.later.waiting.pop_front() {
            self.later.running += 1;
            self.queue.push_back(pending);
        }
    }

    /// Begins all deletions that are put off.
    pub(crate) fn delete_all_now(&mut self) {
        while !self.later.waiting.is_empty() {
            self.delete_next();
        }
    }

    /// A call makes everything durable: what was put off comes first. Gives the call back if
    /// nothing was.
    pub(crate) fn after_deletions(
        &mut self,
        pending: Pending<P::Mark>,
    ) -> Option<Pending<P::Mark>> {
        if pending.late {
            return Some(pending);
        }
        self.delete_all_now();
        if self.later.running == 0 {
            return Some(pending);
        }
        let key = self.parked.insert(Pending { late: true, ..pending });
        self.later.syncs.push(key);
        None
    }

    /// A deletion that was put off has come to its end.
    pub(crate) fn deleted_late(&mut self) {
        self.later.running -= 1;
        if self.later.running == 0 {
            for key in std::mem::take(&mut self.later.syncs) {
                self.core.make_ready(key);
            }
        }
    }
}
