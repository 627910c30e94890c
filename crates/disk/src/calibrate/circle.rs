//! Angles as unit vectors: coherence, searches over slopes, synchronisation of offsets.

use crate::length::length;
use std::f64::consts::TAU;
use std::ops::{Add, AddAssign, Mul};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Turn {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Turn {
    /// The unit vector at an angle, in turns.
    pub(super) fn at(turns: f64) -> Turn {
        let (im, re) = (turns * TAU).sin_cos();
        Turn { re, im }
    }

    pub(super) fn length(self) -> f64 {
        length(self.re, self.im)
    }

    /// The angle, in turns.
    pub(super) fn turns(self) -> f64 {
        self.im.atan2(self.re) / TAU
    }

    fn conjugate(self) -> Turn {
        Turn { im: -self.im, ..self }
    }
}

impl Add for Turn {
    type Output = Turn;
    fn add(self, other: Turn) -> Turn {
        Turn { re: self.re + other.re, im: self.im + other.im }
    }
}

impl AddAssign for Turn {
    fn add_assign(&mut self, other: Turn) {
        *self = *self + other;
    }
}

impl Mul for Turn {
    type Output = Turn;
    fn mul(self, other: Turn) -> Turn {
        Turn {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

/// An angle between minus and plus half a turn.
pub(super) fn wrap(turns: f64) -> f64 {
    turns - turns.round()
}

/// How well angles agree with zero: 1 if they are, about 0 by chance.
pub(super) fn coherence(angles: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for angle in angles {
        sum += (angle * TAU).cos();
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Sums of the angles that belong to the same number of steps. An angle over so many steps back is
/// the opposite one over as many steps forth.
fn merge(observed: &[(f64, f64)]) -> Vec<(f64, Turn)> {
    let mut forth: Vec<(f64, f64)> = observed
        .iter()
        .map(|&(steps, angle)| if steps < 0.0 { (-steps, -angle) } else { (steps, angle) })
        .collect();
    forth.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, Turn)> = Vec::new();
    for (steps, angle) in forth {
        match merged.last_mut().filter(|last| last.0 == steps) {
            Some(last) => last.1 += Turn::at(angle),
            None => merged.push((steps, Turn::at(angle))),
        }
    }
    merged
}

/// The slope, over a whole turn a step, that explains angles best: each observation is a number of
/// steps and an angle. Returns the slope and the coherence with it.
pub(super) fn slope(observed: &[(f64, f64)]) -> (f64, f64) {
    let merged = merge(observed);
    let longest = observed.iter().map(|one| one.0.abs()).fold(1.0, f64::max);
    // A quarter of a turn at most between two slopes for the longest distance.
    let count = ((longest * 4.0) as usize).clamp(64, 1 << 20);
    let step = 1.0 / count as f64;
    let mut vectors: Vec<Turn> = merged.iter().map(|one| one.1).collect();
    let turns: Vec<Turn> = merged.iter().map(|one| Turn::at(-one.0 * step)).collect();
    let (mut best, mut score) = (0.0, f64::MIN);
    for index in 0..count {
        let sum: f64 = vectors.iter().map(|vector| vector.re).sum();
        if sum > score {
            (best, score) = (index as f64 * step, sum);
        }
        for (vector, turn) in vectors.iter_mut().zip(&turns) {
            *vector = *vector * *turn;
        }
    }
    let mut half = step / 2.0;
    let of = |slope: f64| coherence(observed.iter().map(|one| one.1 - one.0 * slope));
    let mut score = of(best);
    while half > step / 256.0 {
        for next in [best - half, best + half] {
            let here = of(next);
            if here > score {
                (best, score) = (next, here);
            }
        }
        half /= 2.0;
    }
    (wrap(best), score)
}

/// Offsets of so many members from the sums of the differences that were observed between them:
/// `between[i * count + j]` is the sum over the angles of `i` less those of `j`. Returns offsets in
/// turns, the first of them zero.
pub(super) fn synchronise(count: usize, between: &[Turn]) -> Vec<f64> {
    let mut known = vec![Turn { re: 1.0, im: 0.0 }; count];
    for _ in 0..200 {
        let mut next = vec![Turn::default(); count];
        for (i, to) in next.iter_mut().enumerate() {
            // A part of the old value keeps the iteration from oscillating.
            let mut sum = Turn::default();
            let mut weight = 0.0;
            for (j, from) in known.iter().enumerate() {
                let (there, back) = (between[i * count + j], between[j * count + i].conjugate());
                let link = there + back;
                sum += link * *from;
                weight += link.length();
            }
            let keep = weight * 0.1 + 1e-9;
            sum += Turn { re: known[i].re * keep, im: known[i].im * keep };
            let length = sum.length().max(1e-12);
            *to = Turn { re: sum.re / length, im: sum.im / length };
        }
        known = next;
    }
    let first = known.first().map_or(0.0, |one| one.turns());
    known.iter().map(|one| wrap(one.turns() - first)).collect()
}
