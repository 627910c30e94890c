//! The runs of a figure: what runs on which disk, and what came of it.
//!
//! A job is one run in virtual time. It owns all that it needs, so that jobs of a figure may run at
//! the same time; their results do not depend on the order.

use super::trends;
use crate::files::crashes::{self, CrashError, CrashOptions, CrashReport};
use crate::files::recovery::{self, RecoveryError, RecoveryOptions, RecoveryReport};
use crate::files::report::{FilesReport, PhaseReport};
use crate::files::run::{self, FilesOptions, FilesRunError};
use crate::raw::{self, RawError};
use crate::remount::{self, RemountError, RemountOptions, RemountReport};
use crate::sim::{Clock, SimError, SimOptions, Target, simulate};
use crate::workload::{Pattern, Workload};
use seekless_disk::spec::FastWrite;
use seekless_disk::{Spec, SpecError, specs};
use seekless_engine::checksum::xxh3_64;
use seekless_fs::policy::PolicyKind;
use seekless_layouts::Kind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// By how much the free costs of a host are multiplied. The second is the host as it is.
pub const FACTORS: [f64; 3] = [0.5, 1.0, 2.0];

/// The host as it is, in [`FACTORS`].
pub const AS_IT_IS: usize = 1;

/// A synchronous figure depends on the angle between the places that its writes touch in turn. So
/// it is measured on so many disks, whose tracks differ by equal parts of a turn.
pub const ANGLES: u32 = 5;

/// Why a figure cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The disk is not built in, or cannot be simulated: a defect.
    #[error("the disk {0} cannot be simulated: {1}")]
    Disk(&'static str, String),
    /// A run over a file system.
    #[error("{0}: {1}")]
    Files(String, FilesRunError),
    /// A run over a volume.
    #[error("{0}: {1}")]
    Stream(String, SimError),
    /// Writes to a disk alone.
    #[error("{0}: {1}")]
    Raw(String, RawError),
    /// Crashes.
    #[error("{0}: {1}")]
    Crashes(String, CrashError),
    /// A mount after a crash.
    #[error("{0}: {1}")]
    Recovery(String, RecoveryError),
    /// A mount of a volume alone.
    #[error("{0}: {1}")]
    Remount(String, RemountError),
    /// A number for a claim that the figure does not have.
    #[error("this figure has no claim {0} with a number; known are {1}")]
    NoClaim(String, String),
}

/// A disk of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// Paper 001. It reports writes when they are on the platter: what reports early, no
    /// synchronous file system survives.
    Cheetah,
    /// Paper 002. Without its write cache, and without its bus, which is slower than its platters.
    Barracuda,
    /// The newer disk of paper 000.
    St19101,
    /// The newer disk of paper 000 as trends have it after three years.
    InThreeYears,
    /// After six.
    InSixYears,
    /// After nine.
    InNineYears,
    /// The older disk of paper 000.
    Hp97560,
}

impl Platform {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Cheetah => "cheetah9lp",
            Platform::Barracuda => "barracuda",
            Platform::St19101 => "st19101",
            Platform::InThreeYears => "st19101 in 3 years",
            Platform::InSixYears => "st19101 in 6 years",
            Platform::InNineYears => "st19101 in 9 years",
            Platform::Hp97560 => "hp97560",
        }
    }

    /// The disk that it is made from, and the years since.
    fn origin(self) -> (Platform, u32) {
        match self {
            Platform::InThreeYears => (Platform::St19101, 3),
            Platform::InSixYears => (Platform::St19101, 6),
            Platform::InNineYears => (Platform::St19101, 9),
            plain => (plain, 0),
        }
    }

    /// Milliseconds of a revolution; none if the disk is not built in.
    pub fn revolution_ms(self) -> Option<f64> {
        specs::find(self.name()).map(|spec| 60_000.0 / spec.rpm)
    }

    /// The disk, with so many parts of [`ANGLES`] of a turn more from each track to the next.
    ///
    /// # Errors
    /// [`FigureError::Disk`].
    pub fn target(self, angle: u32) -> Result<Target, FigureError> {
        let name = self.name();
        let none = || FigureError::Disk(name, "there is none".to_owned());
        let (origin, years) = self.origin();
        let mut spec: Spec = specs::find(origin.name()).ok_or_else(none)?;
        trends::after(&mut spec, years);
        if let Some(cache) = &mut spec.cache {
            cache.fast_write = FastWrite::None;
            cache.write_back = None;
        }
        if self == Platform::Barracuda {
            spec.bus = None;
        }
        for zone in spec.zones.iter_mut().filter(|_| angle > 0) {
            let turn = f64::from(zone.sectors);
            let more = turn * f64::from(angle) / f64::from(ANGLES);
            zone.track_skew = (zone.track_skew + more) % turn;
            zone.cylinder_skew = (zone.cylinder_skew + more) % turn;
        }
        let blame = |error: SpecError| FigureError::Disk(name, error.to_string());
        Target::disk(&spec, None).map_err(blame)
    }
}

/// A volume under the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name in tables.
    pub name: &'static str,
    /// The layout.
    pub kind: Kind,
    /// The layout below it.
    pub base: Option<Kind>,
    /// The file system takes its answers for durable, though it answers from memory.
    pub at_once: bool,
    /// It carries out one request at a time.
    pub one_lock: bool,
}

/// A volume as its layout makes it.
pub const fn plain(name: &'static str, kind: Kind) -> Volume {
    Volume { name, kind, base: None, at_once: false, one_lock: false }
}

/// Update in place.
pub const IN_PLACE: Volume = plain("inplace", Kind::INPLACE);
/// The virtual log.
pub const VLOG: Volume = plain("vlog", Kind::VLOG);
/// Loge.
pub const LOGE: Volume = plain("loge", Kind::LOGE);
/// The disk caching disk: a write that must be durable waits for the log.
pub const DCD: Volume = plain("dcd", Kind::DCD);
/// A disk caching disk as in the paper, whose writes count as durable when they are in memory.
pub const DCD_AT_ONCE: Volume = Volume { name: "dcd at once", at_once: true, ..DCD };
/// The driver of the paper: the same with one lock over the whole cache.
pub const DCD_LOCKED: Volume =
    Volume { name: "dcd at once, one lock", one_lock: true, ..DCD_AT_ONCE };

/// The four layouts that every figure is measured on.
pub const LAYOUTS: [Volume; 4] = [IN_PLACE, VLOG, LOGE, DCD];

impl Volume {
    /// Options for a program on it.
    pub fn under(self, options: FilesOptions) -> FilesOptions {
        let Volume { kind, at_once: trust_completions, one_lock, .. } = self;
        FilesOptions { kind, trust_completions, one_lock, ..options }
    }
}

/// Names a run within its figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The policy.
    pub policy: &'static str,
    /// The volume.
    pub volume: &'static str,
    /// What else tells runs apart.
    pub variant: String,
}

/// What a job runs.
#[derive(Clone, Debug)]
pub enum Work {
    /// A program over a file system.
    Files(Box<FilesOptions>),
    /// Large sequential requests to the volume alone: the most that a file system can reach.
    Stream {
        /// They read.
        reads: bool,
    },
    /// Random writes of so many bytes each to the disk alone, of so many bytes in all.
    Raw {
        /// Bytes of a write.
        each: u64,
        /// Bytes of all.
        all: u64,
    },
    /// A script whose power is cut at each write.
    Crashes(Box<CrashOptions>),
    /// A mount after a crash.
    Recovery(Box<RecoveryOptions>),
    /// A mount of a volume alone.
    Remount(Box<RemountOptions>),
}

/// A run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub key: Key,
    /// The costs of the host, as an index of [`FACTORS`].
    pub factor: usize,
    /// The disk.
    pub platform: Platform,
    /// Parts of [`ANGLES`] of a turn that its tracks have been turned by.
    pub angle: u32,
    /// The layout below a log-structured one.
    pub base: Option<Kind>,
    /// What runs.
    pub work: Work,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// A report.
    Files(Box<FilesReport>),
    /// MB (10^6 bytes) per second.
    Stream(f64),
    /// Crashes.
    Crashes(Box<CrashReport>),
    /// A mount after a crash.
    Recovery(RecoveryReport),
    /// A mount of a volume alone.
    Remount(RemountReport),
}

impl Outcome {
    /// As one line, if it can be kept.
    pub fn to_line(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// Reads such a line; `None` if it is none.
    pub fn from_line(line: &str) -> Option<Outcome> {
        serde_json::from_str(line).ok()
    }
}

/// The runs of a program for each of [`FACTORS`]; one if its host takes no time.
pub fn files(key: &Key, platform: Platform, options: &FilesOptions) -> Vec<Job> {
    let job = |(factor, by): (usize, &f64)| {
        let host = options.host.scaled(*by);
        let work = Work::Files(Box::new(FilesOptions { host, ..options.clone() }));
        Job { factor, ..Job::new(key.clone(), platform, work) }
    };
    let wanted = |(factor, _): &(usize, &f64)| options.host.takes_time() || *factor == AS_IT_IS;
    FACTORS.iter().enumerate().filter(wanted).map(job).collect()
}

/// The same for a volume that claims name; one run for a volume that they do not name.
pub fn files_on(
    key: &Key,
    platform: Platform,
    options: FilesOptions,
    (volume, claimed): (Volume, &[Volume]),
) -> Vec<Job> {
    let mut jobs = files(key, platform, &volume.under(options));
    jobs.iter_mut().for_each(|job| job.base = volume.base);
    if !claimed.contains(&volume) {
        jobs.retain(|job| job.factor == AS_IT_IS);
    }
    jobs
}

/// The name of a run on a disk whose tracks have been turned.
fn turned_variant(variant: &str, angle: u32) -> String {
    match angle {
        0 => variant.to_owned(),
        _ => format!("{variant}, tracks turned by {angle}/{ANGLES}"),
    }
}

/// Adds the run among `jobs` with the host as it is, on the disks with the other angles.
pub fn at_all_angles(jobs: &mut Vec<Job>) {
    let Some(plain) = jobs.iter().find(|job| job.factor == AS_IT_IS).cloned() else { return };
    for angle in 1..ANGLES {
        let variant = turned_variant(&plain.key.variant, angle);
        let key = Key { variant, ..plain.key.clone() };
        jobs.push(Job { key, angle, ..plain.clone() });
    }
}

/// A value at all angles at which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(pub Vec<f64>);

impl Spread {
    /// The mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The least and the largest.
    pub fn ends(&self) -> (f64, f64) {
        let end = |of: fn(f64, f64) -> f64| self.0.iter().copied().reduce(of).unwrap_or(0.0);
        (end(f64::min), end(f64::max))
    }

    /// For people.
    pub fn told(&self) -> String {
        let (least, most) = self.ends();
        let count = self.0.len();
        format!("{least:.2} to {most:.2} at {count} angles between tracks, the mean counts")
    }
}

/// Requests of a stream, each of 64 KiB.
const STREAM_REQUESTS: u64 = 2000;
const STREAM_BLOCKS: u32 = 16;
const STREAM_DEPTH: u32 = 8;

impl Job {
    /// A run on a disk as it is, with the host as it is.
    pub fn new(key: Key, platform: Platform, work: Work) -> Job {
        Job { key, factor: AS_IT_IS, platform, angle: 0, base: None, work }
    }

    /// A stream of requests to a volume in place.
    pub fn stream(platform: Platform, reads: bool) -> Job {
        let variant = stream_variant(reads).to_owned();
        let key = Key { policy: "", volume: IN_PLACE.name, variant };
        Job::new(key, platform, Work::Stream { reads })
    }

    /// Its name for people.
    pub fn name(&self) -> String {
        let Key { policy, volume, variant } = &self.key;
        format!("{policy} on {volume}, {variant}").trim_start_matches(" on ").to_owned()
    }

    /// Tells it apart from every job that may come to something else.
    pub fn digest(&self) -> u64 {
        xxh3_64(format!("{self:?}").as_bytes())
    }

    /// Runs it.
    ///
    /// # Errors
    /// What the run found.
    pub fn run(&self, clock: Clock) -> Result<Outcome, FigureError> {
        let target = self.target()?;
        match &self.work {
            Work::Files(options) => {
                let report = run::run(&target, options, clock);
                let report = report.map_err(|error| FigureError::Files(self.name(), error))?;
                Ok(Outcome::Files(Box::new(report)))
            }
            Work::Stream { reads } => self.run_stream(&target, *reads, clock),
            Work::Raw { each, all } => {
                let rate = raw::random_writes(&target, *each, *all, 1);
                rate.map(Outcome::Stream).map_err(|error| FigureError::Raw(self.name(), error))
            }
            Work::Crashes(options) => {
                let report = crashes::run(&target, options);
                let report = report.map_err(|error| FigureError::Crashes(self.name(), error))?;
                Ok(Outcome::Crashes(Box::new(report)))
            }
            Work::Recovery(options) => {
                let report = recovery::run(&target, options);
                let report = report.map_err(|error| FigureError::Recovery(self.name(), error));
                Ok(Outcome::Recovery(report?))
            }
            Work::Remount(options) => {
                let report = remount::run(&target, options);
                let report = report.map_err(|error| FigureError::Remount(self.name(), error));
                Ok(Outcome::Remount(report?))
            }
        }
    }

    /// The disk, with the layout below if there is one.
    fn target(&self) -> Result<Target, FigureError> {
        let target = self.platform.target(self.angle)?;
        let Some(base) = self.base else { return Ok(target) };
        let based = target.with_base(base);
        based.map_err(|error| FigureError::Files(self.name(), error.into()))
    }

    fn run_stream(
        &self,
        target: &Target,
        reads: bool,
        clock: Clock,
    ) -> Result<Outcome, FigureError> {
        let workload = Workload {
            pattern: Pattern::Sequential,
            read_share: if reads { 1.0 } else { 0.0 },
            request_blocks: STREAM_BLOCKS,
            depth: STREAM_DEPTH,
            requests: STREAM_REQUESTS,
            ..Workload::default()
        };
        let kind = Kind::INPLACE;
        let options = SimOptions { workload, fill: false, ..SimOptions::new(kind) };
        let report = simulate(target, &options, clock);
        let report = report.map_err(|error| FigureError::Stream(self.name(), error))?;
        let mebibytes = report.throughput.mebibytes_per_second;
        Ok(Outcome::Stream(mebibytes * f64::from(1 << 20) / 1e6))
    }
}

fn stream_variant(reads: bool) -> &'static str {
    if reads { "stream of reads" } else { "stream of writes" }
}

/// All results of a figure.
pub type Outcomes = BTreeMap<(usize, Key), Outcome>;

/// A measured value, or why there is none.
pub type Told<T> = Result<T, String>;

/// The results for one set of costs.
#[derive(Clone, Copy, Debug)]
pub struct Results<'r> {
    /// All results.
    pub all: &'r Outcomes,
    /// Which of [`FACTORS`].
    pub factor: usize,
}

impl<'r> Results<'r> {
    /// The report of a run.
    ///
    /// # Errors
    /// Why there is none.
    pub fn files(
        &self,
        policy: &'static str,
        volume: &'static str,
        variant: &str,
    ) -> Told<&'r FilesReport> {
        if !PolicyKind::ALL.iter().any(|kind| kind.name() == policy) {
            return Err(format!("the policy {policy} is not built"));
        }
        let key = Key { policy, volume, variant: variant.to_owned() };
        let found = self.all.get(&(self.factor, key.clone()));
        match found.or_else(|| self.all.get(&(AS_IT_IS, key))) {
            Some(Outcome::Files(report)) => Ok(report),
            _ => Err(format!("{policy} on {volume} was not run")),
        }
    }

    /// A value of a run at each angle between tracks. The first is that of the disk as it is; the
    /// others have the host as it is.
    ///
    /// # Errors
    /// Why there is none.
    pub fn spread(
        &self,
        policy: &'static str,
        volume: &'static str,
        variant: &str,
        value: impl Fn(&FilesReport) -> Told<f64>,
    ) -> Told<Spread> {
        let mut found = vec![value(self.files(policy, volume, variant)?)?];
        for angle in 1..ANGLES {
            if let Ok(report) = self.files(policy, volume, &turned_variant(variant, angle)) {
                found.push(value(report)?);
            }
        }
        Ok(Spread(found))
    }

    /// A phase of a run.
    ///
    /// # Errors
    /// Why there is none.
    pub fn phase(
        &self,
        policy: &'static str,
        volume: &'static str,
        variant: &str,
        phase: &str,
    ) -> Told<&'r PhaseReport> {
        let report = self.files(policy, volume, variant)?;
        report.phase(phase).ok_or_else(|| format!("{phase} was not run"))
    }

    /// What a run came to that is no program over a file system.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn other(&self, policy: &'static str, variant: &str) -> Told<&'r Outcome> {
        let key = Key { policy, volume: IN_PLACE.name, variant: variant.to_owned() };
        self.all.get(&(AS_IT_IS, key)).ok_or_else(|| format!("{variant} was not run"))
    }

    /// MB/s of a stream.
    ///
    /// # Errors
    /// Why there is none.
    pub fn stream(&self, reads: bool) -> Told<f64> {
        let variant = stream_variant(reads).to_owned();
        let key = Key { policy: "", volume: IN_PLACE.name, variant };
        match self.all.get(&(AS_IT_IS, key)) {
            Some(Outcome::Stream(rate)) => Ok(*rate),
            _ => Err("the disk alone was not run".to_owned()),
        }
    }

    /// The policies that were run, in order of their kinds.
    pub fn policies(&self) -> Vec<&'static str> {
        let ran = |name: &&str| self.all.keys().any(|(_, key)| key.policy == *name);
        PolicyKind::ALL.into_iter().map(PolicyKind::name).filter(ran).collect()
    }

    /// The policies that were run on a volume.
    pub fn policies_on(&self, volume: &str) -> Vec<&'static str> {
        let ran = |policy: &&'static str| {
            self.all.keys().any(|(_, key)| key.policy == *policy && key.volume == volume)
        };
        self.policies().into_iter().filter(ran).collect()
    }

    /// The volumes that were run under a file system: those of the papers first.
    pub fn volumes(&self) -> Vec<&'static str> {
        let known = [IN_PLACE, VLOG, LOGE, DCD, DCD_AT_ONCE, DCD_LOCKED].map(|volume| volume.name);
        let ran: BTreeSet<&'static str> = self
            .all
            .keys()
            .filter(|(_, key)| !key.policy.is_empty())
            .map(|(_, k)| k.volume)
            .collect();
        let others = ran.iter().copied().filter(|name| !known.contains(name));
        known.into_iter().filter(|name| ran.contains(name)).chain(others).collect()
    }
}

/// Where the time of a phase went: the measurement behind a difference.
pub fn spent(phase: &PhaseReport) -> String {
    let disk = phase.disk_time.iter().flat_map(|disk| &disk.spent);
    let mut most: Vec<_> = disk.collect();
    most.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let whole = phase.settled_seconds.max(f64::MIN_POSITIVE);
    let parts: Vec<String> = most
        .iter()
        .take(2)
        .map(|one| {
            let positioning = one.positioning_seconds / one.seconds.max(f64::MIN_POSITIVE);
            format!(
                "{} {} take {:.0} % of the disk ({:.0} % of that is positioning)",
                one.commands,
                one.what,
                one.seconds / whole * 100.0,
                positioning * 100.0
            )
        })
        .collect();
    format!(
        "{} takes {:.2} s, {:.2} s until settled, CPU {:.2} s; {}",
        phase.phase,
        phase.elapsed_seconds,
        phase.settled_seconds,
        phase.cpu_seconds,
        parts.join(", ")
    )
}

/// How one value compares with another one.
///
/// # Errors
/// Why there is none.
pub fn ratio(one: Told<f64>, two: Told<f64>) -> Told<f64> {
    Ok(one? / two?.max(f64::MIN_POSITIVE))
}

/// [`spent`] of a phase, or why there is none.
pub fn spent_in(phase: Told<&PhaseReport>) -> String {
    phase.map_or_else(|why| why, spent)
}

/// [`spent`] of two runs, with their names.
pub fn spent_both(one: (&str, Told<&PhaseReport>), two: (&str, Told<&PhaseReport>)) -> String {
    let each = [one, two].map(|(name, phase)| match phase {
        Ok(phase) => format!("{name}: {}", spent(phase)),
        Err(why) => format!("{name}: {why}"),
    });
    each.join("; ")
}
