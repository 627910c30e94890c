//! The yardstick of the prover: each planted bug is found, and none is found where none is.
#![cfg(debug_assertions)]
#![allow(missing_docs)]

use seekless_arrays::Level;
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_layouts::Kind;
use seekless_prove::{BlockSubject, ProveOptions, ProveReport, Subject as _, prove};

/// Seeds that must each lead to every bug.
const SEEDS: [u64; 3] = [1, 2, 3];
const MOST_STATES: u64 = 2_000_000;

fn no_clock() -> u64 {
    0
}

/// What each bug is planted in.
fn planted() -> Vec<(BlockSubject, PlantedBug)> {
    let of = |kind: Kind| kind.planted_bugs().iter().map(move |&bug| (kind.into(), bug));
    let array = BlockSubject::Array { level: Level::Raid5, members: 3, kind: Kind::INPLACE };
    let arrays = PlantedBug::ARRAY.map(|bug| (array, bug));
    let striped = BlockSubject::Array { level: Level::Raid0, members: 2, kind: Kind::LFS };
    let arrays = arrays.into_iter().chain(PlantedBug::STRIPED.map(|bug| (striped, bug)));
    Kind::ALL.into_iter().flat_map(of).chain(arrays).collect()
}

fn hunt(
    subject: impl Into<BlockSubject>,
    bug: Option<PlantedBug>,
    options: &ProveOptions,
) -> ProveReport {
    let options = ProveOptions { stop_at_first: true, subject: subject.into(), ..options.clone() };
    with_bug(bug, || prove(&options, no_clock, &mut |_, _| {}))
}

/// States until each seed has found a bug, and the seeds that have not.
fn found_after(subject: BlockSubject, bug: PlantedBug) -> (Vec<String>, Vec<u64>) {
    let (mut states, mut missed) = (Vec::new(), Vec::new());
    for seed in SEEDS {
        let options = ProveOptions { seed, states: MOST_STATES, ..ProveOptions::new(subject) };
        let report = hunt(subject, Some(bug), &options);
        if report.violations.is_empty() {
            missed.push(seed);
        }
        states.push(report.states.to_string());
    }
    (states, missed)
}

/// The lines of the table in `docs/proof.md`, which `cargo xtask docs` takes from here.
#[test]
fn every_planted_bug_is_found() {
    let planted = planted();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = &|worker: usize| {
        let own = planted.iter().enumerate().skip(worker).step_by(workers);
        own.map(|(index, &(subject, bug))| (index, found_after(subject, bug))).collect::<Vec<_>>()
    };
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let hunters: Vec<_> = (0..workers).map(|one| scope.spawn(move || share(one))).collect();
        hunters.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    });
    found.sort_by_key(|(index, _)| *index);
    let mut all_missed = Vec::new();
    for (&(subject, bug), (_, (states, missed))) in planted.iter().zip(&found) {
        let name = subject.name();
        println!("| `{name}` | `{bug:?}` | {} | {} |", bug.summary(), states.join(", "));
        all_missed.extend(missed.iter().map(|seed| format!("{name}, {bug:?}, seed {seed}")));
    }
    assert!(planted.len() >= 24, "{} bugs are too few", planted.len());
    assert!(all_missed.is_empty(), "not found: {}", all_missed.join("; "));
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
    let pair = BlockSubject::Array { level: Level::Raid1, members: 2, kind: Kind::LOGE };
    let bugs = [
        (Kind::INPLACE.into(), PlantedBug::MissingFlush),
        (Kind::VLOG.into(), PlantedBug::AckBeforeDurable),
        (Kind::LOGE.into(), PlantedBug::PartialTransaction),
        (BlockSubject::Sparse, PlantedBug::TombstoneLost),
        (pair, PlantedBug::MissingFlush),
    ];
    for (subject, bug) in bugs {
        let kind = subject.name();
        let options = ProveOptions { states: MOST_STATES, ..ProveOptions::new(subject) };
        let whole = hunt(subject, Some(bug), &ProveOptions { shrink: true, ..options.clone() });
        let small = &whole.violations[0];
        let keep = small.keep.as_deref().expect("it was made small");
        let keep = keep.parse::<seekless_prove::Keep>().expect("a list of operations");
        assert!(keep.len() <= 8, "{kind}, {bug:?}: {} operations are left", keep.len());
        let options = ProveOptions { case: Some(small.case), keep: Some(keep), ..options };
        let again = hunt(subject, Some(bug), &options);
        assert_eq!(again.violations[0].sort, small.sort, "{kind}, {bug:?}");
        assert!(
            hunt(subject, None, &options).violations.is_empty(),
            "it is the bug that breaks it"
        );
    }
}

/// The story in `docs/proof.md`: two forced writes wait for a flush each, one flush fails, and the
/// other one's success was believed.
#[test]
fn the_story_of_two_flushes() {
    let options =
        ProveOptions { states: MOST_STATES, shrink: true, ..ProveOptions::new(Kind::INPLACE) };
    let report = hunt(Kind::INPLACE, Some(PlantedBug::OtherFlushTrusted), &options);
    let story = report.violations[0].story.join("\n");
    println!("{story}");
    assert!(story.contains("a flush fails"), "{story}");
    assert!(story.contains("acknowledged, and durable by contract"), "{story}");
}
