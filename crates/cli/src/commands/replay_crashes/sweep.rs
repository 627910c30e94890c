//! All states in turn, checked by many workers.

use super::session::Session;
use crate::failure::Failure;
use seekless_crashtest::replay::check::{Check, Checked, Verdict};
use seekless_crashtest::replay::extents::Extents;
use seekless_crashtest::replay::mount::Place;
use seekless_crashtest::replay::workers::{self, Job};
use seekless_crashtest::states::choose::{Bounds, choose};
use seekless_crashtest::states::history::{Epoch, Epochs};
use seekless_crashtest::states::minimise::minimise;
use seekless_crashtest::states::state::{Name, State};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to check, how and where.
#[derive(Debug)]
pub struct Sweep<'s> {
    /// The recording.
    pub session: &'s Session,
    /// Where states become files.
    pub place: Place,
    /// The command.
    pub check: Check,
    /// Checks at once.
    pub workers: usize,
    /// Which states.
    pub bounds: Bounds,
    /// Go on after the first bad state.
    pub keep_going: bool,
}

/// A bad state, or one on which the check could not run.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The epoch in which the power is cut.
    pub epoch: Arc<Epoch>,
    /// The writes that survive.
    pub state: State,
    /// The result of the check.
    pub checked: Checked,
    /// Position in the order of states.
    number: u64,
}

/// The result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// States checked.
    pub states: u64,
    /// Epochs they belong to.
    pub epochs: u64,
    /// Bad ones.
    pub bad: u64,
    /// Checks that could not run.
    pub failed: u64,
    /// Checks that took too long.
    pub hung: u64,
    /// The first bad state, after shrinking.
    pub finding: Option<Finding>,
    /// States that shrinking it tried.
    pub minimised_in: usize,
    /// The first check that could not run or took too long.
    pub trouble: Option<Finding>,
    /// How long it took, without shrinking.
    pub took: Duration,
}

/// A state that is being checked.
#[derive(Debug)]
struct Running {
    epoch: Arc<Epoch>,
    state: State,
}

/// Hands out states, epoch after epoch.
struct States<'s> {
    session: &'s Session,
    bounds: Bounds,
    epochs: Epochs<'s>,
    epoch: Option<Arc<Epoch>>,
    queue: VecDeque<State>,
    durable: Arc<Extents>,
    given: u64,
    epochs_given: u64,
}

impl States<'_> {
    fn next(&mut self) -> Option<(u64, Arc<Epoch>, State)> {
        while self.queue.is_empty() {
            let epoch = self.epochs.next()?;
            self.epochs_given += 1;
            self.session.settle(Arc::make_mut(&mut self.durable), &epoch);
            self.queue = choose(self.session.history(), &epoch, &self.bounds).into();
            self.epoch = Some(Arc::new(epoch));
        }
        let (epoch, state) = (self.epoch.clone()?, self.queue.pop_front()?);
        self.given += 1;
        Some((self.given, epoch, state))
    }
}

impl Sweep<'_> {
    /// Checks all chosen states.
    ///
    /// # Errors
    /// If states cannot be presented as files, or the check cannot be started.
    pub fn run(&self, tried: &mut dyn FnMut(u64)) -> Result<Swept, Failure> {
        let begin = Instant::now();
        let mut states = States {
            session: self.session,
            bounds: self.bounds,
            epochs: self.session.history().epochs(),
            epoch: None,
            queue: VecDeque::new(),
            durable: Arc::default(),
            given: 0,
            epochs_given: 0,
        };
        let mut result = Swept::default();
        let running = std::cell::RefCell::new(BTreeMap::new());
        let mut next = || {
            let (number, epoch, state) = states.next()?;
            let job = self.job(number, Arc::clone(&states.durable), &epoch, &state);
            running.borrow_mut().insert(number, Running { epoch, state });
            Some(job)
        };
        let mut done = |number: u64, checked: Checked| {
            let running = running.borrow_mut().remove(&number);
            let Running { epoch, state } = running.expect("each state is told of once");
            if checked.verdict == Verdict::Stopped {
                return ControlFlow::Break(());
            }
            tried(result.states + 1);
            let found = result.note(Finding { epoch, state, checked, number });
            match found && !self.keep_going {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        workers::all(&self.place, &self.check, self.workers, &mut next, &mut done)
            .map_err(cannot)?;
        result.epochs = states.epochs_given;
        result.took = begin.elapsed();
        Ok(result)
    }

    /// Checks the state of that name.
    ///
    /// # Errors
    /// If the recording has none, or the check cannot be started.
    pub fn only(&self, name: &Name) -> Result<Swept, Failure> {
        let begin = Instant::now();
        let (epoch, state) = self.session.resolve(name)?;
        let durable = Arc::new(self.session.durable(epoch.cut));
        let job = self.job(1, durable, &epoch, &state);
        let checked = workers::one(&self.place, &self.check, job).map_err(cannot)?;
        let mut result = Swept { epochs: 1, ..Swept::default() };
        result.note(Finding { epoch: Arc::new(epoch), state, checked, number: 1 });
        result.took = begin.elapsed();
        Ok(result)
    }

    /// Shrinks the finding, by trying at most `budget` states.
    ///
    /// # Errors
    /// If the check cannot be started.
    pub fn minimise(&self, result: &mut Swept, budget: usize) -> Result<(), Failure> {
        let Some(finding) = &mut result.finding else { return Ok(()) };
        let epoch = Arc::clone(&finding.epoch);
        let durable = Arc::new(self.session.durable(epoch.cut));
        let mut trouble = None;
        let mut last = None;
        let mut fails = |state: &State| {
            let job = self.job(1, Arc::clone(&durable), &epoch, state);
            match workers::one(&self.place, &self.check, job) {
                Ok(checked) => {
                    let bad = matches!(checked.verdict, Verdict::Bad(_));
                    if bad {
                        last = Some((state.clone(), checked));
                    }
                    bad
                }
                Err(error) => {
                    trouble.get_or_insert(error);
                    false
                }
            }
        };
        let (small, used) = minimise(&finding.state, budget, &mut fails);
        if let Some(error) = trouble {
            return Err(cannot(error));
        }
        result.minimised_in = used;
        if let Some((_, checked)) = last.filter(|(state, _)| *state == small) {
            finding.checked = checked;
        }
        finding.state = small;
        Ok(())
    }

    fn job(&self, number: u64, durable: Arc<Extents>, epoch: &Epoch, state: &State) -> Job {
        let name = state.name(self.session.history(), epoch);
        Job {
            number,
            image: self.session.image_over(durable, epoch, state),
            variables: vec![
                ("SEEKLESS_STATE", name.to_string()),
                ("SEEKLESS_FLUSHES", epoch.flushes.to_string()),
            ],
        }
    }
}

fn cannot(error: io::Error) -> Failure {
    Failure::failed(format!("cannot check a state: {error}"))
}

impl Swept {
    /// Counts a checked state; true if it is not good.
    fn note(&mut self, found: Finding) -> bool {
        self.states += u64::from(found.checked.verdict != Verdict::Stopped);
        let place = match found.checked.verdict {
            Verdict::Good | Verdict::Stopped => return false,
            Verdict::Bad(_) => {
                self.bad += 1;
                &mut self.finding
            }
            Verdict::Failed(_) => {
                self.failed += 1;
                &mut self.trouble
            }
            Verdict::Hung => {
                self.hung += 1;
                &mut self.trouble
            }
        };
        if place.as_ref().is_none_or(|first| found.number < first.number) {
            *place = Some(found);
        }
        true
    }
}
