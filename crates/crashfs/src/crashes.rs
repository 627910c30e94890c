//! The crashes that a recorded run could have had, and a check of each.
//!
//! Before crash states come probes: a check that fails on the disk at the end, or that passes
//! without the data that was acknowledged, says nothing about crashes. Then each model is swept on
//! its own. A sweep ends at its first bad state, which is made small and told.

mod bench;
mod epochs;
mod report;
mod story;

pub use report::{CheckError, ModelReport, Probe, Report};

use crate::disk::Disk;
use bench::{Acked, Bench};
use epochs::{Bounds, Epoch, epochs};
use seekless_calls::model::{Model, Modelled, Recorded, Tree, Trees};
use seekless_crash::Fate;
use seekless_crash::shrink::minimise_among;
use std::error::Error;
use std::sync::Arc;

/// How often the check is asked at most to make a bad state small.
const SHRINK_BUDGET: usize = 400;

/// Crash states that wait for a check.
#[derive(Debug)]
pub struct Crashes<'d, A> {
    disk: &'d Disk<A>,
    models: Vec<Model>,
    bounds: Bounds,
}

impl<A> Disk<A> {
    /// The crashes that the runs so far could have had, under these models.
    pub fn crashes(&self, models: impl IntoIterator<Item = Model>) -> Crashes<'_, A> {
        let models = models.into_iter().collect();
        Crashes { disk: self, models, bounds: Bounds::default() }
    }
}

impl<'d, A> Crashes<'d, A> {
    /// Tries all combinations of this many pending changes, at most 20. The default is 4.
    #[must_use]
    pub fn exhaustive(mut self, changes: u32) -> Crashes<'d, A> {
        self.bounds.exhaustive = changes.min(20) as usize;
        self
    }

    /// Tries this many combinations where there are more changes. The default is 24.
    #[must_use]
    pub fn samples(mut self, samples: u32) -> Crashes<'d, A> {
        self.bounds.samples = samples as usize;
        self
    }

    /// The seed of the samples. The default is 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Crashes<'d, A> {
        self.bounds.seed = seed;
        self
    }
}

impl<A: Clone> Crashes<'_, A> {
    /// Gives each crash state to a check. The check opens the product with what is on the disk and
    /// compares it with what was acknowledged before the power went. What it writes is discarded.
    ///
    /// A check may find more than was acknowledged: work on its way. A later acknowledgement must
    /// not release an earlier one. A panic of the check is an error of it.
    ///
    /// Named file systems decide. [`Model::POSIX`] informs, unless it is the only model.
    ///
    /// # Errors
    /// If a model that decides has a bad state, or the check cannot be trusted.
    pub fn check(
        self,
        mut check: impl FnMut(&[A]) -> Result<(), Box<dyn Error>>,
    ) -> Result<Report, CheckError> {
        let (recorded, acks) = self.recorded()?;
        let first = *self.models.first().ok_or(CheckError::NoModel)?;
        let mut bench = Bench::new(self.disk, acks, &mut check);
        probe(&mut bench, &Modelled::new(Arc::clone(&recorded), first))?;
        let sweep_one = |&model: &Model| {
            sweep(&mut bench, &Modelled::new(Arc::clone(&recorded), model), &self.bounds)
        };
        let models = self.models.iter().map(sweep_one).collect();
        let report = Report { models };
        if report.is_red() { Err(CheckError::Red(report)) } else { Ok(report) }
    }

    fn recorded(&self) -> Result<(Arc<Recorded>, Vec<A>), CheckError> {
        let state = self.disk.volume().lock();
        let (recording, acks) = (state.recording(), self.disk.acks().clone());
        drop(state);
        let recorded = Recorded::read(&recording.entries)?;
        let is_of_run = recorded.micros.last().is_some_and(|last| last.asked > recorded.begin);
        match recording.has_begun && is_of_run {
            true => Ok((Arc::new(recorded), acks)),
            false => Err(CheckError::NoChange),
        }
    }
}

/// Asks whether the check can be trusted.
fn probe<A>(bench: &mut Bench<'_, A>, modelled: &Modelled) -> Result<(), CheckError> {
    let (end, start) = (modelled.whole(), modelled.trees().tree(|_| false));
    let all = bench.all();
    let wrong = |probe| move |said| CheckError::Untrusted { probe, said };
    bench.verdict(&end, all).map_err(wrong(Probe::EndState))?;
    bench.verdict(&start, Acked(0)).map_err(wrong(Probe::StartState))?;
    match bench.verdict(&start, all) {
        Ok(()) if all != Acked(0) => Err(wrong(Probe::MissingData)(String::new())),
        _ => Ok(()),
    }
}

/// Tries the states of a model up to the first bad one.
fn sweep<A>(bench: &mut Bench<'_, A>, modelled: &Modelled, bounds: &Bounds) -> ModelReport {
    let (mut trees, mut states, mut cuts) = (modelled.trees(), 0, 0);
    for epoch in epochs(modelled) {
        cuts += 1;
        trees.advance(epoch.cut);
        for fates in epoch.choose(modelled, bounds) {
            states += 1;
            let verdict = bench.verdict(&tree(&trees, &epoch, &fates), Acked(epoch.acked));
            if let Err(said) = verdict {
                let story = tell(bench, (modelled, &trees, &epoch), &fates, said);
                return ModelReport { model: modelled.model(), states, cuts, bad: Some(story) };
            }
        }
    }
    ModelReport { model: modelled.model(), states, cuts, bad: None }
}

/// What a program finds if its pending changes met these fates.
fn tree(trees: &Trees<'_>, epoch: &Epoch, fates: &[Fate]) -> Tree {
    let kept = epoch.kept(fates);
    trees.tree(|index| kept.contains(index))
}

/// The story of a bad state that is as small as the budget makes it.
fn tell<A>(
    bench: &mut Bench<'_, A>,
    (modelled, trees, epoch): (&Modelled, &Trees<'_>, &Epoch),
    fates: &[Fate],
    said: String,
) -> String {
    let mut said = said;
    let writes = epoch.at_risk(modelled);
    let mut fails = |fates: &[Fate]| {
        let verdict = bench.verdict(&tree(trees, epoch, fates), Acked(epoch.acked));
        verdict.is_err()
    };
    let (small, _) = minimise_among(&writes, fates, SHRINK_BUDGET, &mut fails);
    if let Err(last) = bench.verdict(&tree(trees, epoch, &small), Acked(epoch.acked)) {
        said = last;
    }
    story::story(modelled, epoch, &small, &said)
}
