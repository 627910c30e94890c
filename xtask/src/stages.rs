//! Stages of continuous integration: each has a name, a time and an outcome.
//!
//! One runner times all of them. A usual run stops at the first stage that fails; a nightly run
//! goes on, and its error names every stage that failed. A run that takes hours notes what has
//! passed: one that is broken off is resumed where it was, as long as the tree is the same.

use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Rows of a table of the slowest.
const SLOWEST: usize = 10;

/// What to do after a stage that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// Leave out the stages that follow.
    Stop,
    /// Run them.
    GoOn,
}

/// The stages that were run.
#[derive(Debug)]
pub struct Stages {
    after_failure: AfterFailure,
    done: Vec<Stage>,
    passed: Option<Passed>,
}

/// The stages that have passed in earlier runs of the same tree, in a file: a line that names the
/// tree, then one for each stage.
#[derive(Debug)]
struct Passed {
    file: PathBuf,
    text: String,
}

impl Passed {
    fn has(&self, name: &str) -> bool {
        self.text.lines().skip(1).any(|line| line == name)
    }

    fn add(&mut self, name: &str) -> Result<()> {
        self.text += &format!("{name}\n");
        let why = || format!("cannot write {}", self.file.display());
        std::fs::write(&self.file, &self.text).with_context(why)
    }
}

#[derive(Debug)]
struct Stage {
    name: String,
    took: Duration,
    failure: Option<String>,
}

impl Stages {
    /// None yet.
    pub fn new(after_failure: AfterFailure) -> Stages {
        Stages { after_failure, done: Vec::new(), passed: None }
    }

    /// None yet, but for those that have passed for this tree according to a file. A stage that
    /// fails does not keep the others from running.
    pub fn resumed(file: PathBuf, tree: &str) -> Stages {
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        let text = if known.lines().next() == Some(tree) { known } else { format!("{tree}\n") };
        Stages { passed: Some(Passed { file, text }), ..Stages::new(AfterFailure::GoOn) }
    }

    /// Runs a stage.
    ///
    /// # Errors
    /// That of the stage, if the stages that follow are to be left out.
    pub fn run(&mut self, name: &str, stage: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.passed.as_ref().is_some_and(|passed| passed.has(name)) {
            eprintln!("== {name} has passed in an earlier run");
            return Ok(());
        }
        eprintln!("== {name}");
        let begin = Instant::now();
        let outcome = stage();
        let failure = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            eprintln!("== {name} failed: {failure}");
        }
        if let Some(passed) = self.passed.as_mut().filter(|_| failure.is_none()) {
            passed.add(name)?;
        }
        self.done.push(Stage { name: name.to_owned(), took: begin.elapsed(), failure });
        match self.after_failure {
            AfterFailure::Stop => outcome,
            AfterFailure::GoOn => Ok(()),
        }
    }

    /// The slowest stages, the slowest first.
    pub fn table(&self) -> String {
        let rows = self.done.iter().map(|stage| (stage.took, stage.name.as_str()));
        slowest("stages", rows.collect())
    }

    /// The verdict on all stages.
    ///
    /// # Errors
    /// The names of the stages that failed, with their times and errors.
    pub fn finish(&self) -> Result<()> {
        let mut failed = String::new();
        let mut count = 0;
        for Stage { name, took, failure } in &self.done {
            if let Some(failure) = failure {
                count += 1;
                // Writing to a string cannot fail.
                let _ = write!(failed, "\n  {name}, after {:.1} s: {failure}", took.as_secs_f64());
            }
        }
        if count > 0 {
            bail!("{count} of {} stages failed:{failed}", self.done.len());
        }
        Ok(())
    }
}

/// A table of what took longest.
pub fn slowest(what: &str, mut rows: Vec<(Duration, &str)>) -> String {
    rows.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    let total: Duration = rows.iter().map(|(took, _)| *took).sum();
    let mut out = format!("slowest {what}, of {:.1} s in all:\n", total.as_secs_f64());
    for (took, name) in rows.into_iter().take(SLOWEST) {
        let _ = writeln!(out, "{:>8.1} s  {name}", took.as_secs_f64());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail() -> Result<()> {
        bail!("broken")
    }

    #[test]
    fn a_failed_stage_ends_a_usual_run() {
        let mut stages = Stages::new(AfterFailure::Stop);
        assert!(stages.run("good", || Ok(())).is_ok());
        assert!(stages.finish().is_ok());
        assert!(stages.run("bad", fail).is_err());
    }

    #[test]
    fn a_nightly_run_goes_on_and_names_what_failed() {
        let mut stages = Stages::new(AfterFailure::GoOn);
        assert!(stages.run("bad", fail).is_ok());
        assert!(stages.run("good", || Ok(())).is_ok());
        assert!(stages.run("worse", fail).is_ok());
        let error = stages.finish().expect_err("two failed").to_string();
        assert!(error.starts_with("2 of 3 stages failed:"), "{error}");
        assert!(error.contains("bad, after") && error.contains("worse, after"), "{error}");
        assert!(!error.contains("good"), "{error}");
    }

    #[test]
    fn what_has_passed_is_not_run_again_in_the_same_tree() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("passed");
        let runs = |tree: &str, outcome: fn() -> Result<()>| {
            let mut stages = Stages::resumed(file.clone(), tree);
            let mut ran = Vec::new();
            for name in ["first", "second"] {
                stages
                    .run(name, || {
                        ran.push(name);
                        if name == "second" { outcome() } else { Ok(()) }
                    })
                    .expect("a failure does not end it");
            }
            (ran, stages.finish().is_ok())
        };
        assert_eq!(runs("one", fail), (vec!["first", "second"], false));
        assert_eq!(runs("one", || Ok(())), (vec!["second"], true), "what failed runs again");
        assert_eq!(runs("one", fail), (vec![], true));
        assert_eq!(runs("two", fail), (vec!["first", "second"], false), "another tree");
    }

    #[test]
    fn the_slowest_come_first() {
        let seconds = |count| Duration::from_secs(count);
        let names: Vec<String> = (0..12).map(|index| format!("stage-{index}")).collect();
        let rows = names.iter().zip(0..).map(|(name, took)| (seconds(took), name.as_str()));
        let table = slowest("stages", rows.collect());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "slowest stages, of 66.0 s in all:");
        assert_eq!((lines[1], lines.len()), ("    11.0 s  stage-11", 1 + SLOWEST));
    }
}
