//! The yardstick of the prover for the log as a service: each planted bug is found from each of
//! three seeds, and none is found where none is.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use crate::hunters::{Hunt, each, hunts};
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_prove::{LogSubject, ProveOptions, ProveReport, prove};

const MOST_STATES: u64 = 300_000;

fn hunt(bug: Option<PlantedBug>, seed: u64, states: u64) -> ProveReport {
    let subject = LogSubject::default();
    let options = ProveOptions { seed, states, stop_at_first: true, ..ProveOptions::of(subject) };
    with_bug(bug, || prove(&options, || 0, &mut |_, _| {}))
}

/// What is planted.
pub fn planted() -> [(LogSubject, PlantedBug); 4] {
    PlantedBug::LOG.map(|bug| (LogSubject::default(), bug))
}

/// The lines of the table in `docs/proof.md`.
#[test]
fn every_planted_bug_is_found() {
    let tasks: Vec<(PlantedBug, Hunt)> = PlantedBug::LOG
        .into_iter()
        .flat_map(|bug| hunts(None, MOST_STATES).into_iter().map(move |hunt| (bug, hunt)))
        .collect();
    let found = each(&tasks, |&(bug, Hunt { seed, states })| {
        let report = hunt(Some(bug), seed, states);
        (report.states, report.violations.is_empty())
    });
    let seeds = tasks.len() / PlantedBug::LOG.len();
    for (tasks, found) in tasks.chunks(seeds).zip(found.chunks(seeds)) {
        let states: Vec<String> = found.iter().map(|one| one.0.to_string()).collect();
        let bug = tasks[0].0;
        println!("| `log` | `{bug:?}` | {} | {} |", bug.summary(), states.join(", "));
    }
    let missed = tasks.iter().zip(&found).filter(|(_, found)| found.1);
    let missed: Vec<String> = missed.map(|(task, _)| format!("{task:?}")).collect();
    assert!(missed.is_empty(), "not found: {}", missed.join("; "));
}

#[test]
fn without_a_bug_nothing_is_found() {
    let report = hunt(None, 3, 20_000);
    assert!(report.violations.is_empty(), "{}", report.to_text());
    assert!(report.faults.lost > 0 && report.faults.torn > 0 && report.faults.rotten > 0);
    assert_eq!(report.workloads, report.kinds, "all kinds of workload");
}
