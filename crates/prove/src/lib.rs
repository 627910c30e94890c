//! The prover: cuts the power at every device event, tries the states a device could be in, mounts
//! each and compares it with what the contract allows.
//!
//! A *case* is one seeded run: a volume on one or more devices of memory, a client that writes,
//! trims, flushes and pauses, clean shutdowns, crashes and recoveries in between. The devices share
//! one power supply: a cut hits all of them at the same instant, and what each had not been asked
//! to flush may be lost on each on its own. Everything is a function of the seed and the number of
//! the case, so a violation is replayed by naming them.
//!
//! Start with [`subject`], [`volume`] and [`oracle`] (the seam: what is proved, and who judges),
//! then `run` (the loop), `check` (what happens to one crash state) and `shrink`. [`block`] holds
//! the block volumes that are proved. Which states are legal and tried is for `seekless_crash` to
//! say. [`files`] holds the file systems that are proved, [`log`] the log as a service.
//! [`structure`] proves a structure of your own, given by three functions.
#![forbid(unsafe_code)]

pub mod block;
mod block_damage;
mod check;
mod crash_states;
pub mod files;
mod keep;
mod kinds;
pub mod log;
pub mod machine;
pub mod making;
mod memo;
mod mounting;
pub mod oracle;
mod read_only_mount;
mod recorded;
mod recovery_cuts;
mod report;
pub mod rules;
mod run;
pub mod script;
mod shrink;
mod small_disk;
pub mod structure;
pub mod subject;
pub mod sweep;
mod violation;
pub mod volume;

pub use block::{BlockSubject, WORKLOADS};
pub use files::FileSubject;
pub use keep::{Keep, NoKeep};
pub use log::LogSubject;
pub use recorded::{Drifted, Recorded};
pub use report::{FaultCounts, ProveReport};
pub use rules::{Complaint, Rule};
pub use seekless_crash::contract::Order;
pub use subject::Subject;
pub use violation::{Sort, Violation, Wrong};

use run::Run;
use sweep::Sweep;

/// What to prove, and how hard to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProveOptions<S = BlockSubject> {
    /// What is proved.
    pub subject: S,
    /// Seed of everything.
    pub seed: u64,
    /// Crash states to try; the last case is finished, so it may be some more.
    pub states: u64,
    /// Start with this case.
    pub from: u64,
    /// So many cases at most.
    pub runs: Option<u64>,
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
    /// Ten thousand states of a block volume, such as a layout.
    pub fn new(subject: impl Into<BlockSubject>) -> ProveOptions {
        ProveOptions::of(subject.into())
    }
}

impl<S: Subject> ProveOptions<S> {
    /// Ten thousand states of a subject.
    pub fn of(subject: S) -> ProveOptions<S> {
        ProveOptions {
            subject,
            seed: 1,
            states: 10_000,
            from: 0,
            runs: None,
            case: None,
            keep: None,
            stop_at_first: false,
            shrink: false,
        }
    }
}

/// None of the operations that are to be kept is one of the case's: there would be nothing to
/// prove.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{keep}: case {case} has no such operations; its operations are 0 to {last}")]
pub struct NoSuchOperations {
    keep: String,
    case: u64,
    last: usize,
}

impl<S: Subject> ProveOptions<S> {
    /// The command that runs a case again.
    pub fn replay(&self, case: u64) -> String {
        let flags = self.subject.flags();
        format!("seekless prove {flags} --seed {} --case {case}", self.seed)
    }

    /// Tells whether there is anything to run.
    ///
    /// # Errors
    /// [`NoSuchOperations`] if the operations to keep leave nothing, or no power cut.
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

/// Runs cases until enough states have been tried. `clock` counts nanoseconds and only serves to
/// report the speed; `progress` is told before each case its number and how many states have been
/// tried.
pub fn prove<S: Subject>(
    options: &ProveOptions<S>,
    clock: fn() -> u64,
    progress: &mut dyn FnMut(u64, u64),
) -> ProveReport {
    let started = clock();
    let mut sweep = Sweep::new(options);
    while let Some(case) = sweep.next() {
        progress(case, sweep.report().states);
        let tried = Sweep::run(options, case);
        sweep.take(tried);
    }
    sweep.finish(clock().saturating_sub(started))
}
