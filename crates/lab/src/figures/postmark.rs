//! `journal/postmark`: PostMark as in paper 001, with 150,000 files: what synchronous metadata
//! costs a program that does little else.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, IN_PLACE, Job, Key, Platform, Results, Told, Volume, Work, ratio, spent_both,
};
use super::published::SYSTEMS;
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;

pub(super) const PARTS: Parts = Parts {
    name: "journal/postmark",
    source: "paper 001, sections 9 and 10",
    title: "PostMark: 20,000 transactions on 150,000 files",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const VOLUMES: [Volume; 1] = [IN_PLACE];
const FILES: u32 = 150_000;
const TRANSACTIONS: u32 = 20_000;
const QUICK_FILES: u32 = 300;
const QUICK_TRANSACTIONS: u32 = 300;
const VARIANT: &str = "postmark, large";
/// The small run has so many times fewer files.
const SMALLER: u32 = 15;
const SMALL: &str = "postmark, small";
const PHASES: [&str; 3] = ["create", "transactions", "delete"];

fn jobs(settings: &Settings) -> Vec<Job> {
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
    let mut jobs = Vec::new();
    for volume in settings.volumes(&VOLUMES) {
        for policy in settings.policies_on(volume) {
            let options = FilesOptions::new(ProgramKind::PostMark, volume.kind);
            let amount = amount.clone();
            let options = paper::under(policy, FilesOptions { amount, ..options });
            let variant = VARIANT.to_owned();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            jobs.extend(job::files_on(&key, Platform::Cheetah, options, (volume, &VOLUMES)));
        }
    }
    let large = jobs.iter().filter(|job| job.key.policy == "async").cloned();
    jobs.extend(large.map(small).collect::<Vec<_>>());
    jobs
}

/// The same with fewer files.
fn small(large: Job) -> Job {
    let mut work = large.work;
    if let Work::Files(options) = &mut work {
        options.amount.files = options.amount.files.map(|files| files / SMALLER);
    }
    let key = Key { variant: SMALL.to_owned(), ..large.key };
    Job { key, work, ..large }
}

/// Transactions per second, until all calls were answered.
pub(super) fn rate(phase: &PhaseReport) -> f64 {
    let of = |kind: &str| phase.by_call.get(kind).map_or(0, |call| call.calls);
    (of("create") + of("unlink")) as f64 / phase.elapsed_seconds.max(f64::MIN_POSITIVE)
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns = PHASES.iter().map(|name| format!("{name}/s"));
    let rest = ["transactions/per s", "against/async", "settled/s"].map(str::to_owned);
    let title = format!("PostMark on {}", Platform::Cheetah.name());
    let mut table = Table::new(title, heads("policy, volume", columns.chain(rest)));
    for policy in results.policies() {
        let ran = |volume: &&str| results.policies_on(volume).contains(&policy);
        for volume in results.volumes().into_iter().filter(ran) {
            let of = |name: &str| results.phase(policy, volume, VARIANT, name);
            let seconds = PHASES.iter().map(|name| told(of(name).map(|one| one.elapsed_seconds)));
            let transactions = of("transactions").map(rate);
            let base = results.phase("async", volume, VARIANT, "transactions").map(rate);
            let settled = results
                .files(policy, volume, VARIANT)
                .map(|report| report.phases.iter().map(|phase| phase.settled_seconds).sum::<f64>());
            let rest = [told(transactions.clone()), told(ratio(transactions, base)), told(settled)];
            table.row(format!("{policy}, {volume}"), seconds.chain(rest).collect());
        }
    }
    let of = |policy| results.phase(policy, IN_PLACE.name, VARIANT, "transactions");
    let against = |policy| -> Told<f64> { ratio(of(policy).map(rate), of("async").map(rate)) };
    let because =
        |policy: &'static str| move || spent_both((policy, of(policy)), ("async", of("async")));
    let says = "transactions of FFS, against FFS-async: synchronous metadata costs 46.5 %";
    judge.claim("J51/postmark", says).near(0.535, 0.07 / 0.535, against("sync"), because("sync"));
    let transactions = |policy| of(policy).map(rate);
    claims(judge, "large", &transactions, &|policy| because(policy)());
    of_the_large_run(results, judge);
    vec![table]
}

/// J34, J35 and J36.
fn of_the_large_run(results: &Results<'_>, judge: &mut Judge<'_>) {
    let phase = |policy, name: &str| results.phase(policy, IN_PLACE.name, VARIANT, name);
    let speed = |policy| phase(policy, "transactions").map(rate);
    let says = "no system beats FFS-async in the large run, and Soft Updates tie with it";
    let seen = || -> Told<(bool, String)> {
        let base = speed("async")?;
        let mut shares = Vec::new();
        for policy in results.policies_on(IN_PLACE.name) {
            shares.push((policy, speed(policy)? / base));
        }
        let soft = speed("soft")? / base;
        let told: Vec<String> =
            shares.iter().map(|(policy, share)| format!("{policy} {share:.2}")).collect();
        let holds = shares.iter().all(|(_, share)| *share <= 1.03) && soft >= 0.95;
        Ok((holds, told.join(", ")))
    };
    judge.claim("J34", says).shape(seen(), || {
        spent_both(
            ("soft", phase("soft", "transactions")),
            ("async", phase("async", "transactions")),
        )
    });
    let all = |variant| -> Told<f64> {
        let report = results.files("async", IN_PLACE.name, variant)?;
        Ok(report.phases.iter().map(|phase| phase.elapsed_seconds).sum())
    };
    // 1572 s against 21 s.
    let says = "FFS-async takes longer for fifteen times the files: factor";
    judge.claim("J35", says).near(1572.0 / 21.0, 0.5, ratio(all(VARIANT), all(SMALL)), || {
        let small = results.phase("async", IN_PLACE.name, SMALL, "transactions");
        spent_both(("large", phase("async", "transactions")), ("small", small))
    });
    let calls = |name: &str, call: &str| -> Told<u64> {
        let phase = phase("async", name)?;
        Ok(phase.by_call.get(call).map_or(0, |call| call.calls))
    };
    let seen = || -> Told<(bool, String)> {
        let (made, removed) = (calls("create", "create")?, calls("delete", "unlink")?);
        let changed = calls("transactions", "create")? + calls("transactions", "unlink")?;
        let mean = phase("async", "create")?.bytes as f64 / made.max(1) as f64;
        let is_right = made == u64::from(FILES)
            && changed == u64::from(TRANSACTIONS)
            && (8000.0..8900.0).contains(&mean);
        let told = format!("{made} files of {mean:.0} bytes, {changed} changes, {removed} removed");
        Ok((is_right, told))
    };
    let says = "150,000 files of 512 to 16,384 bytes, and 20,000 transactions without a bias";
    judge.claim("J36", says).shape(seen(), || "small amounts were asked for".to_owned());
}

/// Share of FFS-async in transactions per second (figure 5), for large and small runs.
const POSTMARK: [(&str, f64, f64); 7] = [
    ("soft", 0.983, 0.851),
    ("wafs-2async", 0.975, 0.718),
    ("wafs-1async", 0.972, 0.610),
    ("lffs-file", 0.963, 0.792),
    ("wafs-2sync", 0.918, 0.096),
    ("wafs-1sync", 0.605, 0.093),
    ("sync", 0.535, 0.059),
];

/// J33: a run of PostMark.
pub(super) fn claims(
    judge: &mut Judge<'_>,
    run: &str,
    of: &dyn Fn(&'static str) -> Told<f64>,
    because: &dyn Fn(&'static str) -> String,
) {
    for (policy, large, small) in POSTMARK {
        let paper = if run == "large" { large } else { small };
        let says = format!("transactions of {policy}, against FFS-async");
        let claim = judge.claim(format!("J33/{run}/{policy}"), says);
        let measured = ratio(of(policy), of("async"));
        claim.near(paper, 0.05 / paper, measured, || because(policy));
    }
}

fn chart(results: &Results<'_>) -> Chart {
    let policies = results.policies();
    let series = results.volumes().into_iter().map(|volume| {
        let value = |policy: &&'static str| {
            told(results.phase(policy, volume, VARIANT, "transactions").map(rate))
        };
        let values = policies.iter().map(value).collect();
        Series { name: volume.to_owned(), values, published: false }
    });
    Chart {
        title: "PostMark on 150,000 files".to_owned(),
        x: "policy".to_owned(),
        y: "transactions per second".to_owned(),
        labels: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        series: series.collect(),
        shape: Shape::Bars,
    }
}
