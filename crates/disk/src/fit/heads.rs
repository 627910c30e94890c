//! How many tracks a cylinder has, if skews do not show it. The time of travel from the first track
//! to the others grows in steps, one for each cylinder.

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
    let whole = (bench.sectors() - zone.first) / zone.track;
    let reach = TRACKS.min(zone.followed.saturating_sub(1)).min(whole.saturating_sub(1));
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
            "the number of heads: all skews are alike and so are the times of travel; each track \
             is reported as a cylinder of one head"
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

/// The longest step within which travel to track 1, 2, 3, … is as flat as the noise allows, if it
/// is not flat over all.
pub(super) fn stairs(travel: &[Estimate], period: f64) -> Option<usize> {
    if travel.len() < 3 {
        return None;
    }
    let mut errors: Vec<f64> = travel.iter().map(|one| one.error).collect();
    errors.sort_by(f64::total_cmp);
    let error = errors[errors.len() / 2];
    // The list starts with track 1, so the first step is shorter by one.
    let scatter = |step: usize| {
        let (mut squares, mut free) = (0.0, 0.0);
        for number in 0..=travel.len() / step {
            let from = (number * step).max(1) - 1;
            let to = ((number + 1) * step - 1).min(travel.len());
            if to <= from + 1 {
                continue;
            }
            let values = &travel[from..to];
            let n = values.len() as f64;
            let mean = values.iter().map(|one| one.value).sum::<f64>() / n;
            squares += values.iter().map(|one| (one.value - mean).powi(2)).sum::<f64>();
            free += n - 1.0;
        }
        f64::sqrt(squares / f64::max(free, 1.0))
    };
    let least = (2..=travel.len() / 2).map(scatter).fold(f64::MAX, f64::min);
    let limit = 1.5 * least.max(error / 2.0) + period / 1e6;
    if scatter(travel.len() + 1) <= limit {
        return None;
    }
    if least > 2.5 * error + period / 20_000.0 {
        return Some(1);
    }
    (1..=travel.len() / 2).rev().find(|&step| scatter(step) <= limit)
}
