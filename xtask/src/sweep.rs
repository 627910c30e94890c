//! Power-cut sweeps of every layout, several at a time: bounded for continuous integration, or
//! until told to stop.

use crate::run::{capture, output, root, seekless};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Crash states of a bounded sweep, over all layouts.
const BOUNDED_STATES: u64 = 2_100_000;
/// Sweeps that each layout's share is split into, so that processors have equally much to do.
const PARTS: u64 = 2;
/// Crash states of each sweep of a soak.
const SOAK_STATES: u64 = 200_000;

/// One sweep.
#[derive(Clone, Debug)]
struct Task {
    layout: String,
    seed: u64,
    states: u64,
    save: Option<PathBuf>,
}

/// What a sweep came to.
#[derive(Debug)]
struct Outcome {
    task: Task,
    report: Value,
}

/// `cargo xtask sweep`: bounded, or with `--soak DIR` until a file `stop` appears there (or the
/// keyboard says so).
///
/// # Errors
/// If a layout breaks its contract, or the command line is wrong.
pub fn sweep(args: &[&str]) -> Result<()> {
    let (mut states, mut soaked, mut rounds) = (BOUNDED_STATES, None, u64::MAX);
    let mut seed = commit_seed()?;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = *args.next().with_context(|| format!("{arg} wants a value"))?;
        let number = || value.parse().with_context(|| format!("`{value}` is no number"));
        match *arg {
            "--states" => states = number()?,
            "--seed" => seed = number()?,
            "--rounds" => rounds = number()?,
            "--soak" => soaked = Some(PathBuf::from(value)),
            other => bail!(
                "`{other}` is unknown: --states N, --seed N, --soak DIR and --rounds N are known"
            ),
        }
    }
    match soaked {
        None => bounded(states, seed),
        Some(dir) => soak(&dir, seed, rounds),
    }
}

/// So many states, shared out over all layouts.
///
/// # Errors
/// If a layout breaks its contract.
pub fn bounded(states: u64, seed: u64) -> Result<()> {
    let program = seekless()?;
    let layouts = layouts(&program)?;
    let each = states.div_ceil(layouts.len() as u64 * PARTS);
    let task = |layout: &String, part| {
        let seed = seed.wrapping_add(part);
        Task { layout: layout.clone(), seed, states: each, save: None }
    };
    let tasks: Vec<Task> =
        (0..PARTS).flat_map(|part| layouts.iter().map(move |layout| task(layout, part))).collect();
    println!("sweep: seed {seed}, {} sweeps of {each} crash states", tasks.len());
    let outcomes = run_all(&program, tasks)?;
    let total: u64 = outcomes.iter().map(|one| number(&one.report, "states")).sum();
    println!("sweep: {total} crash states in all; how often each fault happened:");
    for (fault, times) in activation(&outcomes) {
        println!("  {times:>12} {}", fault.replace('_', " "));
    }
    let bad: u64 = outcomes.iter().map(|one| number(&one.report, "violations")).sum();
    if bad > 0 {
        bail!("{bad} promises were broken");
    }
    Ok(())
}

/// Sweep after sweep with other seeds; what fails is saved in `dir` and repeated with
/// `seekless prove --replay`.
fn soak(dir: &Path, seed: u64, rounds: u64) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let program = seekless()?;
    let layouts = layouts(&program)?;
    println!("soak: until {} exists", dir.join("stop").display());
    let mut failures = 0;
    for round in 0..rounds {
        let seed = seed.wrapping_add(1 + round);
        let task = |layout: &String| {
            let save = Some(dir.join(format!("{layout}-{seed}.json")));
            Task { layout: layout.clone(), seed, states: SOAK_STATES, save }
        };
        let outcomes = run_all(&program, layouts.iter().map(task).collect())?;
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

/// Runs all tasks, one for each processor at a time, and says what came of each.
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
    prove.args(["prove", "--json", "--stop-at-first", "--layout", &task.layout]);
    prove.args(["--states", &task.states.to_string(), "--seed", &task.seed.to_string()]);
    if let Some(file) = &task.save {
        prove.arg("--save").arg(file);
    }
    let output = output(&mut prove)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the sweep of {} with seed {} printed no report: {said}", task.layout, task.seed)
    })?;
    Ok(Outcome { task, report })
}

fn tell(Outcome { task, report }: &Outcome) {
    println!(
        "  {:<10} seed {:<18} {:>9} states, {:>6} per second, {} worlds: {} violations",
        task.layout,
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

/// The names that `seekless layouts` gives.
///
/// # Errors
/// If it gives none.
pub fn layouts(program: &Path) -> Result<Vec<String>> {
    let text = capture(Command::new(program).args(["layouts", "--json"]))?;
    let parsed: Value =
        serde_json::from_str(&text).context("`seekless layouts` printed no JSON")?;
    let entries = parsed["layouts"].as_array().context("no list of layouts")?;
    let names: Vec<String> =
        entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect();
    if names.is_empty() {
        bail!("`seekless layouts` names none");
    }
    Ok(names)
}

/// A seed from the hash of the commit; fixed where there is no git.
///
/// # Errors
/// If git gives no hash.
pub fn commit_seed() -> Result<u64> {
    let head = capture(Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]));
    let Ok(head) = head else { return Ok(1) };
    let digits = head.trim().get(..12).context("a commit hash is longer")?;
    u64::from_str_radix(digits, 16).with_context(|| format!("`{digits}` is no commit hash"))
}

/// The bounded sweep as continuous integration runs it.
///
/// # Errors
/// If a layout breaks its contract.
pub fn ci() -> Result<()> {
    bounded(BOUNDED_STATES, commit_seed()?)
}
