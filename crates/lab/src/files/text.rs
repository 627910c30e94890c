//! The report of a program as text: tables of fixed width.

use super::report::{FilesReport, PhaseReport};
use crate::disk_time;
use std::fmt::Write as _;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes all that is written to it")
    };
}

/// The whole report: the phases side by side, then the calls and disks of each.
pub(super) fn report(report: &FilesReport) -> String {
    let mut out = String::new();
    let FilesReport { program, policy, layout, disk, users, host, seed, .. } = report;
    let s = if *users == 1 { "" } else { "s" };
    line!(out, "{program} on ffs ({policy}) on {layout} on {disk}");
    line!(
        out,
        "{users} user{s}, blocks of {} and fragments of {} bytes, host {host} with {} MiB of \
         cache, seed {seed}",
        report.block_bytes,
        report.fragment_bytes,
        report.cache_bytes >> 20
    );
    line!(out, "");
    phases(&mut out, report);
    if !report.sensitivity.is_empty() {
        line!(out, "");
        sensitivity(&mut out, report);
    }
    for phase in &report.phases {
        calls(&mut out, phase);
    }
    let simulated: f64 = report.phases.iter().map(|phase| phase.host_seconds).sum();
    let calls: u64 = report.phases.iter().map(|phase| phase.calls).sum();
    line!(out, "");
    line!(
        out,
        "simulated {calls} calls in {simulated:.2} s: {:.0} calls/s",
        calls as f64 / simulated.max(f64::MIN_POSITIVE)
    );
    out
}

fn phases(out: &mut String, report: &FilesReport) {
    line!(
        out,
        "{:<24}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}",
        "phase",
        "seconds",
        "settled",
        "CPU",
        "calls",
        "files/s",
        "MB/s"
    );
    for phase in &report.phases {
        line!(
            out,
            "{:<24}{:>10.3}{:>10.3}{:>10.3}{:>10}{:>12.1}{:>10.2}",
            phase.phase,
            phase.elapsed_seconds,
            phase.settled_seconds,
            phase.cpu_seconds,
            phase.calls,
            phase.files_per_second,
            phase.megabytes_per_second
        );
    }
}

/// Each phase with half and double the free costs.
fn sensitivity(out: &mut String, report: &FilesReport) {
    let head: String = report
        .sensitivity
        .iter()
        .map(|one| format!("{:>12}", format!("{}x", one.factor)))
        .collect();
    line!(out, "{:<24}{:>12}{head}", "settled s, CPU costs", "1x");
    for (number, phase) in report.phases.iter().enumerate() {
        let others: String = report
            .sensitivity
            .iter()
            .filter_map(|one| one.phases.get(number))
            .map(|times| format!("{:>12.3}", times.settled_seconds))
            .collect();
        line!(out, "{:<24}{:>12.3}{others}", phase.phase, phase.settled_seconds);
    }
}

fn calls(out: &mut String, phase: &PhaseReport) {
    line!(out, "");
    line!(
        out,
        "{:<24}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        phase.phase,
        "calls",
        "mean ms",
        "p50",
        "p90",
        "p99",
        "max"
    );
    for (kind, call) in &phase.by_call {
        let ms = call.latency_ms;
        line!(
            out,
            "  {kind:<22}{:>10}{:>10.3}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
            call.calls,
            ms.mean,
            ms.p50,
            ms.p90,
            ms.p99,
            ms.max
        );
    }
    let count = |name: &str| phase.file_system.get(name).copied().unwrap_or(0.0);
    let of = |all: &str, metadata: &str| (count(all) - count(metadata), count(metadata));
    let (reads, writes) = (of("reads", "metadata reads"), of("writes", "metadata writes"));
    line!(
        out,
        "  requests to the volume: reads {} data, {} metadata; writes {} data, {} metadata; \
         {} flushes",
        reads.0,
        reads.1,
        writes.0,
        writes.1,
        count("flushes")
    );
    if !phase.disk_time.is_empty() {
        line!(out, "{}", disk_time::table(&phase.disk_time).trim_end());
    }
}
