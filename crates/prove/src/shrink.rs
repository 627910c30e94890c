//! Makes a violation small: leaves out what it does not need, then tells it as a story.

use crate::keep::Keep;
use crate::oracle::Heard;
use crate::run::{Found, Run};
use crate::script::{Operation, Request};
use crate::subject::Subject;
use crate::{ProveOptions, ProveReport, Sort, Violation};
use seekless_crash::shrink::{Case, Halving, leave_out};
use std::ops::Range;

/// Work done to make one violation smaller, in blocks recovered: a few seconds.
const MOST_WORK: u64 = 15_000_000;
/// A trial ends after so many times the work in which the best one known broke the promise, and
/// some more: what takes much longer will most likely never do it.
const PATIENCE: u64 = 3;
const LEAST_TRIAL: u64 = 50_000;
/// Work that a new run is, however short it is.
const RUN_WORK: u64 = 1_000;
/// A trial tries crash states during its last operations only. What a violation needs comes before;
/// where it shows is the end, since what comes after that is left out.
const WATCHED: usize = 4;
/// Operations up to which a story tells all of them, and how many it tells of a longer one.
const WHOLE_STORY: usize = 40;

/// A case that breaks a promise, and how much has been done to make it small.
struct Shrinker<'o, S> {
    options: &'o ProveOptions<S>,
    case: u64,
    work: u64,
    /// Work that may be done in all, and by one trial.
    most_work: u64,
    trial: u64,
    /// Trials try more states than a sweep.
    thorough: bool,
    best: (Keep, Found),
}

impl<S: Subject> Shrinker<'_, S> {
    /// Runs some of the operations and tries states during the last ones; they become the best
    /// known ones if they break the same promise.
    fn try_with(&mut self, keep: &Keep) -> bool {
        self.try_watching(keep.watching(WATCHED))
    }

    fn try_watching(&mut self, keep: Keep) -> bool {
        if self.is_spent() {
            return false;
        }
        let most_work = self.trial.min(self.most_work - self.work);
        let mut scratch = ProveReport::new(self.options);
        let mut run = Run::new(self.options.subject, self.case, self.options.seed)
            .watching(keep.watch())
            .searching(self.best.1.wrong.sort, most_work);
        if self.thorough {
            run = run.thorough();
        }
        let operations = keep.of(run.script());
        let found = run.execute(&operations, &mut scratch);
        self.work += RUN_WORK + run.work();
        match found {
            Some(found) if found.wrong.sort == self.best.1.wrong.sort => {
                self.trial = PATIENCE * run.work() + LEAST_TRIAL;
                // What comes after the end needs no operations.
                self.best = (upto(keep, found.operation), found);
                true
            }
            _ => false,
        }
    }

    /// Leaves out operations, the largest parts first, down to single ones.
    fn leave_out(&mut self) {
        leave_out(self, Halving::FromHalf);
    }

    /// Makes the requests that are left as short as they may be.
    fn shorten(&mut self) {
        let run = Run::new(self.options.subject, self.case, self.options.seed);
        for index in 0..self.best.0.len() {
            for most in [1, 2, 4, 8] {
                let Some(&number) = self.best.0.numbers().get(index) else { return };
                let length = run.script()[number as usize].length().unwrap_or(0);
                if length <= most || self.try_with(&self.best.0.limited(index, most)) {
                    break;
                }
            }
        }
    }
}

impl<S: Subject> Case for Shrinker<'_, S> {
    fn parts(&self) -> usize {
        self.best.0.len()
    }

    /// Nothing but an empty case would be left without all of them.
    fn try_without(&mut self, parts: Range<usize>) -> bool {
        let keep = &self.best.0;
        parts.len() < keep.len() && self.try_with(&keep.without(parts))
    }

    fn is_spent(&self) -> bool {
        self.work >= self.most_work
    }
}

/// The operations up to one.
fn upto(keep: Keep, operation: u32) -> Keep {
    let needed = keep.numbers().iter().filter(|&&number| number <= operation).count();
    keep.without(needed..keep.len())
}

/// The violation with as little as shows it: first without operations, the largest parts first,
/// then with shorter requests; of each state that breaks the promise as few writes as possible are
/// lost or torn. What is left after a bounded amount of work may be more than it needs; the story
/// says so.
pub fn shrink<S: Subject>(
    options: &ProveOptions<S>,
    case: u64,
    keep: Keep,
    found: Found,
) -> Violation {
    let keep = upto(keep, found.operation);
    let mut shrinker = Shrinker {
        options,
        case,
        work: 0,
        most_work: MOST_WORK / 2,
        trial: MOST_WORK,
        thorough: false,
        best: (keep.clone(), found.clone()),
    };
    // A search that tries few states at the end only leaves most out at little cost.
    let plain = shrinker.try_with(&keep);
    if plain {
        shrinker.leave_out();
        shrinker.shorten();
    }
    // A more thorough search must find what is left again: `--keep` searches like that.
    shrinker.thorough = true;
    (shrinker.most_work, shrinker.trial) = (MOST_WORK, MOST_WORK);
    let small = shrinker.best.0.clone();
    let mut again = plain && shrinker.try_watching(small);
    if !again {
        shrinker.best = (keep.clone(), found);
        again = shrinker.try_with(&keep) || shrinker.try_watching(keep);
    }
    if !again {
        let why = match shrinker.is_spent() {
            true => "(nothing is left out: the case is too long to be run once more)",
            false => "(nothing is left out: it shows in the whole case only)",
        };
        let mut whole = tell(options, case, options.keep.clone(), shrinker.best.1);
        whole.story.push(why.to_owned());
        return whole;
    }
    shrinker.leave_out();
    shrinker.shorten();
    shrinker.leave_out();
    let spent = shrinker.is_spent();
    let (keep, found) = shrinker.best;
    let mut small = tell(options, case, Some(keep), found);
    if spent {
        let most = MOST_WORK / 1_000_000;
        small.story.push(format!(
            "(cut short: after {most} million blocks recovered nothing more was left out)"
        ));
    }
    small
}

/// The violation as a story.
pub fn tell<S: Subject>(
    options: &ProveOptions<S>,
    case: u64,
    keep: Option<Keep>,
    found: Found,
) -> Violation {
    let run = Run::new(options.subject, case, options.seed);
    let kept = keep.clone().unwrap_or_else(|| Keep::operations(0..run.script().len() as u32));
    let story = told(run.describe(), &kept.of(run.script()), &found);
    let operations = keep.as_ref().map(|keep| format!(" --keep {keep}")).unwrap_or_default();
    Violation {
        case,
        event: found.event,
        sort: found.wrong.sort,
        story,
        keep: keep.map(|keep| keep.to_string()),
        replay: options.replay(case) + &operations,
    }
}

/// What these operations have led to, a sentence each; the first one describes the run.
pub fn told<R: Request>(
    head: String,
    operations: &[(u32, Operation<R>)],
    found: &Found,
) -> Vec<String> {
    let mut story = vec![head];
    let until = operations.iter().filter(|(number, _)| *number <= found.operation);
    let operations: Vec<_> = until.collect();
    let skipped = operations.len().saturating_sub(WHOLE_STORY);
    if skipped > 0 {
        story.push(format!("({skipped} operations before these)"));
    }
    let Heard { durable, acknowledged } = &found.heard;
    for (number, operation) in &operations[skipped..] {
        let heard = match number {
            number if durable.contains(number) => ": acknowledged, and durable by contract",
            number if acknowledged.contains(number) => ": acknowledged",
            _ => "",
        };
        story.push(format!("#{number} {operation}{heard}"));
    }
    story.push(match found.wrong.sort {
        Sort::Content | Sort::Dead | Sort::Image | Sort::Parity => {
            format!("here the power is cut, after device event {}:", found.event)
        }
        _ => format!("here, after device event {}:", found.event),
    });
    story.extend(found.wrong.story.iter().cloned());
    story
}
