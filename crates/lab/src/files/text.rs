//! The report of a program as text: tables of fixed width.

use super::report::{FilesReport, JournalReport, PhaseReport};
use super::watch::{ResponseTimes, Responses};
use crate::disk_time;
use seekless_fs::core::CoreOptions;
use std::fmt::Write as _;

/// Sizes of writes that a report names: the most frequent ones.
const MOST_SIZES: usize = 6;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes all that is written to it")
    };
}

/// The whole report: the phases side by side, then the calls and disks of each.
pub(super) fn report(report: &FilesReport, responses: bool) -> String {
    let mut out = String::new();
    let FilesReport { program, policy, layout, disk, users, host, seed, .. } = report;
    let s = if *users == 1 { "" } else { "s" };
    let order = if report.data_order { "" } else { ", content in no order" };
    let age = match report.write_age_s == CoreOptions::default().write_age_s {
        true => String::new(),
        false => format!(", written after {} s", report.write_age_s),
    };
    let fs = report.file_system;
    line!(out, "{program} on {fs} ({policy}{order}{age}) on {layout} on {disk}");
    line!(
        out,
        "{users} user{s}, blocks of {} and fragments of {} bytes, host {host} with {} MiB of \
         cache, seed {seed}",
        report.block_bytes,
        report.fragment_bytes,
        report.cache_bytes >> 20
    );
    if let Some(JournalReport { data, group_commit, log_bytes, .. }) = &report.journal {
        let shared = if *group_commit { "on" } else { "off" };
        let mib = *log_bytes as f64 / f64::from(1 << 20);
        line!(out, "log of {mib:.1} MiB, data {data}, group commit {shared}");
    }
    line!(out, "");
    phases(&mut out, report);
    if !report.sensitivity.is_empty() {
        line!(out, "");
        sensitivity(&mut out, report);
    }
    for phase in &report.phases {
        calls(&mut out, phase);
        if responses {
            histogram(&mut out, &phase.responses);
        }
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
    if let Some(groups) = phase.file_system.get("log groups") {
        line!(
            out,
            "  log: {groups} groups, {:.0} KiB in all; {} forced writes; its start moved {} times",
            count("log bytes") / 1024.0,
            count("log writes"),
            count("log start moved")
        );
    }
    if let Some(transactions) = phase.file_system.get("transactions") {
        line!(
            out,
            "  transactions: {transactions} with {} operations and {} blocks",
            count("operations in transactions"),
            count("blocks in transactions")
        );
    }
    if !phase.disk_time.is_empty() {
        line!(out, "{}", disk_time::table(&phase.disk_time).trim_end());
    }
}

/// Response times of the requests to the volume, and their causes and sizes.
fn histogram(out: &mut String, responses: &Responses) {
    let Responses { reads, writes, causes, write_sizes } = responses;
    let head: String =
        reads.shorter.iter().map(|one| format!("{:>7}", format!("<{}", one.than_ms))).collect();
    line!(out, "{:<26}{:>9}{:>9}{head} ms", "responses of the volume", "requests", "mean ms");
    for (name, ResponseTimes { requests, latency_ms, shorter }) in
        [("reads", reads), ("writes", writes)]
    {
        let shares: String =
            shorter.iter().map(|one| format!("{:>6.1}%", one.share * 100.0)).collect();
        line!(out, "  {name:<24}{requests:>9}{:>9.3}{shares}", latency_ms.mean);
    }
    for one in causes {
        let kilobytes = one.bytes as f64 / 1024.0;
        line!(out, "  {:<24}{:>9}{kilobytes:>9.0} KiB", one.cause, one.requests);
    }
    let all: u64 = write_sizes.values().sum();
    let share = |count: u64| count as f64 / all.max(1) as f64 * 100.0;
    let mut most: Vec<(&u64, &u64)> = write_sizes.iter().collect();
    most.sort_by_key(|&(bytes, &count)| (std::cmp::Reverse(count), *bytes));
    let sizes = most.iter().take(MOST_SIZES);
    let sizes: Vec<String> =
        sizes.map(|(bytes, count)| format!("{:.0} % of {bytes}", share(**count))).collect();
    line!(out, "  sizes of writes, in bytes: {}", sizes.join(", "));
}
