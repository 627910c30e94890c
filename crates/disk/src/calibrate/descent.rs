//! Values that a replay shows: each is moved up and down, and kept where the model comes nearer to
//! the recording.
//!
//! The score is the sum of MAE and RMS on the part of the recording that is learnt from. A replay
//! of some thousand requests takes milliseconds, so hundreds of them are affordable.

use super::judge::Judge;
use crate::spec::{Bus, Prefetch, Seek, Spec};

/// What a value belongs to: parts are kept or given up as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// When and how far the drive reads ahead, and what it does in what order.
    Cache,
    /// Costs of commands, and of reaching a sector.
    Costs,
    /// Seek times.
    Seeks,
}

impl Part {
    pub(super) const ALL: [Part; 3] = [Part::Cache, Part::Costs, Part::Seeks];

    /// As reports name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Cache => "read-ahead and cache",
            Part::Costs => "overheads by operation and hit",
            Part::Seeks => "seek times",
        }
    }
}

/// Another value of a field. Returns false where it cannot be changed like that.
type Change<'a> = Box<dyn Fn(&mut Spec, f64) -> bool + 'a>;

/// Another behaviour.
type Alternative = Box<dyn Fn(&mut Spec)>;

/// Steps of times, in milliseconds: from coarse to fine.
const STEPS: [f64; 6] = [0.4, 0.15, 0.06, 0.025, 0.01, 0.004];

/// Regions of the seek curve that move apart.
const REGIONS: usize = 6;

/// Improves one part of a specification.
pub(super) fn improve(judge: &Judge<'_>, spec: &mut Spec, part: Part) {
    let Some(mut score) = judge.score(spec) else { return };
    match part {
        Part::Cache => alternatives(judge, spec, &mut score),
        Part::Costs => {
            leads(judge, spec, &mut score);
            descend(judge, spec, &mut score, &costs(spec));
        }
        Part::Seeks => descend(judge, spec, &mut score, &seeks(spec)),
    }
}

fn descend(judge: &Judge<'_>, spec: &mut Spec, score: &mut f64, changes: &[Change<'_>]) {
    for step in STEPS {
        for _ in 0..4 {
            let before = *score;
            for change in changes {
                climb(judge, spec, score, change, step);
            }
            if *score > before - 1e-4 {
                break;
            }
        }
    }
}

/// Moves one value as long as that helps.
fn climb(judge: &Judge<'_>, spec: &mut Spec, score: &mut f64, change: &Change<'_>, step: f64) {
    for direction in [step, -step] {
        let mut moved = false;
        for _ in 0..6 {
            let mut next = spec.clone();
            if !change(&mut next, direction) {
                break;
            }
            match judge.score(&next) {
                Some(here) if here < *score - 1e-5 => (*spec, *score, moved) = (next, here, true),
                _ => break,
            }
        }
        if moved {
            return;
        }
    }
}

/// A time in milliseconds that is not below zero.
fn add(value: &mut f64, by: f64) -> bool {
    let next = ((*value + by) * 1e5).round() / 1e5;
    if next < 0.0 && *value <= 0.0 {
        return false;
    }
    *value = next.max(0.0);
    true
}

/// The bus that a recording shows: that of its host.
fn bus(spec: &mut Spec) -> Option<&mut Bus> {
    spec.recorded_bus.as_mut().or(spec.bus.as_mut())
}

/// Searches the least time before a write by its fixed part and its part for each sector together:
/// either alone may help nothing.
fn leads(judge: &Judge<'_>, spec: &mut Spec, score: &mut f64) {
    let from = spec.clone();
    for fixed in 1..=8 {
        for sector in 0..=6 {
            let mut next = from.clone();
            next.overheads.write_lead_ms = 0.3 * f64::from(fixed);
            next.overheads.write_lead_sector_ms = 0.01 * f64::from(sector);
            if let Some(here) = judge.score(&next).filter(|&here| here < *score - 2e-3) {
                (*spec, *score) = (next, here);
            }
        }
    }
}

/// Changes of the costs of commands.
fn costs(spec: &Spec) -> Vec<Change<'static>> {
    let mut all: Vec<Change<'static>> = Vec::new();
    let mut offer = |change: fn(&mut Spec) -> Option<&mut f64>| {
        all.push(Box::new(move |spec: &mut Spec, by: f64| match change(spec) {
            Some(value) => add(value, by),
            None => false,
        }));
    };
    if spec.reports_early() {
        offer(|spec| spec.overheads.early_write_ms.as_mut());
        offer(|spec| {
            let any = spec.overheads.early_write_ms?;
            Some(spec.overheads.early_contiguous_write_ms.get_or_insert(any))
        });
    }
    offer(|spec| Some(&mut spec.overheads.read_hit_after_read_ms));
    offer(|spec| Some(&mut spec.overheads.read_hit_after_write_ms));
    offer(|spec| Some(&mut spec.overheads.read_miss_after_read_ms));
    offer(|spec| Some(&mut spec.overheads.read_miss_after_write_ms));
    offer(|spec| Some(&mut spec.overheads.write_miss_after_read_ms));
    offer(|spec| Some(&mut spec.overheads.write_miss_after_write_ms));
    offer(|spec| Some(&mut spec.overheads.write_hit_after_write_ms));
    offer(|spec| Some(&mut spec.overheads.read_completion_ms));
    offer(|spec| Some(&mut spec.overheads.write_completion_ms));
    offer(|spec| Some(&mut spec.overheads.reselect_ms));
    offer(|spec| Some(&mut spec.overheads.write_disconnect_ms));
    offer(|spec| spec.overheads.extra_disconnect.as_mut().map(|extra| &mut extra.command_ms));
    offer(|spec| spec.overheads.extra_disconnect.as_mut().map(|extra| &mut extra.gap_ms));
    offer(|spec| spec.overheads.extra_disconnect.as_mut().map(|extra| &mut extra.seek_delta_ms));
    offer(|spec| Some(&mut spec.overheads.write_lead_ms));
    offer(|spec| Some(&mut spec.overheads.minimum_seek_delay_ms));
    offer(|spec| Some(&mut spec.write_settle_ms));
    offer(|spec| Some(&mut spec.read_settle_ms));
    offer(|spec| Some(&mut spec.head_switch_ms));
    all.push(Box::new(|spec, by| add(&mut spec.overheads.write_lead_sector_ms, by / 10.0)));
    all.push(Box::new(|spec, by| match bus(spec) {
        Some(bus) => add(&mut bus.read_sector_ms, by / 10.0),
        None => false,
    }));
    all.push(Box::new(|spec, by| match bus(spec) {
        Some(bus) => add(&mut bus.write_sector_ms, by / 10.0),
        None => false,
    }));
    all
}

/// Changes of the seek curve: points of a region together. Curves of other forms have none; their
/// settling moves with the costs.
fn seeks(spec: &Spec) -> Vec<Change<'static>> {
    let regions = |count: usize| count.min(REGIONS);
    let count = match &spec.seek {
        Seek::Points(points) => regions(points.len()),
        _ => 0,
    };
    (0..count)
        .map(|region| -> Change<'static> {
            Box::new(move |spec, by| {
                let Seek::Points(points) = &mut spec.seek else { return false };
                let all = points.len();
                let range = region * all / count..(region + 1) * all / count;
                points[range].iter_mut().all(|point| add(&mut point.1, by))
            })
        })
        .collect()
}

/// Tries the other behaviours that a cache can have.
fn alternatives(judge: &Judge<'_>, spec: &mut Spec, score: &mut f64) {
    let mut changes: Vec<Alternative> = vec![Box::new(|spec| {
        spec.magnetoresistive = Some(!spec.separate_elements());
    })];
    for from in 1..=3 {
        changes.push(Box::new(move |spec| {
            if let Some(cache) = &mut spec.cache {
                cache.read_ahead_from = from;
            }
        }));
    }
    for kind in [
        Prefetch::None,
        Prefetch::Track,
        Prefetch::Cylinder,
        Prefetch::Segment,
        Prefetch::SequentialTrack,
    ] {
        changes.push(Box::new(move |spec| {
            if let Some(cache) = &mut spec.cache {
                cache.read_ahead = kind;
            }
        }));
    }
    let mut flag = |of: fn(&mut crate::spec::Cache) -> &mut bool| {
        changes.push(Box::new(move |spec| {
            if let Some(cache) = &mut spec.cache {
                let flag = of(cache);
                *flag = !*flag;
            }
        }));
    };
    flag(|cache| &mut cache.reads_free_sectors);
    flag(|cache| &mut cache.read_hits_on_writes);
    flag(|cache| &mut cache.stops_at_sector);
    flag(|cache| &mut cache.read_ahead_on_idle_hit);
    flag(|cache| &mut cache.zero_latency_reads);
    flag(|cache| &mut cache.zero_latency_writes);
    flag(|cache| &mut cache.combine_writes);
    flag(|cache| &mut cache.separate_write_segment);
    for _ in 0..2 {
        let before = *score;
        for change in &changes {
            let mut next = spec.clone();
            change(&mut next);
            if next == *spec {
                continue;
            }
            // Behaviours must help clearly: a change by chance would mislead on another load.
            if let Some(here) = judge.score(&next).filter(|&here| here < *score - 2e-3) {
                (*spec, *score) = (next, here);
            }
        }
        if *score == before {
            break;
        }
    }
}
