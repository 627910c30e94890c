//! How well the time of a simulated disk is kept: how late its answers are found.

use hdrhistogram::Histogram;
use seekless_engine::units::{SECONDS, Time};
use std::fmt;

/// Lateness beyond which percentiles tell nothing apart.
const LONGEST: Time = 10 * SECONDS;

/// How late answers were found, in nanoseconds after they were due.
#[derive(Clone, Debug)]
pub struct Lateness {
    histogram: Histogram<u64>,
}

impl Default for Lateness {
    fn default() -> Lateness {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 2).expect("the bounds are valid");
        Lateness { histogram }
    }
}

impl Lateness {
    /// Counts an answer that was due at `due` and found at `now`.
    pub(super) fn record(&mut self, due: Time, now: Time) {
        self.histogram.saturating_record(now.saturating_sub(due));
    }

    /// Answers counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The lateness that a share of the answers did not exceed, in nanoseconds.
    pub fn quantile_ns(&self, share: f64) -> Time {
        self.histogram.value_at_quantile(share)
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, p99, most] = [0.5, 0.99, 1.0].map(|q| self.quantile_ns(q) as f64 / 1e3);
        let count = self.count();
        write!(
            f,
            "{count} answers of the simulated disk, late by {median:.1} \u{b5}s at the median, \
             {p99:.1} at the 99th percentile, {most:.1} at most"
        )
    }
}
