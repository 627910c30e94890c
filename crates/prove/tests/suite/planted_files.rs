//! The yardstick of the prover for file systems: each planted bug is found from every seed, and
//! none is found where none is. A usual run tries the first seed; `SEEKLESS_SEEDS` has more.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use crate::hunters::{each, seeds};
use seekless_fs::policy::planted::{Bug, with};
use seekless_prove::files::FileSubject;
use seekless_prove::{ProveOptions, ProveReport, prove};

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

/// The lines of the table in `docs/proof.md`.
#[test]
fn every_planted_bug_is_found() {
    let planted = planted();
    assert!(planted.len() > Bug::ALL.len(), "{planted:?}");
    let tasks: Vec<_> =
        planted.iter().flat_map(|one| seeds().map(move |seed| (*one, seed))).collect();
    let found = each(&tasks, |&((subject, bug), seed)| {
        let options = ProveOptions { seed, states: MOST_STATES, ..ProveOptions::of(subject) };
        let report = hunt(Some(bug), &options);
        (report.states, report.violations.is_empty())
    });
    let mut missed = Vec::new();
    for (tasks, found) in tasks.chunks(seeds().count()).zip(found.chunks(seeds().count())) {
        let ((subject, bug), _) = tasks[0];
        let policy = subject.policy.name();
        let states: Vec<String> = found.iter().map(|one| one.0.to_string()).collect();
        println!("| `{policy}` | `{bug:?}` | {} | {} |", bug.summary(), states.join(", "));
        let lost = tasks.iter().zip(found).filter(|(_, found)| found.1);
        missed.extend(lost.map(|((_, seed), _)| format!("{policy}, {bug:?}, seed {seed}")));
    }
    assert!(missed.is_empty(), "not found: {}", missed.join("; "));
}

/// A violation is made small, and what it says to repeat breaks the same promise: with the bug, and
/// not without it.
#[test]
fn violations_shrink_and_repeat() {
    // One policy each; the one above hunts in all.
    let mut planted = planted();
    planted.dedup_by_key(|one| one.1);
    each(&planted, |&(subject, bug)| {
        let options = ProveOptions { states: MOST_STATES, ..ProveOptions::of(subject) };
        let whole = hunt(Some(bug), &ProveOptions { shrink: true, ..options.clone() });
        let small = &whole.violations[0];
        let keep = small.keep.as_deref().expect("it was made small");
        let keep = keep.parse::<seekless_prove::Keep>().expect("a list of operations");
        assert!(keep.len() <= 24, "{bug:?}: {} operations are left", keep.len());
        let options = ProveOptions { case: Some(small.case), keep: Some(keep), ..options };
        let again = hunt(Some(bug), &options);
        assert_eq!(again.violations[0].sort, small.sort, "{bug:?}");
        assert!(hunt(None, &options).violations.is_empty(), "{bug:?}: it is the bug");
    });
}
