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
}
