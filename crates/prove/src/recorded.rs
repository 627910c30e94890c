//! A run as data, which outlives the generators: a file keeps what one case did.
//!
//! A recorded run holds its operations, its devices and the seed of everything that happens after
//! the first mount. Seed and number of the case only name the empty volume that it starts from. A
//! replay compares the sizes of the devices with those that were recorded: a generator that makes
//! another volume ends the replay with an error instead of a run that shows nothing.

use crate::ProveOptions;
use crate::keep::Keep;
use crate::kinds::kind_of;
use crate::machine::DeviceKind;
use crate::oracle::Oracle;
use crate::report::ProveReport;
use crate::run::Run;
use crate::script::{Operation, Request};
use crate::shrink::told;
use crate::subject::Subject;
use crate::violation::Violation;
use seekless_crash::contract::{Contract, Order};
use seekless_crash::tear::Unit;
use serde::{Deserialize, Serialize};

/// A run of one case, without its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded<R> {
    /// Seed and number of the case that the run comes from.
    pub seed: u64,
    /// See `seed`.
    pub case: u64,
    /// The kind of workload that the case had when it was recorded; the case itself in old files.
    #[serde(default)]
    kind: Option<u64>,
    /// Sizes of the devices.
    device_blocks: Vec<u64>,
    #[serde(with = "DeviceKindAsData")]
    devices: DeviceKind,
    /// Seed of everything that is drawn after the first mount.
    base: u64,
    /// Crash states are tried from the operation with this number on.
    watch: u32,
    /// More states are tried at each event than in a sweep.
    thorough: bool,
    /// Numbers of the operations in their case: versions of blocks are named by them.
    operations: Vec<(u32, Operation<R>)>,
}

/// The generator makes another volume than the one that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "seed {seed}, case {case} makes devices of {made:?} blocks, and the run was recorded on \
     devices of {recorded:?}; record a run that shows the same with the current generator"
)]
pub struct Drifted {
    seed: u64,
    case: u64,
    made: Vec<u64>,
    recorded: Vec<u64>,
}

impl<R: Request> Recorded<R> {
    /// Records a case, or the operations `keep` of it.
    pub fn of<S>(options: &ProveOptions<S>, case: u64, keep: Option<&Keep>) -> Recorded<R>
    where
        S: Subject<Oracle: Oracle<Request = R>>,
    {
        let run = Run::new(options.subject, case, options.seed);
        let whole = Keep::operations(0..run.script().len() as u32);
        Recorded {
            seed: options.seed,
            case,
            kind: Some(kind_of(options.subject, options.seed, case)),
            device_blocks: run.device_blocks(),
            devices: run.devices(),
            base: run.base(),
            watch: keep.map_or(0, Keep::watch),
            thorough: keep.is_some(),
            operations: keep.unwrap_or(&whole).of(run.script()),
        }
    }

    /// Runs the operations again.
    ///
    /// # Errors
    /// [`Drifted`] if they would run on another volume.
    pub fn replay<S>(&self, subject: S) -> Result<ProveReport, Drifted>
    where
        S: Subject<Oracle: Oracle<Request = R>>,
    {
        let options = ProveOptions { seed: self.seed, ..ProveOptions::of(subject) };
        let Recorded { seed, case, .. } = *self;
        let from = (seed, case, self.kind.unwrap_or(case));
        let run = Run::again(subject, from, &self.device_blocks, self.devices, self.base);
        let drifted = |made| Drifted { seed, case, made, recorded: self.device_blocks.clone() };
        let mut run = run.map_err(drifted)?.watching(self.watch);
        if self.thorough {
            run = run.thorough();
        }
        let head = run.describe();
        let mut report = ProveReport::new(&options);
        let found = run.execute(&self.operations, &mut report);
        report.cases = 1;
        report.violations.extend(found.map(|found| Violation {
            case: self.case,
            event: found.event,
            sort: found.wrong.sort,
            story: told(head, &self.operations, &found),
            keep: None,
            replay: options.replay(self.case),
        }));
        Ok(report)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DeviceKind")]
struct DeviceKindAsData {
    #[serde(with = "ContractAsData")]
    contract: Contract,
    headed: bool,
    slow_flushes: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_forced: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Contract")]
struct ContractAsData {
    #[serde(with = "OrderAsData")]
    order: Order,
    #[serde(with = "UnitAsData")]
    unit: Unit,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Order")]
enum OrderAsData {
    KeepsCompleted,
    Prefix,
    Unordered,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Unit")]
enum UnitAsData {
    Sector,
    Block,
    Request,
}
