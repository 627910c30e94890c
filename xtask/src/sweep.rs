//! Power-cut sweeps of every layout and array, several at a time: bounded for continuous
//! integration, or until told to stop.

use crate::run::{asserting, capture, output, root, seekless};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Crash states of a bounded sweep, over all subjects: about four minutes on two processors.
pub const BOUNDED_STATES: u64 = 1_920_000;
/// Seed of the sweep of continuous integration. A seed of the commit would let a commit fail for a
/// rare defect that an earlier one made.
const CI_SEED: u64 = 1;
/// Fewest runs of each subject, for any number of states.
const LEAST_RUNS: u64 = 20;
/// Sweeps that each layout's share is split into, so that the processors are equally loaded.
const PARTS: u64 = 2;
/// Of these, crash states of file systems, over all policies.
const FILES_STATES: u64 = 390_000;
/// Sweeps that the share of file systems is split into at least.
const FILES_PARTS: u64 = 12;
/// Crash states of each sweep of a soak.
const SOAK_STATES: u64 = 200_000;
/// States of each sweep with a planted bug, which is found long before.
const PLANTED_STATES: u64 = 50_000;

/// One sweep.
#[derive(Clone, Debug)]
struct Task {
    /// The arguments of `seekless prove` that choose the subject.
    subject: String,
    seed: u64,
    states: u64,
    save: Option<PathBuf>,
    plant: Option<String>,
}

/// The result of a sweep.
#[derive(Debug)]
struct Outcome {
    task: Task,
    report: Value,
}

/// Sweep after sweep until stopped.
#[derive(Debug)]
struct Soak {
    dir: PathBuf,
    rounds: u64,
    states: u64,
    plant: Option<String>,
}

/// `cargo xtask sweep`: bounded, or with `--soak DIR` until a file `stop` appears there (or until
/// Ctrl-C).
///
/// # Errors
/// If a promise is broken, or the command line is wrong.
pub fn sweep(args: &[&str]) -> Result<()> {
    let (mut states, mut soaked, mut rounds, mut plant) = (None, None, u64::MAX, None);
    let mut seed = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = *args.next().with_context(|| format!("{arg} wants a value"))?;
        let number = || value.parse().with_context(|| format!("`{value}` is not a number"));
        match *arg {
            "--states" => states = Some(number()?),
            "--seed" => seed = Some(number()?),
            "--rounds" => rounds = number()?,
            "--soak" => soaked = Some(PathBuf::from(value)),
            "--plant" => plant = Some(value.to_owned()),
            other => bail!(
                "`{other}` is unknown: --states N, --seed N, --soak DIR, --rounds N and \
                 --plant BUG are known"
            ),
        }
    }
    match soaked {
        None if plant.is_some() => bail!("--plant is for --soak DIR, which shows what it saves"),
        None => bounded(states.unwrap_or(BOUNDED_STATES), seed.unwrap_or(CI_SEED)),
        Some(dir) => {
            let program = if plant.is_some() { asserting()? } else { seekless()? };
            let states = states.unwrap_or(SOAK_STATES);
            let seed = seed.map_or_else(commit_seed, Ok)?;
            soak(&program, &Soak { dir, rounds, states, plant }, seed)
        }
    }
}

/// Proves so many states, divided among all subjects, and more for subjects with few runs.
///
/// # Errors
/// If a promise is broken.
pub fn bounded(states: u64, seed: u64) -> Result<()> {
    // With assertions the sweep is a quarter slower, but a release build takes as long as the whole
    // sweep.
    let program = asserting()?;
    let subjects = subjects(&program)?;
    let policies = subjects.iter().filter(|subject| is_files(subject)).count() as u64;
    let files = states * FILES_STATES / BOUNDED_STATES;
    let each = (states - files).div_ceil((subjects.len() as u64 - policies) * PARTS);
    let files_parts = FILES_PARTS.div_ceil(policies.max(1));
    let each_of_files = files.div_ceil(policies.max(1) * files_parts);
    let task = |subject: &String, part| {
        let seed = seed.wrapping_add(part);
        let states = if is_files(subject) { each_of_files } else { each };
        Task { subject: subject.clone(), seed, states, save: None, plant: None }
    };
    let parts = |subject: &String| if is_files(subject) { files_parts } else { PARTS };
    let of = |subject| (0..parts(subject)).map(move |part| (subject, part));
    let shares = subjects.iter().flat_map(of).map(|(subject, part)| task(subject, part));
    // All sequences of one operation, whatever the number of states.
    let short = subjects.iter().filter(|subject| is_files(subject)).map(|subject| Task {
        subject: format!("{subject} --ace 1"),
        states: u64::MAX,
        ..task(subject, 0)
    });
    let tasks: Vec<Task> = shares.chain(short).collect();
    println!("sweep: seed {seed}, {} sweeps, most of {each} crash states", tasks.len());
    let begin = Instant::now();
    let mut outcomes = run_all(&program, tasks)?;
    // The number of states of a run is random.
    for part in PARTS.max(files_parts).. {
        let few = |subject: &&String| runs(&outcomes, subject) < LEAST_RUNS;
        let more: Vec<Task> =
            subjects.iter().filter(few).map(|subject| task(subject, part)).collect();
        if more.is_empty() || states < BOUNDED_STATES {
            break;
        }
        outcomes.extend(run_all(&program, more)?);
    }
    let total: u64 = outcomes.iter().map(|one| number(&one.report, "states")).sum();
    let in_files: u64 = (outcomes.iter().filter(|one| is_files(&one.task.subject)))
        .map(|one| number(&one.report, "states"))
        .sum();
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "sweep: {total} crash states in all, {in_files} of them of file systems, in \
         {seconds:.0} s; how often each fault happened:"
    );
    for (fault, times) in activation(&outcomes) {
        println!("  {times:>12} {}", fault.replace('_', " "));
    }
    let bad: u64 = outcomes.iter().map(|one| number(&one.report, "violations")).sum();
    if bad > 0 {
        bail!("{bad} promises were broken");
    }
    if policies > 0 && in_files < files {
        bail!("{in_files} crash states of file systems were tried, not {files}");
    }
    Ok(())
}

/// True for the arguments that choose a file system.
fn is_files(subject: &str) -> bool {
    subject.starts_with("--fs ")
}

/// Runs of a subject.
fn runs(outcomes: &[Outcome], subject: &str) -> u64 {
    let own = outcomes.iter().filter(|one| one.task.subject == subject);
    own.map(|one| number(&one.report, "cases")).sum()
}

/// Sweep after sweep with other seeds. A failure is saved and repeated with `seekless prove
/// --replay`.
fn soak(program: &Path, soak: &Soak, seed: u64) -> Result<()> {
    let Soak { dir, rounds, states, plant } = soak;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let subjects = subjects(program)?;
    println!("soak: until {} exists", dir.join("stop").display());
    let mut failures = 0;
    for round in 0..*rounds {
        let seed = seed.wrapping_add(1 + round);
        let task = |subject: &String| {
            let name = subject.replace("--", "").replace(' ', "-");
            let save = Some(dir.join(format!("{name}-{seed}.json")));
            Task { subject: subject.clone(), seed, states: *states, save, plant: plant.clone() }
        };
        let outcomes = run_all(program, subjects.iter().map(task).collect())?;
        let bad = |one: &&Outcome| number(&one.report, "violations") > 0;
        failures += outcomes.iter().filter(bad).count();
        if dir.join("stop").exists() {
            break;
        }
    }
    if failures > 0 {
        bail!("{failures} sweeps failed; {} has their cases", dir.display());
    }
    println!("soak: nothing was found");
    Ok(())
}

/// Checks, with a planted bug, that a soak saves its findings and that they can be repeated.
///
/// # Errors
/// If nothing is found, or a case does not fail again, or fails without the bug.
pub fn soak_finds() -> Result<()> {
    let program = asserting()?;
    let dir = std::env::temp_dir().join(format!("seekless-soak-{}", std::process::id()));
    let plant = "AckBeforeDurable";
    let options =
        Soak { dir: dir.clone(), rounds: 1, states: PLANTED_STATES, plant: Some(plant.to_owned()) };
    let found = soak(&program, &options, 1);
    let checked = found.is_err().then(|| replay_all(&program, &dir, plant));
    std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    let cases = checked.context("a soak with a planted bug finds nothing")??;
    println!("soak: {cases} saved cases fail again with {plant}, and pass without");
    Ok(())
}

/// Repeats all cases of a directory with and without a bug; returns their number.
fn replay_all(program: &Path, dir: &Path, plant: &str) -> Result<u64> {
    let mut cases = 0;
    for entry in std::fs::read_dir(dir)? {
        let file = entry?.path();
        let replay = |plant: &[&str]| {
            output(Command::new(program).args(["prove", "--replay"]).arg(&file).args(plant))
        };
        if replay(&["--plant", plant])?.status.code() != Some(1) {
            bail!("{} does not fail again", file.display());
        }
        if !replay(&[])?.status.success() {
            bail!("{} fails without the bug", file.display());
        }
        cases += 1;
    }
    if cases == 0 {
        bail!("nothing was saved");
    }
    Ok(cases)
}

/// Runs all tasks, one for each processor at a time, and returns the result of each.
fn run_all(program: &Path, tasks: Vec<Task>) -> Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                let outcome = run_one(program, task.clone());
                if let Ok(outcome) = &outcome {
                    tell(outcome);
                }
                outcomes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(outcome);
            }
        };
        for _ in 0..processors {
            scope.spawn(worker);
        }
    });
    outcomes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).into_iter().collect()
}

fn run_one(program: &Path, task: Task) -> Result<Outcome> {
    let mut prove = Command::new(program);
    prove.args(["prove", "--json", "--stop-at-first", "--jobs", "1"]).args(task.subject.split(' '));
    prove.args(["--states", &task.states.to_string(), "--seed", &task.seed.to_string()]);
    if let Some(file) = &task.save {
        prove.arg("--save").arg(file);
    }
    if let Some(bug) = &task.plant {
        prove.args(["--plant", bug]);
    }
    let output = output(&mut prove)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the sweep of {} with seed {} printed no report: {said}", task.subject, task.seed)
    })?;
    Ok(Outcome { task, report })
}

fn tell(Outcome { task, report }: &Outcome) {
    println!(
        "  {:<40} seed {:<18} {:>9} states, {:>6} per second, {} runs: {} violations",
        task.subject,
        task.seed,
        number(report, "states"),
        number(report, "states_per_second"),
        number(report, "cases"),
        number(report, "violations"),
    );
    let stories = report["stories"].as_array().map(Vec::as_slice).unwrap_or_default();
    for story in stories {
        let lines = story["story"].as_array().map(Vec::as_slice).unwrap_or_default();
        for line in lines.iter().filter_map(Value::as_str) {
            println!("    {line}");
        }
        println!("    replay: {}", story["replay"].as_str().unwrap_or_default());
    }
}

/// How often each fault happened in all sweeps.
fn activation(outcomes: &[Outcome]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for faults in outcomes.iter().filter_map(|one| one.report["faults"].as_object()) {
        for (name, times) in faults {
            *sum.entry(name.clone()).or_default() += times.as_u64().unwrap_or(0);
        }
    }
    sum
}

fn number(report: &Value, field: &str) -> u64 {
    report[field].as_f64().map_or(0, |number| number as u64)
}

/// All subjects, as arguments of `seekless prove`.
///
/// # Errors
/// If there are none.
pub fn subjects(program: &Path) -> Result<Vec<String>> {
    let text = capture(Command::new(program).args(["prove", "--list"]))?;
    let subjects: Vec<String> = text.lines().map(str::to_owned).collect();
    if subjects.is_empty() {
        bail!("`seekless prove --list` names nothing");
    }
    Ok(subjects)
}

/// A seed from the hash of the commit; fixed without git.
///
/// # Errors
/// If git gives no hash.
pub fn commit_seed() -> Result<u64> {
    let head = capture(Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]));
    let Ok(head) = head else { return Ok(1) };
    let digits = head.trim().get(..12).context("a commit hash is longer")?;
    u64::from_str_radix(digits, 16).with_context(|| format!("`{digits}` is not a commit hash"))
}

/// The bounded sweep as continuous integration runs it.
///
/// # Errors
/// If a promise is broken.
pub fn ci() -> Result<()> {
    bounded(BOUNDED_STATES, CI_SEED)
}
