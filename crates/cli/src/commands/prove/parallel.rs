//! Cases on several threads. They are taken in order of their numbers, so the report is the same
//! for any number of threads.

use super::CASE;
use crate::clock::host_clock;
use seekless_prove::sweep::{Sweep, Tried};
use seekless_prove::{ProveOptions, ProveReport, Subject};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Crash states tried.
    pub tried: u64,
    /// Cases that were taken.
    pub cases: u64,
    /// Cases that there are from the first one on; `u64::MAX` if there is no end to them.
    pub most_cases: u64,
    /// Nanoseconds since the sweep began.
    pub elapsed: u64,
}

/// Hands out the numbers of cases.
#[derive(Debug)]
struct Cases {
    next: AtomicU64,
    /// The first case that is not wanted.
    end: AtomicU64,
}

impl Cases {
    fn draw(&self) -> Option<u64> {
        let case = self.next.fetch_add(1, Ordering::Relaxed);
        (case < self.end.load(Ordering::Relaxed)).then_some(case)
    }

    /// Nothing from this case on is wanted.
    fn end_at(&self, case: u64) {
        self.end.fetch_min(case, Ordering::Relaxed);
    }
}

/// Ends the sweep if the thread that holds it panics: the case will never be taken.
struct OnPanic<'c>(&'c Cases);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end_at(0);
        }
    }
}

/// Runs a sweep on so many threads. `run` runs a case; `shown` is told after each one how far the
/// sweep is.
pub fn sweep<S: Subject + Sync>(
    options: &ProveOptions<S>,
    jobs: usize,
    run: &(dyn Fn(u64) -> Tried + Sync),
    shown: &mut dyn FnMut(Stage),
) -> ProveReport {
    let started = host_clock();
    let elapsed = || host_clock().saturating_sub(started);
    let mut sweep = Sweep::new(options);
    let Some(first) = sweep.next() else { return sweep.finish(elapsed()) };
    let end = sweep.end();
    let cases = Cases { next: AtomicU64::new(first), end: AtomicU64::new(end) };
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let jobs = (jobs as u64).clamp(1, end - first);
        for _ in 0..jobs {
            let (cases, sender) = (&cases, sender.clone());
            scope.spawn(move || {
                let _guard = OnPanic(cases);
                while let Some(case) = cases.draw() {
                    CASE.set(case);
                    // Without a receiver the sweep is at its end.
                    if sender.send(run(case)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        for tried in receiver {
            if options.stop_at_first && tried.has_found() {
                cases.end_at(tried.case() + 1);
            }
            waiting.insert(tried.case(), tried);
            while let Some(case) = sweep.next()
                && let Some(tried) = waiting.remove(&case)
            {
                CASE.set(case);
                sweep.take(tried);
                cases.end_at(sweep.end());
                let most_cases = if end == u64::MAX { end } else { end - first };
                let cases = case + 1 - first;
                let tried = sweep.report().states;
                shown(Stage { tried, cases, most_cases, elapsed: elapsed() });
            }
            if sweep.next().is_none() {
                break;
            }
        }
    });
    sweep.finish(elapsed())
}

/// How far a sweep of so many states is, in words.
pub fn progress(stage: Stage, states: u64) -> String {
    let Stage { tried, cases, most_cases, elapsed } = stage;
    let mut text = match (states, most_cases) {
        (u64::MAX, u64::MAX) => return format!("{tried} crash states"),
        (u64::MAX, _) => format!("{cases} of {most_cases} runs, {tried} crash states"),
        _ => format!("{tried} of {states} crash states"),
    };
    let part = |done: u64, all: u64| if all == u64::MAX { 0.0 } else { done as f64 / all as f64 };
    let done = part(tried, states).max(part(cases, most_cases));
    if done > 0.0 {
        let left = elapsed as f64 / 1e9 * (1.0 / done - 1.0).max(0.0);
        text += &match left.ceil() as u64 {
            seconds @ 0..120 => format!(", {seconds} s left"),
            seconds => format!(", {} min left", seconds.div_ceil(60)),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_layouts::Kind;

    fn options() -> ProveOptions {
        ProveOptions { states: 15_000, ..ProveOptions::new(Kind::INPLACE) }
    }

    fn report(options: &ProveOptions, jobs: usize) -> ProveReport {
        let mut stages = 0;
        let run = |case| Sweep::run(options, case);
        let report = sweep(options, jobs, &run, &mut |_| stages += 1);
        assert_eq!(stages, report.cases);
        ProveReport { states_per_second: 0.0, ..report }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_report() {
        let options = options();
        let one = report(&options, 1);
        assert!(one.states >= 15_000 && one.cases > 1, "{one:?}");
        assert_eq!(one, report(&options, 4));
        let later = ProveOptions { from: 1, ..options.clone() };
        assert_ne!(one.faults, report(&later, 2).faults);
        let beyond = ProveOptions { case: Some(u64::MAX), ..options };
        assert_eq!(report(&beyond, 2).cases, 0);
    }

    #[test]
    fn progress_tells_the_time_left() {
        let stage = Stage { tried: 50, cases: 5, most_cases: u64::MAX, elapsed: 4_000_000_000 };
        assert_eq!(progress(stage, 100), "50 of 100 crash states, 4 s left");
        assert_eq!(progress(stage, u64::MAX), "50 crash states");
        let short = Stage { most_cases: 500, ..stage };
        assert_eq!(progress(short, u64::MAX), "5 of 500 runs, 50 crash states, 7 min left");
    }
}
