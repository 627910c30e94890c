//! `journal/sdet`: one to twenty users run scripts of commands on one CPU. The commands are
//! synthetic, and the CPU time of a command is a free cost of the host.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{self, IN_PLACE, Job, Key, Platform, Results, Told, Volume, ratio, spent_both};
use super::published::{SYSTEMS, column};
use super::speeds::{BASE, waits};
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;

pub(super) const PARTS: Parts = Parts {
    name: "journal/sdet",
    source: "paper 001, figure 4",
    title: "users run scripts of commands at the same time (synthetic commands)",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const VOLUMES: [Volume; 1] = [IN_PLACE];
const SCRIPTS: [usize; 5] = [1, 5, 10, 15, 20];
const QUICK_SCRIPTS: [usize; 2] = [1, 5];
const PHASE: &str = "scripts";

/// Figure 4: scripts per hour against FFS-async, for each of [`SYSTEMS`] and of [`SCRIPTS`].
const PRINTED: [[f64; SCRIPTS.len()]; SYSTEMS.len()] = [
    [0.218, 0.127, 0.101, 0.099, 0.098],
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [0.998, 0.955, 0.984, 1.026, 0.989],
    [0.762, 0.798, 0.761, 0.775, 0.714],
    [0.236, 0.224, 0.206, 0.194, 0.182],
    [0.245, 0.258, 0.243, 0.252, 0.242],
    [0.874, 0.810, 0.885, 0.916, 0.901],
    [0.941, 0.970, 0.936, 0.932, 0.919],
];

/// A run of so many scripts.
fn variant(scripts: usize) -> String {
    format!("{scripts} at once")
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let scripts = if settings.quick { &QUICK_SCRIPTS[..] } else { &SCRIPTS[..] };
    let mut jobs = Vec::new();
    for &users in scripts.iter().rev() {
        for volume in settings.volumes(&VOLUMES) {
            for policy in settings.policies_on(volume) {
                let amount = Amount { users, seed: settings.seed, ..Amount::one_user() };
                let options = FilesOptions::new(ProgramKind::Sdet, volume.kind);
                let options = paper::under(policy, FilesOptions { amount, ..options });
                let variant = variant(users);
                let key = Key { policy: policy.name(), volume: volume.name, variant };
                let claimed = (volume, &VOLUMES[..]);
                jobs.extend(job::files_on(&key, Platform::Cheetah, options, claimed));
            }
        }
    }
    jobs
}

/// The numbers of scripts that were run.
fn scripts(results: &Results<'_>) -> Vec<usize> {
    let ran = |users: &usize| results.all.keys().any(|(_, key)| key.variant == variant(*users));
    SCRIPTS.into_iter().filter(ran).collect()
}

fn phase<'r>(
    results: &Results<'r>,
    policy: &'static str,
    volume: &'static str,
    users: usize,
) -> Told<&'r PhaseReport> {
    results.phase(policy, volume, &variant(users), PHASE)
}

/// Scripts per hour.
fn rate(
    results: &Results<'_>,
    policy: &'static str,
    volume: &'static str,
    users: usize,
) -> Told<f64> {
    let phase = phase(results, policy, volume, users)?;
    Ok(3600.0 * users as f64 / phase.elapsed_seconds.max(f64::MIN_POSITIVE))
}

/// Scripts per hour in place, against FFS-async.
fn against(results: &Results<'_>, policy: &'static str, users: usize) -> Told<f64> {
    let of = |policy| rate(results, policy, IN_PLACE.name, users);
    ratio(of(policy), of(BASE))
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    each(results, judge);
    clusters(results, judge);
    falls(results, judge);
    let most = || -> Told<f64> {
        let all = scripts(results).into_iter().map(|users| against(results, "soft", users));
        Ok(all.collect::<Told<Vec<f64>>>()?.into_iter().fold(0.0, f64::max))
    };
    let says = "FFS-async is an upper bound: soft updates reach at most 1.03 of it";
    let because = || because(results, "soft", scripts(results).last().copied().unwrap_or(1));
    judge.claim("J48/sdet", says).between(0.0, 1.03, most(), because);
    results.volumes().into_iter().map(|volume| table(results, volume)).collect()
}

fn table(results: &Results<'_>, volume: &'static str) -> Table {
    let scripts = scripts(results);
    let columns = scripts.iter().flat_map(|users| {
        ["an hour", "speed", "paper"].map(|what| format!("{users} at once/{what}"))
    });
    let title = format!("scripts on {volume} on {}", Platform::Cheetah.name());
    let mut table = Table::new(title, heads("policy", columns));
    for policy in results.policies_on(volume) {
        let cells = scripts.iter().flat_map(|&users| {
            let of = |policy| rate(results, policy, volume, users);
            let at = SCRIPTS.iter().position(|one| *one == users);
            let paper = column(policy).zip(at).map(|(row, at)| PRINTED[row][at]);
            [told(of(policy)), told(ratio(of(policy), of(BASE))), paper]
        });
        table.row(policy, cells.collect());
    }
    table
}

fn because(results: &Results<'_>, policy: &'static str, users: usize) -> String {
    let of = |policy| phase(results, policy, IN_PLACE.name, users);
    spent_both((policy, of(policy)), (BASE, of(BASE)))
}

/// J32: the first points of figure 4.
fn each(results: &Results<'_>, judge: &mut Judge<'_>) {
    for (row, system) in SYSTEMS.iter().enumerate().filter(|(_, one)| one.policy != BASE) {
        let policy = system.policy;
        let (users, paper) = (SCRIPTS[0], PRINTED[row][0]);
        let says = format!("one script of {policy}, against FFS-async");
        let measured = against(results, policy, users);
        let claim = judge.claim(format!("J32/{policy}"), says);
        claim.near(paper, 0.05 / paper, measured, || because(results, policy, users));
    }
}

/// A point of figure 4.
type Point = (&'static str, usize, f64);

/// The points of systems whose calls wait for the disk, or of the others, from the lowest up.
fn points(results: &Results<'_>, waiting: bool) -> Told<Vec<Point>> {
    let mut points = Vec::new();
    let policies = results.policies_on(IN_PLACE.name).into_iter();
    for policy in policies.filter(|one| *one != BASE && waits(one) == waiting) {
        for users in scripts(results) {
            points.push((policy, users, against(results, policy, users)?));
        }
    }
    points.sort_by(|a, b| a.2.total_cmp(&b.2));
    if points.is_empty() {
        Err("systems of one cluster only were run".to_owned())
    } else {
        Ok(points)
    }
}

/// J32: systems whose calls wait for the disk, and the others.
fn clusters(results: &Results<'_>, judge: &mut Judge<'_>) {
    const SAYS: [&str; 2] = [
        "systems that do not wait for the disk stay above 0.70 of FFS-async: the lowest point",
        "systems that wait for the disk stay below 0.26 of FFS-async: the highest point",
    ];
    let end = |waiting: bool| {
        let points = points(results, waiting);
        points.map(|all| if waiting { all[all.len() - 1] } else { all[0] })
    };
    for (waiting, id) in [(false, "J32/clusters/async"), (true, "J32/clusters/sync")] {
        let (end, says) = (end(waiting), SAYS[usize::from(waiting)]);
        let speed = end.clone().map(|point| point.2);
        let because = || match &end {
            Ok((policy, users, _)) => {
                format!("{users} scripts at once: {}", because(results, policy, *users))
            }
            Err(why) => why.clone(),
        };
        match waiting {
            true => judge.claim(id, says).between(0.0, 0.26, speed, because),
            false => judge.claim(id, says).at_least(0.70, speed, because),
        }
    }
}

/// J32: FFS loses more the more scripts run. Beyond ten scripts the paper has one level.
fn falls(results: &Results<'_>, judge: &mut Judge<'_>) {
    let scripts = scripts(results);
    let ends = scripts.first().copied().zip(scripts.last().copied());
    let ends = ends.filter(|(first, last)| first < last);
    let ends = ends.ok_or_else(|| "one number of scripts was run".to_owned());
    let measured = || -> Told<f64> {
        let (first, last) = ends.clone()?;
        ratio(against(results, "sync", last), against(results, "sync", first))
    };
    let written = |users: usize| -> Told<String> {
        let phase = phase(results, "sync", IN_PLACE.name, users)?;
        let writes = &phase.responses.writes;
        let each = writes.requests as f64 / users as f64;
        let ms = phase.elapsed_seconds * 1e3 / writes.requests.max(1) as f64;
        Ok(format!("of {users} at once each makes {each:.0} writes, and one ends every {ms:.2} ms"))
    };
    let because = || {
        let each =
            ends.clone().and_then(|(first, last)| Ok([written(first)?, written(last)?].join("; ")));
        each.unwrap_or_else(|why| why)
    };
    let says = "FFS falls behind further the more scripts run: the most scripts over one";
    judge.claim("J32/falls", says).between(0.0, 0.75, measured(), because);
}

fn chart(results: &Results<'_>) -> Chart {
    let scripts = scripts(results);
    let mut series = Vec::new();
    for policy in results.policies_on(IN_PLACE.name) {
        let values = scripts.iter().map(|&users| told(against(results, policy, users)));
        let ours = Series { name: policy.to_owned(), values: values.collect(), published: false };
        series.push(ours);
        let Some(row) = column(policy) else { continue };
        let place = |users: &usize| SCRIPTS.iter().position(|one| one == users);
        let values = scripts.iter().map(|users| place(users).map(|at| PRINTED[row][at]));
        let name = format!("{}, paper", SYSTEMS[row].name);
        series.push(Series { name, values: values.collect(), published: true });
    }
    Chart {
        title: "Scripts of commands at the same time".to_owned(),
        x: "scripts at once".to_owned(),
        y: "scripts an hour, against FFS-async".to_owned(),
        labels: scripts.iter().map(usize::to_string).collect(),
        series,
        shape: Shape::Lines,
    }
}
