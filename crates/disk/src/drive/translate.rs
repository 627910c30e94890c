//! Service of a drive-managed shingled disk: writes to the log or to bands, reads from both, and
//! cleaning.

use super::Request;
use super::service::{Landing, Service};
use super::shingle::Shingle;
use crate::motion::Access;
use seekless_engine::io::{Breakdown, Op};
use seekless_engine::units::Time;

impl Service {
    /// Cleans bands while the disk is idle before `until`. A band that was begun is finished, and
    /// commands that come meanwhile wait.
    pub(super) fn clean_idle(&mut self, until: Time) {
        loop {
            let Some(shingle) = &mut self.shingle else { return };
            let idle = self.controller_free.saturating_add(shingle.idle);
            let mut at = self.mechanism_free.max(idle);
            if at >= until {
                return;
            }
            shingle.end_streams();
            if shingle.is_clean() {
                return;
            }
            if let Some(ahead) = &self.ahead {
                at = at.max(ahead.reach(&self.motion, ahead.limit));
            }
            if at >= until {
                return;
            }
            self.clean(at);
        }
    }

    /// Cleans a band from `at` on: reads it and what the log holds of it, and writes it again.
    /// Returns when that is done.
    fn clean(&mut self, at: Time) -> Time {
        let Some((band, parts)) = self.shingle.as_mut().and_then(Shingle::take) else {
            return at;
        };
        let Some((first, end)) = self.shingle.as_ref().map(|shingle| shingle.span(band)) else {
            return at;
        };
        let count = (end - first) as u32;
        let free = self.stop_ahead(at);
        self.ahead = None;
        let mut now = free + self.jog(first, false);
        for part in parts {
            now = self.pass(part.place, part.count, false, now).end;
        }
        now = self.pass(first, count, false, now).end;
        now += self.jog(first, true);
        now = self.pass(first, count, true, now).end;
        self.mechanism_free = now;
        now
    }

    /// Moves the head over sectors of the platter.
    fn pass(&mut self, place: u64, count: u32, write: bool, at: Time) -> Access {
        let access = self.motion.access(place, count, write, self.place, at);
        self.place = access.place;
        access
    }

    /// Writes to a band or to the log, which first cleans bands if it is full.
    pub(super) fn write_shingled(
        &mut self,
        start: Time,
        request: &Request,
        spent: &mut Breakdown,
    ) -> (Time, (Time, Time)) {
        let (lbn, count) = (request.lbn, request.sectors);
        let end = lbn + u64::from(count);
        let command = self.command_overhead(start, true, false) - self.overhead;
        let taking = self.bus.taking(self.overhead, command, count, false);
        spent.overhead_ns = taking.arm;
        let (at, data) = (start + taking.arm, start + taking.data);
        self.intake_free = data;
        let direct = self.shingle.as_mut().is_some_and(|shingle| shingle.streams_on(lbn, end));
        let mut from = at;
        while !direct && self.shingle.as_ref().is_some_and(|one| !one.has_room(lbn, end)) {
            from = self.clean(from.max(self.mechanism_free));
        }
        let place = match &self.shingle {
            Some(shingle) if !direct => shingle.log_place(count),
            _ => lbn,
        };
        if let Some(shingle) = self.shingle.as_mut().filter(|_| !direct) {
            shingle.append(lbn, end);
        }
        let continued = self.cache.as_ref().and_then(|cache| cache.continued(lbn));
        let goes_on = self.written_until == Some(place);
        self.written_until = Some(place + u64::from(count));
        let landing = Landing { lbn, place, count, continued, goes_on };
        let (access, free) = self.put(from, data, 0, landing);
        spent.queue_ns += free - at;
        spent.seek_ns += access.parts.seek;
        spent.head_switch_ns += access.parts.switch;
        spent.rotation_ns += access.parts.wait;
        let done = access.end.max(start + taking.left) + taking.regain + self.completion[1];
        (done, (access.start, access.end))
    }

    /// Reads sectors that lie partly in the log, one part after the other.
    pub(super) fn fetch_parts(&mut self, at: Time, lbn: u64, end: u64) -> Option<Access> {
        let shingle = self.shingle.as_ref().filter(|shingle| shingle.holds(lbn, end))?;
        let parts = shingle.parts(lbn, end);
        let mut whole: Option<Access> = None;
        for part in parts {
            let from = whole.map_or(at, |access| access.end);
            let next = self.pass(part.place, part.count, false, from);
            whole = Some(match whole {
                None => next,
                Some(mut access) => {
                    access.parts.seek += next.parts.seek;
                    access.parts.switch += next.parts.switch;
                    access.parts.wait += next.parts.wait;
                    access.parts.pass += next.parts.pass;
                    Access { end: next.end, place: next.place, ..access }
                }
            });
        }
        whole
    }

    /// The first sector on the platter of a request that waits, if it is not the host's.
    pub(super) fn elsewhere(&self, request: &Request) -> Option<u64> {
        let shingle = self.shingle.as_ref()?;
        let end = request.lbn + u64::from(request.sectors);
        match request.op {
            Op::Write => Some(shingle.log_place(request.sectors)),
            _ if shingle.holds(request.lbn, end) => {
                shingle.parts(request.lbn, end).first().map(|part| part.place)
            }
            _ => None,
        }
    }

    /// True if the log holds a write, or will when it is complete.
    pub(super) fn logs(&self, lbn: u64, sectors: u32) -> bool {
        let end = lbn + u64::from(sectors);
        self.shingle.as_ref().is_some_and(|shingle| shingle.holds(lbn, end))
    }
}
