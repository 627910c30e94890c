//! What a crash test found, as plain data, and the ways to write it down.
//!
//! The sweep fills a [`Report`]; each writer turns it into one form: [`text`] for a terminal,
//! [`json`] for programs, [`junit`] for build servers, [`html`] for a browser. A writer reads the
//! report and nothing else. [`policies`] puts several reports together, and [`enough`] says which
//! policy is enough. [`summary`] holds what all of them say: the verdict and its reason.
//!
//! Output of checks, names of files and values of acknowledgements are hostile input. Each writer
//! passes them through [`clean`] and escapes them.

pub mod clean;
pub mod enough;
pub mod html;
pub mod json;
pub mod junit;
pub mod models;
pub mod policies;
pub mod signature;
pub mod summary;
pub mod text;

pub(crate) mod example;
mod units;

#[cfg(test)]
mod tests;

pub use signature::signature;
pub use summary::Verdict;

use serde::{Deserialize, Serialize};

/// The result of one crash test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The tape, or the command that was recorded.
    pub title: String,
    /// File system on the disk; `None` for a raw disk.
    pub file_system: Option<String>,
    /// Whether the checks know what was acknowledged.
    pub acknowledgements: Acknowledgements,
    /// What the tape holds.
    pub tape: TapeFacts,
    /// Unit in which writes tear, in bytes.
    pub sector_bytes: u32,
    /// Checks of states with a known outcome.
    pub probes: Vec<Probe>,
    /// How many states there are, and how many were checked.
    pub coverage: Coverage,
    /// Bad states and checks without a verdict, by cause; [`Report::sort_groups`] has the order.
    pub groups: Vec<Group>,
    /// Every state that was tried, in the order of the sweep.
    pub states: Vec<StateRow>,
    /// What ended the sweep early, such as `SIGINT`.
    pub ended_by: Option<String>,
    /// How the workload died, if it did: what it would have done later was not tried.
    pub workload_died: Option<String>,
    /// Wall-clock time of the whole test, in seconds.
    pub elapsed_s: f64,
    /// What weakens the verdict, one sentence each.
    pub warnings: Vec<String>,
    /// Exit code of the command.
    pub exit_code: u8,
}

/// Whether the checks know what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "use", rename_all = "kebab-case")]
pub enum Acknowledgements {
    /// Each check gets the acknowledgements before its cut.
    Used {
        /// Acknowledgements on the tape.
        count: u64,
    },
    /// The user asked for a test of consistency alone.
    ConsistencyOnly,
    /// The tape has none.
    NotUsed,
}

/// What a tape holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapeFacts {
    /// Requests, answers and marks.
    pub events: u64,
    /// Writes, zeros and trims.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Acknowledgements.
    pub marks: u64,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Payload of all writes in bytes.
    pub bytes_written: u64,
    /// Calls are on it, and writes are parts of calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_calls: bool,
}

/// The check of a state whose outcome is known. It tests the check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// `end state`, `start state` or `control`.
    pub name: String,
    /// The check accepted the state.
    pub passed: bool,
    /// The outcome that a sound check has.
    pub expected: bool,
    /// What the check printed.
    pub output: String,
}

/// How much of the bounded space was checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Flush boundaries.
    pub boundaries: u64,
    /// States in the bounded space.
    pub space: u64,
    /// States whose check ran.
    pub tried: u64,
    /// States with the same content as one that was tried.
    pub identical: u64,
    /// States that the check accepts.
    pub good: u64,
    /// States of [`Kind::Lost`].
    pub lost: u64,
    /// States of [`Kind::Broken`].
    pub broken: u64,
    /// States of [`Kind::Wavers`].
    pub wavers: u64,
    /// States of [`Kind::Failed`].
    pub failed: u64,
    /// States of [`Kind::Hung`].
    pub hung: u64,
    /// The sweep reached every state of the space.
    pub complete: bool,
    /// States of the space that were this sweep's to try: all of them, or those of a shard.
    pub share: u64,
    /// The sweep ended before it had tried its share.
    pub cut_short: bool,
    /// Percentage of the share that is enough for success.
    pub enough_percent: Option<f64>,
    /// Time limit of the sweep in seconds.
    pub budget_s: Option<f64>,
}

/// What the check says of a state. The order is the order of groups: the worst kind first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It rejects the state with nothing acknowledged as well.
    Broken,
    /// It rejects the state only because acknowledged data is missing.
    Lost,
    /// It rejects the state, and accepts the same state when it is asked again.
    Wavers,
    /// It took longer than allowed.
    Hung,
    /// It failed for a reason of its own.
    Failed,
    /// It accepts the state.
    Good,
}

/// States that fail in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// What they share: see [`signature()`].
    pub signature: String,
    /// What the check says of each.
    pub kind: Kind,
    /// Exit code of the check.
    pub exit: Option<i32>,
    /// Number of states.
    pub states: u64,
    /// Short name of the first state of the group that was found.
    pub first_seen: String,
    /// One state of the group, as small as it was made.
    pub example: Example,
}

/// A bad state and how it came to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Short name.
    pub id: String,
    /// Full name.
    pub name: String,
    /// No smaller state of this kind was found nearby.
    pub minimised: bool,
    /// A power cut can leave this state.
    pub allowed: bool,
    /// The power goes before this event.
    pub cut: u64,
    /// Acknowledgements before the cut.
    pub acked: u64,
    /// Value of the last one.
    pub last_acked: Option<String>,
    /// What the check printed.
    pub output: String,
    /// What its tree lacks, if that is known.
    pub missing: Option<Missing>,
    /// Why a model of a file system allows it, and the call that would forbid it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The command that checks this state again.
    pub again: String,
    /// Writes that the cut could take.
    pub writes: Vec<WriteLine>,
    /// Writes that were durable before the cut.
    pub durable: u64,
    /// Events near the cut, in order.
    pub timeline: Vec<Moment>,
}

/// What the tree of a state lacks, beside one that holds what was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// When the disk held the other tree.
    pub against: String,
    /// Names, sizes and first bytes that differ.
    pub lines: Vec<String>,
    /// Differences that are not listed.
    pub more: u64,
    /// The calls that would have prevented it.
    pub remedies: Vec<String>,
}

/// A write that the cut could take, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteLine {
    /// Number of the request.
    pub number: u64,
    /// Number of the disk, from 1.
    #[serde(default = "first_disk")]
    pub disk: u8,
    /// First byte on its disk.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// What was written.
    pub kind: WriteKind,
    /// Forced unit access: durable once it is answered.
    pub fua: bool,
    /// It was answered before the cut.
    pub answered: bool,
    /// What became of it.
    pub fate: Fate,
    /// Ranges of a torn write that reached the medium: first byte on its disk, one past the last.
    pub kept_ranges: Vec<(u64, u64)>,
    /// The place in file terms, such as `d.db bytes 12288-16384`.
    pub place: Option<String>,
}

fn first_disk() -> u8 {
    1
}

/// What a request wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteKind {
    /// Bytes.
    Write,
    /// Zeros.
    Zeros,
    /// A part of a call: names, a page, a size, attributes.
    Call,
    /// Nothing: the bytes read as zeros afterwards.
    Trim,
}

/// What a power cut did to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// The medium has all of it.
    Kept,
    /// The medium has nothing of it.
    Lost,
    /// The medium has a part of it.
    Torn,
}

/// One event of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Index of the event.
    pub event: u64,
    /// What happened.
    pub kind: MomentKind,
    /// The event in words.
    pub text: String,
    /// What became of the write, for a request that the cut could take.
    pub fate: Option<Fate>,
}

/// What happened at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentKind {
    /// A write, zeros or a trim was asked for.
    Request,
    /// The workload acknowledged something.
    Mark,
    /// A flush was answered.
    Flush,
    /// The power went.
    Cut,
}

/// A state that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRow {
    /// Short name.
    pub id: String,
    /// Full name.
    pub name: String,
    /// The power goes before this event.
    pub cut: u64,
    /// Acknowledgements before the cut.
    pub acked: u64,
    /// What the check says.
    pub kind: Kind,
    /// Exit code of the check.
    pub exit: Option<i32>,
    /// Index of its group in [`Report::groups`].
    pub group: Option<usize>,
    /// Short name of the tried state with the same content.
    pub same_as: Option<String>,
}

impl Report {
    /// Sorts the groups by kind, then by number of states, then by signature. Group indices of
    /// [`Report::states`] follow.
    pub fn sort_groups(&mut self) {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by_key(|&index| {
            let group = &self.groups[index];
            (group.kind, std::cmp::Reverse(group.states), group.signature.clone())
        });
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        self.groups = order.iter().map(|&index| self.groups[index].clone()).collect();
        for row in &mut self.states {
            row.group = row.group.and_then(|old| place.get(old).copied());
        }
    }
}
