//! `cargo xtask mutants`: cuts one edge after the other, and keeps the books.
//!
//! The ledger has a line for each edge (`seekless_engine::edge`): what came of cutting it, and in
//! which subject. A run that catches one is saved beside the others, so that each commit replays
//! it. A test of a part may show an edge as well ([`tested`]). A test of the prover compares the
//! ledger with the edges that there are.

mod tested;

use crate::explore::FOUND;
use crate::prover::{Outcome, Task, run_one};
use crate::run::{asserting, root};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ledger: edge, state, subject and a remark, with tabs between. Where a test shows an edge
/// these are the test program and the test.
const LEDGER: &str = "crates/prove/tests/edges.tsv";
/// Crash states from each seed, if nothing else is said.
const STATES: u64 = 300_000;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    edge: String,
    state: String,
    subject: String,
    remark: String,
}

impl Entry {
    fn parse(line: &str) -> Result<Entry> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [edge, state, subject, remark] = fields[..] else {
            bail!("`{line}` has {} fields, not 4", fields.len());
        };
        let own = |field: &str| field.to_owned();
        Ok(Entry { edge: own(edge), state: own(state), subject: own(subject), remark: own(remark) })
    }

    fn line(&self) -> String {
        [&*self.edge, &self.state, &self.subject, &self.remark].join("\t")
    }

    /// True if no run has caught it, and no reason says why none can.
    fn is_open(&self) -> bool {
        matches!(&*self.state, "open" | "unreached")
    }

    /// Where the run that catches it is saved.
    fn file(&self) -> PathBuf {
        let words = self.subject.split([' ', '-']);
        let words: Vec<&str> =
            words.filter(|word| !matches!(*word, "" | "layout" | "fs")).collect();
        root().join(FOUND).join(format!("edge-{}-{}.json", words.join("-"), self.edge))
    }
}

/// What came of cutting an edge, from all seeds.
fn verdict(entry: &Entry, outcomes: &[Outcome]) -> Entry {
    let states: u64 = outcomes.iter().map(|one| one.number("states")).sum();
    let seeds = outcomes.len();
    let caught = outcomes.iter().find(|one| one.number("violations") > 0);
    let reached = outcomes.iter().any(|one| one.report["reached"].as_bool() != Some(false));
    let (state, remark) = match caught {
        Some(one) => ("caught", format!("seed {}, {} states", one.task.seed, one.number("states"))),
        None if reached => ("open", format!("survives {states} states from {seeds} seeds")),
        None => ("unreached", format!("nothing comes to it in {states} states from {seeds} seeds")),
    };
    Entry { state: state.into(), remark, ..entry.clone() }
}

/// `cargo xtask mutants [--states N] [EDGE]...`: hunts the edges of these names, or all that are
/// open, and writes down what came of it.
///
/// # Errors
/// A wrong command line, an unknown edge, a ledger that makes no sense.
pub fn mutants(args: &[&str]) -> Result<()> {
    let (mut states, mut names) = (STATES, Vec::new());
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        match arg {
            "--states" => {
                let value = args.next().context("--states wants a number")?;
                states = value.parse().with_context(|| format!("`{value}` is not a number"))?;
            }
            name if name.starts_with('-') => bail!("`{name}` is unknown: --states N is known"),
            name => names.push(name),
        }
    }
    let path = root().join(LEDGER);
    let mut ledger = read(&path)?;
    for name in &names {
        ensure!(ledger.iter().any(|entry| entry.edge == *name), "{LEDGER} has no edge {name}");
    }
    let wanted = |entry: &&Entry| match names.is_empty() {
        true => entry.is_open(),
        false => names.contains(&&*entry.edge),
    };
    let hunted: Vec<Entry> = ledger.iter().filter(wanted).cloned().collect();
    println!("mutants: {} of {} edges are cut", hunted.len(), ledger.len());
    let found = hunt(&asserting()?, &hunted, states)?;
    for entry in &mut ledger {
        if let Some(found) = found.get(&entry.edge) {
            entry.clone_from(found);
        }
    }
    let lines: Vec<String> = ledger.iter().map(Entry::line).collect();
    std::fs::write(&path, lines.join("\n") + "\n")?;
    println!("{}", summary(&ledger));
    Ok(())
}

/// Runs the tests that show edges, each with its edge cut.
///
/// # Errors
/// A test that passes without its edge, or fails with it.
pub fn tested() -> Result<()> {
    let ledger = read(&root().join(LEDGER))?;
    let shown: Vec<&Entry> = ledger.iter().filter(|entry| entry.state == "tested").collect();
    tested::verify(&shown)
}

fn read(path: &Path) -> Result<Vec<Entry>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines().map(Entry::parse).collect()
}

/// Cuts each of these edges, as many at a time as there are processors.
fn hunt(program: &Path, hunted: &[Entry], states: u64) -> Result<BTreeMap<String, Entry>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Ok(BTreeMap::new()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let worker = || {
            while let Some(entry) = hunted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = hunt_one(program, entry, states);
                let mut found = found.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                match (&mut *found, result) {
                    (Ok(all), Ok(one)) => {
                        println!("  {:<24} {:<10} {}", one.edge, one.state, one.remark);
                        all.insert(one.edge.clone(), one);
                    }
                    (Ok(_), Err(error)) => *found = Err(error),
                    (Err(_), _) => return,
                }
            }
        };
        for _ in 0..processors {
            scope.spawn(worker);
        }
    });
    found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn hunt_one(program: &Path, entry: &Entry, states: u64) -> Result<Entry> {
    let mut outcomes = Vec::new();
    for seed in SEEDS {
        let outcome = run_one(
            program,
            Task {
                subject: entry.subject.clone(),
                seed,
                states,
                save: Some(entry.file()),
                plant: Some(entry.edge.clone()),
            },
        );
        let outcome = match outcome {
            Err(error) if is_assertion(&error) => {
                let remark = format!("seed {seed}, an assertion");
                return Ok(Entry { state: "asserted".into(), remark, ..entry.clone() });
            }
            outcome => outcome?,
        };
        let caught = outcome.number("violations") > 0;
        outcomes.push(outcome);
        if caught {
            break;
        }
    }
    Ok(verdict(entry, &outcomes))
}

/// True if a run printed no report because an assertion ended it. A wrong subject or an unknown
/// edge prints none either.
fn is_assertion(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("panicked at")
}

/// How many edges are in each state.
fn summary(ledger: &[Entry]) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in ledger {
        *states.entry(&entry.state).or_default() += 1;
    }
    let each: Vec<String> =
        states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    format!("mutants: of {} edges {}", ledger.len(), each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(state: &str) -> Entry {
        Entry::parse(&format!("MoveFlush\t{state}\t--layout dcd --log\t")).expect("four fields")
    }

    #[test]
    fn lines_come_back() {
        let open = entry("open");
        assert_eq!(Entry::parse(&open.line()).expect("it was written"), open);
        assert!(Entry::parse("MoveFlush\topen").is_err());
        assert!(open.is_open() && !entry("caught").is_open());
        assert!(open.file().ends_with("edge-dcd-log-MoveFlush.json"));
    }

    #[test]
    fn only_a_panic_counts_as_an_assertion() {
        let said = |text: &str| is_assertion(&anyhow::anyhow!("no report: {text}"));
        assert!(said("thread 'main' (7) panicked at crates/fs/src/core.rs:1:1: a wait"));
        assert!(!said("error: invalid value 'Nothing' for '--plant <BUG>'") && !said(""));
    }

    #[test]
    fn a_verdict_tells_what_is_never_reached_from_what_survives() {
        let outcome = |violations: u64, reached: bool| {
            let subject = "--layout dcd --log".to_owned();
            let task = Task { subject, seed: 1, states: 9, save: None, plant: None };
            let report = serde_json::json!({
                "states": 9, "violations": violations, "reached": reached,
            });
            Outcome { task, report }
        };
        let state = |outcomes: &[Outcome]| verdict(&entry("open"), outcomes).state;
        assert_eq!(state(&[outcome(0, false), outcome(1, true)]), "caught");
        assert_eq!(state(&[outcome(0, false), outcome(0, true)]), "open");
        assert_eq!(state(&[outcome(0, false)]), "unreached");
    }
}
