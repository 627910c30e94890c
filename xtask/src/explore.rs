//! The search for rare violations: fresh seeds, sweep after sweep.
//!
//! Every violation becomes a saved run. The folder [`FOUND`] keeps them, and continuous integration
//! replays them all: what was found once is found again.

use crate::prover::{Outcome, Task, run_all, subjects};
use crate::run::{asserting, output, root, run};
use anyhow::{Context as _, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Saved runs of violations, and of planted bugs that show that a replay can fail.
pub const FOUND: &str = "crates/prove/tests/found";
/// Crash states of each sweep.
const STATES: u64 = 20_000;
/// The bug and the subject that show that the search finds something.
const PLANTED: (&str, &str) = ("AckBeforeDurable", "--layout inplace");

/// How long and where to search.
#[derive(Debug)]
struct Search {
    dir: PathBuf,
    subjects: Vec<String>,
    seed: u64,
    /// The last round begins before this time; at least one is made.
    until: Instant,
    plant: Option<String>,
}

/// `cargo xtask ci explore`.
///
/// # Errors
/// If a promise is broken, or the command line is wrong.
pub fn explore(args: &[&str]) -> Result<()> {
    let (mut minutes, mut dir, mut seed, mut plant) = (None, root().join(FOUND), None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = *args.next().with_context(|| format!("{arg} wants a value"))?;
        let number =
            || value.parse::<u64>().with_context(|| format!("{arg}: `{value}` is not a number"));
        match *arg {
            "--minutes" => minutes = Some(number()?),
            "--seed" => seed = Some(number()?),
            "--dir" => dir = PathBuf::from(value),
            "--plant" => plant = Some(value.to_owned()),
            other => bail!(
                "`{other}` is unknown: --minutes N, --seed N, --dir DIR and --plant BUG are known"
            ),
        }
    }
    let minutes = minutes.context("--minutes N says how long to search")?;
    let seed = seed.map_or_else(fresh_seed, Ok)?;
    let program = asserting()?;
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    let subjects = subjects(&program)?;
    search(&program, &Search { dir, subjects, seed, until, plant })
}

/// A seed from the clock.
///
/// # Errors
/// If the clock stands before 1970.
pub fn fresh_seed() -> Result<u64> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is wrong")?;
    Ok(elapsed.as_micros() as u64)
}

/// Sweeps all subjects in turn, with another seed in each round.
fn search(program: &Path, search: &Search) -> Result<()> {
    let Search { dir, subjects, seed, until, plant } = search;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    println!("explore: {} subjects, seed {seed} and those that follow", subjects.len());
    let mut found = Vec::new();
    let (mut states, mut round) = (0, 0);
    // Each round is short, so that the subjects have equal shares when the time is over.
    while round == 0 || Instant::now() < *until {
        let seed = seed.wrapping_add(round);
        let tasks: Vec<Task> = (subjects.iter().enumerate())
            .map(|(index, subject)| Task {
                subject: subject.clone(),
                seed,
                states: STATES,
                save: Some(dir.join(format!("unnamed-{index}"))),
                plant: plant.clone(),
            })
            .collect();
        for outcome in run_all(program, &tasks)? {
            states += outcome.number("states");
            found.extend(keep(&outcome, dir)?);
        }
        round += 1;
    }
    println!("explore: {states} crash states in {round} rounds");
    if !found.is_empty() {
        let names: Vec<String> = found.iter().map(|file| file.display().to_string()).collect();
        bail!("{} violations were found and saved: {}", found.len(), names.join(", "));
    }
    Ok(())
}

/// Names the saved run of a violation after its subject, seed and case.
fn keep(outcome: &Outcome, dir: &Path) -> Result<Option<PathBuf>> {
    if outcome.number("violations") == 0 {
        return Ok(None);
    }
    let case = outcome.report["stories"][0]["case"].as_u64().context("a violation has no case")?;
    let Task { subject, seed, save, .. } = &outcome.task;
    let file = dir.join(format!("{}-{seed}-{case}.json", name(subject)));
    let saved = save.as_deref().context("the sweep was to save its violation")?;
    std::fs::rename(saved, &file).with_context(|| format!("nothing is in {}", saved.display()))?;
    println!("    saved: {}", file.display());
    Ok(Some(file))
}

/// Arguments that choose a subject, as a part of a file's name.
fn name(subject: &str) -> String {
    let words = subject.split([' ', '-']).filter(|word| !word.is_empty() && *word != "layout");
    words.collect::<Vec<_>>().join("-")
}

/// Replays all saved runs.
///
/// # Errors
/// If one breaks a promise, or passes with the planted bug that it names.
pub fn replay() -> Result<()> {
    let program = asserting()?;
    run(Command::new(program).args(["prove", "--replay"]).arg(root().join(FOUND)))
}

/// Checks, with a planted bug, that a search saves what it finds, and that the saved run fails
/// again with the bug and passes without.
///
/// # Errors
/// If the search finds nothing, or the saved run does not do that.
pub fn finds() -> Result<()> {
    let program = asserting()?;
    let dir = std::env::temp_dir().join(format!("seekless-explore-{}", std::process::id()));
    let (bug, subject) = PLANTED;
    let options = Search {
        dir: dir.clone(),
        subjects: vec![subject.to_owned()],
        seed: 1,
        until: Instant::now(),
        plant: Some(bug.to_owned()),
    };
    let found = search(&program, &options);
    let checked = match found {
        Err(_) => check_saved(&program, &dir, bug),
        Ok(()) => bail!("a search with {bug} planted finds nothing"),
    };
    std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    checked?;
    println!("explore: a run saved with {bug} fails again with it, and passes without");
    Ok(())
}

fn check_saved(program: &Path, dir: &Path, bug: &str) -> Result<()> {
    let mut files = std::fs::read_dir(dir)?;
    let file = files.next().context("nothing was saved")??.path();
    let replay = |plant: &[&str]| {
        let mut prove = Command::new(program);
        output(prove.args(["prove", "--replay"]).arg(&file).args(plant))
    };
    ensure!(replay(&["--plant", bug])?.status.code() == Some(1), "the saved run passes with {bug}");
    ensure!(replay(&[])?.status.success(), "the saved run fails without {bug}");
    ensure!(
        output(Command::new(program).args(["prove", "--replay"]).arg(dir))?.status.success(),
        "the saved run fails as one of a directory"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_their_subject() {
        assert_eq!(name("--layout vlog --raid 5 --members 3"), "vlog-raid-5-members-3");
        assert_eq!(name("--fs ffs --policy soft"), "fs-ffs-policy-soft");
    }
}
