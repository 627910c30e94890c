//! Requests that the cache answered: they are quick, or all take the same time.

use super::events::Event;
use super::quantile;
use crate::fit::Estimate;
use std::collections::BTreeMap;

/// Some reads from any rotating disk take longer than this, in nanoseconds.
const TYPICAL: f64 = 4e6;

/// Longest response from a cache, in nanoseconds.
const SLOWEST: f64 = 4e6;

/// Requests that a class must have.
const LEAST: usize = 20;

/// Share of the requests of one length that take the same time if a cache answers some. Random
/// waits for a platter at 27,000 rpm give half of this.
const SHARE: f64 = 0.04;

/// Below this share, quick reads of places that no cache can hold are chance.
const LUCK: f64 = 0.05;

/// Which requests came from the cache: those that took at most so many nanoseconds.
#[derive(Clone, Debug)]
enum Limit {
    /// The quick ones of all lengths are separate from slower ones.
    Same(f64),
    /// The requests of one length take the same time.
    ByLength(BTreeMap<u64, f64>),
}

/// A class of quick requests.
#[derive(Clone, Debug)]
pub(super) struct Quick {
    limit: Limit,
    /// Quick requests to places requested for the first time: no cache can hold them.
    not_fresh: bool,
}

impl Quick {
    pub(super) fn holds(&self, event: &Event) -> bool {
        let limit = match &self.limit {
            Limit::Same(limit) => *limit,
            Limit::ByLength(limits) => {
                let shorter = limits.range(..=event.sectors()).next_back();
                shorter.or_else(|| limits.first_key_value()).map_or(0.0, |(_, &limit)| limit)
            }
        };
        (event.took as f64) < limit && !(self.not_fresh && event.fresh)
    }
}

/// The time below which a request is quick, in nanoseconds, if quick ones are a separate class.
pub(super) fn bound(reads: &[Event]) -> f64 {
    let times = |fresh: bool| {
        let some = reads.iter().filter(|event| event.fresh || !fresh);
        let mut times: Vec<f64> = some.map(|event| event.took as f64).collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let fresh = times(true);
    let typical = if fresh.len() >= 50 { fresh } else { times(false) };
    (quantile(&typical, 0.5).max(TYPICAL) / 4.0).min(3e6)
}

/// The reads that came from the cache, if any can be identified.
pub(super) fn reads(reads: &[Event], bound: f64) -> Option<Quick> {
    let all: Vec<&Event> = reads.iter().collect();
    let fresh: Vec<&Event> = reads.iter().filter(|event| event.fresh).collect();
    let old: Vec<&Event> = reads.iter().filter(|event| !event.fresh).collect();
    let lucky = |limit: &Limit| {
        let quick = Quick { limit: limit.clone(), not_fresh: false };
        fresh.iter().filter(|event| quick.holds(event)).count() as f64 <= LUCK * fresh.len() as f64
    };
    let found = |limit: Limit| Some(Quick { not_fresh: lucky(&limit), limit });
    if apart(&all, bound) {
        return found(Limit::Same(bound));
    }
    // Equal times at places requested for the first time mean a constant time.
    alike(&old, fresh.len() < LEAST || !constant(&fresh)).and_then(found)
}

/// The writes that were reported before they can have been on the platter, if there are any.
pub(super) fn writes(writes: &[&Event], bound: f64) -> Option<Quick> {
    let limit = match apart(writes, bound) {
        true => Some(Limit::Same(bound)),
        false => alike(writes, true),
    };
    limit.map(|limit| Quick { limit, not_fresh: false })
}

/// True if the events below a bound are separate from those above: waits for the platter are as
/// frequent below as above.
fn apart(events: &[&Event], bound: f64) -> bool {
    let within = |low: f64, high: f64| {
        events.iter().filter(|event| (low..high).contains(&(event.took as f64))).count()
    };
    let quick = within(0.0, bound);
    quick >= LEAST && quick > 2 * within(bound, 2.0 * bound) + LEAST / 2
}

fn constant(events: &[&Event]) -> bool {
    alike(events, true).is_some()
}

/// The times that many requests of a length take, after pauses of any length.
fn alike(events: &[&Event], possible: bool) -> Option<Limit> {
    let mut by_length: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in events.iter().filter(|_| possible) {
        by_length.entry(event.sectors()).or_default().push(event);
    }
    let limits: BTreeMap<u64, f64> = by_length
        .into_iter()
        .filter_map(|(length, events)| Some((length, 1.25 * same_time(events)?)))
        .collect();
    (!limits.is_empty()).then_some(Limit::ByLength(limits))
}

/// The least time that many of the requests take after pauses of any length. A platter that is read
/// at one place after one of a few pauses also repeats its time, but the time depends on the pause.
fn same_time(mut events: Vec<&Event>) -> Option<f64> {
    if events.len() < LEAST {
        return None;
    }
    events.sort_by_key(|event| event.took);
    let needed = ((events.len() as f64 * SHARE) as usize).max(LEAST / 2);
    let varied = pauses(&events);
    (needed..=events.len()).find_map(|end| {
        let some = &events[end - needed..end];
        let (first, last) = (some[0].took as f64, some[needed - 1].took as f64);
        let narrow = last - first <= (0.02 * first).max(50e3) && last <= SLOWEST;
        // All that take as long.
        let whole = events.partition_point(|event| event.took as f64 <= last.max(1.02 * first));
        let indifferent = pauses(&events[end - needed..whole]) >= 0.5 * varied;
        // If all pauses are alike, only the time itself can decide.
        let known = if varied >= 5e5 { indifferent } else { last < TYPICAL / 4.0 };
        (narrow && known).then_some(last)
    })
}

/// Between which times most pauses lie, in nanoseconds.
fn pauses(events: &[&Event]) -> f64 {
    let mut pauses: Vec<f64> = events.iter().map(|event| event.pause as f64).collect();
    pauses.sort_by(f64::total_cmp);
    quantile(&pauses, 0.9) - quantile(&pauses, 0.1)
}

/// The lower edge of quick requests over their length: its slope is the bus, the rest the overhead.
/// If all have one length, the slope is zero.
pub(super) fn edge<'a>(
    quick: impl Iterator<Item = &'a Event>,
) -> Option<(Estimate, Option<Estimate>)> {
    let mut by_length: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut all = Vec::new();
    for event in quick {
        by_length.entry(event.sectors()).or_default().push(event.took as f64);
        all.push(event.took as f64);
    }
    if all.len() < LEAST {
        return None;
    }
    let mut points = Vec::new();
    for (length, mut times) in by_length {
        times.sort_by(f64::total_cmp);
        if times.len() >= 4 {
            points.push((length as f64, quantile(&times, 0.25), times.len() as f64));
        }
    }
    let found = line(&points);
    let grows = |(constant, slope): &(Estimate, Estimate)| constant.value.min(slope.value) > 0.0;
    if let Some((constant, slope)) = found.filter(grows) {
        return Some((constant, Some(slope)));
    }
    all.sort_by(f64::total_cmp);
    let (low, middle) = (quantile(&all, 0.25), quantile(&all, 0.5));
    Some((Estimate::new(low, (middle - low).max(low / 20.0)), None))
}

/// The line through weighted points: its value at zero and its slope.
fn line(points: &[(f64, f64, f64)]) -> Option<(Estimate, Estimate)> {
    if points.len() < 3 {
        return None;
    }
    let weight: f64 = points.iter().map(|point| point.2).sum();
    let mean = |f: fn(&(f64, f64, f64)) -> f64| {
        points.iter().map(|point| f(point) * point.2).sum::<f64>() / weight
    };
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (mut xx, mut xy) = (0.0, 0.0);
    for &(px, py, w) in points {
        xx += w * (px - x) * (px - x);
        xy += w * (px - x) * (py - y);
    }
    if xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let constant = y - slope * x;
    let off = |&(px, py, w): &(f64, f64, f64)| w * (py - constant - slope * px).powi(2);
    let variance = points.iter().map(off).sum::<f64>() / (points.len() - 2) as f64;
    let error = (variance / xx).sqrt();
    let at_zero = (variance / weight + error * error * x * x).sqrt();
    Some((Estimate::new(constant, at_zero), Estimate::new(slope, error)))
}
