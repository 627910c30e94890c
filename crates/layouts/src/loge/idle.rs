//! What is done while no client waits, on devices with a head: blocks are sorted ([`super::sort`]),
//! and the arm goes where the next write can land (section 5.2.4 of the paper).
//!
//! An idle arm that stays where it is needs a seek for most writes. One that is always on its way
//! to the free segment that it can reach first is at most that far from being able to write. So
//! whenever the segment that it went for has passed, it goes for the next one.

use super::{HOVER, Loge};
use seekless_engine::io::Io;
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, MILLIS, SECONDS, Time};

/// How long no request must have come before blocks are sorted: the paper finds that
/// pauses of half a second can be used at a cost of 2 % (section 8.1), and a step here is shorter.
pub(super) const REST: Time = 50 * MILLIS;
/// How long the arm is kept in transit: who has not come back by then is not awaited.
const AWAITED: Time = SECONDS;

/// When there is something to do though no request comes.
#[derive(Clone, Debug, Default)]
pub(super) struct Idle {
    due: Option<Time>,
    /// The arm is kept in transit.
    anticipates: bool,
    /// When the segment that the arm went for has passed.
    passes: Option<Time>,
    /// Seeks that were sent, and how many are on their way.
    pub seeks: u64,
    moving: u32,
}

impl Idle {
    /// Nothing is due.
    pub fn new(anticipates: bool) -> Idle {
        Idle { anticipates, ..Idle::default() }
    }

    /// When to have another look.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// True while a seek is on its way.
    pub fn is_moving(&self) -> bool {
        self.moving > 0
    }

    /// A seek has been answered.
    pub fn moved(&mut self) {
        self.moving -= 1;
    }
}

impl Loge {
    /// Takes a step if no client waits.
    pub(super) fn advance_idle(&mut self, cx: &mut Cx<'_>) {
        self.idle.due = None;
        if !self.headed || !(self.idle.anticipates || self.sorter.is_enabled()) {
            return;
        }
        if !self.requests.is_idle() || !self.requests.is_running() {
            self.idle.passes = None;
            self.abandon_sorting();
            return;
        }
        let refused = self.requests.failed().is_some() || self.requests.is_read_only();
        let moving = self.sorter.is_reading() || self.relocation.is_active();
        let busy = self.commits.is_busy() || !self.reads.is_empty() || moving;
        if refused || busy || !self.commits.is_serial() {
            return;
        }
        let since = cx.idle_since.unwrap_or(cx.now);
        if self.sorter.has_work(self.counters.client_blocks) {
            let due = since + REST;
            if cx.now >= due {
                self.advance_sorter(cx);
            } else {
                self.idle.due = Some(due);
            }
        }
        let busy = self.commits.is_busy() || self.sorter.is_reading();
        if self.idle.anticipates && !busy && cx.now < since + AWAITED {
            self.go_ahead(cx);
        }
    }

    /// Asks for another look at once, after a step that took no time of the device.
    pub(super) fn look_again(&mut self, cx: &Cx<'_>) {
        self.idle.due = Some(cx.now);
    }

    /// Brings the arm to where the next write can land, once that has changed.
    fn go_ahead(&mut self, cx: &mut Cx<'_>) {
        let (Some(arm), Some(head)) = (cx.arm(0), cx.head(0)) else { return };
        if !arm.seeks() || self.idle.is_moving() {
            return;
        }
        if self.idle.passes.is_none_or(|passes| passes <= cx.now) {
            let Some(next) = self.placer.soonest(&self.free, arm, head.track, head.free_at) else {
                return;
            };
            // A request that comes later than this misses it.
            let passes = next.start.saturating_sub(arm.overhead_ns()).max(cx.now) + 1;
            self.idle.passes = Some(passes);
            if next.track != head.track {
                let (at, _) = arm.track_blocks(next.track);
                self.idle.seeks += 1;
                self.idle.moving += 1;
                cx.send(0, Io::seek(HOVER, BlockNr::from(at)));
            }
        }
        let passes = self.idle.passes;
        self.idle.due = match (self.idle.due, passes) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}
