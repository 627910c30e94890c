//! `journal/pairs`: empty files are made and removed.
//!
//! A synchronous call takes a whole number of revolutions, which depends on where directory and
//! inode lie. So the pairs are spread over several directories, and those of the synchronous policy
//! are made on disks with several angles between tracks: inodes and directory are as far apart in
//! each group.

mod journals;

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, ANGLES, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, Spread, Told, Volume, spent,
};
use super::published::{PAIRS, SYSTEMS, column};
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::FilesReport;
use crate::files::run::FilesOptions;
use journals::rate;

pub(super) const PARTS: Parts = Parts {
    name: "journal/pairs",
    source: "paper 001, figure 3",
    title: "empty files are made and removed",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

/// The volume that claims name.
const CLAIMED: [Volume; 1] = [IN_PLACE];
const PLACEMENTS: u32 = 8;
const PAIR_COUNT: u32 = 50_000;
const QUICK_PAIRS: u32 = 400;
const VARIANT: &str = "pairs";
/// The policy whose rate turns on one angle.
const SYNC: &str = "sync";

fn jobs(settings: &Settings) -> Vec<Job> {
    let mut jobs = Vec::new();
    for volume in settings.volumes_of(&LAYOUTS, &CLAIMED) {
        for policy in settings.policies_on(volume) {
            let files = Some(if settings.quick { QUICK_PAIRS } else { PAIR_COUNT });
            let (placements, seed) = (Some(PLACEMENTS), settings.seed);
            let amount = Amount { files, placements, seed, ..Amount::one_user() };
            let options = FilesOptions::new(ProgramKind::Pairs, volume.kind);
            let options = paper::under(policy, FilesOptions { amount, ..options });
            let variant = VARIANT.to_owned();
            let key = Key { policy: policy.name(), volume: volume.name, variant };
            let claimed = (volume, &CLAIMED[..]);
            let mut runs = job::files_on(&key, Platform::Cheetah, options, claimed);
            if volume == IN_PLACE && policy.name() == SYNC {
                job::at_all_angles(&mut runs);
            }
            jobs.extend(runs);
        }
    }
    let plain = |job: &&Job| {
        let Job { key, factor, .. } = job;
        (key.policy, key.volume, *factor) == (journals::UNITS_OF, IN_PLACE.name, job::AS_IT_IS)
    };
    if let Some(job) = jobs.iter().find(plain).cloned() {
        jobs.extend(journals::UNITS_KIB.into_iter().map(|unit| journals::with_unit(&job, unit)));
    }
    jobs
}

/// Pairs per second of each directory.
fn rates(report: &FilesReport) -> Vec<f64> {
    let rate = |phase: &crate::files::report::PhaseReport| {
        phase.by_call.get("unlink").map_or(0.0, |call| call.per_second)
    };
    report.phases.iter().map(rate).collect()
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns = ["pairs/s", "slowest/place", "fastest/place", "us a pair", "paper/pairs/s"];
    let title = format!("pairs on {}, over {PLACEMENTS} directories", Platform::Cheetah.name());
    let mut table = Table::new(title, heads("policy, volume", columns.map(str::to_owned)));
    for policy in results.policies() {
        let ran = |volume: &&str| results.policies_on(volume).contains(&policy);
        for volume in results.volumes().into_iter().filter(ran) {
            let report = results.files(policy, volume, VARIANT);
            let extreme = |of: fn(f64, f64) -> f64| {
                told(report.clone()).and_then(|one| rates(one).into_iter().reduce(of))
            };
            let mean = told(report.clone().map(rate));
            let paper = column(policy).map(|at| PAIRS[at]);
            let each = mean.map(|rate| 1e6 / rate);
            let cells = vec![mean, extreme(f64::min), extreme(f64::max), each, paper];
            table.row(format!("{policy}, {volume}"), cells);
        }
    }
    let mut tables = vec![table];
    if let Ok(spread) = synchronous(results) {
        let title = "pairs/s of sync on inplace, by what is added to each track's skew";
        let mut table = Table::new(title, heads("turns", ["pairs/s".to_owned()]));
        for (angle, rate) in spread.0.iter().enumerate() {
            table.row(format!("{angle}/{ANGLES}"), vec![Some(*rate)]);
        }
        table.row("mean", vec![Some(spread.mean())]);
        tables.push(table);
    }
    claims(results, judge);
    tables
}

/// Pairs per second of the synchronous policy at each angle between tracks.
fn synchronous(results: &Results<'_>) -> Told<Spread> {
    results.spread(SYNC, IN_PLACE.name, VARIANT, |report| Ok(rate(report)))
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |policy: &'static str| results.files(policy, IN_PLACE.name, VARIANT);
    let because = |policy: &'static str| {
        move || match of(policy).map(|report| report.phases.first()) {
            Ok(Some(phase)) => {
                let writes = phase.responses.writes.requests;
                let mean = phase.responses.writes.latency_ms.mean;
                let turns = Platform::Cheetah.revolution_ms().map_or(0.0, |turn| mean / turn);
                format!("{}; {writes} writes take {turns:.2} revolutions each", spent(phase))
            }
            Ok(None) => "nothing was measured".to_owned(),
            Err(why) => why,
        }
    };
    let claim = judge.claim("J20/async", "FFS-async makes and removes 9142 empty files a second");
    claim.unit("pairs/s").calibration(of("async").map(rate));
    let claim = judge.claim("J20/sync", "FFS makes and removes empty files, two revolutions each");
    let spread = synchronous(results);
    let why = || match &spread {
        Ok(spread) => format!("{}; {}", spread.told(), because(SYNC)()),
        Err(why) => why.clone(),
    };
    claim.unit("pairs/s").near(
        80.0,
        0.15,
        spread.as_ref().map(Spread::mean).map_err(String::clone),
        why,
    );
    let ratio = || -> Told<f64> { Ok(rate(of("soft")?) / rate(of("async")?)) };
    let claim = judge.claim("J20/soft", "Soft Updates, against FFS-async: 0.843, all of it CPU");
    claim.calibration(ratio());
    let extra = || -> Told<f64> { Ok(1e6 / rate(of("soft")?) - 1e6 / rate(of("async")?)) };
    let claim = judge.claim("J38", "Soft Updates need 21 us of CPU more for a pair");
    claim.unit("us").calibration(extra());
    journals::claims(results, judge, VARIANT, &|policy| because(policy)());
}

fn chart(results: &Results<'_>) -> Chart {
    let policies = results.policies();
    let labels = policies.iter().map(|policy| (*policy).to_owned()).collect();
    let mut series: Vec<Series> = results
        .volumes()
        .into_iter()
        .map(|volume| {
            let value =
                |policy: &&'static str| told(results.files(policy, volume, VARIANT).map(rate));
            let values = policies.iter().map(value).collect();
            Series { name: volume.to_owned(), values, published: false }
        })
        .collect();
    let values = policies.iter().map(|policy| column(policy).map(|at| PAIRS[at])).collect();
    series.push(Series { name: "paper".to_owned(), values, published: true });
    Chart {
        title: "Empty files made and removed".to_owned(),
        x: "policy".to_owned(),
        y: "pairs/s".to_owned(),
        labels,
        series,
        shape: Shape::Bars,
    }
}
