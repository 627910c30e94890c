//! What every layout is: a [`Layer`] that can be made, mounted, checked and printed.
//!
//! This file has the trait and its vocabulary only. The layouts themselves are in the crate
//! `seekless-layouts`, whose registry maps the number in a superblock to one of them.

mod error;
mod recovery;
mod report;

pub use error::{BelowError, LayoutError};
pub use recovery::{Clock, RecoveryStep, RecoverySteps};
pub use report::{CheckReport, MountPath, MountReport};

use crate::arm::Arm;
use crate::checksum::{Identity, Sums};
use crate::disk::Disk;
use crate::layer::Layer;
use crate::options::Options;
use crate::superblock::{LayoutNumber, Superblock};
use std::fmt;

/// What a layout promises beyond the common contract (`CONTRACT.md`). The prover holds it to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// A request takes hold as a whole or not at all.
    pub atomic: bool,
    /// What survives a crash is a prefix of what was written.
    pub ordered: bool,
    /// What is stored is checksummed: damage is an error, never wrong bytes.
    pub checked: bool,
    /// On a device that keeps completed writes, an acknowledged write is durable without a flush.
    pub immediate: bool,
    /// On a device with a volatile cache, data that the medium refuses to take at one place is
    /// written to another one.
    pub elsewhere: bool,
}

/// How to make a volume.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Its layout.
    pub layout: LayoutNumber,
    /// Its size in blocks as seen by clients.
    pub blocks: u64,
    /// Tells volumes apart: blocks left over from an earlier volume on the same device carry
    /// another id and are never mistaken for this one's.
    pub id: u128,
    /// What was chosen; the layout declares what can be.
    pub options: Options,
}

impl FormatOptions {
    /// How metadata of the new volume is signed.
    pub fn identity(&self) -> Identity {
        Identity::new(self.id, Sums::NEWEST)
    }

    /// A volume with everything else as it is by default.
    pub fn new(layout: impl Into<LayoutNumber>, blocks: u64, id: u128) -> FormatOptions {
        FormatOptions { layout: layout.into(), blocks, id, options: Options::default() }
    }

    /// The same volume with these choices.
    pub fn with(self, options: Options) -> FormatOptions {
        FormatOptions { options, ..self }
    }
}

/// How to mount a volume.
#[derive(Clone, Debug, Default)]
pub struct MountOptions<'a> {
    /// Mechanics of the device; without them a nominal geometry is used.
    pub arm: Option<&'a dyn Arm>,
    /// True if the device may lose completed writes until it is flushed.
    pub volatile: bool,
    /// Mount without writing anything.
    pub read_only: bool,
    /// How the layout is to work: what changes how it works, never what it stores.
    pub options: Options,
    /// Times the steps of the recovery; without it they have no times.
    pub clock: Option<Clock>,
}

/// A layout: a layer that can be made, mounted and checked. These run alone, in blocking style.
pub trait Layout: Layer + Sized + 'static {
    /// The largest device that it can be made on, in blocks.
    const MOST_DEVICE_BLOCKS: u64;

    /// Device blocks that a volume of `logical` blocks needs if it is made with these options.
    /// Sized so that the volume can be written full and still work well.
    fn device_blocks(logical: u64, options: &Options) -> u64;

    /// The largest volume that fits on a device of `device` blocks, in blocks; 0 if none does.
    fn largest_volume(device: u64) -> u64;

    /// The volume that a device of `device` blocks gets unless a size is given: the largest one
    /// that still works well when it is full, in blocks; 0 if none fits.
    fn usual_volume(device: u64) -> u64 {
        Self::largest_volume(device)
    }

    /// True if a volume of this layout can have the sizes that a superblock states: a whole
    /// checksum over senseless sizes can only come from a forged image.
    fn accepts(superblock: &Superblock) -> bool {
        superblock.blocks <= Self::largest_volume(superblock.device_blocks)
    }

    /// Refuses sizes that a volume of the layout called `name` cannot have.
    ///
    /// # Errors
    /// A message that names the limit.
    fn check_size(name: &str, device: u64, options: &FormatOptions) -> Result<(), LayoutError> {
        check_size::<Self>(name, device, options)
    }

    /// Fills in what suits a device with a head, where nothing else was chosen.
    fn suit(_arm: &dyn Arm, _device_blocks: u64, options: Options) -> Options {
        options
    }

    /// Writes an empty volume, whose size [`Layout::check_size`] has accepted.
    ///
    /// # Errors
    /// What the medium reports.
    fn format(disk: &mut dyn Disk, options: &FormatOptions) -> Result<(), LayoutError>;

    /// Recovers the state of a volume. It names each of its steps in `steps`, where the one that
    /// read the superblock is there already, and says how it found the state.
    ///
    /// # Errors
    /// A damaged, foreign or newer image, and what the medium reports.
    fn mount(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        options: &MountOptions<'_>,
        steps: &mut RecoverySteps,
    ) -> Result<Self, LayoutError>;

    /// Reads everything the volume holds and compares it with the recovered state.
    ///
    /// # Errors
    /// Only what the medium reports outside stored blocks; findings go into the report.
    fn check(&self, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError>;

    /// Writes the on-disk structures as text.
    ///
    /// # Errors
    /// What the medium reports.
    fn dump(&self, disk: &mut dyn Disk, out: &mut dyn fmt::Write) -> Result<(), LayoutError>;
}

/// What [`Layout::check_size`] does unless a layout has other limits.
///
/// # Errors
/// A message that names the limit.
pub fn check_size<L: Layout>(
    name: &str,
    device: u64,
    options: &FormatOptions,
) -> Result<(), LayoutError> {
    if options.blocks == 0 {
        let reason = "a volume needs at least one block of 4 KiB";
        return Err(LayoutError::BadSize(reason.into()));
    }
    if device > L::MOST_DEVICE_BLOCKS {
        return Err(LayoutError::too_large_a_device(name, L::MOST_DEVICE_BLOCKS));
    }
    if L::largest_volume(device) < options.blocks {
        let needed = L::device_blocks(options.blocks, &Options::default());
        return Err(LayoutError::TooSmall { device, needed });
    }
    Ok(())
}
