//! Work that all processors share, and the seeds and limits to hunt with.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many seeds a run is told to try.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn wanted() -> Option<u64> {
    std::env::var("SEEKLESS_SEEDS").ok().map(|text| text.parse().expect("a number"))
}

/// Crash states within which seed 1 finds each bug that the tables of cheap seeds do not list.
const UNLISTED_STATES: u64 = 20_000;
/// A hunt may take this many times the known number of states. A slower search then fails the test.
const SLACK: u64 = 4;

/// One search for one bug.
#[derive(Clone, Copy, Debug)]
pub struct Hunt {
    pub seed: u64,
    /// Limit of crash states.
    pub states: u64,
}

/// The known cost of a bug: a cheap seed, and the states until it finds the bug.
pub type Known = (u64, u64);

/// True in a nightly run, which sets `SEEKLESS_SEEDS`.
pub fn is_long() -> bool {
    wanted().is_some()
}

/// The hunt of a usual run: the cheap seed with a tight limit. A bug without an entry uses seed 1.
pub fn cheap(known: Option<Known>) -> Hunt {
    let (seed, states) = known.unwrap_or((1, UNLISTED_STATES));
    Hunt { seed, states: SLACK * states }
}

/// The hunts that must each find a bug: the cheap one, or seeds 1 to `SEEKLESS_SEEDS` of at most
/// `most` states.
pub fn hunts(known: Option<Known>, most: u64) -> Vec<Hunt> {
    match wanted() {
        None => vec![cheap(known)],
        Some(seeds) => (1..=seeds).map(|seed| Hunt { seed, states: most }).collect(),
    }
}

/// Carries tasks out on all processors, each the next one that is left; results in order.
pub fn each<T: Sync, R: Send>(tasks: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let own = numbers.map_while(|number| Some((number, tasks.get(number)?)));
        own.map(|(number, task)| (number, run(task))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let hunters: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        hunters.into_iter().flat_map(|one| one.join().expect("no panic")).collect()
    });
    done.sort_by_key(|one| one.0);
    done.into_iter().map(|one| one.1).collect()
}
