//! The sweep finds nothing in any layout, and is a function of its seed.
#![allow(missing_docs)]

use crate::hunters::is_long;
use seekless_arrays::Level;
use seekless_layouts::Kind;
use seekless_prove::{BlockSubject, ProveOptions, WORKLOADS, prove};

fn no_clock() -> u64 {
    0
}

#[test]
fn every_layout_keeps_its_contract() {
    let states = if is_long() { 150_000 } else { 60_000 };
    for kind in Kind::ALL {
        let options = ProveOptions { states, ..ProveOptions::new(kind) };
        let report = prove(&options, no_clock, &mut |_, _| {});
        assert!(report.violations.is_empty(), "{}", report.to_text());
        assert!(report.states >= states);
        assert_eq!(report.workloads, WORKLOADS, "{kind} reaches only {:?}", report.profiles);
        let f = report.faults;
        assert!(f.lost > 0 && f.torn > 0 && f.reordered > 0 && f.unreadable > 0, "{f:?}");
        assert!(f.failed_writes > 0 && f.failed_flushes > 0 && f.failed > 0, "{f:?}");
        assert!(!kind.promises().checked || (f.second_cuts > 0 && f.rotten > 0), "{f:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_sweep() {
    for kind in Kind::ALL {
        let options = ProveOptions { states: 3_000, ..ProveOptions::new(kind) };
        let one = prove(&options, no_clock, &mut |_, _| {});
        assert_eq!(one, prove(&options, no_clock, &mut |_, _| {}));
        let other = ProveOptions { seed: 2, ..options };
        assert_ne!(one.faults, prove(&other, no_clock, &mut |_, _| {}).faults);
    }
}

#[test]
fn every_array_keeps_its_contract() {
    let (mut failed, mut unreadable, mut arrays) = (0, 0, 0);
    for subject in BlockSubject::all() {
        let BlockSubject::Array { level, .. } = subject else { continue };
        let options = ProveOptions { states: 15_000, ..ProveOptions::new(subject) };
        let report = prove(&options, no_clock, &mut |_, _| {});
        assert!(report.violations.is_empty(), "{}", report.to_text());
        let faults = report.faults;
        assert!(faults.lost > 0 && faults.torn > 0 && faults.second_cuts > 0, "{faults:?}");
        assert_eq!(faults.lost_devices > 0, level != Level::Raid0, "{faults:?}");
        failed += faults.failed_writes + faults.failed_flushes;
        unreadable += faults.unreadable;
        arrays += 1;
    }
    assert!(failed > 0 && unreadable > 0 && arrays > 4, "{failed}, {unreadable}, {arrays}");
}

fn keeps_the_contract(subject: BlockSubject) {
    let options = ProveOptions { states: 40_000, ..ProveOptions::new(subject) };
    let report = prove(&options, no_clock, &mut |_, _| {});
    assert!(report.violations.is_empty(), "{}", report.to_text());
    assert!(report.faults.second_cuts > 0, "{:?}", report.faults);
    assert_eq!(report.workloads, WORKLOADS, "it reaches only {:?}", report.profiles);
}

#[test]
fn a_log_apart_keeps_the_contract() {
    keeps_the_contract(BlockSubject::Attached);
}

#[test]
fn a_sparse_volume_keeps_the_contract() {
    keeps_the_contract(BlockSubject::Sparse);
}

#[test]
fn the_drive_of_vlfs_keeps_the_contract() {
    keeps_the_contract(BlockSubject::Objects);
}
