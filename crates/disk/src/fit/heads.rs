//! How many tracks a cylinder has, where skews do not tell: the time of travel from the first track
//! to the others grows in stairs, one for each cylinder.

use super::Estimate;
use super::bench::{Bench, Measured};
use super::layout::Zone;
use super::travel::{Pair, positioning};

/// Tracks to which the travel is measured.
const TRACKS: u64 = 96;

/// The zone with its heads.
pub(super) fn tell(
    bench: &mut Bench<'_>,
    zone: Zone,
    missing: &mut Vec<String>,
) -> Measured<(Zone, Option<u32>)> {
    if !zone.uniform {
        let heads = zone.heads as u32;
        return Ok((zone, Some(heads)));
    }
    let reach = TRACKS.min(zone.followed.saturating_sub(1));
    let mut travel = Vec::new();
    for track in 1..=reach {
        let found = positioning(bench, &mut |bench, _| {
            let sector = bench.rng.below(zone.track / 2 + 1);
            let from = bench.aligned(zone.first + sector);
            Some(Pair { from, zone: &zone, cylinder: track, head: 0, first_sector: false })
        })?;
        travel.extend(found);
    }
    let Some(heads) = stairs(&travel, bench.period()) else {
        missing.push(
            "the number of heads: all skews are alike and so are the times of travel; tracks are \
             told as cylinders of one head"
                .into(),
        );
        return Ok((zone, None));
    };
    let heads = heads as u64;
    let zone = Zone {
        heads,
        track_skew: zone.cylinder_skew,
        cylinder: heads * zone.track,
        followed: zone.followed / heads,
        ..zone
    };
    Ok((zone, Some(heads as u32)))
}

/// The longest step with which travel to track 1, 2, 3, … is flat within each step and not over
/// all.
pub(super) fn stairs(travel: &[Estimate], period: f64) -> Option<usize> {
    let mut errors: Vec<f64> = travel.iter().map(|one| one.error).collect();
    errors.sort_by(f64::total_cmp);
    let limit = 3.0 * errors.get(errors.len() / 2)? + period / 10_000.0;
    let flat = |from: usize, to: usize| {
        let values = travel[from..to].iter().map(|one| one.value);
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(l, h), value| (l.min(value), h.max(value)));
        high - low <= limit
    };
    // Track 0 is no part of the list, so that the first step is shorter by one.
    let fits = |step: usize| {
        (0..=travel.len() / step).all(|number| {
            let from = (number * step).max(1) - 1;
            let to = ((number + 1) * step - 1).min(travel.len());
            from >= to || flat(from, to)
        })
    };
    if travel.len() < 3 || flat(0, travel.len()) {
        return None;
    }
    (1..=travel.len() / 2).rev().find(|&step| fits(step))
}
