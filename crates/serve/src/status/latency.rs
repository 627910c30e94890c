//! How long requests took, as a histogram whose intervals are a sixteenth wide.
//!
//! Histograms are added and subtracted: what happened between two reports is their difference.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The shortest time that is told from shorter ones, and the longest one.
const LEAST_NS: u64 = 1 << 10;
const MOST_NS: u64 = 1 << 41;

/// Times of requests.
#[derive(Clone, PartialEq)]
pub struct Latency {
    times: Histogram<u64>,
    /// The sum of all times.
    total_ns: u64,
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Latency of {} requests", self.count())
    }
}

impl Default for Latency {
    fn default() -> Latency {
        let times = Histogram::new_with_bounds(LEAST_NS, MOST_NS, 1);
        Latency { times: times.expect("these bounds are sound"), total_ns: 0 }
    }
}

impl Latency {
    /// Counts a request.
    pub fn record(&mut self, ns: u64) {
        self.times.saturating_record(ns);
        self.total_ns += ns;
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Latency) {
        self.times.add(&other.times).expect("all have the same bounds");
        self.total_ns += other.total_ns;
    }

    /// What came after `before`, an earlier state of the same histogram; all of it if that is none.
    #[must_use]
    pub fn since(&self, before: &Latency) -> Latency {
        let mut since = self.clone();
        if since.times.subtract(&before.times).is_err() {
            return self.clone();
        }
        since.total_ns = since.total_ns.saturating_sub(before.total_ns);
        since
    }

    /// Requests counted.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// The sum of all times.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// The mean, or nothing if there is no request.
    pub fn mean_ns(&self) -> Option<u64> {
        self.total_ns.checked_div(self.count())
    }

    /// The time that a share of the requests (0 to 1) did not exceed, at most a sixteenth too long;
    /// nothing if there is no request.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.times.value_at_quantile(share))
    }

    /// How many requests took no longer than 2 µs, 4 µs and so on to 34 s (in powers of two).
    pub fn by_doubling(&self) -> impl Iterator<Item = (u64, u64)> {
        (11..=35).map(|doubling| {
            let below = (1 << doubling) - 1;
            (below, self.times.count_between(0, below))
        })
    }
}

/// In JSON: the sum, and the longest time of each interval in which there is a request, with their
/// number.
#[derive(Serialize, Deserialize)]
struct Wire {
    total_ns: u64,
    up_to_ns: BTreeMap<u64, u64>,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.times.iter_recorded();
        let up_to_ns = counts.map(|one| (one.value_iterated_to(), one.count_at_value())).collect();
        Wire { total_ns: self.total_ns, up_to_ns }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latency, D::Error> {
        let Wire { total_ns, up_to_ns } = Wire::deserialize(deserializer)?;
        let mut latency = Latency { total_ns, ..Latency::default() };
        for (time, count) in up_to_ns {
            latency.times.saturating_record_n(time, count);
        }
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_sixteenth_too_long() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile_ns(0.5), None);
        for us in 1..=1000 {
            latency.record(us * 1000);
        }
        for (share, right) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let found = latency.quantile_ns(share).expect("requests");
            let most = right as f64 * 17.0 / 16.0;
            assert!(found >= right && found as f64 <= most, "{share}: {found}");
        }
        assert_eq!(latency.mean_ns(), Some(500_500));
        let below = latency.by_doubling().find(|one| one.0 == (1 << 19) - 1).expect("0.5 ms");
        assert_eq!(below.1, 524);
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let mut latency = Latency::default();
        latency.record(2_000_000);
        let before = latency.clone();
        latency.record(5_000);
        let since = latency.since(&before);
        assert_eq!((since.count(), since.total_ns()), (1, 5_000));
        assert!(since.quantile_ns(1.0).expect("one") < 6_000);
        assert_eq!(before.since(&latency), before, "the process has begun anew");
        let text = serde_json::to_string(&latency).expect("JSON");
        assert_eq!(serde_json::from_str::<Latency>(&text).expect("a histogram"), latency);
    }
}
