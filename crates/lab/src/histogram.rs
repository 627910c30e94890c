//! Latencies: percentiles from a histogram, means from exact sums.

use hdrhistogram::Histogram;
use seekless_engine::io::Breakdown;
use seekless_engine::units::{SECONDS, Time};
use serde::{Deserialize, Serialize};

/// Longest latency in percentiles: an hour. Longer ones count as an hour; mean and maximum stay
/// exact.
const LONGEST: Time = 3600 * SECONDS;

/// Latencies of many requests and where their time went.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    count: u64,
    max: Time,
    sum: u128,
    parts: [u128; 6],
}

/// Summary of latencies in milliseconds. Percentiles are exact to three digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Mean time of a request by cause, in milliseconds. The parts add up to the mean latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakdownMs {
    /// Controller and bus command overhead.
    pub overhead: f64,
    /// Waiting for other requests.
    pub queue: f64,
    /// Moving the arm.
    pub seek: f64,
    /// Switching heads within a cylinder.
    pub head_switch: f64,
    /// Waiting for the platter to turn.
    pub rotation: f64,
    /// Moving bytes.
    pub transfer: f64,
}

impl BreakdownMs {
    /// The parts with their names, in the order in which a request meets them.
    pub fn parts(&self) -> [(&'static str, f64); 6] {
        [
            ("overhead", self.overhead),
            ("queue", self.queue),
            ("seek", self.seek),
            ("head switch", self.head_switch),
            ("rotation", self.rotation),
            ("transfer", self.transfer),
        ]
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

impl Latencies {
    /// No latencies yet.
    pub fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid");
        Latencies { histogram, count: 0, max: 0, sum: 0, parts: [0; 6] }
    }

    /// Counts one request. The parts of `spent` add up to its latency.
    pub fn record(&mut self, spent: &Breakdown) {
        let latency = spent.total_ns();
        self.histogram.saturating_record(latency);
        self.count += 1;
        self.max = self.max.max(latency);
        self.sum += u128::from(latency);
        let parts = [
            spent.overhead_ns,
            spent.queue_ns,
            spent.seek_ns,
            spent.head_switch_ns,
            spent.rotation_ns,
            spent.transfer_ns,
        ];
        for (sum, part) in self.parts.iter_mut().zip(parts) {
            *sum += u128::from(part);
        }
    }

    /// Counts one request of which only the latency is known.
    pub fn record_ns(&mut self, latency: Time) {
        self.record(&Breakdown { queue_ns: latency, ..Breakdown::default() });
    }

    /// Adds the requests of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.count += other.count;
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        for (sum, part) in self.parts.iter_mut().zip(other.parts) {
            *sum += part;
        }
    }

    /// Requests counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The summary; zeros if nothing was counted.
    pub fn latency_ms(&self) -> LatencyMs {
        // The histogram reports the upper end of a bucket, which may lie above the maximum.
        let quantile = |q| self.histogram.value_at_quantile(q).min(self.max) as f64 / 1e6;
        LatencyMs {
            mean: self.mean_ms(self.sum),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.max as f64 / 1e6,
        }
    }

    /// Share of the requests that took less than `ms`, exact to three digits; 0 if nothing was
    /// counted.
    pub fn share_below_ms(&self, ms: f64) -> f64 {
        let below = ((ms * 1e6) as u64).saturating_sub(1);
        match self.count {
            0 => 0.0,
            count => self.histogram.count_between(0, below) as f64 / count as f64,
        }
    }

    /// The mean parts; zeros if nothing was counted.
    pub fn breakdown_ms(&self) -> BreakdownMs {
        let [overhead, queue, seek, head_switch, rotation, transfer] =
            self.parts.map(|sum| self.mean_ms(sum));
        BreakdownMs { overhead, queue, seek, head_switch, rotation, transfer }
    }

    fn mean_ms(&self, sum: u128) -> f64 {
        if self.count == 0 { 0.0 } else { sum as f64 / self.count as f64 / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(rotation_ns: Time) -> Breakdown {
        Breakdown { overhead_ns: 1000, rotation_ns, ..Breakdown::default() }
    }

    #[test]
    fn mean_and_maximum_are_exact_percentiles_to_three_digits() {
        let mut latencies = Latencies::new();
        for k in 1..=1000 {
            latencies.record(&rotation(k * 1_234_567));
        }
        let found = latencies.latency_ms();
        assert!((found.mean - (500.5 * 1.234_567 + 0.001)).abs() < 1e-9);
        assert_eq!(found.max, 1234.568);
        for (found, expected) in [(found.p50, 500.0), (found.p90, 900.0), (found.p99, 990.0)] {
            let expected = expected * 1.234_567 + 0.001;
            assert!((found - expected).abs() < 2e-3 * expected, "{found} for {expected}");
        }
        let parts: f64 = latencies.breakdown_ms().parts().iter().map(|part| part.1).sum();
        assert!((parts - found.mean).abs() < 1e-9);
    }

    #[test]
    fn adding_is_the_same_as_recording_together() {
        let (mut a, mut b, mut both) = (Latencies::new(), Latencies::new(), Latencies::new());
        for k in 0..100 {
            let spent = rotation(k * k * 977);
            if k % 3 == 0 {
                a.record(&spent)
            } else {
                b.record(&spent)
            }
            both.record(&spent);
        }
        a.add(&b);
        assert_eq!(a, both);
    }

    #[test]
    fn a_share_counts_what_is_shorter() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.share_below_ms(1.0), 0.0);
        for ms in [0, 2, 20, 30] {
            latencies.record_ns(ms * 1_000_000);
        }
        let shares = [1.0, 10.0, 25.0, 100.0].map(|ms| latencies.share_below_ms(ms));
        assert_eq!(shares, [0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn nothing_counted_is_all_zeros() {
        assert_eq!(Latencies::new().latency_ms(), LatencyMs::default());
        assert_eq!(Latencies::new().breakdown_ms(), BreakdownMs::default());
    }

    #[test]
    fn more_than_an_hour_keeps_mean_and_maximum() {
        let mut latencies = Latencies::new();
        latencies.record(&rotation(2 * LONGEST));
        assert_eq!(latencies.latency_ms().max, 2.0 * 3_600_000.0 + 0.001);
    }
}
