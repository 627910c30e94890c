//! A structure of your own, given by three functions: how it is opened, what one operation writes,
//! and what must be found after a power cut.
//!
//! The functions see blocks of 4 KiB and nothing else of the prover. It runs operations, cuts the
//! power at every event of the device, opens each state that may be left, and asks the judge. For
//! more than that, such as operations at the same time or several devices, implement
//! [`Subject`](crate::Subject).
//!
//! A counter in two blocks that take turns; a torn block is told by a sum:
//!
//! ```
//! use seekless_prove::structure::{Blocks, Found, Steps, Structure};
//!
//! fn sealed(value: u64) -> Vec<u8> {
//!     [value.to_le_bytes(), (!value).to_le_bytes()].concat()
//! }
//!
//! fn value(block: &[u8]) -> Option<u64> {
//!     let word = |at| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
//!     (word(0) == !word(8)).then(|| word(0))
//! }
//!
//! fn open(disk: &mut Blocks<'_>) -> Result<u64, String> {
//!     let copies = [disk.read(0)?, disk.read(1)?];
//!     Ok(copies.iter().filter_map(|copy| value(copy)).max().unwrap_or(0))
//! }
//!
//! fn increment(counter: &mut u64, _number: u64) -> Steps {
//!     *counter += 1;
//!     Steps::default().write(*counter % 2, &sealed(*counter)).flush()
//! }
//!
//! fn judge(found: &Found<'_, u64>) -> Result<(), String> {
//!     let least = found.before + found.acknowledged as u64;
//!     let most = found.before + found.sent.len() as u64;
//!     let good = (least..=most).contains(found.now);
//!     good.then_some(()).ok_or_else(|| format!("{} is not from {least} to {most}", found.now))
//! }
//!
//! let counter = Structure { name: "counter", blocks: 2, open, operate: increment, judge };
//! let report = counter.prove(1_000);
//! assert!(report.violations.is_empty(), "{}", report.to_text());
//! ```

mod client;
mod volume;

use crate::machine::DeviceKind;
use crate::script::Operation;
use crate::subject::{Case, Disks, Subject};
use crate::{ProveOptions, ProveReport, prove};
use client::{Client, Operate};
use seekless_crash::contract::Contract;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layout::MountOptions;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::BLOCK_BYTES;
use std::collections::BTreeMap;
use std::fmt::Debug;
use volume::Opened;

/// Times that the structure is opened in a run, and operations in between.
const EPOCHS: u32 = 3;
const OPERATIONS: u32 = 6;
/// Most device events between two operations.
const PAUSE: u64 = 6;

/// What the memory of an open structure is: it is compared, copied and printed.
pub trait State: Clone + PartialEq + Debug + 'static {}
impl<T: Clone + PartialEq + Debug + 'static> State for T {}

/// A structure on one device.
#[derive(Debug)]
pub struct Structure<S> {
    /// Its name in reports.
    pub name: &'static str,
    /// Blocks of its device, which is empty at first.
    pub blocks: u64,
    /// Opens what is on the device, by way of recovery where there is something to recover. An
    /// error is a violation: a power cut must not make it unusable.
    pub open: fn(&mut Blocks<'_>) -> Result<S, String>,
    /// Carries out the operation with this number in memory, and says what it writes. It is
    /// acknowledged behind the last step. Operations come one at a time, with rising numbers.
    pub operate: fn(&mut S, u64) -> Steps,
    /// Says what is wrong with what was found after a power cut or a clean shutdown.
    pub judge: fn(&Found<'_, S>) -> Result<(), String>,
}

/// What was found when the structure was opened, and what had happened.
#[derive(Debug)]
pub struct Found<'a, S> {
    /// The structure as it was opened the time before.
    pub before: &'a S,
    /// The numbers of the operations that were begun after that, in order.
    pub sent: &'a [u64],
    /// So many of them, from the first, are acknowledged: they must be there.
    pub acknowledged: usize,
    /// The structure as it is opened now.
    pub now: &'a S,
}

impl<S> Clone for Structure<S> {
    fn clone(&self) -> Structure<S> {
        *self
    }
}

impl<S> Copy for Structure<S> {}

impl<S: State> Structure<S> {
    /// Tries so many crash states, on devices of every class: those that keep completed writes,
    /// lose them in order or in any order, and tear them. Stops at the first violation, which is
    /// made small.
    pub fn prove(self, states: u64) -> ProveReport {
        let options = ProveOptions { states, shrink: true, ..ProveOptions::of(self) };
        let options = ProveOptions { stop_at_first: true, ..options };
        prove(&options, || 0, &mut |_, _| {})
    }
}

/// The blocks of a device, for the function that opens a structure.
pub struct Blocks<'d> {
    disk: &'d mut dyn Disk,
    /// Where a mount may write nothing, its writes are in memory only.
    unwritten: Option<BTreeMap<u64, Data>>,
}

impl Debug for Blocks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} blocks", self.disk.blocks())
    }
}

impl Blocks<'_> {
    /// Reads a block of 4096 bytes.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(&mut self, at: u64) -> Result<Vec<u8>, String> {
        if let Some(data) = self.unwritten.as_ref().and_then(|unwritten| unwritten.get(&at)) {
            return Ok(data.to_bytes().to_vec());
        }
        let data = self.disk.read(at, 1).map_err(|error| error.to_string())?;
        Ok(data.to_bytes().to_vec())
    }

    /// Writes a block; what is missing to 4096 bytes is zeros.
    ///
    /// # Errors
    /// What the device reports.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        match &mut self.unwritten {
            Some(unwritten) => {
                unwritten.insert(at, padded(bytes));
                Ok(())
            }
            None => self.disk.write(at, padded(bytes)).map_err(|error| error.to_string()),
        }
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// What the device reports.
    pub fn flush(&mut self) -> Result<(), String> {
        match self.unwritten {
            Some(_) => Ok(()),
            None => self.disk.flush().map_err(|error| error.to_string()),
        }
    }
}

/// A block of these bytes and zeros.
fn padded(bytes: &[u8]) -> Data {
    assert!(bytes.len() <= BLOCK_BYTES, "{} bytes are more than a block", bytes.len());
    let mut block = vec![0; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    Data::bytes(block.into())
}

/// What an operation asks of the device, in order. Writes between two flushes are under way at the
/// same time, and complete in any order.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<Step>);

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Data),
    Flush,
}

impl Steps {
    /// Then writes a block; what is missing to 4096 bytes is zeros.
    #[must_use]
    pub fn write(mut self, at: u64, bytes: &[u8]) -> Steps {
        self.0.push(Step::Write(at, padded(bytes)));
        self
    }

    /// Then waits for all writes, and makes them durable.
    #[must_use]
    pub fn flush(mut self) -> Steps {
        self.0.push(Step::Flush);
        self
    }
}

impl<S: State> Subject for Structure<S> {
    type Mounted = Opened<S>;
    type Oracle = Client<S>;
    type Looks = ();
    const NOUN: &'static str = "structure";
    const WORKLOADS: u64 = 1;

    fn name(self) -> String {
        self.name.to_owned()
    }

    fn flags(self) -> String {
        format!("(the structure {})", self.name)
    }

    fn draw(self, _case: u64, rng: &mut Rng) -> Case<Self> {
        let mut script = Vec::new();
        for _ in 0..EPOCHS {
            for _ in 0..OPERATIONS {
                script.push(Operation::Request(Operate));
                script.push(Operation::Pass(rng.below(PAUSE) as u32));
            }
            script.push(Operation::End(rng.chance(0.5)));
        }
        let contracts: Vec<Contract> = Contract::all().collect();
        let contract = contracts[rng.below(contracts.len() as u64) as usize];
        let devices =
            DeviceKind { contract, headed: false, slow_flushes: false, keeps_forced: false };
        let mut medium = Cells::new(self.blocks);
        let mut disk = MediumDisk(&mut medium);
        let empty = (self.open)(&mut Blocks { disk: &mut disk, unwritten: None });
        let empty = empty.unwrap_or_else(|why| panic!("{}: an empty device: {why}", self.name));
        let oracle = Client::new(self, empty);
        Case { workload: "operations", media: vec![medium], devices, script, oracle }
    }

    fn mount_options(self, _seed: u64, _rng: &mut Rng) -> Options {
        Options::default()
    }

    fn mount(self, disks: &mut Disks<'_>, options: &MountOptions<'_>) -> Result<Opened<S>, String> {
        let Some(Some(disk)) = disks.first_mut() else { return Err("the device is lost".into()) };
        let unwritten = options.read_only.then(BTreeMap::new);
        let state = (self.open)(&mut Blocks { disk: &mut **disk, unwritten })?;
        Ok(Opened { structure: self, state })
    }

    fn checks(self) -> bool {
        false
    }

    fn stops_at_damage(self) -> bool {
        false
    }

    fn damages(self) -> bool {
        false
    }
}
