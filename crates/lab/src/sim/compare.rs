//! The same workload on several layouts and disks, side by side.

use super::{Clock, SimError, SimOptions, Target, simulate};
use crate::histogram::BreakdownMs;
use seekless_engine::layout::Kind;
use serde::Serialize;

/// One layout on one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The disk.
    pub disk: String,
    /// The layout.
    pub layout: &'static str,
    /// Mean latency in milliseconds.
    pub mean_ms: f64,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: f64,
    /// Mean latency of the first layout on this disk over this one's: above 1 is faster.
    pub factor: f64,
    /// Where the time went; the parts add up to the mean.
    pub breakdown_ms: BreakdownMs,
    /// Reads and writes per second of virtual time.
    pub requests_per_second: f64,
    /// Blocks written to the disk for each block that clients wrote, if they wrote any.
    pub write_amplification: Option<f64>,
    /// How fast the host simulated: requests per second of its time.
    pub simulated_requests_per_second: f64,
}

/// Rows disk by disk; the first layout of each disk is the one the others are compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was simulated, in words.
    pub workload: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Simulates every layout on every disk with the same workload and seed. `options.kind` is not
/// used. The first layout is the baseline: usually update in place.
///
/// # Errors
/// As for [`simulate`], and if there is nothing to compare.
pub fn compare(
    kinds: &[Kind],
    targets: &[Target],
    options: &SimOptions,
    clock: Clock,
) -> Result<Comparison, SimError> {
    let mut rows: Vec<Row> = Vec::with_capacity(kinds.len() * targets.len());
    let mut workload = None;
    for target in targets {
        let mut baseline = None;
        for &kind in kinds {
            let options = SimOptions { kind, ..options.clone() };
            let report = simulate(target, &options, clock)?;
            workload.get_or_insert_with(|| super::text::describe(&report));
            let mean_ms = report.latency_ms.mean;
            let baseline = *baseline.get_or_insert(mean_ms);
            rows.push(Row {
                disk: report.disk,
                layout: report.layout,
                mean_ms,
                p99_ms: report.latency_ms.p99,
                factor: if mean_ms > 0.0 { baseline / mean_ms } else { 1.0 },
                breakdown_ms: report.breakdown_ms,
                requests_per_second: report.throughput.requests_per_second,
                write_amplification: report.write_amplification,
                simulated_requests_per_second: report.simulated_requests_per_second,
            });
        }
    }
    let workload = workload.ok_or(SimError::NothingToCompare)?;
    Ok(Comparison { workload, rows })
}

impl Comparison {
    /// The comparison as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a comparison has only strings as keys")
    }

    /// The comparison for people: a table of fixed width.
    pub fn to_text(&self) -> String {
        super::text::comparison(self)
    }
}
