//! `joint`: the question that lies between the papers. Does a synchronous file system over a layout
//! that makes synchronous writes cheap reach soft updates in place?
//!
//! One workload, PostMark as in paper 001, runs over each combination. `async` in place is the
//! bound that no protection of metadata exceeds.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, DCD, DCD_AT_ONCE, IN_PLACE, Job, Key, LOGE, Platform, Results, Told, VLOG, Volume, ratio,
    spent_both,
};
use super::published::System;
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper, postmark};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "joint",
    source: "papers 000, 001, 002 and 003 together",
    title: "a synchronous file system over four layouts, and soft updates in place",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const SYSTEMS: [System; 8] = [
    System { name: "FFS", policy: "sync" },
    System { name: "Soft-Updates", policy: "soft" },
    System { name: "FFS-async", policy: "async" },
    System { name: "LFFS-file", policy: "lffs-file" },
    System { name: "LFFS-wafs-1sync", policy: "wafs-1sync" },
    System { name: "LFFS-wafs-1async", policy: "wafs-1async" },
    System { name: "LFFS-wafs-2sync", policy: "wafs-2sync" },
    System { name: "LFFS-wafs-2async", policy: "wafs-2async" },
];
/// Update in place with the fragments that logs have over the other layouts: it tells what is due
/// to the layout from what is due to larger fragments.
const IN_PLACE_4K: Volume = Volume { name: "inplace, 4 KB fragments", ..IN_PLACE };
const VOLUMES: [Volume; 6] = [IN_PLACE, IN_PLACE_4K, VLOG, LOGE, DCD, DCD_AT_ONCE];
const FILES: u32 = 10_000;
const TRANSACTIONS: u32 = 20_000;
const QUICK_FILES: u32 = 200;
const QUICK_TRANSACTIONS: u32 = 400;
const DISK: Platform = Platform::Cheetah;
/// Bytes of a block of a volume.
const WHOLE_BLOCK: u32 = 4096;
const VARIANT: &str = "postmark";
const PHASES: [&str; 3] = ["create", "transactions", "delete"];

fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in settings.volumes(&VOLUMES) {
        for policy in settings.policies_over(volume) {
            let (files, transactions) = match settings.quick {
                true => (QUICK_FILES, QUICK_TRANSACTIONS),
                false => (FILES, TRANSACTIONS),
            };
            let amount = Amount {
                files: Some(files),
                transactions: Some(transactions),
                seed: settings.seed,
                ..Amount::one_user()
            };
            let options = FilesOptions::new(ProgramKind::PostMark, volume.kind);
            let mut options = paper::under(policy, FilesOptions { amount, ..options });
            options.mkfs.fragment = fragment(policy, volume, options.mkfs.fragment);
            let variant = VARIANT.to_owned();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            jobs.extend(job::files(&key, DISK, &volume.under(options)));
        }
    }
    jobs
}

/// Bytes of a fragment: `usual`, unless the volume is to have others, or its layout writes no less
/// than a block and a log needs to.
fn fragment(policy: PolicyKind, volume: Volume, usual: u32) -> u32 {
    let is_log_of_blocks = policy.is_logged() && volume.kind != IN_PLACE.kind;
    if volume == IN_PLACE_4K || is_log_of_blocks { WHOLE_BLOCK } else { usual }
}

/// Seconds of all phases until all calls were answered.
fn seconds(results: &Results<'_>, policy: &'static str, volume: &'static str) -> Told<f64> {
    let report = results.files(policy, volume, VARIANT)?;
    Ok(report.phases.iter().map(|phase| phase.elapsed_seconds).sum())
}

/// Seconds of all phases until everything was on the disk.
fn settled(results: &Results<'_>, policy: &'static str, volume: &'static str) -> Told<f64> {
    let report = results.files(policy, volume, VARIANT)?;
    Ok(report.phases.iter().map(|phase| phase.settled_seconds).sum())
}

fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    name: &str,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, VARIANT, name)
}

/// The run that the others are compared with: soft updates in place, or what is fastest there.
fn bound(results: &Results<'_>) -> &'static str {
    if results.policies().contains(&"soft") { "soft" } else { "async" }
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let bound = bound(results);
    let rest = ["all/s", "settled/s", "create/p99 ms", "writes", "speed", "settled/speed"];
    let columns = PHASES.iter().map(|name| format!("{name}/s"));
    let columns = columns.chain(rest.map(str::to_owned));
    let title = format!("PostMark on {}; speed against {bound} in place", DISK.name());
    let mut table = Table::new(title, heads("policy, volume", columns));
    for policy in results.policies() {
        let ran = |volume: &&str| results.policies_on(volume).contains(&policy);
        for volume in results.volumes().into_iter().filter(ran) {
            let of = |name| phase(results, policy, volume, name);
            let all = seconds(results, policy, volume);
            let report = results.files(policy, volume, VARIANT);
            let settled = settled(results, policy, volume);
            let create = told(of("create")).and_then(|phase| phase.by_call.get("create"));
            let writes = told(report).map(|report| {
                let disks = report.phases.iter().flat_map(|phase| &phase.disk_time);
                let spent = disks.flat_map(|disk| &disk.spent);
                let writes = spent.filter(|one| one.what.ends_with("writes"));
                writes.map(|one| one.commands).sum::<u64>() as f64
            });
            let speed = ratio(seconds(results, bound, IN_PLACE.name), all.clone());
            let bound_settled = self::settled(results, bound, IN_PLACE.name);
            let settled_speed = ratio(bound_settled, settled.clone());
            let phases = PHASES.iter().map(|name| told(of(name).map(|one| one.elapsed_seconds)));
            let rest = [
                told(all),
                told(settled),
                create.map(|call| call.latency_ms.p99),
                writes,
                told(speed),
                told(settled_speed),
            ];
            table.row(format!("{policy}, {volume}"), phases.chain(rest).collect());
        }
    }
    claims(results, judge);
    vec![table]
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let gain = |volume: Volume| {
        ratio(seconds(results, "sync", IN_PLACE.name), seconds(results, "sync", volume.name))
    };
    let because = |volume: Volume| {
        move || {
            let of = |volume: Volume| phase(results, "sync", volume.name, "transactions");
            spent_both((IN_PLACE.name, of(IN_PLACE)), (volume.name, of(volume)))
        }
    };
    for (id, volume, least, says) in [
        ("V41/joint", VLOG, 3.5, "FFS on the virtual log, against in place, with a fast host"),
        ("L/joint", LOGE, 2.0, "FFS on Loge, against in place: writes are up to twice as fast"),
        ("D1/joint", DCD_AT_ONCE, 2.0, "FFS on a disk caching disk, against in place"),
    ] {
        judge.claim(id, says).at_least(least, gain(volume), because(volume));
    }
    for volume in [VLOG, LOGE, DCD, DCD_AT_ONCE] {
        let speed =
            ratio(seconds(results, "soft", IN_PLACE.name), seconds(results, "sync", volume.name));
        let says = format!("question: FFS on {} is as fast as soft updates in place", volume.name);
        judge.claim(format!("joint/{}", volume.name), says).at_least(1.0, speed, || {
            let sync = phase(results, "sync", volume.name, "transactions");
            let soft = phase(results, "soft", IN_PLACE.name, "transactions");
            spent_both((volume.name, sync), ("soft in place", soft))
        });
    }
    for volume in [IN_PLACE_4K, VLOG, LOGE, DCD] {
        let soft = settled(results, "soft", IN_PLACE.name);
        let speed = ratio(soft, settled(results, "lffs-file", volume.name));
        let says = format!(
            "question: LFFS-file on {} has all on the disk as soon as soft updates in place",
            volume.name
        );
        judge.claim(format!("joint/log/{}", volume.kind.name()), says).at_least(1.0, speed, || {
            let log = phase(results, "lffs-file", volume.name, "transactions");
            let soft = phase(results, "soft", IN_PLACE.name, "transactions");
            spent_both((volume.name, log), ("soft in place", soft))
        });
    }
    let of = |policy| phase(results, policy, IN_PLACE.name, "transactions");
    postmark::claims(judge, "small", &|policy| of(policy).map(postmark::rate), &|policy| {
        spent_both((policy, of(policy)), ("async", of("async")))
    });
    let says = "synchronous semantics cost up to nine tenths of the throughput: what is left";
    let least = || -> Told<f64> {
        let mut least = f64::MAX;
        for policy in ["sync", "wafs-1sync", "wafs-2sync"] {
            least = least.min(postmark::rate(of(policy)?));
        }
        Ok(least / postmark::rate(of("async")?))
    };
    judge.claim("J37", says).between(0.0, 0.15, least(), || {
        spent_both(("wafs-1sync", of("wafs-1sync")), ("async", of("async")))
    });
    let says = "no policy is faster than FFS-async: largest speed in place (claim J48)";
    let fastest = || -> Told<f64> {
        let in_place = results.policies_on(IN_PLACE.name).into_iter();
        let others: Vec<_> = in_place.filter(|one| *one != "async").collect();
        if others.is_empty() {
            return Err("only async was run".to_owned());
        }
        let base = seconds(results, "async", IN_PLACE.name)?;
        let mut most = 0.0_f64;
        for policy in others {
            most = most.max(base / seconds(results, policy, IN_PLACE.name)?);
        }
        Ok(most)
    };
    judge.claim("J48", says).between(0.0, 1.03, fastest(), || {
        let of = |policy| phase(results, policy, IN_PLACE.name, "transactions");
        spent_both(("async", of("async")), ("soft", of("soft")))
    });
}

fn chart(results: &Results<'_>) -> Chart {
    let volumes = results.volumes();
    let series = results.policies().into_iter().map(|policy| {
        let value = |volume: &&'static str| {
            let done = phase(results, policy, volume, "transactions").map(|phase| {
                let calls = phase.by_call.get("create").map_or(0, |call| call.calls)
                    + phase.by_call.get("unlink").map_or(0, |call| call.calls);
                calls as f64 / phase.elapsed_seconds.max(f64::MIN_POSITIVE)
            });
            told(done)
        };
        let values = volumes.iter().map(value).collect();
        Series { name: policy.to_owned(), values, published: false }
    });
    Chart {
        title: "PostMark over layouts, by policy".to_owned(),
        x: "volume".to_owned(),
        y: "transactions per second".to_owned(),
        labels: volumes.iter().map(|name| (*name).to_owned()).collect(),
        series: series.collect(),
        shape: Shape::Bars,
    }
}
