//! The verdict on a report, and the sentences that all writers share.
//!
//! A red verdict needs one bad state. A green verdict needs more: states that were checked, a
//! check that is known to work, and no check without an answer. All else is no verdict, with a
//! reason.

use super::clean::one_line;
use super::units::{bytes, many, percent, seconds};
use super::{Acknowledgements, Coverage, Kind, Probe, Report};

/// What the test says of the software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A power cut can lose acknowledged data or break the state.
    Red,
    /// The check accepts every state of the sweep.
    Green,
    /// The check accepts every state that was tried, and others were not tried.
    GreenSoFar,
    /// The test says nothing about the software.
    NoVerdict,
}

impl Verdict {
    /// The word at the beginning of the verdict line.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Red => "RED",
            Verdict::Green => "GREEN",
            Verdict::GreenSoFar => "GREEN SO FAR",
            Verdict::NoVerdict => "NO VERDICT",
        }
    }
}

impl Kind {
    /// The kind in one word, as in `lost`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Broken => "broken",
            Kind::Lost => "lost",
            Kind::Wavers => "wavers",
            Kind::Hung => "hung",
            Kind::Failed => "failed",
            Kind::Good => "good",
        }
    }

    /// What the kind means, as the title of a group.
    pub fn meaning(self) -> &'static str {
        match self {
            Kind::Broken => "the state is broken",
            Kind::Lost => "acknowledged data is lost",
            Kind::Wavers => "the check rejects the state, then accepts it",
            Kind::Hung => "the check exceeds its time limit",
            Kind::Failed => "the check itself fails",
            Kind::Good => "the check accepts the state",
        }
    }
}

impl Coverage {
    /// States with an outcome.
    pub fn judged(&self) -> u64 {
        self.good + self.lost + self.broken + self.wavers + self.failed + self.hung
    }

    /// States of the space that were tried or equal one that was.
    pub fn covered(&self) -> u64 {
        (self.tried + self.identical).min(self.space)
    }

    /// States were left out that this sweep was to try.
    pub fn is_partial(&self) -> bool {
        self.cut_short && self.covered() < self.share
    }

    /// As much of the share was tried as the user asked for.
    pub fn is_enough(&self) -> bool {
        let reached = |percent: f64| self.covered() as f64 * 100.0 >= percent * self.share as f64;
        !self.is_partial() || (self.judged() > 0 && self.enough_percent.is_some_and(reached))
    }
}

impl Report {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        let coverage = &self.coverage;
        if self.bad_probe("end state").is_some() {
            // A check that rejects an undamaged disk says nothing about a damaged one.
            Verdict::NoVerdict
        } else if coverage.lost + coverage.broken > 0 {
            Verdict::Red
        } else if self.doubt().is_some() {
            Verdict::NoVerdict
        } else if coverage.is_partial() {
            Verdict::GreenSoFar
        } else {
            Verdict::Green
        }
    }

    /// The verdict in one sentence, such as `RED: 14 of 263 states lose acknowledged data`.
    pub fn headline(&self) -> String {
        let verdict = self.verdict();
        let reason = match verdict {
            Verdict::Red => self.damage(),
            Verdict::Green | Verdict::GreenSoFar => self.all_good(),
            Verdict::NoVerdict => self.doubt().unwrap_or_default(),
        };
        format!("{}: {reason}", verdict.word())
    }

    /// The probe of this name, if its outcome is not the expected one.
    fn bad_probe(&self, name: &str) -> Option<&Probe> {
        self.probes.iter().find(|probe| probe.name == name && probe.passed != probe.expected)
    }

    /// How many states are bad.
    fn damage(&self) -> String {
        let coverage = &self.coverage;
        let (lost, broken) = (coverage.lost, coverage.broken);
        let states = many(coverage.judged(), "state");
        let loses = |count| if count == 1 { "loses" } else { "lose" };
        let is = |count| if count == 1 { "is" } else { "are" };
        match (lost, broken) {
            (0, _) => format!("{broken} of {states} {} broken", is(broken)),
            (_, 0) => format!("{lost} of {states} {} acknowledged data", loses(lost)),
            _ => format!(
                "{lost} of {states} {} acknowledged data, {broken} {} broken",
                loses(lost),
                is(broken)
            ),
        }
    }

    /// What a green verdict covers.
    fn all_good(&self) -> String {
        let coverage = &self.coverage;
        let of = |whole| percent(coverage.covered(), whole);
        let part = match (coverage.is_partial(), coverage.complete) {
            (true, _) if coverage.share < coverage.space => {
                format!(" ({} of this shard; the others were not tried)", of(coverage.share))
            }
            (true, _) => {
                format!(" ({} of the space; the others were not tried)", of(coverage.space))
            }
            (false, true) => String::new(),
            (false, false) => format!(" ({} of the space)", of(coverage.space)),
        };
        let promise = match &self.acknowledgements {
            Acknowledgements::Used { count } => {
                format!("; {} checked", many(*count, "acknowledgement"))
            }
            Acknowledgements::ConsistencyOnly => "; consistency only".to_owned(),
            Acknowledgements::NotUsed => "; durability not checked".to_owned(),
        };
        let states = coverage.judged();
        match states {
            1 => format!("the only state is good{part}{promise}"),
            _ => format!("all {states} states are good{part}{promise}"),
        }
    }

    /// Why a report without bad states is not green.
    fn doubt(&self) -> Option<String> {
        let coverage = &self.coverage;
        let judged = many(coverage.judged(), "state");
        if self.bad_probe("end state").is_some() {
            return Some("the check fails on an undamaged disk; repair the check".to_owned());
        }
        if self.bad_probe("missing data").is_some_and(|probe| probe.passed) {
            return Some(
                "the check cannot fail: it accepts a disk without the acknowledged data".into(),
            );
        }
        if self.bad_probe("control").is_some() {
            return Some(
                "the control has no bad state: the check finds no damage; make it stricter".into(),
            );
        }
        if self.bad_probe("missing data").is_some() {
            return Some(
                "the check cannot fail: it passes on a disk without the acknowledged data".into(),
            );
        }
        if let Some(probe) = self.probes.iter().find(|probe| probe.passed != probe.expected) {
            let done = if probe.passed { "passes" } else { "fails" };
            return Some(format!(
                "the {} {done} unexpectedly; see its output",
                one_line(&probe.name, 40)
            ));
        }
        if let Some(cause) = &self.ended_by {
            let cause = one_line(cause, 80);
            return Some(format!("{cause} ended the test after {judged}; none of them is bad"));
        }
        if let Some(death) = &self.workload_died {
            let death = one_line(death, 80);
            return Some(format!(
                "the workload died ({death}); before that, none of {judged} is bad"
            ));
        }
        if self.tape.writes == 0 {
            return Some("the tape has no write; let the workload write to the disk".to_owned());
        }
        if self.acknowledgements == (Acknowledgements::Used { count: 0 }) {
            return Some("the tape has no acknowledgement; check the workload".to_owned());
        }
        if coverage.judged() == 0 {
            return Some("no state was checked".to_owned());
        }
        if coverage.wavers > 0 {
            return Some(format!(
                "the check wavers on {} of {judged}: it rejects a state and then accepts it",
                coverage.wavers
            ));
        }
        let (hung, failed) = (coverage.hung, coverage.failed);
        match (hung, failed) {
            (0, 0) => None,
            (_, 0) => Some(format!("{hung} of {judged} hung in the check; raise the time limit")),
            (0, _) => Some(format!("the check itself failed on {failed} of {judged}")),
            _ => Some(format!("of {judged}, {hung} hung in the check and {failed} failed it")),
        }
    }

    /// The facts about tape, probes and coverage, each with its name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let tape = &self.tape;
        if tape.has_calls {
            return self.facts_of_calls();
        }
        let disk = match &self.file_system {
            Some(name) => format!("{} with {}", bytes(tape.size_bytes), one_line(name, 40)),
            None => format!("{}, raw", bytes(tape.size_bytes)),
        };
        let recording = format!(
            "{}: {} ({}), {}, {}",
            many(tape.events, "event"),
            many(tape.writes, "write"),
            bytes(tape.bytes_written),
            many(tape.flushes, "flush"),
            many(tape.marks, "acknowledgement"),
        );
        self.facts_after(vec![("disk", disk), ("tape", recording)])
    }

    /// The same of a recording of calls.
    fn facts_of_calls(&self) -> Vec<(&'static str, String)> {
        let tape = &self.tape;
        let recording = format!(
            "{}: {}, {}, {}",
            many(tape.events, "event"),
            many(tape.writes, "part"),
            many(tape.flushes, "sync"),
            many(tape.marks, "acknowledgement"),
        );
        let name = self.file_system.as_deref().unwrap_or_default();
        self.facts_after(vec![
            ("judged", format!("by a {}", one_line(name, 40))),
            ("calls", recording),
        ])
    }

    /// These facts, and those about probes and coverage.
    fn facts_after(&self, mut out: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
        if !self.probes.is_empty() {
            let shown: Vec<String> = self.probes.iter().map(probe).collect();
            out.push(("probes", shown.join(", ")));
        }
        out.push(("coverage", self.covered()));
        out.push(("states", self.counts()));
        out.push(("time", seconds(self.elapsed_s)));
        out
    }

    /// How much of the bounded space was checked.
    fn covered(&self) -> String {
        let coverage = &self.coverage;
        let budget = coverage.budget_s.map_or_else(String::new, |budget| {
            let word = if coverage.complete { "within" } else { "cut short by" };
            format!("; {word} the budget of {}", seconds(budget))
        });
        let (boundary, tears) = match self.tape.has_calls {
            true => ("sync", String::new()),
            false => ("flush boundary", format!("; writes tear at {} bytes", self.sector_bytes)),
        };
        format!(
            "{} of {} at {} ({}), {} identical{tears}{budget}",
            coverage.covered(),
            many(coverage.space, "state"),
            many(coverage.boundaries, boundary),
            percent(coverage.covered(), coverage.space),
            coverage.identical,
        )
    }

    /// How many states of each kind there are.
    fn counts(&self) -> String {
        let coverage = &self.coverage;
        let kinds = [
            (coverage.good, Kind::Good),
            (coverage.lost, Kind::Lost),
            (coverage.broken, Kind::Broken),
            (coverage.wavers, Kind::Wavers),
            (coverage.hung, Kind::Hung),
            (coverage.failed, Kind::Failed),
        ];
        let is_rare = |kind| matches!(kind, Kind::Wavers | Kind::Hung | Kind::Failed);
        let shown = kinds.iter().filter(|(count, kind)| *count > 0 || !is_rare(*kind));
        let shown: Vec<String> =
            shown.map(|(count, kind)| format!("{count} {}", kind.word())).collect();
        shown.join(", ")
    }
}

/// The outcome of a probe.
fn probe(probe: &Probe) -> String {
    let done = if probe.passed { "passes" } else { "fails" };
    let name = one_line(&probe.name, 40);
    match probe.passed == probe.expected {
        true => format!("{name} {done} as expected"),
        false => format!("{name} {done} UNEXPECTEDLY"),
    }
}
