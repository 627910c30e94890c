//! `journal/recovery`: how late metadata reaches the disk, how long a mount takes after a crash,
//! and what calls save that share a write of the log.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{
    self, IN_PLACE, Job, Key, Outcome, Platform, Results, Told, Work, ratio, spent_both,
};
use super::published::SYSTEMS;
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::programs::{Amount, ProgramKind};
use crate::files::recovery::{RecoveryOptions, RecoveryReport};
use crate::files::report::PhaseReport;
use crate::files::run::FilesOptions;
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "journal/recovery",
    source: "paper 001, sections 3.2, 4 and 5.3",
    title: "the age of what is in memory only, and mounts after a crash",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

/// Empty files made since the start of the log has moved.
const FILES: [u32; 5] = [1000, 2000, 4000, 8000, 16_000];
const QUICK_FILES: [u32; 3] = [200, 400, 800];
/// Directories made one in the other.
const DEPTHS: [u32; 2] = [0, 8];
/// Seconds from the first change of a block to its write.
const WRITE_AGES_S: [u64; 5] = [15, 22, USUAL_AGE_S, 45, 90];
/// That of 4.4BSD, which the claims are about.
const USUAL_AGE_S: u64 = 30;
/// The policies whose changes wait in memory, and are measured as they grow old.
const LATE: [PolicyKind; 2] = [PolicyKind::Async, PolicyKind::Soft];
/// Files in the last of them.
const FEW: u32 = 10;
/// The policy whose recovery is measured.
const LOGGED: PolicyKind = PolicyKind::Wafs1Async;
/// Users that make files at the same time, and files of each.
const USERS: [usize; 2] = [1, 8];
const USER_FILES: u32 = 300;
const QUICK_USER_FILES: u32 = 40;

fn made(files: u32) -> String {
    format!("{files} files")
}

fn nested(depth: u32) -> String {
    format!("{depth} directories deep")
}

fn aged(depth: u32, write_age_s: u64) -> String {
    format!("{}, written after {write_age_s} s", nested(depth))
}

fn users(count: usize, shared: bool) -> String {
    let users = if count == 1 { "1 user".to_owned() } else { format!("{count} users") };
    format!("{users}, group commit {}", if shared { "on" } else { "off" })
}

fn jobs(settings: &Settings) -> Vec<Job> {
    let asked = settings.policies_on(IN_PLACE);
    let mut jobs = Vec::new();
    let mut recovery =
        |policy: PolicyKind, variant: String, (files, depth): (u32, u32), write_age_s| {
            if !asked.contains(&policy) {
                return;
            }
            let options = RecoveryOptions {
                file_system: Kind::default(),
                policy,
                journal: paper::options(),
                mkfs: paper::mkfs(),
                files,
                depth,
                write_age_s,
            };
            let key = Key { policy: policy.name(), volume: IN_PLACE.name, variant };
            let work = Work::Recovery(Box::new(options));
            jobs.push(Job::new(key, Platform::Cheetah, work));
        };
    let amounts = if settings.quick { &QUICK_FILES[..] } else { &FILES };
    for &files in amounts {
        recovery(LOGGED, made(files), (files, 0), USUAL_AGE_S);
    }
    for policy in LATE {
        for depth in DEPTHS {
            for age_s in WRITE_AGES_S {
                recovery(policy, aged(depth, age_s), (FEW, depth), age_s);
            }
        }
    }
    let policy = PolicyKind::Wafs1Sync;
    if asked.contains(&policy) {
        for count in USERS {
            for shared in [false, true] {
                let files = Some(if settings.quick { QUICK_USER_FILES } else { USER_FILES });
                let seed = settings.seed;
                let amount = Amount { users: count, files, seed, ..Amount::default() };
                let options = FilesOptions::new(ProgramKind::Small, IN_PLACE.kind);
                let mut options = paper::under(policy, FilesOptions { amount, ..options });
                options.journal.group_commit = shared;
                let variant = users(count, shared);
                let key = Key { policy: policy.name(), volume: IN_PLACE.name, variant };
                jobs.extend(job::files(&key, Platform::Cheetah, &options));
            }
        }
    }
    jobs
}

fn report<'r>(
    results: &Results<'r>,
    policy: PolicyKind,
    variant: &str,
) -> Told<&'r RecoveryReport> {
    match results.other(policy.name(), variant)? {
        Outcome::Recovery(report) => Ok(report),
        _ => Err(format!("{variant}: no crash was tried")),
    }
}

/// A mount after a crash.
struct Recovered {
    files: u32,
    log_bytes: f64,
    mount_ms: f64,
}

/// The mounts after the amounts that were run.
fn mounts(results: &Results<'_>) -> Vec<Recovered> {
    let mut all: Vec<u32> = [&QUICK_FILES[..], &FILES].concat();
    all.sort_unstable();
    let of = |files: u32| {
        let report = report(results, LOGGED, &made(files)).ok()?;
        Some(Recovered { files, log_bytes: report.log_bytes, mount_ms: report.mount_ms? })
    };
    all.into_iter().filter_map(of).collect()
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns = ["log/KiB", "mount/ms"].map(str::to_owned);
    let title =
        format!("mounts after a crash under {} on {}", LOGGED.name(), Platform::Cheetah.name());
    let mut recovery = Table::new(title, heads("files made", columns));
    for Recovered { files, log_bytes, mount_ms } in mounts(results) {
        recovery.row(files.to_string(), vec![Some(log_bytes / 1024.0), Some(mount_ms)]);
    }
    let columns = ["files/s"].map(str::to_owned);
    let title = "files made under wafs-1sync".to_owned();
    let mut shared = Table::new(title, heads("users", columns));
    for count in USERS {
        for on in [false, true] {
            shared.row(users(count, on), vec![told(creates(results, count, on).map(rate))]);
        }
    }
    claims(results, judge);
    vec![recovery, ages(results), shared]
}

/// How long changes are in memory only, by the age at which a block is written.
fn ages(results: &Results<'_>) -> Table {
    let columns = WRITE_AGES_S.map(|age_s| format!("after {age_s} s/s"));
    let columns = columns.into_iter().chain(["blocks".to_owned()]);
    let title = "until everything is on the disk without a sync, by the age of a write".to_owned();
    let mut ages = Table::new(title, heads("made", columns));
    for policy in LATE {
        for depth in DEPTHS {
            let of = |age_s| report(results, policy, &aged(depth, age_s));
            let all = WRITE_AGES_S.map(|age_s| told(of(age_s).map(|one| one.age_seconds)));
            let blocks = told(of(USUAL_AGE_S).map(|one| one.blocks));
            let label = format!("{}, {}", policy.name(), nested(depth));
            ages.row(label, all.into_iter().chain([blocks]).collect());
        }
    }
    ages
}

fn creates<'r>(results: &Results<'r>, count: usize, shared: bool) -> Told<&'r PhaseReport> {
    let policy = PolicyKind::Wafs1Sync.name();
    results.phase(policy, IN_PLACE.name, &users(count, shared), "create")
}

fn rate(phase: &PhaseReport) -> f64 {
    phase.files_per_second
}

fn claims(results: &Results<'_>, judge: &mut Judge<'_>) {
    for (policy, depth, most) in [
        (PolicyKind::Async, DEPTHS[0], 30.0),
        (PolicyKind::Soft, DEPTHS[0], 45.0),
        (PolicyKind::Soft, DEPTHS[1], 90.0),
    ] {
        let of = |age_s| report(results, policy, &aged(depth, age_s));
        let policy = policy.name();
        let says = format!("{policy}: what is made {} reaches the disk by itself", nested(depth));
        let id = match policy == PolicyKind::Soft.name() {
            true => format!("J7/{depth}"),
            false => format!("J7/{policy}"),
        };
        let age = of(USUAL_AGE_S).map(|one| one.age_seconds);
        judge.claim(id, says).unit("s").between(1.0, most, age, || {
            let within = WRITE_AGES_S
                .into_iter()
                .filter(|&age_s| of(age_s).is_ok_and(|one| one.age_seconds <= most));
            let within = within
                .max()
                .map_or("no age tried".to_owned(), |age_s| format!("an age of {age_s} s"));
            let blocks = of(USUAL_AGE_S).map_or(0.0, |one| one.blocks);
            format!(
                "a block goes out 28 to 30 s old; what it has to hold back then goes out as long \
                 after that; {blocks:.0} blocks were written; {within} keeps the bound"
            )
        });
    }
    let all = mounts(results);
    let says = "recovery takes longer in proportion to what was logged: fit of a line, R squared";
    let fit = match all.len() {
        0..3 => Err("fewer than three amounts were run".to_owned()),
        _ => Ok(fit(&all.iter().map(|one| (one.log_bytes, one.mount_ms)).collect::<Vec<_>>())),
    };
    judge.claim("J42", says).between(0.95, 1.0, fit.map(|(_, squared)| squared), || {
        let told = |one: &Recovered| format!("{}: {:.1} ms", one.files, one.mount_ms);
        let mounts: Vec<String> = all.iter().map(told).collect();
        format!(
            "a mount looks at all sectors of the ring, whatever was logged: {}",
            mounts.join(", ")
        )
    });
    for (id, count, least, most, says) in [
        ("J43/1", USERS[0], 0.98, 1.02, "calls that share a write of the log gain nothing alone"),
        ("J43/8", USERS[1], 1.5, 8.0, "with eight users they gain"),
    ] {
        let measured = ratio(
            creates(results, count, true).map(rate),
            creates(results, count, false).map(rate),
        );
        judge.claim(id, says).between(least, most, measured, || {
            let of = |shared| creates(results, count, shared);
            spent_both(("on", of(true)), ("off", of(false)))
        });
    }
}

/// The slope of the line that fits best, and the share of the variance that it explains.
fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|one| one.0), mean(|one| one.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    let both = sum(&|one| (one.0 - x) * (one.1 - y));
    let (xs, ys) = (sum(&|one| (one.0 - x).powi(2)), sum(&|one| (one.1 - y).powi(2)));
    // A line that falls, or a row of equal values, explains nothing.
    let squared = if xs > 0.0 && ys > 0.0 && both > 0.0 { both * both / (xs * ys) } else { 0.0 };
    (both / xs.max(f64::MIN_POSITIVE), squared)
}

fn chart(results: &Results<'_>) -> Chart {
    let all = mounts(results);
    let values = all.iter().map(|one| Some(one.mount_ms)).collect();
    Chart {
        title: "Mounts after a crash".to_owned(),
        x: "files made".to_owned(),
        y: "ms".to_owned(),
        labels: all.iter().map(|one| one.files.to_string()).collect(),
        series: vec![Series { name: LOGGED.name().to_owned(), values, published: false }],
        shape: Shape::Bars,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_and_noise_does_not() {
        let (slope, squared) = fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        assert!((slope - 2.0).abs() < 1e-9 && (squared - 1.0).abs() < 1e-9);
        assert!(fit(&[(0.0, 5.0), (1.0, 1.0), (2.0, 5.0)]).1 < 0.1);
        assert_eq!(fit(&[(0.0, 5.0), (1.0, 4.0)]).1, 0.0, "it falls");
    }
}
