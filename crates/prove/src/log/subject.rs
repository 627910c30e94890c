//! A log that is proved: how it is made, opened and damaged.

use super::device::DeviceDisk;
use super::oracle::LogOracle;
use super::volume::{LogVolume, Open};
use super::workload::{self, Profile};
use crate::files::subject::{CONTRACTS, Counting, class};
use crate::machine::DeviceKind;
use crate::subject::{Case, Disks, Subject};
use crate::volume::Mounted;
use seekless_crash::contract::Order;
use seekless_crash::pending::BlockWrite;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::MountOptions;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use seekless_formats::log::{Log, LogOptions, LogReader};

/// The log as a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSubject {
    /// Only devices of this class; all that are proved if none is given.
    pub device: Option<Order>,
}

/// Blocks and bytes of a unit. The smallest log wraps soonest.
const SHAPES: [(u64, u32); 4] = [(32, 4096), (32, 4096), (40, 4096), (64, 8192)];
/// Blocks of the superblocks.
const SUPERBLOCKS: BlockNr = 2;

/// A log that was opened and has no device yet.
#[derive(Debug)]
pub struct MountedLog {
    open: Open<()>,
    blocks_read: u64,
}

impl Mounted for MountedLog {
    type Volume = LogVolume;

    fn blocks_read(&self) -> u64 {
        self.blocks_read
    }

    fn join(self, mut devices: Vec<Box<dyn Device>>, _seed: u64) -> LogVolume {
        let device = devices.pop().expect("a log has one device");
        LogVolume::new(self.open.on(DeviceDisk::new(device)))
    }
}

impl LogSubject {
    /// The workload of a case.
    fn profile(self, case: u64) -> &'static Profile {
        &workload::PROFILES[(case % Self::WORKLOADS) as usize]
    }
}

impl Subject for LogSubject {
    type Mounted = MountedLog;
    type Oracle = LogOracle;
    type Looks = ();
    const NOUN: &'static str = "service";
    const WORKLOADS: u64 = workload::PROFILES.len() as u64;

    fn name(self) -> String {
        let device = self.device.map(|order| format!(", on devices of class {}", class(order)));
        format!("log{}", device.unwrap_or_default())
    }

    fn flags(self) -> String {
        let device = self.device.map(|order| format!(" --device {}", class(order)));
        format!("--fs log{}", device.unwrap_or_default())
    }

    fn draw(self, case: u64, rng: &mut Rng) -> Case<LogSubject> {
        let profile = self.profile(case);
        let (blocks, unit) = SHAPES[rng.below(SHAPES.len() as u64) as usize];
        let mut cells = Cells::new(blocks);
        let options = LogOptions { id: 7, unit: Some(unit) };
        Log::create(MediumDisk(&mut cells), &options).expect("the shapes are possible");
        let mut contract = CONTRACTS[rng.below(CONTRACTS.len() as u64) as usize];
        contract.order = self.device.unwrap_or(contract.order);
        let devices =
            DeviceKind { contract, headed: false, slow_flushes: false, keeps_forced: true };
        let script = workload::script(profile, rng);
        Case {
            workload: profile.name,
            media: vec![cells],
            devices,
            script,
            oracle: LogOracle::default(),
        }
    }

    fn mount_options(self, _seed: u64, _rng: &mut Rng) -> Options {
        Options::default()
    }

    /// A log that is damaged is opened for reading: what lies in front of the damage must be there.
    fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<MountedLog, String> {
        let disk = disks[0].as_deref_mut().expect("the only device is never lost");
        let mut disk = Counting { disk, read: 0 };
        let writer = match options.read_only {
            true => None,
            false => match Log::open(&mut disk) {
                Ok(log) => Some(log.on(())),
                Err(error) if error.damaged_sector().is_some() => None,
                Err(error) => return Err(error.to_string()),
            },
        };
        let open = match writer {
            Some(log) => Open::Writer(Box::new(log)),
            None => {
                let reader = LogReader::open(&mut disk).map_err(|error| error.to_string())?;
                Open::Reader(reader.on(()))
            }
        };
        Ok(MountedLog { open, blocks_read: disk.read })
    }

    fn checks(self) -> bool {
        true
    }

    fn stops_at_damage(self) -> bool {
        true
    }

    fn makes_up(self, _media: &[Cells], (_, at): (usize, BlockNr), _at_rest: bool) -> bool {
        at < SUPERBLOCKS
    }

    fn area(self, _media: &[Cells], write: &BlockWrite) -> Option<String> {
        if write.at < SUPERBLOCKS {
            return Some(format!("superblock {}", write.at));
        }
        let bytes = write.data.blocks() as usize * BLOCK_BYTES;
        Some(format!("{} KiB of the ring", bytes >> 10))
    }
}
