//! `seekless prove --replay`: saved runs again.
//!
//! A directory of saved runs is the memory of every violation that was found. Each of its runs must
//! pass. One that names a planted bug must fail with it: that shows that the replay can fail.

use super::planted::Plant;
use super::saved::{Saveable, Saved};
use super::{Args, Chosen};
use crate::failure::{Exit, Failure, Outcome};
use crate::term::say;
use seekless_prove::ProveReport;
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

std::thread_local! {
    /// The file that this thread replays.
    static FILE: RefCell<PathBuf> = const { RefCell::new(PathBuf::new()) };
}

/// Replays one file and prints the report.
///
/// # Errors
/// If the run breaks a promise, or the file holds none.
pub fn one(file: &Path, args: &Args, out: &mut dyn Write) -> Outcome {
    name_the_file_of_a_panic();
    let saved = Saved::read(file)?;
    let report = again(&saved, file, args.planted())?;
    super::print(&report, (args.json, None), None, out)?;
    if report.violations.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Failed)) }
}

/// Replays all files of a directory.
///
/// # Errors
/// If a run breaks a promise, or does not break one with the bug that it names; if a file holds no
/// run, or the directory has no file.
pub fn all(dir: &Path, jobs: usize, out: &mut dyn Write) -> Outcome {
    name_the_file_of_a_panic();
    let files = files(dir)?;
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![Verdict::default(); files.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(files.len()) {
            scope.spawn(|| {
                while let Some((index, file)) = drawn(&next, &files) {
                    let verdict = judge(file);
                    verdicts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index] =
                        verdict;
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    tell(dir, &files, &verdicts, out)
}

fn drawn<'f>(next: &AtomicUsize, files: &'f [PathBuf]) -> Option<(usize, &'f Path)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    files.get(index).map(|file| (index, file.as_path()))
}

/// What the replay of a file came to.
#[derive(Clone, Debug, Default)]
struct Verdict {
    /// The run was made again with the planted bug that it names.
    planted: bool,
    /// What is wrong.
    wrong: Option<String>,
}

fn judge(file: &Path) -> Verdict {
    let failed = |failure: Failure| Verdict { wrong: Some(failure.cause), planted: false };
    judged(file).unwrap_or_else(failed)
}

fn judged(file: &Path) -> Result<Verdict, Failure> {
    let saved = Saved::read(file)?;
    let report = again(&saved, file, Plant::NONE)?;
    if !report.violations.is_empty() {
        return Ok(Verdict { wrong: Some(report.to_text()), planted: false });
    }
    let plant = saved.plant.as_deref().map(Plant::named).transpose();
    let plant = plant.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    let Some(plant) = plant.flatten() else { return Ok(Verdict::default()) };
    let found = !again(&saved, file, plant)?.violations.is_empty();
    let bug = saved.plant.unwrap_or_default();
    let wrong = (!found).then(|| format!("the run passes with the planted bug {bug}"));
    Ok(Verdict { planted: true, wrong })
}

fn tell(dir: &Path, files: &[PathBuf], verdicts: &[Verdict], out: &mut dyn Write) -> Outcome {
    for (file, verdict) in files.iter().zip(verdicts) {
        if let Some(wrong) = &verdict.wrong {
            writeln!(out, "{}: {}\n", file.display(), wrong.trim_end())?;
        }
    }
    let bad = |(file, verdict): (&PathBuf, &Verdict)| {
        verdict.wrong.as_ref().map(|_| file.display().to_string())
    };
    let bad: Vec<String> = files.iter().zip(verdicts).filter_map(bad).collect();
    if !bad.is_empty() {
        let (count, all) = (bad.len(), files.len());
        let cause = format!("{count} of {all} saved runs fail: {}", bad.join(", "));
        return Err(Failure::failed(cause));
    }
    let planted = verdicts.iter().filter(|verdict| verdict.planted).count();
    let dir = dir.display();
    writeln!(out, "{dir}: {} saved runs pass, {planted} fail with their planted bug", files.len())?;
    Ok(())
}

/// The files of a directory that may hold runs, by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot read {}: {error}", dir.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let cause = format!("{} has no saved runs (*.json)", dir.display());
        return Err(Failure::failed(cause).hint("`seekless prove --save FILE` writes one"));
    }
    Ok(files)
}

/// Runs a saved run with a bug planted, or without.
fn again(saved: &Saved, file: &Path, plant: Plant) -> Result<ProveReport, Failure> {
    FILE.set(file.to_owned());
    match saved.chosen(file)? {
        Chosen::Block(subject) => replay(saved, subject, file, plant),
        Chosen::Files(subject) => replay(saved, subject, file, plant),
        Chosen::Log(subject) => replay(saved, subject, file, plant),
    }
}

fn replay<S: Saveable>(
    saved: &Saved,
    subject: S,
    file: &Path,
    plant: Plant,
) -> Result<ProveReport, Failure> {
    let recorded = saved.run(file)?;
    let report = plant.with(|| recorded.replay(subject));
    let mut report =
        report.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    for violation in &mut report.violations {
        violation.replay = format!("seekless prove --replay {}", file.display());
    }
    Ok(report)
}

/// A panic is a finding too: print the command that repeats it.
fn name_the_file_of_a_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        FILE.with_borrow(|file| {
            say(&format!("replay: seekless prove --replay {}", file.display()))
        });
    }));
}
