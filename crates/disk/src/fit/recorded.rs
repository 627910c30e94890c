//! What a recording tells of its drive.
//!
//! Nobody chose its requests to find out anything, so much stays hidden: where tracks begin, how
//! they are skewed, how many heads there are. What can be had are response times: those of the
//! quickest reads (hits), how they grow with length (the bus), how much longer they take after a
//! longer way (a rough seek curve by distance in sectors), and, where the same place was read
//! twice from the platter, the rotation.

use super::rotation::strongest;
use super::{Estimate, FitError};
use crate::recording::{Op, Pace, Recorded};
use crate::spec::{Cache, FastWrite, Prefetch, Seek, Spec};
use std::collections::BTreeMap;

/// Requests that are kept; a longer recording tells no more.
const MOST: usize = 1 << 20;

/// Cylinders of the specification that comes of it. Nothing is known of real ones.
const CYLINDERS: u32 = 2000;

/// Two completions at the same place tell of the rotation if they are no further apart, in
/// nanoseconds: the period of a real spindle is steady to some parts in 10⁵.
const APART: f64 = 2e9;

/// No turn is shorter, in nanoseconds.
const SHORTEST: f64 = 2e6;

/// Pairs of completions that are needed to tell a rotation.
const PAIRS: usize = 24;

/// Where more than this share of the writes were reported early, so are those of the specification.
const EARLY: f64 = 0.5;

/// Segments of the cache of a specification, and sectors in each: a recording does not show them.
const SEGMENTS: (u32, u32) = (4, 1024);

/// A point of the rough seek curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reached {
    /// Distance between the end of the request before and this one, in sectors.
    pub sectors: u64,
    /// The least time from command to data at this distance, in nanoseconds.
    pub ns: Estimate,
    /// Reads on which this rests.
    pub reads: usize,
}

/// What a recording tells. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct RecordedFit {
    /// Requests looked at.
    pub requests: usize,
    /// The last sector that was asked for, and one.
    pub sectors: u64,
    /// One revolution, if the recording shows it.
    pub revolution: Option<Estimate>,
    /// Share of reads that came from the cache, from 0 to 1.
    pub hit_share: f64,
    /// Fixed part of a read from the cache.
    pub hit: Option<Estimate>,
    /// For each sector of it.
    pub bus_sector: Option<Estimate>,
    /// Share of writes that were reported before they can have been on the platter.
    pub early_writes: f64,
    /// Response over distance.
    pub seek: Vec<Reached>,
    /// What could not be estimated, and why.
    pub missing: Vec<String>,
}

/// A request with its times.
#[derive(Clone, Copy, Debug)]
struct Event {
    read: bool,
    lbn: u64,
    end: u64,
    took: f64,
    done: f64,
    /// Distance from the end of the request before.
    distance: u64,
}

/// Estimates what a recording tells; pauses stand before their requests if `before`, else after.
///
/// # Errors
/// If there are too few requests to tell anything.
pub fn recorded(
    requests: impl Iterator<Item = Recorded>,
    before: bool,
) -> Result<RecordedFit, FitError> {
    let events = events(requests, before);
    let reads: Vec<Event> = events.iter().copied().filter(|event| event.read).collect();
    if reads.len() < 100 {
        let few = format!("the recording has {} reads; at least 100 tell something", reads.len());
        return Err(FitError::NotMechanical(few));
    }
    let mut fit = RecordedFit {
        requests: events.len(),
        sectors: events.iter().map(|event| event.end).max().unwrap_or(0),
        ..RecordedFit::default()
    };
    let limit = hits(&mut fit, &reads);
    let writes = events.iter().filter(|event| !event.read);
    let quick = writes.clone().filter(|event| event.took < limit).count();
    fit.early_writes = quick as f64 / writes.count().max(1) as f64;
    fit.revolution = rotation(&events, limit);
    if fit.revolution.is_none() {
        fit.missing.push(
            "rotation: too few places were read twice from the platter; 7200 rpm is assumed".into(),
        );
    }
    fit.seek = curve(&reads, limit);
    if fit.seek.len() < 2 {
        fit.missing.push("seek curve: too few reads that went to the platter".into());
    }
    fit.missing.push(
        "zones, tracks, heads, skews, head switch: a recording does not show them; the \
         specification has one zone and waits half a turn for every sector"
            .into(),
    );
    if fit.has_cache() {
        let (segments, sectors) = SEGMENTS;
        fit.missing.push(format!(
            "number and size of cache segments: a recording does not show them; {segments} of \
             {sectors} sectors are assumed"
        ));
    }
    fit.missing.push(
        "zero-latency reads, extent of read-ahead: without tracks and angles there is nothing to \
         tell them by"
            .into(),
    );
    Ok(fit)
}

fn events(requests: impl Iterator<Item = Recorded>, before: bool) -> Vec<Event> {
    let (mut idle, mut head) = (0.0, 0u64);
    let mut device = None;
    let mut out = Vec::new();
    for request in requests {
        // Where a recording has several drives, the first one is looked at.
        if *device.get_or_insert(request.device) != request.device || out.len() == MOST {
            continue;
        }
        let took = request.response_ns as f64;
        let issued = match request.pace {
            Pace::At(at) => at as f64,
            Pace::Gap(gap) if before => idle + gap as f64,
            Pace::Gap(_) => idle,
        };
        let done = issued + took;
        idle = match request.pace {
            Pace::Gap(gap) if !before => done + gap as f64,
            _ => done,
        };
        let end = request.lbn + u64::from(request.sectors);
        let (read, lbn) = (request.op == Op::Read, request.lbn);
        out.push(Event { read, lbn, end, took, done, distance: head.abs_diff(lbn) });
        head = end;
    }
    out
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Finds the hits: reads that continue the request before and are much quicker than others.
/// Returns a time below which a response is one.
fn hits(fit: &mut RecordedFit, reads: &[Event]) -> f64 {
    let mut all: Vec<f64> = reads.iter().map(|event| event.took).collect();
    all.sort_by(f64::total_cmp);
    let typical = quantile(&all, 0.5).max(4e6);
    let limit = (typical / 4.0).min(3e6);
    let quick: Vec<&Event> = reads.iter().filter(|event| event.took < limit).collect();
    fit.hit_share = quick.len() as f64 / reads.len() as f64;
    if quick.len() < 20 {
        fit.missing.push("cache hits, bus: too few reads came from the cache".into());
        return limit;
    }
    // The lower edge of hits over their length: its slope is the bus, the rest the overhead.
    let mut by_length: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for event in quick {
        by_length.entry(event.end - event.lbn).or_default().push(event.took);
    }
    let mut points = Vec::new();
    for (length, mut times) in by_length {
        times.sort_by(f64::total_cmp);
        if times.len() >= 4 {
            points.push((length as f64, quantile(&times, 0.25), times.len() as f64));
        }
    }
    match line(&points) {
        Some((constant, slope)) if slope.value > 0.0 && constant.value > 0.0 => {
            fit.hit = Some(constant);
            fit.bus_sector = Some(slope);
        }
        _ => {
            let least = quantile(&all, 0.01);
            fit.hit = Some(Estimate::new(least, least / 4.0));
            fit.missing.push("bus: the times of hits do not grow with their length".into());
        }
    }
    limit
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

/// The rotation, from completions at the same last sector that were no hits.
fn rotation(events: &[Event], limit: f64) -> Option<Estimate> {
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    let mut spans = Vec::new();
    for event in events.iter().filter(|event| event.took >= limit) {
        if let Some(before) = last.insert(event.end, event.done) {
            let span = event.done - before;
            if span > SHORTEST && span < APART {
                spans.push(span);
            }
        }
    }
    if spans.len() < PAIRS {
        return None;
    }
    // Chance agreement of n spans is about 1/√n; among thousands of periods four times that occurs.
    let (period, score) = strongest(&spans, APART / 1e9)?;
    let needed = 4.5 / (spans.len() as f64).sqrt();
    let mean = spans.iter().sum::<f64>() / spans.len() as f64;
    // Spans scatter about whole turns by what the score leaves.
    let scatter = period / std::f64::consts::TAU * (-2.0 * score.min(0.999_999).ln()).sqrt();
    let error = scatter / (mean / period) / (spans.len() as f64).sqrt();
    (score > needed.max(0.5)).then_some(Estimate::new(period, error))
}

/// The lower edge of responses over distance, in steps of a factor of two.
fn curve(reads: &[Event], limit: f64) -> Vec<Reached> {
    let mut bins: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
    for event in reads.iter().filter(|event| event.took >= limit && event.distance > 0) {
        bins.entry(event.distance.ilog2()).or_default().push(event);
    }
    let mut out: Vec<Reached> = Vec::new();
    for bin in bins.values().filter(|bin| bin.len() >= 20) {
        let mut times: Vec<f64> = bin.iter().map(|event| event.took).collect();
        times.sort_by(f64::total_cmp);
        let logs: f64 = bin.iter().map(|event| (event.distance as f64).ln()).sum();
        let sectors = (logs / bin.len() as f64).exp() as u64;
        let (least, more) = (quantile(&times, 0.04), quantile(&times, 0.12));
        // A longer way never takes less.
        let value = out.last().map_or(least, |before| before.ns.value.max(least));
        out.push(Reached { sectors, ns: Estimate::new(value, more - least), reads: bin.len() });
    }
    out
}

impl RecordedFit {
    /// Reads come from a cache.
    fn has_hits(&self) -> bool {
        self.hit_share > 0.02
    }

    /// Writes are reported before they are on the platter, as a rule.
    fn writes_early(&self) -> bool {
        self.early_writes > EARLY
    }

    /// The specification has a cache.
    fn has_cache(&self) -> bool {
        self.has_hits() || self.writes_early()
    }

    /// The estimates, a line each.
    pub fn lines(&self) -> Vec<String> {
        let ms = |one: Estimate| format!("{:.3} ± {:.3} ms", one.value / 1e6, one.error / 1e6);
        let mut lines = vec![
            format!("requests       {} on {} sectors", self.requests, self.sectors),
            format!("cache hits     {:.1} % of reads", self.hit_share * 100.0),
            format!("early writes   {:.1} % of writes", self.early_writes * 100.0),
        ];
        if let Some(revolution) = self.revolution {
            let rpm = 60e9 / revolution.value;
            let error = rpm * revolution.error / revolution.value;
            lines.push(format!("rotation       {rpm:.2} ± {error:.2} rpm"));
        }
        if let Some(hit) = self.hit {
            lines.push(format!("hit overhead   {}", ms(hit)));
        }
        if let Some(bus) = self.bus_sector {
            let rate = 512e3 / bus.value;
            let error = rate * bus.error / bus.value;
            lines.push(format!("bus            {rate:.2} ± {error:.2} MB/s"));
        }
        for point in &self.seek {
            let Reached { sectors, ns, reads } = point;
            lines.push(format!("positioning    {} at {sectors} sectors ({reads} reads)", ms(*ns)));
        }
        lines
    }

    /// The specification: response times by distance, no angles.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn spec(&self, name: &str, summary: &str) -> Result<Spec, FitError> {
        let broken = |error: crate::SpecError| FitError::Specification(error.to_string());
        let cylinders = CYLINDERS.min((self.sectors / 8).max(1) as u32);
        let track = self.sectors.div_ceil(u64::from(cylinders)).max(1);
        // A nominal cylinder is one turn long at the most that a track can hold.
        let heads = track.div_ceil(1 << 10).min(64);
        let text = format!(
            "name = \"fit\"\nsummary = \"\"\nrpm = 7200\nheads = {heads}\ncylinders = {cylinders}\n\
             head_switch_ms = 0\noverhead_ms = 0\naverage_rotation = true\n[[zones]]\n\
             sectors = {}\ntrack_skew = 0\ncylinder_skew = 0\n[seek]\nconstant = {{ ms = 0 }}\n",
            track.div_ceil(heads)
        );
        let mut spec = Spec::parse(&text).map_err(broken)?;
        spec.name = name.into();
        spec.summary = summary.into();
        spec.capacity_sectors = Some(self.sectors);
        if let Some(revolution) = self.revolution {
            spec.rpm = (60e9 / revolution.value * 100.0).round() / 100.0;
        }
        let overhead = self.hit.map_or(0.0, |hit| hit.value);
        spec.overhead_ms = round_ms(overhead);
        spec.buffer.bus_mb_per_s =
            self.bus_sector.map_or(1e6, |bus| (512e3 / bus.value).clamp(1e-3, 1e6));
        let mut points: Vec<(u32, f64)> = Vec::new();
        for point in &self.seek {
            let distance = (point.sectors * u64::from(cylinders) / self.sectors) as u32;
            let ms = round_ms((point.ns.value - overhead).max(0.0));
            match points.last_mut() {
                Some(last) if last.0 >= distance.max(1) => last.1 = ms,
                _ => points.push((distance.max(1), ms)),
            }
        }
        if !points.is_empty() {
            spec.seek = Seek::Points(points);
        }
        if self.has_cache() {
            let sectors = u64::from(SEGMENTS.1).min(self.sectors).max(1) as u32;
            let mut rules =
                Cache { segments: SEGMENTS.0, segment_sectors: sectors, ..Cache::default() };
            if self.has_hits() {
                rules.read_ahead = Prefetch::Segment;
            }
            if self.writes_early() {
                (rules.fast_write, rules.combine_writes) = (FastWrite::Any, true);
            }
            spec.cache = Some(rules);
        }
        spec.validate().map_err(broken)?;
        Ok(spec)
    }

    /// The text of a specification with what is known of the numbers at its head.
    ///
    /// # Errors
    /// If the parts contradict each other.
    pub fn to_toml(&self, name: &str, summary: &str) -> Result<String, FitError> {
        let spec = self.spec(name, summary)?;
        let text = spec.to_toml().map_err(|error| FitError::Specification(error.to_string()))?;
        let mut out = String::from(
            "# Estimated from a recording by `seekless disk fit`: a rough model. Cylinders are\n\
             # nominal, cache segments are assumed.\n",
        );
        for line in self.lines() {
            out += &format!("#   {line}\n");
        }
        for line in &self.missing {
            out += &format!("# Not estimated: {line}\n");
        }
        let share = self.early_writes * 100.0;
        let why = format!(
            "\n# {share:.1} % of the writes were reported sooner than the platter can have had them, so\n\
             # all of them are here; one that continues another then joins it.\nfast_write"
        );
        Ok(out + &text.replacen("\nfast_write", &why, 1))
    }
}

fn round_ms(ns: f64) -> f64 {
    (ns / 1e3).round() / 1e3
}
