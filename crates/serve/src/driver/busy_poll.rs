//! Busy polling: whether the loop looks for the next request before it sleeps.

use seekless_engine::units::{MICROS, Time};

/// How long the loop looks for the next request before it sleeps, where that has paid off lately.
/// Sleeping and waking costs a client with one request in flight more than that.
const LINGER_NS: Time = 60 * MICROS;
/// Vain looks in a row after which the loop sleeps at once.
const MOST_VAIN: u32 = 8;
/// A request that wakes the loop this soon after the last event might have been met awake: waking
/// takes its time, on both sides.
const CLOSE_NS: Time = 200 * MICROS;
/// So many of those later the loop tries again: a vain try costs `MOST_VAIN` looks.
const RETRY_AFTER: u32 = 32;

/// Whether looking for the next request before sleeping pays off: with clients that answer an
/// answer at once it does, with others it would only heat an idle processor.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// With one processor the client could not even run meanwhile.
    alone: bool,
    /// When the loop last had something to do or had done it.
    busy_at: Time,
    vain: u32,
    close: u32,
}

impl BusyPoll {
    pub(super) fn new() -> BusyPoll {
        // SAFETY: the call only reads a number of the system.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        BusyPoll::with_processors(processors)
    }

    fn with_processors(processors: i64) -> BusyPoll {
        BusyPoll { alone: processors < 2, busy_at: 0, vain: MOST_VAIN, close: 0 }
    }

    /// True while the loop should look rather than sleep.
    pub(super) fn lingers(&self, now: Time) -> bool {
        !self.alone && self.vain < MOST_VAIN && now < self.busy_at + LINGER_NS
    }

    /// Takes note of something to do at `now`, found awake or after a sleep.
    pub(super) fn found(&mut self, now: Time, awake: bool) {
        if awake {
            self.vain = 0;
        } else if now < self.busy_at + CLOSE_NS {
            self.close += 1;
            if self.close == RETRY_AFTER {
                (self.close, self.vain) = (0, 0);
            }
        }
        self.busy_at = now;
    }

    /// Takes note of an answer at `now`: the next request may be close.
    pub(super) fn answered(&mut self, now: Time) {
        self.busy_at = now;
    }

    /// Takes note that the loop is going to sleep.
    pub(super) fn sleeps(&mut self) {
        self.vain = self.vain.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::MILLIS;

    /// A thousand requests `gap` apart; returns how many were met awake, and how long the loop
    /// looked in vain.
    fn meet(busy_poll: &mut BusyPoll, gap: Time) -> (u32, Time) {
        let (mut met, mut wasted) = (0, 0);
        for round in 1..=1000 {
            let (before, now) = ((round - 1) * gap, round * gap);
            let awake = busy_poll.lingers(before) && gap < LINGER_NS;
            if !awake {
                wasted += if busy_poll.lingers(before) { LINGER_NS } else { 0 };
                busy_poll.sleeps();
            }
            busy_poll.found(now, awake);
            met += u32::from(awake);
        }
        (met, wasted)
    }

    #[test]
    fn close_requests_are_met_awake_and_others_waste_little() {
        let mut busy_poll = BusyPoll::with_processors(2);
        assert!(meet(&mut busy_poll, 20 * MICROS).0 > 960);
        for (gap, most) in [(120 * MICROS, 25), (MILLIS, 1)] {
            let (_, wasted) = meet(&mut BusyPoll::with_processors(2), gap);
            assert!(wasted * 100 <= most * 1000 * gap, "{wasted} ns wasted of {}", 1000 * gap);
        }
        assert_eq!(meet(&mut BusyPoll::with_processors(1), 20 * MICROS).0, 0);
    }
}
