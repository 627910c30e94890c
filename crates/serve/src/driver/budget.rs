//! The memory budget of all sessions together: which request is taken on, and which session waits.
//!
//! What counts are requests in flight, answers that wait to be sent, and payload that is still
//! being received, which counts in full as soon as its first part is taken. A request that does
//! not fit waits. Sessions that wait are served in the order in which they came, so that a long
//! request is not overtaken by short ones for ever. A session that holds nothing may have one short
//! request beyond the limit, so answers that other clients do not fetch never stop it. A session
//! that does not fetch its answers or finish its request for a minute, while others wait, is
//! dropped.

use super::{Driver, Session};
use crate::nbd::{Command, Event};
use seekless_engine::units::{SECONDS, Time};
use std::collections::VecDeque;

/// Bytes held for all clients together.
const MOST_BYTES: usize = 512 << 20;
/// Bytes held for one session.
const MOST_OF_ONE: usize = 64 << 20;
/// A request that brings or asks for no more is short.
pub(super) const SHORT: usize = 128 << 10;
/// How long a client may stall while others wait for memory.
const STALL_NS: Time = 60 * SECONDS;
/// How often sessions are looked at for that.
const SWEEP_NS: Time = 5 * SECONDS;
/// Extents in one answer at most, and bytes of each.
const MOST_EXTENTS: usize = 4096;
const EXTENT_BYTES: usize = 8;

/// Bytes that a request holds in memory, or will once it is carried out.
pub(super) fn weight(command: Command, length: u32) -> usize {
    match command {
        Command::Read | Command::Write => length as usize,
        // No extent is shorter than a block.
        Command::BlockStatus => (length as usize / 4096 + 2).min(MOST_EXTENTS) * EXTENT_BYTES,
        Command::Flush | Command::Trim | Command::WriteZeroes | Command::Cache => 0,
    }
}

/// What is held, and which sessions wait.
#[derive(Debug, Default)]
pub(super) struct MemoryBudget {
    /// Bytes of requests in flight, those of clients that have gone included.
    in_flight: usize,
    /// Bytes in the buffers of connections.
    buffered: usize,
    /// Sessions whose next request does not fit, in the order in which that was found.
    queue: VecDeque<usize>,
    /// Something was released since this was last reset.
    pub(super) released: bool,
    /// When to look for sessions that stall.
    sweep_at: Option<Time>,
}

impl MemoryBudget {
    /// True if a request of `weight` bytes of client `key`, for which `own` bytes are held, may be
    /// taken on.
    fn admits(&self, key: usize, own: usize, weight: usize) -> bool {
        (own == 0 && weight <= SHORT) || (self.fits(weight) && self.is_next(key))
    }

    fn fits(&self, weight: usize) -> bool {
        self.in_flight + self.buffered + weight <= MOST_BYTES
    }

    fn is_next(&self, key: usize) -> bool {
        self.queue.front().is_none_or(|&first| first == key)
    }

    /// A request is on its way.
    pub(super) fn begin(&mut self, weight: usize) {
        self.in_flight += weight;
    }

    /// It has been answered.
    pub(super) fn end(&mut self, weight: usize) {
        self.in_flight -= weight;
        self.released = true;
    }

    /// What is in flight is lost.
    pub(super) fn lose(&mut self) {
        self.in_flight = 0;
    }

    /// The buffers of a connection hold `now` bytes; they held `before`.
    pub(super) fn recount(&mut self, before: usize, now: usize) {
        self.buffered = self.buffered - before + now;
        self.released |= now < before;
    }

    /// Bytes in the buffers of all sessions, as they were last counted.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    /// A session has to wait for memory.
    pub(super) fn enqueue(&mut self, key: usize) {
        if !self.queue.contains(&key) {
            self.queue.push_back(key);
        }
    }

    /// A session waits no longer, or is gone.
    pub(super) fn dequeue(&mut self, key: usize) {
        if let Some(place) = self.queue.iter().position(|&other| other == key) {
            self.queue.remove(place);
            // The next one may be first now.
            self.released = true;
        }
    }

    /// Sessions that wait, in order.
    pub(super) fn queue(&self) -> impl Iterator<Item = usize> {
        self.queue.iter().copied()
    }

    /// True if clients have to be looked at, now or later.
    pub(super) fn is_watched(&self) -> bool {
        !self.queue.is_empty() || self.sweep_at.is_some()
    }

    /// When to look for sessions that stall.
    pub(super) fn due(&self) -> Option<Time> {
        self.sweep_at
    }

    /// True if it is time to look; only while a session waits.
    fn is_due(&mut self, now: Time) -> bool {
        let due = self.sweep_at.is_some_and(|at| now >= at);
        if self.queue.is_empty() {
            self.sweep_at = None;
        } else if due || self.sweep_at.is_none() {
            self.sweep_at = Some(now + SWEEP_NS);
        }
        due && self.sweep_at.is_some()
    }
}

/// True if a client for which `own` bytes are held has to wait for its own answers before it may
/// have `weight` more. One request is always let through.
fn is_full(own: usize, weight: usize) -> bool {
    own > 0 && own + weight > MOST_OF_ONE
}

/// How long a client has stalled.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// Transfers so far when it was last seen to move, and when that was.
    seen: (u64, Time),
}

impl Stall {
    /// Looks at a client that has made `transfers`; `owes` says whether it has answers to fetch or
    /// a request to finish. True if it has not moved for too long.
    pub(super) fn look(&mut self, owes: bool, transfers: u64, now: Time) -> bool {
        if !owes || self.seen.0 != transfers {
            self.seen = (transfers, now);
        }
        now >= self.seen.1 + STALL_NS
    }
}

impl Driver {
    /// What a client has come to, as far as the limits allow; if they do not, it is paused.
    pub(super) fn next_event(&mut self, key: usize) -> Option<Event> {
        let session = &mut self.sessions[key];
        let (own, promised, busy) = (session.held(), session.promised > 0, session.is_full());
        let (mut begun, mut refused, mut crowded) = (0, false, false);
        let event = session.connection.poll_admitting(|command, length| {
            let weight = weight(command, length);
            if promised {
                return true;
            }
            let full = busy || is_full(own, weight);
            crowded = !full && !self.budget.admits(key, own, weight);
            refused = full || crowded;
            begun = weight;
            !refused
        });
        if event.is_some() {
            if promised {
                session.promised = 0;
                self.recount(key);
            }
            self.budget.dequeue(key);
        } else if refused {
            session.paused = true;
            self.paused += 1;
            if crowded {
                self.budget.enqueue(key);
            }
        } else if begun > 0 {
            session.promised = begun;
            self.recount(key);
            self.budget.dequeue(key);
        }
        event
    }

    /// Counts again what the buffers of a connection hold.
    pub(super) fn recount(&mut self, key: usize) {
        if let Some(session) = self.sessions.get_mut(key) {
            let now = session.buffered();
            self.budget.recount(std::mem::replace(&mut session.counted, now), now);
        }
    }

    /// Drops sessions that stall while others wait for memory.
    pub(super) fn drop_stalled_sessions(&mut self) {
        let now = self.now();
        if !self.budget.is_due(now) {
            return;
        }
        let stalled =
            |(key, session): (usize, &mut Session)| session.is_stalled(now).then_some(key);
        let keys: Vec<usize> = self.sessions.iter_mut().filter_map(stalled).collect();
        if keys.is_empty() {
            return;
        }
        for key in keys {
            let why =
                "it did not fetch its answers or finish its request while others waited for memory";
            self.drop_session(key, Some(why.to_owned()));
        }
        // Others may go on.
        self.turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: usize = 32 << 20;

    #[test]
    fn long_requests_wait_and_short_ones_of_idle_clients_do_not() {
        let mut budget = MemoryBudget::default();
        let mut taken = 0;
        while budget.admits(taken, 0, LONGEST) {
            budget.begin(LONGEST);
            taken += 1;
        }
        assert_eq!(taken, MOST_BYTES / LONGEST);
        assert!(budget.admits(99, 0, SHORT) && !budget.admits(99, 0, SHORT + 1));
        assert!(!budget.admits(99, 1, SHORT) && budget.admits(99, 1, 0));
        // What has been answered but not sent counts as well.
        budget.end(LONGEST);
        budget.recount(0, LONGEST);
        assert!(!budget.admits(99, 0, LONGEST));
        budget.recount(LONGEST, LONGEST / 2);
        assert!(!budget.admits(99, 0, LONGEST) && budget.admits(99, 0, LONGEST / 2));
    }

    #[test]
    fn no_session_is_overtaken_while_it_waits() {
        let mut budget = MemoryBudget::default();
        budget.begin(MOST_BYTES - SHORT);
        [1, 2, 1].into_iter().for_each(|key| budget.enqueue(key));
        assert_eq!(budget.queue().collect::<Vec<_>>(), [1, 2]);
        assert!(!budget.admits(3, 4096, 4096) && !budget.admits(2, 4096, 4096));
        assert!(budget.admits(1, 4096, 4096));
        budget.dequeue(1);
        assert!(budget.admits(2, 4096, 4096) && !budget.admits(1, 4096, 4096));
        budget.dequeue(2);
        assert!(budget.admits(3, 4096, 4096));
    }

    #[test]
    fn one_client_has_its_own_limit() {
        assert!(!is_full(0, 2 * MOST_OF_ONE) && !is_full(LONGEST, LONGEST));
        assert!(is_full(LONGEST + 1, LONGEST));
    }

    #[test]
    fn a_client_stalls_only_if_it_owes_and_does_not_move() {
        let mut stall = Stall::default();
        assert!(!stall.look(true, 1, SECONDS));
        assert!(!stall.look(true, 1, 60 * SECONDS));
        assert!(stall.look(true, 1, 61 * SECONDS));
        assert!(!stall.look(true, 2, 62 * SECONDS));
        assert!(!stall.look(false, 2, 500 * SECONDS));
        assert!(!stall.look(true, 2, 501 * SECONDS));
    }

    #[test]
    fn sessions_are_looked_at_only_while_one_waits() {
        let mut budget = MemoryBudget::default();
        assert!(!budget.is_due(0) && budget.due().is_none());
        budget.enqueue(1);
        assert!(!budget.is_due(SECONDS));
        assert_eq!(budget.due(), Some(SECONDS + SWEEP_NS));
        assert!(budget.is_due(SECONDS + SWEEP_NS));
        budget.dequeue(1);
        assert!(!budget.is_due(3 * SWEEP_NS) && budget.due().is_none());
    }
}
