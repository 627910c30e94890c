//! The sweep finds nothing in any policy, is a function of its seed, and finds what a policy does
//! not promise.
#![allow(missing_docs)]

use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
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
    for subject in FileSubject::all() {
        let options = ProveOptions { states: 100_000, ..ProveOptions::of(subject) };
        let report = swept(&options);
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert!(report.states >= 100_000 && report.workloads == report.kinds, "{report:?}");
        let f = report.faults;
        assert!(f.lost > 0 && f.torn > 0 && f.reordered > 0 && f.second_cuts > 0, "{f:?}");
        assert!(f.failed_writes > 0 && f.failed_flushes > 0 && f.failed > 0, "{f:?}");
    }
}

/// Policies that keep a log cannot be chosen yet. Each commit holds them to their contract all the
/// same.
#[test]
fn every_log_keeps_its_contract() {
    let states = if std::env::var_os("SEEKLESS_FULL").is_some() { 1_000_000 } else { 10_000 };
    for subject in FileSubject::logged() {
        let options = ProveOptions { states, ..ProveOptions::of(subject) };
        let report = swept(&options);
        assert!(report.violations.is_empty(), "{}", report.to_text());
        let f = report.faults;
        assert!(f.lost > 0 && f.torn > 0 && f.reordered > 0 && f.second_cuts > 0, "{f:?}");
    }
}

/// All sequences of one operation, for a log with and without calls that wait for it. Nightly.
#[test]
#[ignore = "takes a minute; `cargo xtask ci nightly` runs it"]
fn every_short_sequence_keeps_the_contract_of_a_log() {
    for policy in [PolicyKind::Wafs1Async, PolicyKind::Wafs2Sync] {
        let subject = FileSubject::of(Kind::default(), policy).expect("it has a contract");
        let subject = FileSubject { ace: Some(Ace::One), ..subject };
        let report = swept(&ProveOptions { states: u64::MAX, ..ProveOptions::of(subject) });
        assert!(report.violations.is_empty(), "{}", report.to_text());
    }
}

#[test]
fn every_short_sequence_keeps_the_contract() {
    for subject in FileSubject::all() {
        let subject = FileSubject { ace: Some(Ace::One), ..subject };
        let report = swept(&ProveOptions { states: u64::MAX, ..ProveOptions::of(subject) });
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert_eq!(report.cases, Ace::One.cases());
    }
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
