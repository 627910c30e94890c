//! Checks of a seek curve: it has a time for every distance, and a time that an arm can take.

use super::{Checked, shown, wrong};
use crate::spec::{Seek, SeekPiece};

/// Longest seek time, in milliseconds.
const LONGEST_MS: f64 = 1000.0;

/// A curve over the stroke of a disk with so many cylinders.
pub(super) fn check(field: &str, seek: &Seek, cylinders: u32) -> Checked {
    match seek {
        Seek::Pieces(list) => pieces(field, list)?,
        Seek::Listed { first_ms, pieces: list } => {
            pieces(field, list)?;
            first_ms.iter().try_for_each(|&ms| time(field, ms, ""))?;
        }
        Seek::Points(points) => {
            if points.is_empty() {
                return wrong(field, "no points; write some, as [[1, 2.5], [1000, 12.0]]".into());
            }
            if let Some(pair) = points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                let problem = format!(
                    "distances must increase, but {} comes before {}; sort the points",
                    pair[0].0, pair[1].0
                );
                return wrong(field, problem);
            }
            // Those beyond the stroke, too.
            points
                .iter()
                .try_for_each(|&(d, ms)| time(field, ms, &format!(" at {d} cylinders")))?;
        }
        Seek::ThreePoints { single_ms, average_ms, full_ms, .. } => {
            [single_ms, average_ms, full_ms].iter().try_for_each(|&&ms| time(field, ms, ""))?;
        }
        Seek::Stroke { .. } | Seek::Constant { .. } => {}
    }
    for distance in seek.turning_points(cylinders) {
        let unit = if distance == 1 { "cylinder" } else { "cylinders" };
        time(field, seek.ms(distance, cylinders), &format!(" over {distance} {unit}"))?;
    }
    Ok(())
}

fn time(field: &str, ms: f64, of: &str) -> Checked {
    match (0.0..=LONGEST_MS).contains(&ms) {
        true => Ok(()),
        false => {
            let ms = shown(ms);
            let problem = format!("a seek of {ms} ms{of} lies outside 0 to {LONGEST_MS} ms");
            wrong(field, problem)
        }
    }
}

/// Each piece has its own distances, and finite numbers.
fn pieces(field: &str, pieces: &[SeekPiece]) -> Checked {
    if pieces.is_empty() {
        return wrong(field, "no pieces".into());
    }
    for (index, piece) in pieces.iter().enumerate() {
        let (number, next) = (index + 1, pieces.get(index + 1));
        if ![piece.constant_ms, piece.root_ms, piece.linear_ms].iter().all(|ms| ms.is_finite()) {
            return wrong(field, format!("piece {number} has a value that is not a number"));
        }
        match (piece.below, next.map(|next| next.below)) {
            (None, Some(_)) => {
                let problem = format!(
                    "piece {number} has no `below`, so none of the pieces behind it counts; \
                     only the last one goes without"
                );
                return wrong(field, problem);
            }
            (Some(end), Some(Some(beyond))) if beyond <= end => {
                let problem = format!(
                    "`below` must ascend, but that of piece {} is {beyond} behind {end}",
                    number + 1
                );
                return wrong(field, problem);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(below: Option<u32>, constant_ms: f64, root_ms: f64, linear_ms: f64) -> SeekPiece {
        SeekPiece { below, constant_ms, root_ms, linear_ms }
    }

    fn said(seek: &Seek) -> String {
        check("seek", seek, 100).expect_err("no arm does that").to_string()
    }

    #[test]
    fn curves_that_no_arm_follows_are_errors() {
        let one = |constant, root, linear| Seek::Pieces(vec![piece(None, constant, root, linear)]);
        assert!(said(&one(1.0, -5.0, 0.0)).contains("-4 ms over 1 cylinder"));
        let nan = said(&one(1.0, f64::NAN, 0.0));
        assert!(nan.contains("piece 1 has a value that is not a number"));
        assert!(said(&one(1.0, 0.0, f64::INFINITY)).contains("not a number"));
        // Within bounds at both ends of the stroke, below zero in between.
        assert!(said(&one(4.0, -2.0, 0.2)).contains("over 25 cylinders"));
        assert!(said(&Seek::Constant { ms: 1e18 }).contains("outside 0 to 1000 ms"));
        assert!(said(&Seek::Points(vec![(1, 1e300)])).contains("1e300 ms at 1 cylinders"));
        assert!(said(&Seek::Points(vec![(1, 1.0), (5000, -1.0)])).contains("at 5000 cylinders"));
        assert!(said(&Seek::Points(vec![(9, 1.0), (1, 2.0)])).contains("9 comes before 1"));
        assert!(said(&Seek::Stroke { constant_ms: 1.0, root_ms: -2.0 }).contains("99 cylinders"));
        let bend = |average_ms| Seek::ThreePoints {
            single_ms: 5.0,
            average_ms,
            full_ms: 20.0,
            curve: true,
        };
        assert_eq!(check("seek", &bend(12.0), 100), Ok(()));
        assert!(said(&bend(0.1)).contains("a seek of -"));
    }

    #[test]
    fn pieces_ascend_and_the_last_one_is_open() {
        let two = |first, second| {
            Seek::Pieces(vec![piece(first, 1.0, 0.0, 0.0), piece(second, 2.0, 0.0, 0.0)])
        };
        assert_eq!(check("seek", &two(Some(10), Some(50)), 100), Ok(()));
        assert_eq!(check("seek", &two(Some(10), None), 100), Ok(()));
        assert!(said(&two(Some(50), Some(10))).contains("that of piece 2 is 10 behind 50"));
        assert!(said(&two(None, Some(10))).contains("piece 1 has no `below`"));
    }

    #[test]
    fn a_negative_part_is_fine_where_the_sum_is() {
        assert_eq!(check("seek", &Seek::Stroke { constant_ms: -0.05, root_ms: 5.0 }, 100), Ok(()));
        let below_zero_elsewhere =
            Seek::Pieces(vec![piece(Some(50), 1.0, 0.0, 0.0), piece(None, -4.0, 0.0, 0.1)]);
        assert_eq!(check("seek", &below_zero_elsewhere, 100), Ok(()));
    }

    /// Checks every distance against the few that the check looks at.
    #[test]
    fn no_distance_is_beyond_the_turning_points() {
        let curves = [
            Seek::Pieces(vec![piece(Some(40), 9.0, -2.0, 0.2), piece(Some(70), 2.0, 0.5, -0.03)]),
            Seek::Listed {
                first_ms: vec![3.0, 9.0, 1.0],
                pieces: vec![piece(None, 1.0, 1.0, 0.0)],
            },
            Seek::Points(vec![(3, 1.0), (50, 0.5), (300, 9.0)]),
            Seek::ThreePoints { single_ms: 5.0, average_ms: 1.0, full_ms: 9.0, curve: true },
            Seek::ThreePoints { single_ms: 5.0, average_ms: 1.0, full_ms: 9.0, curve: false },
            Seek::Stroke { constant_ms: 9.0, root_ms: -2.0 },
        ];
        for seek in curves {
            let times: Vec<f64> =
                seek.turning_points(100).iter().map(|&distance| seek.ms(distance, 100)).collect();
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let most = times.iter().copied().fold(0.0, f64::max);
            for distance in 1..100 {
                let ms = seek.ms(distance, 100);
                assert!((least..=most).contains(&ms), "{seek:?}: {ms} ms over {distance}");
            }
        }
    }
}
