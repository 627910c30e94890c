//! Many checks at once, each on a state of its own.

use super::check::{ACKED_FILE, Ask, Checked, Checker, Verdict};
use super::image::Image;
use super::mount::Place;
use super::stop::Stop;
use crate::session::CrashImage;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// What had been acknowledged before the power went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// Number of acknowledgements.
    pub count: u64,
    /// The value of the last one.
    pub last: Option<String>,
    /// All values, each with a newline, in order.
    pub all: String,
}

/// A state to check.
#[derive(Debug)]
pub struct Job {
    /// Tells it from others.
    pub number: u64,
    /// The state.
    pub image: CrashImage,
    /// Its short name.
    pub name: String,
    /// What must be there; nothing, if only consistency is checked.
    pub acked: Acked,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What the check says.
    pub checked: Checked,
    /// If the state is bad: whether it is good for a check that expects nothing acknowledged. Then
    /// acknowledged data is lost, and what is there is sound.
    pub only_lost: bool,
}

/// Where checks run, and how.
#[derive(Clone, Copy)]
pub struct Bench<'b> {
    /// Where states become files.
    pub place: &'b Place,
    /// What checks them.
    pub checker: &'b dyn Checker,
    /// Ends everything early.
    pub stop: &'b Stop,
}

impl Bench<'_> {
    /// Checks a state once.
    ///
    /// # Errors
    /// If it cannot be placed or the check cannot be started.
    pub fn check(&self, image: CrashImage, name: &str, acked: &Acked) -> io::Result<Checked> {
        self.ask(image, name, acked, Ask::Known)
    }

    fn ask(&self, image: CrashImage, name: &str, acked: &Acked, ask: Ask) -> io::Result<Checked> {
        let variables = [
            ("SEEKLESS_STATE", name.to_owned()),
            ("SEEKLESS_ACKED", acked.last.clone().unwrap_or_default()),
            ("SEEKLESS_ACKED_COUNT", acked.count.to_string()),
            (ACKED_FILE, acked.all.clone()),
        ];
        if let CrashImage::Tree(tree) = &image {
            return self.checker.check_tree(tree, &variables);
        }
        let disks: Vec<Arc<Image>> = image.disks().into_iter().map(Arc::new).collect();
        if let Some(checked) = self.checker.check_images(&disks, &variables, ask) {
            return checked;
        }
        let placed: io::Result<Vec<_>> =
            disks.into_iter().map(|disk| self.place.put(disk, self.stop)).collect();
        let placed = match placed {
            Err(_) if self.stop.asked().is_some() => return Ok(Checked::stopped()),
            placed => placed?,
        };
        match &placed[..] {
            [first, second] => self.checker.check_two([first.path(), second.path()], &variables),
            placed => self.checker.check(placed[0].path(), &variables),
        }
    }

    /// Checks a state. A state that fails counts only if it fails again; then it is checked as if
    /// nothing had been acknowledged.
    ///
    /// # Errors
    /// As for [`Bench::check`].
    pub fn judge(&self, job: Job) -> io::Result<Judged> {
        let fresh = job.image.unchanged();
        let checked = self.settled(job.image.unchanged(), &job.name, &job.acked)?;
        self.told_apart(checked, fresh, &job)
    }

    /// The same without asking again: for a state that is much like one that was.
    ///
    /// # Errors
    /// As for [`Bench::check`].
    pub fn judge_once(&self, job: Job) -> io::Result<Judged> {
        let fresh = job.image.unchanged();
        let checked = self.check(job.image.unchanged(), &job.name, &job.acked)?;
        self.told_apart(checked, fresh, &job)
    }

    /// What the check says of a state, asked again unless it accepts it. What disturbed it may have
    /// come from the machine.
    fn settled(&self, image: CrashImage, name: &str, acked: &Acked) -> io::Result<Checked> {
        let fresh = [image.unchanged(), image.unchanged()];
        let mut last = self.check(image, name, acked)?;
        for image in fresh {
            if !matches!(last.verdict, Verdict::Bad(_) | Verdict::Failed(_)) {
                break;
            }
            let again = self.ask(image, name, acked, Ask::Anew)?;
            match (&last.verdict, &again.verdict) {
                (Verdict::Bad(_), Verdict::Bad(_)) | (Verdict::Failed(_), Verdict::Failed(_)) => {
                    break;
                }
                (&Verdict::Bad(code), Verdict::Good) => {
                    last.verdict = Verdict::Wavers(code);
                    break;
                }
                _ => last = again,
            }
        }
        Ok(last)
    }

    fn told_apart(&self, checked: Checked, fresh: CrashImage, job: &Job) -> io::Result<Judged> {
        if !matches!(checked.verdict, Verdict::Bad(_)) || job.acked.count == 0 {
            return Ok(Judged { checked, only_lost: false });
        }
        let again = self.check(fresh, &job.name, &Acked::default())?;
        Ok(Judged { checked, only_lost: again.verdict == Verdict::Good })
    }

    /// Judges what `next` gives, `workers` at once, and tells `done` of each result, in any order.
    /// After it breaks nothing new is asked for; what was is still told of.
    ///
    /// # Errors
    /// The first state that cannot be placed or checked.
    ///
    /// # Panics
    /// If a worker does.
    pub fn all(
        &self,
        workers: usize,
        next: &mut dyn FnMut() -> Option<Job>,
        done: &mut dyn FnMut(u64, Judged) -> ControlFlow<()>,
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
                        // Without an answer for each job the loop below would wait for ever.
                        let judged = catch_unwind(AssertUnwindSafe(|| self.judge(job)));
                        if results.send((number, judged)).is_err() {
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
                let (number, result) =
                    results_in.recv().expect("a worker ends after its last result");
                debug_assert!(running > 0, "a result without a job");
                running -= 1;
                let result = result.unwrap_or_else(|panic| resume_unwind(panic));
                open &= done(number, result?).is_continue();
            }
            drop(jobs);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::mount::Way;
    use seekless_calls::model::Tree;
    use std::path::Path;
    use std::time::Duration;

    /// Panics at one state.
    struct Panics;

    impl Checker for Panics {
        fn check(&self, _: &Path, _: &[(&str, String)]) -> io::Result<Checked> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn check_tree(&self, _: &Tree, variables: &[(&str, String)]) -> io::Result<Checked> {
            let name = variables.iter().find(|(name, _)| *name == "SEEKLESS_STATE");
            assert!(name.is_none_or(|(_, name)| name != "1"), "planted");
            Ok(Checked { verdict: Verdict::Good, output: String::new() })
        }
    }

    #[test]
    fn a_panic_of_a_check_ends_all_of_them() {
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let dir = tempfile::tempdir().expect("a directory");
            let place = Place::new(Way::Copy, dir.path()).expect("a place");
            let stop = Stop::new().expect("a descriptor");
            let bench = Bench { place: &place, checker: &Panics, stop: &stop };
            let mut jobs = 0..2;
            let mut next = || {
                let number = jobs.next()?;
                let image = CrashImage::Tree(Arc::new(Tree::new(Arc::from([]))));
                Some(Job { number, image, name: number.to_string(), acked: Acked::default() })
            };
            let all = || bench.all(2, &mut next, &mut |_, _| ControlFlow::Continue(()));
            let _ = sender.send(catch_unwind(AssertUnwindSafe(all)).is_err());
        });
        let panicked = ended.recv_timeout(Duration::from_secs(30));
        assert_eq!(panicked, Ok(true), "the others wait for ever");
    }
}
