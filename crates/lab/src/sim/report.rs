//! The report of a simulation.

use super::{SimOptions, Tally, Target, TraceReport};
use crate::disk_time::DiskTime;
use crate::histogram::{BreakdownMs, Latencies, LatencyMs};
use crate::workload::Workload;
use seekless_engine::account::Account;
use seekless_engine::units::{BLOCK_BYTES, SECONDS, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters of a layout, as [`seekless_engine::layer::Layer::stats`] gives them.
type Stats = Vec<(&'static str, f64)>;

/// Raw figures of the measured phase.
pub(super) struct Measured {
    pub host_ns: u64,
    pub virtual_ns: Time,
    pub before: Stats,
    pub after: Stats,
    /// The account of each simulated disk.
    pub accounts: Vec<Account>,
    pub free_profile: Vec<f64>,
}

/// Latencies of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Their number.
    pub requests: u64,
    /// Their latency.
    pub latency_ms: LatencyMs,
    /// Where their time went; the parts add up to the mean.
    pub breakdown_ms: BreakdownMs,
}

/// Work per second of virtual time; zeros if no time passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// Reads and writes per second.
    pub requests_per_second: f64,
    /// Payload in MiB per second.
    pub mebibytes_per_second: f64,
}

/// The report of one simulation. All figures are of the measured phase; all but the two host
/// figures are functions of options and seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimReport {
    /// The disk.
    pub disk: String,
    /// The layout.
    pub layout: &'static str,
    /// Seed of the run.
    pub seed: u64,
    /// Live blocks over blocks of the disk.
    pub utilisation: f64,
    /// Blocks of the disk.
    pub device_blocks: u64,
    /// Blocks of the volume, all of them live.
    pub volume_blocks: u64,
    /// True if the volume was filled first.
    pub filled: bool,
    /// Random overwrites per block before the measured phase.
    pub age: f64,
    /// The workload, if it was described.
    pub workload: Option<Workload>,
    /// The trace, if one was replayed.
    pub trace: Option<TraceReport>,
    /// Reads and writes.
    pub requests: u64,
    /// How fast the host simulated them: reads and writes per second of its time.
    pub simulated_requests_per_second: f64,
    /// Host time, in seconds.
    pub host_seconds: f64,
    /// Virtual time, in seconds.
    pub virtual_seconds: f64,
    /// Work per second of virtual time.
    pub throughput: Throughput,
    /// Latency of reads and writes.
    pub latency_ms: LatencyMs,
    /// Where the time of reads and writes went; the parts add up to the mean latency.
    pub breakdown_ms: BreakdownMs,
    /// Reads alone, if there were any.
    pub reads: Option<Side>,
    /// Writes alone, if there were any.
    pub writes: Option<Side>,
    /// Flushes and trims, if there were any. They do not count as requests.
    pub flushes: Option<Side>,
    /// Blocks written to the disk for each block that clients wrote, if they wrote any.
    pub write_amplification: Option<f64>,
    /// Where the time of each simulated disk went.
    pub disk_time: Vec<DiskTime>,
    /// Share of free blocks in each of twenty equal parts of the disk at the end, for layouts that
    /// choose addresses.
    pub free_profile: Vec<f64>,
    /// Counters of the layout at the end, filling and ageing included.
    pub layout_stats: BTreeMap<&'static str, f64>,
}

fn side(latencies: &Latencies) -> Option<Side> {
    (latencies.count() > 0).then(|| Side {
        requests: latencies.count(),
        latency_ms: latencies.latency_ms(),
        breakdown_ms: latencies.breakdown_ms(),
    })
}

/// By how much the first counter of that name grew.
fn growth<'s>(
    mut pairs: impl Iterator<Item = (&'s (&'s str, f64), f64)>,
    name: &str,
) -> Option<f64> {
    pairs.find(|(stat, _)| stat.0 == name).map(|(stat, before)| stat.1 - before)
}

fn write_amplification(measured: &Measured) -> Option<f64> {
    let before = measured.before.iter().map(|stat| stat.1);
    let pairs = measured.after.iter().zip(before);
    // If layers are stacked, clients write to the highest, and the lowest writes to the disk.
    let client = growth(pairs.clone(), "client_blocks_written").filter(|&blocks| blocks > 0.0)?;
    Some(growth(pairs.rev(), "device_blocks_written")? / client)
}

fn per_second(count: f64, span_ns: u64) -> f64 {
    if span_ns == 0 { 0.0 } else { count / (span_ns as f64 / SECONDS as f64) }
}

impl SimReport {
    pub(super) fn new(
        target: &Target,
        options: &SimOptions,
        volume_blocks: u64,
        tally: &Tally,
        measured: &Measured,
        trace: Option<TraceReport>,
    ) -> SimReport {
        let mut all = tally.reads.clone();
        all.add(&tally.writes);
        let requests = all.count();
        let time = |account| DiskTime::new(account, measured.virtual_ns);
        let disk_time = measured.accounts.iter().map(time).collect();
        let bytes = tally.blocks as f64 * BLOCK_BYTES as f64;
        let requests_per_second = per_second(requests as f64, measured.virtual_ns);
        let mebibytes_per_second = per_second(bytes / f64::from(1 << 20), measured.virtual_ns);
        SimReport {
            disk: target.name_for(options.kind),
            layout: options.kind.name(),
            seed: options.seed,
            utilisation: volume_blocks as f64 / target.blocks() as f64,
            device_blocks: target.blocks(),
            volume_blocks,
            filled: options.fill,
            age: if options.fill { options.age } else { 0.0 },
            workload: trace.is_none().then(|| options.workload.clone()),
            trace,
            requests,
            simulated_requests_per_second: per_second(requests as f64, measured.host_ns),
            host_seconds: measured.host_ns as f64 / SECONDS as f64,
            virtual_seconds: measured.virtual_ns as f64 / SECONDS as f64,
            throughput: Throughput { requests_per_second, mebibytes_per_second },
            latency_ms: all.latency_ms(),
            breakdown_ms: all.breakdown_ms(),
            reads: side(&tally.reads),
            writes: side(&tally.writes),
            flushes: side(&tally.flushes),
            write_amplification: write_amplification(measured),
            disk_time,
            free_profile: measured.free_profile.clone(),
            layout_stats: measured.after.iter().copied().collect(),
        }
    }

    /// The report as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has only strings as keys")
    }

    /// The report as text: tables of fixed width.
    pub fn to_text(&self) -> String {
        super::text::report(self)
    }
}
