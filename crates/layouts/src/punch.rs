//! Giving space back: what holds nothing is trimmed below, in the background, on a device that says
//! that this frees space of its host ([`DeviceStatus::punches`]).
//!
//! Space is cut into units. A unit counts as stale from when something in it is freed; when it is
//! its turn and all of it is free, it is trimmed. The rule for that is the rule for writing it
//! again: no recovery may need what lies there. Until the device has answered, nothing is written
//! to it. A few units go at a time, with a pause behind them, a longer one while clients wait.
//!
//! [`DeviceStatus::punches`]: seekless_engine::device::DeviceStatus::punches

use crate::bits::Bits;
use seekless_engine::disk::Disk;
use seekless_engine::options::Choice;
use seekless_engine::units::{BlockNr, MILLIS, SECONDS, Time};
use std::ops::Range;

/// Keep what the volume does not use.
pub static NO_PUNCH: Choice<bool> = Choice::switch(
    "no-punch",
    "Do not give space that the volume does not use back to the file system or the device below",
);

/// How long something must have been free before the first unit goes.
const REST: Time = 100 * MILLIS;
/// What lies between two steps, without clients and with them.
const PAUSE: Time = 10 * MILLIS;
const BUSY_PAUSE: Time = SECONDS;
/// Units that are looked at in one step though they are not free.
const LOOKED_AT: u32 = 4096;

/// Whether anything is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It is wanted; the device has not been asked.
    Wanted,
    On,
    Off,
}

/// Which units are to be given back, and when.
#[derive(Clone, Debug)]
pub(crate) struct Puncher {
    mode: Mode,
    stale: Bits,
    /// Behind the last unit that went.
    next: u32,
    due: Option<Time>,
    /// When what waits to be free is to be looked at.
    wake: Option<Time>,
    /// Requests on their way.
    flying: u32,
    /// Units of a step; one until the device has shown that it can.
    most: u32,
}

impl Puncher {
    /// Nothing is stale yet.
    pub fn new(units: u32, wanted: bool) -> Puncher {
        let mode = if wanted { Mode::Wanted } else { Mode::Off };
        let stale = Bits::none(if wanted { units } else { 0 });
        Puncher { mode, stale, next: 0, due: None, wake: None, flying: 0, most: 1 }
    }

    /// True unless nothing is ever given back.
    #[cfg(test)]
    fn is_wanted(&self) -> bool {
        self.mode != Mode::Off
    }

    /// After a mount: free units that may still take space below go when it is time. `units` has
    /// the blocks of each, in order; only those that may take space are asked whether they are
    /// free.
    pub fn look(
        &mut self,
        disk: &mut dyn Disk,
        units: impl Iterator<Item = (u32, Range<BlockNr>)>,
        is_free: impl Fn(u32) -> bool,
    ) {
        if self.mode == Mode::Off {
            return;
        }
        // There is nothing before this block, as far as is known.
        let mut next = 0;
        for (unit, Range { start, end }) in units {
            if next >= end || !is_free(unit) {
                continue;
            }
            if next < start {
                let Some(data) = disk.next_data(start) else { return };
                next = data;
            }
            if next < end {
                self.freed(unit);
                next = 0;
            }
        }
    }

    /// Something in a unit has been freed.
    #[inline]
    pub fn freed(&mut self, unit: u32) {
        if self.mode != Mode::Off {
            self.stale.insert(unit);
        }
    }

    /// When to look again though nothing happens.
    pub fn due(&self) -> Option<Time> {
        self.due.into_iter().chain(self.wake).min()
    }

    /// Nothing is to be given back for now.
    pub fn rest(&mut self) {
        (self.due, self.wake) = (None, None);
    }

    /// True if what waits to be free is to become so now, though no client needs it: there is
    /// enough of it, and none has wanted anything for a while.
    pub fn hastens(&mut self, enough: bool, idle_since: Option<Time>, now: Time) -> bool {
        self.wake = None;
        let Some(since) = idle_since.filter(|_| enough && self.mode == Mode::On) else {
            return false;
        };
        if now < since + REST {
            self.wake = Some(since + REST);
        }
        self.wake.is_none()
    }

    /// True while the device has not answered.
    pub fn is_busy(&self) -> bool {
        self.flying > 0
    }

    /// Units of which something is to be given back.
    #[cfg(test)]
    pub fn stale(&self) -> u64 {
        self.stale.len()
    }

    /// The units to give back now, at most `most`: stale ones of which `is_free` says that all of
    /// it is free. `can` says that the device punches.
    pub fn take(
        &mut self,
        can: bool,
        now: Time,
        most: u32,
        is_free: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        if self.mode == Mode::Wanted {
            self.mode = if can { Mode::On } else { Mode::Off };
        }
        if self.mode == Mode::Off || self.is_busy() || self.stale.len() == 0 {
            self.due = None;
            return Vec::new();
        }
        if now < *self.due.get_or_insert(now + REST) {
            return Vec::new();
        }
        self.due = None;
        let (mut units, mut looked_at) = (Vec::new(), 0);
        while units.len() < most.min(self.most) as usize {
            let next = self.stale.next(self.next).or_else(|| self.stale.next(0));
            let Some(unit) = next else { break };
            if looked_at == LOOKED_AT {
                self.due = Some(now + PAUSE);
                break;
            }
            self.stale.remove(unit);
            self.next = unit + 1;
            if is_free(unit) {
                units.push(unit);
            }
            looked_at += 1;
        }
        units
    }

    /// A request is on its way.
    pub fn sent(&mut self) {
        self.flying += 1;
    }

    /// A request has been answered; true if it was the last one on its way. `all` is how many units
    /// a step may have.
    pub fn answered(&mut self, worked: bool, idle: bool, all: u32, now: Time) -> bool {
        debug_assert!(self.flying > 0, "nothing was to be given back");
        self.flying -= 1;
        if !worked {
            // What is not given back is free all the same.
            self.mode = Mode::Off;
        }
        self.most = all;
        if self.flying == 0 && self.stale.len() > 0 && self.mode == Mode::On {
            self.due = Some(now + if idle { PAUSE } else { BUSY_PAUSE });
        }
        self.flying == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_go_when_they_are_free_and_their_time_has_come() {
        let mut puncher = Puncher::new(10, true);
        for unit in [3, 4, 5, 8] {
            puncher.freed(unit);
        }
        let is_free = |unit| unit != 4;
        assert_eq!(puncher.take(true, 0, 9, is_free), []);
        assert_eq!(puncher.due(), Some(REST));
        // The first one shows whether the device can.
        assert_eq!(puncher.take(true, REST, 9, is_free), [3]);
        puncher.sent();
        assert!(puncher.is_busy() && puncher.due().is_none());
        assert_eq!(puncher.take(true, REST + 1, 9, is_free), []);
        assert!(puncher.answered(true, true, 64, REST + 1));
        assert_eq!(puncher.due(), Some(REST + 1 + PAUSE));
        assert_eq!(puncher.take(true, REST + 1 + PAUSE, 9, is_free), [5, 8]);
        puncher.sent();
        assert!(puncher.answered(true, true, 64, SECONDS));
        assert_eq!((puncher.due(), puncher.stale()), (None, 0));
    }

    #[test]
    fn what_waits_is_freed_while_no_client_waits() {
        let mut puncher = Puncher::new(10, true);
        assert!(!puncher.hastens(true, Some(0), SECONDS), "the device has not been asked");
        puncher.take(true, SECONDS, 9, |_| true);
        assert!(!puncher.hastens(false, Some(0), SECONDS) && !puncher.hastens(true, None, SECONDS));
        assert!(!puncher.hastens(true, Some(SECONDS), SECONDS + 1));
        assert_eq!(puncher.due(), Some(SECONDS + REST));
        assert!(puncher.hastens(true, Some(SECONDS), SECONDS + REST));
        assert_eq!(puncher.due(), None);
    }

    #[test]
    fn a_device_that_cannot_is_left_alone() {
        for (wanted, can) in [(false, true), (true, false)] {
            let mut puncher = Puncher::new(10, wanted);
            puncher.freed(1);
            assert_eq!(puncher.take(can, SECONDS, 9, |_| true), []);
            assert!(puncher.due().is_none() && !puncher.is_wanted());
        }
        let mut puncher = Puncher::new(10, true);
        (0..9).for_each(|unit| puncher.freed(unit));
        puncher.take(true, 0, 9, |_| true);
        assert_eq!(puncher.take(true, REST, 9, |_| true), [0]);
        puncher.sent();
        assert!(puncher.answered(false, true, 64, REST));
        assert_eq!(puncher.take(true, 2 * REST, 9, |_| true), []);
        assert_eq!(puncher.due(), None);
    }
}
