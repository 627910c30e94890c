//! How far the log is durable: answers of the device, flushes, and what says so on the device.

use super::checkpoint::Phase;
use super::{FLUSH, Lfs, UNVERIFIED_LIMIT};
use seekless_engine::edge::Edge;
use seekless_engine::io::Done;
use seekless_engine::layer::Cx;

/// How far the log has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reached {
    pub commit: u64,
    /// The last part of that commit.
    pub part: u64,
    /// All parts up to this one are called durable by one up to that.
    pub witnessed: u64,
}

impl Lfs {
    /// More of the log may be on the device than before.
    pub(super) fn completed(&mut self, cx: &mut Cx<'_>) {
        if !self.volatile {
            self.durable_up_to(self.log.completed, cx);
        }
    }

    fn durable_up_to(&mut self, reached: Reached, cx: &mut Cx<'_>) {
        let commit = reached.commit;
        if commit <= self.log.durable.commit {
            return;
        }
        debug_assert!(commit <= self.log.completed.commit, "durable before it was written");
        debug_assert!(reached.part >= self.log.durable.part, "the durable log grows");
        self.log.durable = reached;
        self.log.unverified = self.log.in_flight;
        self.segments.stir();
        self.requests.durable(commit, cx);
    }

    /// The device has flushed.
    pub(super) fn flush_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        let Some(reached) = self.log.flush.take() else { return };
        let reached = Edge::LfsFlushCoversCompleted.covers(reached, self.log.completed);
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.flush_ns += done.spent.total_ns();
        }
        self.requests.spend_on_waiters(&done.spent);
        match done.outcome {
            Ok(_) => self.durable_up_to(reached, cx),
            Err(error) => self.fail_volume(error, cx),
        }
    }

    /// Answers a request when everything acknowledged so far is durable.
    pub(super) fn wait_durable(&mut self, request: usize, cx: &mut Cx<'_>) {
        if let Some(hylog) = self.policy.hylog() {
            hylog.force();
        }
        let nothing = !self.pool.has_changes() && !self.touched;
        let needs = if nothing { self.log.open - 1 } else { self.log.open };
        let durable = Edge::LfsWaiterNeedsCommit.allows(needs <= self.log.durable())
            || self.requests.is_read_only();
        if durable {
            self.requests.part_done(request, cx);
        } else if let Some(error) = self.requests.failed() {
            // It was overwritten in place while something else failed: no flush will come.
            self.requests.fail(request, error);
            self.requests.part_done(request, cx);
        } else {
            self.requests.wait(request, needs);
        }
    }

    /// True if nothing waits to be written out or flushed.
    pub(super) fn is_all_durable(&self) -> bool {
        self.pool.is_empty() && self.log.completed() == self.log.durable()
    }

    pub(super) fn wants_flush(&self) -> bool {
        let completed = self.log.completed();
        completed > self.log.durable()
            && (self.short.commit
                || self.short.flush
                || self.log.unverified > UNVERIFIED_LIMIT
                || self.checkpoint.phase() == Phase::Settle
                || self.requests.any_waits(|&number| number <= completed))
    }

    /// Says on the device that the last commit is durable, once no client has waited for a while: a
    /// part without items, where there is room for it.
    pub(super) fn advance_witness(&mut self, cx: &mut Cx<'_>) {
        let lacks = self.volatile && (!self.is_all_durable() || self.log.lacks_witness());
        let due = self.witness.is_due(lacks, &self.requests, cx.now);
        let busy = !self.log.is_quiet()
            || self.cleaner.is_busy()
            || self.checkpoint.phase() != Phase::Idle
            || !self.pool.is_empty();
        if !due || busy {
            return;
        }
        if !self.is_all_durable() {
            self.begin_flush(cx);
        } else if self.has_room(1) {
            let draft = self.open_part(0);
            self.send_part(draft, true, cx);
            self.log.open += 1;
        }
    }

    pub(super) fn begin_flush(&mut self, cx: &mut Cx<'_>) {
        debug_assert!(self.log.durable() < self.log.open, "the open commit is not durable");
        self.log.flush = Some(self.log.completed);
        cx.send(0, Edge::LfsFlush.flush(FLUSH));
    }
}
