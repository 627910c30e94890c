//! How the loop waits: asleep, except where an event is so close that waking would come too late.

use super::client::PARTING_NS;
use super::{Driver, FAREWELL_NS, NEGOTIATION_NS, Phase};
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::io::Errno;
use seekless_engine::units::{MICROS, SECONDS, Time};
use std::io;

/// Bounds of [`Margin`]: what a quiet machine needs, and what is worth the heat on a busy one.
const LEAST_MARGIN_NS: Time = 60 * MICROS;
const MOST_MARGIN_NS: Time = 400 * MICROS;
/// How much one sleep that was not too long takes off the margin.
const MARGIN_STEP_NS: Time = 4 * MICROS;
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
pub(super) struct Patience {
    /// With one processor the client could not even run meanwhile.
    alone: bool,
    /// When the loop last had something to do or had done it.
    busy_at: Time,
    vain: u32,
    close: u32,
}

impl Patience {
    pub(super) fn new() -> Patience {
        // SAFETY: the call only reads a number of the system.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        Patience::with_processors(processors)
    }

    fn with_processors(processors: i64) -> Patience {
        Patience { alone: processors < 2, busy_at: 0, vain: MOST_VAIN, close: 0 }
    }

    /// True while the loop should look rather than sleep.
    fn lingers(&self, now: Time) -> bool {
        !self.alone && self.vain < MOST_VAIN && now < self.busy_at + LINGER_NS
    }

    /// Takes note of something to do at `now`, found awake or after a sleep.
    fn found(&mut self, now: Time, awake: bool) {
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
    fn sleeps(&mut self) {
        self.vain = self.vain.saturating_add(1);
    }
}

/// The last stretch before an event of a simulated disk is not slept through, for sleeps last too
/// long: by some 50 µs on a quiet machine, by a multiple of that where others use its processors.
/// The margin follows what nine of ten sleeps need; it grows by nine steps at the tenth, so both
/// keep the balance there.
#[derive(Debug)]
pub(super) struct Margin(Time);

impl Margin {
    pub(super) fn new() -> Margin {
        Margin(LEAST_MARGIN_NS)
    }

    /// Takes note of a sleep that ended so much after the time it was to end.
    fn overslept(&mut self, late: Time) {
        let next = if late > self.0 {
            self.0 + 9 * MARGIN_STEP_NS
        } else {
            self.0.saturating_sub(MARGIN_STEP_NS)
        };
        self.0 = next.clamp(LEAST_MARGIN_NS, MOST_MARGIN_NS);
    }
}

impl Driver {
    /// Waits for something to do and says what it is.
    pub(super) fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        let now = self.now();
        // Who carries out what is in flight, a thread of the kernel most likely, needs a processor
        // more than a look for further requests does.
        let awake = self.adapter.in_flight() == 0 && self.patience.lingers(now);
        if awake {
            self.poll(events, Some(0))?;
            if events.is_empty() {
                // Nothing yet: the caller settles, which costs little, and comes back.
                return Ok(());
            }
        } else {
            let due = self.due(now);
            let sleep = due.map(|due| due.saturating_sub(now));
            if sleep != Some(0) {
                self.patience.sleeps();
            }
            self.poll(events, sleep)?;
            if let Some(due) = due.filter(|&due| due > now && events.is_empty()) {
                // A sleep that a signal ended was not too long.
                let late = self.now().saturating_sub(due);
                self.margin.overslept(late);
            }
        }
        let now = self.now();
        if !events.is_empty() {
            self.patience.found(now, awake);
        }
        if self.accept_at.is_some_and(|at| now >= at) {
            self.resume_accepting();
        }
        Ok(())
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, sleep: Option<Time>) -> io::Result<()> {
        let timeout = sleep.map(|sleep| Timespec {
            tv_sec: (sleep / SECONDS) as i64,
            tv_nsec: (sleep % SECONDS) as _,
        });
        let spare = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// When to wake though no descriptor becomes ready.
    fn due(&self, now: Time) -> Option<Time> {
        let node = &self.parts.node;
        let devices = node.devices.iter().filter_map(|device| device.next_event()).min();
        // Spinning is a sleep of no time, over and over.
        let devices = devices.map(|due| self.clock.ahead_of(due).saturating_sub(self.margin.0));
        let strangers = match self.strangers {
            0 => None,
            _ => self.clients.iter().filter(|(_, c)| !c.negotiated).map(|(_, c)| c.since).min(),
        };
        let strangers = strangers.map(|since| since + NEGOTIATION_NS);
        let farewell = match self.phase {
            Phase::Serving => None,
            Phase::Draining(since) | Phase::Stopping(since) => Some(since + FAREWELL_NS),
        };
        // Once the farewell is over only the volume is waited for.
        let farewell = farewell.filter(|&due| due > now);
        let parting =
            farewell.and_then(|_| self.clients.iter().filter_map(|one| one.1.parting).min());
        let parting = parting.map(|since| since + PARTING_NS);
        let stalled = self.budget.due();
        let delayed = self.parts.power.as_ref().and_then(|power| power.hub.next_due());
        let layer = node.layer.deadline();
        [devices, layer, strangers, stalled, farewell, parting, self.accept_at, delayed]
            .into_iter()
            .flatten()
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::MILLIS;

    /// A thousand requests `gap` apart; returns how many were met awake, and how long the loop
    /// looked in vain.
    fn meet(patience: &mut Patience, gap: Time) -> (u32, Time) {
        let (mut met, mut wasted) = (0, 0);
        for round in 1..=1000 {
            let (before, now) = ((round - 1) * gap, round * gap);
            let awake = patience.lingers(before) && gap < LINGER_NS;
            if !awake {
                wasted += if patience.lingers(before) { LINGER_NS } else { 0 };
                patience.sleeps();
            }
            patience.found(now, awake);
            met += u32::from(awake);
        }
        (met, wasted)
    }

    #[test]
    fn the_margin_is_what_nine_of_ten_sleeps_need() {
        let mut margin = Margin::new();
        let mut rng = seekless_engine::rng::Rng::stream(1, "sleeps");
        let mut in_time = 0;
        for round in 0..20_000 {
            // From 0 to 300 µs too long.
            let late = rng.below(300) * MICROS;
            in_time += u32::from(round >= 10_000 && late <= margin.0);
            margin.overslept(late);
        }
        assert!((8_700..=9_300).contains(&in_time), "{in_time} of 10,000");
        (0..100).for_each(|_| margin.overslept(SECONDS));
        assert_eq!(margin.0, MOST_MARGIN_NS);
        (0..100).for_each(|_| margin.overslept(0));
        assert_eq!(margin.0, LEAST_MARGIN_NS);
    }

    #[test]
    fn close_requests_are_met_awake_and_others_waste_little() {
        let mut patience = Patience::with_processors(2);
        assert!(meet(&mut patience, 20 * MICROS).0 > 960);
        for (gap, most) in [(120 * MICROS, 25), (MILLIS, 1)] {
            let (_, wasted) = meet(&mut Patience::with_processors(2), gap);
            assert!(wasted * 100 <= most * 1000 * gap, "{wasted} ns wasted of {}", 1000 * gap);
        }
        assert_eq!(meet(&mut Patience::with_processors(1), 20 * MICROS).0, 0);
    }
}
