//! Reports for people: tables of fixed width, at most 100 columns.

use super::{Comparison, SimReport, mebibytes};
use crate::distribution::Distribution;
use crate::histogram::LatencyMs;
use crate::workload::{Pattern, Workload};
use seekless_engine::units::BLOCK_BYTES;
use std::fmt::Write as _;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes all that is written to it")
    };
}

/// The workload in words.
pub(super) fn describe(report: &SimReport) -> String {
    format!(
        "{}, {:.0} % of the disk live, seed {}",
        describe_workload(&report.workload),
        report.utilisation * 100.0,
        report.seed
    )
}

fn describe_workload(workload: &Workload) -> String {
    let pattern = match workload.pattern {
        Pattern::Random => "random",
        Pattern::Sequential => "sequential",
    };
    let kind = match workload.read_share {
        share if share <= 0.0 => "writes".to_owned(),
        share if share >= 1.0 => "reads".to_owned(),
        share => format!("requests, {:.0} % reads,", share * 100.0),
    };
    let kib = u64::from(workload.request_blocks) * BLOCK_BYTES as u64 / 1024;
    let mut out = format!("{pattern} {kind} of {kib} KiB, {} in flight", workload.depth);
    if workload.fua {
        out.push_str(", forced to the medium");
    }
    if let Some(every) = workload.flush_every {
        write!(out, ", flush after {every}").expect("strings grow");
    }
    if workload.think_ns > 0 {
        write!(out, ", think time {}", span(workload.think_ns as f64 / 1e6)).expect("strings grow");
    }
    if let Some(bursts) = workload.bursts {
        let idle = span(bursts.idle_ns as f64 / 1e6);
        write!(out, ", bursts of {} then {idle} idle", bursts.requests).expect("strings grow");
    }
    if workload.distribution != Distribution::Uniform {
        write!(out, ", {}", workload.distribution).expect("strings grow");
    }
    if workload.range < 1.0 {
        write!(out, ", on {:.1} % of the data", workload.range * 100.0).expect("strings grow");
    }
    out
}

/// A span in the unit that suits it.
fn span(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.1} µs", ms * 1e3),
        ms if ms < 1000.0 => format!("{ms:.3} ms"),
        ms => format!("{:.2} s", ms / 1e3),
    }
}

/// A large number with its unit.
fn scaled(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} million", value / 1e6),
        value if value >= 1e4 => format!("{:.1} thousand", value / 1e3),
        value => format!("{value:.1}"),
    }
}

fn latency_line(out: &mut String, name: &str, requests: u64, latency: &LatencyMs) {
    let LatencyMs { mean, p50, p90, p99, p999, max } = latency;
    line!(
        out,
        "{name:<10}{requests:>10}{mean:>10.3}{p50:>10.3}{p90:>10.3}{p99:>10.3}\
         {p999:>10.3}{max:>10.3}"
    );
}

/// The report of one simulation.
pub(super) fn report(report: &SimReport) -> String {
    let mut out = String::new();
    let (size, live) = (mebibytes(report.device_blocks), mebibytes(report.volume_blocks));
    line!(out, "{} on {} ({size:.1} MiB, {live:.1} MiB live)", report.layout, report.disk);
    line!(out, "{}", describe(report));
    line!(out, "");
    line!(
        out,
        "{:<10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "latency ms",
        "requests",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max"
    );
    let sides =
        [("reads", &report.reads), ("writes", &report.writes), ("flushes", &report.flushes)];
    for (name, side) in sides {
        if let Some(side) = side {
            latency_line(&mut out, name, side.requests, &side.latency_ms);
        }
    }
    latency_line(&mut out, "all", report.requests, &report.latency_ms);
    line!(out, "");
    line!(out, "{:<14}{:>10}{:>8}", "time spent", "mean ms", "share");
    let mean = report.latency_ms.mean;
    for (name, part) in report.breakdown_ms.parts() {
        let share = if mean > 0.0 { part / mean * 100.0 } else { 0.0 };
        line!(out, "{name:<14}{part:>10.3}{share:>7.1}%");
    }
    line!(out, "");
    line!(
        out,
        "throughput           {:.1} requests/s, {:.2} MiB/s",
        report.throughput.requests_per_second,
        report.throughput.mebibytes_per_second
    );
    match report.write_amplification {
        Some(factor) => line!(out, "write amplification  {factor:.3}"),
        None => line!(out, "write amplification  no client writes"),
    }
    line!(
        out,
        "simulated            {} of disk time in {}: {} requests/s",
        span(report.virtual_seconds * 1e3),
        span(report.host_seconds * 1e3),
        scaled(report.simulated_requests_per_second)
    );
    out
}

/// Several layouts and disks side by side.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    line!(out, "{}", comparison.workload);
    line!(out, "");
    line!(
        out,
        "{:<12}{:<9}{:>8}{:>8} |{:>9}{:>8}{:>8}{:>8}{:>9}{:>9} |{:>7}",
        "mean ms",
        "layout",
        "total",
        "factor",
        "overhead",
        "queue",
        "seek",
        "switch",
        "rotation",
        "transfer",
        "writes"
    );
    for row in &comparison.rows {
        let parts = &row.breakdown_ms;
        let amplification = row.write_amplification.map_or("-".to_owned(), |f| format!("{f:.2}"));
        line!(
            out,
            "{:<12}{:<9}{:>8.3}{:>7.2}x |{:>9.3}{:>8.3}{:>8.3}{:>8.3}{:>9.3}{:>9.3} |{:>7}",
            row.disk,
            row.layout,
            row.mean_ms,
            row.factor,
            parts.overhead,
            parts.queue,
            parts.seek,
            parts.head_switch,
            parts.rotation,
            parts.transfer,
            amplification
        );
    }
    out
}
