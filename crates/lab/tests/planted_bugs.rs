//! The yardstick of the prover: each planted bug is found, and none is found where none is.
#![allow(missing_docs)]

use seekless_engine::layout::Kind;
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_lab::prove::{ProveOptions, prove};

fn no_clock() -> u64 {
    0
}

#[test]
fn every_planted_bug_is_found() {
    let vlog = PlantedBug::VLOG.map(|bug| (Kind::Vlog, bug));
    let loge = PlantedBug::LOGE.map(|bug| (Kind::Loge, bug));
    let dcd = PlantedBug::DCD.map(|bug| (Kind::Dcd, bug));
    for (kind, bug) in vlog.into_iter().chain(loge).chain(dcd) {
        let options =
            ProveOptions { states: 200_000, stop_at_first: true, ..ProveOptions::new(kind) };
        let report = with_bug(Some(bug), || prove(&options, no_clock, &mut |_| {}));
        println!(
            "{kind}, {bug:?}: found after {} states in {} worlds",
            report.states, report.cases
        );
        let states = report.states;
        assert!(!report.violations.is_empty(), "{kind}, {bug:?}: not found in {states} states");
    }
}

#[test]
fn without_a_bug_nothing_is_found() {
    for kind in [Kind::Vlog, Kind::Loge, Kind::Dcd] {
        let options = ProveOptions { states: 20_000, seed: 3, ..ProveOptions::new(kind) };
        let report = with_bug(None, || prove(&options, no_clock, &mut |_| {}));
        assert!(report.violations.is_empty(), "{}", report.to_text());
    }
}
