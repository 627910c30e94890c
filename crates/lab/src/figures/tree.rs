//! `dcd/tree`: users unpack, copy and remove a source tree, in place and over a disk caching disk.
//!
//! The driver of the paper answers a write when it is in memory (`dcd at once`). Over `dcd` a
//! durable write waits for the log.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, DCD, DCD_AT_ONCE, DCD_LOCKED, IN_PLACE, Job, Key, LOGE, Platform, Results, Told, VLOG,
    Volume, ratio, spent_both, spent_in,
};
use super::table::{Table, counts, heads, told};
use super::{Parts, Settings, UFS};
use crate::files::host::Host;
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_engine::options::Options;
use seekless_formats::MkfsOptions;
use seekless_layouts::Kind;
use seekless_layouts::dcd::LOG_SIZE;

pub(super) const PARTS: Parts = Parts {
    name: "dcd/tree",
    source: "paper 002, figures 7 to 9",
    title: "users unpack, copy and remove a source tree of 508 files and 5.03 MB",
    systems: &UFS,
    logged: false,
    jobs,
    judge,
    chart,
};

/// The volumes that claims name.
const CLAIMED: [Volume; 3] = [IN_PLACE, DCD_AT_ONCE, DCD_LOCKED];
const VOLUMES: [Volume; 6] = [IN_PLACE, VLOG, LOGE, DCD, DCD_AT_ONCE, DCD_LOCKED];
const USERS: [usize; 3] = [1, 4, 8];
const QUICK_USERS: [usize; 2] = [1, 4];
const PROGRAMS: [&str; 3] = ["untar", "copy", "remove"];
/// The policy of the paper.
pub(super) const POLICY: &str = "sync";
/// The driver of the paper: its answers count as durable, and one lock covers its cache.
pub(super) const DRIVER: Volume = DCD_LOCKED;
/// Blocks of the log: 64 MB (D16).
const LOG_BLOCKS: u64 = (64 << 20) / 4096;
/// Cache of a machine of 128 MB. The paper does not say how much of it that was.
const CACHE: u64 = 64 << 20;

/// A run for so many users.
pub(super) fn variant(users: usize) -> String {
    if users == 1 { "1 user".to_owned() } else { format!("{users} users") }
}

/// The runs for so many users.
pub(super) fn runs(settings: &Settings, users: usize, rest: Option<u32>) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in settings.volumes_of(&VOLUMES, &CLAIMED) {
        for policy in settings.policies() {
            let amount =
                Amount { users, rest_seconds: rest, seed: settings.seed, ..Amount::default() };
            let host = Host::find("ultra170").expect("a table of this crate");
            let mkfs = MkfsOptions { block: 8192, fragment: 1024, ..MkfsOptions::default() };
            let options = FilesOptions {
                amount,
                host,
                mkfs,
                policy,
                cache_bytes: Some(CACHE),
                options: match volume.kind {
                    Kind::DCD => Options::default().with(&LOG_SIZE, Some(LOG_BLOCKS)),
                    _ => Options::default(),
                },
                ..FilesOptions::new(ProgramKind::Tree, volume.kind)
            };
            let (policy, variant) = (policy.name(), variant(users));
            let key = Key { policy, volume: volume.name, variant };
            jobs.extend(job::files_on(&key, Platform::Barracuda, options, (volume, &CLAIMED)));
        }
    }
    jobs
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let users = if settings.quick { &QUICK_USERS[..] } else { &USERS[..] };
    users.iter().rev().flat_map(|&users| runs(settings, users, None)).collect()
}

/// The numbers of users that were run.
fn users(results: &Results<'_>) -> Vec<usize> {
    let ran = |users: &usize| results.all.keys().any(|(_, key)| key.variant == variant(*users));
    USERS.into_iter().filter(ran).collect()
}

fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    users: usize,
    name: &str,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, &variant(users), name)
}

fn seconds(phase: &PhaseReport) -> f64 {
    phase.elapsed_seconds
}

fn cpu_percent(phase: &PhaseReport) -> f64 {
    phase.cpu_answered_seconds / phase.elapsed_seconds.max(f64::MIN_POSITIVE) * 100.0
}

/// How much faster a program is over a volume than in place.
fn gain(
    results: &Results<'_>,
    policy: &'static str,
    volume: &'static str,
    users: usize,
    name: &str,
) -> Told<f64> {
    let of = |volume| phase(results, policy, volume, users, name).map(seconds);
    ratio(of(IN_PLACE.name), of(volume))
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let mut tables: Vec<Table> =
        results.policies().into_iter().map(|policy| times(results, policy)).collect();
    tables.push(requests(results));
    tables.push(causes(results));
    gains(results, judge);
    locks(results, judge);
    setup(results, judge);
    shares(results, judge);
    tables
}

/// A quantity of each program on each volume.
type Quantity = fn(&PhaseReport) -> f64;

/// Seconds on each volume, and how much faster it is than in place.
fn times(results: &Results<'_>, policy: &'static str) -> Table {
    let others = results.volumes().into_iter().filter(|name| *name != IN_PLACE.name);
    let others: Vec<_> = others.collect();
    let title = format!("policy {policy}, on {}", Platform::Barracuda.name());
    let quantities: [(&str, Quantity); 2] = [("s", seconds), ("CPU %", cpu_percent)];
    let columns = results.volumes().into_iter().flat_map(|volume| {
        quantities.iter().map(move |(name, _)| format!("{}/{name}", volume.replace(' ', "/")))
    });
    let columns = columns.chain(others.iter().map(|name| format!("faster by/{name}")));
    let mut table = Table::new(title, heads("users, program", columns));
    for (users, name) in programs(results) {
        let of = |volume| phase(results, policy, volume, users, &name);
        let volumes = results.volumes().into_iter();
        let cells = volumes.flat_map(|volume| {
            quantities.iter().map(move |(_, value)| told(of(volume).map(value)))
        });
        let faster = others.iter().map(|volume| told(gain(results, policy, volume, users, &name)));
        table.row(format!("{users}, {name}"), cells.chain(faster).collect());
    }
    table
}

/// The programs of all users, cold and warm.
fn programs(results: &Results<'_>) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for users in users(results) {
        for how in ["cold", "warm"] {
            all.extend(PROGRAMS.map(|program| (users, format!("{program}, {how}"))));
        }
    }
    all
}

/// Requests to the volume by cause, for each program of four users.
fn causes(results: &Results<'_>) -> Table {
    let mut rows = Vec::new();
    for policy in results.policies() {
        for volume in results.volumes() {
            for program in PROGRAMS {
                let phase = phase(results, policy, volume, 4, &format!("{program}, cold"));
                let Ok(phase) = phase else { continue };
                let causes = phase.responses.causes.iter();
                let causes = causes.map(|one| (one.cause.clone(), one.requests)).collect();
                rows.push((format!("{policy}, {volume}, {program}"), causes));
            }
        }
    }
    let title = "requests to the volume by cause, 4 users, cold".to_owned();
    counts(title, "policy, volume, program", rows)
}

/// Requests to the volume for each program of four users: how many, of which size, how slow.
fn requests(results: &Results<'_>) -> Table {
    let columns = ["reads", "writes", "1 KB/%", "2 KB/%", "8 KB/%", "reads/ms", "writes/ms"];
    let columns = columns.map(str::to_owned).into_iter().chain(["writes/<1 ms %".to_owned()]);
    let title = "requests to the volume until all calls were answered, 4 users, cold";
    let mut table = Table::new(title, heads("policy, volume, program", columns));
    for policy in results.policies() {
        for volume in results.volumes() {
            for program in PROGRAMS {
                let phase = phase(results, policy, volume, 4, &format!("{program}, cold"));
                let Ok(phase) = phase else { continue };
                let responses = &phase.responses;
                let size = |bytes| write_share(phase, bytes) * 100.0;
                let fast = responses.writes.shorter.first().map_or(0.0, |one| one.share * 100.0);
                let cells = [
                    responses.reads.requests as f64,
                    responses.writes.requests as f64,
                    size(1024),
                    size(2048),
                    size(8192),
                    responses.reads.latency_ms.mean,
                    responses.writes.latency_ms.mean,
                    fast,
                ];
                table.row(format!("{policy}, {volume}, {program}"), cells.map(Some).to_vec());
            }
        }
    }
    table
}

/// Share of the writes that have so many bytes.
fn write_share(phase: &PhaseReport, bytes: u64) -> f64 {
    let sizes = &phase.responses.write_sizes;
    let all: u64 = sizes.values().sum();
    sizes.get(&bytes).copied().unwrap_or(0) as f64 / all.max(1) as f64
}

/// D1, D17, D18 and D24: how much faster programs are.
fn gains(results: &Results<'_>, judge: &mut Judge<'_>) {
    let gain = |users, name: &str| gain(results, POLICY, DRIVER.name, users, name);
    let because = |users: usize, name: String| {
        move || {
            let of = |volume| phase(results, POLICY, volume, users, &name);
            let (plain, cached) = (IN_PLACE.name, DRIVER.name);
            spent_both((plain, of(plain)), (cached, of(cached)))
        }
    };
    let all = || -> Told<(bool, String)> {
        let mut gains = Vec::new();
        for users in users(results) {
            for program in PROGRAMS {
                gains.push(gain(users, &format!("{program}, cold"))?);
            }
        }
        let low = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let high = gains.iter().copied().fold(0.0, f64::max);
        Ok((low >= 2.0 && high <= 7.0, format!("{low:.2} to {high:.2} times as fast")))
    };
    let claim = judge.claim("D1", "programs are 2 to 7 times as fast with a disk caching disk");
    claim.shape(all(), because(4, "copy, cold".to_owned()));
    for (program, low, high) in [("untar", 3.0, 6.0), ("copy", 2.0, 3.0), ("remove", 3.0, 6.0)] {
        for users in USERS {
            let name = format!("{program}, cold");
            let claim = judge.claim(
                format!("D18/{program}/{users}"),
                format!("{program}, cold, {}, against in place", variant(users)),
            );
            claim.between(low, high, gain(users, &name), because(users, name.clone()));
        }
    }
    let claim = judge.claim("D18/copy/warm", "copy, warm, 4 users, against in place");
    claim.between(4.0, 5.0, gain(4, "copy, warm"), because(4, "copy, warm".to_owned()));
    let warmer = ratio(gain(4, "copy, warm"), gain(4, "copy, cold"));
    let claim =
        judge.claim("D17", "a warm cache makes the gain larger, by up to a half: copy, 4 users");
    claim.between(1.0, 1.5, warmer, because(4, "copy, warm".to_owned()));
    let claim = judge.claim("D24", "4 users remove, cold: 6.2 times, in a band");
    claim.between(4.0, 7.0, gain(4, "remove, cold"), because(4, "remove, cold".to_owned()));
}

/// D26: what the lock over the whole cache costs, and the gains without it.
fn locks(results: &Results<'_>, judge: &mut Judge<'_>) {
    for users in [4, 8] {
        for program in PROGRAMS {
            let name = format!("{program}, cold");
            let of = |volume: Volume| phase(results, POLICY, volume.name, users, &name);
            let slower = ratio(of(DCD_LOCKED).map(seconds), of(DCD_AT_ONCE).map(seconds));
            let because = || spent_both(("lock", of(DCD_LOCKED)), ("no lock", of(DCD_AT_ONCE)));
            let says =
                format!("{name}, {}: times as long with one lock as without", variant(users));
            judge.claim(format!("D26/{program}/{users}"), says).at_least(1.05, slower, because);
        }
    }
    let of = |volume| phase(results, POLICY, volume, 4, "remove, cold");
    let without = gain(results, POLICY, DCD_AT_ONCE.name, 4, "remove, cold");
    let says = "4 users remove, cold, without the lock: 6.2 times, in a band";
    judge.claim("D24/no lock", says).between(4.0, 7.0, without, || {
        spent_both((IN_PLACE.name, of(IN_PLACE.name)), (DCD_AT_ONCE.name, of(DCD_AT_ONCE.name)))
    });
}

/// D15 and D16: tree and platform.
fn setup(results: &Results<'_>, judge: &mut Judge<'_>) {
    let untar = phase(results, POLICY, IN_PLACE.name, 1, "untar, cold");
    let untar = untar.or_else(|_| phase(results, "async", IN_PLACE.name, 1, "untar, cold"));
    let tree = untar.clone().map(|phase| {
        let of = |kind: &str| phase.by_call.get(kind).map_or(0, |call| call.calls);
        let (files, dirs, bytes) = (of("create"), of("mkdir"), phase.bytes);
        let found = format!("{dirs} directories, {files} files, {bytes} bytes");
        ((files, dirs, bytes) == (508, 31, 5_030_000), found)
    });
    let says = "the tree has 31 directories and 508 files with 9.9 KB on average";
    judge.claim("D15", says).shape(tree, || spent_in(untar));
    let disk = Platform::Barracuda;
    let measured = disk.target(0).map_err(|error| error.to_string()).and_then(|target| {
        let turn = disk.revolution_ms().ok_or("the disk is not built in")?;
        let (bytes, rpm) = (target.blocks() * 4096, 60_000.0 / turn);
        let holds = (rpm - 7200.0).abs() < 100.0 && bytes >= 4 * 1_000_000_000;
        let log = LOG_BLOCKS * 4096 / (1 << 20);
        Ok((holds, format!("{:.2} GB, {rpm:.0} rpm, log of {log} MB", bytes as f64 / 1e9)))
    });
    let says = "a Barracuda of 4 GB with 7,200 rpm and a log of 64 MB on it";
    judge.claim("D16", says).shape(measured, || {
        "DiskSim has parameters of the ST32171W only, the Barracuda of half the size".to_owned()
    });
}

/// D19 and D25: the CPU and the mix of requests.
fn shares(results: &Results<'_>, judge: &mut Judge<'_>) {
    for (volume, low, high) in [(IN_PLACE.name, 3.0, 15.0), (DRIVER.name, 16.0, 50.0)] {
        let all = || -> Told<(bool, String)> {
            let mut shares = Vec::new();
            for users in users(results) {
                for program in PROGRAMS {
                    let name = format!("{program}, cold");
                    shares.push(cpu_percent(phase(results, POLICY, volume, users, &name)?));
                }
            }
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let most = shares.iter().copied().fold(0.0, f64::max);
            Ok((least >= low && most <= high, format!("{least:.1} to {most:.1} %")))
        };
        let claim = judge.claim(
            format!("D19/{volume}"),
            format!("the CPU is busy for {low} to {high} % of the time ({volume})"),
        );
        claim.shape(all(), || {
            let of = |users| phase(results, POLICY, volume, users, "untar, cold");
            spent_both(("1 user", of(1)), ("4 users", of(4)))
        });
    }
    for (bytes, share) in [(8192, 0.50), (2048, 0.15), (1024, 0.35)] {
        let remove = phase(results, POLICY, IN_PLACE.name, 4, "remove, cold");
        let claim = judge.claim(
            format!("D25/{bytes}"),
            format!("4 users remove: {:.0} % of the writes have {bytes} bytes", share * 100.0),
        );
        claim.unit("%").calibration(remove.map(|phase| write_share(phase, bytes) * 100.0));
    }
}

fn chart(results: &Results<'_>) -> Chart {
    let policies = results.policies();
    let policy = policies.iter().find(|name| **name == POLICY).or(policies.last());
    let policy = policy.copied().unwrap_or(POLICY);
    let bars: Vec<(usize, &str)> = users(results)
        .into_iter()
        .flat_map(|users| PROGRAMS.map(|program| (users, program)))
        .collect();
    let series = results.volumes().into_iter().map(|volume| {
        let value = |(users, program): &(usize, &str)| {
            told(phase(results, policy, volume, *users, &format!("{program}, cold")).map(seconds))
        };
        let values = bars.iter().map(value).collect();
        Series { name: volume.to_owned(), values, published: false }
    });
    Chart {
        title: format!("Programs on a source tree, cold, policy {policy}"),
        x: "users and program".to_owned(),
        y: "seconds".to_owned(),
        labels: bars.iter().map(|(users, program)| format!("{users} {program}")).collect(),
        series: series.collect(),
        shape: Shape::Bars,
    }
}
