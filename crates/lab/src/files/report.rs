//! The report of a program: what each phase took, of the calls and of the disks.

use super::run::FilesOptions;
use super::watch::Responses;
use crate::disk_time::DiskTime;
use crate::histogram::{Latencies, LatencyMs};
use crate::interned::{self, Name};
use crate::sim::Target;
use seekless_engine::account::Account;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::journal::JournalOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a phase has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub kinds: BTreeMap<&'static str, Latencies>,
    pub bytes: u64,
    pub steps: u64,
    /// Counted in the phases of `burst` only.
    pub updates: Option<Updates>,
}

/// Writes that are made durable by the next call of their user.
#[derive(Clone, Debug, Default)]
pub(super) struct Updates {
    /// When the last write of a user began.
    began: BTreeMap<usize, Time>,
    latencies: Latencies,
    /// Sums of milliseconds and of their squares.
    sum: f64,
    squares: f64,
}

impl Updates {
    /// A write has been answered.
    pub fn wrote(&mut self, user: usize, submitted: Time) {
        self.began.insert(user, submitted);
    }

    /// A call for durability has been answered.
    pub fn synced(&mut self, user: usize, answered: Time) {
        let Some(began) = self.began.remove(&user) else { return };
        let ms = (answered - began) as f64 / MILLIS as f64;
        self.latencies.record_ns(answered - began);
        self.sum += ms;
        self.squares += ms * ms;
    }

    fn report(&self) -> Option<UpdateReport> {
        let updates = self.latencies.count();
        let count = updates.max(1) as f64;
        let variance = self.squares / count - (self.sum / count).powi(2);
        let (latency_ms, deviation_ms) = (self.latencies.latency_ms(), variance.max(0.0).sqrt());
        (updates > 0).then_some(UpdateReport { updates, latency_ms, deviation_ms })
    }
}

/// Durable updates: writes with the calls that make them durable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateReport {
    /// Their number.
    pub updates: u64,
    /// From the write to the answer of the call for durability.
    pub latency_ms: LatencyMs,
    /// Standard deviation of that.
    pub deviation_ms: f64,
}

/// Times of a phase in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub answered: Time,
    pub settled: Time,
    /// The CPU was busy, of `answered`.
    pub busy: Time,
    pub cpu_ns: Time,
    pub host_ns: u64,
}

/// By how much counters have grown in a phase.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub file_system: BTreeMap<&'static str, f64>,
    pub volume: BTreeMap<&'static str, f64>,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallReport {
    /// Their number.
    pub calls: u64,
    /// Calls per second of the phase, until all calls were answered.
    pub per_second: f64,
    /// From the call to its answer, waiting for the CPU included.
    pub latency_ms: LatencyMs,
}

/// One measured phase. All but the two host figures are functions of options and seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Its name.
    pub phase: String,
    /// Virtual time until all calls were answered.
    pub elapsed_seconds: f64,
    /// Virtual time until everything was on the disk.
    pub settled_seconds: f64,
    /// Of that, the CPU was busy.
    pub cpu_seconds: f64,
    /// The CPU was busy until all calls were answered.
    pub cpu_answered_seconds: f64,
    /// Calls.
    pub calls: u64,
    /// Calls per second until all were answered.
    pub calls_per_second: f64,
    /// Payload read and written, in bytes.
    pub bytes: u64,
    /// Payload in MB (10^6 bytes) per second until everything was on the disk.
    pub megabytes_per_second: f64,
    /// Files made, opened or removed per second, whichever is most, until everything was on the
    /// disk.
    pub files_per_second: f64,
    /// Calls by kind.
    #[serde(deserialize_with = "interned::map")]
    pub by_call: BTreeMap<&'static str, CallReport>,
    /// Durable updates, in the phases of `burst`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<UpdateReport>,
    /// Where the time of each simulated disk went, until everything was on it.
    pub disk_time: Vec<DiskTime>,
    /// Counters of the file system.
    #[serde(deserialize_with = "interned::map")]
    pub file_system: BTreeMap<&'static str, f64>,
    /// Counters of the volume and its disks, until everything was on them.
    #[serde(deserialize_with = "interned::map")]
    pub volume: BTreeMap<&'static str, f64>,
    /// Requests to the volume that were answered before all calls were.
    pub responses: Responses,
    /// How fast the host simulated: calls per second of its time.
    pub simulated_calls_per_second: f64,
    /// Host time, in seconds.
    pub host_seconds: f64,
}

/// The same program with other free costs of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// By how much the free costs were multiplied.
    pub factor: f64,
    /// The phases, in order: name, and the figures that depend on them.
    pub phases: Vec<PhaseTimes>,
}

/// The times of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Its name.
    pub phase: String,
    /// As in [`PhaseReport`].
    pub elapsed_seconds: f64,
    /// As in [`PhaseReport`].
    pub settled_seconds: f64,
}

/// The log of a policy that keeps one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalReport {
    /// When content must be on the disk: `ordered` or `writeback`.
    #[serde(deserialize_with = "interned::name")]
    pub data: Name,
    /// Calls that wait share a write of the log.
    pub group_commit: bool,
    /// Bytes of the ring.
    pub log_bytes: u64,
    /// Bytes of the volume below the file system, with those of a log on a disk of its own.
    pub volume_bytes: u64,
}

impl JournalReport {
    pub(super) fn new(
        options: JournalOptions,
        (log_bytes, volume_bytes): (u64, u64),
    ) -> JournalReport {
        let JournalOptions { data, group_commit, .. } = options;
        JournalReport { data: data.name(), group_commit, log_bytes, volume_bytes }
    }
}

/// The report of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilesReport {
    /// The program.
    #[serde(deserialize_with = "interned::name")]
    pub program: Name,
    /// The file system.
    #[serde(deserialize_with = "interned::name")]
    pub file_system: Name,
    /// How it orders writes.
    #[serde(deserialize_with = "interned::name")]
    pub policy: Name,
    /// Its log, if the policy keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalReport>,
    /// Completed writes counted as durable, on volumes that report early, too.
    pub trust_completions: bool,
    /// Content of files went before what leads there, if the policy orders it.
    #[serde(default = "usual", skip_serializing_if = "is_usual")]
    pub data_order: bool,
    /// Seconds from the first change of a file's content to its write.
    #[serde(default = "usual_age_s", skip_serializing_if = "is_usual_age_s")]
    pub write_age_s: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a fragment.
    pub fragment_bytes: u32,
    /// The layout below.
    #[serde(deserialize_with = "interned::name")]
    pub layout: Name,
    /// The disk.
    pub disk: String,
    /// Users.
    pub users: usize,
    /// The host.
    #[serde(deserialize_with = "interned::name")]
    pub host: Name,
    /// Bytes of its cache.
    pub cache_bytes: u64,
    /// Bytes of changes that survive a power cut in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvram_bytes: Option<u64>,
    /// Seed of the run.
    pub seed: u64,
    /// The measured phases.
    pub phases: Vec<PhaseReport>,
    /// The same with half and double the free costs of the host; none if it takes no time.
    pub sensitivity: Vec<Sensitivity>,
}

/// True of an order that needs no word.
fn is_usual(data_order: &bool) -> bool {
    *data_order
}

fn usual() -> bool {
    true
}

fn is_usual_age_s(age_s: &u64) -> bool {
    *age_s == usual_age_s()
}

fn usual_age_s() -> u64 {
    CoreOptions::default().write_age_s
}

fn seconds(ns: Time) -> f64 {
    ns as f64 / SECONDS as f64
}

fn per_second(count: u64, ns: Time) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 / seconds(ns) }
}

impl PhaseReport {
    pub(super) fn new(
        phase: String,
        tally: &Tally,
        times: Times,
        accounts: &[Account],
        counters: Counters,
        responses: Responses,
    ) -> PhaseReport {
        let Times { answered, settled, busy, cpu_ns, host_ns } = times;
        let count = |kind: &str| tally.kinds.get(kind).map_or(0, Latencies::count);
        let calls = tally.kinds.values().map(Latencies::count).sum();
        let files = count("create").max(count("open")).max(count("unlink"));
        let by_call = tally.kinds.iter().map(|(&kind, one)| {
            let (calls, latency_ms) = (one.count(), one.latency_ms());
            (kind, CallReport { calls, per_second: per_second(calls, answered), latency_ms })
        });
        PhaseReport {
            phase,
            elapsed_seconds: seconds(answered),
            settled_seconds: seconds(settled),
            cpu_seconds: seconds(cpu_ns),
            cpu_answered_seconds: seconds(busy),
            calls,
            calls_per_second: per_second(calls, answered),
            bytes: tally.bytes,
            megabytes_per_second: per_second(tally.bytes, settled) / 1e6,
            files_per_second: per_second(files, settled),
            by_call: by_call.collect(),
            updates: tally.updates.as_ref().and_then(Updates::report),
            disk_time: accounts.iter().map(|one| DiskTime::new(one, settled)).collect(),
            file_system: counters.file_system,
            volume: counters.volume,
            responses,
            simulated_calls_per_second: per_second(calls, host_ns),
            host_seconds: seconds(host_ns),
        }
    }

    /// True if it made no calls.
    pub fn is_empty(&self) -> bool {
        self.calls == 0
    }
}

impl FilesReport {
    pub(super) fn new(
        target: &Target,
        options: &FilesOptions,
        phases: Vec<PhaseReport>,
    ) -> FilesReport {
        FilesReport {
            program: options.program.name(),
            file_system: options.file_system.name,
            policy: options.policy.name(),
            journal: None,
            trust_completions: options.trust_completions,
            data_order: options.data_order,
            write_age_s: options.write_age_s,
            block_bytes: options.mkfs.block,
            fragment_bytes: options.mkfs.fragment,
            layout: options.kind.name(),
            disk: match options.policy.has_own_log_volume() {
                true => format!(
                    "{}, journal on {}",
                    target.name_for(options.kind),
                    target.journal().name()
                ),
                false => target.name_for(options.kind),
            },
            users: options.amount.users,
            host: options.host.name,
            cache_bytes: options.cache_bytes(),
            nvram_bytes: options.nvram.map(|nvram| nvram.bytes),
            seed: options.amount.seed,
            phases,
            sensitivity: Vec::new(),
        }
    }

    /// Adds the times of the same program with other costs.
    pub fn add_sensitivity(&mut self, factor: f64, other: &FilesReport) {
        let times = |phase: &PhaseReport| PhaseTimes {
            phase: phase.phase.clone(),
            elapsed_seconds: phase.elapsed_seconds,
            settled_seconds: phase.settled_seconds,
        };
        self.sensitivity
            .push(Sensitivity { factor, phases: other.phases.iter().map(times).collect() });
    }

    /// The measured phase of a name.
    pub fn phase(&self, name: &str) -> Option<&PhaseReport> {
        self.phases.iter().find(|phase| phase.phase == name)
    }

    /// The report as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has only strings as keys")
    }

    /// The report as text: tables of fixed width. `responses` adds those of the requests to the
    /// volume.
    pub fn to_text(&self, responses: bool) -> String {
        super::text::report(self, responses)
    }
}
