//! The simulator: runs a layout on a disk in virtual time and reports where the time went.
//!
//! A run has four phases. First the volume is made so that its live data fills the requested share
//! of the disk, and written once in large sequential requests. Then random overwrites age it,
//! because a fresh volume is not typical. Then the workload warms up. Then it is measured. At the
//! end all live data is read back and compared with the written content.

mod build;
mod compare;
mod joined;
mod load;
mod report;
mod text;

pub use build::Target;
pub use compare::{Comparison, Field, Row, compare};
pub use load::{Load, Open, PoolReport, TraceReport};
pub use report::{Side, SimReport, Throughput};

use crate::driver::{Completion, DriveError, Driver};
use crate::histogram::Latencies;
use crate::trace::{NoRoom, TraceError};
use crate::workload::{Generator, MAX_REQUESTS, Workload, WorkloadError};
use seekless_engine::io::Op;
use seekless_engine::layout::LayoutError;
use seekless_engine::options::Options;
use seekless_engine::units::{BLOCK_BYTES, Time};
use seekless_layouts::Kind;

/// Reads a clock that counts nanoseconds. The caller passes it, so that no result depends on a
/// clock: it only measures how fast the host simulated.
pub type Clock = fn() -> u64;

/// Share of the disk that live data fills by default: the value in the claims about the virtual
/// log.
pub const DEFAULT_UTILISATION: f64 = 0.8;

/// Blocks in the requests that fill a volume and read it back (1 MiB).
const LARGE_BLOCKS: u32 = 256;

/// Memory that the simulated content of a block and the table that verifies it take.
const FILLED_BYTES: u64 = 60;

/// Parts of a disk whose free space is reported separately.
const PROFILE_PARTS: usize = 20;

/// Largest number of live blocks of a run.
const MAX_FILLED_BLOCKS: u64 = 1 << 26;

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// The layout.
    pub kind: Kind,
    /// Share of the disk's blocks that live data fills, above 0 and at most 1;
    /// [`DEFAULT_UTILISATION`] if not given.
    pub utilisation: Option<f64>,
    /// The workload of the clients.
    pub workload: Workload,
    /// Seed of all randomness.
    pub seed: u64,
    /// Write all live data once before anything else. Without it the volume starts out empty,
    /// which suits disks too large to be filled in memory.
    pub fill: bool,
    /// Random single-block overwrites per live block that age a filled volume, 0 or more.
    pub age: f64,
    /// Pause before the workload, for work in the background, in nanoseconds.
    pub rest_ns: Time,
    /// Compare the content of all reads with the written content.
    pub verify: bool,
    /// Disks let layouts use their sector headers.
    pub headers: bool,
    /// Options of the layout, for format and for mount.
    pub options: Options,
}

impl SimOptions {
    /// Random updates on an aged volume of this layout.
    pub fn new(kind: Kind) -> SimOptions {
        SimOptions {
            kind,
            utilisation: None,
            workload: Workload::default(),
            seed: 1,
            fill: true,
            age: 2.0,
            rest_ns: 0,
            verify: true,
            headers: true,
            options: Options::default(),
        }
    }
}

/// Why a simulation has no report.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The utilisation is not a share.
    #[error("utilisation {0}: must lie above 0 and be at most 1")]
    Utilisation(f64),
    /// The layout needs space for itself.
    #[error(
        "utilisation {asked}: layout {kind} holds at most {largest} of the {device} blocks of \
         {disk}, which is utilisation {largest_share:.4}; ask for less",
        largest_share = (*.largest as f64 / *.device as f64 * 1e4).floor() / 1e4
    )]
    TooFull {
        /// The requested share.
        asked: f64,
        /// The layout.
        kind: Kind,
        /// The disk.
        disk: String,
        /// Blocks of the disk.
        device: u64,
        /// Blocks of the largest volume.
        largest: u64,
    },
    /// Filling the volume would take too much memory.
    #[error(
        "filling {blocks} blocks of 4 KiB takes about {} GB of memory: ask for a lower \
         utilisation, or start with an empty volume",
        *.blocks * FILLED_BYTES / 1_000_000_000
    )]
    TooLarge {
        /// Blocks that would be live.
        blocks: u64,
    },
    /// The ageing is not a count.
    #[error(
        "{age} overwrites for each of {live} blocks: must be 0 or more, and at most {MAX_REQUESTS} \
         in all"
    )]
    Age {
        /// Overwrites per block.
        age: f64,
        /// Blocks of the volume.
        live: u64,
    },
    /// Overwrites that age a volume go anywhere.
    #[error(
        "the disk {0} takes writes only in the order of its zones, and the overwrites that age a \
         volume go anywhere; choose --age 0 --read-share 1, or --empty --pattern sequential"
    )]
    AgedInOrder(String),
    /// The workload is invalid.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The volume cannot be made or mounted.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The run failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not fit the volume.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The buffer pool holds everything.
    #[error(
        "a buffer pool of {pool} blocks of 4 KiB over a disk of {device}: nothing would reach the \
         disk; make it smaller"
    )]
    Pool {
        /// Blocks of the pool.
        pool: u64,
        /// Blocks of the disk.
        device: u64,
    },
    /// There is nothing to compare.
    #[error("a comparison needs at least one layout and one disk")]
    NothingToCompare,
}

/// Latencies by kind of request.
#[derive(Clone, Debug, Default)]
struct Tally {
    reads: Latencies,
    writes: Latencies,
    flushes: Latencies,
    /// Blocks that were read or written.
    blocks: u64,
}

impl Tally {
    fn record(&mut self, done: &Completion) {
        match done.op {
            Op::Read => self.reads.record(&done.spent),
            Op::Write => self.writes.record(&done.spent),
            Op::Flush | Op::Trim => return self.flushes.record(&done.spent),
        }
        self.blocks += u64::from(done.count);
    }
}

/// Live blocks of a volume that fills `utilisation` of the target.
fn live_blocks(target: &Target, options: &SimOptions) -> Result<u64, SimError> {
    let asked = options.utilisation.unwrap_or(DEFAULT_UTILISATION);
    if !(asked > 0.0 && asked <= 1.0) {
        return Err(SimError::Utilisation(asked));
    }
    let device = target.blocks();
    let live = ((device as f64 * asked).round() as u64).max(1);
    let largest = target.largest_volume(options.kind);
    if live > largest {
        let (kind, disk) = (options.kind, target.name().to_owned());
        return Err(SimError::TooFull { asked, kind, disk, device, largest });
    }
    if options.fill && live > MAX_FILLED_BLOCKS {
        return Err(SimError::TooLarge { blocks: live });
    }
    let ageing = if options.fill { live as f64 * options.age } else { 0.0 };
    if !(0.0..=MAX_REQUESTS as f64).contains(&ageing) {
        return Err(SimError::Age { age: options.age, live });
    }
    options.workload.check(live)?;
    Ok(live)
}

/// Simulates and reports.
///
/// # Errors
/// Options out of range, and every defect that the run finds: wrong content, failed requests,
/// halts.
pub fn simulate(
    target: &Target,
    options: &SimOptions,
    clock: Clock,
) -> Result<SimReport, SimError> {
    simulate_to_driver(target, options, clock).map(|(report, _)| report)
}

/// As [`simulate`], and also returns the run in its final state.
///
/// # Errors
/// As for [`simulate`].
pub fn simulate_to_driver(
    target: &Target,
    options: &SimOptions,
    clock: Clock,
) -> Result<(SimReport, Driver), SimError> {
    let (mut driver, live) = prepare(target, options)?;
    let workload = &options.workload;
    let range = workload.range_blocks(live);
    let mut generator = Generator::new(workload, range, options.seed, "workload");
    if workload.warm_up > 0 {
        driver.run(workload, &mut generator, workload.warm_up, |_| {})?;
    }
    let mut tally = Tally::default();
    let measured = measure(&mut driver, clock, |driver| {
        let observe = |done: &Completion| tally.record(done);
        driver.run(workload, &mut generator, workload.requests, observe)
    })?;
    if options.fill {
        driver.read_back(LARGE_BLOCKS)?;
    }
    let report = SimReport::new(target, options, live, &tally, &measured, None);
    Ok((report, driver))
}

/// Replays a trace in place of the workload of `options`. Of that workload only the distribution is
/// used, to age the volume.
///
/// # Errors
/// As for [`simulate`], and traces that cannot be read or do not fit the volume.
pub fn simulate_trace(
    target: &Target,
    options: &SimOptions,
    load: &Load<'_>,
    clock: Clock,
) -> Result<SimReport, SimError> {
    load::check(load, target)?;
    let (mut driver, live) = prepare(target, options)?;
    let mut player = load.begin(&mut driver, live)?;
    let mut tally = Tally::default();
    let measured = measure(&mut driver, clock, |driver| {
        player.play(driver, load.most(), |done| tally.record(done)).map_err(SimError::from)
    })?;
    let report = load.report(&mut player);
    if report.records == 0 {
        return Err(TraceError::Empty(load.name.clone()).into());
    }
    if options.fill {
        driver.read_back(LARGE_BLOCKS)?;
    }
    Ok(SimReport::new(target, options, live, &tally, &measured, Some(report)))
}

/// Refuses what the disk would refuse in the midst of the run.
fn check(target: &Target, options: &SimOptions) -> Result<(), SimError> {
    target.check_in_order(options.kind)?;
    if target.is_zoned(options.kind) && options.fill && options.age > 0.0 {
        return Err(SimError::AgedInOrder(target.name().to_owned()));
    }
    Ok(())
}

/// A volume at the start of the workload, and its blocks.
fn prepare(target: &Target, options: &SimOptions) -> Result<(Driver, u64), SimError> {
    check(target, options)?;
    let live = live_blocks(target, options)?;
    let node = build::build(target, options, live)?;
    let mut driver = Driver::new(node, options.verify);
    if options.fill {
        driver.fill(LARGE_BLOCKS)?;
        age(&mut driver, live, options)?;
    }
    if options.rest_ns > 0 {
        driver.idle(options.rest_ns)?;
    }
    Ok((driver, live))
}

/// Cost of a phase.
fn measure<T, E>(
    driver: &mut Driver,
    clock: Clock,
    phase: impl FnOnce(&mut Driver) -> Result<T, E>,
) -> Result<report::Measured, E> {
    let (before, accounts_before) = (driver.node().stats(), driver.node().accounts());
    let (began, began_ns) = (clock(), driver.now());
    phase(driver)?;
    let host_ns = clock().saturating_sub(began);
    let accounts = driver.node().accounts().into_iter().zip(&accounts_before);
    Ok(report::Measured {
        host_ns,
        virtual_ns: driver.now() - began_ns,
        before,
        after: driver.node().stats(),
        accounts: accounts.map(|(after, before)| after.since(before)).collect(),
        free_profile: driver.node().layer.status().free_profile(PROFILE_PARTS),
    })
}

/// Overwrites random blocks, so that free space is distributed as on a volume in use.
fn age(driver: &mut Driver, live: u64, options: &SimOptions) -> Result<(), DriveError> {
    let overwrites = (live as f64 * options.age) as u64;
    if overwrites == 0 {
        return Ok(());
    }
    // The popular addresses of the workload are also popular here.
    let workload = Workload { distribution: options.workload.distribution, ..Workload::default() };
    let mut generator = Generator::new(&workload, live, options.seed, "ageing");
    driver.run(&workload, &mut generator, overwrites, |_| {})
}

/// `blocks` in MiB.
fn mebibytes(blocks: u64) -> f64 {
    blocks as f64 * BLOCK_BYTES as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests;
