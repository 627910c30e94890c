//! Runs the jobs of a figure on all CPUs.
//!
//! Workers take the next job until none is left; the first failure ends them all. Each job is a
//! function of its own, so the outcomes do not depend on the number of workers.

use crate::failure::Failure;
use crate::term::Progress;
use seekless_lab::figures::job::{FigureError, Job, Outcome, Outcomes};
use seekless_lab::sim::Clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// The outcomes of all jobs.
///
/// # Errors
/// The failure of a job.
pub fn run(figure: &str, jobs: &[Job], workers: usize, clock: Clock) -> Result<Outcomes, Failure> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            let (sender, next, failed) = (sender.clone(), &next, &failed);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed)
                    && let Some((at, job)) = take(jobs, next)
                {
                    let outcome = job.run(clock);
                    failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    // The receiver is gone after a failure only.
                    let _ = sender.send((at, outcome));
                }
            });
        }
        drop(sender);
        collect(figure, jobs, &results)
    })
}

fn take<'j>(jobs: &'j [Job], next: &AtomicUsize) -> Option<(usize, &'j Job)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, jobs.get(at)?))
}

fn collect(
    figure: &str,
    jobs: &[Job],
    results: &mpsc::Receiver<(usize, Result<Outcome, FigureError>)>,
) -> Result<Outcomes, Failure> {
    let mut progress = Progress::new();
    let mut outcomes = Outcomes::new();
    for (at, outcome) in results {
        let job = &jobs[at];
        outcomes.insert((job.factor, job.key.clone()), outcome?);
        let (done, all) = (outcomes.len(), jobs.len());
        progress.show(|| format!("{figure}: {done} of {all} runs, last {}", job.name()));
    }
    Ok(outcomes)
}
