//! The yardstick of the prover for file systems: each planted bug is found from every seed, and
//! none is found where none is.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use seekless_fs::policy::planted::{Bug, with};
use seekless_prove::files::FileSubject;
use seekless_prove::{ProveOptions, ProveReport, prove};

/// Seeds that must each lead to every bug.
const SEEDS: [u64; 3] = [1, 2, 3];
const MOST_STATES: u64 = 300_000;

fn no_clock() -> u64 {
    0
}

fn hunt(bug: Option<Bug>, options: &ProveOptions<FileSubject>) -> ProveReport {
    let options = ProveOptions { stop_at_first: true, ..options.clone() };
    with(bug, || prove(&options, no_clock, &mut |_, _| {}))
}

/// Each bug in each policy that is proved and in which it can show.
fn planted() -> Vec<(FileSubject, Bug)> {
    let of = |bug: Bug| {
        let shows = move |subject: &FileSubject| bug.policies().contains(&subject.policy);
        FileSubject::all().into_iter().filter(shows).map(move |subject| (subject, bug))
    };
    Bug::ALL.into_iter().flat_map(of).collect()
}

#[test]
fn every_planted_bug_is_found() {
    let planted = planted();
    assert!(planted.len() >= 3, "{planted:?}");
    let mut missed = Vec::new();
    for (subject, bug) in planted {
        let mut states = Vec::new();
        for seed in SEEDS {
            let options = ProveOptions { seed, states: MOST_STATES, ..ProveOptions::of(subject) };
            let report = hunt(Some(bug), &options);
            if report.violations.is_empty() {
                missed.push(format!("{}, {bug:?}, seed {seed}", subject.policy.name()));
            }
            states.push(report.states.to_string());
        }
        println!("| `{}` | `{bug:?}` | {} |", subject.policy.name(), states.join(", "));
    }
    assert!(missed.is_empty(), "not found: {}", missed.join("; "));
}

/// A violation is made small, and what it says to repeat breaks the same promise: with the bug, and
/// not without it.
#[test]
fn violations_shrink_and_repeat() {
    for (subject, bug) in planted() {
        let options = ProveOptions { states: MOST_STATES, ..ProveOptions::of(subject) };
        let whole = hunt(Some(bug), &ProveOptions { shrink: true, ..options.clone() });
        let small = &whole.violations[0];
        let keep = small.keep.as_deref().expect("it was made small");
        let keep = keep.parse::<seekless_prove::Keep>().expect("a list of operations");
        assert!(keep.len() <= 12, "{bug:?}: {} operations are left", keep.len());
        let options = ProveOptions { case: Some(small.case), keep: Some(keep), ..options };
        let again = hunt(Some(bug), &options);
        assert_eq!(again.violations[0].sort, small.sort, "{bug:?}");
        assert!(hunt(None, &options).violations.is_empty(), "{bug:?}: it is the bug");
    }
}
