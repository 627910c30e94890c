//! The sweep finds nothing in any policy, is a function of its seed, and finds what a policy does
//! not promise.
#![allow(missing_docs)]

use crate::hunters::each;
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::DataMode;
use seekless_prove::files::{Ace, FileSubject, Rules};
use seekless_prove::{ProveOptions, ProveReport, prove};

fn no_clock() -> u64 {
    0
}

fn swept(options: &ProveOptions<FileSubject>) -> ProveReport {
    prove(options, no_clock, &mut |_, _| {})
}

#[test]
fn every_policy_keeps_its_contract() {
    each(&FileSubject::all(), |&subject| {
        // A log is scanned in each state. Its modes of data share all but the order of content, so
        // one of them has fewer states than all workloads need.
        let states = match (subject.policy.is_logged(), subject.data) {
            (false, _) => 100_000,
            (true, DataMode::Ordered) => 50_000,
            (true, DataMode::Writeback) => 10_000,
        };
        let report = swept(&ProveOptions { states, ..ProveOptions::of(subject) });
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert!(report.states >= states, "{report:?}");
        let f = report.faults;
        assert!(f.lost > 0, "{f:?}");
        // Where content is part of the transactions, hardly a write is beside them.
        let beside = subject.policy != PolicyKind::Unit;
        assert!(f.torn > 0 && f.reordered > 0 || !beside, "{f:?}");
        // A mount of Minix on transactions writes nothing that could be cut.
        let writes = subject.kind.limits.marks_unmounts || subject.rules.repairs();
        assert!(f.second_cuts > 0 || !writes, "{f:?}");
        if states >= 50_000 {
            assert_eq!(report.workloads, report.kinds, "{report:?}");
            assert!(f.failed_writes > 0 && f.failed_flushes > 0 && f.failed > 0, "{f:?}");
        }
    });
}

fn keeps_its_contract_in_short_sequences(subjects: &[FileSubject]) {
    assert!(!subjects.is_empty());
    each(subjects, |&subject| {
        let subject = FileSubject { ace: Some(Ace::One), ..subject };
        let report = swept(&ProveOptions { states: u64::MAX, ..ProveOptions::of(subject) });
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert_eq!(report.cases, Ace::One.cases());
    });
}

/// The policies without a log, and one with a log.
fn quick() -> (Vec<FileSubject>, Vec<FileSubject>) {
    let log = FileSubject::of(Kind::default(), PolicyKind::Wafs1Async);
    let is_quick = |one: &FileSubject| !one.policy.is_logged() || Some(*one) == log;
    FileSubject::all().into_iter().partition(is_quick)
}

#[test]
fn every_short_sequence_keeps_the_contract() {
    keeps_its_contract_in_short_sequences(&quick().0);
}

/// The same of the other policies with a log. The sweep of a commit has a part of them.
#[test]
#[ignore = "takes a minute; `cargo xtask ci nightly` runs it"]
fn every_short_sequence_keeps_the_contract_of_every_log() {
    keeps_its_contract_in_short_sequences(&quick().1);
}

#[test]
fn the_same_seed_gives_the_same_sweep() {
    for subject in FileSubject::all() {
        let options = ProveOptions { states: 3_000, ..ProveOptions::of(subject) };
        let one = swept(&options);
        assert_eq!(one, swept(&options));
        let other = ProveOptions { seed: 2, ..options };
        assert_ne!(one.faults, swept(&other).faults);
    }
}

/// A policy that orders nothing breaks the promises of those that do, in many ways and soon.
#[test]
fn async_breaks_the_promises_of_others() {
    let subject = FileSubject::of(Kind::default(), PolicyKind::Async).expect("it has a contract");
    for (rules, seed) in [(Rules::Sync, 1), (Rules::Soft, 1), (Rules::Soft, 2), (Rules::Soft, 3)] {
        let subject = FileSubject { rules, ..subject };
        let options = ProveOptions { seed, states: 50_000, ..ProveOptions::of(subject) };
        let report = swept(&ProveOptions { stop_at_first: true, shrink: true, ..options });
        let text = report.to_text();
        assert_eq!(report.violations.len(), 1, "{text}");
        assert!(report.states < 5_000, "found after {} states: {text}", report.states);
        let keep = report.violations[0].keep.as_deref().expect("it was made small");
        assert!(keep.split(',').count() <= 8, "{text}");
        assert!(text.contains(&format!("--policy async --judge {}", rules.name())), "{text}");
    }
}
