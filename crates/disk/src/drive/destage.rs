//! Writing back: what goes into the volatile cache, and when it leaves for the platter.
//!
//! Nothing runs in the background. Before a command is served, and before the state is read, the
//! drive catches up with everything that the disk would have begun by then.

use super::service::Service;
use super::writeback::Dirty;
use super::{Destage, Request, UNDECIDED};
use seekless_engine::io::{Breakdown, Op};
use seekless_engine::units::Time;

impl Service {
    /// True for a write that the write-back cache takes.
    pub(super) fn absorbs(&self, request: &Request) -> bool {
        let fits = |sectors| self.dirty.as_ref().is_some_and(|dirty| dirty.fits(sectors));
        request.op == Op::Write && !request.fua && request.sectors > 0 && fits(request.sectors)
    }

    /// True for a write that the cache takes and has space for at `at`.
    pub(super) fn takes_at_once(&self, request: &Request, at: Time) -> bool {
        let end = request.lbn + u64::from(request.sectors);
        let room = |dirty: &Dirty| dirty.has_room(request.lbn, end, at);
        self.absorbs(request) && self.dirty.as_ref().is_some_and(room)
    }

    /// Writes out what the disk begins to write out before `until`.
    pub(super) fn catch_up(&mut self, until: Time) {
        while let Some(at) = self.begins(until) {
            self.destage(at);
        }
        if self.shingle.is_some() {
            self.clean_idle(until);
        }
    }

    /// When writing out begins next, if before `until`. It begins when the mechanism is free and no
    /// command came for long enough, or at once if the cache is more than half full.
    fn begins(&self, until: Time) -> Option<Time> {
        let dirty = self.dirty.as_ref().filter(|dirty| !dirty.is_empty())?;
        let idle = self.controller_free + dirty.idle;
        let mut at = self.mechanism_free.max(dirty.pressed().unwrap_or(idle));
        if at >= until {
            return None;
        }
        if dirty.pressed().is_none() {
            // Reading ahead takes precedence.
            if let Some(ahead) = &self.ahead {
                at = at.max(ahead.reach(&self.motion, ahead.limit));
            }
        } else if at < self.controller_free {
            // The newest of them may still be coming in.
            at = at.max(dirty.earliest()?);
        }
        (at < until).then_some(at)
    }

    /// Writes out everything from `start` on.
    pub(super) fn write_out(&mut self, start: Time) {
        while self.dirty.as_ref().is_some_and(|dirty| !dirty.is_empty()) {
            self.destage(start.max(self.mechanism_free));
        }
    }

    /// Writes out the next extent from `at` on.
    fn destage(&mut self, at: Time) {
        let Some(dirty) = &mut self.dirty else { return };
        let mut at = at;
        let taken = dirty.take(at).or_else(|| {
            at = at.max(dirty.earliest()?);
            dirty.take(at)
        });
        let Some((lbn, end)) = taken else { return };
        let sectors = (end - lbn) as u32;
        let free = self.stop_ahead(at);
        let jog = self.jog(lbn, true);
        let zero = self.cache.as_ref().is_some_and(|cache| cache.rules.zero_latency_writes);
        let access = self.over(lbn, sectors, free + jog, 0, zero);
        if let Some(dirty) = &mut self.dirty {
            dirty.leave(lbn, end, access.end);
        }
        if let Some(log) = &mut self.log {
            let (media_start, media_end) = (access.start, access.end);
            log.push_back(Destage { at, lbn, sectors, media_start, media_end });
        }
    }

    /// Takes a write into the cache, as soon as there is space.
    pub(super) fn keep(
        &mut self,
        start: Time,
        lbn: u64,
        end: u64,
        spent: &mut Breakdown,
    ) -> (Time, (Time, Time)) {
        let continues = self.dirty.as_ref().is_some_and(|dirty| dirty.ends_at(lbn));
        let overhead = self.command_overhead(start, true, continues);
        spent.overhead_ns = overhead;
        let at = self.room(start + overhead, lbn, end);
        spent.queue_ns += at - start - overhead;
        let taking = self.bus.taking(0, 0, (end - lbn) as u32, false);
        let done = at + taking.data + self.completion[1];
        if let Some(cache) = &mut self.cache {
            cache.drop_range(lbn, end, None);
        }
        if let Some(dirty) = &mut self.dirty {
            dirty.insert(lbn, end, done);
        }
        (done, (UNDECIDED, UNDECIDED))
    }

    /// Waits from `at` on and returns when the cache has space.
    fn room(&mut self, at: Time, lbn: u64, end: u64) -> Time {
        let mut at = at;
        loop {
            let Some(dirty) = &self.dirty else { return at };
            if dirty.has_room(lbn, end, at) {
                return at;
            }
            if dirty.leaving_until() > at {
                at = dirty.leaving_until();
            } else {
                self.destage(at.max(self.mechanism_free));
            }
        }
    }
}
