//! The rotation of a recording: a sector that is read twice from the platter is complete both times
//! at the same angle, so whole turns lie between.
//!
//! That alone proves nothing. If all responses are alike (a cache, a model of constant time) and
//! the host has a few lengths of pauses, the spans between completions have few values, and some
//! period divides them. A platter shows because the *response makes up for the pause*: with
//! responses interchanged, the agreement must disappear. And a period is the turn, not a multiple
//! of it, only if the spans, or the times that the requests waited, do not agree with a part of it.

use super::events::Event;
use crate::fit::Estimate;
use crate::length::length;
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Two completions at the same place tell of the rotation if they are no further apart, in
/// nanoseconds: the period of a real spindle is steady to some parts in 10⁵.
const APART: f64 = 2e9;

/// No turn is shorter, in nanoseconds.
const SHORTEST: f64 = 2e6;

/// Pairs of completions that are needed to find a rotation.
const PAIRS: usize = 24;

/// Spans that are looked at while searching; all of them are for the value.
const SEARCHED: usize = 1000;

/// Turns from 25 ms to 2.2 ms are looked for, in Hz: 2,400 to 27,000 rpm.
const SLOWEST: f64 = 40.0;
const FASTEST: f64 = 450.0;

/// Step of the search in Hz: a span of [`APART`] moves by a twentieth of a turn.
const STEP: f64 = 0.025;

/// Variation between a sector and its report that spans of one number of turns do not show, in
/// nanoseconds.
const UNSEEN: f64 = 50e3;

/// Resolution of times in recordings, in nanoseconds.
const WRITTEN: f64 = 2000.0;

/// Two completions at the same place, in nanoseconds.
#[derive(Clone, Copy)]
struct Pair {
    /// From the first to when the second was asked for.
    waited: f64,
    /// How long that one took.
    took: f64,
}

impl Pair {
    fn span(&self) -> f64 {
        self.waited + self.took
    }
}

/// The time of a turn, or why it cannot be estimated. `missed` says which requests went to the
/// platter.
pub(super) fn rotation(
    events: &[Event],
    missed: impl Fn(&Event) -> bool,
) -> Result<Estimate, &'static str> {
    let pairs = pairs(events, missed);
    if pairs.len() < PAIRS {
        return Err("too few places were read twice from the platter");
    }
    let few: Vec<Pair> = pairs.iter().step_by(pairs.len().div_ceil(SEARCHED)).copied().collect();
    let spans: Vec<f64> = few.iter().map(Pair::span).collect();
    let (period, score) = search(&spans);
    // Chance agreement of n spans is about 1/√n; among thousands of periods four times that occurs.
    if score < (4.5 / (spans.len() as f64).sqrt()).max(0.5) {
        return Err("requests for the same place are not whole turns apart");
    }
    if search(&interchanged(&few)).1 > 0.5 + 0.5 * score {
        return Err("responses for the same place do not depend on the pauses before");
    }
    if !is_whole(&few, period) {
        return Err("the pauses are too similar to distinguish one turn from two");
    }
    let spans: Vec<f64> = pairs.iter().map(Pair::span).collect();
    refined(&spans, period).ok_or("completions at the same place scatter too much")
}

fn pairs(events: &[Event], missed: impl Fn(&Event) -> bool) -> Vec<Pair> {
    // Reads and writes differ in the time after their last sector.
    let mut last: BTreeMap<(u64, bool), f64> = BTreeMap::new();
    let mut pairs = Vec::new();
    for event in events.iter().filter(|event| missed(event)) {
        let (took, done) = (event.took as f64, event.done as f64);
        if let Some(before) = last.insert((event.end, event.read), done) {
            let pair = Pair { waited: done - took - before, took };
            if (SHORTEST..APART).contains(&pair.span()) {
                pairs.push(pair);
            }
        }
    }
    pairs
}

/// The spans that would result if responses did not depend on the time of the request.
fn interchanged(pairs: &[Pair]) -> Vec<f64> {
    let away = pairs.len() / 2 + 1;
    let other = |index: usize| pairs[(index * 7 + away) % pairs.len()].took;
    pairs.iter().enumerate().map(|(index, pair)| pair.waited + other(index)).collect()
}

/// How well spans agree with being whole periods: 1 if all are, 0 if they are anything.
fn agreement(spans: &[f64], hertz: f64) -> f64 {
    spans.iter().map(|span| (span / 1e9 * hertz * TAU).cos()).sum::<f64>() / spans.len() as f64
}

/// The longest of the periods with which spans agree best, in nanoseconds, and how well.
fn search(spans: &[f64]) -> (f64, f64) {
    let hertz = |index: usize| SLOWEST + STEP * index as f64;
    let count = ((FASTEST - SLOWEST) / STEP) as usize;
    let scores: Vec<f64> = (0..count).map(|index| agreement(spans, hertz(index))).collect();
    let best = scores.iter().copied().fold(0.0, f64::max);
    // Multiples of the frequency agree as well: the lowest one that is about as good.
    let mut peak = scores.iter().position(|&score| score >= 0.88 * best).unwrap_or(0);
    while scores.get(peak + 1).is_some_and(|&next| next > scores[peak]) {
        peak += 1;
    }
    (1e9 / hertz(peak), scores[peak])
}

/// True if the period is one turn. If it were several, all spans would by chance be multiples of
/// several turns, and every wait would be shorter than a part of the period.
fn is_whole(pairs: &[Pair], period: f64) -> bool {
    let mut turns: Vec<u64> =
        pairs.iter().map(|pair| (pair.span() / period).round() as u64).collect();
    turns.sort_unstable();
    turns.dedup();
    let mut took: Vec<f64> = pairs.iter().map(|pair| pair.took).collect();
    took.sort_by(f64::total_cmp);
    let range = super::quantile(&took, 0.95) - super::quantile(&took, 0.05);
    turns.len() >= 8 || range > 0.55 * period
}

/// The period by least squares over the spans, which are whole multiples of it plus a constant. The
/// constant is the variation between the end of a sector and its report. Among spans of a turn or
/// two it would pass for part of the turn.
fn refined(spans: &[f64], period: f64) -> Option<Estimate> {
    let (mut period, mut common, mut error) = (period, 0.0, 0.0);
    // A span further off a whole turn is no read from the platter, or a retried one.
    let mut near = period / 6.0;
    for _ in 0..6 {
        let turns = |span: f64| ((span - common) / period).round();
        let off = |span: f64| span - common - turns(span) * period;
        let used: Vec<(f64, f64)> = spans
            .iter()
            .filter(|&&span| turns(span) > 0.0 && off(span).abs() <= near)
            .map(|&span| (turns(span), span))
            .collect();
        if used.len() < PAIRS / 2 {
            return None;
        }
        let sound = varied(&used);
        (period, common) = if sound { sloping(&used) } else { (through_zero(&used), 0.0) };
        let count = used.len() as f64;
        let x = if sound { used.iter().map(|one| one.0).sum::<f64>() / count } else { 0.0 };
        let xx: f64 = used.iter().map(|one| (one.0 - x).powi(2)).sum();
        let unseen = if sound { 0.0 } else { UNSEEN / (xx / count).sqrt() };
        let mut off: Vec<f64> =
            used.iter().map(|one| (one.1 - common - one.0 * period).abs()).collect();
        let squares: f64 = off.iter().map(|off| off * off).sum();
        error = length((squares / (count - 2.0) / xx).sqrt(), unseen);
        // Keep those within the usual scatter, but at least within the resolution of times.
        off.sort_by(f64::total_cmp);
        near = (6.0 * super::quantile(&off, 0.5)).clamp(WRITTEN, period / 6.0);
    }
    // Drives and models count time in steps of a nanosecond, which no number of spans undercuts.
    (common.abs() < period / 6.0).then_some(Estimate::new(period, error.max(0.5)))
}

/// True if enough spans have another number of turns than the commonest, so that a line can be
/// fitted.
fn varied(spans: &[(f64, f64)]) -> bool {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for (turns, _) in spans {
        *counts.entry(*turns as u64).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    spans.len() - most >= PAIRS / 2
}

/// The slope of the line through turns and spans, and its value at zero.
fn sloping(spans: &[(f64, f64)]) -> (f64, f64) {
    let count = spans.len() as f64;
    let x = spans.iter().map(|one| one.0).sum::<f64>() / count;
    let y = spans.iter().map(|one| one.1).sum::<f64>() / count;
    let xx: f64 = spans.iter().map(|one| (one.0 - x).powi(2)).sum();
    let slope = spans.iter().map(|one| (one.0 - x) * (one.1 - y)).sum::<f64>() / xx;
    (slope, y - slope * x)
}

fn through_zero(spans: &[(f64, f64)]) -> f64 {
    let squares: f64 = spans.iter().map(|one| one.0 * one.0).sum();
    spans.iter().map(|one| one.0 * one.1).sum::<f64>() / squares
}
