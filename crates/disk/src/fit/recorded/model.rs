//! The specification that answers like a recording: response times by distance, no angles.
//!
//! Track boundaries are unknown, so tracks are nominal, and results must not depend on where they
//! end. A request that crosses an end waits half a turn more. With tracks 1.5 times as long as a
//! turn passes, passing and crossing together take the measured time of a sector. Without a
//! measurement, tracks are so long that few requests cross.

use super::RecordedFit;
use crate::fit::{Estimate, FitError};
use crate::recording::{Figures, Gap, Recorded, Replay, Statistics};
use crate::spec::{Bus, Cache, FastWrite, Overheads, Prefetch, Seek, Spec};
use crate::{Drive, SpecError};

/// Cylinders there are if all have one head.
const CYLINDERS: u64 = 1 << 16;

/// Limits of specifications.
const MOST_CYLINDERS: u64 = 1 << 22;
const MOST_HEADS: u64 = 64;
const MOST_SECTORS: u64 = 1 << 16;

/// The shortest nominal track without a measurement, in sectors, and how many requests fit in it.
const LONG_TRACK: u64 = 4096;
const REQUESTS: u64 = 128;

/// Turns per minute that are tried if the rotation is unknown. The slowest one is taken of which
/// half a turn is less than requests take.
const ASSUMED: [f64; 3] = [7200.0, 10_000.0, 15_000.0];

/// A cache of a specification: segments, sectors in each, and whether they are filled by reading
/// ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    pub(super) segments: u32,
    pub(super) sectors: u32,
    pub(super) ahead: bool,
    /// Tracks are long, and the bus takes the measured time of a sector.
    long_tracks: bool,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess { segments: 4, sectors: 1024, ahead: true, long_tracks: false }
    }
}

/// The guesses that are tried: a recording does not show segments, but which guess predicts best.
const SEGMENTS: [u32; 4] = [1, 4, 16, 64];
const SEGMENT_SECTORS: [u32; 4] = [32, 128, 512, 2048];

/// Requests that guesses are tried with.
const TRIED: usize = 10_000;

/// Most rounds of correcting the means.
const LEVELLED: usize = 3;

/// Another guess than the usual one has to be better by this share.
const BETTER: f64 = 0.98;

/// Tracks of a nominal disk.
struct Nominal {
    heads: u64,
    cylinders: u64,
    /// Sectors of a track.
    track: u64,
}

impl Nominal {
    /// Tracks for so many sectors, of the given length if that is possible.
    fn of(sectors: u64, track: u64) -> Result<Nominal, FitError> {
        let least = sectors.div_ceil(MOST_HEADS * MOST_CYLINDERS);
        if least > MOST_SECTORS {
            return Err(FitError::Specification(format!(
                "the recording reaches to sector {sectors}, a disk has at most {} of them; is the \
                 column of first sectors right?",
                MOST_HEADS * MOST_CYLINDERS * MOST_SECTORS
            )));
        }
        let track = track.clamp(least.max(1), MOST_SECTORS).min(sectors.max(1));
        let tracks = sectors.div_ceil(track).max(1);
        let heads = tracks.div_ceil(CYLINDERS).min(MOST_HEADS);
        Ok(Nominal { heads, cylinders: tracks.div_ceil(heads), track })
    }

    fn cylinder(&self) -> f64 {
        (self.heads * self.track) as f64
    }
}

impl RecordedFit {
    /// Revolutions per minute, assumed if the recording does not show it.
    pub(super) fn rpm(&self) -> f64 {
        if let Some(turn) = self.revolution {
            return 60e9 / turn.value;
        }
        // At short distances, requests may find part of their sectors in the cache.
        let far = self.means.by_distance.iter().find(|&&(sectors, ..)| sectors > 1024.0);
        let least = far.or(self.means.by_distance.first()).map_or(f64::MAX, |&(_, ns, _)| ns);
        let fits = |rpm: &&f64| 30e9 / **rpm + self.command() <= least;
        *ASSUMED.iter().find(fits).unwrap_or(&ASSUMED[ASSUMED.len() - 1])
    }

    /// Cost of every command, in nanoseconds.
    fn command(&self) -> f64 {
        let value = |one: Option<Estimate>| one.map_or(f64::MAX, |one| one.value);
        let least = value(self.hit.filter(|_| self.has_hits()));
        let early = value(self.early.filter(|_| self.writes_early()));
        let least = least.min(early);
        if least == f64::MAX { 0.0 } else { least }
    }

    /// The specification: response times by distance, no angles.
    ///
    /// # Errors
    /// If the recording reaches further than a disk can, or the parts contradict each other.
    pub fn spec(&self, name: &str, summary: &str) -> Result<Spec, FitError> {
        let broken = |error: SpecError| FitError::Specification(error.to_string());
        let rpm = self.rpm();
        let track = match self.means.sector.filter(|_| !self.guess.long_tracks) {
            Some(sector) => (1.5 * 60e9 / rpm / sector.value).round() as u64,
            None => LONG_TRACK.max(REQUESTS * self.longest),
        };
        let nominal = Nominal::of(self.sectors, track)?;
        let text = format!(
            "name = \"fit\"\nsummary = \"\"\nrpm = 7200\nheads = {}\ncylinders = {}\n\
             head_switch_ms = 0\noverhead_ms = 0\naverage_rotation = true\n[[zones]]\n\
             sectors = {}\ntrack_skew = 0\ncylinder_skew = 0\n[seek]\nconstant = {{ ms = 0 }}\n",
            nominal.heads, nominal.cylinders, nominal.track
        );
        let mut spec = Spec::parse(&text).map_err(broken)?;
        spec.name = name.into();
        spec.summary = summary.into();
        spec.capacity_sectors = Some(self.sectors);
        spec.rpm = (rpm * 1000.0).round() / 1000.0;
        // The means include the cost of a change between reading and writing.
        spec.magnetoresistive = Some(false);
        self.times(&mut spec, &nominal);
        self.cache(&mut spec);
        spec.validate().map_err(broken)?;
        Ok(spec)
    }

    /// Overheads, bus and seek curve.
    fn times(&self, spec: &mut Spec, nominal: &Nominal) {
        let command = self.command();
        let half = 30e9 / spec.rpm;
        let beyond = |one: Option<Estimate>| one.map_or(0.0, |one| (one.value - command).max(0.0));
        // On the arm's own cylinder: the response without rotation and travel.
        let near = |&&(sectors, ..): &&(f64, f64, f64)| sectors < nominal.cylinder() / 2.0;
        let (sum, count) = self
            .means
            .by_distance
            .iter()
            .filter(near)
            .fold((0.0, 0.0), |(sum, count), &(_, ns, of)| (sum + ns * of, count + of));
        let first = self.means.by_distance.first().map_or(0.0, |&(_, ns, _)| ns);
        let base = if count > 0.0 { sum / count } else { first } - command - half;
        // If the time without travel is too short, the rest is taken off the travel time.
        let less = (base + self.reads_more).min(0.0);
        let read = round_ms((base + self.reads_more).max(0.0));
        let write = round_ms((base + self.writes_more - less).max(0.0));
        let hit = round_ms(beyond(self.hit.filter(|_| self.has_hits())));
        spec.overhead_ms = round_ms(command);
        spec.overheads = Overheads {
            read_hit_after_read_ms: hit,
            read_hit_after_write_ms: hit,
            read_miss_after_read_ms: read,
            read_miss_after_write_ms: read,
            write_miss_after_read_ms: write,
            write_miss_after_write_ms: write,
            write_hit_after_read_ms: write,
            write_hit_after_write_ms: write,
            ..Overheads::default()
        };
        if self.writes_early() {
            let early = round_ms(beyond(self.early));
            let o = &mut spec.overheads;
            (o.write_miss_after_read_ms, o.write_miss_after_write_ms) = (early, early);
            (o.write_hit_after_read_ms, o.write_hit_after_write_ms) = (early, early);
        }
        let sector_ms =
            |one: Option<Estimate>| one.map_or(0.0, |one| (one.value / 1e3).round() / 1e3);
        spec.bus = Some(Bus {
            read_sector_ms: sector_ms(self.bus_sector),
            write_sector_ms: sector_ms(self.early_sector.filter(|_| self.writes_early())),
            ..Bus::default()
        });
        let mut points: Vec<(u32, f64)> = Vec::new();
        for &(sectors, ns, _) in self.means.by_distance.iter().filter(|one| !near(one)) {
            let distance = ((sectors / nominal.cylinder()).round() as u32).max(1);
            let ms = round_ms((ns - command - half - base + less).max(0.0));
            match points.last_mut() {
                Some(last) if last.0 >= distance => last.1 = ms,
                _ => points.push((distance, ms)),
            }
        }
        if !points.is_empty() {
            spec.seek = Seek::Points(points);
        }
    }

    fn cache(&self, spec: &mut Spec) {
        if !self.has_cache() {
            return;
        }
        let Guess { segments, sectors, ahead, .. } = self.guess;
        let segment_sectors = u64::from(sectors).min(self.sectors).max(1) as u32;
        let mut rules = Cache { segments, segment_sectors, ..Cache::default() };
        if self.has_hits() && ahead {
            rules.read_ahead = Prefetch::Segment;
        }
        if self.writes_early() {
            (rules.fast_write, rules.combine_writes) = (FastWrite::Any, true);
        }
        spec.cache = Some(rules);
    }

    /// Searches for the cache with which the specification predicts best.
    pub(super) fn guess_cache(&mut self, requests: &[Recorded], before: bool) {
        let some = &requests[..requests.len().min(TRIED)];
        let Some(mut least) = self.off(some, before).filter(|_| self.has_hits()) else { return };
        least *= BETTER;
        let mut tried = self.clone();
        for segments in SEGMENTS {
            for sectors in SEGMENT_SECTORS {
                for (ahead, long_tracks) in
                    [(true, false), (false, false), (true, true), (false, true)]
                {
                    tried.guess = Guess { segments, sectors, ahead, long_tracks };
                    if let Some(off) = tried.off(some, before).filter(|&off| off < least) {
                        (least, self.guess) = (off, tried.guess);
                    }
                }
            }
        }
    }

    /// Moves the mean responses of reads and writes to those measured: the model has hits and
    /// waits where the drive had none.
    pub(super) fn level(&mut self, requests: &[Recorded], before: bool) {
        let some = &requests[..requests.len().min(TRIED)];
        let missed = 1.0 - self.hit_share;
        for _ in 0..LEVELLED {
            let Some(least) = self.off(some, before) else { return };
            let Some([_, reads, writes]) = self.replay(some, before) else { return };
            let ns = |figures: Figures| figures.mean_error_ms.unwrap_or(0.0) * 1e6;
            let mut tried = self.clone();
            if missed > 0.0 {
                tried.reads_more -= ns(reads) / missed;
            }
            tried.writes_more -= ns(writes);
            if tried.off(some, before).is_none_or(|off| off >= least) {
                return;
            }
            *self = tried;
        }
    }

    /// How far the specification is off, by mean and request by request, in milliseconds.
    fn off(&self, requests: &[Recorded], before: bool) -> Option<f64> {
        let [all, ..] = self.replay(requests, before)?;
        Some(all.mae_ms? + all.mean_error_ms?.abs())
    }

    /// How well the specification predicts the single requests.
    pub(super) fn replay(&self, requests: &[Recorded], before: bool) -> Option<[Figures; 3]> {
        let spec = self.spec("fit", "").ok()?;
        // Rounding the capacity down would cut off the last requests.
        let spec = Spec { capacity_sectors: None, ..spec };
        Drive::new(&spec).ok()?;
        let gap = if before { Gap::Before } else { Gap::After };
        let make = || Drive::new(&spec).expect("the same specification made a drive just now");
        let mut replay = Replay::new(gap, make);
        let mut statistics = Statistics::new();
        for &request in requests {
            statistics.add(&replay.step(request).ok()?);
        }
        let report = statistics.report();
        Some([report.all, report.reads, report.writes])
    }
}

fn round_ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}
