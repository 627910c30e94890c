//! The prover: cuts the power at every device event, tries the states a device could be in, mounts
//! each and compares it with what the contract allows.
//!
//! A *case* is one seeded run: a volume on one or more devices of memory, a client that writes,
//! trims, flushes and pauses, clean shutdowns, crashes and recoveries in between. The devices share
//! one power supply: a cut hits all of them at the same instant, and what each had not been asked
//! to flush may be lost on each on its own. Everything is a function of the seed and the number of
//! the case, so a violation is replayed by naming them.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod cut;
mod damage;
mod history;
mod judge;
mod look;
mod names;
mod operation;
mod profile;
mod run;
mod shrink;
mod small_disk;
mod states;
mod subject;

pub use operation::{Keep, NoKeep};
pub use profile::WORKLOADS;
pub use states::FaultCounts;
pub use subject::Subject;

use run::Run;
#[cfg(debug_assertions)]
use seekless_engine::planted::PlantedBug;
#[cfg(debug_assertions)]
use seekless_layouts::Kind;
use serde::Serialize;
use std::fmt;

/// All bugs that can be planted, in layouts and in arrays, some more than once.
#[cfg(debug_assertions)]
pub fn planted_bugs() -> Vec<PlantedBug> {
    let of_layouts = Kind::ALL.into_iter().flat_map(Kind::planted_bugs);
    let of_arrays = PlantedBug::ARRAY.iter().chain(&PlantedBug::STRIPED);
    of_layouts.chain(of_arrays).copied().collect()
}

/// What to prove, and how hard to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProveOptions {
    /// What is proved.
    pub subject: Subject,
    /// Seed of everything.
    pub seed: u64,
    /// Crash states to try; the last case is finished, so it may be some more.
    pub states: u64,
    /// Run only this case.
    pub case: Option<u64>,
    /// Run only these of its operations, and try more states at each event.
    pub keep: Option<Keep>,
    /// Stop at the first violation.
    pub stop_at_first: bool,
    /// Make the first few violations as small as they can be with a bounded amount of work.
    pub shrink: bool,
}

impl ProveOptions {
    /// Ten thousand states of a subject, such as a layout.
    pub fn new(subject: impl Into<Subject>) -> ProveOptions {
        ProveOptions {
            subject: subject.into(),
            seed: 1,
            states: 10_000,
            case: None,
            keep: None,
            stop_at_first: false,
            shrink: false,
        }
    }
}

/// None of the operations that are to be kept is one of the case's, so there would be nothing to
/// prove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{keep}: case {case} has no such operations; its operations are 0 to {last}")]
pub struct NoSuchOperations {
    keep: String,
    case: u64,
    last: usize,
}

impl ProveOptions {
    /// The command that runs a case again.
    pub fn replay(&self, case: u64) -> String {
        let flags = self.subject.flags();
        format!("seekless prove {flags} --seed {} --case {case}", self.seed)
    }

    /// Tells whether there is anything to run.
    ///
    /// # Errors
    /// [`NoSuchActs`] if the operations to keep leave nothing, or no power cut.
    pub fn find_operations(&self) -> Result<(), NoSuchOperations> {
        let (Some(case), Some(keep)) = (self.case, &self.keep) else { return Ok(()) };
        let run = Run::new(self.subject, case, self.seed);
        let last_kept = keep.of(run.script()).last().map(|(number, _)| *number);
        if last_kept.is_some_and(|number| number >= keep.watch()) {
            return Ok(());
        }
        let last = run.script().len().saturating_sub(1);
        Err(NoSuchOperations { keep: keep.to_string(), case, last })
    }
}

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Sort {
    /// What is there after a crash is not what may be there.
    Content,
    /// After a crash the volume cannot be mounted, read or written.
    Dead,
    /// After a crash the members of an array do not agree.
    Parity,
    /// After a crash a read-only mount writes, or shows something else than one that recovers.
    Look,
    /// A read brought wrong data, or an error without cause.
    Read,
    /// A request failed without cause, or the volume did not say so for good.
    Refusal,
    /// Something was acknowledged after an error on the write path.
    Pretence,
    /// Damage was read as data.
    Damage,
    /// Requests are not answered, or a clean shutdown never comes.
    Hang,
}

impl fmt::Display for Sort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sort::Content => "the content after a crash is wrong",
            Sort::Dead => "the volume is dead after a crash",
            Sort::Parity => "the members of an array disagree after a crash",
            Sort::Look => "a read-only mount after a crash is wrong",
            Sort::Read => "a read is wrong",
            Sort::Refusal => "a request fails without cause",
            Sort::Pretence => "success is claimed after an error",
            Sort::Damage => "damage is taken for data",
            Sort::Hang => "the volume hangs",
        })
    }
}

/// A promise broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Case it happened in.
    pub case: u64,
    /// Device event after which the power was cut.
    pub event: u64,
    /// Which promise it was.
    pub sort: Sort,
    /// What happened, a sentence each.
    pub story: Vec<String>,
    /// The operations that are left, if it was made small.
    pub keep: Option<String>,
    /// A command that does it again.
    pub replay: String,
}

/// What a sweep came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProveReport {
    /// The layout.
    pub layout: String,
    /// Seed of everything.
    pub seed: u64,
    /// Worlds run.
    pub cases: u64,
    /// Kinds of workload among them.
    pub workloads: u64,
    /// Device events after which the power was cut.
    pub events: u64,
    /// Crash states recovered and compared. One that holds the same as another, under the same
    /// obligations, is not counted.
    pub states: u64,
    /// Of these, those that held something else than all others of the same epoch.
    pub recovered: u64,
    /// Promises broken.
    pub violations: Vec<Violation>,
    /// Crash states per second of the host.
    pub states_per_second: f64,
    /// How often each fault happened.
    pub faults: FaultCounts,
    /// Most blocks that one mount had to read.
    pub most_blocks_read: u64,
    /// Client requests acknowledged in all runs.
    pub requests: u64,
}

impl ProveReport {
    fn new(options: &ProveOptions) -> ProveReport {
        ProveReport {
            layout: options.subject.name(),
            seed: options.seed,
            cases: 0,
            workloads: 0,
            events: 0,
            states: 0,
            recovered: 0,
            violations: Vec::new(),
            states_per_second: 0.0,
            faults: FaultCounts::default(),
            most_blocks_read: 0,
            requests: 0,
        }
    }

    /// For people.
    pub fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        line(format!("layout {}, seed {}: {} crash states", self.layout, self.seed, self.states));
        line(format!("  runs            {:>10}", self.cases));
        line(format!("  kinds of workload {:>10} of {WORKLOADS}", self.workloads));
        line(format!("  client requests   {:>10}", self.requests));
        line(format!("  power cuts at     {:>10} device events", self.events));
        line(format!("  distinct states   {:>10}", self.recovered));
        for (name, number) in self.faults.rows().into_iter().filter(|(_, number)| *number > 0) {
            line(format!("  {number:>28} {name}"));
        }
        line(format!("  longest recovery  {:>10} blocks read", self.most_blocks_read));
        line(format!("  speed             {:>10.0} states/s", self.states_per_second));
        line(format!("  violations        {:>10}", self.violations.len()));
        for violation in &self.violations {
            line(format!("\ncase {}: {}", violation.case, violation.sort));
            for sentence in &violation.story {
                line(format!("  {sentence}"));
            }
            line(format!("  replay: {}", violation.replay));
        }
        out
    }

    /// For machines.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report has no maps with strange keys")
    }
}

/// Violations that are made small: others mostly come from the same bug, and naming their case
/// makes them small as well.
const MOST_SHRUNK: usize = 3;

/// Runs cases until enough states have been tried. `clock` counts nanoseconds and only serves to
/// report the speed; `progress` hears before each case its number and how many states have been
/// tried.
pub fn prove(
    options: &ProveOptions,
    clock: fn() -> u64,
    progress: &mut dyn FnMut(u64, u64),
) -> ProveReport {
    let started = clock();
    let mut report = ProveReport::new(options);
    let first = options.case.unwrap_or(0);
    for case in first.. {
        progress(case, report.states);
        let mut run = Run::new(options.subject, case, options.seed);
        let keep = match &options.keep {
            None => Keep::operations(0..run.script().len() as u32),
            Some(keep) => {
                run = run.thorough().watching(keep.watch());
                keep.clone()
            }
        };
        let operations = keep.of(run.script());
        if let Some(found) = run.execute(&operations, &mut report) {
            let shrinks = options.shrink && report.violations.len() < MOST_SHRUNK;
            report.violations.push(if shrinks {
                shrink::shrink(options, case, keep, found)
            } else {
                shrink::tell(options, case, options.keep.clone(), found)
            });
        }
        report.cases += 1;
        report.workloads = report.cases.min(WORKLOADS);
        let found = options.stop_at_first && !report.violations.is_empty();
        // A hundred broken promises tell as much as a million.
        let enough = report.states >= options.states || report.violations.len() >= 100;
        if found || enough || options.case.is_some() {
            break;
        }
    }
    let elapsed = clock().saturating_sub(started).max(1);
    report.states_per_second = report.states as f64 * 1e9 / elapsed as f64;
    report
}
