//! Mounts of a volume on a simulated disk, after a clean shutdown and after a crash (claims V33 and
//! V34). The crash comes while nothing is on its way: the disk has what was written.

use crate::sim::Target;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::io::{Io, IoError};
use seekless_engine::layout::{LayoutError, MountOptions, MountPath};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BlockNr, Time};
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_layouts::Kind;
use seekless_layouts::vlfs::address;
use serde::{Deserialize, Serialize};

/// Blocks of an object of a drive of objects, and the first one that is written.
const OBJECT_BLOCKS: u64 = 256;
const FIRST_OBJECT: u32 = 2;
/// Blocks of a request that fills the volume.
const FILL_BLOCKS: u64 = 64;

/// What is mounted.
#[derive(Clone, Debug)]
pub struct RemountOptions {
    /// The layout.
    pub kind: Kind,
    /// Options of the layout.
    pub options: Options,
    /// Share of the blocks of the disk that are filled, in percent.
    pub percent: u32,
    /// Durable writes of single random blocks after that.
    pub updates: u32,
    /// The volume was shut down cleanly.
    pub clean: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

/// What a mount came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemountReport {
    /// Milliseconds of the mount.
    pub mount_ms: f64,
    /// Blocks that it read.
    pub blocks_read: f64,
    /// It began at the record of a clean shutdown.
    pub from_tail: bool,
    /// Blocks that were written before.
    pub blocks_stored: f64,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RemountError {
    /// The volume cannot be made or mounted.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A request failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Fills a volume, updates it, ends, and mounts it.
///
/// # Errors
/// [`RemountError`].
pub fn run(target: &Target, options: &RemountOptions) -> Result<RemountReport, RemountError> {
    let RemountOptions { kind, percent, updates, seed, .. } = *options;
    let blocks = target.largest_volume(kind);
    let mut node = target.volume(kind, &options.options, blocks, seed)?;
    let (mut now, mut rng) = (0, Rng::stream(seed, "remount"));
    let stored = target.blocks() * u64::from(percent) / 100 / FILL_BLOCKS * FILL_BLOCKS;
    for first in (0..stored).step_by(FILL_BLOCKS as usize) {
        let data = Data::stamp(FILL_BLOCKS as u32, 1 + first, 1);
        node.run(&mut now, Io::write(0, place(kind, first), data).with_fua())?;
    }
    for update in 0..updates {
        let block = rng.below(stored.max(1));
        let data = Data::stamp(1, 1 + block, 2 + u64::from(update));
        node.run(&mut now, Io::write(0, place(kind, block), data).with_fua())?;
    }
    if options.clean {
        node.finish(&mut now);
    }
    let device = node.devices.pop().expect("a volume on one disk");
    mounted(target, options, Plain::node(device), now, stored)
}

/// Where the block of this number lies in the address space of the volume.
fn place(kind: Kind, block: u64) -> BlockNr {
    match kind.has_objects() {
        false => block,
        true => {
            let object = FIRST_OBJECT + (block / OBJECT_BLOCKS) as u32;
            address::address(object, (block % OBJECT_BLOCKS) as u32)
        }
    }
}

/// Mounts what a volume has left on its disk.
fn mounted(
    target: &Target,
    options: &RemountOptions,
    mut disk: Node,
    mut now: Time,
    stored: u64,
) -> Result<RemountReport, RemountError> {
    // The mount needs the mechanics beside the disk: those of a second one, almost empty.
    let lender = target.device(Box::new(Cells::new(1)));
    let (arm, volatile) = (lender.arm(), lender.volatile());
    let begun = now;
    let mount =
        MountOptions { arm, volatile, options: options.options.clone(), ..MountOptions::default() };
    let (_, _, report) = seekless_layouts::mount(&mut NodeDisk::new(&mut disk, &mut now), &mount)?;
    Ok(RemountReport {
        mount_ms: (now - begun) as f64 / 1e6,
        blocks_read: report.blocks_read as f64,
        from_tail: report.path == MountPath::Tail,
        blocks_stored: stored as f64,
    })
}
