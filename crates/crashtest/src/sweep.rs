//! A sweep: the check is run on every crash state of a recording that the bounds choose.
//!
//! Start with [`Sweep::run`]. [`walk`] orders the states, [`contents`] finds those that are equal,
//! [`probes`] asks first whether the check can be trusted, [`results`] keeps verdicts on disk, and
//! [`example`] makes one bad state of each kind small and tells it.
//!
//! A state whose bytes and acknowledgements equal those of another one is not checked again: it has
//! the verdict of the other.

mod contents;
pub mod example;
pub mod probes;
pub mod results;
pub mod tell;
mod walk;
pub mod whole;

use crate::replay::check::Verdict;
use crate::replay::workers::{Acked, Bench, Job, Judged};
use crate::report::Kind;
use crate::session::{CrashImage, Session};
use crate::states::choose::Bounds;
use crate::states::history::Epoch;
use crate::states::names;
use crate::states::state::{Name, State};
use results::{Key, Results, ResultsError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use walk::{Candidate, Space, Walk};

/// Bytes of a check's output that are kept of each state.
const MOST_OUTPUT: usize = 2 << 10;

/// A share of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `count`.
    pub index: u32,
    /// Number of shards.
    pub count: u32,
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Shard = Shard { index: 1, count: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        parts
            .filter(|shard| shard.index >= 1 && shard.index <= shard.count)
            .ok_or_else(|| format!("`{text}` is no shard: write I/N with I from 1 to N, as in 2/8"))
    }
}

/// What is tried, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which states.
    pub bounds: Bounds,
    /// Event of the recording behind which the power may go.
    pub begin: u64,
    /// Checks are told what was acknowledged. Else only consistency is checked.
    pub acknowledgements: bool,
    /// Checks at once.
    pub workers: usize,
    /// Time for the states, without examples.
    pub budget: Option<Duration>,
    /// Share of the states.
    pub shard: Shard,
    /// End at the first state that is not good.
    pub fail_fast: bool,
    /// Percentage of the states that is enough for success.
    pub enough_percent: Option<f64>,
}

/// Why a sweep ended early, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A state could not be presented, or a check not be started.
    #[error("cannot check a state: {0}")]
    Os(#[from] io::Error),
    /// Verdicts cannot be kept.
    #[error(transparent)]
    Results(#[from] ResultsError),
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// The verdict.
    pub kind: Kind,
    /// Exit code of the check, if it ended with one.
    pub exit: Option<i32>,
    /// The end of what the check printed; empty for good states.
    pub output: String,
}

impl Tried {
    fn of(judged: &Judged) -> Option<Tried> {
        let (kind, exit, why) = match &judged.checked.verdict {
            Verdict::Stopped => return None,
            Verdict::Good => (Kind::Good, Some(0), ""),
            Verdict::Bad(code) if judged.only_lost => (Kind::Lost, Some(*code), ""),
            Verdict::Bad(code) => (Kind::Broken, Some(*code), ""),
            Verdict::Wavers(code) => (Kind::Wavers, Some(*code), ""),
            Verdict::Failed(why) => (Kind::Failed, None, why.as_str()),
            Verdict::Hung => (Kind::Hung, None, "the check took too long"),
        };
        let output = match kind {
            Kind::Good => String::new(),
            _ => [tail(&judged.checked.output), why].join(""),
        };
        Some(Tried { kind, exit, output })
    }
}

/// The end of a text, from a character on.
fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(MOST_OUTPUT);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// A state of the sweep.
#[derive(Clone, Debug)]
pub struct Row {
    /// Short name.
    pub name: String,
    /// The power goes right before this event.
    pub cut: u64,
    /// Acknowledgements before it.
    pub acked: u64,
    /// Index of the row with the same content, if this is not the first one.
    pub same_as: Option<usize>,
    /// What the check came to; `None` if the sweep ended before.
    pub tried: Option<Tried>,
    /// The state, unless it is good or has the content of another one.
    pub state: Option<(Arc<Epoch>, State)>,
}

/// What a sweep found.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// The states that were tried, or are equal to one that was.
    pub rows: Vec<Row>,
    /// Flush boundaries.
    pub boundaries: u64,
    /// States that the bounds choose, in all shards.
    pub space: u64,
    /// Those of this shard.
    pub share: u64,
    /// All states of this shard were tried.
    pub is_complete: bool,
    /// How long it took.
    pub took: Duration,
}

impl Swept {
    /// Number of states of this kind, with those that are equal to one.
    pub fn count(&self, kind: Kind) -> u64 {
        self.rows.iter().filter(|row| row.tried.as_ref().is_some_and(|t| t.kind == kind)).count()
            as u64
    }
}

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// States tried, with those equal to one.
    pub done: u64,
    /// States of this shard.
    pub space: u64,
    /// Those that are not good.
    pub bad: u64,
}

/// A sweep of a recording.
#[derive(Clone, Copy)]
pub struct Sweep<'s> {
    /// The recording.
    pub session: &'s Session,
    /// Where states are checked.
    pub bench: Bench<'s>,
    /// What is tried.
    pub options: &'s Options,
}

impl Sweep<'_> {
    /// Checks all chosen states.
    ///
    /// # Errors
    /// If states cannot be presented as files, the check cannot be started or verdicts not be kept.
    pub fn run(
        &self,
        results: Option<&mut Results>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Swept, SweepError> {
        let began = Instant::now();
        let space = Space::of(self.session, self.options);
        let end = self.options.budget.map(|budget| began + budget);
        let mut run = Run {
            sweep: self,
            rows: Vec::new(),
            keys: Vec::new(),
            first: BTreeMap::new(),
            results,
            trouble: None,
            progress: Progress { space: space.share, ..Progress::default() },
            is_over: false,
        };
        let mut walk = Walk::new(self.session, self.options);
        let mut is_complete = false;
        let shared = std::cell::RefCell::new(&mut run);
        let mut next = || {
            loop {
                if end.is_some_and(|end| Instant::now() >= end) || shared.borrow().is_over {
                    return None;
                }
                match walk.next() {
                    Ok(Some(candidate)) => {
                        if let Some(job) = shared.borrow_mut().begin(candidate) {
                            return Some(job);
                        }
                    }
                    Ok(None) => {
                        is_complete = true;
                        return None;
                    }
                    Err(error) => {
                        shared.borrow_mut().fail(error.into());
                        return None;
                    }
                }
            }
        };
        let mut done = |number: u64, judged: Judged| {
            let mut run = shared.borrow_mut();
            run.end(number, &judged);
            progress(run.progress);
            match run.is_over {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        self.bench.all(self.options.workers, &mut next, &mut done)?;
        if let Some(error) = run.trouble {
            return Err(error);
        }
        let is_stopped = run.is_over;
        Ok(Swept {
            rows: with_verdicts_of_equals(run.rows),
            boundaries: space.boundaries,
            space: space.states,
            share: space.share,
            is_complete: is_complete && !is_stopped,
            took: began.elapsed(),
        })
    }

    /// Checks one state.
    ///
    /// # Errors
    /// If it cannot be presented as a file, or the check cannot be started.
    pub fn only(&self, epoch: &Epoch, state: &State) -> Result<Row, SweepError> {
        let image = self.session.ground_at(epoch.cut).state(self.session, epoch, state);
        self.only_of(image, epoch, state, true)
    }

    /// The same, given its content; without `is_settled` a bad state is not checked again.
    fn only_of(
        &self,
        image: CrashImage,
        epoch: &Epoch,
        state: &State,
        is_settled: bool,
    ) -> Result<Row, SweepError> {
        let name = state.name(self.session.history(), epoch);
        let job = self.job(0, &name, epoch.cut, image);
        let judged = if is_settled { self.bench.judge(job) } else { self.bench.judge_once(job) }?;
        Ok(Row {
            name: names::short(&name),
            cut: epoch.cut,
            acked: epoch.acked,
            same_as: None,
            tried: Tried::of(&judged),
            state: Some((Arc::new(epoch.clone()), state.clone())),
        })
    }

    fn job(&self, number: u64, name: &Name, cut: u64, image: CrashImage) -> Job {
        Job { number, image, name: names::short(name), acked: self.acked(cut) }
    }

    /// What a check is told of a cut before this event.
    fn acked(&self, cut: u64) -> Acked {
        if !self.options.acknowledgements {
            return Acked::default();
        }
        let history = self.session.history();
        let acked = history.acked(cut);
        let marks = history.marks().iter().take(acked.count as usize);
        let all = marks.flat_map(|mark| [&*mark.value, "\n"]).collect();
        Acked { count: acked.count, last: acked.last.map(str::to_owned), all }
    }
}

/// States that were not checked take the verdict of the one that they are equal to. Those without a
/// verdict, because the sweep was stopped, are left out.
fn with_verdicts_of_equals(mut rows: Vec<Row>) -> Vec<Row> {
    for index in 0..rows.len() {
        if let Some(first) = rows[index].same_as {
            debug_assert!(first < index, "a state is equal to an earlier one");
            rows[index].tried = rows[first].tried.clone();
        }
    }
    let mut place = vec![0; rows.len()];
    let mut left = 0;
    for (index, row) in rows.iter().enumerate() {
        place[index] = left;
        left += usize::from(row.tried.is_some());
    }
    rows.retain(|row| row.tried.is_some());
    rows.iter_mut().for_each(|row| row.same_as = row.same_as.map(|first| place[first]));
    rows
}

/// A sweep under way.
struct Run<'r, 's> {
    sweep: &'r Sweep<'s>,
    rows: Vec<Row>,
    /// Of each row.
    keys: Vec<Key>,
    /// The first row with a content.
    first: BTreeMap<Key, usize>,
    results: Option<&'r mut Results>,
    trouble: Option<SweepError>,
    progress: Progress,
    is_over: bool,
}

impl Run<'_, '_> {
    fn fail(&mut self, error: SweepError) {
        self.trouble.get_or_insert(error);
        self.is_over = true;
    }

    /// Adds a state; the job that checks it, unless its verdict is known.
    fn begin(&mut self, candidate: Candidate) -> Option<Job> {
        let Candidate { epoch, state, image, contents } = candidate;
        let acked = if self.sweep.options.acknowledgements { epoch.acked } else { 0 };
        let (number, key) = (self.rows.len(), (contents, acked));
        let name = state.name(self.sweep.session.history(), &epoch);
        let mut row = Row {
            name: names::short(&name),
            cut: epoch.cut,
            acked: epoch.acked,
            same_as: self.first.get(&key).copied(),
            tried: None,
            state: None,
        };
        self.keys.push(key);
        if row.same_as.is_some() {
            self.progress.done += 1;
            self.rows.push(row);
            return None;
        }
        self.first.insert(key, number);
        row.state = Some((Arc::clone(&epoch), state));
        let known = self.results.as_ref().and_then(|results| results.get(key)).cloned();
        self.rows.push(row);
        if let Some(tried) = known {
            self.note(number, tried);
            return None;
        }
        Some(self.sweep.job(number as u64, &name, epoch.cut, image))
    }

    /// Notes a result.
    fn end(&mut self, number: u64, judged: &Judged) {
        let number = number as usize;
        let Some(tried) = Tried::of(judged) else {
            self.is_over = true;
            return;
        };
        if let Some(results) = self.results.as_mut()
            && let Err(error) = results.put(self.keys[number], &tried)
        {
            self.fail(error.into());
        }
        self.note(number, tried);
    }

    fn note(&mut self, number: usize, tried: Tried) {
        self.progress.done += 1;
        let row = &mut self.rows[number];
        if tried.kind == Kind::Good {
            // Good states are many, and no report needs their fates.
            row.state = None;
        } else {
            self.progress.bad += 1;
            self.is_over |= self.sweep.options.fail_fast;
        }
        row.tried = Some(tried);
    }
}

#[cfg(test)]
mod tests;
