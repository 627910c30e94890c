//! `journal/postmark`: PostMark as in paper 001, with 150,000 files: what synchronous metadata
//! costs a program that does little else.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, Volume, ratio, spent_both};
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
    jobs
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
    vec![table]
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
