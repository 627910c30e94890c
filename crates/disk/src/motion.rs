//! Time to reach sectors and to pass over them, for disks of any geometry.
//!
//! Times are integer nanoseconds; the revolution is rounded once. Positions are exact fractions of
//! a turn, so runs repeat to the nanosecond.

use crate::geometry::{Geometry, PARTS, Run};
use crate::spec::{Spec, SpecError, ns};
use seekless_engine::units::Time;

/// Where the head is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
}

impl From<&Run> for Place {
    fn from(run: &Run) -> Place {
        Place { cylinder: run.cylinder, head: run.head }
    }
}

/// Where the time of an access went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Moving the arm, settling included.
    pub seek: Time,
    /// Switching heads, settling included.
    pub switch: Time,
    /// Waiting for sectors.
    pub wait: Time,
    /// Passing over sectors.
    pub pass: Time,
}

/// An access to the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the arm arrived on the first track.
    pub arrived: Time,
    /// When the first sector began to pass.
    pub start: Time,
    /// When the first sector in the host's order had passed; data can flow from then on.
    pub first: Time,
    /// When the last sector had passed.
    pub end: Time,
    /// Where the head is then.
    pub place: Place,
    /// Where the time went.
    pub parts: Parts,
}

/// Seek curve, head switch and rotation over a layout.
#[derive(Clone, Debug)]
pub struct Motion {
    geometry: Geometry,
    rev_ns: Time,
    /// Seek time by distance in cylinders before a read, and before a write.
    seek_ns: [Vec<u32>; 2],
    head_switch_ns: Time,
    settle_ns: [Time; 2],
    average: bool,
    /// A change between reading and writing on a track, if the two elements lie apart.
    jog_ns: Time,
}

impl Motion {
    /// The motion of a specification.
    ///
    /// # Errors
    /// A specification that fails its checks.
    pub fn new(spec: &Spec) -> Result<Motion, SpecError> {
        let geometry = Geometry::new(spec)?;
        let table = |seek: &crate::spec::Seek| -> Vec<u32> {
            let ns = |distance| seek.ns(distance, spec.cylinders).min(u64::from(u32::MAX));
            (0..spec.cylinders).map(|distance| ns(distance) as u32).collect()
        };
        let reads = table(&spec.seek);
        let writes = spec.write_seek.as_ref().map_or_else(|| reads.clone(), table);
        Ok(Motion {
            geometry,
            rev_ns: (60e9 / spec.rpm).round() as Time,
            seek_ns: [reads, writes],
            head_switch_ns: spec.head_switch_ns(),
            settle_ns: [ns(spec.read_settle_ms), ns(spec.write_settle_ms)],
            average: spec.average_rotation,
            jog_ns: match spec.separate_elements() {
                true => spec.seek.ns(1, spec.cylinders),
                false => 0,
            },
        })
    }

    /// The layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// One revolution, in nanoseconds.
    pub fn rev_ns(&self) -> Time {
        self.rev_ns
    }

    /// Seek and head switch to a track: at most one of them is not zero.
    #[inline]
    pub fn travel(&self, from: Place, run: &Run, write: bool) -> (Time, Time) {
        self.travel_to(from, run.cylinder, run.head, write)
    }

    /// The same to a cylinder and head.
    #[inline]
    pub fn travel_to(&self, from: Place, cylinder: u32, head: u32, write: bool) -> (Time, Time) {
        let distance = from.cylinder.abs_diff(cylinder) as usize;
        let table = &self.seek_ns[usize::from(write)];
        // A geometry may claim more cylinders than the disk has.
        let seek = Time::from(table[distance.min(table.len() - 1)]);
        let switch = if from.head == head { 0 } else { self.head_switch_ns };
        let longer = seek.max(switch);
        if longer == 0 {
            return (0, 0);
        }
        let settled = longer.saturating_add(self.settle_ns[usize::from(write)]);
        if distance > 0 { (settled, 0) } else { (0, settled) }
    }

    /// Time to move the other element over the present track, for a change between reading and
    /// writing.
    #[inline]
    pub fn jog_ns(&self) -> Time {
        self.jog_ns
    }

    /// When a position passes, as time since the index mark.
    #[inline]
    fn mark(&self, position: u64, track_sectors: u32) -> Time {
        // A position is at most two turns of 65,536 sectors of 65,536 parts: below 2^33; a turn
        // takes below 2^30 ns for all disks that turn faster than once a second.
        position * self.rev_ns / (u64::from(track_sectors) * PARTS)
    }

    /// Time from the index mark until the run's first sector begins to pass.
    #[inline]
    pub fn target_ns(&self, run: &Run) -> Time {
        self.mark(run.position, run.track_sectors)
    }

    /// Time from `at` until the run's first sector begins to pass: less than a turn.
    #[inline]
    pub fn wait_ns(&self, run: &Run, at: Time) -> Time {
        self.wait_for_ns(run.position, run.track_sectors, at)
    }

    /// Time from `at` until a position, in parts of a sector below a turn, passes on a track of so
    /// many sectors: less than a turn.
    #[inline]
    pub(crate) fn wait_for_ns(&self, position: u64, track_sectors: u32, at: Time) -> Time {
        if self.average {
            return self.rev_ns / 2;
        }
        self.until(self.mark(position, track_sectors), at)
    }

    #[inline]
    pub(crate) fn until(&self, target: Time, at: Time) -> Time {
        let angle = at % self.rev_ns;
        if target >= angle { target - angle } else { target + self.rev_ns - angle }
    }

    /// Time that the first `count` sectors of the run take to pass.
    #[inline]
    pub fn pass_ns(&self, run: &Run, count: u32) -> Time {
        let end = run.position + u64::from(count) * PARTS;
        self.mark(end, run.track_sectors) - self.mark(run.position, run.track_sectors)
    }

    /// Sectors that pass completely in a time, at most `run.count`.
    pub fn passed(&self, run: &Run, time: Time) -> u32 {
        let guess = (time.min(self.rev_ns) * u64::from(run.track_sectors) / self.rev_ns + 1)
            .min(run.count.into());
        let mut count = guess as u32;
        while count > 0 && self.pass_ns(run, count) > time {
            count -= 1;
        }
        count
    }

    /// How many of the sectors that are written from `start` on have passed completely at `now`.
    /// With zero latency they pass in another order; the count is then the one for this order.
    pub fn written(&self, lbn: u64, count: u32, start: Time, now: Time) -> u32 {
        let (mut done, mut at) = (0, start);
        while done < count && at < now {
            let run = self.geometry.run(lbn + u64::from(done));
            let here = run.count.min(count - done);
            let passed = self.passed(&run, now - at).min(here);
            done += passed;
            if passed < here || done == count {
                break;
            }
            at += self.pass_ns(&run, here);
            let next = self.geometry.run(lbn + u64::from(done));
            let (seek, switch) = self.travel(Place::from(&run), &next, true);
            at += seek + switch;
            at += self.wait_ns(&next, at);
        }
        done
    }

    /// Moves the head from `from` at `at` to sectors and over them. Sectors cannot pass before
    /// `earliest`.
    pub fn access(&self, lbn: u64, count: u32, write: bool, from: Place, at: Time) -> Access {
        self.access_from(lbn, count, write, from, at, 0, false)
    }

    /// The same; sectors count only from `earliest` on, and with zero latency those of the first
    /// track are taken in any order.
    #[allow(clippy::too_many_arguments, reason = "what an access is")]
    pub fn access_from(
        &self,
        lbn: u64,
        count: u32,
        write: bool,
        from: Place,
        at: Time,
        earliest: Time,
        zero_latency: bool,
    ) -> Access {
        let run = self.geometry.run(lbn);
        let (seek, switch) = self.travel(from, &run, write);
        let mut parts = Parts { seek, switch, ..Parts::default() };
        let arrived = (at + seek + switch).max(earliest);
        let here = count.min(run.count);
        let pass = self.pass_ns(&run, here);
        let latency = self.wait_ns(&run, arrived);
        let mut wait = latency + (arrived - at - seek - switch);
        let mut first = self.pass_ns(&run, 1);
        // If the head arrives within the run, the sectors ahead of it are read first, and the rest
        // a turn after the first of those.
        if zero_latency && here > 1 && !self.average && latency + pass > self.rev_ns {
            let missed = self.rev_ns - self.until(self.target_ns(&run), arrived);
            let done = self.passed(&run, missed) + 1;
            let next = self.pass_ns(&run, done.min(here)) - missed;
            first += self.until(self.target_ns(&run), arrived);
            let total = self.rev_ns + next + (arrived - at - seek - switch);
            wait = total - pass;
        } else {
            first += wait;
        }
        parts.wait = wait;
        parts.pass = pass;
        let start = at + seek + switch + wait;
        let access = Access {
            arrived,
            start,
            first: at + seek + switch + first,
            end: start + pass,
            place: Place::from(&run),
            parts,
        };
        if here == count { access } else { self.go_on(lbn, count, here, write, access) }
    }

    /// The further runs of an access.
    fn go_on(&self, lbn: u64, count: u32, done: u32, write: bool, access: Access) -> Access {
        let (mut done, mut access) = (done, access);
        while done < count {
            let run = self.geometry.run(lbn + u64::from(done));
            let here = (count - done).min(run.count);
            let (seek, switch) = self.travel(access.place, &run, write);
            let wait = self.wait_ns(&run, access.end + seek + switch);
            let pass = self.pass_ns(&run, here);
            access.parts.seek += seek;
            access.parts.switch += switch;
            access.parts.wait += wait;
            access.parts.pass += pass;
            access.end += seek + switch + wait + pass;
            access.place = Place::from(&run);
            done += here;
        }
        access
    }
}
