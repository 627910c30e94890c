//! The segmented cache: its content, and how far the head has read ahead.
//!
//! Reading ahead is not a series of events. It is a run of sectors, the time at which its first one
//! began to pass, and a limit. Its progress is computed when it is needed.

use crate::geometry::Run;
use crate::motion::{Motion, Place};
use crate::spec::{Cache, Prefetch};
use seekless_engine::units::Time;

/// The content of a segment: sectors `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First sector.
    pub start: u64,
    /// Behind the last sector.
    pub end: u64,
    /// The data was written, not read.
    pub written: bool,
    /// Reads of the sequence that filled it.
    reads: u32,
    used: u64,
}

/// Reading ahead: the head passes over `run`, which begins at sector `lbn`.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Number of the segment that is filled.
    pub segment: usize,
    lbn: u64,
    run: Run,
    /// When the run's first sector begins to pass.
    since: Time,
    /// The first sector that was read ahead.
    pub begun: u64,
    /// The sector behind the last one that will be read.
    pub limit: u64,
}

impl Ahead {
    /// Continues reading at sector `lbn`, with the head at `place` at `at`.
    pub fn begin(
        motion: &Motion,
        segment: usize,
        lbn: u64,
        limit: u64,
        place: Place,
        at: Time,
    ) -> Ahead {
        let (run, since) = next(motion, lbn, place, at);
        Ahead { segment, lbn, run, since, begun: lbn, limit }
    }

    /// Advances to the run over which the head is at `now`.
    pub fn advance(&mut self, motion: &Motion, now: Time) {
        loop {
            let end = self.lbn + u64::from(self.run.count);
            if self.since >= now || end >= self.limit {
                return;
            }
            let passed = self.since + motion.pass_ns(&self.run, self.run.count);
            if passed > now {
                return;
            }
            (self.run, self.since) = next(motion, end, Place::from(&self.run), passed);
            self.lbn = end;
        }
    }

    /// When all sectors before `end` have been read; `end` lies within the limit.
    pub fn reach(&self, motion: &Motion, end: u64) -> Time {
        let (mut lbn, mut run, mut since) = (self.lbn, self.run, self.since);
        loop {
            if end <= lbn {
                return since;
            }
            let wanted = end - lbn;
            if wanted <= u64::from(run.count) {
                return since + motion.pass_ns(&run, wanted as u32);
            }
            let passed = since + motion.pass_ns(&run, run.count);
            lbn += u64::from(run.count);
            (run, since) = next(motion, lbn, Place::from(&run), passed);
        }
    }

    /// The sector behind the last one read at `now`, which [`Ahead::advance`] has seen.
    pub fn pointer(&self, motion: &Motion, now: Time) -> u64 {
        if now <= self.since {
            return self.lbn;
        }
        let passed = motion.passed(&self.run, now - self.since);
        (self.lbn + u64::from(passed)).min(self.limit)
    }

    /// Where the head is.
    pub fn place(&self) -> Place {
        Place::from(&self.run)
    }
}

fn next(motion: &Motion, lbn: u64, place: Place, at: Time) -> (Run, Time) {
    // The limit keeps the head from going behind the last sector of the disk.
    let lbn = lbn.min(motion.geometry().sectors() - 1);
    let run = motion.geometry().run(lbn);
    let (seek, switch) = motion.travel(place, &run, false);
    let arrived = at + seek + switch;
    let since = arrived + motion.wait_ns(&run, arrived);
    (run, since)
}

/// The segments of a cache.
#[derive(Clone, Debug)]
pub struct Segments {
    /// Its rules.
    pub rules: Cache,
    segments: Vec<Segment>,
    clock: u64,
}

impl Segments {
    /// An empty cache.
    pub fn new(rules: Cache) -> Segments {
        let segments = vec![Segment::default(); rules.segments as usize];
        Segments { rules, segments, clock: 0 }
    }

    /// A segment.
    pub fn get(&self, index: usize) -> &Segment {
        &self.segments[index]
    }

    /// First sector of each segment that holds something, and the sector behind its last.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        let held = self.segments.iter().filter(|segment| segment.start < segment.end);
        held.map(|segment| (segment.start, segment.end))
    }

    /// The segment that holds a sector, the one used last if there are several.
    pub fn find(&self, lbn: u64) -> Option<usize> {
        let mut found: Option<usize> = None;
        for (index, segment) in self.segments.iter().enumerate() {
            let hit = segment.start <= lbn && lbn < segment.end;
            if hit
                && (!segment.written || self.rules.read_hits_on_writes)
                && found.is_none_or(|other| self.segments[other].used < segment.used)
            {
                found = Some(index);
            }
        }
        found
    }

    /// The written segment that ends at a sector: a write that begins there continues it.
    pub fn continued(&self, lbn: u64) -> Option<usize> {
        self.segments.iter().position(|segment| segment.written && segment.end == lbn)
    }

    /// Takes the segment that was not used for longest; reads and writes have their own if the
    /// rules say so. A cache that forgets empties the others for a read.
    pub fn take(&mut self, written: bool) -> usize {
        if self.rules.forgets && !written {
            self.segments.fill(Segment::default());
        }
        let apart = self.rules.separate_write_segment && self.segments.len() > 1;
        let range = match (apart, written) {
            (false, _) => 0..self.segments.len(),
            (true, true) => 0..1,
            (true, false) => 1..self.segments.len(),
        };
        let writes = || self.segments.iter().filter(|segment| segment.written).count();
        let full = written && !apart && writes() >= self.rules.write_segments as usize;
        let oldest = range
            .filter(|&index| !full || self.segments[index].written)
            .min_by_key(|&index| (self.segments[index].used, index));
        oldest.unwrap_or(0)
    }

    /// Sets the content of a segment and makes it the last used.
    pub fn set(&mut self, index: usize, start: u64, end: u64, written: bool) {
        self.clock += 1;
        let start = start.max(end.saturating_sub(u64::from(self.rules.segment_sectors)));
        self.segments[index] = Segment { start, end, written, reads: 1, used: self.clock };
    }

    /// The number that a read of sectors from `lbn` on has in its sequence: one if no segment that
    /// was read ends there.
    pub fn in_sequence(&self, lbn: u64) -> u32 {
        let before = self.segments.iter().filter(|segment| !segment.written && segment.end == lbn);
        before.map(|segment| segment.reads.saturating_add(1)).max().unwrap_or(1)
    }

    /// Records which read of a sequence has filled a segment.
    pub fn continue_sequence(&mut self, index: usize, reads: u32) {
        self.segments[index].reads = reads;
    }

    /// Records that sectors up to `end` were read into a segment. The oldest are evicted.
    pub fn extend(&mut self, index: usize, end: u64) {
        let size = u64::from(self.rules.segment_sectors);
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(size));
    }

    /// Makes a segment the last used, for one more read.
    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
        self.segments[index].reads = self.segments[index].reads.saturating_add(1);
    }

    /// Drops overwritten sectors from the other segments.
    pub fn drop_range(&mut self, start: u64, end: u64, except: Option<usize>) {
        for (index, segment) in self.segments.iter_mut().enumerate() {
            if Some(index) == except || segment.start >= end || start >= segment.end {
                continue;
            }
            *segment = Segment::default();
        }
    }

    /// How far the head reads ahead after a read of `lbn..end` into a segment that begins at
    /// `start`.
    pub fn limit(&self, motion: &Motion, start: u64, lbn: u64, end: u64) -> u64 {
        let geometry = motion.geometry();
        if end >= geometry.sectors() {
            return end;
        }
        let room = u64::from(self.rules.segment_sectors);
        let most = match self.rules.max_read_ahead {
            0 => room,
            most => u64::from(most),
        };
        // Sectors that the host has received may be replaced, if the rules say so.
        let room = if self.rules.read_ahead_over_requested { end + room } else { lbn + room };
        let limit = match self.rules.read_ahead {
            Prefetch::None => end,
            // A read that came from another track shows a sequence: one track more.
            Prefetch::Track => match geometry.track_end(end) {
                track_end if geometry.track_end(lbn) < end => {
                    geometry.track_end(track_end.min(geometry.sectors() - 1))
                }
                track_end => track_end,
            },
            Prefetch::Cylinder => geometry.cylinder_end(end - 1),
            Prefetch::Segment => u64::MAX,
            Prefetch::SequentialTrack => {
                let track_end = geometry.track_end(end);
                let sectors = u64::from(geometry.run(end).track_sectors);
                let crossed = start + sectors < track_end;
                if crossed { track_end + sectors } else { track_end }
            }
        };
        limit.min(room).min(end + most).min(geometry.sectors()).max(end)
    }
}
