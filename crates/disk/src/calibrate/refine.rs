//! Least squares over all pairs, with less weight for those far off.

use super::circle::wrap;
use super::scene::{Pair, Scene, rest};
use crate::spec::{Phase, PhaseZone};

/// Angles of tracks, in turns, and the revolution in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) rev: f64,
    pub(super) heads: Vec<f64>,
    pub(super) offsets: Vec<f64>,
    pub(super) slopes: Vec<f64>,
    /// From group to group of cylinders, by zone.
    pub(super) steps: Vec<f64>,
    /// Cylinders in a group, if the step between groups is used.
    pub(super) group: u32,
}

impl Found {
    /// The correction of a request, in turns.
    fn correction(&self, scene: &Scene, event: usize) -> f64 {
        let zone = scene.zone_of[event];
        let (along, groups) = scene.along(event);
        let groups = if self.group > 0 { groups } else { 0.0 };
        self.heads[scene.head_of[event]]
            + self.offsets[zone]
            + along * self.slopes[zone]
            + groups * self.steps[zone]
    }

    /// What a pair leaves unexplained with these angles, in turns.
    pub(super) fn unexplained(&self, scene: &Scene, pair: &Pair) -> f64 {
        let corrected = self.correction(scene, pair.to) - self.correction(scene, pair.from);
        wrap(rest(pair, self.rev) - corrected)
    }

    /// As a part of a specification.
    pub(super) fn phase(&self, scene: &Scene) -> Phase {
        let fine = |turns: f64| (wrap(turns) * 1e7).round() / 1e7;
        let zones = scene.zones.iter().enumerate().map(|(zone, &first)| PhaseZone {
            first_cylinder: first,
            offset: fine(self.offsets[zone]),
            cylinder: (wrap(self.slopes[zone]) * 1e9).round() / 1e9,
            group: self.group,
            step: (wrap(self.steps[zone]) * 1e9).round() / 1e9,
        });
        let mut heads: Vec<f64> = self.heads.iter().map(|&head| fine(head)).collect();
        let odd = scene.odd.map(|_| heads.split_off(heads.len() / 2));
        Phase {
            heads,
            odd_heads: odd.unwrap_or_default(),
            odd_in_zone: scene.odd == Some(true),
            zones: zones.collect(),
        }
    }
}

/// Numbers of the unknowns: rotation, heads, then offsets, slopes and steps of zones.
struct Unknowns {
    heads: usize,
    zones: usize,
    /// One slope for all zones, or one for each.
    apart: bool,
}

impl Unknowns {
    fn count(&self) -> usize {
        1 + self.heads + self.zones + 2 * if self.apart { self.zones } else { 1 }
    }

    fn head(&self, head: usize) -> usize {
        1 + head
    }

    fn offset(&self, zone: usize) -> usize {
        1 + self.heads + zone
    }

    fn slope(&self, zone: usize) -> usize {
        1 + self.heads + self.zones + if self.apart { zone } else { 0 }
    }

    fn step(&self, zone: usize) -> usize {
        self.slope(zone) + if self.apart { self.zones } else { 1 }
    }
}

/// Improves what a search has found.
pub(super) fn refine(scene: &Scene, found: Found) -> Found {
    let together = iterate(scene, found, false);
    let apart = iterate(scene, together.clone(), true);
    // A slope for each zone must explain clearly more than the common change of all.
    if scatter(scene, &apart) < 0.97 * scatter(scene, &together) { apart } else { together }
}

/// The median of what pairs leave unexplained, in turns.
pub(super) fn scatter(scene: &Scene, found: &Found) -> f64 {
    let mut off: Vec<f64> =
        scene.pairs.iter().map(|pair| found.unexplained(scene, pair).abs()).collect();
    off.sort_by(f64::total_cmp);
    off.get(off.len() / 2).copied().unwrap_or(0.25)
}

fn iterate(scene: &Scene, mut found: Found, apart: bool) -> Found {
    let unknowns = Unknowns { heads: scene.heads, zones: scene.zones.len(), apart };
    for _ in 0..8 {
        let Some(change) = solve(scene, &found, &unknowns) else { break };
        found.rev /= 1.0 + change[0];
        for (head, at) in found.heads.iter_mut().enumerate() {
            *at = wrap(*at + change[unknowns.head(head)]);
        }
        for zone in 0..unknowns.zones {
            found.offsets[zone] = wrap(found.offsets[zone] + change[unknowns.offset(zone)]);
            found.slopes[zone] += change[unknowns.slope(zone)];
            found.steps[zone] += change[unknowns.step(zone)];
        }
    }
    found
}

/// One step of Gauss and Newton.
fn solve(scene: &Scene, found: &Found, unknowns: &Unknowns) -> Option<Vec<f64>> {
    let count = unknowns.count();
    let usual = scatter(scene, found).clamp(0.002, 0.1) * 2.5;
    let mut normal = vec![0.0; count * count];
    let mut right = vec![0.0; count];
    for pair in &scene.pairs {
        let off = found.unexplained(scene, pair);
        let weight = (1.0 + (off / usual).powi(2)).powi(-2);
        let row = derivatives(scene, found, unknowns, pair);
        for &(i, a) in &row {
            right[i] += weight * a * off;
            for &(j, b) in &row {
                normal[i * count + j] += weight * a * b;
            }
        }
    }
    // Sums of all offsets are free, and a zone may have no pair: those stay where they are.
    for i in 0..count {
        normal[i * count + i] += 1e-9 * (1.0 + normal[i * count + i]);
    }
    cholesky(&mut normal, &mut right, count)
}

/// By which a change of each unknown changes what a pair explains.
fn derivatives(
    scene: &Scene,
    found: &Found,
    unknowns: &Unknowns,
    pair: &Pair,
) -> Vec<(usize, f64)> {
    // A quicker rotation, by a relative change, makes more turns of the span.
    let mut row = vec![(0, -pair.span / found.rev)];
    for (event, sign) in [(pair.to, 1.0), (pair.from, -1.0)] {
        let zone = scene.zone_of[event];
        let (along, groups) = scene.along(event);
        row.push((unknowns.head(scene.head_of[event]), sign));
        row.push((unknowns.offset(zone), sign));
        row.push((unknowns.slope(zone), sign * along));
        if found.group > 0 {
            row.push((unknowns.step(zone), sign * groups));
        }
    }
    row
}

/// Solves a symmetric system in place. `None` if it is singular.
fn cholesky(matrix: &mut [f64], right: &mut [f64], count: usize) -> Option<Vec<f64>> {
    for i in 0..count {
        for j in 0..=i {
            let mut sum = matrix[i * count + j];
            for k in 0..j {
                sum -= matrix[i * count + k] * matrix[j * count + k];
            }
            if i == j {
                if sum <= 0.0 {
                    return None;
                }
                matrix[i * count + i] = sum.sqrt();
            } else {
                matrix[i * count + j] = sum / matrix[j * count + j];
            }
        }
    }
    let mut out = right.to_vec();
    for i in 0..count {
        for k in 0..i {
            out[i] -= matrix[i * count + k] * out[k];
        }
        out[i] /= matrix[i * count + i];
    }
    for i in (0..count).rev() {
        for k in i + 1..count {
            out[i] -= matrix[k * count + i] * out[k];
        }
        out[i] /= matrix[i * count + i];
    }
    Some(out)
}
