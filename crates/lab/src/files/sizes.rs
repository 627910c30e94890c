//! Sizes of files.

use seekless_engine::rng::Rng;

/// `count` sizes from a log-normal distribution with this spread, scaled so that they add up to
/// `total` bytes. Each is at least 1.
pub fn log_normal(rng: &mut Rng, count: usize, total: u64, sigma: f64) -> Vec<u64> {
    let raw: Vec<f64> = (0..count).map(|_| (sigma * normal(rng)).exp()).collect();
    let scale = total as f64 / raw.iter().sum::<f64>();
    let mut sizes: Vec<u64> = raw.iter().map(|one| ((one * scale) as u64).max(1)).collect();
    // What rounding has lost goes to the largest.
    let sum: u64 = sizes.iter().sum();
    if let Some(largest) = sizes.iter_mut().max() {
        *largest = (*largest + total).saturating_sub(sum).max(1);
    }
    sizes
}

/// The same with no size above `most`; if even that is too small for `total`, all have it.
pub fn log_normal_below(
    rng: &mut Rng,
    count: usize,
    total: u64,
    sigma: f64,
    most: u64,
) -> Vec<u64> {
    let raw: Vec<f64> = (0..count).map(|_| (sigma * normal(rng)).exp()).collect();
    let cut = |scale: f64| -> Vec<u64> {
        raw.iter().map(|one| ((one * scale) as u64).clamp(1, most.max(1))).collect()
    };
    let mut scale = total as f64 / raw.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut sizes = cut(scale);
    // What is cut off goes to the others, which may then be cut in turn.
    for _ in 0..CUT_ROUNDS {
        scale *= total as f64 / sizes.iter().sum::<u64>().max(1) as f64;
        sizes = cut(scale);
    }
    share_out(&mut sizes, total, most);
    sizes
}

/// Rounds after which a cut at several times the mean leaves nothing but rounding.
const CUT_ROUNDS: usize = 30;

/// Changes sizes by what they lack or exceed, one byte each in turn.
fn share_out(sizes: &mut [u64], total: u64, most: u64) {
    let mut sum: u64 = sizes.iter().sum();
    loop {
        let before = sum;
        for size in sizes.iter_mut() {
            if sum < total && *size < most {
                (*size, sum) = (*size + 1, sum + 1);
            } else if sum > total && *size > 1 {
                (*size, sum) = (*size - 1, sum - 1);
            }
        }
        if sum == total || sum == before {
            return;
        }
    }
}

/// A number from the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_and_are_skewed() {
        let sizes = log_normal(&mut Rng::stream(1, "sizes"), 508, 5_030_000, 1.5);
        assert_eq!(sizes.iter().sum::<u64>(), 5_030_000);
        let mut sorted = sizes;
        sorted.sort_unstable();
        let (median, mean) = (sorted[254], 5_030_000 / 508);
        assert!(median * 2 < mean, "the median {median} is far below the mean {mean}");
    }

    #[test]
    fn sizes_that_are_cut_add_up_too() {
        let below = |total| log_normal_below(&mut Rng::stream(1, "sizes"), 500, total, 1.0, 9_000);
        let sizes = below(1_700_000);
        assert_eq!(sizes.iter().sum::<u64>(), 1_700_000);
        assert_eq!(sizes.iter().max(), Some(&9_000), "some are cut");
        assert!(sizes.iter().filter(|size| **size == 9_000).count() < 100);
        assert!(below(9_000_000).iter().all(|size| *size == 9_000), "as much as there may be");
        assert!(below(0).iter().all(|size| *size == 1), "at least one");
    }
}
