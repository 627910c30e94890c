//! The angles of tracks from pairs of requests that the platter timed.
//!
//! Between the ends of two such requests the platter turns by the difference of the angles of
//! their last sectors, plus whole turns. A pair within a zone shows the slope over cylinders, pairs
//! of two heads the offset between them, pairs of two zones theirs. Each is searched over a whole
//! turn, because the layout may be wrong by any amount. Least squares over all pairs follow.

use super::circle::{Turn, coherence, slope, synchronise, wrap};
use super::refine::{Found, refine};
use super::scene::{LEAST_PAIRS, Pair, Scene, rest};

/// Slopes within a group of cylinders that are tried, over a whole turn.
const INSIDE: u32 = 96;

/// The revolution that pairs on one track agree on best near the one of the specification, and how
/// well they agree, and how many there are.
pub(super) fn rotation(scene: &Scene, rev: f64) -> (f64, f64, usize) {
    let same: Vec<Pair> =
        scene.pairs.iter().filter(|pair| scene.same_track(pair)).copied().collect();
    let mut best = (rev, f64::MIN);
    let (mut width, mut longest) = (0.006, 30.0 * rev);
    for _ in 0..3 {
        let used: Vec<&Pair> = same.iter().filter(|pair| pair.span <= longest).collect();
        if used.len() < 8 {
            break;
        }
        let center = best.0;
        best.1 = f64::MIN;
        for index in -60..=60 {
            let here = center * (1.0 + width * f64::from(index) / 60.0);
            let score = coherence(used.iter().map(|pair| rest(pair, here)));
            if score > best.1 {
                best = (here, score);
            }
        }
        width /= 8.0;
        longest *= 3.0;
    }
    (best.0, best.1.max(0.0), same.len())
}

/// Same pairs within tracks are too few to show the rotation where a drive keeps whole tracks. Then
/// it is searched together with one slope for all zones.
fn scan(scene: &Scene, rev: f64) -> (f64, f64, usize) {
    let mut best = (rev, f64::MIN, 0);
    for index in -60..=60 {
        let here = rev * (1.0 + 0.0001 * f64::from(index));
        let seen: Vec<(f64, f64)> = scene
            .pairs
            .iter()
            .filter(|pair| scene.same_zone(pair) && scene.same_head(pair))
            .map(|pair| (scene.distance(pair), rest(pair, here)))
            .collect();
        let (_, score) = slope(&seen);
        if score > best.1 {
            best = (here, score, seen.len());
        }
    }
    (best.0, best.1.max(0.0), best.2)
}

/// The rotation, how well the angles agree with it, and the number of pairs.
pub(super) fn turning(scene: &Scene, rev: f64) -> (f64, f64, usize) {
    let found = rotation(scene, rev);
    if found.2 >= LEAST_PAIRS { found } else { scan(scene, rev) }
}

/// Slopes of the zones by one of several readings of the layout, with the coherence of pairs on
/// one head.
fn slopes(scene: &Scene, rev: f64) -> (Vec<f64>, f64) {
    let zones = scene.zones.len();
    let mut by_zone: Vec<Vec<(f64, f64)>> = vec![Vec::new(); zones];
    for pair in scene.pairs.iter().filter(|pair| scene.same_zone(pair)) {
        if scene.head_of[pair.from] == scene.head_of[pair.to] {
            by_zone[scene.zone_of[pair.from]].push((scene.distance(pair), rest(pair, rev)));
        }
    }
    let all: Vec<(f64, f64)> = by_zone.iter().flatten().copied().collect();
    let mut best = (vec![0.0; zones], coherence(all.iter().map(|one| one.1)));
    let mut offer = |slopes: Vec<f64>, score: f64| {
        // A reading that says more about the layout must explain clearly more.
        if score > best.1 + 0.04 {
            best = (slopes, score);
        }
    };
    let (one, score) = slope(&all);
    offer(vec![one; zones], score);
    if let Some(base) = scene.base.iter().copied().collect::<Option<Vec<f64>>>() {
        let whole: Vec<(f64, f64)> = by_zone
            .iter()
            .zip(&base)
            .flat_map(|(zone, base)| zone.iter().map(move |one| (one.0, one.1 + base * one.0)))
            .collect();
        let (one, score) = slope(&whole);
        offer(base.iter().map(|base| wrap(one - base)).collect(), score);
    }
    let (mut each, mut sum) = (Vec::new(), 0.0);
    for zone in &by_zone {
        let found = if zone.len() >= LEAST_PAIRS { slope(zone) } else { (0.0, 0.0) };
        sum += found.1 * zone.len() as f64;
        each.push(found.0);
    }
    if !all.is_empty() {
        offer(each, sum / all.len() as f64);
    }
    best
}

/// Slopes within groups of cylinders that share spares, and steps from group to group, by zone.
struct Groups {
    slopes: Vec<f64>,
    steps: Vec<f64>,
    score: f64,
}

/// Searches the skew within groups of cylinders that share spares, one for all zones, beside that
/// from group to group, which each zone has its own of.
fn grouped(scene: &Scene, rev: f64) -> Option<Groups> {
    let size = f64::from(scene.group);
    let zones = scene.zones.len();
    // Groups and cylinders within groups from one request to the other, and what is unexplained.
    let mut observed: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); zones];
    for pair in &scene.pairs {
        if scene.same_zone(pair) && scene.same_head(pair) {
            let (from, to) = (scene.along(pair.from), scene.along(pair.to));
            let (groups, cylinders) = (to.1 - from.1, to.0 - from.0);
            let zone = &mut observed[scene.zone_of[pair.from]];
            zone.push((groups, cylinders - groups * size, rest(pair, rev)));
        }
    }
    let count: usize = observed.iter().map(Vec::len).sum();
    if count < LEAST_PAIRS {
        return None;
    }
    let mut best = (0.0, vec![0.0; zones], f64::MIN);
    for index in 0..INSIDE {
        let inside = f64::from(index) / f64::from(INSIDE);
        let (mut found, mut sum) = (vec![0.0; zones], 0.0);
        for (slot, zone) in found.iter_mut().zip(&observed) {
            // Few pairs agree with some slope by chance.
            if zone.len() >= LEAST_PAIRS / 3 {
                let moved: Vec<(f64, f64)> =
                    zone.iter().map(|one| (one.0, one.2 - inside * one.1)).collect();
                let (group, score) = slope(&moved);
                *slot = group;
                sum += score * zone.len() as f64;
            }
        }
        if sum > best.2 {
            best = (inside, found, sum);
        }
    }
    let (inside, found, sum) = best;
    // A group is `size` cylinders with the slope inside, and a step.
    let steps = found.iter().map(|group| wrap(group - size * inside)).collect();
    Some(Groups { slopes: vec![wrap(inside); zones], steps, score: sum / count as f64 })
}

/// Learns the angles of tracks. `None` if there are too few pairs.
pub(super) fn learn(scene: &Scene, rev: f64) -> Option<Found> {
    let within = scene.pairs.iter().filter(|pair| scene.same_zone(pair)).count();
    if within < LEAST_PAIRS {
        return None;
    }
    let (rev, _, _) = turning(scene, rev);
    let (mut slopes, score) = slopes(scene, rev);
    let mut steps = vec![0.0; scene.zones.len()];
    let mut group = 0;
    if scene.group > 1
        && let Some(found) = grouped(scene, rev)
        && found.score > score + 0.04
    {
        (slopes, steps, group) = (found.slopes, found.steps, scene.group);
    }
    let zones = scene.zones.len();
    let mut found = Found {
        rev,
        heads: vec![0.0; scene.heads],
        offsets: vec![0.0; zones],
        slopes,
        steps,
        group,
    };
    let mut between = vec![Turn::default(); scene.heads * scene.heads];
    for pair in scene.pairs.iter().filter(|pair| scene.same_zone(pair)) {
        let (from, to) = (scene.head_of[pair.from], scene.head_of[pair.to]);
        between[to * scene.heads + from] += Turn::at(found.unexplained(scene, pair));
    }
    found.heads = synchronise(scene.heads, &between);
    let mut between = vec![Turn::default(); zones * zones];
    for pair in scene.pairs.iter().filter(|pair| !scene.same_zone(pair)) {
        let (from, to) = (scene.zone_of[pair.from], scene.zone_of[pair.to]);
        between[to * zones + from] += Turn::at(found.unexplained(scene, pair));
    }
    found.offsets = synchronise(zones, &between);
    Some(refine(scene, found))
}
