//! What is remembered changes nothing but the time that a sweep takes.

use super::Memory;
use crate::files::{Ace, FileSubject};
use crate::{ProveOptions, ProveReport, prove};
use seekless_formats::Kind;
use seekless_fs::policy::PolicyKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Crash states of each sweep.
const STATES: u64 = 400;

fn no_clock() -> u64 {
    0
}

fn sweep(subject: FileSubject, seed: u64, from: u64, states: u64) -> ProveReport {
    let options = ProveOptions { seed, from, states, ..ProveOptions::of(subject) };
    prove(&options, no_clock, &mut |_, _| {})
}

/// Each policy, and one that is held to the promises of the others: then many images are bad, and
/// stories are compared, too.
fn subjects() -> Vec<FileSubject> {
    let all = FileSubject::all();
    let judged = |judge: &FileSubject| FileSubject { rules: judge.rules, ..all[0] };
    let mut subjects: Vec<FileSubject> = all.iter().skip(1).map(judged).collect();
    subjects.extend(all);
    subjects
}

#[test]
fn a_sweep_without_memory_reports_the_same() {
    let mut broken = 0;
    for subject in subjects() {
        let without = FileSubject { memory: Memory::None, ..subject };
        for seed in 1..3 {
            let report = sweep(subject, seed, 0, STATES);
            assert_eq!(report, sweep(without, seed, 0, STATES), "{subject:?}, seed {seed}");
            broken += report.violations.len();
        }
        let short = |subject| FileSubject { ace: Some(Ace::Two), ..subject };
        let report = sweep(short(subject), 1, 70_000, STATES);
        assert_eq!(report, sweep(short(without), 1, 70_000, STATES), "{subject:?}");
    }
    assert!(broken > 5, "only {broken} violations were compared");
}

/// A memory that leaves a step out of its transcripts takes one image for another. A sweep with it
/// reports something else, or comes upon a transcript that cannot be.
#[test]
fn a_memory_that_forgets_a_read_is_noticed() {
    let subject = FileSubject::of(Kind::default(), PolicyKind::Async).expect("it has a contract");
    let with = |memory| {
        let subject = FileSubject { memory, ..subject };
        catch_unwind(AssertUnwindSafe(|| sweep(subject, 1, 0, 32 * STATES))).ok()
    };
    let right = with(Memory::None);
    assert!(right.is_some() && right == with(Memory::Whole));
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let noticed: Vec<usize> =
        (0..12).filter(|&step| with(Memory::Without(step)) != right).collect();
    std::panic::set_hook(quiet);
    // A step that reads the same in all states of a case is not missed there.
    assert!(noticed.len() >= 3, "noticed: {noticed:?}");
}
