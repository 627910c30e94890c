//! What is proved: how a volume is put on its devices, and how it is mounted again.

use super::toy::CYLINDER_BLOCKS;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layer::Layer;
use seekless_engine::layout::dcd::{self, Caching, Mode, Order, Report, Shape};
use seekless_engine::layout::{self, FormatOptions, Kind, LayoutError, MountOptions, Promises};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;

/// What is proved. Everything else in the prover is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A layout on one device.
    Layout(Kind),
    /// A disk caching disk whose log is on a device of its own.
    Attached,
}

impl From<Kind> for Subject {
    fn from(kind: Kind) -> Subject {
        Subject::Layout(kind)
    }
}

/// A mounted volume, to be joined with the devices it was found on.
#[derive(Debug)]
pub struct Mounted {
    layer: Box<dyn Layer>,
    /// Blocks that the mount read.
    pub blocks_read: u64,
}

impl Mounted {
    /// The volume over `devices`, in the order in which they were mounted.
    pub fn node(self, devices: Vec<Box<dyn Device>>, seed: u64) -> Node {
        Node::new(self.layer, devices, seed)
    }
}

/// The devices of a mount, blocking; `None` for one that is lost.
pub type Disks<'d> = [Option<&'d mut dyn Disk>];

impl Subject {
    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Subject::Layout(kind) => kind.name().to_owned(),
            Subject::Attached => "dcd, log apart".to_owned(),
        }
    }

    /// The arguments of `seekless prove` that choose it.
    pub fn flags(self) -> String {
        match self {
            Subject::Layout(kind) => format!("--layout {kind}"),
            Subject::Attached => "--layout dcd --log".to_owned(),
        }
    }

    /// What it promises beyond what every volume does.
    pub fn promises(self) -> Promises {
        match self {
            Subject::Layout(kind) => kind.promises(),
            Subject::Attached => Kind::Dcd.promises(),
        }
    }

    /// True if some of its worlds are to have devices with heads.
    pub fn wants_heads(self) -> bool {
        match self {
            Subject::Layout(_) | Subject::Attached => true,
        }
    }

    /// How a disk caching disk is to work: anything goes. Other subjects draw nothing.
    pub fn caching(self, rng: &mut Rng) -> Caching {
        match self {
            Subject::Layout(Kind::Dcd) | Subject::Attached => any_caching(rng),
            Subject::Layout(_) => Caching::default(),
        }
    }

    /// Devices that may be lost together with the power without a loss of data.
    pub fn spare_devices(self) -> usize {
        match self {
            Subject::Layout(_) | Subject::Attached => 0,
        }
    }

    /// An empty volume on new media, of sizes that the case decides; also its size in blocks.
    pub fn create(self, headed: bool, rng: &mut Rng) -> (Vec<Cells>, u64) {
        match self {
            Subject::Layout(kind) => {
                let device = 200 + rng.below(600);
                let device = if headed { device.next_multiple_of(CYLINDER_BLOCKS) } else { device };
                let mut medium = Cells::new(device);
                // Loge keeps its labels in sector headers where there are some.
                if kind == Kind::Loge && rng.chance(0.4) {
                    medium = medium.with_labels();
                }
                let blocks = format(kind, &mut MediumDisk(&mut medium), rng);
                (vec![medium], blocks)
            }
            Subject::Attached => attach(headed, rng),
        }
    }

    /// Mounts the volume, by way of recovery where there is something to recover.
    ///
    /// # Errors
    /// What is wrong with the media.
    pub fn mount(
        self,
        disks: &mut Disks<'_>,
        options: &MountOptions<'_>,
    ) -> Result<Mounted, LayoutError> {
        match self {
            Subject::Layout(_) => {
                let disk = disks[0].as_deref_mut().expect("the only device is never lost");
                let (layer, _, report) = layout::mount(disk, options)?;
                Ok(Mounted { layer, blocks_read: report.blocks_read })
            }
            Subject::Attached => {
                let [Some(origin), Some(log)] = disks else { panic!("neither is ever lost") };
                let (layer, _, report) = dcd::mount(*origin, *log, options)?;
                Ok(Mounted { layer: Box::new(layer), blocks_read: report.blocks_read })
            }
        }
    }
}

/// An origin that holds zeros, and a log in front of it.
fn attach(headed: bool, rng: &mut Rng) -> (Vec<Cells>, u64) {
    let round = |blocks: u64| match headed {
        true => blocks.next_multiple_of(CYLINDER_BLOCKS),
        false => blocks,
    };
    let mut origin = Cells::new(round(60 + rng.below(400)));
    let mut log = Cells::new(round(90 + rng.below(200)));
    let blocks = MediumDisk(&mut origin).blocks();
    let mut options = FormatOptions::new(Kind::Dcd, blocks, u128::from(rng.next()));
    options.shape = Shape { segment_blocks: 4 << rng.below(3), log_blocks: None };
    dcd::attach(&mut MediumDisk(&mut origin), &mut MediumDisk(&mut log), &options)
        .expect("both are large enough");
    (vec![origin, log], blocks)
}

fn any_caching(rng: &mut Rng) -> Caching {
    fn any<T: Copy>(all: &[T], rng: &mut Rng) -> T {
        all[rng.below(all.len() as u64) as usize]
    }
    Caching {
        // The others are hardly more than this with everything at once, or nothing of it.
        mode: if rng.chance(0.7) { Mode::Back } else { any(Mode::ALL, rng) },
        report: any(Report::ALL, rng),
        order: any(Order::ALL, rng),
        bypass_blocks: any(&[0, 2, 4, 8, 16], rng),
        sequential_blocks: any(&[0, 0, 0, 6], rng),
        buffers: 2 + rng.below(3) as u32,
    }
}

/// Makes a volume that fills the device or half of it; returns its size.
fn format(kind: Kind, disk: &mut dyn Disk, rng: &mut Rng) -> u64 {
    let largest = kind.largest_volume(disk.blocks());
    let blocks = if rng.chance(0.5) { largest } else { largest / 2 };
    let mut options = FormatOptions::new(kind, blocks, u128::from(rng.next()));
    if kind == Kind::Dcd && blocks < largest {
        let segment_blocks = 4 << rng.below(4);
        let most = disk.blocks() - blocks - 2;
        let log_blocks = (8 * u64::from(segment_blocks) + rng.below(64)).min(most);
        options.shape = Shape { segment_blocks, log_blocks: Some(log_blocks) };
    }
    layout::format(disk, &options).expect("the size was asked for");
    blocks
}
