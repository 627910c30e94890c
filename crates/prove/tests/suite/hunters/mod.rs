//! Work that all processors share, and the seeds to hunt with.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many seeds a run is told to try.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn wanted() -> Option<u64> {
    std::env::var("SEEKLESS_SEEDS").ok().map(|text| text.parse().expect("a number"))
}

/// The seeds that must each lead to every bug: one in a usual run, `SEEKLESS_SEEDS` of them else.
pub fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=wanted().unwrap_or(1)
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
