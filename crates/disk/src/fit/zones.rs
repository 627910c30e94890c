//! Zones: how far a layout extends, and what follows it.
//!
//! The phase of a sector far away follows from the layout, if the zone extends so far. The distance
//! is doubled while it does, which also makes the skews exact, and then halved.

use super::bench::{Bench, Measured, Stop};
use super::layout::{self, Track, Zone};
use super::{Estimate, FitError};
use crate::length::length;

/// No disk has more zones; slipped defects may look like some.
const MOST_ZONES: usize = 256;

/// After so many breaks in one zone, only the length of tracks is used.
const MOST_PIECES: u32 = 6;

/// A zone of the report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneFit {
    /// First sector.
    pub first: u64,
    /// Sector behind the last.
    pub end: u64,
    /// Sectors on a track that hold data.
    pub track_sectors: u64,
    /// Sectors in a whole turn.
    pub turn_sectors: u64,
    /// Cylinders.
    pub cylinders: u64,
    /// Sectors of a cylinder that hold no data.
    pub spares: u64,
    /// Skew from track to track in sectors; none with one head.
    pub track_skew: Option<Estimate>,
    /// Skew from cylinder to cylinder in sectors.
    pub cylinder_skew: Estimate,
    /// Rotational position of the first sector against that of sector 0, in sectors.
    pub offset: f64,
    /// Bandwidth of sequential reading in 10⁶ bytes per second.
    pub mb_per_s: Estimate,
}

/// All zones of the disk. If time runs out, the last one extends to the end of the disk.
///
/// # Errors
/// If the drive fails.
pub(super) fn all(
    bench: &mut Bench<'_>,
    first: Zone,
    missing: &mut Vec<String>,
) -> Result<Vec<Zone>, FitError> {
    let heads = first.heads;
    let mut zones = vec![first];
    let mut pieces = 1;
    loop {
        let last = zones.len() - 1;
        let found = match pieces {
            MOST_PIECES.. => leap(bench, &mut zones[last], heads),
            _ => follow(bench, &mut zones[last], heads),
        };
        let next = match found {
            Ok(next) => next,
            Err(stop) => {
                let from = zones[last].first;
                bench.note(stop, &format!("the zones behind sector {from}"), missing)?;
                break;
            }
        };
        let Some(next) = next else { break };
        if zones.len() == MOST_ZONES {
            missing.push(format!("zones behind the first {MOST_ZONES}"));
            break;
        }
        pieces = if alike(&zones[last], &next) { pieces + 1 } else { 1 };
        zones.push(next);
    }
    let zones = merged(zones);
    if zones.iter().any(|zone| zone.regular < zone.cylinders()) {
        missing.push(
            "spares and slipped defects: the layout goes on after small breaks, which the \
             specification leaves out; angles far from the beginning of a zone are not exact"
                .into(),
        );
    }
    Ok(zones)
}

/// True if zones differ only in the phase, by a defect that was slipped or by spares.
fn alike(one: &Zone, other: &Zone) -> bool {
    one.track.abs_diff(other.track) <= 2
}

/// Neighbours that differ in nothing but the phase become one.
fn merged(zones: Vec<Zone>) -> Vec<Zone> {
    let mut out: Vec<Zone> = Vec::new();
    for zone in zones {
        match out.last_mut() {
            Some(before) if alike(before, &zone) => {
                before.regular = before.regular.min(before.sound);
                before.end = zone.end;
            }
            _ => out.push(zone),
        }
    }
    out
}

/// Sectors on a track behind a sector: the most of three tracks, as slips make some shorter.
fn tracks_behind(bench: &mut Bench<'_>, lbn: u64) -> Measured<Option<(u64, u64)>> {
    let mut first = layout::follow(bench, bench.aligned(lbn))?.end;
    let begin = first;
    let mut most = 0;
    for _ in 0..3 {
        if first + 64 * bench.granule() >= bench.sectors() {
            return Ok(None);
        }
        let track = layout::follow(bench, first)?;
        most = most.max(track.end - track.first);
        first = track.end;
    }
    Ok(Some((begin, most)))
}

/// Finds the end of a zone with many breaks, by the length of its tracks alone.
fn leap(bench: &mut Bench<'_>, zone: &mut Zone, heads: u64) -> Measured<Option<Zone>> {
    let same = |length: u64| length.abs_diff(zone.track) <= 2;
    let (mut inside, mut outside) = (zone.first, None);
    let mut step = 8 * zone.cylinder;
    while inside + step + 4 * zone.track < bench.sectors() {
        match tracks_behind(bench, inside + step)? {
            Some((_, length)) if same(length) => inside += step,
            Some((begin, _)) => {
                outside = Some(begin);
                break;
            }
            None => break,
        }
        step = (2 * step).min(bench.sectors() / 64);
    }
    let Some(mut outside) = outside else { return Ok(None) };
    while outside - inside > 4 * zone.track {
        let middle = inside + (outside - inside) / 2;
        match tracks_behind(bench, middle)? {
            Some((_, length)) if same(length) => inside = middle,
            Some((begin, _)) if begin < outside => outside = begin,
            _ => break,
        }
    }
    // The first two tracks of the other length: there the cylinders of the next zone begin.
    let mut first = layout::follow(bench, bench.aligned(inside))?.end;
    let mut odd = None;
    while first < outside + 4 * zone.track && first < bench.sectors() {
        let track = layout::follow(bench, first)?;
        match (same(track.end - track.first), odd) {
            (true, _) => odd = None,
            (false, None) => odd = Some(first),
            (false, Some(begin)) => {
                outside = begin;
                break;
            }
        }
        first = track.end;
    }
    zone.end = outside;
    match layout::zone_at(bench, outside, Some(heads)) {
        Ok(next) => {
            zone.end = next.first;
            Ok(Some(next))
        }
        Err(Stop::Failed(FitError::NotMechanical(_))) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// Finds the end of a zone and returns the next one, if the disk goes on.
fn follow(bench: &mut Bench<'_>, zone: &mut Zone, heads: u64) -> Measured<Option<Zone>> {
    let most = (bench.sectors() - zone.first) / zone.cylinder;
    let mut inside = zone.followed.min(most).saturating_sub(1);
    let mut step = zone.followed.max(2);
    let mut outside = None;
    while inside + 1 < most {
        let at = (inside + step).min(most - 1);
        if belongs(bench, zone, at)? {
            inside = at;
            step *= 2;
        } else {
            outside = Some(at);
            break;
        }
    }
    let mut outside = outside.unwrap_or(most);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if belongs(bench, zone, middle)? {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    zone.sound = inside + 1;
    refine(bench, zone, inside)?;
    let Some(first) = begin_of_next(bench, zone, inside)? else { return Ok(None) };
    zone.end = first;
    match layout::zone_at(bench, first, Some(heads)) {
        Ok(next) => {
            zone.end = next.first;
            Ok(Some(next))
        }
        // The rest is less than a track.
        Err(Stop::Failed(FitError::NotMechanical(_))) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// True if a cylinder is where the zone predicts it. Improves the estimates of the skews.
fn belongs(bench: &mut Bench<'_>, zone: &mut Zone, cylinder: u64) -> Measured<bool> {
    // Noise alone must not end a zone.
    Ok(fits(bench, zone, cylinder, 1)? || fits(bench, zone, cylinder, 2)?)
}

fn fits(bench: &mut Bench<'_>, zone: &mut Zone, cylinder: u64, times: u32) -> Measured<bool> {
    let start = zone.start_of(cylinder, 0);
    let repeats = bench.repeats(0.6 * zone.sector_ns) * times;
    let error = (bench.sigma() / f64::from(repeats).sqrt()).max(1.0);
    let mut offs = Vec::new();
    for share in [0, 2, 5, 7] {
        let lbn = bench.aligned(start + zone.track * share / 8);
        let phase = bench.phase(lbn, repeats)?;
        offs.push(bench.centred(phase - zone.phase_of(lbn)));
    }
    // All sectors of the track are off by the same, and by at most the accumulated error of skews.
    let off = |index: usize| bench.centred(offs[index] - offs[0]);
    let mean = offs[0] + (0..4).map(off).sum::<f64>() / 4.0;
    let straight = (5.0 * error + bench.period() / 50_000.0).max(0.45 * zone.sector_ns);
    let drift = 5.0 * zone.advance_error * cylinder as f64;
    let limit = drift + straight;
    if (0..4).any(|index| off(index).abs() > straight) || mean.abs() > limit {
        return Ok(false);
    }
    if cylinder > zone.followed {
        zone.cylinder_skew += mean / cylinder as f64;
        zone.followed = cylinder;
        // The phase of the zone's first sector has its own error.
        let whole = length(error, bench.sigma() / 2.0);
        zone.advance_error = zone.advance_error.min(whole / cylinder as f64);
    }
    Ok(true)
}

/// Measures the track skew in some cylinders. The advance of a cylinder is exact at this point, and
/// the cylinder skew is the rest of it.
fn refine(bench: &mut Bench<'_>, zone: &mut Zone, last: u64) -> Measured<()> {
    let first = bench.aligned(zone.first);
    let phase = bench.phase(first, bench.repeats(0.3 * zone.sector_ns))?;
    let off = bench.centred(phase - zone.phase);
    zone.phase += off;
    // The cylinders that were followed stay where they are.
    zone.cylinder_skew -= off / zone.followed.max(1) as f64;
    if zone.heads < 2 || last < 2 {
        zone.skew_error = zone.skew_error.min(zone.advance_error.max(1.0));
        return Ok(());
    }
    let last_head = zone.heads - 1;
    let repeats = bench.repeats(0.3 * zone.sector_ns);
    let mut offs = Vec::new();
    for _ in 0..8 {
        let cylinder = bench.rng.below(last + 1);
        let from = bench.aligned(zone.start_of(cylinder, 0));
        let to = bench.aligned(zone.start_of(cylinder, last_head));
        let expected = zone.phase_of(to) - zone.phase_of(from);
        let passed = bench.phase(to, repeats)? - bench.phase(from, repeats)?;
        offs.push(bench.centred(passed - expected));
    }
    offs.sort_by(f64::total_cmp);
    // The middle ones: a slipped sector may lie in one of the cylinders.
    let off = offs[2..6].iter().sum::<f64>() / 4.0;
    let each = off / last_head as f64;
    zone.track_skew += each;
    zone.cylinder_skew -= off;
    let error = bench.sigma() * (2.0 / (4.0 * f64::from(repeats))).sqrt();
    // The cylinder skew contains the error of all track skews together.
    zone.skew_error = zone.skew_error.min(error.max(1.0));
    Ok(())
}

/// Follows the tracks from a cylinder of the zone to the first one of another zone.
fn begin_of_next(bench: &mut Bench<'_>, zone: &Zone, cylinder: u64) -> Measured<Option<u64>> {
    let mut first = zone.start_of(cylinder, 0);
    let length = |head: u64| zone.length_of(head);
    let mut odd: Option<Track> = None;
    // Whole cylinders, so that the next zone begins with one.
    for number in 0..4 * zone.heads.max(2) {
        if first + zone.track / 2 >= bench.sectors() {
            return Ok(None);
        }
        let expected = length(number % zone.heads);
        let sector_ns = zone.sector_ns;
        let like = Track { first, end: first + expected, phase: 0.0, sector_ns };
        let track = match odd {
            // After a track unlike the others it must be followed.
            Some(_) => layout::follow(bench, first)?,
            None => layout::next(bench, first, &like)?,
        };
        if track.end >= bench.sectors() {
            // The last track of the disk, or of a disk that ends within it.
            return Ok(odd
                .filter(|odd| odd.end - odd.first != track.end - track.first)
                .map(|odd| odd.end));
        }
        let found = track.end - track.first;
        match odd {
            Some(odd) if odd.end - odd.first == found => return Ok(Some(odd.first)),
            _ if found != expected => odd = Some(track),
            // Only a slipped or defective sector lay there.
            _ => odd = None,
        }
        first = track.end;
    }
    Ok(Some(first))
}

/// The zones of the report; skews that are whole sectors within their error become so.
pub(super) fn told(zones: &[Zone], period: f64) -> Vec<ZoneFit> {
    let origin = zones.first().map_or(0.0, |zone| zone.phase - zone.sector_ns);
    zones
        .iter()
        .map(|zone| {
            let turn = zone.turn_sectors(period);
            let sector = period / turn as f64;
            let heads = zone.heads as f64;
            let skew = |ns: f64| whole(ns.rem_euclid(period) / sector, zone.skew_error / sector);
            let offset = (zone.phase - zone.sector_ns - origin).rem_euclid(period) / sector;
            let data = zone.cylinder as f64 * 512.0 * 1e3;
            let turns = heads * period + zone.advance().rem_euclid(heads * period);
            let error = heads * zone.skew_error / turns;
            ZoneFit {
                first: zone.first,
                end: zone.end,
                track_sectors: zone.track,
                turn_sectors: turn,
                cylinders: zone.cylinders(),
                spares: (zone.heads * turn).saturating_sub(zone.cylinder),
                track_skew: (zone.heads > 1).then(|| skew(zone.track_skew)),
                cylinder_skew: skew(zone.cylinder_skew),
                offset: whole(offset, zone.skew_error / sector).value % turn as f64,
                mb_per_s: Estimate::new(data / turns, data / turns * error),
            }
        })
        .collect()
}

fn whole(value: f64, error: f64) -> Estimate {
    let near = (value - value.round()).abs() <= (4.0 * error).clamp(0.02, 0.3);
    Estimate::new(if near { value.round() } else { value }, error)
}
