//! A sweep: case after case until enough crash states have been tried.
//!
//! A case depends on nothing but the options and its number, so cases may be run in any order and
//! on several processors ([`Sweep::run`]). Their results are taken in order of their numbers
//! ([`Sweep::take`]), and those behind the end are dropped: the report does not depend on how many
//! were run at a time.

use crate::keep::Keep;
use crate::run::{Found, Run};
use crate::subject::Subject;
use crate::{ProveOptions, ProveReport, shrink};

/// Violations that are made small: others mostly come from the same bug, and naming their case
/// makes them small as well.
const MOST_SHRUNK: usize = 3;
/// A hundred broken promises tell as much as a million.
const MOST_VIOLATIONS: usize = 100;

/// What one case came to.
#[derive(Debug)]
pub struct Tried {
    case: u64,
    /// What it has counted.
    counts: ProveReport,
    /// The operations that were run, and what broke.
    found: Option<(Keep, Found)>,
}

impl Tried {
    /// Number of the case.
    pub fn case(&self) -> u64 {
        self.case
    }

    /// True if it broke a promise.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }
}

/// The cases of a sweep, and what those that were taken came to.
#[derive(Debug)]
pub struct Sweep<'o, S> {
    options: &'o ProveOptions<S>,
    report: ProveReport,
    next: u64,
    end: u64,
}

impl<'o, S: Subject> Sweep<'o, S> {
    /// Nothing is tried yet.
    pub fn new(options: &'o ProveOptions<S>) -> Sweep<'o, S> {
        let all = options.subject.cases().unwrap_or(u64::MAX);
        let (next, end) = match options.case {
            Some(case) => (case, all.min(case.saturating_add(1))),
            None => {
                let runs = options.runs.unwrap_or(u64::MAX);
                (options.from, all.min(options.from.saturating_add(runs)))
            }
        };
        Sweep { options, report: ProveReport::new(options), next, end }
    }

    /// The case to be taken next; none at the end.
    pub fn next(&self) -> Option<u64> {
        (self.next < self.end).then_some(self.next)
    }

    /// The first case that is none of the sweep's.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// What the cases that were taken came to.
    pub fn report(&self) -> &ProveReport {
        &self.report
    }

    /// Runs a case.
    pub fn run(options: &ProveOptions<S>, case: u64) -> Tried {
        let mut counts = ProveReport::new(options);
        let mut run = Run::new(options.subject, case, options.seed);
        let keep = match &options.keep {
            None => Keep::operations(0..run.script().len() as u32),
            Some(keep) => {
                run = run.thorough().watching(keep.watch());
                keep.clone()
            }
        };
        let operations = keep.of(run.script());
        let found = run.execute(&operations, &mut counts);
        counts.cases = 1;
        counts.profiles.insert(run.workload(), 1);
        Tried { case, counts, found: found.map(|found| (keep, found)) }
    }

    /// Adds what the next case came to, and makes a violation small.
    ///
    /// # Panics
    /// If it is another case.
    pub fn take(&mut self, tried: Tried) {
        let Tried { case, counts, found } = tried;
        assert_eq!(Some(case), self.next(), "cases are taken in order");
        let Sweep { options, report, .. } = self;
        report.add(&counts);
        if let Some((keep, found)) = found {
            let shrinks = options.shrink && report.violations.len() < MOST_SHRUNK;
            report.violations.push(if shrinks {
                shrink::shrink(options, case, keep, found)
            } else {
                shrink::tell(options, case, options.keep.clone(), found)
            });
        }
        self.next += 1;
        let found = options.stop_at_first && !report.violations.is_empty();
        let enough = report.states >= options.states || report.violations.len() >= MOST_VIOLATIONS;
        if found || enough {
            self.end = self.next;
        }
    }

    /// The report, of a sweep that took so many nanoseconds.
    pub fn finish(self, elapsed: u64) -> ProveReport {
        let mut report = self.report;
        report.states_per_second = report.states as f64 * 1e9 / elapsed.max(1) as f64;
        report
    }
}
