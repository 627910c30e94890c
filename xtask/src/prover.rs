//! Sweeps of `seekless prove`, one for each processor at a time.

use crate::run::{capture, output};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One sweep.
#[derive(Clone, Debug)]
pub struct Task {
    /// The arguments of `seekless prove` that choose the subject.
    pub subject: String,
    /// Seed of the sweep.
    pub seed: u64,
    /// Crash states to try.
    pub states: u64,
    /// Where the run of a violation is saved.
    pub save: Option<PathBuf>,
    /// A planted bug.
    pub plant: Option<String>,
}

/// The result of a sweep.
#[derive(Debug)]
pub struct Outcome {
    /// The sweep.
    pub task: Task,
    /// What `seekless prove --json` printed.
    pub report: Value,
}

impl Outcome {
    /// A number of the report.
    pub fn number(&self, field: &str) -> u64 {
        self.report[field].as_f64().map_or(0, |number| number as u64)
    }
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

/// True for the arguments that choose a file system. The log as a service is none: it has no
/// policies and no sequences of calls.
pub fn is_files(subject: &str) -> bool {
    subject.starts_with("--fs ") && subject != "--fs log"
}

/// Runs all tasks, one for each processor at a time, and returns the result of each.
///
/// # Errors
/// If a sweep prints no report.
pub fn run_all(program: &Path, tasks: &[Task]) -> Result<Vec<Outcome>> {
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

/// Runs a sweep on one processor.
///
/// # Errors
/// If it prints no report.
pub fn run_one(program: &Path, task: Task) -> Result<Outcome> {
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

/// Prints a line about a sweep, and the stories of its violations.
pub fn tell(outcome: &Outcome) {
    let number = |field| outcome.number(field);
    println!(
        "  {:<40} seed {:<20} {:>9} states, {:>6} per second, {} runs: {} violations",
        outcome.task.subject,
        outcome.task.seed,
        number("states"),
        number("states_per_second"),
        number("cases"),
        number("violations"),
    );
    let stories = outcome.report["stories"].as_array().map(Vec::as_slice).unwrap_or_default();
    for story in stories {
        let lines = story["story"].as_array().map(Vec::as_slice).unwrap_or_default();
        for line in lines.iter().filter_map(Value::as_str) {
            println!("    {line}");
        }
        println!("    replay: {}", story["replay"].as_str().unwrap_or_default());
    }
}

/// How often each fault happened in all sweeps.
pub fn activation(outcomes: &[Outcome]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for faults in outcomes.iter().filter_map(|one| one.report["faults"].as_object()) {
        for (name, times) in faults {
            *sum.entry(name.clone()).or_default() += times.as_u64().unwrap_or(0);
        }
    }
    sum
}
