//! `journal/crashes`: the power of the disk of paper 001 is cut at each write of a script, and what
//! is left is checked and read. It shows what each policy guarantees, and nothing about speed.

use super::chart::{Chart, Series, Shape};
use super::claim::Judge;
use super::job::{IN_PLACE, Job, Key, Outcome, Platform, Results, Told, Work};
use super::paper::mkfs;
use super::published::SYSTEMS;
use super::table::{Table, heads, told};
use super::{Parts, Settings, paper};
use crate::files::crashes::{CrashOptions, CrashReport};
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;

pub(super) const PARTS: Parts = Parts {
    name: "journal/crashes",
    source: "paper 001, table 2 and section 4",
    title: "what power cuts at each write of the disk leave",
    systems: &SYSTEMS,
    logged: true,
    jobs,
    judge,
    chart,
};

const ROUNDS: u32 = 24;
const QUICK_ROUNDS: u32 = 6;
const VARIANT: &str = "the script of crashes";

/// A count of states, and what it counts.
type Count = (&'static str, fn(&CrashReport) -> u64);

const COUNTS: [Count; 13] = [
    ("writes", |one| one.writes),
    ("states", |one| one.states),
    ("clean", |one| one.clean),
    ("beyond/superblock", |one| one.unnamed),
    ("only/leaks", |one| one.leaks),
    ("damage/repaired", |one| one.repairable),
    ("damage/with loss", |one| one.fatal),
    ("not/usable", |one| one.unusable),
    ("names/lost", |one| one.names_lost),
    ("removals/lost", |one| one.removals_lost),
    ("both/names", |one| one.both_names),
    ("neither/name", |one| one.neither_name),
    ("foreign/content", |one| one.foreign_content),
];

fn jobs(settings: &Settings) -> Vec<Job> {
    let job = |policy: PolicyKind| {
        let rounds = if settings.quick { QUICK_ROUNDS } else { ROUNDS };
        let options = CrashOptions {
            file_system: Kind::default(),
            policy,
            journal: paper::options(),
            mkfs: mkfs(),
            rounds,
            seed: settings.seed,
        };
        let key = Key { policy: policy.name(), volume: IN_PLACE.name, variant: VARIANT.to_owned() };
        let work = Work::Crashes(Box::new(options));
        Job::new(key, Platform::Cheetah, work)
    };
    settings.policies_on(IN_PLACE).into_iter().map(job).collect()
}

fn report<'r>(results: &Results<'r>, policy: &'static str) -> Told<&'r CrashReport> {
    match results.other(policy, VARIANT)? {
        Outcome::Crashes(report) => Ok(report),
        _ => Err(format!("{policy}: no crashes were tried")),
    }
}

fn judge(results: &Results<'_>, judge: &mut Judge<'_>) -> Vec<Table> {
    let columns = COUNTS.iter().map(|count| count.0.to_owned());
    let title = format!("crash states on {}", Platform::Cheetah.name());
    let mut table = Table::new(title, heads("policy", columns));
    for policy in results.policies() {
        let report = report(results, policy);
        let cells = COUNTS.iter().map(|count| told(report.clone().map(|one| count.1(one) as f64)));
        table.row(policy, cells.collect());
    }
    guarantees(results, judge);
    soft_updates(results, judge);
    vec![table]
}

/// What a check finds beside leaks, with the number of states.
fn damage(report: Told<&CrashReport>) -> String {
    let report = match report {
        Ok(report) => report,
        Err(why) => return why,
    };
    let kinds: Vec<String> =
        report.damage.iter().map(|(kind, states)| format!("{kind} in {states}")).collect();
    let kinds = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    format!("of {} states, findings beside leaks: {kinds}", report.states)
}

/// J3: the table of guarantees.
fn guarantees(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |policy| report(results, policy);
    let shape = |policy, holds: fn(&CrashReport) -> (bool, String)| of(policy).map(holds);
    let lost = |one: &CrashReport| {
        let CrashReport { states, names_lost, removals_lost, .. } = one;
        format!(
            "of {states} states, {names_lost} lose a name and {removals_lost} a removal that was \
             answered"
        )
    };
    let because = |policy| move || damage(of(policy));
    let claim = judge.claim("J3/sync", "FFS: metadata is durable when a call is answered");
    let seen = of("sync").map(|one| (one.names_lost + one.removals_lost == 0, lost(one)));
    claim.shape(seen, because("sync"));
    for policy in ["soft", "async"] {
        let says = format!("{policy}: metadata is written later than a call is answered");
        let seen = of(policy).map(|one| (one.names_lost > 0, lost(one)));
        judge.claim(format!("J3/{policy}"), says).shape(seen, because(policy));
    }
    for policy in ["sync", "soft"] {
        let says = format!("{policy}: a rename is not atomic; one of the names is always there");
        let seen = shape(policy, |one| {
            let CrashReport { both_names, neither_name, .. } = one;
            let found = format!("both names in {both_names} states, neither in {neither_name}");
            (*both_names > 0 && *neither_name == 0, found)
        });
        judge.claim(format!("J3/rename/{policy}"), says).shape(seen, because(policy));
    }
    let foreign = |one: &CrashReport| {
        format!("of {} states, {} show foreign content", one.states, one.foreign_content)
    };
    let claim = judge.claim("J3/content/soft", "Soft Updates write new blocks before their inode");
    let seen = of("soft").map(|one| (one.foreign_content == 0, foreign(one)));
    claim.shape(seen, because("soft"));
    for policy in ["sync", "async"] {
        let says = format!("{policy}: a file may show what its blocks held before");
        let seen = of(policy).map(|one| (one.foreign_content > 0, foreign(one)));
        judge.claim(format!("J3/content/{policy}"), says).shape(seen, because(policy));
    }
    let worst = |one: &CrashReport| {
        let CrashReport { repairable, fatal, unusable, .. } = one;
        format!("repair in {repairable} states, with loss in {fatal}, impossible in {unusable}")
    };
    let claim = judge.claim("J3/recovery/sync", "FFS recovers by a full scan, without loss");
    let seen = of("sync").map(|one| (one.fatal + one.unusable == 0, worst(one)));
    claim.shape(seen, because("sync"));
    let claim = judge.claim("J3/recovery/async", "FFS-async does not recover for sure");
    let seen = of("async").map(|one| (one.fatal + one.unusable > 0, worst(one)));
    claim.shape(seen, because("async"));
    with_a_log(results, judge);
}

/// J3, J40 and J41 of the journals.
fn with_a_log(results: &Results<'_>, judge: &mut Judge<'_>) {
    let of = |policy| report(results, policy);
    let because = |policy| move || damage(of(policy));
    for policy in PolicyKind::LOGGED {
        let name = policy.name();
        let is_sync = policy.answers_when_durable();
        let seen = of(name).map(|one| {
            let CrashReport { states, names_lost, removals_lost, .. } = *one;
            let found = format!(
                "of {states} states, {names_lost} lose a name and {removals_lost} a removal that \
                 was answered"
            );
            ((names_lost + removals_lost == 0) == is_sync, found)
        });
        let when = if is_sync { "when" } else { "later than" };
        let says = format!("{name}: metadata is durable {when} a call is answered");
        judge.claim(format!("J3/{name}"), says).shape(seen, because(name));
        let seen = of(name).map(|one| {
            let CrashReport { states, clean, both_names, neither_name, unusable, .. } = *one;
            let found = format!(
                "of {states} states, {clean} are clean once the log is applied, {unusable} cannot \
                 be mounted; both names in {both_names}, neither in {neither_name}"
            );
            (clean == states && both_names + neither_name + unusable == 0, found)
        });
        let says = format!("{name}: metadata is atomic, and the log is replayed");
        judge.claim(format!("J3/atomic/{name}"), says).shape(seen, because(name));
    }
    let seen = of("wafs-1async").map(|one| {
        let CrashReport { states, foreign_content, .. } = *one;
        (foreign_content > 0, format!("of {states} states, {foreign_content} show foreign content"))
    });
    let says = "wafs-1async: a file may show what its blocks held before";
    judge.claim("J3/content/wafs-1async", says).shape(seen, because("wafs-1async"));
    let says = "no buffer is written before the log has its changes: states that lack them";
    let seen = halves(results).map(|(bad, states)| (bad == 0, halves_told(bad, states)));
    judge.claim("J6", says).shape(seen, || "the log was not applied, or too late".to_owned());
    let says = "recovery undoes what an aborted operation has logged: a crash leaves halves";
    let seen = halves(results).map(|(bad, states)| (bad > 0, halves_told(bad, states)));
    let why = || "one operation is one group, which counts as a whole or not at all".to_owned();
    judge.claim("J40", says).shape(seen, why);
    let says = "wafs finds the end of its log by itself: all that was forced is applied";
    let seen = of("wafs-1sync").map(|one| {
        let CrashReport { states, names_lost, removals_lost, .. } = *one;
        let lost = names_lost + removals_lost;
        (lost == 0, format!("{lost} of {states} states lack what was answered"))
    });
    judge.claim("J41/wafs", says).shape(seen, because("wafs-1sync"));
    let says = "LFFS-file loses what it logged after its last superblock, and is sound without it";
    let seen = of("lffs-file").map(|one| {
        let CrashReport { states, unnamed, clean, unusable, .. } = *one;
        let found = format!(
            "{unnamed} of {states} states have whole operations behind the last superblock, \
             {clean} are clean without them"
        );
        (unnamed > 0 && clean == states && unusable == 0, found)
    });
    judge.claim("J41/file", says).shape(seen, because("lffs-file"));
}

/// States of the journals that show half of an operation, and all of them. They include each half
/// write of a log.
fn halves(results: &Results<'_>) -> Told<(u64, u64)> {
    let (mut states, mut bad) = (0, 0);
    for policy in PolicyKind::LOGGED {
        let one = report(results, policy.name())?;
        states += one.states;
        bad += one.states - one.clean + one.both_names + one.neither_name;
    }
    Ok((bad, states))
}

fn halves_told(bad: u64, states: u64) -> String {
    format!("{bad} of {states} states show half of an operation")
}

/// J44: what a crash leaves under soft updates.
fn soft_updates(results: &Results<'_>, judge: &mut Judge<'_>) {
    let soft = report(results, "soft");
    let seen = soft.clone().map(|one| {
        let CrashReport { states, clean, leaks, unusable, .. } = one;
        let found = format!("of {states} states, {clean} are clean, {leaks} have leaks only");
        (clean + leaks == *states && *unusable == 0, found)
    });
    let says = "Soft Updates: a crash leaves unused space marked as used and counts too high";
    judge.claim("J44", says).shape(seen, || damage(soft));
    let control = report(results, "async");
    let seen = control.clone().map(|one| {
        let bad = one.repairable + one.fatal;
        (bad > 0, format!("{bad} of {} states have other damage", one.states))
    });
    let says = "the same script without order of writes does leave other damage";
    judge.claim("J44/control", says).shape(seen, || damage(control));
}

fn chart(results: &Results<'_>) -> Chart {
    let policies = results.policies();
    let series = COUNTS[2..].iter().map(|count| {
        let value = |policy: &&'static str| {
            told(report(results, policy))
                .map(|one| count.1(one) as f64 / one.states.max(1) as f64 * 100.0)
        };
        let values = policies.iter().map(value).collect();
        Series { name: count.0.replace('/', " "), values, published: false }
    });
    Chart {
        title: "What power cuts leave".to_owned(),
        x: "policy".to_owned(),
        y: "% of the crash states".to_owned(),
        labels: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        series: series.collect(),
        shape: Shape::Bars,
    }
}
