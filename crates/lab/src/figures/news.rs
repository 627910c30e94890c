//! `journal/news`: a server of netnews stores a batch of articles and expires old ones.
//!
//! The cache is smaller than inodes and directories of the spool, as in the paper, which does not
//! say how large it was. Its size is fitted to the time of FFS-async (J27), and to nothing else.
//! With small amounts, files, directories and cache are the same share of those of the paper.

mod writes;

use super::chart::Chart;
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, Volume, ratio};
use super::published::SYSTEMS;
use super::speeds::{BASE, Speeds, TOTAL, listed, waits};
use super::table::Table;
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::run::FilesOptions;
use seekless_formats::MkfsOptions;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "journal/news",
    source: "paper 001, table 5",
    title: "a server of netnews stores articles and expires old ones",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const VOLUMES: [Volume; 1] = [IN_PLACE];
const FILES: u32 = 520_000;
/// Four fragments, so that there are inodes enough.
const BYTES_PER_INODE: u32 = 4096;
/// Small amounts are so many times smaller.
const QUICK: u32 = 100;
/// Bytes of cache: of the powers of two, the one with which FFS-async takes about as long as in the
/// paper. Inodes and directories of the spool have about 80 MB.
const CACHE: u64 = 16 << 20;
/// The same for J31, as multiples of half of it.
const HALVES: [u64; 3] = [1, 2, 4];
/// Soft updates that write content in no order.
const UNORDERED: &str = "news, content in no order";

/// Table 5.
const TABLE: Speeds<3> = Speeds {
    variant: "news",
    columns: ["unbatch", "expire", TOTAL],
    printed: [
        [0.63, 0.40, 0.53],
        [1.0, 1.0, 1.0],
        [0.86, 0.89, 0.87],
        [0.95, 0.95, 0.95],
        [0.67, 0.48, 0.59],
        [0.91, 0.67, 0.81],
        [0.98, 0.92, 0.96],
        [0.97, 0.95, 0.96],
    ],
};

/// A run of soft updates with so many halves of the cache.
fn with_cache(halves: u64) -> String {
    match halves {
        2 => TABLE.variant.to_owned(),
        _ => format!("news, {halves} halves of the cache"),
    }
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let share = if settings.quick { QUICK } else { 1 };
    let half = CACHE / 2 / u64::from(share);
    let mut jobs = Vec::new();
    for volume in settings.volumes(&VOLUMES) {
        for policy in settings.policies_on(volume) {
            let files = Some(FILES / share);
            let amount = Amount { files, seed: settings.seed, ..Amount::one_user() };
            let options = FilesOptions {
                amount,
                cache_bytes: Some(2 * half),
                ..FilesOptions::new(ProgramKind::News, volume.kind)
            };
            let options = paper::under(policy, options);
            let mkfs = MkfsOptions { bytes_per_inode: BYTES_PER_INODE, ..options.mkfs };
            let options = FilesOptions { mkfs, ..options };
            let run = |variant: String, options: FilesOptions| {
                let key = Key { policy: policy.name(), volume: volume.name, variant };
                job::files_on(&key, Platform::Cheetah, options, (volume, &VOLUMES))
            };
            jobs.extend(run(TABLE.variant.to_owned(), options.clone()));
            if policy != PolicyKind::Soft || volume != IN_PLACE {
                continue;
            }
            let unordered = FilesOptions { data_order: false, ..options.clone() };
            jobs.extend(run(UNORDERED.to_owned(), unordered));
            for halves in HALVES.into_iter().filter(|halves| *halves != 2) {
                let cache_bytes = Some(halves * half);
                let runs = run(with_cache(halves), FilesOptions { cache_bytes, ..options.clone() });
                // No verdict hangs on the host.
                jobs.extend(runs.into_iter().filter(|job| job.factor == job::AS_IT_IS));
            }
        }
    }
    jobs
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    amounts(results, judge);
    for (name, seconds) in TABLE.columns.into_iter().zip([1282, 640, 1922]) {
        let claim = judge.claim(format!("J27/{name}"), format!("FFS-async, {name}: {seconds} s"));
        let measured = TABLE.seconds(results, (BASE, IN_PLACE.name, TABLE.variant), name);
        claim.unit("s").calibration(measured);
    }
    speeds(results, judge);
    within(results, judge);
    let says = "FFS loses 47 %, against FFS-async";
    let because = || TABLE.because(results, ["sync", BASE], TOTAL);
    let total = TABLE.speed(results, "sync", TOTAL);
    judge.claim("J51/netnews", says).near(0.53, 0.07 / 0.53, total, because);
    let mut tables = vec![TABLE.table(results, format!("news on {}", Platform::Cheetah.name()))];
    tables.extend(writes::judge(results, judge));
    tables
}

/// J28: table 5.
fn speeds(results: &Results<'_>, judge: &mut Judge<'_>) {
    for policy in SYSTEMS.iter().map(|system| system.policy).filter(|policy| *policy != BASE) {
        for name in TABLE.columns {
            let says = format!("{policy}, {name}, against FFS-async");
            let (paper, speed) = (TABLE.paper(policy, name), TABLE.speed(results, policy, name));
            let because = || TABLE.because(results, [policy, BASE], name);
            let claim = judge.claim(format!("J28/{name}/{policy}"), says);
            claim.near(paper, 0.07 / paper, speed, because);
        }
    }
}

/// J29: the text has all logs that do not wait and wafs-2sync within 5 %; table 5 says 0.81 of
/// wafs-2sync.
fn within(results: &Results<'_>, judge: &mut Judge<'_>) {
    let logs = || -> Told<Vec<(&'static str, f64)>> {
        let all = TABLE.all(results, TOTAL)?.into_iter();
        let kinds = PolicyKind::ALL.into_iter().filter(|kind| kind.is_logged());
        let logged: Vec<&str> = kinds.map(PolicyKind::name).collect();
        let logs: Vec<_> = all.filter(|one| logged.contains(&one.0) && !waits(one.0)).collect();
        if logs.is_empty() { Err("no such log was run".to_owned()) } else { Ok(logs) }
    };
    let says = "logs that do not wait are within 5 % of FFS-async";
    let seen = logs().map(|logs| (logs.iter().all(|log| log.1 >= 0.95), listed(&logs)));
    judge
        .claim("J29/async", says)
        .shape(seen, || TABLE.because(results, ["wafs-1async", BASE], TOTAL));
    let says = "wafs-2sync against FFS-async (the text says at least 0.95, table 5)";
    let because = || TABLE.because(results, ["wafs-2sync", BASE], TOTAL);
    let total = TABLE.speed(results, "wafs-2sync", TOTAL);
    judge.claim("J29/wafs-2sync", says).near(0.81, 0.07 / 0.81, total, because);
}

/// J26: what the program does.
fn amounts(results: &Results<'_>, judge: &mut Judge<'_>) {
    let phase = |name: &str| {
        let of = |policy: &&'static str| results.phase(policy, IN_PLACE.name, TABLE.variant, name);
        let policies = results.policies_on(IN_PLACE.name);
        policies.first().ok_or_else(|| "no policy was run".to_owned()).and_then(of)
    };
    let calls = |name: &str, kind: &str| {
        phase(name).map(|one| one.by_call.get(kind).map_or(0.0, |call| call.calls as f64))
    };
    let bytes = phase("unbatch").map(|one| one.bytes as f64 / 1e6);
    for (id, says, unit, paper, measured) in [
        ("J26/come", "articles come", "files", 78_000.0, calls("unbatch", "create")),
        ("J26/bytes", "they have 270 MB", "MB", 270.0, bytes),
        ("J26/go", "articles expire", "files", 91_000.0, calls("expire", "unlink")),
    ] {
        let because = || "small amounts were asked for".to_owned();
        judge.claim(id, says).unit(unit).near(paper, 0.01, measured, because);
    }
}

/// Seconds of all of a run of soft updates.
fn soft_seconds(results: &Results<'_>, variant: &str) -> Told<f64> {
    TABLE.seconds(results, ("soft", IN_PLACE.name, variant), TOTAL)
}

/// By how much soft updates are faster without the order of content.
fn gain(results: &Results<'_>) -> Told<f64> {
    ratio(soft_seconds(results, TABLE.variant), soft_seconds(results, UNORDERED))
}

fn chart(results: &Results<'_>) -> Chart {
    TABLE.chart(results, "Netnews: stored and expired")
}
