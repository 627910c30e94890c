//! Seek time as a function of the distance in cylinders.

use super::ns;
use seekless_engine::units::Time;
use serde::{Deserialize, Serialize};

/// Seek time as a function of the distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Seek {
    /// Pieces of `constant_ms + root_ms·√d + linear_ms·d`, each for distances below its bound.
    Pieces(Vec<SeekPiece>),
    /// `constant_ms + root_ms·√(d / cylinders)`.
    Stroke {
        /// Fixed part.
        constant_ms: f64,
        /// Added for a full stroke.
        root_ms: f64,
    },
    /// Measured points (distance, milliseconds), straight lines between them. Below the first and
    /// beyond the last point the curve is constant.
    Points(Vec<(u32, f64)>),
    /// The times for 1, 2, 3, … cylinders, then pieces.
    Listed {
        /// Milliseconds for 1, 2, 3, … cylinders.
        first_ms: Vec<f64>,
        /// Beyond those.
        pieces: Vec<SeekPiece>,
    },
    /// The same time for every distance.
    Constant {
        /// The time.
        ms: f64,
    },
    /// Through three points: one cylinder, a third of the stroke, the full stroke.
    ThreePoints {
        /// One cylinder.
        single_ms: f64,
        /// A third of the stroke, which data sheets call average.
        average_ms: f64,
        /// Full stroke.
        full_ms: f64,
        /// `constant + root·√d + linear·d` through the three points; else straight lines.
        #[serde(default)]
        curve: bool,
    },
}

/// See [`Seek::Pieces`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPiece {
    /// The piece holds for distances below this; absent for the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<u32>,
    /// Fixed part.
    pub constant_ms: f64,
    /// Factor of the square root of the distance.
    #[serde(default)]
    pub root_ms: f64,
    /// Factor of the distance.
    #[serde(default)]
    pub linear_ms: f64,
}

impl Seek {
    /// Seek time over `distance` cylinders of a disk with `cylinders`, in nanoseconds.
    pub fn ns(&self, distance: u32, cylinders: u32) -> Time {
        if distance == 0 { 0 } else { ns(self.ms(distance, cylinders)) }
    }

    /// The same in milliseconds, without clamping: a curve may fall below zero.
    pub(super) fn ms(&self, distance: u32, cylinders: u32) -> f64 {
        let d = f64::from(distance);
        match self {
            Seek::Pieces(pieces) => on_pieces(pieces, distance),
            Seek::Stroke { constant_ms, root_ms } => {
                constant_ms + root_ms * (d / f64::from(cylinders)).sqrt()
            }
            Seek::Points(points) => {
                let after = points.partition_point(|&(at, _)| at < distance);
                match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
                    (Some((a, x)), Some(&(b, y))) => {
                        x + (y - x) * (d - f64::from(a)) / f64::from(b - a)
                    }
                    (_, Some(&(_, y))) => y,
                    (Some((_, x)), None) => x,
                    (None, None) => 0.0,
                }
            }
            Seek::Listed { first_ms, pieces } => match first_ms.get(distance as usize - 1) {
                Some(&ms) => ms,
                None => on_pieces(pieces, distance),
            },
            Seek::Constant { ms } => *ms,
            Seek::ThreePoints { single_ms, average_ms, full_ms, curve } => {
                through([*single_ms, *average_ms, *full_ms], full_stroke(cylinders), *curve, d)
            }
        }
    }

    /// Distances within the stroke between which the curve rises all the way or falls all the way:
    /// its extreme times are at some of them.
    pub(super) fn turning_points(&self, cylinders: u32) -> Vec<u32> {
        let full = cylinders.saturating_sub(1).max(1);
        let mut found = vec![1, full];
        match self {
            Seek::Pieces(pieces) => turns_of(pieces, full, &mut found),
            Seek::Listed { first_ms, pieces } => {
                found.extend(1..=(first_ms.len() as u32).saturating_add(1).min(full));
                turns_of(pieces, full, &mut found);
            }
            Seek::Points(points) => found.extend(points.iter().map(|&(distance, _)| distance)),
            Seek::ThreePoints { single_ms, average_ms, full_ms, curve } => {
                let stroke = full_stroke(cylinders);
                found.extend(both_sides(stroke / 3.0));
                if let (true, Some([_, b, c])) =
                    (*curve, curve_through([*single_ms, *average_ms, *full_ms], stroke))
                {
                    found.extend(both_sides(turn_of(b, c)));
                }
            }
            Seek::Stroke { .. } | Seek::Constant { .. } => {}
        }
        found.retain(|distance| (1..=full).contains(distance));
        found
    }
}

/// The full stroke in cylinders.
fn full_stroke(cylinders: u32) -> f64 {
    f64::from(cylinders.saturating_sub(1).max(1))
}

/// The distance at which `root·√d + linear·d` has its extreme.
fn turn_of(root: f64, linear: f64) -> f64 {
    (root / (2.0 * linear)).powi(2)
}

/// The whole distances at and next to one; other values are clamped to the range of distances.
fn both_sides(distance: f64) -> [u32; 2] {
    let below = distance as u32;
    [below, below.saturating_add(1)]
}

fn turns_of(pieces: &[SeekPiece], full: u32, found: &mut Vec<u32>) {
    for piece in pieces {
        // The last distance of this piece, and the first of the next one.
        let below = piece.below.unwrap_or(full);
        found.extend([below.saturating_sub(1), below]);
        found.extend(both_sides(turn_of(piece.root_ms, piece.linear_ms)));
    }
}

fn on_pieces(pieces: &[SeekPiece], distance: u32) -> f64 {
    let d = f64::from(distance);
    let piece = pieces.iter().find(|piece| piece.below.is_none_or(|end| distance < end));
    let piece = piece.or(pieces.last());
    piece.map_or(0.0, |p| p.constant_ms + p.root_ms * d.sqrt() + p.linear_ms * d)
}

/// The value at `d` of a curve with the values `ms` at 1, a third of `full`, and `full`.
fn through(ms: [f64; 3], full: f64, curve: bool, d: f64) -> f64 {
    let [single, average, most] = ms;
    let third = (full / 3.0).max(1.0);
    if full <= 1.0 || third <= 1.0 {
        return single + (most - single) * (d - 1.0) / (full - 1.0).max(1.0);
    }
    match curve_through(ms, full).filter(|_| curve) {
        Some([a, b, c]) => a + b * d.sqrt() + c * d,
        None if d <= third => single + (average - single) * (d - 1.0) / (third - 1.0),
        None => average + (most - average) * (d - third) / (full - third),
    }
}

/// The numbers of `a + b·√d + c·d` through the values at 1, a third of `full`, and `full`, if these
/// are three distances.
fn curve_through(ms: [f64; 3], full: f64) -> Option<[f64; 3]> {
    let ([single, average, most], third) = (ms, full / 3.0);
    if third <= 1.0 {
        return None;
    }
    let (r2, r3) = (third.sqrt(), full.sqrt());
    let (x2, y2, v2) = (r2 - 1.0, third - 1.0, average - single);
    let (x3, y3, v3) = (r3 - 1.0, full - 1.0, most - single);
    let determinant = x2 * y3 - x3 * y2;
    let b = (v2 * y3 - v3 * y2) / determinant;
    let c = (x2 * v3 - x3 * v2) / determinant;
    Some([single - b - c, b, c])
}
