//! Positioning: command overhead, head switch, and seek time by distance.
//!
//! A read, then another one elsewhere: the second takes `x`, counted from its command until its
//! sector begins to pass, or `x` and some turns if the head was not there in time. So overhead and
//! travel together are at most the measured time, and more than that time less a turn. The sector
//! is chosen so that `x` halves the remaining interval.

use super::bench::{Bench, Measured};
use super::layout::Zone;
use super::{Estimate, Fit, Options};
use crate::length::length;

/// Pairs of reads for one number, at most.
const ROUNDS: usize = 18;

/// Time between the pass of a sector and its completion, in nanoseconds, with a margin.
const WAY_TO_HOST: f64 = 200e3;

/// A point of the seek curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekPoint {
    /// Distance in cylinders.
    pub distance: u64,
    /// Seek time with settling, in nanoseconds.
    pub ns: Estimate,
}

/// A pair of reads: the first sector, and the track of the second one.
pub(super) struct Pair<'z> {
    pub(super) from: u64,
    pub(super) zone: &'z Zone,
    pub(super) cylinder: u64,
    pub(super) head: u64,
    /// Only the first sector of the track can be used.
    pub(super) first_sector: bool,
}

/// Time from the second command until its sector passes, for a sector that does so `wanted` after
/// it, plus the turns that were missed.
fn trial(bench: &mut Bench<'_>, pair: &Pair<'_>, wanted: f64) -> Measured<f64> {
    let zone = pair.zone;
    let (start, length) = (zone.start_of(pair.cylinder, pair.head), zone.length_of(pair.head));
    let granule = bench.granule();
    let (period, piece) = (bench.period(), zone.sector_ns * granule as f64);
    // Keeps the clock in step and the cache out.
    bench.stay()?;
    let regular = pair.cylinder < zone.regular;
    // If the layout is not exact, the phase of one sector is measured and only that one is used.
    let known = if regular { zone.phase_of(start) } else { bench.phase(start, 2)? };
    bench.forget_pair(pair.from, (start, start + length))?;
    bench.touch(pair.from)?;
    let passing = bench.phase_at(bench.now() + wanted);
    // The first piece of the track that begins to pass after that.
    let begin = known - piece;
    let ahead = (passing - begin).rem_euclid(period);
    let mut index = (ahead / piece).ceil() as u64;
    let length = length.min(bench.sectors().saturating_sub(start));
    if (index + 1) * granule > length || pair.first_sector || !regular {
        index = 0;
    }
    let pause = (begin + index as f64 * piece - passing).rem_euclid(period);
    bench.pause(pause);
    let took = bench.touch(start + index * granule)? - piece;
    // The phase is known better than one completion.
    let turns = ((took - wanted) / period).round().max(0.0);
    let clean = wanted + turns * period;
    let near = 6.0 * bench.sigma() + 0.5 * piece;
    Ok(if (took - clean).abs() <= near { clean } else { took })
}

/// The part of the line that most intervals `(r - period, r]` contain.
fn common(upper: &[f64], period: f64) -> (f64, f64) {
    let mut ends: Vec<(f64, i32)> = Vec::with_capacity(2 * upper.len());
    for &end in upper {
        ends.push((end - period, 1));
        ends.push((end, -1));
    }
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut depth, mut most) = (0, 0);
    let mut found = (0.0, 0.0);
    for index in 0..ends.len() {
        depth += ends[index].1;
        let until = ends.get(index + 1).map_or(ends[index].0, |next| next.0);
        if depth > most {
            most = depth;
            found = (ends[index].0, until);
        } else if depth == most {
            found.1 = until;
        }
    }
    found
}

/// Overhead and travel together, over pairs that `choose` gives; `None` if it gives none.
pub(super) fn positioning<'z>(
    bench: &mut Bench<'_>,
    choose: &mut dyn FnMut(&mut Bench<'_>, f64) -> Option<Pair<'z>>,
) -> Measured<Option<Estimate>> {
    let period = bench.period();
    let enough = (period / 20_000.0).max(bench.sigma() / 8.0);
    let mut upper = Vec::with_capacity(ROUNDS);
    let mut wanted = period * (0.4 + 0.2 * bench.rng.unit());
    for _ in 0..ROUNDS {
        let Some(pair) = choose(bench, wanted) else { break };
        upper.push(trial(bench, &pair, wanted)?);
        let (low, high) = common(&upper, period);
        if high - low < enough {
            break;
        }
        wanted = (low + (high - low) * (0.45 + 0.1 * bench.rng.unit())).max(0.0);
    }
    if upper.is_empty() {
        return Ok(None);
    }
    let (low, high) = common(&upper, period);
    let low = low.max(0.0);
    let error = length((high - low) / 2.0, bench.sigma() / 4.0);
    Ok(Some(Estimate::new((low + high) / 2.0, error)))
}

/// Measures all positioning times.
pub(super) fn all(
    bench: &mut Bench<'_>,
    zones: &[Zone],
    options: &Options,
    fit: &mut Fit,
    missing: &mut Vec<String>,
) -> Measured<()> {
    let Some(base) = overhead(bench, zones)? else {
        missing.push("overhead and seeks: no track is whole".into());
        return Ok(());
    };
    fit.overhead = Some(base);
    match fit.heads {
        Some(1) | None => {}
        Some(_) => {
            let switch = head_switch(bench, zones)?.map(|switch| switch.less(base));
            fit.head_switch = switch.filter(|switch| switch.value > -3.0 * switch.error);
            if fit.head_switch.is_none() {
                missing.push(
                    "head switch: a read on the same track takes longer than one on the next; \
                     the overhead is an upper bound"
                        .into(),
                );
            }
        }
    }
    let cylinders: u64 = zones.iter().map(Zone::cylinders).sum();
    for distance in distances(cylinders, options.seek_points) {
        let found = positioning(bench, &mut |bench, _| apart(bench, zones, cylinders, distance))?;
        if let Some(found) = found {
            let mut ns = found.less(base);
            ns.value = ns.value.max(0.0);
            fit.seek.push(SeekPoint { distance, ns });
        }
    }
    if fit.heads == Some(1)
        && let Some(tracks) = plateau(&fit.seek)
    {
        missing.push(format!(
            "the number of heads: travel takes the same time from {tracks} tracks on for a long \
             way, as where tracks are filled in bands along one surface after the other; each \
             track is reported as a cylinder of one head"
        ));
    }
    Ok(())
}

/// The first distance from which travel takes the same time up to eight times as far, if it takes
/// clearly less below: a head switch is then longer than the seek.
fn plateau(seek: &[SeekPoint]) -> Option<u64> {
    let begins = |point: &&SeekPoint| {
        let far = |other: &&SeekPoint| other.distance >= 8 * point.distance;
        let limit = 0.02 * point.ns.value + 2.0 * point.ns.error;
        let same = |other: &SeekPoint| (other.ns.value - point.ns.value).abs() <= limit;
        let between =
            |other: &&SeekPoint| (point.distance..8 * point.distance).contains(&other.distance);
        let reaches = seek.iter().find(far).is_some_and(same);
        let below = seek.first().is_some_and(|first| first.ns.value < 0.75 * point.ns.value);
        below && reaches && seek.iter().filter(between).all(same)
    };
    seek.iter().find(begins).map(|point| point.distance)
}

/// Distances from 1 to the full stroke, each longer than the one before by the same factor.
pub(super) fn distances(cylinders: u64, points: usize) -> Vec<u64> {
    let Some(full) = cylinders.checked_sub(1).filter(|&full| full > 0) else { return Vec::new() };
    let steps = points.max(2) - 1;
    let mut out: Vec<u64> = (0..=steps)
        .map(|step| (full as f64).powf(step as f64 / steps as f64).round() as u64)
        .collect();
    out.extend([2, 3, 4, full / 4, full / 3, full / 2, full * 2 / 3, full * 5 / 6]);
    out.retain(|&distance| distance >= 1 && distance <= full);
    out.sort_unstable();
    out.dedup();
    out
}

/// The zone of a cylinder of the disk, and the cylinder's number in it.
fn locate(zones: &[Zone], cylinder: u64) -> Option<(&Zone, u64)> {
    let mut left = cylinder;
    for zone in zones {
        let here = zone.cylinders();
        if left < here {
            // The last cylinder of a zone may be cut short.
            let whole = zone.start_of(left, 0) + zone.track <= zone.end;
            return whole.then_some((zone, left));
        }
        left -= here;
    }
    None
}

fn apart<'z>(
    bench: &mut Bench<'_>,
    zones: &'z [Zone],
    cylinders: u64,
    distance: u64,
) -> Option<Pair<'z>> {
    // A short distance must be exact to the cylinder: choose it where the layout is exact, if
    // possible.
    let exact = |zone: &Zone| zone.cylinders().saturating_sub(1).min(zone.regular);
    let (mut before, mut best) = (0, (0, 0));
    for zone in zones {
        best = if exact(zone) > best.1 { (before, exact(zone)) } else { best };
        before += zone.cylinders();
    }
    let irregular = zones.iter().any(|zone| zone.regular < zone.cylinders());
    let stays = irregular && best.1 > 2 * distance;
    for _ in 0..32 {
        let low = match stays {
            true => best.0 + bench.rng.below(best.1 - distance),
            false => bench.rng.below(cylinders - distance),
        };
        let (from, to) = match bench.rng.chance(0.5) {
            true => (low, low + distance),
            false => (low + distance, low),
        };
        let (Some(a), Some((zone, cylinder))) = (locate(zones, from), locate(zones, to)) else {
            continue;
        };
        // Read-ahead must not leave the track before the second command comes.
        let sector = bench.rng.below(a.0.track / 2 + 1);
        let from = bench.aligned(a.0.start_of(a.1, 0) + sector);
        return Some(Pair { from, zone, cylinder, head: 0, first_sector: false });
    }
    None
}

/// A random cylinder with all its tracks.
fn whole_cylinder<'z>(bench: &mut Bench<'_>, zones: &'z [Zone]) -> Option<(&'z Zone, u64)> {
    let irregular = zones.iter().any(|zone| zone.regular < zone.cylinders());
    for _ in 0..32 {
        let zone = match irregular {
            // Choose tracks that no spares or slips have moved.
            true => zones.iter().max_by_key(|zone| zone.cylinders().min(zone.regular))?,
            false => &zones[bench.rng.below(zones.len() as u64) as usize],
        };
        let cylinder = bench.rng.below(zone.cylinders().min(zone.regular));
        if zone.start_of(cylinder + 1, 0) <= zone.end {
            return Some((zone, cylinder));
        }
    }
    None
}

/// Positioning with no travel: the second sector is the first one of the track of the first. A
/// drive that reads ahead beyond the track leaves it just when the command would be too late
/// anyway.
fn overhead(bench: &mut Bench<'_>, zones: &[Zone]) -> Measured<Option<Estimate>> {
    positioning(bench, &mut |bench, wanted| {
        let (zone, cylinder) = whole_cylinder(bench, zones)?;
        let granule = bench.granule();
        let head = bench.rng.below(zone.heads);
        let length = zone.length_of(head);
        // The first read ends so much before the track does that its data can go to the host.
        let back = ((wanted + WAY_TO_HOST) / zone.sector_ns) as u64 + 2 * granule;
        let back = back.next_multiple_of(granule).min(length / granule * granule);
        let from = zone.start_of(cylinder, head) + length / granule * granule - back;
        Some(Pair { from, zone, cylinder, head, first_sector: true })
    })
}

fn head_switch(bench: &mut Bench<'_>, zones: &[Zone]) -> Measured<Option<Estimate>> {
    positioning(bench, &mut |bench, _| {
        let (zone, cylinder) = whole_cylinder(bench, zones)?;
        let from = bench.rng.below(zone.heads);
        let head = (from + 1 + bench.rng.below(zone.heads - 1)) % zone.heads;
        let sector = bench.rng.below(zone.track / 2);
        let from = bench.aligned(zone.start_of(cylinder, from) + sector);
        Some(Pair { from, zone, cylinder, head, first_sector: false })
    })
}
