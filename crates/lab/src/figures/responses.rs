//! `dcd/responses`: how long requests to the volume take while four users copy a source tree, as
//! the driver of the operating system sees it.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    DCD_AT_ONCE, DCD_LOCKED, IN_PLACE, Job, Results, Told, Volume, ratio, spent_both, spent_in,
};
use super::reads;
use super::table::{Table, counts, heads, told};
use super::tree::{DRIVER, POLICY, runs, variant};
use super::{Parts, Settings, UFS};
use crate::files::report::PhaseReport;
use crate::files::watch::{ResponseTimes, Responses};

pub(super) const PARTS: Parts = Parts {
    name: "dcd/responses",
    source: "paper 002, figures 11 and 12",
    title: "response times of the volume while four users copy a source tree",
    systems: &UFS,
    logged: false,
    jobs,
    judge,
    chart,
};

const USERS: usize = 4;
const COPY: &str = "copy, cold";
/// Idleness after the program, in which the log is written home. Its requests count.
const REST: &str = "after copy, cold";
const REST_SECONDS: u32 = 120;

/// What the paper prints of a driver: the mean, and shares below some milliseconds.
struct Published {
    driver: &'static str,
    mean_ms: f64,
    below: &'static [(f64, f64)],
}

const WRITES: [Published; 2] = [
    Published { driver: "plain", mean_ms: 135.30, below: &[] },
    Published {
        driver: "dcd",
        mean_ms: 9.59,
        below: &[(1.0, 95.0), (25.0, 98.0), (1500.0, 100.0)],
    },
];
const READS: [Published; 2] = [
    Published { driver: "plain", mean_ms: 42.28, below: &[] },
    Published { driver: "dcd", mean_ms: 6.69, below: &[(1.0, 40.0)] },
];

fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = runs(settings, USERS, Some(REST_SECONDS));
    jobs.extend(reads::jobs(settings));
    jobs
}

fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    name: &str,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, &variant(USERS), name)
}

/// Commands of the disk for the program and the idleness after it.
fn commands(results: &Results<'_>, policy: &'static str, volume: &'static str) -> Told<f64> {
    let of = |name: &str| -> Told<u64> {
        let disks = &phase(results, policy, volume, name)?.disk_time;
        Ok(disks.iter().flat_map(|disk| &disk.spent).map(|one| one.commands).sum())
    };
    Ok((of(COPY)? + of(REST)?) as f64)
}

/// Share of the reads of a disk caching disk that its log did not answer.
fn from_origin(results: &Results<'_>, volume: &'static str) -> Told<f64> {
    let counters = &phase(results, POLICY, volume, COPY)?.volume;
    let count = |name: &str| counters.get(name).copied().unwrap_or(0.0);
    Ok(count("reads_from_origin") / count("reads").max(1.0) * 100.0)
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let reads = table(results, "reads", &READS, &|phase| &phase.responses.reads);
    let writes = table(results, "writes", &WRITES, &|phase| &phase.responses.writes);
    claims(results, judge);
    vec![writes, reads, causes(results)]
}

fn table(
    results: &Results<'_>,
    what: &str,
    published: &[Published; 2],
    of: &dyn for<'p> Fn(&'p PhaseReport) -> &'p ResponseTimes,
) -> Table {
    let bounds = |phase: &PhaseReport| -> Vec<f64> {
        of(phase).shorter.iter().map(|one| one.than_ms).collect()
    };
    let runs: Vec<(&'static str, &'static str, &PhaseReport)> = results
        .policies()
        .into_iter()
        .flat_map(|policy| results.volumes().into_iter().map(move |volume| (policy, volume)))
        .filter_map(|(policy, volume)| {
            Some((policy, volume, phase(results, policy, volume, COPY).ok()?))
        })
        .collect();
    let bounds = runs.first().map(|run| bounds(run.2)).unwrap_or_default();
    let columns = ["requests".to_owned(), "mean/ms".to_owned()]
        .into_iter()
        .chain(bounds.iter().map(|ms| format!("% below/{ms} ms")));
    let mut table = Table::new(format!("{what} of the volume"), heads("policy, volume", columns));
    for (policy, volume, phase) in runs {
        let times = of(phase);
        let cells = [times.requests as f64, times.latency_ms.mean].into_iter();
        let cells = cells.chain(times.shorter.iter().map(|one| one.share * 100.0));
        table.row(format!("{policy}, {volume}"), cells.map(Some).collect());
    }
    for one in published {
        let share = |ms: &f64| one.below.iter().find(|known| known.0 == *ms).map(|known| known.1);
        let cells = [None, Some(one.mean_ms)].into_iter().chain(bounds.iter().map(share));
        table.row(format!("paper, {}", one.driver), cells.collect());
    }
    table
}

/// Commands of the disk by cause, written home included.
fn causes(results: &Results<'_>) -> Table {
    let spent = |phase: Told<&PhaseReport>| -> Vec<(String, u64)> {
        let Ok(phase) = phase else { return Vec::new() };
        let all = phase.disk_time.iter().flat_map(|disk| &disk.spent);
        all.map(|one| (one.what.clone(), one.commands)).collect()
    };
    let mut rows = Vec::new();
    for policy in results.policies() {
        for volume in results.volumes() {
            let of = |name| spent(phase(results, policy, volume, name));
            let all = of(COPY).into_iter().chain(of(REST)).collect();
            rows.push((format!("{policy}, {volume}"), all));
        }
    }
    let title = format!("commands of the disk, {REST_SECONDS} s of idleness included");
    counts(title, "policy, volume", rows)
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let (plain, cached) = (IN_PLACE.name, DRIVER.name);
    let of = |volume| phase(results, POLICY, volume, COPY);
    let writes = |volume| of(volume).map(|phase| &phase.responses.writes);
    let reads = |volume| of(volume).map(|phase| &phase.responses.reads);
    let mean = |times: Told<&ResponseTimes>| times.map(|times| times.latency_ms.mean);
    let below = |times: Told<&ResponseTimes>, ms: f64| {
        times.map(|times| {
            let share = times.shorter.iter().find(|one| one.than_ms == ms);
            share.map_or(0.0, |one| one.share * 100.0)
        })
    };
    let because = || spent_both((plain, of(plain)), (cached, of(cached)));
    let claim = judge.claim("D10", "reads that the data disk answers").unit("%");
    claim.at_least(95.0, from_origin(results, cached), because);
    let claim = judge.claim("D27/ratio", "writes are answered sooner, on average: factor");
    claim.at_least(8.0, ratio(mean(writes(plain)), mean(writes(cached))), because);
    let claim = judge.claim("D27/below 1 ms", "writes of the cached disk in less than 1 ms: 95 %");
    claim.unit("%").between(85.0, 100.0, below(writes(cached), 1.0), because);
    let claim = judge.claim("D27/plain", "mean of the writes of the plain disk").unit("ms");
    claim.near(135.3, 0.25, mean(writes(plain)), || spent_in(of(plain)));
    let claim = judge.claim("D28/ratio", "reads are answered sooner, on average: factor");
    claim.at_least(3.0, ratio(mean(reads(plain)), mean(reads(cached))), because);
    let claim = judge.claim("D28/below 1 ms", "reads of the cached disk in less than 1 ms: 40 %");
    claim.unit("%").between(30.0, 50.0, below(reads(cached), 1.0), because);
    without_lock(results, judge);
    log(results, judge);
    reads::claim(results, judge);
    let fewer = || -> Told<(bool, String)> {
        let (plain, cached) =
            (commands(results, POLICY, plain)?, commands(results, POLICY, cached)?);
        Ok((cached < plain, format!("{cached} commands, {plain} of the plain disk")))
    };
    let claim =
        judge.claim("D29", "the cached disk gets fewer commands in all, writes home included");
    claim.shape(fewer(), because);
}

/// D27 and D28 of a driver without its lock.
fn without_lock(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |volume: Volume| phase(results, POLICY, volume.name, COPY);
    for (id, what, least) in [("D27", "writes", 8.0), ("D28", "reads", 3.0)] {
        let mean = |volume| {
            of(volume).map(|phase| {
                let Responses { reads, writes, .. } = &phase.responses;
                let times = if what == "writes" { writes } else { reads };
                times.latency_ms.mean
            })
        };
        let says = format!("without the lock, {what} are answered sooner, on average: factor");
        let claim = judge.claim(format!("{id}/no lock"), says);
        claim.at_least(least, ratio(mean(IN_PLACE), mean(DCD_AT_ONCE)), || {
            let (plain, locked) = (IN_PLACE, DCD_LOCKED);
            spent_both((plain.name, of(plain)), (locked.name, of(locked)))
        });
    }
}

/// D30 and D31: what a log write holds, and what never goes home.
fn log(results: &Results<'_>, judge: &mut Judge<'_>) {
    let both = |name: &str| -> Told<f64> {
        let of = |phase: &str| -> Told<f64> {
            let counters = &self::phase(results, POLICY, DRIVER.name, phase)?.volume;
            Ok(counters.get(name).copied().unwrap_or(0.0))
        };
        Ok(of(COPY)? + of(REST)?)
    };
    let because = || {
        let of = |name| both(name).map_or_else(|why| why, |count| format!("{count}"));
        format!(
            "{} log writes with {} blocks of data and {} of headers; {} blocks went home, {} went \
             past the log",
            of("records"),
            of("log_blocks_written"),
            of("header_blocks_written"),
            of("destaged_blocks"),
            of("direct_blocks_written")
        )
    };
    let each = ratio(both("log_blocks_written"), both("records"));
    let says = "a log write takes several requests, up to 32 lines of 4 KB: lines on average";
    judge.claim("D30", says).between(2.0, 32.0, each, because);
    let home = ratio(both("destaged_blocks"), both("log_blocks_written"));
    let superseded = home.map(|home| (1.0 - home) * 100.0);
    let says = "36 to 95 % of the bytes are overwritten before they go home (in traces of others)";
    judge.claim("D31", says).unit("%").between(36.0, 95.0, superseded, because);
}

fn chart(results: &Results<'_>) -> Chart {
    let policies = results.policies();
    let policy = policies.iter().find(|name| **name == POLICY).or(policies.last());
    let policy = policy.copied().unwrap_or(POLICY);
    let mut labels = Vec::new();
    let mut series = Vec::new();
    for volume in results.volumes() {
        let Ok(phase) = phase(results, policy, volume, COPY) else { continue };
        let both = [("writes", &phase.responses.writes), ("reads", &phase.responses.reads)];
        for (what, times) in both {
            labels = times.shorter.iter().map(|one| format!("{}", one.than_ms)).collect();
            let values = times.shorter.iter().map(|one| told(Ok(one.share * 100.0))).collect();
            let published = what == "reads";
            series.push(Series { name: format!("{volume}, {what}"), values, published });
        }
    }
    Chart {
        title: format!("Response times of the volume, policy {policy}"),
        x: "shorter than so many ms".to_owned(),
        y: "% of the requests".to_owned(),
        labels,
        series,
        shape: Shape::Bars,
    }
}
