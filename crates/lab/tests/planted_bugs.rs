//! The yardstick of the prover: each planted bug is found, and none is found where none is.
#![allow(missing_docs)]

use seekless_engine::layout::Kind;
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_lab::prove::{ProveOptions, ProveReport, prove};

/// Seeds that must each lead to every bug.
const SEEDS: [u64; 3] = [1, 2, 3];
const MOST_STATES: u64 = 400_000;

fn no_clock() -> u64 {
    0
}

fn hunt(kind: Kind, bug: Option<PlantedBug>, options: &ProveOptions) -> ProveReport {
    let options = ProveOptions { stop_at_first: true, subject: kind.into(), ..options.clone() };
    with_bug(bug, || prove(&options, no_clock, &mut |_| {}))
}

/// The lines of the table in `docs/proof.md`, which `cargo xtask docs` takes from here.
#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    let mut planted = 0;
    for kind in Kind::ALL {
        for &bug in PlantedBug::of(kind) {
            planted += 1;
            let mut states = Vec::new();
            for seed in SEEDS {
                let options = ProveOptions { seed, states: MOST_STATES, ..ProveOptions::new(kind) };
                let report = hunt(kind, Some(bug), &options);
                if report.violations.is_empty() {
                    missed.push(format!("{kind}, {bug:?}, seed {seed}"));
                }
                states.push(report.states.to_string());
            }
            let summary = bug.summary();
            println!("| `{kind}` | `{bug:?}` | {summary} | {} |", states.join(", "));
        }
    }
    assert!(planted >= 24, "{planted} bugs are too few");
    assert!(missed.is_empty(), "not found: {}", missed.join("; "));
}

#[test]
fn without_a_bug_nothing_is_found() {
    for kind in Kind::ALL {
        let options = ProveOptions { states: 60_000, seed: 3, ..ProveOptions::new(kind) };
        let report = hunt(kind, None, &options);
        assert!(report.violations.is_empty(), "{}", report.to_text());
    }
}

/// A violation is made small, and what it says to repeat breaks the same promise.
#[test]
fn violations_shrink_and_repeat() {
    let bugs = [
        (Kind::Inplace, PlantedBug::MissingFlush),
        (Kind::Vlog, PlantedBug::AckBeforeDurable),
        (Kind::Loge, PlantedBug::PartialTransaction),
    ];
    for (kind, bug) in bugs {
        let options = ProveOptions { states: MOST_STATES, ..ProveOptions::new(kind) };
        let whole = hunt(kind, Some(bug), &ProveOptions { shrink: true, ..options.clone() });
        let small = &whole.violations[0];
        let keep = small.keep.as_deref().expect("it was made small");
        let keep = keep.parse::<seekless_lab::prove::Keep>().expect("a list of acts");
        assert!(keep.len() <= 8, "{kind}, {bug:?}: {} acts are left", keep.len());
        let options = ProveOptions { case: Some(small.case), keep: Some(keep), ..options };
        let again = hunt(kind, Some(bug), &options);
        assert_eq!(again.violations[0].sort, small.sort, "{kind}, {bug:?}");
        assert!(hunt(kind, None, &options).violations.is_empty(), "it is the bug that breaks it");
    }
}
