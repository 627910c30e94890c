//! What a sweep came to: counts of states, faults and violations.

use crate::ProveOptions;
use crate::subject::Subject;
use crate::violation::Violation;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a sweep came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProveReport {
    /// The layout, or what else was proved.
    pub layout: String,
    /// What that is.
    #[serde(skip)]
    pub noun: &'static str,
    /// Seed of everything.
    pub seed: u64,
    /// Runs, one a case.
    pub cases: u64,
    /// Kinds of workload among them.
    pub workloads: u64,
    /// How many of them each kind had.
    pub profiles: BTreeMap<&'static str, u64>,
    /// Kinds of workload that there are.
    #[serde(skip)]
    pub kinds: u64,
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
    pub(crate) fn new<S: Subject>(options: &ProveOptions<S>) -> ProveReport {
        ProveReport {
            layout: options.subject.name(),
            noun: S::NOUN,
            seed: options.seed,
            cases: 0,
            workloads: 0,
            profiles: BTreeMap::new(),
            // Cases that are listed one by one have no kinds.
            kinds: if options.subject.cases().is_some() { 0 } else { S::WORKLOADS },
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

    /// Adds the counts of another sweep of the same subject.
    pub(crate) fn add(&mut self, other: &ProveReport) {
        self.cases += other.cases;
        for (&profile, runs) in &other.profiles {
            *self.profiles.entry(profile).or_default() += runs;
        }
        self.workloads = (self.profiles.len() as u64).min(self.kinds);
        self.events += other.events;
        self.states += other.states;
        self.recovered += other.recovered;
        self.most_blocks_read = self.most_blocks_read.max(other.most_blocks_read);
        self.requests += other.requests;
        self.faults.add(&other.faults);
    }

    /// For people.
    pub fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        let mut line = |text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{text}");
        };
        let ProveReport { noun, layout, seed, states, .. } = self;
        line(format!("{noun} {layout}, seed {seed}: {states} crash states"));
        line(format!("  runs              {:>10}", self.cases));
        if self.kinds > 0 {
            line(format!("  kinds of workload {:>10} of {}", self.workloads, self.kinds));
        }
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

    /// For programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report has no maps with strange keys")
    }
}

/// How often each fault was part of a state or of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Writes of which nothing reached the medium.
    pub lost: u64,
    /// Writes of which some sectors did.
    pub torn: u64,
    /// States in which a later write reached the medium and an earlier one did not.
    pub reordered: u64,
    /// Power cuts during the recovery from a power cut.
    pub second_cuts: u64,
    /// Blocks or labels that read back with wrong bytes.
    pub rotten: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Damaged volumes that were not mounted, with a reason.
    pub refused_mounts: u64,
    /// Writes of a device that failed.
    pub failed_writes: u64,
    /// Flushes of a device that failed.
    pub failed_flushes: u64,
    /// Epochs in which the volume failed: it refused all later writes.
    pub failed: u64,
    /// Devices lost together with the power.
    pub lost_devices: u64,
    /// Damaged members of arrays that assembly left out.
    pub members_left_out: u64,
}

impl FaultCounts {
    /// Adds the counts of others.
    pub(crate) fn add(&mut self, other: &FaultCounts) {
        self.lost += other.lost;
        self.torn += other.torn;
        self.reordered += other.reordered;
        self.second_cuts += other.second_cuts;
        self.rotten += other.rotten;
        self.unreadable += other.unreadable;
        self.refused_mounts += other.refused_mounts;
        self.failed_writes += other.failed_writes;
        self.failed_flushes += other.failed_flushes;
        self.failed += other.failed;
        self.lost_devices += other.lost_devices;
        self.members_left_out += other.members_left_out;
    }

    /// Name and number of each, in the order in which they are listed to people.
    pub fn rows(&self) -> [(&'static str, u64); 12] {
        [
            ("writes lost", self.lost),
            ("writes torn", self.torn),
            ("states with writes out of order", self.reordered),
            ("power cuts during recovery", self.second_cuts),
            ("rotten blocks", self.rotten),
            ("unreadable blocks", self.unreadable),
            ("damaged volumes not mounted", self.refused_mounts),
            ("failed device writes", self.failed_writes),
            ("failed device flushes", self.failed_flushes),
            ("epochs that ended writing", self.failed),
            ("lost devices", self.lost_devices),
            ("damaged members left out", self.members_left_out),
        ]
    }
}
