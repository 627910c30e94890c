//! A call that needs the file system still: nothing runs beside it, and the volume has all that was
//! done before.
//!
//! A trim is such a call. Space that is free in memory may be in use on the disk, until the changes
//! that freed it are durable; and space that is free now may have an owner before the volume has
//! answered the trim. So the calls that come wait in the queue, those under way come to their end,
//! and everything is made durable. Then the trim runs alone.

use super::Mounted;
use super::pending::{Pending, Work};
use super::personality::Personality;
use crate::call::Request;
use crate::core::CallKey;

/// How far a call has come that needs the file system still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Still {
    /// There is none.
    #[default]
    No,
    /// Calls that are under way come to their end.
    Wanted,
    /// The same; the call waits here for that.
    Waits(CallKey),
    /// Only this call runs: it makes everything durable, and then does what it is for.
    Alone,
}

impl<P: Personality> Mounted<P> {
    /// True if the first call of the queue may run now. The call that is alone comes back to the
    /// queue when everything is durable.
    pub(crate) fn may_begin(&self, pending: &Pending<P::Mark>) -> bool {
        let is_trim = matches!(pending.work, Work::Request(Request::Trim { .. }));
        match self.still {
            Still::No => true,
            Still::Wanted | Still::Waits(_) => !matches!(pending.work, Work::Request(_)),
            Still::Alone => is_trim && pending.state.at > 0,
        }
    }

    /// True if no call needs the file system still.
    pub(crate) fn may_move(&self) -> bool {
        self.still == Still::No
    }

    /// True if no call and no work of the file system itself is under way, but for `own` calls.
    fn is_drained(&self, own: usize) -> bool {
        let works = self.queue.iter().any(|one| !matches!(one.work, Work::Request(_)));
        self.parked.len() == own
            && !works
            && !self.storing
            && !self.pace.running
            && self.later.waiting.is_empty()
            && (self.core.policy.frees() == 0 || self.core.failed().is_some())
    }

    /// Before a step of a call that needs the file system still. Gives the call back if it can run.
    pub(crate) fn stand_still(
        &mut self,
        mut pending: Pending<P::Mark>,
    ) -> Option<Pending<P::Mark>> {
        if self.still == Still::Alone {
            return Some(pending);
        }
        self.still = Still::Wanted;
        pending = self.after_deletions(pending)?;
        if !self.is_drained(0) {
            pending.runs = 0;
            let key = self.parked.insert(pending);
            self.still = Still::Waits(key);
            return None;
        }
        self.still = Still::Alone;
        Some(pending)
    }

    /// True if nothing else runs.
    pub(crate) fn is_still(&self) -> bool {
        self.still == Still::Alone
    }

    /// True if a call waits until the others have come to their end.
    pub(crate) fn waits_for_still(&self) -> bool {
        matches!(self.still, Still::Waits(_))
    }

    /// Lets the call go on that waits for the others.
    pub(crate) fn go_on_still(&mut self) -> bool {
        let Still::Waits(key) = self.still else { return false };
        let goes_on = self.is_drained(1);
        if goes_on {
            self.still = Still::Wanted;
            self.core.make_ready(key);
        }
        goes_on
    }

    /// The call has come to its end.
    pub(crate) fn no_longer_still(&mut self, work: &Work) {
        if matches!(work, Work::Request(Request::Trim { .. })) {
            self.still = Still::No;
        }
    }
}
