//! Reports as text: tables of fixed width, of at most 100 columns if the disks have short names.

use super::{Comparison, PoolReport, Row, SimReport, TraceReport, mebibytes};
use crate::disk_time;
use crate::distribution::Distribution;
use crate::histogram::LatencyMs;
use crate::trace::{Footprint, Mapping};
use crate::workload::{Pattern, Workload};
use seekless_engine::units::BLOCK_BYTES;
use std::fmt::Write as _;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes all that is written to it")
    };
}

/// The workload as text.
pub(super) fn describe(report: &SimReport) -> String {
    let share = report.utilisation * 100.0;
    let volume = match report.filled {
        true => format!("{share:.0} % of the disk live"),
        false => format!("an empty volume on {share:.0} % of the disk"),
    };
    format!("{}, {volume}, seed {}", describe_load(report), report.seed)
}

/// The workload alone as text.
pub(super) fn describe_load(report: &SimReport) -> String {
    let trace = report.trace.as_ref().map(describe_trace);
    trace.or_else(|| report.workload.as_ref().map(describe_workload)).unwrap_or_default()
}

fn describe_trace(trace: &TraceReport) -> String {
    let mut out = format!("{}, {} records", trace.name, trace.records);
    match (trace.speed, trace.users) {
        (Some(1.0), _) => out.push_str(", open loop"),
        (Some(speed), _) => write!(out, ", open loop {speed} times as fast").expect("strings grow"),
        (_, Some(1)) => out.push_str(", 1 user"),
        (_, users) => write!(out, ", {} users", users.unwrap_or(0)).expect("strings grow"),
    }
    if let Some(pool) = trace.pool {
        write!(out, ", pool of {:.0} MiB", mebibytes(pool.blocks)).expect("strings grow");
    }
    out
}

/// The facts of a trace beyond those of a workload, a line each.
fn trace_lines(out: &mut String, trace: &TraceReport) {
    let Footprint { blocks, unaligned, folded } = trace.footprint;
    let size = mebibytes(blocks);
    match trace.mapping {
        Mapping::FirstTouch => {
            line!(out, "footprint            {size:.1} MiB, 256 KiB at a time as touched first");
        }
        Mapping::Fold => {
            line!(out, "footprint            folded onto {size:.1} MiB, {folded} requests moved");
        }
    }
    line!(out, "unaligned            {unaligned} requests widened to blocks of 4 KiB");
    if trace.speed.is_some() {
        let (span, late) = (span(trace.span_seconds * 1e3), trace.late);
        line!(out, "trace                {span} long, {late} requests waited outside");
    }
    if let Some(PoolReport { hit_ratio, counts, .. }) = trace.pool {
        line!(
            out,
            "pool                 {:.1} % hits, {} evicted changed, {} cleaned ahead",
            hit_ratio * 100.0,
            counts.evicted,
            counts.cleaned
        );
    }
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
    let how = if report.filled { "live" } else { "to be written" };
    line!(out, "{} on {} ({size:.1} MiB, {live:.1} MiB {how})", report.layout, report.disk);
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
    if !report.disk_time.is_empty() {
        line!(out, "{}", disk_time::table(&report.disk_time));
    }
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
    if let Some(trace) = &report.trace {
        trace_lines(&mut out, trace);
    }
    if !report.free_profile.is_empty() {
        let parts: Vec<_> = report.free_profile.iter().map(|part| part * 100.0).collect();
        let parts: Vec<_> = parts.iter().map(|part| format!("{part:.0}")).collect();
        line!(out, "free along the arm   {} %", parts.join(" "));
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

/// Several layouts and disks side by side, the utilisations one below the other.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let mut out = String::new();
    line!(out, "{}", comparison.workload);
    let many = comparison.utilisations.len() > 1;
    let longest = comparison.rows.iter().map(|row| row.disk.chars().count()).max();
    let wide = longest.unwrap_or(0).max(10) + 2;
    for &utilisation in &comparison.utilisations {
        line!(out, "");
        if many {
            line!(out, "{:.1} % of the disk live", utilisation * 100.0);
        }
        heading(&mut out, wide);
        let rows = comparison.rows.iter().filter(|row| row.utilisation == utilisation);
        rows.for_each(|row| row_line(&mut out, row, wide));
    }
    if many {
        line!(out, "");
        summary(&mut out, comparison, wide);
    }
    comparison.left_out.iter().for_each(|why| line!(out, "left out: {why}"));
    out
}

fn heading(out: &mut String, wide: usize) {
    line!(
        out,
        "{:<wide$}{:<9}{:>8}{:>8} |{:>9}{:>8}{:>8}{:>8}{:>9}{:>9} |{:>7}",
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
}

fn row_line(out: &mut String, row: &Row, wide: usize) {
    let parts = &row.breakdown_ms;
    let amplification = row.write_amplification.map_or("-".to_owned(), |f| format!("{f:.2}"));
    line!(
        out,
        "{:<wide$}{:<9}{:>8.3}{:>7.2}x |{:>9.3}{:>8.3}{:>8.3}{:>8.3}{:>9.3}{:>9.3} |{:>7}",
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

/// Throughput of every layout over that of the first one, by utilisation.
fn summary(out: &mut String, comparison: &Comparison, wide: usize) {
    let mut named: Vec<(&str, &str)> = Vec::new();
    for row in &comparison.rows {
        if !named.contains(&(&*row.disk, row.layout)) {
            named.push((&row.disk, row.layout));
        }
    }
    let mut line = format!("{:<wide$}{:<9}", "throughput", "layout");
    for utilisation in &comparison.utilisations {
        write!(line, "{:>7.1}%", utilisation * 100.0).expect("strings grow");
    }
    line!(out, "{line}   over the first layout");
    for (disk, layout) in named {
        let mut line = format!("{disk:<wide$}{layout:<9}");
        for &utilisation in &comparison.utilisations {
            let mut rows = comparison.rows.iter();
            let found = rows.find(|row| {
                row.utilisation == utilisation && row.layout == layout && row.disk == disk
            });
            let text = found.map_or("-".to_owned(), |row| format!("{:.2}", row.throughput_factor));
            write!(line, "{text:>8}").expect("strings grow");
        }
        line!(out, "{line}");
    }
}
