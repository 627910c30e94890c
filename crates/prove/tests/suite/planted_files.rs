//! The yardstick of the prover for file systems: each planted bug is found, and none is found
//! where none is. A usual run tries one cheap seed of each bug; with `SEEKLESS_SEEDS=3` it tries
//! three seeds.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use crate::hunters::{Hunt, Known, cheap, each, hunts, is_long};
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_formats::Kind;
use seekless_fs::policy::journal::DataMode;
use seekless_prove::files::FileSubject;
use seekless_prove::{ProveOptions, ProveReport, prove};

const MOST_STATES: u64 = 1_000_000;
/// Policy, bug, seed, and states until that seed finds the bug. A bug is listed if seed 1 needs
/// more than 20,000 states. The seed is the cheapest of the three in `docs/proof.md`.
const CHEAP: [(&str, PlantedBug, u64, u64); 9] = [
    ("async", PlantedBug::FsyncWithoutInode, 2, 1_453),
    ("sync", PlantedBug::FreedAtOnce, 3, 2_562),
    ("sync", PlantedBug::FactOfOlderImage, 3, 4_697),
    ("sync", PlantedBug::FragmentMoveFreesOld, 3, 2_493),
    ("soft", PlantedBug::BodyLate, 2, 7_886),
    ("soft", PlantedBug::GrowthForgetsNeeds, 1, 33_615),
    ("soft", PlantedBug::ReclaimForgetsNames, 1, 33_779),
    ("minix async", PlantedBug::FreedAtOnce, 3, 32_129),
    ("minix async", PlantedBug::FactAtCompletion, 2, 70_166),
];

fn no_clock() -> u64 {
    0
}

/// The policy, behind the name of a format that is not the usual one.
fn label(subject: FileSubject) -> String {
    match subject.kind == Kind::default() {
        true => subject.rules.name().to_owned(),
        false => format!("{} {}", subject.kind, subject.rules.name()),
    }
}

fn known(subject: FileSubject, bug: PlantedBug) -> Option<Known> {
    let policy = label(subject);
    let entry = CHEAP.iter().find(|entry| entry.0 == policy && entry.1 == bug);
    entry.map(|&(_, _, seed, states)| (seed, states))
}

fn hunt(bug: Option<PlantedBug>, options: &ProveOptions<FileSubject>) -> ProveReport {
    let options = ProveOptions { stop_at_first: true, ..options.clone() };
    with_bug(bug, || prove(&options, no_clock, &mut |_, _| {}))
}

/// Each bug in each policy that is proved and in which it can show.
pub fn planted() -> Vec<(FileSubject, PlantedBug)> {
    let of = |bug: PlantedBug| {
        // What a log orders in any mode of data shows where it orders nothing else.
        let data = match bug {
            PlantedBug::MovedTailLate => DataMode::Writeback,
            _ => DataMode::Ordered,
        };
        let shows = move |subject: &FileSubject| {
            (subject.kind.planted)(bug).contains(&subject.policy) && subject.data == data
        };
        FileSubject::all().into_iter().filter(shows).map(move |subject| (subject, bug))
    };
    let own = PlantedBug::MINIX.into_iter();
    let own = own.filter(|bug| !PlantedBug::FILES.contains(bug));
    let own = own.filter(|bug| !PlantedBug::JOURNAL.contains(bug));
    PlantedBug::FILES.into_iter().chain(PlantedBug::JOURNAL).chain(own).flat_map(of).collect()
}

/// The lines of the table in `docs/proof.md`.
#[test]
fn every_planted_bug_is_found() {
    let planted = planted();
    assert!(planted.len() > PlantedBug::FILES.len(), "{planted:?}");
    let listed = planted.iter().filter(|one| known(one.0, one.1).is_some()).count();
    assert_eq!(listed, CHEAP.len(), "an entry names no planted bug");
    let of = |one: &(FileSubject, PlantedBug)| hunts(known(one.0, one.1), MOST_STATES);
    let tasks: Vec<_> =
        planted.iter().flat_map(|one| of(one).into_iter().map(|hunt| (*one, hunt))).collect();
    let found = each(&tasks, |&((subject, bug), Hunt { seed, states })| {
        let options = ProveOptions { seed, states, ..ProveOptions::of(subject) };
        let report = hunt(Some(bug), &options);
        (report.states, report.violations.is_empty())
    });
    let mut missed = Vec::new();
    let seeds = tasks.len() / planted.len();
    for (tasks, found) in tasks.chunks(seeds).zip(found.chunks(seeds)) {
        let ((subject, bug), _) = tasks[0];
        let policy = label(subject);
        let states: Vec<String> = found.iter().map(|one| one.0.to_string()).collect();
        println!("| `{policy}` | `{bug:?}` | {} | {} |", bug.summary(), states.join(", "));
        let lost = tasks.iter().zip(found).filter(|(_, found)| found.1);
        missed.extend(lost.map(|((_, hunt), _)| format!("{policy}, {bug:?}, {hunt:?}")));
    }
    assert!(missed.is_empty(), "not found: {}", missed.join("; "));
}

/// A violation is made small, and what it says to repeat breaks the same promise: with the bug, and
/// not without it.
#[test]
fn violations_shrink_and_repeat() {
    // One policy each; the one above hunts in all. A usual run takes each third bug.
    let mut planted = planted();
    planted.dedup_by_key(|one| one.1);
    if !is_long() {
        planted = planted.into_iter().step_by(3).collect();
    }
    each(&planted, |&(subject, bug)| {
        let Hunt { seed, states } = cheap(known(subject, bug));
        let options = ProveOptions { seed, states, ..ProveOptions::of(subject) };
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
