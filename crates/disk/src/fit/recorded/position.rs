//! Positioning time by the distance in sectors.

use super::events::Event;
use super::quantile;
use crate::fit::Estimate;
use std::collections::BTreeMap;

/// Reads per point of the rough seek curve.
const POINT: usize = 20;

/// Reads per mean: it need not be exact, because neighbours smooth it.
const MEAN: usize = 5;

/// A point of the rough seek curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Distance between the end of the request before and this one, in sectors.
    pub sectors: u64,
    /// The least time from command to data at this distance, in nanoseconds.
    pub ns: Estimate,
    /// Reads behind this point.
    pub reads: usize,
}

/// The lower edge of responses over distance, in steps of a factor of two.
pub(super) fn curve(missed: &[&Event]) -> Vec<Reached> {
    let mut bins: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    for event in missed.iter().filter(|event| event.distance > 0) {
        bins.entry(event.distance.ilog2()).or_default().push(event);
    }
    let mut out: Vec<Reached> = Vec::new();
    for bin in bins.values().filter(|bin| bin.len() >= POINT) {
        let mut times: Vec<f64> = bin.iter().map(|event| event.took as f64).collect();
        times.sort_by(f64::total_cmp);
        let sectors = middle(bin) as u64;
        let (least, more) = (quantile(&times, 0.04), quantile(&times, 0.12));
        // A longer distance never takes less time.
        let value = out.last().map_or(least, |before| before.ns.value.max(least));
        out.push(Reached { sectors, ns: Estimate::new(value, more - least), reads: bin.len() });
    }
    out
}

/// The typical distance of some requests, in sectors.
fn middle(bin: &[&Event]) -> f64 {
    let logs: f64 = bin.iter().map(|event| (event.distance.max(1) as f64).ln()).sum();
    (logs / bin.len() as f64).exp()
}

/// Mean responses of requests that went to the platter. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Means {
    /// Distance in sectors, mean response less what the length costs, and how many requests. A
    /// longer distance never takes less time.
    pub(super) by_distance: Vec<(f64, f64, f64)>,
    /// Time of a sector from the platter, if lengths vary enough to estimate it.
    pub(super) sector: Option<Estimate>,
    /// Time that was subtracted for each sector.
    pub(super) taken: f64,
}

impl Means {
    /// Of reads that went to the platter; the bus takes at least `bus` for a sector.
    pub(super) fn of(missed: &[&Event], bus: f64) -> Means {
        let mut bins: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
        for event in missed {
            // Half octaves.
            let bin = match event.distance {
                0 => 0,
                some => 1 + (2.0 * (some as f64).log2()) as u64,
            };
            bins.entry(bin).or_default().push(event);
        }
        let sector = slope(bins.values());
        let taken = sector.map_or(bus, |one| one.value.max(bus));
        let mut by_distance = Vec::new();
        let mut rest: Vec<&Event> = Vec::new();
        for bin in bins.into_values() {
            rest.extend(bin);
            if rest.len() >= MEAN {
                by_distance.push(mean(&rest, taken));
                rest.clear();
            }
        }
        match by_distance.pop() {
            Some((sectors, ns, count)) if !rest.is_empty() => {
                let (_, more, others) = mean(&rest, taken);
                let all = count + others;
                by_distance.push((sectors, (ns * count + more * others) / all, all));
            }
            last => by_distance.extend(last),
        }
        Means { by_distance: rising(by_distance), sector, taken }
    }

    /// The response that is expected over a distance, for no sectors at all.
    fn at(&self, distance: u64) -> f64 {
        let distance = distance as f64;
        let after = self.by_distance.partition_point(|&(sectors, ..)| sectors < distance);
        let before = after.checked_sub(1).map(|index| self.by_distance[index]);
        match (before, self.by_distance.get(after)) {
            (Some((a, x, _)), Some(&(b, y, _))) => x + (y - x) * (distance - a) / (b - a),
            (_, Some(&(_, one, _))) | (Some((_, one, _)), _) => one,
            (None, None) => 0.0,
        }
    }

    /// How much longer other requests take than these would.
    pub(super) fn more(&self, others: &[&Event]) -> f64 {
        let more = |event: &&Event| {
            event.took as f64 - self.at(event.distance) - self.taken * event.sectors() as f64
        };
        others.iter().map(more).sum::<f64>() / others.len().max(1) as f64
    }
}

fn mean(bin: &[&Event], sector: f64) -> (f64, f64, f64) {
    let count = bin.len() as f64;
    let sum: f64 =
        bin.iter().map(|event| event.took as f64 - sector * event.sectors() as f64).sum();
    (middle(bin), sum / count, count)
}

/// Time of a sector: how responses grow with length among requests over about the same distance.
fn slope<'a>(bins: impl Iterator<Item = &'a Vec<&'a Event>>) -> Option<Estimate> {
    let (mut xx, mut xy, mut yy, mut count) = (0.0, 0.0, 0.0, 0usize);
    for bin in bins {
        let of = bin.len() as f64;
        let x = bin.iter().map(|event| event.sectors() as f64).sum::<f64>() / of;
        let y = bin.iter().map(|event| event.took as f64).sum::<f64>() / of;
        for event in bin {
            let (x, y) = (event.sectors() as f64 - x, event.took as f64 - y);
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        count += bin.len() - 1;
    }
    if xx <= 0.0 || count < 50 {
        return None;
    }
    let value = xy / xx;
    let error = ((yy - value * xy).max(0.0) / count as f64 / xx).sqrt();
    (value > 3.0 * error).then_some(Estimate::new(value, error))
}

/// The nearest curve by least squares that never falls.
fn rising(points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64, f64)> {
    // Groups of points with one value: if the next one is lower, the two are merged.
    let mut groups: Vec<(f64, f64, usize)> = Vec::new();
    for &(_, value, weight) in &points {
        let mut group = (value, weight, 1);
        while let Some(before) = groups.pop_if(|before| before.0 >= group.0) {
            let weight = before.1 + group.1;
            let value = (before.0 * before.1 + group.0 * group.1) / weight;
            group = (value, weight, before.2 + group.2);
        }
        groups.push(group);
    }
    let values = groups.iter().flat_map(|&(value, _, count)| std::iter::repeat_n(value, count));
    points.iter().zip(values).map(|(&(at, _, weight), value)| (at, value, weight)).collect()
}
