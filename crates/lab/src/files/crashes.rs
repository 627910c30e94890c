//! Cuts the power of a simulated disk at each of its writes, and looks at what is left.
//!
//! A script makes, renames and removes files over FFS on a mechanical disk without a write cache.
//! The disk completes its writes in an order of its own, and a [`tape`] says which it was. A crash
//! state is what the first writes leave, with and without the first half of the sectors of the next
//! one: a disk writes sectors in order, each whole or not at all. A log on a disk of its own lies
//! behind the volume, and the writes of both disks are one sequence. Each state is checked,
//! repaired where the policy asks for that, mounted, and compared with the calls that were answered
//! by then ([`look`]).
//!
//! The prover (`seekless prove --fs ffs`) tries more states of worse devices. This here is what the
//! disk of the paper leaves.

mod look;
mod script;
mod tape;

use super::driver::{Answered, FilesDriver, FilesError, Program};
use crate::sim::Target;
use look::Seen;
use script::{Actor, History, Name};
use seekless_crash::tear::apply;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::IoError;
use seekless_engine::middleware::record::Record;
use seekless_engine::units::{SECONDS, Time};
use seekless_formats::Kind;
use seekless_formats::{FsError, MkfsOptions, MountOptions, Severity};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::Errno;
use seekless_fs::core::{CoreOptions, Ordering};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::journal::JournalOptions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tape::{Wrote, completed_writes};

/// Blocks of the volume: 16 MiB, so that space is used again.
const BLOCKS: u64 = 4096;
/// Blocks of a log on a disk of its own: 2 MiB, as the other logs get.
const LOG_BLOCKS: u64 = 512;
/// Time after the script, in which all that is delayed reaches the disk.
const REST: Time = 100 * SECONDS;

/// What is cut.
#[derive(Clone, Debug)]
pub struct CrashOptions {
    /// The format.
    pub file_system: Kind,
    /// How writes of metadata are ordered.
    pub policy: PolicyKind,
    /// How the log is written, if the policy keeps one.
    pub journal: JournalOptions,
    /// Sizes of the file system.
    pub mkfs: MkfsOptions,
    /// Rounds of the script.
    pub rounds: u32,
    /// Seed of all randomness.
    pub seed: u64,
}

/// What crashes have left, in numbers of states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashReport {
    /// Writes of the disk while the script ran.
    pub writes: u64,
    /// States.
    pub states: u64,
    /// Before any repair a check finds nothing.
    pub clean: u64,
    /// The log has operations behind its last superblock, which do not count.
    pub unnamed: u64,
    /// It finds leaks and counts that are too high, and nothing else.
    pub leaks: u64,
    /// It finds damage that a repair mends without loss.
    pub repairable: u64,
    /// It finds damage that costs names or content.
    pub fatal: u64,
    /// Findings other than leaks: an example of each kind, and the number of states.
    pub damage: Vec<(String, u64)>,
    /// No repair or mount is possible.
    pub unusable: u64,
    /// A name is missing of which the making was answered.
    pub names_lost: u64,
    /// A name is there of which the removal was answered.
    pub removals_lost: u64,
    /// A file that was renamed has two names or more.
    pub both_names: u64,
    /// Such a file has none.
    pub neither_name: u64,
    /// Within its size, a file holds what its program never wrote there.
    pub foreign_content: u64,
}

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CrashError {
    /// The file system cannot be made or mounted.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// The script came to a halt.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A call of the script failed.
    #[error("a call of the script failed: {0}")]
    Call(Errno),
    /// A write of the script failed.
    #[error("the memory of a state: {0}")]
    Memory(IoError),
}

/// Runs the script and looks at all states.
///
/// # Errors
/// A script that cannot run.
pub fn run(target: &Target, options: &CrashOptions) -> Result<CrashReport, CrashError> {
    let (writes, first, history) = record(target, options)?;
    let mut report = CrashReport { writes: (writes.len() - first) as u64, ..Default::default() };
    let mut cells = Cells::new(blocks(options.policy));
    for (index, write) in writes.iter().enumerate() {
        if index >= first {
            // The power fails while this write is on its way.
            let now = write.completed.saturating_sub(1);
            look(&cells, now, (options.file_system, options.policy), &history, &mut report);
            if let Some(half) = write.half() {
                let mut torn = cells.clone();
                apply(&mut torn, &write.write, &half);
                look(&torn, now, (options.file_system, options.policy), &history, &mut report);
            }
        }
        write.write.write_to(&mut cells).map_err(CrashError::Memory)?;
    }
    look(&cells, Time::MAX, (options.file_system, options.policy), &history, &mut report);
    report.damage.sort();
    Ok(report)
}

/// The writes of the disk, the number of those before the script, and what the script did.
fn record(
    target: &Target,
    options: &CrashOptions,
) -> Result<(Vec<Wrote>, usize, History), CrashError> {
    let &CrashOptions { policy, journal, .. } = options;
    let (device, log) = Record::new(target.device(Box::new(Cells::new(BLOCKS))));
    let node = Plain::node(Box::new(device));
    let (node, apart) = match policy.has_own_log_volume() {
        true => {
            let (node, log) = target.join_recorded(node, LOG_BLOCKS);
            (node, Some(log))
        }
        false => (node, None),
    };
    let recorded = || match &apart {
        None => completed_writes(&log.lend(), 0),
        Some(apart) => {
            let mut all = completed_writes(&log.lend(), 0);
            all.extend(completed_writes(&apart.lend(), BLOCKS));
            all.sort_by_key(|write| write.completed);
            all
        }
    };
    let core = CoreOptions { ordering: Ordering::Completion, ..CoreOptions::default() };
    let mount = MountOptions { core, policy, journal, now: 0 };
    let mkfs = MkfsOptions { id: u128::from(options.seed), ..options.mkfs.clone() };
    let mkfs = match policy.is_logged() {
        true => {
            let journal_blocks = policy.has_own_log_volume().then_some(LOG_BLOCKS);
            MkfsOptions { policy, journal: None, journal_blocks, ..mkfs }
        }
        false => mkfs,
    };
    let mut driver = FilesDriver::mount(node, |disk: &mut NodeDisk<'_>| {
        (options.file_system.mkfs)(disk, &mkfs)?;
        (options.file_system.mount)(disk, &mount)
    })?;
    let first = recorded().len();
    let mut actor = Actor::new(options.rounds, options.seed);
    let mut failed = None;
    driver.run(&mut [&mut actor as &mut dyn Program], |answered: Answered<'_>| {
        if let Err(errno) = answered.reply.result {
            failed.get_or_insert(errno);
        }
    })?;
    if let Some(errno) = failed {
        return Err(CrashError::Call(errno));
    }
    driver.idle(REST)?;
    let writes = recorded();
    Ok((writes, first, actor.history()))
}

/// Blocks of the volume, with those of a log on a disk of its own.
fn blocks(policy: PolicyKind) -> u64 {
    if policy.has_own_log_volume() { BLOCKS + LOG_BLOCKS } else { BLOCKS }
}

/// Looks at a state.
fn look(
    cells: &Cells,
    now: Time,
    (fs, policy): (Kind, PolicyKind),
    history: &History,
    report: &mut CrashReport,
) {
    report.states += 1;
    let mut cells = cells.clone();
    judge_findings(fs, &mut cells, report);
    // A log is applied by the mount.
    let repairs = policy != PolicyKind::Soft && !policy.is_logged();
    if repairs && (fs.repair)(&mut MediumDisk(&mut cells)).is_err() {
        report.unusable += 1;
        return;
    }
    let Ok(seen) = look::look(cells, (fs, policy), history) else {
        report.unusable += 1;
        return;
    };
    judge_names(&seen, now, history, report);
}

fn judge_findings(fs: Kind, cells: &mut Cells, report: &mut CrashReport) {
    let Ok(findings) = (fs.check)(&mut MediumDisk(cells)) else {
        report.fatal += 1;
        note(report, "no superblock can be read");
        return;
    };
    match findings.worst() {
        None => report.clean += 1,
        Some(Severity::Harmless) => report.leaks += 1,
        Some(Severity::Repairable) => report.repairable += 1,
        Some(Severity::Fatal) => report.fatal += 1,
    }
    let has_unnamed = findings.journal.as_ref().is_some_and(|journal| journal.unnamed > 0);
    report.unnamed += u64::from(has_unnamed);
    let mut kinds: Vec<String> = Vec::new();
    for finding in findings.list.iter().filter(|one| one.severity() != Severity::Harmless) {
        let kind = kind(&format!("{finding:?}"));
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.iter().for_each(|kind| note(report, kind));
}

/// The name of the kind of a finding.
fn kind(finding: &str) -> String {
    finding.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

fn note(report: &mut CrashReport, kind: &str) {
    match report.damage.iter_mut().find(|one| one.0 == kind) {
        Some(known) => known.1 += 1,
        None => report.damage.push((kind.to_owned(), 1)),
    }
}

fn judge_names(seen: &Seen, now: Time, history: &History, report: &mut CrashReport) {
    let expected = history.at(now);
    let missing = |name: &Name| !seen.names.contains(name);
    report.names_lost += u64::from(expected.there.iter().any(missing));
    let back = |name: &Name| seen.names.contains(name);
    report.removals_lost += u64::from(expected.gone.iter().any(back));
    report.foreign_content += u64::from(seen.foreign);
    let renamed = &expected.renamed;
    let left = |names: &BTreeSet<Name>| names.iter().filter(|name| back(name)).count();
    report.both_names += u64::from(renamed.values().any(|names| left(names) > 1));
    report.neither_name += u64::from(renamed.values().any(|names| left(names) == 0));
}
