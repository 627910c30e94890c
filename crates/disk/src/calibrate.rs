//! Calibrates a specification from a recording: the angles of tracks, the rotation, the costs of
//! commands and what the cache does.
//!
//! A part of the recording is kept apart. What is learnt from the rest is kept only where the model
//! comes nearer to the part that it has not seen. What cannot be learnt stays as it was, and is
//! named. [`phase`] finds angles, [`descent`] values that a replay shows.

mod circle;
mod descent;
mod events;
mod judge;
mod phase;
mod refine;
mod scene;
#[cfg(test)]
pub(crate) mod tests;

use crate::recording::{Figures, Gap, Op, Recorded, ReplayError};
use crate::spec::{Spec, SpecError};
use descent::{Part, improve};
use events::{Timed, passed, timed};
use judge::{Judge, whole};
use scene::{LEAST_PAIRS, Scene};

/// Fewest requests that anything is learnt from.
pub const LEAST_REQUESTS: usize = 200;

/// Angles within a track that agree less than this with a rotation do not show it.
const AGREE: f64 = 0.4;

/// Angles of unseen pairs that agree less than this were not learnt.
const LEARNT: f64 = 0.5;

/// So many requests to the platter show angles, if they come from the drive.
const MANY: usize = 100;

/// How a recording is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// How gaps are read; `None` finds out.
    pub gap: Option<Gap>,
    /// Share of the recording, at its end, that is kept apart.
    pub apart: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { gap: None, apart: 0.25 }
    }
}

/// Why nothing could be learnt at all.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Too few requests.
    #[error(
        "the recording has {0} requests; at least {LEAST_REQUESTS} are needed, 500 to 2,000 are \
         enough for most drives"
    )]
    Few(usize),
    /// The specification is not sound.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The recording does not fit the disk.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// How well pairs of requests on one track agree on the rotation, by how gaps are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings {
    /// With the gap before its request: 1 if they agree, about 0 by chance.
    pub before: f64,
    /// With the gap after it.
    pub after: f64,
    /// Such pairs.
    pub pairs: usize,
}

impl Readings {
    /// The reading that is clearly right, if one is.
    pub fn gap(&self) -> Option<Gap> {
        let (high, low) = (self.before.max(self.after), self.before.min(self.after));
        if self.pairs < LEAST_PAIRS || high < AGREE || low > 0.75 * high {
            return None;
        }
        Some(if self.before > self.after { Gap::Before } else { Gap::After })
    }
}

/// How far a model is off the part of a recording that was kept apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Response times.
    pub figures: Figures,
    /// Median error of the rotational position between two requests, in milliseconds, if enough of
    /// them went to the platter. By chance it is a quarter of a turn.
    pub phase_ms: Option<f64>,
}

/// A specification that was calibrated.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The specification.
    pub spec: Spec,
    /// How gaps were read.
    pub gap: Gap,
    /// How well each reading agrees.
    pub readings: Readings,
    /// Requests that were learnt from, and that were kept apart.
    pub requests: (usize, usize),
    /// On the part kept apart, with the specification as it came and as it is now.
    pub before: Judged,
    /// The same with what was learnt.
    pub after: Judged,
    /// What was learnt.
    pub learnt: Vec<String>,
    /// What could not be learnt, and why; it stays as it was.
    pub missing: Vec<String>,
}

/// How well each reading of gaps agrees with a rotation near the one of a specification.
///
/// # Errors
/// A specification that is not sound, or times that are too long.
pub fn readings(spec: &Spec, requests: &[Recorded]) -> Result<Readings, CalibrateError> {
    let spec = whole(spec);
    let agree = |gap| -> Result<(f64, usize), CalibrateError> {
        let times = timed(requests, gap)?;
        let mut best = (f64::MIN, 0);
        for base in [&spec, &without_skews(&spec)] {
            let (_, score, pairs) = phase::turning(&scene(base, &times)?, rev(base));
            if score > best.0 {
                best = (score, pairs);
            }
        }
        Ok(best)
    };
    let (before, pairs) = agree(Gap::Before)?;
    let (after, others) = agree(Gap::After)?;
    Ok(Readings { before, after, pairs: pairs.max(others) })
}

/// The same layout without its skews, for a recording to say all angles.
fn without_skews(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    for zone in &mut spec.zones {
        (zone.track_skew, zone.cylinder_skew, zone.offset) = (0.0, 0.0, 0.0);
    }
    spec
}

fn rev(spec: &Spec) -> f64 {
    60e9 / spec.rpm
}

fn scene(spec: &Spec, timed: &[Timed]) -> Result<Scene, CalibrateError> {
    Ok(Scene::new(spec, passed(spec, timed)?, rev(spec)))
}

/// Calibrates.
///
/// # Errors
/// A recording that is too short or does not fit the disk. A recording that teaches nothing is no
/// error: then [`Calibration::learnt`] is empty.
pub fn calibrate(
    spec: &Spec,
    requests: &[Recorded],
    options: Options,
) -> Result<Calibration, CalibrateError> {
    if requests.len() < LEAST_REQUESTS {
        return Err(CalibrateError::Few(requests.len()));
    }
    let readings = readings(spec, requests)?;
    let gap = options.gap.or(readings.gap()).unwrap_or(Gap::After);
    let cut = (requests.len() as f64 * (1.0 - options.apart.clamp(0.05, 0.9))) as usize;
    let judge = Judge { requests, gap, learnt: 0..cut, apart: cut..requests.len() };
    let times = timed(requests, gap)?;
    let mut work =
        Work { judge, times, spec: spec.clone(), learnt: vec![], missing: vec![], strange: false };
    let before = work.judged()?;
    let gaps = requests.iter().any(|one| matches!(one.pace, crate::recording::Pace::Gap(_)));
    if gaps && options.gap.is_none() && readings.gap().is_none() {
        work.missing.push(unclear(&readings, requests));
    }
    for round in 0..2 {
        work.angles(round)?;
        if work.strange {
            break;
        }
        for part in Part::ALL {
            work.values(part);
        }
    }
    work.sum_up(spec);
    let after = work.judged()?;
    let Work { spec, learnt, missing, judge, .. } = work;
    let requests = (judge.learnt.len(), judge.apart.len());
    Ok(Calibration { spec, gap, readings, requests, before, after, learnt, missing })
}

/// Why the reading of gaps stays open.
fn unclear(readings: &Readings, requests: &[Recorded]) -> String {
    if requests.iter().all(|one| one.op == Op::Write) {
        return "how gaps are read: there are no reads; pauses were taken to come after".into();
    }
    format!(
        "how gaps are read: angles agree by {:.2} with gaps before requests and by {:.2} with gaps \
         after them ({} pairs, chance is 0); is it this drive, and are all times in one unit?",
        readings.before, readings.after, readings.pairs
    )
}

/// A calibration in the making.
struct Work<'a> {
    judge: Judge<'a>,
    times: Vec<Timed>,
    spec: Spec,
    learnt: Vec<String>,
    missing: Vec<String>,
    /// Many requests went to the platter, and no angles explain when they came back.
    strange: bool,
}

impl Work<'_> {
    /// The figures on the part that is kept apart.
    fn judged(&self) -> Result<Judged, CalibrateError> {
        let figures = self.judge.report(&self.spec, &self.judge.apart)?.all;
        Ok(Judged { figures, phase_ms: self.off(&self.spec)?.map(|off| off.1) })
    }

    /// How well the angles of unseen pairs agree, and by how much they are off in milliseconds.
    fn off(&self, spec: &Spec) -> Result<Option<(f64, f64)>, CalibrateError> {
        let spec = whole(spec);
        let scene = scene(&spec, &self.times[self.judge.apart.start..])?;
        let rev = rev(&spec);
        let turns = |event: usize| {
            let event = &scene.events[event];
            spec.phase.as_ref().map_or(0.0, |phase| phase.turns(event.cylinder, event.head))
        };
        let pairs = scene.pairs_back(3, 60.0 * rev);
        if pairs.len() < LEAST_PAIRS {
            return Ok(None);
        }
        let left = |pair: &scene::Pair| {
            circle::wrap(scene::rest(pair, rev) - (turns(pair.to) - turns(pair.from)))
        };
        let mut off: Vec<f64> = pairs.iter().map(|pair| left(pair).abs()).collect();
        off.sort_by(f64::total_cmp);
        let agree = circle::coherence(off.iter().copied());
        Ok(Some((agree, off[off.len() / 2] * rev / 1e6)))
    }

    /// Learns rotation and angles: beside the skews of the layout, or in their place.
    fn angles(&mut self, round: usize) -> Result<(), CalibrateError> {
        let mut best: Option<(f64, Spec)> = None;
        let mut count = 0;
        for base in [self.spec.clone(), without_skews(&self.spec)] {
            let base = Spec { phase: None, ..base };
            let open = whole(&base);
            let scene = scene(&open, &self.times[self.judge.learnt.clone()])?;
            count = scene.events.len();
            let Some(found) = phase::learn(&scene, rev(&base)) else { continue };
            let next = Spec {
                phase: Some(found.phase(&scene)),
                rpm: (60e9 / found.rev * 1e5).round() / 1e5,
                ..base
            };
            if next.validate().is_err() {
                continue;
            }
            if let Some((agree, _)) = self.off(&next)?
                && best.as_ref().is_none_or(|(other, _)| agree > other + 0.01)
            {
                best = Some((agree, next));
            }
        }
        let why = match (best, self.off(&self.spec)?) {
            (Some((agree, next)), Some((_, old))) if agree >= LEARNT => {
                let off = self.off(&next)?.map_or(f64::MAX, |off| off.1);
                if off < old && self.judge.unseen(&next) <= self.judge.unseen(&self.spec) {
                    self.spec = next;
                    return Ok(());
                }
                format!("those of the specification are as good ({old:.3} ms off)")
            }
            (Some((agree, _)), Some((old, _))) => {
                self.strange = old < LEARNT && count >= MANY && !self.spec.average_rotation;
                let why = format!("unseen ones agree by {agree:.2} only, chance is 0");
                match self.strange {
                    true => format!("{why}; this seems to be another drive, or times in two units"),
                    false => why,
                }
            }
            _ => format!("only {count} requests show when a sector passed the head"),
        };
        if round == 0 {
            self.missing.push(format!("the angles of tracks: {why}"));
        }
        Ok(())
    }

    /// Learns a part of the values that a replay shows, and keeps it if it helps where it was not
    /// learnt.
    fn values(&mut self, part: Part) {
        let mut next = self.spec.clone();
        improve(&self.judge, &mut next, part);
        if next != self.spec && self.judge.unseen(&next) < self.judge.unseen(&self.spec) {
            self.spec = next;
        }
    }

    /// Names what differs from the specification as it came, and what does not.
    fn sum_up(&mut self, old: &Spec) {
        let new = &self.spec;
        if new.phase != old.phase {
            self.learnt.push(format!("angles of tracks, rotation {:.2} rpm", new.rpm));
            self.missing.retain(|line| !line.starts_with("the angles"));
        }
        let changed = [
            new.cache != old.cache || new.magnetoresistive != old.magnetoresistive,
            new.overheads != old.overheads
                || (new.bus, new.recorded_bus) != (old.bus, old.recorded_bus)
                || new.head_switch_ms != old.head_switch_ms
                || new.write_settle_ms != old.write_settle_ms
                || new.read_settle_ms != old.read_settle_ms,
            new.seek != old.seek,
        ];
        if self.strange {
            self.missing.push("overheads, cache and seek times: as no angle was found".into());
            return;
        }
        for (part, changed) in Part::ALL.into_iter().zip(changed) {
            match changed {
                true => self.learnt.push(part.name().into()),
                false => self.missing.push(format!("{}: no change helps", part.name())),
            }
        }
    }
}
