//! The prover: cuts the power at every device event, tries the states a device could be in, mounts
//! each and compares it with what the contract allows.
//!
//! A *case* is one seeded world: a volume on one or more devices of memory, a client that writes,
//! trims, flushes and pauses, orderly ends, crashes and recoveries in between. The devices share
//! one power supply: a cut hits all of them at the same instant, and what each had not been asked
//! to flush may be lost on each on its own. Everything is a function of the seed and the number of
//! the case, so a violation is replayed by naming them.

mod bench;
mod cut;
mod history;
mod judge;
mod states;
mod subject;
mod toy;
mod world;

pub use states::FaultCounts;
pub use subject::Subject;

use seekless_engine::rng::Rng;
use serde::Serialize;
use world::World;

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
    /// Stop at the first violation.
    pub stop_at_first: bool,
}

impl ProveOptions {
    /// Ten thousand states of a subject, such as a layout.
    pub fn new(subject: impl Into<Subject>) -> ProveOptions {
        let subject = subject.into();
        ProveOptions { subject, seed: 1, states: 10_000, case: None, stop_at_first: false }
    }
}

/// A promise broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Case it happened in.
    pub case: u64,
    /// Device event after which the power was cut.
    pub event: u64,
    /// What happened, a sentence each.
    pub story: Vec<String>,
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
    /// Device events after which the power was cut.
    pub events: u64,
    /// Crash states mounted and compared.
    pub states: u64,
    /// Promises broken.
    pub violations: Vec<Violation>,
    /// Crash states per second of the host.
    pub states_per_second: f64,
    /// How often each fault was part of a state.
    pub faults: FaultCounts,
    /// Most blocks that one mount had to read.
    pub most_blocks_read: u64,
    /// Client requests acknowledged in all worlds.
    pub requests: u64,
}

impl ProveReport {
    /// For people.
    pub fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        let f = &self.faults;
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        line(format!("layout {}, seed {}: {} crash states", self.layout, self.seed, self.states));
        line(format!("  worlds            {:>10}", self.cases));
        line(format!("  client requests   {:>10}", self.requests));
        line(format!("  power cuts at     {:>10} device events", self.events));
        line(format!(
            "  faults            {:>10} writes lost, {} torn, {} kept out of order, \
             {} second cuts, {} rotten blocks, {} lost devices",
            f.lost, f.torn, f.reordered, f.second_cuts, f.rotten, f.lost_devices
        ));
        line(format!("  longest recovery  {:>10} blocks read", self.most_blocks_read));
        line(format!("  speed             {:>10.0} states/s", self.states_per_second));
        line(format!("  violations        {:>10}", self.violations.len()));
        for violation in &self.violations {
            line(format!("\ncase {}, after device event {}:", violation.case, violation.event));
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

/// Runs cases until enough states have been tried. `clock` counts nanoseconds and only serves to
/// report the speed; `progress` hears how many states have been tried.
pub fn prove(
    options: &ProveOptions,
    clock: fn() -> u64,
    progress: &mut dyn FnMut(u64),
) -> ProveReport {
    let started = clock();
    let mut report = ProveReport {
        layout: options.subject.name(),
        seed: options.seed,
        cases: 0,
        events: 0,
        states: 0,
        violations: Vec::new(),
        states_per_second: 0.0,
        faults: FaultCounts::default(),
        most_blocks_read: 0,
        requests: 0,
    };
    let first = options.case.unwrap_or(0);
    for case in first.. {
        let rng = Rng::stream(options.seed, &format!("case {case}"));
        let mut world = World::new(options.subject, case, rng);
        world.run(&mut report, options);
        report.cases += 1;
        progress(report.states);
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
