//! Tools of a measurement: reads that miss the cache, and the phase of the platter.

use super::{Estimate, FitError, Options, Probe};
use seekless_engine::rng::Rng;
use seekless_engine::units::Time;
use std::collections::VecDeque;

/// Passages of the reference sector that are remembered.
const MARKS: usize = 256;

/// Why a measurement ends early.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// The time is up.
    TimeUp,
    /// The drive fails, or is not a mechanical disk.
    Failed(FitError),
}

impl Stop {
    /// The error, for measurements that everything depends on.
    pub(super) fn named(self, what: &'static str) -> FitError {
        match self {
            Stop::TimeUp => FitError::TimeUp(what),
            Stop::Failed(error) => error,
        }
    }
}

pub(super) type Measured<T> = Result<T, Stop>;

/// How far a measurement has come.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The parameter that is measured.
    pub what: &'static str,
    /// Reads so far.
    pub reads: u64,
    /// Time so far, in nanoseconds.
    pub took: Time,
}

/// State that all measurements share.
pub(super) struct Bench<'a> {
    probe: &'a mut dyn Probe,
    progress: &'a mut dyn FnMut(Step),
    pub(super) rng: Rng,
    begun: Time,
    deadline: Option<Time>,
    what: &'static str,
    reads: u64,
    /// First sectors of the last reads, the latest at the end.
    history: VecDeque<u64>,
    /// Reads elsewhere that make the drive forget a sector.
    pub(super) segments: usize,
    /// Sectors behind a read, and before it, that the cache may hold afterwards.
    pub(super) reach: (u64, u64),
    /// Longest time of a hit, in nanoseconds.
    pub(super) hit_limit: f64,
    /// Completions of the reference sector: number of the turn and time.
    marks: VecDeque<(f64, f64)>,
    pub(super) reference: u64,
    period: f64,
    origin: f64,
    sigma: f64,
    period_error: f64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        probe: &'a mut dyn Probe,
        options: &Options,
        progress: &'a mut dyn FnMut(Step),
    ) -> Bench<'a> {
        let begun = probe.now();
        Bench {
            probe,
            progress,
            rng: Rng::stream(options.seed, "fit"),
            begun,
            deadline: options.budget.map(|budget| begun.saturating_add(budget)),
            what: "",
            reads: 0,
            history: VecDeque::new(),
            segments: 1,
            reach: (64, 64),
            hit_limit: 0.0,
            marks: VecDeque::new(),
            reference: 0,
            period: 0.0,
            origin: 0.0,
            sigma: 0.0,
            period_error: 0.0,
        }
    }

    /// Sets the name of the next measurement.
    pub(super) fn begin(&mut self, what: &'static str) {
        self.what = what;
        self.tell();
    }

    fn tell(&mut self) {
        let step = Step { what: self.what, reads: self.reads, took: self.probe.now() - self.begun };
        (self.progress)(step);
    }

    /// Records a parameter as missing if the time was up; a failure is an error.
    #[allow(clippy::unused_self, reason = "reads well")]
    pub(super) fn note(
        &self,
        stop: Stop,
        what: &str,
        missing: &mut Vec<String>,
    ) -> Result<(), FitError> {
        match stop {
            Stop::TimeUp => {
                missing.push(format!("{what}: the time was up"));
                Ok(())
            }
            Stop::Failed(error) => Err(error),
        }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.probe.sectors()
    }

    pub(super) fn granule(&self) -> u64 {
        u64::from(self.probe.granule())
    }

    pub(super) fn largest(&self) -> u32 {
        self.probe.largest()
    }

    /// A sector at which a request may begin.
    pub(super) fn aligned(&self, lbn: u64) -> u64 {
        let granule = self.granule();
        let last = self.sectors().saturating_sub(granule);
        lbn.min(last) / granule * granule
    }

    /// Reads sent and time taken.
    pub(super) fn spent(&self) -> (u64, Time) {
        (self.reads, self.probe.now() - self.begun)
    }

    pub(super) fn now(&self) -> f64 {
        self.probe.now() as f64
    }

    pub(super) fn pause(&mut self, ns: f64) {
        if ns >= 1.0 {
            self.probe.pause(ns as Time);
        }
    }

    /// Waits for a random time up to `most` nanoseconds.
    pub(super) fn dither(&mut self, most: f64) {
        let ns = self.rng.unit() * most;
        self.pause(ns);
    }

    /// A random sector.
    pub(super) fn anywhere(&mut self) -> u64 {
        let at = self.rng.below(self.sectors());
        self.aligned(at)
    }

    /// Reads sectors; the time in nanoseconds.
    pub(super) fn read(&mut self, lbn: u64, sectors: u32) -> Measured<f64> {
        if self.deadline.is_some_and(|deadline| self.probe.now() >= deadline) {
            return Err(Stop::TimeUp);
        }
        if lbn + u64::from(sectors) > self.sectors() {
            return Err(Stop::Failed(FitError::Lost { lbn, sectors: self.sectors() }));
        }
        self.reads += 1;
        if self.reads.is_multiple_of(32) {
            self.tell();
        }
        self.history.push_back(lbn);
        while self.history.len() > self.segments.max(1) {
            self.history.pop_front();
        }
        let took = self.probe.read(lbn, sectors);
        took.map(|ns| ns as f64).map_err(|error| Stop::Failed(FitError::Probe(error)))
    }

    /// Reads the smallest piece at a sector.
    pub(super) fn touch(&mut self, lbn: u64) -> Measured<f64> {
        self.read(lbn, self.probe.granule())
    }

    fn near(&self, lbn: u64, read: u64) -> bool {
        lbn + self.reach.1 >= read && lbn <= read.saturating_add(self.reach.0)
    }

    /// True if the cache may hold a sector.
    pub(super) fn held(&self, lbn: u64) -> bool {
        self.history.iter().any(|&read| self.near(lbn, read))
    }

    /// The first sector of the last read.
    pub(super) fn last(&self) -> Option<u64> {
        self.history.back().copied()
    }

    /// Reads elsewhere until the cache does not hold a sector.
    pub(super) fn forget(&mut self, lbn: u64) -> Measured<()> {
        if self.held(lbn) { self.evict(&[lbn]) } else { Ok(()) }
    }

    /// The same for a sector and a range of others.
    pub(super) fn forget_pair(&mut self, lbn: u64, range: (u64, u64)) -> Measured<()> {
        let (ahead, back) = self.reach;
        let held = self.history.iter().any(|&read| {
            self.near(lbn, read) || range.1 + back >= read && range.0 <= read.saturating_add(ahead)
        });
        if held { self.evict(&[lbn, range.0, range.1]) } else { Ok(()) }
    }

    /// Reads as many other places as the cache has segments.
    pub(super) fn evict(&mut self, keep_off: &[u64]) -> Measured<()> {
        for _ in 0..self.segments.max(1) {
            let mut place = self.anywhere();
            for _ in 0..64 {
                let bad = keep_off.iter().any(|&lbn| self.near(lbn, place))
                    || self.history.iter().any(|&read| self.near(place, read));
                if !bad {
                    break;
                }
                place = self.anywhere();
            }
            self.touch(place)?;
        }
        Ok(())
    }

    /// Duration of a turn in nanoseconds.
    pub(super) fn period(&self) -> f64 {
        self.period
    }

    pub(super) fn revolution(&self) -> Estimate {
        Estimate::new(self.period, self.period_error)
    }

    /// Standard deviation of one completion time.
    pub(super) fn sigma(&self) -> f64 {
        self.sigma
    }

    /// Starts the clock with a rough rotation: completions of the reference sector at those times.
    pub(super) fn lock(&mut self, period: f64, times: &[f64]) {
        self.period = period;
        self.marks.clear();
        let Some(&first) = times.first() else { return };
        for &time in times {
            let turn = ((time - first) / period).round();
            self.marks.push_back((turn, time));
        }
        self.refit();
    }

    /// Straight line through the marks: its slope is the period.
    fn refit(&mut self) {
        let n = self.marks.len() as f64;
        let mean = |f: fn(&(f64, f64)) -> f64| self.marks.iter().map(f).sum::<f64>() / n;
        let (x, y) = (mean(|mark| mark.0), mean(|mark| mark.1));
        let (mut xx, mut xy) = (0.0, 0.0);
        for &(turn, time) in &self.marks {
            xx += (turn - x) * (turn - x);
            xy += (turn - x) * (time - y);
        }
        if xx > 0.0 {
            self.period = xy / xx;
        }
        self.origin = y - self.period * x;
        let off = |&(turn, time): &(f64, f64)| (time - self.origin - self.period * turn).powi(2);
        let squares: f64 = self.marks.iter().map(off).sum();
        self.sigma = (squares / (n - 2.0).max(1.0)).sqrt().max(1.0);
        self.period_error = if xx > 0.0 { self.sigma / xx.sqrt() } else { self.period };
    }

    /// Reads the reference sector and improves the clock by its completion.
    pub(super) fn mark(&mut self) -> Measured<()> {
        let reference = self.reference;
        self.forget(reference)?;
        self.touch(reference)?;
        let time = self.now();
        let turn = ((time - self.origin) / self.period).round();
        self.marks.push_back((turn, time));
        if self.marks.len() > MARKS {
            // Drop every second one of the older half: the baseline stays long.
            let half = MARKS / 2;
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
        self.refit();
        Ok(())
    }

    /// Keeps the clock in step: marks are never further apart than a quarter of their span.
    pub(super) fn stay(&mut self) -> Measured<()> {
        let (Some(first), Some(last)) = (self.marks.front(), self.marks.back()) else {
            return Ok(());
        };
        let span = (last.1 - first.1) / 4.0;
        if self.now() - last.1 > span.min(5e9) {
            for _ in 0..3 {
                self.mark()?;
            }
        }
        Ok(())
    }

    /// Phase of the platter at a time, in nanoseconds after the reference sector.
    pub(super) fn phase_at(&self, time: f64) -> f64 {
        (time - self.origin).rem_euclid(self.period)
    }

    /// A difference of phases, as the nearest of its values to zero.
    pub(super) fn centred(&self, phase: f64) -> f64 {
        phase - (phase / self.period).round() * self.period
    }

    /// Phase at which a sector has passed: the mean of `times` reads.
    pub(super) fn phase(&mut self, lbn: u64, times: u32) -> Measured<f64> {
        let (mut first, mut sum) = (0.0, 0.0);
        for number in 0..times.max(1) {
            self.stay()?;
            self.forget(lbn)?;
            self.touch(lbn)?;
            let phase = self.phase_at(self.now());
            if number == 0 {
                first = phase;
            } else {
                sum += self.centred(phase - first);
            }
        }
        Ok((first + sum / f64::from(times.max(1))).rem_euclid(self.period))
    }

    /// Reads that bring the error of a mean phase below `wanted` nanoseconds, four times over.
    pub(super) fn repeats(&self, wanted: f64) -> u32 {
        let ratio = 4.0 * self.sigma / wanted.max(1.0);
        (ratio * ratio).ceil().clamp(1.0, 16.0) as u32
    }
}
