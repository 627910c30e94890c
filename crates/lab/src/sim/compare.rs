//! The same workload on several layouts and disks, side by side.

use super::{
    Clock, Load, SimError, SimOptions, SimReport, Target, check, simulate, simulate_trace,
};
use crate::disk_time::DiskTime;
use crate::histogram::BreakdownMs;
use seekless_layouts::Kind;
use serde::Serialize;

/// One layout on one disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The disk.
    pub disk: String,
    /// The layout.
    pub layout: &'static str,
    /// Requested share of live data.
    pub utilisation: f64,
    /// Mean latency in milliseconds.
    pub mean_ms: f64,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: f64,
    /// Mean latency of the first layout on this disk at this utilisation over this one's: above 1
    /// is faster.
    pub factor: f64,
    /// Requests per second over those of that layout: above 1 is faster. In an open loop that keeps
    /// up, all layouts have the same.
    pub throughput_factor: f64,
    /// Where the time went; the parts add up to the mean.
    pub breakdown_ms: BreakdownMs,
    /// Reads and writes per second of virtual time.
    pub requests_per_second: f64,
    /// Blocks written to the disk for each block that clients wrote, if they wrote any.
    pub write_amplification: Option<f64>,
    /// The time of each simulated disk.
    pub disk_time: Vec<DiskTime>,
    /// How fast the host simulated: requests per second of its time.
    pub simulated_requests_per_second: f64,
}

/// Rows disk by disk and utilisation by utilisation; the first layout of each is the one the others
/// are compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was simulated, in words.
    pub workload: String,
    /// The requested utilisations.
    pub utilisations: Vec<f64>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Layouts that do not hold a requested utilisation, if there were several.
    pub left_out: Vec<String>,
}

/// The layouts and disks to compare: each with each.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The layouts. The first one is the baseline: usually update in place.
    pub kinds: &'a [Kind],
    /// The disks.
    pub targets: &'a [Target],
    /// Shares of each disk that live data fills, above 0 and at most 1.
    pub utilisations: &'a [f64],
}

/// Simulates every layout on every disk at every utilisation with the same workload, or the same
/// trace, and seed. Layout and utilisation of `options` are not used.
///
/// # Errors
/// As for [`simulate`], and if there is nothing to compare. If there are several utilisations, a
/// layout that does not hold one of them is left out there.
pub fn compare(
    field: &Field<'_>,
    options: &SimOptions,
    load: Option<&Load<'_>>,
    clock: Clock,
) -> Result<Comparison, SimError> {
    let Field { kinds, targets, utilisations } = *field;
    for target in targets {
        for &kind in kinds {
            check(target, &SimOptions { kind, ..options.clone() })?;
        }
    }
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    let mut workload = None;
    for target in targets {
        for &utilisation in utilisations {
            let mut baseline = None;
            for &kind in kinds {
                let utilised = Some(utilisation);
                let options = SimOptions { kind, utilisation: utilised, ..options.clone() };
                let report = match load {
                    Some(load) => simulate_trace(target, &options, load, clock),
                    None => simulate(target, &options, clock),
                };
                let report = match report {
                    Err(error @ SimError::TooFull { .. }) if utilisations.len() > 1 => {
                        left_out.push(error.to_string());
                        continue;
                    }
                    report => report?,
                };
                workload.get_or_insert_with(|| match utilisations.len() {
                    1 => super::text::describe(&report),
                    _ => super::text::describe_load(&report),
                });
                rows.push(Row::new(report, utilisation, &mut baseline));
            }
        }
    }
    let workload = workload.ok_or(SimError::NothingToCompare)?;
    Ok(Comparison { workload, utilisations: utilisations.to_vec(), rows, left_out })
}

impl Row {
    /// A row; the first one of its kind becomes the baseline: mean latency and throughput.
    fn new(report: SimReport, utilisation: f64, baseline: &mut Option<(f64, f64)>) -> Row {
        let mean_ms = report.latency_ms.mean;
        let requests_per_second = report.throughput.requests_per_second;
        let (mean, rate) = *baseline.get_or_insert((mean_ms, requests_per_second));
        Row {
            disk: report.disk,
            layout: report.layout,
            utilisation,
            mean_ms,
            p99_ms: report.latency_ms.p99,
            factor: if mean_ms > 0.0 { mean / mean_ms } else { 1.0 },
            throughput_factor: if rate > 0.0 { requests_per_second / rate } else { 1.0 },
            breakdown_ms: report.breakdown_ms,
            requests_per_second,
            write_amplification: report.write_amplification,
            disk_time: report.disk_time,
            simulated_requests_per_second: report.simulated_requests_per_second,
        }
    }
}

impl Comparison {
    /// The comparison as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a comparison has only strings as keys")
    }

    /// The comparison as text: a table of fixed width.
    pub fn to_text(&self) -> String {
        super::text::comparison(self)
    }
}
