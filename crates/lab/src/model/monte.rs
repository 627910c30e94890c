//! The processes behind the formulas, simulated with random numbers. Tests compare the models with
//! them, and `--simulate` prints their results beside the formulas.
//!
//! This module uses no formula. Free space is drawn slot by slot, and heads search it as in the
//! papers. Every result is a mean over trials and a function of the seed.

mod loge;

pub use loge::{LongWrite, OrderedWrite, long_write, ordered_write, runs_found};

use super::Params;
use seekless_engine::rng::Rng;

/// `free` of `n` places, at random.
fn scattered(rng: &mut Rng, n: usize, free: usize) -> Vec<bool> {
    let mut places = vec![false; n];
    // Selection sampling: each place is chosen with the probability missing over remaining.
    let mut missing = free;
    for (index, place) in places.iter_mut().enumerate() {
        if rng.below((n - index) as u64) < missing as u64 {
            *place = true;
            missing -= 1;
        }
    }
    places
}

/// Slots that pass from `from` on until a free one.
fn skip(places: &[bool], from: usize) -> Option<usize> {
    let ahead = places[from..].iter().chain(&places[..from]);
    ahead.into_iter().position(|&free| free)
}

/// A track of `n` slots, `k` of them free (at least 1): the head starts at a random slot and waits.
/// Mean number of slots that pass (equations 1 to 3, claim V13).
pub fn track(n: u32, k: u32, trials: u32, seed: u64) -> f64 {
    pieces(n, k, 1, trials, seed)
}

/// As [`track`], for a logical block that needs `pieces ≤ k` slots, found one behind the other.
/// Mean number of used slots that pass (equation 11, claim V28, with slots of a physical block).
pub fn pieces(n: u32, k: u32, pieces: u32, trials: u32, seed: u64) -> f64 {
    let mut rng = Rng::stream(seed, "model track");
    let mut passed = 0;
    for _ in 0..trials {
        let mut places = scattered(&mut rng, n as usize, k as usize);
        let mut at = rng.below(u64::from(n)) as usize;
        for _ in 0..pieces {
            let skipped = skip(&places, at).unwrap_or(n as usize);
            let slot = (at + skipped) % n as usize;
            places[slot] = false;
            at = (slot + 1) % n as usize;
            passed += skipped;
        }
    }
    passed as f64 / f64::from(trials)
}

/// A track of `n` slots is filled until `k` are left, each write arrives at a random slot and takes
/// the next free one. Mean number of slots that pass per write (claims V25 and V26).
pub fn fill(n: u32, k: u32, trials: u32, seed: u64) -> f64 {
    let mut rng = Rng::stream(seed, "model fill");
    let mut passed = 0;
    for _ in 0..trials {
        let mut places = vec![true; n as usize];
        for _ in k..n {
            let at = rng.below(u64::from(n)) as usize;
            let skipped = skip(&places, at).expect("free slots are left");
            places[(at + skipped) % n as usize] = false;
            passed += skipped;
        }
    }
    passed as f64 / f64::from(trials) / f64::from(n - k)
}

/// How far a simulated head looks for free slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Its own cylinder.
    Cylinder,
    /// The whole disk: always the nearest (figure 1).
    Zone,
    /// From its cylinder on in one direction, and from the first one again (claim V8).
    Sweep,
}

/// Slots of a whole disk.
struct Surface<'p> {
    params: &'p Params,
    free: Vec<bool>,
    /// When tracks of another cylinder come within reach, in slots, by distance.
    seek: Vec<usize>,
    switch: usize,
}

impl<'p> Surface<'p> {
    fn new(params: &'p Params) -> Surface<'p> {
        let slots = |ms: f64| params.whole_slots(ms) as usize;
        let seek = (0..params.cylinders()).map(|d| slots(params.seek_ms(d))).collect();
        Surface { params, free: Vec::new(), seek, switch: slots(params.switch_ms()) }
    }

    fn slots(&self) -> usize {
        self.params.slots() as usize
    }

    fn size(&self) -> usize {
        self.slots() * self.params.tracks() as usize * self.params.cylinders() as usize
    }

    /// Slots until the first free one passes, for a head over slot `angle` of `track`, and where
    /// that is. Rotational positions of all tracks are aligned: a skew would change nothing,
    /// because free slots lie at random.
    fn nearest(&self, track: usize, angle: usize, scope: Scope) -> Option<(usize, usize)> {
        let (n, heads) = (self.slots(), self.params.tracks() as usize);
        let here = track / heads;
        let mut best: Option<(usize, usize)> = None;
        let look = |best: &mut Option<(usize, usize)>, track: usize, lead: usize| {
            let places = &self.free[track * n..][..n];
            let from = (angle + lead) % n;
            if best.is_none_or(|best| lead < best.0)
                && let Some(skipped) = skip(places, from)
                && best.is_none_or(|best| lead + skipped < best.0)
            {
                *best = Some((lead + skipped, track * n + (from + skipped) % n));
            }
        };
        look(&mut best, track, 0);
        for other in (here * heads..(here + 1) * heads).filter(|&other| other != track) {
            look(&mut best, other, self.switch);
        }
        if scope == Scope::Cylinder {
            return best;
        }
        let cylinders = self.params.cylinders() as usize;
        for distance in 1..cylinders {
            let ahead = here + distance;
            // Seeks take no less time over longer distances, except for the one that wraps.
            if scope == Scope::Zone && best.is_some_and(|best| self.seek[distance] >= best.0) {
                break;
            }
            let sides = match scope {
                Scope::Sweep => [Some(ahead % cylinders), None],
                _ => [here.checked_sub(distance), Some(ahead).filter(|&ahead| ahead < cylinders)],
            };
            for cylinder in sides.into_iter().flatten() {
                let lead = self.seek[cylinder.abs_diff(here)];
                if best.is_none_or(|best| lead < best.0) {
                    let tracks = cylinder * heads..(cylinder + 1) * heads;
                    tracks.for_each(|other| look(&mut best, other, lead));
                }
            }
        }
        best
    }
}

/// Eager allocation with free space at random: a disk of which a share `free` is free, the head at
/// a random place, the nearest free slot in scope. Mean time to locate it, in milliseconds (claims
/// V18 and V19, figure 1). The disk is drawn anew a hundred times.
pub fn locate_ms(params: &Params, free: f64, scope: Scope, trials: u32, seed: u64) -> f64 {
    let mut rng = Rng::stream(seed, "model locate");
    let mut surface = Surface::new(params);
    let (size, n) = (surface.size(), params.slots());
    let count = ((size as f64 * free).round() as usize).clamp(1, size);
    let redraw = (trials / 100).max(1);
    let (mut passed, mut found) = (0, 0);
    for trial in 0..trials {
        if trial % redraw == 0 {
            surface.free = scattered(&mut rng, size, count);
        }
        let track = rng.below(u64::from(params.tracks() * params.cylinders())) as usize;
        let angle = rng.below(u64::from(n)) as usize;
        if let Some((skipped, _)) = surface.nearest(track, angle, scope) {
            passed += skipped;
            found += 1;
        }
    }
    passed as f64 / f64::from(found.max(1)) * params.slot_ms()
}

/// Eager allocation under load: each write goes to the nearest free slot in scope and frees a
/// random used one. The next write comes at a random angle. Mean time to locate, in milliseconds,
/// once there have been `warm_up` writes for each slot of the disk.
///
/// Free space is not random then: there is less near the head, until waiting there costs about half
/// as much as leaving. With slots of a sector this takes 7 to 9 times as long as the models say at
/// 50 % utilisation, 2 to 3 times at 80 %, 1.3 to 1.6 times at 90 %; with slots of 4 KiB 2.1 to
/// 2.6, 1.1 to 1.4 and 0.96 to 1.16 times. A sweep (claim V8) makes little difference. So figure 1
/// of the paper (claim V19) holds for free space at random only, and the reserve of section 2.3
/// pays at low utilisation too.
pub fn working_ms(
    params: &Params,
    free: f64,
    scope: Scope,
    warm_up: f64,
    writes: u32,
    seed: u64,
) -> f64 {
    let mut rng = Rng::stream(seed, "model working");
    let mut surface = Surface::new(params);
    let (size, n) = (surface.size(), params.slots() as usize);
    let count = ((size as f64 * free).round() as usize).clamp(1, size);
    surface.free = scattered(&mut rng, size, count);
    let mut used: Vec<usize> = (0..size).filter(|&slot| !surface.free[slot]).collect();
    let before = (size as f64 * warm_up) as u64;
    let (mut track, mut passed) = (0, 0);
    for write in 0..before + u64::from(writes) {
        let angle = rng.below(n as u64) as usize;
        let Some((skipped, slot)) = surface.nearest(track, angle, scope) else { break };
        if write >= before {
            passed += skipped;
        }
        surface.free[slot] = false;
        track = slot / n;
        if used.is_empty() {
            surface.free[slot] = true;
        } else {
            let freed = rng.below(used.len() as u64) as usize;
            surface.free[used[freed]] = true;
            used[freed] = slot;
        }
    }
    passed as f64 / f64::from(writes.max(1)) * params.slot_ms()
}
