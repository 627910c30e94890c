//! Computes the error of a model.

use super::{Op, Outcome};
use seekless_engine::units::{MILLIS, Time};

/// Response times, measured and simulated, request by request. They are kept, 16 bytes a request:
/// the distance of distributions is computed from the exact quantiles.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    reads: Vec<(Time, Time)>,
    writes: Vec<(Time, Time)>,
}

/// The figures, for all requests and for the two kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// All requests.
    pub all: Figures,
    /// Reads.
    pub reads: Figures,
    /// Writes.
    pub writes: Figures,
    /// Measured response times of all requests in ascending order, in nanoseconds.
    pub measured: Vec<Time>,
    /// The simulated ones, likewise.
    pub simulated: Vec<Time>,
}

/// Figures over a set of requests. If it is empty, all are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Requests in the set.
    pub requests: u64,
    /// Mean measured response time.
    pub measured_mean_ms: Option<f64>,
    /// Mean simulated response time.
    pub simulated_mean_ms: Option<f64>,
    /// Root mean square of the horizontal distance between the two distributions: of the
    /// differences of equal quantiles (the demerit figure of Ruemmler and Wilkes).
    pub rms_ms: Option<f64>,
    /// Mean of simulated minus measured.
    pub mean_error_ms: Option<f64>,
    /// Mean of the absolute difference, request by request.
    pub mae_ms: Option<f64>,
    /// Root of the mean squared difference, request by request.
    pub rmse_ms: Option<f64>,
    /// Pearson's correlation of simulated and measured; absent where either is constant.
    pub correlation: Option<f64>,
    /// Share of requests that are less than a millisecond off.
    pub within_1_ms: Option<f64>,
}

impl Statistics {
    /// Without requests.
    pub fn new() -> Statistics {
        Statistics::default()
    }

    /// Adds a request.
    pub fn add(&mut self, outcome: &Outcome) {
        let pair = (outcome.request.response_ns, outcome.simulated_ns);
        match outcome.request.op {
            Op::Read => self.reads.push(pair),
            Op::Write => self.writes.push(pair),
        }
    }

    /// The figures.
    pub fn report(self) -> Report {
        let reads = Figures::of(&self.reads, &quantiles(&self.reads));
        let writes = Figures::of(&self.writes, &quantiles(&self.writes));
        let mut pairs = self.reads;
        pairs.extend(self.writes);
        let (measured, simulated) = quantiles(&pairs);
        let sorted = (measured, simulated);
        let all = Figures::of(&pairs, &sorted);
        Report { all, reads, writes, measured: sorted.0, simulated: sorted.1 }
    }
}

fn quantiles(pairs: &[(Time, Time)]) -> (Vec<Time>, Vec<Time>) {
    let (mut measured, mut simulated): (Vec<Time>, Vec<Time>) = pairs.iter().copied().unzip();
    measured.sort_unstable();
    simulated.sort_unstable();
    (measured, simulated)
}

fn ms(ns: Time) -> f64 {
    ns as f64 / MILLIS as f64
}

/// Sums over differences, from which the figures follow.
#[derive(Default)]
struct Sums {
    absolute: f64,
    squares: f64,
    near: u64,
    measured: Moments,
    simulated: Moments,
    product: f64,
}

/// Mean and squared deviation, updated so that large times lose no digits.
#[derive(Default)]
struct Moments {
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Takes a value as the `count`th; returns its distance from the mean before.
    fn add(&mut self, value: f64, count: f64) -> f64 {
        let before = value - self.mean;
        self.mean += before / count;
        self.squares += before * (value - self.mean);
        before
    }
}

impl Figures {
    fn of(pairs: &[(Time, Time)], sorted: &(Vec<Time>, Vec<Time>)) -> Figures {
        if pairs.is_empty() {
            return Figures::default();
        }
        let mut sums = Sums::default();
        for (index, &(measured, simulated)) in pairs.iter().enumerate() {
            let count = (index + 1) as f64;
            let (measured, simulated) = (ms(measured), ms(simulated));
            let off = simulated - measured;
            sums.absolute += off.abs();
            sums.squares += off * off;
            sums.near += u64::from(off.abs() < 1.0);
            sums.measured.add(measured, count);
            let before = sums.simulated.add(simulated, count);
            sums.product += before * (measured - sums.measured.mean);
        }
        let count = pairs.len() as f64;
        let apart: f64 =
            sorted.0.iter().zip(&sorted.1).map(|(&m, &s)| (ms(s) - ms(m)).powi(2)).sum();
        let spread = (sums.measured.squares * sums.simulated.squares).sqrt();
        Figures {
            requests: pairs.len() as u64,
            measured_mean_ms: Some(sums.measured.mean),
            simulated_mean_ms: Some(sums.simulated.mean),
            rms_ms: Some((apart / count).sqrt()),
            mean_error_ms: Some(sums.simulated.mean - sums.measured.mean),
            mae_ms: Some(sums.absolute / count),
            rmse_ms: Some((sums.squares / count).sqrt()),
            correlation: (spread > 0.0).then(|| (sums.product / spread).clamp(-1.0, 1.0)),
            within_1_ms: Some(sums.near as f64 / count),
        }
    }
}
