//! The contract is neither too strong nor too weak: the prover finds a violation of every row that
//! promises more than it does, and one that promises less hides a planted bug.
#![allow(missing_docs)]

use crate::hunters::each;
#[cfg(debug_assertions)]
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use seekless_prove::files::contract::damage::{Damage, Damages};
use seekless_prove::files::contract::operation::Operation;
use seekless_prove::files::contract::table::{self, Contract, Durable};
use seekless_prove::files::{Ace, CLASSES, FileSubject, Rules};
use seekless_prove::{Order, ProveOptions, ProveReport, prove};

fn no_clock() -> u64 {
    0
}

fn swept(options: &ProveOptions<FileSubject>) -> ProveReport {
    prove(options, no_clock, &mut |_, _| {})
}

/// The sequences of this operation alone after a mount.
fn cases(operation: Operation) -> impl Iterator<Item = u64> {
    let alone = move |&case: &u64| {
        Ace::One.is_mounted(case) && Ace::One.operations(case).iter().next() == Some(operation)
    };
    (0..Ace::One.cases()).filter(alone)
}

/// The first violation of a contract in the sequences of an operation.
fn violation(subject: FileSubject, contract: Contract, operation: Operation) -> Option<String> {
    let rules = Rules::Changed(Box::leak(Box::new(contract)));
    let subject = FileSubject { rules, ace: Some(Ace::One), ..subject };
    let mut reports = cases(operation).map(|case| {
        let options = ProveOptions { case: Some(case), ..ProveOptions::of(subject) };
        swept(&ProveOptions { stop_at_first: true, states: u64::MAX, ..options })
    });
    reports.find_map(|report| report.violations.first().map(|one| one.story.join("; ")))
}

/// The row as it would be if it promised more, in each way in which it can.
fn stronger(contract: &Contract, operation: Operation) -> Vec<(String, Contract)> {
    let row = contract.row(operation);
    let changed = |what: String, leaves: Damages, durable: Durable| {
        let mut contract = *contract;
        let row = &mut contract.rows[operation as usize];
        (row.leaves, row.durable) = (leaves, durable);
        (what, contract)
    };
    let is_in_transactions = matches!(contract.policy, "atomic" | "unit");
    let needs_growth = is_in_transactions && GROWING.contains(&operation);
    // With content in transactions only a write of many blocks is there in part.
    let is_torn = |damage: &Damage| {
        contract.content && (operation, *damage) == (Operation::Write, Damage::Sectors)
    };
    let is_rare = |damage: &Damage| {
        RARE.contains(&(operation, *damage))
            || is_torn(damage)
            || needs_growth && *damage == Damage::Leak
    };
    let mut all: Vec<_> = row
        .leaves
        .iter()
        .filter(|damage| !is_rare(damage))
        .map(|damage| changed(damage.word().to_owned(), row.leaves.without(damage), row.durable))
        .collect();
    if row.durable == Durable::Synced {
        // What may be anything cannot be durable.
        let leaves = row.leaves.without(Damage::Anything);
        all.push(changed("durable".to_owned(), leaves, Durable::Acknowledged));
    }
    all
}

/// Damage that needs more than one operation on a small file system: files of many blocks, blocks
/// that held something else. No sequence shows late maps of a rename that replaces.
const RARE: [(Operation, Damage); 8] = [
    (Operation::Replace, Damage::Maps),
    (Operation::Write, Damage::Size),
    (Operation::Truncate, Damage::Size),
    (Operation::Truncate, Damage::Sectors),
    (Operation::Truncate, Damage::Stale),
    (Operation::Allocate, Damage::Size),
    (Operation::Allocate, Damage::Sectors),
    (Operation::Allocate, Damage::Stale),
];

/// Operations that give up the end of a directory or file that grows, and nothing else. Under
/// `atomic` and `unit` only what is given up leaks, and no short sequence fills a fragment.
const GROWING: [Operation; 4] =
    [Operation::Mkdir, Operation::Link, Operation::Rename, Operation::Write];

#[test]
fn ends_that_move_leak_in_workloads() {
    let mut contract = table::ATOMIC;
    for operation in GROWING {
        let row = &mut contract.rows[operation as usize];
        row.leaves = row.leaves.without(Damage::Leak);
    }
    let rules = Rules::Changed(Box::leak(Box::new(contract)));
    let mut all = FileSubject::all().into_iter();
    let atomic = all.find(|one| one.policy == PolicyKind::Atomic).expect("it is proved");
    let options = ProveOptions::of(FileSubject { rules, ..atomic });
    let report = swept(&ProveOptions { states: 200_000, stop_at_first: true, ..options });
    assert!(!report.violations.is_empty(), "these rows could promise more");
}

#[test]
fn a_row_that_promises_more_is_broken() {
    let of = |subject| Operation::ALL.map(|operation| (subject, operation));
    // The place of a log changes no promise.
    let here = |subject: &FileSubject| !subject.policy.has_own_log_volume();
    let tasks: Vec<_> = FileSubject::all().into_iter().filter(here).flat_map(of).collect();
    let results = each(&tasks, |&(subject, operation)| {
        let (mut broken, mut kept, mut tried) = (Vec::new(), Vec::new(), 0);
        let (contract, policy) = (subject.rules.contract(), subject.rules.name());
        if contract.refuses(operation) {
            return (broken, kept, tried);
        }
        // Those of a log take long, and `every_short_sequence_keeps_the_contract` has them.
        let is_known = subject.policy.is_logged();
        if !is_known && let Some(before) = violation(subject, *contract, operation) {
            broken.push(format!("{policy} {operation:?}: {before}"));
        }
        for (what, stronger) in stronger(contract, operation) {
            tried += 1;
            if violation(subject, stronger, operation).is_none() {
                kept.push(format!("{policy} {operation:?}, {what}"));
            }
        }
        (broken, kept, tried)
    });
    let tried: usize = results.iter().map(|one| one.2).sum();
    let broken: Vec<String> = results.iter().flat_map(|one| one.0.clone()).collect();
    let kept: Vec<String> = results.into_iter().flat_map(|one| one.1).collect();
    assert!(tried > 100, "{tried}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kept.is_empty(), "these could promise more: {}", kept.join("; "));
}

/// What the sequences are too short for happens in workloads, where many operations come together.
#[test]
fn rare_damage_happens_in_workloads() {
    let damages = |subject| [Damage::Size, Damage::Sectors, Damage::Stale].map(|d| (subject, d));
    let tasks: Vec<_> = FileSubject::all().into_iter().flat_map(damages).collect();
    each(&tasks, |&(subject, damage)| {
        let mut contract = *subject.rules.contract();
        if !contract.rows.iter().any(|row| row.leaves.has(damage)) {
            return;
        }
        for row in &mut contract.rows {
            row.leaves = row.leaves.without(damage);
        }
        let rules = Rules::Changed(Box::leak(Box::new(contract)));
        let options = ProveOptions::of(FileSubject { rules, ..subject });
        let options = ProveOptions { states: 200_000, stop_at_first: true, ..options };
        let report = swept(&options);
        assert!(!report.violations.is_empty(), "{} {damage:?}", subject.rules.name());
    });
}

/// The planted bug in every call for durability, found as long as the contract promises something
/// of them.
#[cfg(debug_assertions)]
#[test]
fn an_fsync_that_promises_less_hides_a_bug() {
    use seekless_engine::planted::{PlantedBug, with_bug};
    use seekless_prove::files::contract::table::Covers;
    const MOST_STATES: u64 = 20_000;
    let hunt = |rules: Rules| {
        let subject =
            FileSubject::of(Kind::default(), PolicyKind::Async).expect("it has a contract");
        let options = ProveOptions::of(FileSubject { rules, ..subject });
        let options = ProveOptions { states: MOST_STATES, stop_at_first: true, ..options };
        with_bug(Some(PlantedBug::AckBeforeDurable), || swept(&options)).violations.len()
    };
    assert_eq!(hunt(Rules::Async), 1);
    let mut less = *Rules::Async.contract();
    for operation in [Operation::Fsync, Operation::Fdatasync] {
        less.rows[operation as usize].covers = Covers::default();
    }
    assert_eq!(hunt(Rules::Changed(Box::leak(Box::new(less)))), 0);
}

/// The standards do not promise that `fsync` of a new file makes its name durable, and the contract
/// does. A program that is judged by the standards must not be told that it may rely on that.
#[cfg(debug_assertions)]
#[test]
fn the_standards_do_not_promise_a_path() {
    use seekless_engine::planted::{PlantedBug, with_bug};
    use seekless_prove::files::contract::standard;
    const MOST_STATES: u64 = 20_000;
    let hunt = |rules: Rules, bug: PlantedBug| {
        let subject =
            FileSubject::of(Kind::default(), PolicyKind::Async).expect("it has a contract");
        let options = ProveOptions::of(FileSubject { rules, ..subject });
        let options = ProveOptions { states: MOST_STATES, stop_at_first: true, ..options };
        with_bug(Some(bug), || swept(&options)).violations.len()
    };
    assert_eq!(hunt(Rules::Async, PlantedBug::FsyncWithoutName), 1);
    assert_eq!(hunt(standard::RULES, PlantedBug::FsyncWithoutName), 0);
    assert_eq!(hunt(standard::RULES, PlantedBug::AckBeforeDurable), 1, "content is promised");
}

/// Without flushes nothing is lost where completed writes are kept, and every promise elsewhere.
#[test]
fn trusted_completions_need_a_device_that_keeps_them() {
    for subject in FileSubject::all() {
        for (class, device) in CLASSES {
            let subject = FileSubject { trusts: true, device: Some(device), ..subject };
            let keeps = device == Order::KeepsCompleted;
            let states = if keeps && subject.policy.is_logged() { 5_000 } else { 20_000 };
            let options = ProveOptions { states, ..ProveOptions::of(subject) };
            let report = swept(&ProveOptions { stop_at_first: true, ..options });
            assert_eq!(report.violations.is_empty(), keeps, "{class}: {}", report.to_text());
            let replay = format!("--trust-completions --device {class}");
            assert!(keeps || report.to_text().contains(&replay), "{}", report.to_text());
        }
    }
}
