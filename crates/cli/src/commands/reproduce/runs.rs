//! Runs the jobs of a figure on all CPUs.
//!
//! Workers take the next job until none is left; the first failure ends them all. Each job is a
//! function of its own, so the outcomes do not depend on the number of workers.

use super::kept::Kept;
use crate::failure::Failure;
use crate::term::Progress;
use seekless_lab::figures::job::{Job, Outcomes};
use seekless_lab::sim::Clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// The outcomes of all jobs; those that were kept earlier do not run again.
///
/// # Errors
/// The failure of a job, or if one cannot be kept.
pub fn run(
    figure: &str,
    jobs: &[Job],
    (workers, clock): (usize, Clock),
    mut kept: Option<&mut Kept>,
) -> Result<Outcomes, Failure> {
    let mut outcomes = Outcomes::new();
    let mut left: Vec<&Job> = Vec::new();
    for job in jobs {
        match kept.as_ref().and_then(|kept| kept.find(job)) {
            Some(outcome) => drop(outcomes.insert((job.factor, job.key.clone()), outcome)),
            None => left.push(job),
        }
    }
    let jobs = &left[..];
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    let mut done = 0;
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
        let mut progress = Progress::new();
        for (at, outcome) in results {
            let (job, outcome) = (jobs[at], outcome?);
            if let Some(kept) = &mut kept {
                kept.keep(job, &outcome).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
            }
            outcomes.insert((job.factor, job.key.clone()), outcome);
            done += 1;
            let all = jobs.len();
            progress.show(|| format!("{figure}: {done} of {all} runs, last {}", job.name()));
        }
        Ok(outcomes)
    })
}

fn take<'j>(jobs: &[&'j Job], next: &AtomicUsize) -> Option<(usize, &'j Job)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, *jobs.get(at)?))
}
