//! The sweep finds nothing in any layout, and is a function of its seed.
#![allow(missing_docs)]

use seekless_engine::layout::Kind;
use seekless_lab::prove::{ProveOptions, Subject, prove};

fn no_clock() -> u64 {
    0
}

#[test]
fn every_layout_keeps_its_contract() {
    for kind in Kind::ALL {
        let options = ProveOptions { states: 30_000, ..ProveOptions::new(kind) };
        let report = prove(&options, no_clock, &mut |_| {});
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert!(report.states >= 30_000);
        let faults = report.faults;
        assert!(faults.lost > 0 && faults.torn > 0 && faults.reordered > 0, "{faults:?}");
        assert!(
            !kind.promises().checked || (faults.second_cuts > 0 && faults.rotten > 0),
            "{faults:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_sweep() {
    for kind in Kind::ALL {
        let options = ProveOptions { states: 3_000, ..ProveOptions::new(kind) };
        let one = prove(&options, no_clock, &mut |_| {});
        assert_eq!(one, prove(&options, no_clock, &mut |_| {}));
        let other = ProveOptions { seed: 2, ..options };
        assert_ne!(one.faults, prove(&other, no_clock, &mut |_| {}).faults);
    }
}

#[test]
fn a_log_apart_keeps_the_contract() {
    let options = ProveOptions { states: 30_000, ..ProveOptions::new(Subject::Attached) };
    let report = prove(&options, no_clock, &mut |_| {});
    assert!(report.violations.is_empty(), "{}", report.to_text());
    assert!(report.faults.second_cuts > 0, "{:?}", report.faults);
}
