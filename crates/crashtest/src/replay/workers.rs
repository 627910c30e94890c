//! Many checks at once.

use super::check::{Check, Checked};
use super::image::Image;
use super::mount::Place;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// A state to check.
#[derive(Debug)]
pub struct Job {
    /// Tells it from others.
    pub number: u64,
    /// The state.
    pub image: Image,
    /// What the check is told in its environment.
    pub variables: Vec<(&'static str, String)>,
}

/// Checks one state.
///
/// # Errors
/// If it cannot be placed or the check cannot be started.
pub fn one(place: &Place, check: &Check, job: Job) -> io::Result<Checked> {
    let placed = match place.put(Arc::new(job.image), &check.stop) {
        Err(_) if check.stop.asked().is_some() => return Ok(Checked::stopped()),
        placed => placed?,
    };
    check.run(placed.path(), &job.variables)
}

/// Checks what `next` gives, `workers` at once, and tells `done` of each result, in any order.
/// After it breaks nothing new is asked for; what was is still told of.
///
/// # Errors
/// The first state that cannot be placed or checked.
///
/// # Panics
/// If a worker does.
pub fn all(
    place: &Place,
    check: &Check,
    workers: usize,
    next: &mut dyn FnMut() -> Option<Job>,
    done: &mut dyn FnMut(u64, Checked) -> ControlFlow<()>,
) -> io::Result<()> {
    let (jobs, taken) = mpsc::channel::<Job>();
    let taken = Mutex::new(taken);
    let (results, results_in) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (taken, results) = (&taken, results.clone());
            scope.spawn(move || {
                loop {
                    let job = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    // The sender has no more jobs, or the receiver of the results is gone.
                    let Ok(job) = job else { return };
                    let number = job.number;
                    if results.send((number, one(place, check, job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let (mut running, mut open) = (0, true);
        loop {
            while open && running < 2 * workers {
                match next() {
                    Some(job) => {
                        running += 1;
                        jobs.send(job).expect("the receiver lives as long as this scope");
                    }
                    None => open = false,
                }
            }
            if running == 0 {
                break;
            }
            let (number, result) = results_in.recv().expect("a worker ends after its last result");
            debug_assert!(running > 0, "a result without a job");
            running -= 1;
            open &= done(number, result?).is_continue();
        }
        drop(jobs);
        Ok(())
    })
}
