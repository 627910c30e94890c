//! The bounded sweep: power cuts of every layout, array and file system, a function of the tree.
//!
//! Seeds and numbers of states are fixed. A submission fails for what it changed, not for a rare
//! violation that its seed happens to meet; `crate::explore` looks for those.

use crate::prover::{Outcome, Task, activation, is_files, run_all, subjects};
use crate::run::asserting;
use anyhow::{Context as _, Result, bail};
use std::time::Instant;

/// Crash states of the sweep, over all subjects: about 90 seconds on two processors. A subject
/// that is added takes its share of them.
pub const STATES: u64 = 1_900_000;
/// Percentage of them that are crash states of file systems, over all policies.
const FILES_PERCENT: u64 = 20;
/// Seeds of the sweep. Part `n` of the share of a subject has the `n`th one.
const SEEDS: [u64; 4] = [0x5eed_0001, 0x5eed_0002, 0x5eed_0003, 0x5eed_0004];
/// Fewest runs of each subject, for any number of states.
const LEAST_RUNS: u64 = 20;
/// Sequences of one operation, and states of each of them under a log.
const SHORT_RUNS: u64 = 1364;
const SHORT_STATES: u64 = 100;
/// Sweeps that the share of a layout or an array is split into, so that the processors are equally
/// loaded.
const PARTS: u64 = 2;
/// The same of file systems, over all policies.
const FILES_PARTS: u64 = 12;

/// `cargo xtask sweep`.
///
/// # Errors
/// If a promise is broken, or the command line is wrong.
pub fn sweep(args: &[&str]) -> Result<()> {
    let (mut states, mut seeds) = (STATES, Seeds::Fixed);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = *args.next().with_context(|| format!("{arg} wants a value"))?;
        let number: u64 =
            value.parse().with_context(|| format!("{arg}: `{value}` is not a number"))?;
        match *arg {
            "--states" => states = number,
            "--seed" => seeds = Seeds::From(number),
            other => bail!("`{other}` is unknown: --states N and --seed N are known"),
        }
    }
    bounded(states, seeds)
}

/// The seeds of the parts of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seeds {
    /// Those of continuous integration.
    Fixed,
    /// This one and those that follow.
    From(u64),
}

impl Seeds {
    fn of_part(self, part: u64) -> u64 {
        match self {
            // Parts behind the list are those of subjects with few runs.
            Seeds::Fixed => match SEEDS.get(part as usize) {
                Some(seed) => *seed,
                None => SEEDS[SEEDS.len() - 1] + (part + 1 - SEEDS.len() as u64),
            },
            Seeds::From(first) => first.wrapping_add(part),
        }
    }
}

/// How the states are divided among subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    /// Sweeps of each subject that is no file system, and states of each of them.
    blocks: (u64, u64),
    /// The same of each policy of file systems.
    files: (u64, u64),
}

impl Shares {
    fn of(states: u64, subjects: &[String]) -> Shares {
        let policies = subjects.iter().filter(|subject| is_files(subject)).count() as u64;
        let others = subjects.len() as u64 - policies;
        let files = states * FILES_PERCENT / 100;
        let files_parts = FILES_PARTS.div_ceil(policies.max(1));
        let each = |states: u64, sweeps: u64| states.div_ceil(sweeps.max(1));
        Shares {
            blocks: (PARTS, each(states - files, others * PARTS)),
            files: (files_parts, each(files, policies * files_parts)),
        }
    }

    /// Sweeps of a subject, and states of each.
    fn share(&self, subject: &str) -> (u64, u64) {
        if is_files(subject) { self.files } else { self.blocks }
    }
}

/// Proves so many states, divided among all subjects, and more for subjects with few runs.
///
/// # Errors
/// If a promise is broken.
pub fn bounded(states: u64, seeds: Seeds) -> Result<()> {
    // With assertions the sweep is a quarter slower, but a release build takes as long as the whole
    // sweep.
    let program = asserting()?;
    let subjects = subjects(&program)?;
    let shares = Shares::of(states, &subjects);
    let tasks = tasks(&subjects, shares, seeds);
    let each = shares.blocks.1;
    println!("sweep: {seeds:x?}, {} sweeps, most of {each} crash states", tasks.len());
    let begin = Instant::now();
    let mut outcomes = run_all(&program, &tasks)?;
    // The number of states of a run is random.
    for part in shares.blocks.0.max(shares.files.0).. {
        let few = |subject: &&String| runs(&outcomes, subject) < LEAST_RUNS;
        let more = subjects.iter().filter(few);
        let more: Vec<Task> = more.map(|subject| task(subject, shares, seeds, part)).collect();
        if more.is_empty() || states < STATES {
            break;
        }
        outcomes.extend(run_all(&program, &more)?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    verdict(&outcomes, seconds, states * FILES_PERCENT / 100)
}

fn task(subject: &str, shares: Shares, seeds: Seeds, part: u64) -> Task {
    let (_, states) = shares.share(subject);
    let seed = seeds.of_part(part);
    Task { subject: subject.to_owned(), seed, states, save: None, plant: None }
}

/// True for the arguments that choose a policy with a log.
fn has_log(subject: &str) -> bool {
    ["--policy wafs", "--policy lffs"].iter().any(|policy| subject.contains(policy))
}

/// The shares of all subjects, and all sequences of one operation whatever the number of states.
fn tasks(subjects: &[String], shares: Shares, seeds: Seeds) -> Vec<Task> {
    let parts =
        |subject| (0..shares.share(subject).0).map(move |part| task(subject, shares, seeds, part));
    let files = subjects.iter().filter(|subject| is_files(subject));
    let (logged, others): (Vec<&String>, Vec<&String>) = files.partition(|one| has_log(one));
    let short = others.into_iter().map(|subject| Task {
        subject: format!("{subject} --ace 1"),
        states: u64::MAX,
        ..task(subject, shares, seeds, 0)
    });
    // Under a log a sequence takes ten times as long. Each policy takes another part of them.
    let each = SHORT_RUNS.div_ceil(logged.len().max(1) as u64);
    let parts_of_short = logged.into_iter().zip(0..).map(|(subject, part)| Task {
        subject: format!("{subject} --ace 1 --from {}", part * each),
        states: each * SHORT_STATES,
        ..task(subject, shares, seeds, 0)
    });
    let short = short.chain(parts_of_short);
    subjects.iter().flat_map(|subject| parts(subject)).chain(short).collect()
}

/// Prints what the sweep came to; `least` crash states of file systems are wanted.
fn verdict(outcomes: &[Outcome], seconds: f64, least: u64) -> Result<()> {
    let sum = |which: &dyn Fn(&Outcome) -> bool, field| -> u64 {
        outcomes.iter().filter(|one| which(one)).map(|one| one.number(field)).sum()
    };
    let of_files = |one: &Outcome| is_files(&one.task.subject);
    let (total, in_files) = (sum(&|_| true, "states"), sum(&of_files, "states"));
    println!(
        "sweep: {total} crash states in all, {in_files} of them of file systems, in \
         {seconds:.0} s; how often each fault happened:"
    );
    for (fault, times) in activation(outcomes) {
        println!("  {times:>12} {}", fault.replace('_', " "));
    }
    let bad = sum(&|_| true, "violations");
    if bad > 0 {
        bail!("{bad} promises were broken");
    }
    if outcomes.iter().any(of_files) && in_files < least {
        bail!("{in_files} crash states of file systems were tried, not {least}");
    }
    Ok(())
}

/// Runs of a subject.
fn runs(outcomes: &[Outcome], subject: &str) -> u64 {
    let own = outcomes.iter().filter(|one| one.task.subject == subject);
    own.map(|one| one.number("cases")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(layouts: usize) -> Vec<String> {
        let layouts = (0..layouts).map(|index| format!("--layout l{index}"));
        layouts.chain(["--fs ffs --policy async".to_owned()]).collect()
    }

    #[test]
    fn the_total_does_not_grow_with_the_subjects() {
        for count in [1, 7, 30] {
            let tasks = tasks(&subjects(count), Shares::of(STATES, &subjects(count)), Seeds::Fixed);
            let bounded = tasks.iter().filter(|task| task.states < u64::MAX);
            let total: u64 = bounded.map(|task| task.states).sum();
            let rounded_up = tasks.len() as u64;
            assert!((STATES..=STATES + rounded_up).contains(&total), "{count}: {total}");
        }
    }

    #[test]
    fn policies_with_a_log_share_the_short_sequences() {
        let logged = ["--fs ffs --policy wafs-1sync", "--fs ffs --policy wafs-1async"];
        let logged: Vec<String> = logged.map(str::to_owned).into();
        let all = [subjects(1), logged].concat();
        let tasks = tasks(&all, Shares::of(STATES, &all), Seeds::Fixed);
        let short = |task: &&Task| task.subject.contains("--ace 1");
        let short: Vec<_> =
            tasks.iter().filter(short).map(|one| (&*one.subject, one.states)).collect();
        let half = SHORT_RUNS / 2;
        assert_eq!(short[0], ("--fs ffs --policy async --ace 1", u64::MAX));
        let parts = [
            ("--fs ffs --policy wafs-1sync --ace 1 --from 0".to_owned(), half * SHORT_STATES),
            (format!("--fs ffs --policy wafs-1async --ace 1 --from {half}"), half * SHORT_STATES),
        ];
        assert!(
            short[1..].iter().copied().eq(parts.iter().map(|(one, n)| (&**one, *n))),
            "{short:?}"
        );
    }

    #[test]
    fn every_part_of_a_share_has_a_seed_of_its_own() {
        for seeds in [Seeds::Fixed, Seeds::From(u64::MAX)] {
            let mut all: Vec<u64> = (0..40).map(|part| seeds.of_part(part)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 40, "{seeds:?}");
        }
    }
}
