//! `journal/micro`: files of thirteen sizes are made, read, overwritten and removed.
//!
//! The paper prints the rates of making and removing, and does not say when the clock stops. So
//! both rates are here: until all calls were answered, and until everything was on the disk and
//! freed space was back. Making and overwriting are judged by the second one: in the paper the
//! rates of large files are those of a disk. Removing is judged by both.

mod journals;
mod phases;

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, IN_PLACE, Job, Key, LAYOUTS, Platform, Results, Spread, Told, Volume, ratio, spent_both,
    spent_in,
};
use super::paper::label;
use super::published::{CREATE, DELETE, SIZES_KB, SYSTEMS, column};
use super::setup;
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use phases::{phase, plain, rate, removed, removed_settled, settled};

pub(super) const PARTS: Parts = Parts {
    name: "journal/micro",
    source: "paper 001, figures 1 and 2",
    title: "files of each size are made, read, overwritten and removed",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

/// The volume that claims name.
const CLAIMED: [Volume; 1] = [IN_PLACE];
const QUICK_SIZES_KB: [u64; 5] = [2, 64, 96, 104, 1024];
const QUICK_FILES: u32 = 40;

fn jobs(settings: &Settings) -> Vec<Job> {
    let sizes = if settings.quick { &QUICK_SIZES_KB[..] } else { &SIZES_KB[..] };
    let mut jobs =
        vec![Job::stream(Platform::Cheetah, false), Job::stream(Platform::Cheetah, true)];
    // The largest files take longest.
    for &kb in sizes.iter().rev() {
        for volume in settings.volumes_of(&LAYOUTS, &CLAIMED) {
            for policy in settings.policies_on(volume) {
                let files = settings.quick.then_some(QUICK_FILES);
                let (sizes, seed) = (vec![kb << 10], settings.seed);
                let amount = Amount { files, sizes, seed, ..Amount::one_user() };
                let options = FilesOptions::new(ProgramKind::Micro, volume.kind);
                let options = paper::under(policy, FilesOptions { amount, ..options });
                let key = Key { policy: policy.name(), volume: volume.name, variant: label(kb) };
                let claimed = (volume, &CLAIMED[..]);
                let mut runs = job::files_on(&key, Platform::Cheetah, options, claimed);
                if volume == IN_PLACE && policy.name() == "sync" && kb == 64 {
                    job::at_all_angles(&mut runs);
                }
                jobs.extend(runs);
            }
        }
    }
    jobs
}

/// The sizes that were run.
fn sizes(results: &Results<'_>) -> Vec<u64> {
    let ran = |kb: &u64| results.all.keys().any(|(_, key)| key.variant == label(*kb));
    SIZES_KB.into_iter().filter(ran).collect()
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let mut tables = Vec::new();
    for volume in results.volumes() {
        let name = |what: &str| format!("{what} on {volume} on {}", Platform::Cheetah.name());
        let title = name("MB/s, files made:");
        tables.push(both(results, volume, "create", &title, &CREATE, &rate, &settled));
        let title = name("thousands of files/s, files removed:");
        tables.push(both(
            results,
            volume,
            "delete",
            &title,
            &DELETE,
            &|p| removed(p) / 1e3,
            &|p| p.files_per_second / 1e3,
        ));
        tables.push(reads_and_writes(results, volume, &name("MB/s, files read and overwritten:")));
    }
    setup::claims(results, judge);
    rates(results, judge);
    shapes(results, judge);
    deletes(results, judge);
    journals::claims(results, judge);
    tables
}

/// A rate until calls were answered, until it was settled, and that of the paper.
fn both(
    results: &Results<'_>,
    volume: &'static str,
    what: &str,
    title: &str,
    paper: &[[f64; 8]; 13],
    answered: &dyn Fn(&PhaseReport) -> f64,
    settled: &dyn Fn(&PhaseReport) -> f64,
) -> Table {
    let policies = results.policies_on(volume);
    let columns = policies.iter().flat_map(|policy| {
        let system = column(policy).map_or("-", |at| SYSTEMS[at].name);
        [(*policy).to_owned(), format!("{policy}/settled"), format!("{system}/paper")]
    });
    let mut table = Table::new(title, heads("KB", columns));
    for kb in sizes(results) {
        let row = SIZES_KB.iter().position(|one| *one == kb);
        let cells = policies.iter().flat_map(|&policy| {
            let phase = phase(results, policy, volume, what, kb);
            let printed = row.zip(column(policy)).map(|(row, column)| paper[row][column]);
            [told(phase.clone().map(answered)), told(phase.map(settled)), printed]
        });
        table.row(kb.to_string(), cells.collect());
    }
    table
}

fn reads_and_writes(results: &Results<'_>, volume: &'static str, title: &str) -> Table {
    let policies = results.policies_on(volume);
    let columns = policies
        .iter()
        .flat_map(|policy| [format!("{policy}/read"), format!("{policy}/overwrite")]);
    let mut table = Table::new(title, heads("KB", columns));
    for kb in sizes(results) {
        let cells = policies.iter().flat_map(|&policy| {
            ["read", "write"].map(|what| told(phase(results, policy, volume, what, kb).map(rate)))
        });
        table.row(kb.to_string(), cells.collect());
    }
    table
}

/// A value of a phase of the synchronous policy with files of 64 KB, at each angle between tracks.
fn synchronous(results: &Results<'_>, what: &str, value: fn(&PhaseReport) -> f64) -> Told<Spread> {
    let phase = format!("{what} {}", label(64));
    results.spread("sync", IN_PLACE.name, &label(64), |report| {
        report.phase(&phase).map(value).ok_or_else(|| format!("{phase} was not run"))
    })
}

/// J10, J12, J13 and J17: rates and their ratios.
fn rates(results: &Results<'_>, judge: &mut Judge<'_>) {
    for what in ["read", "write"] {
        let says = format!("all systems {what} equally fast: largest spread over all sizes");
        let most = widest(results, what);
        let because = || match &most {
            Ok(Widest { kb, ends, .. }) => {
                let [one, two] = ends.map(|policy| (policy, plain(results, policy, what, *kb)));
                spent_both(one, two)
            }
            Err(why) => why.clone(),
        };
        let share = most.as_ref().map(|one| one.share).map_err(String::clone);
        judge.claim(format!("J10/{what}"), says).between(0.0, 0.03, share, because);
    }
    let create = |policy, kb| plain(results, policy, "create", kb).map(settled);
    let because = |policy, kb| {
        move || {
            let of = |policy| plain(results, policy, "create", kb);
            spent_both((policy, of(policy)), ("async", of("async")))
        }
    };
    let claim = judge.claim("J12/async", "FFS-async makes files of 64 KB").unit("MB/s");
    claim.near(18.07, 0.10, create("async", 64), || {
        let alone = match results.stream(false) {
            Ok(rate) => format!("sequential writes to this disk alone reach {rate:.2} MB/s"),
            Err(why) => why,
        };
        format!("{alone}; {}", spent_in(plain(results, "async", "create", 64)))
    });
    for (id, policy, kb, paper, tolerance) in [
        ("J12/sync", "sync", 64, 3.74 / 18.07, 0.10),
        ("J12/soft", "soft", 64, 18.18 / 18.07, 0.10),
        ("J13/sync", "sync", 2, 0.22 / 1.59, 0.15),
        ("J13/soft", "soft", 2, 1.28 / 1.59, 0.15),
        ("J17/soft", "soft", 32, 11.46 / 12.40, 0.10),
    ] {
        let says = format!("{policy} makes files of {kb} KB, against FFS-async");
        let measured = ratio(create(policy, kb), create("async", kb));
        judge.claim(id, says).near(paper, tolerance, measured, because(policy, kb));
    }
}

/// The largest spread between systems: the share by which the slowest is slower than the fastest,
/// with files of a size.
struct Widest {
    share: f64,
    kb: u64,
    ends: [&'static str; 2],
}

fn widest(results: &Results<'_>, what: &str) -> Told<Widest> {
    let policies = results.policies();
    let (Some(&first), true) = (policies.first(), policies.len() > 1) else {
        return Err("fewer than two systems were run".to_owned());
    };
    let mut most = Widest { share: 0.0, kb: 64, ends: [first; 2] };
    for kb in sizes(results) {
        let (mut slow, mut fast) = ((f64::INFINITY, first), (0.0, first));
        for &policy in &policies {
            let rate = plain(results, policy, what, kb).map(settled)?;
            if rate < slow.0 {
                slow = (rate, policy);
            }
            if rate > fast.0 {
                fast = (rate, policy);
            }
        }
        let share = 1.0 - slow.0 / fast.0.max(f64::MIN_POSITIVE);
        if share > most.share {
            most = Widest { share, kb, ends: [slow.1, fast.1] };
        }
    }
    Ok(most)
}

/// J14: the rate has a maximum at the size of a cluster, and drops where an indirect block begins.
fn shapes(results: &Results<'_>, judge: &mut Judge<'_>) {
    for policy in ["async", "soft", "wafs-1async", "wafs-2async"] {
        let all = || -> Told<(bool, String)> {
            let rates: Vec<f64> = [64, 96, 104, 1024]
                .into_iter()
                .map(|kb| plain(results, policy, "create", kb).map(settled))
                .collect::<Told<_>>()?;
            let shape = rates[0] > rates[1] && rates[1] > rates[2] && rates[3] > rates[2];
            let found: Vec<String> = rates.iter().map(|rate| format!("{rate:.2}")).collect();
            Ok((shape, format!("{} MB/s at 64, 96, 104 and 1024 KB", found.join(", "))))
        };
        let says =
            format!("{policy}: files of 96 KB are made slower than of 64, of 104 yet slower");
        judge.claim(format!("J14/{policy}"), says).shape(all(), || {
            let each = [64, 96, 104].map(|kb| spent_in(plain(results, policy, "create", kb)));
            each.join("; ")
        });
    }
}

/// J18 and J19: rates of removing, without and with the time until freed space is back.
fn deletes(results: &Results<'_>, judge: &mut Judge<'_>) {
    deletes_by(results, judge, "", "", removed);
    deletes_by(results, judge, "/settled", ", space back", removed_settled);
}

fn deletes_by(
    results: &Results<'_>,
    judge: &mut Judge<'_>,
    id: &str,
    when: &str,
    rate: fn(&PhaseReport) -> f64,
) {
    let sync = synchronous(results, "delete", rate);
    let delete = |policy, kb| match (policy, kb) {
        ("sync", 64) => sync.as_ref().map(Spread::mean).map_err(String::clone),
        _ => plain(results, policy, "delete", kb).map(rate),
    };
    let because = |policy, kb| {
        let spread = sync.as_ref().ok().filter(|_| policy == "sync").map(Spread::told);
        move || {
            let spent = spent_in(plain(results, policy, "delete", kb));
            spread.map_or(spent.clone(), |spread| format!("{spread}; {spent}"))
        }
    };
    for (name, policy, paper) in [("FFS", "sync", 163.0), ("FFS-async", "async", 2929.0)] {
        let says = format!("{name} removes files of 64 KB{when}");
        let claim = judge.claim(format!("J18/{policy}{id}"), says).unit("files/s");
        claim.near(paper, 0.15, delete(policy, 64), because(policy, 64));
    }
    let says = format!("Soft Updates remove files of 64 KB{when}, against FFS-async");
    let measured = ratio(delete("soft", 64), delete("async", 64));
    let claim = judge.claim(format!("J18/soft{id}"), says);
    claim.near(3754.0 / 2929.0, 0.15, measured, because("soft", 64));
    let says = format!("FFS-async removes fewer files of 104 KB than of 96{when}: factor");
    let measured = ratio(delete("async", 96), delete("async", 104));
    judge.claim(format!("J19/async{id}"), says).at_least(4.0, measured, because("async", 104));
    let says = format!("Soft Updates do not{when}: factor");
    let measured = ratio(delete("soft", 96), delete("soft", 104));
    judge.claim(format!("J19/soft{id}"), says).between(0.8, 1.25, measured, because("soft", 104));
}

fn chart(results: &Results<'_>) -> Chart {
    let sizes = sizes(results);
    let mut series = Vec::new();
    for policy in results.policies() {
        let values = sizes.iter().map(|&kb| {
            let volume = results.volumes().first().copied().unwrap_or(IN_PLACE.name);
            told(phase(results, policy, volume, "create", kb).map(settled))
        });
        let ours = Series { name: policy.to_owned(), values: values.collect(), published: false };
        series.push(ours);
        let Some(column) = column(policy) else { continue };
        let row = |kb: &u64| SIZES_KB.iter().position(|one| one == kb);
        let values = sizes.iter().map(|kb| row(kb).map(|row| CREATE[row][column]));
        let name = format!("{}, paper", SYSTEMS[column].name);
        series.push(Series { name, values: values.collect(), published: true });
    }
    Chart {
        title: "Files made, by size".to_owned(),
        x: "size in KB".to_owned(),
        y: "MB/s".to_owned(),
        labels: sizes.iter().map(u64::to_string).collect(),
        series,
        shape: Shape::Lines,
    }
}
