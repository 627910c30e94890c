//! The requests of one drive with their times.

use crate::fit::FitError;
use crate::recording::{LONGEST_REPLAY, Op, Pace, Recorded};
use seekless_engine::units::Time;
use std::collections::HashMap;

/// Most requests that are used: more do not improve the estimates.
const MOST: usize = 1 << 20;

/// Sectors near a request that the drive may have cached.
const NEIGHBOURS: u64 = 1024;

/// After so many requests elsewhere, a place is taken to be out of the cache.
const REMEMBERED: usize = 256;

/// A request with its times, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) read: bool,
    /// The one before was a read.
    pub(super) after_read: bool,
    pub(super) lbn: u64,
    pub(super) end: u64,
    pub(super) took: Time,
    pub(super) done: Time,
    /// How long the drive had been idle.
    pub(super) pause: Time,
    /// Sectors between the end of the request before and this one.
    pub(super) distance: u64,
    /// No recent request was nearby, so no cache can hold these sectors.
    pub(super) fresh: bool,
}

impl Event {
    pub(super) fn sectors(&self) -> u64 {
        self.end - self.lbn
    }
}

/// The requests to the first drive of a recording, as recorded and with their times; pauses stand
/// before their requests if `before`, else after.
pub(super) fn events(
    requests: impl Iterator<Item = Recorded>,
    before: bool,
) -> Result<(Vec<Recorded>, Vec<Event>), FitError> {
    let (mut kept, mut events): (Vec<Recorded>, Vec<Event>) = Default::default();
    let (mut idle, mut next, mut head) = (0, 0, 0u64);
    let mut origin = None;
    let mut asked = HashMap::new();
    for request in requests {
        if kept.len() == MOST || kept.first().is_some_and(|one| one.device != request.device) {
            continue;
        }
        let issued = match request.pace {
            Pace::At(at) => at.saturating_sub(*origin.get_or_insert(at)).max(idle),
            Pace::Gap(gap) if before => idle + gap,
            Pace::Gap(_) => next,
        };
        if issued > LONGEST_REPLAY {
            return Err(FitError::TooLong(request.place));
        }
        let (took, end) = (request.response_ns, request.lbn + u64::from(request.sectors));
        // No overflow: the sum so far is within bounds, and what is added is below eleven days.
        let done = issued + took;
        events.push(Event {
            read: request.op == Op::Read,
            after_read: events.last().is_none_or(|event| event.read),
            lbn: request.lbn,
            end,
            took,
            done,
            pause: issued - idle,
            distance: head.abs_diff(request.lbn),
            fresh: fresh(&mut asked, request.lbn, end, kept.len()),
        });
        kept.push(request);
        (idle, head) = (done, end);
        next = match request.pace {
            Pace::Gap(gap) => done + gap,
            Pace::At(_) => done,
        };
    }
    Ok((kept, events))
}

/// Records the `number`th request and returns whether no earlier one was nearby.
fn fresh(asked: &mut HashMap<u64, usize>, lbn: u64, end: u64, number: usize) -> bool {
    let (first, last) = (lbn / NEIGHBOURS, end.saturating_sub(1) / NEIGHBOURS);
    // Drives read ahead: sectors behind a request may be cached as well.
    let known = (first.saturating_sub(1)..=first)
        .any(|part| asked.get(&part).is_some_and(|&before| number - before <= REMEMBERED));
    // The longest requests there are have four million parts, of which the ends suffice.
    for part in [first, last] {
        asked.insert(part, number);
    }
    !known
}
