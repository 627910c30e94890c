//! The rotation: completions of one sector are whole turns apart.

use super::FitError;
use super::bench::{Bench, Measured, Stop};
use crate::length::length;

/// Turns from 25 ms to 2.2 ms are looked for (2,400 to 27,000 rpm).
const SLOWEST: f64 = 40.0;
const FASTEST: f64 = 450.0;

/// Reads of other places cannot flush a cache that keeps more places than this.
const MOST_SEGMENTS: usize = 8192;

fn no_rotation() -> Stop {
    Stop::Failed(FitError::NotMechanical(
        "completion times show no rotation; this is not a mechanical disk, or its cache or \
         something between holds what is read"
            .into(),
    ))
}

/// Finds the revolution and locks the bench to it.
pub(super) fn acquire(bench: &mut Bench<'_>) -> Measured<()> {
    let reference = bench.aligned(bench.sectors() / 3);
    bench.reference = reference;
    let mut times = Vec::new();
    let mut hits = 0;
    while times.len() < 40 {
        bench.dither(12e6);
        bench.forget(reference)?;
        if bench.touch(reference)? > bench.hit_limit {
            times.push(bench.now());
            continue;
        }
        // The sector may pass at once by chance; else the cache is larger than estimated.
        hits += 1;
        if hits > times.len() / 3 + 3 {
            hits = 0;
            bench.segments *= 2;
            if bench.segments > MOST_SEGMENTS {
                return Err(no_rotation());
            }
        }
    }
    let Some(period) = period_of(&times) else {
        return Err(no_rotation());
    };
    bench.lock(period, &times);
    // The baseline grows step by step; at each step the turn is exact enough to count turns.
    for step in 0..84 {
        let pause = (0.01 * f64::from(1 << (step / 8))).min(3.0);
        bench.pause(pause * 1e9);
        bench.dither(30e6);
        bench.mark()?;
    }
    if bench.sigma() > bench.period() / 12.0 {
        let cause = format!(
            "completion times scatter by {:.2} ms about the rotation; measure on an idle machine \
             and an idle drive",
            bench.sigma() / 1e6
        );
        return Err(Stop::Failed(FitError::NotMechanical(cause)));
    }
    Ok(())
}

/// How well times agree with a frequency: 1 if all are whole periods apart.
fn agreement(times: &[f64], hertz: f64) -> f64 {
    let (mut c, mut s) = (0.0, 0.0);
    for &time in times {
        let (sin, cos) = (time / 1e9 * hertz * std::f64::consts::TAU).sin_cos();
        c += cos;
        s += sin;
    }
    length(c, s) / times.len() as f64
}

/// The longest period, in nanoseconds, with which times agree.
pub(super) fn period_of(times: &[f64]) -> Option<f64> {
    let (first, last) = (*times.first()?, *times.last()?);
    let times: Vec<f64> = times.iter().map(|time| time - first).collect();
    let found = strongest(&times, (last - first) / 1e9);
    found.filter(|&(_, score)| score > 0.75).map(|(period, _)| period)
}

/// The longest of the periods, in nanoseconds, with which times within `span` seconds agree best,
/// and how well from 0 to 1.
pub(super) fn strongest(times: &[f64], span: f64) -> Option<(f64, f64)> {
    if span <= 0.0 || times.is_empty() {
        return None;
    }
    let step = 0.05 / span;
    let count = ((FASTEST - SLOWEST) / step) as usize;
    let hertz = |index: usize| SLOWEST + step * index as f64;
    let scores: Vec<f64> = (0..count).map(|index| agreement(times, hertz(index))).collect();
    let best = scores.iter().copied().fold(0.0, f64::max);
    // Multiples of the frequency agree as well: the lowest one that is about as good.
    let mut peak = scores.iter().position(|&score| score >= 0.88 * best)?;
    while scores.get(peak + 1).is_some_and(|&next| next > scores[peak]) {
        peak += 1;
    }
    Some((1e9 / hertz(peak), scores[peak]))
}
