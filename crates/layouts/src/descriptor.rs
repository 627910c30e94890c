//! What a layout declares, once: everything that commands, messages and the prover need to know.

use crate::salvage;
use seekless_engine::arm::Arm;
use seekless_engine::checksum::Sums;
use seekless_engine::disk::Disk;
use seekless_engine::layer::Layer;
use seekless_engine::layout::{
    CheckReport, FormatOptions, Layout, LayoutError, MountOptions, Promises, RecoverySteps,
};
use seekless_engine::options::{AnyChoice, Options};
use seekless_engine::planted::PlantedBug;
use seekless_engine::superblock::Superblock;
use std::fmt;

/// A layout, with its engine behind plain functions.
#[derive(Debug)]
pub struct Descriptor {
    /// Its number in the superblock.
    pub number: u32,
    /// The name used on the command line and in reports.
    pub name: &'static str,
    /// One line for people who choose.
    pub summary: &'static str,
    /// What it promises beyond what every layout does.
    pub promises: Promises,
    /// What can be chosen when a volume is made.
    pub format_options: &'static [&'static dyn AnyChoice],
    /// What can be chosen at each mount.
    pub mount_options: &'static [&'static dyn AnyChoice],
    /// Flags about devices, not about layouts, that mean something to this one: sector headers,
    /// a log on a device of its own, memory that keeps its content.
    pub device_flags: &'static [&'static str],
    /// It writes what clients write, in their order, and nothing else while it serves. So it works
    /// on a device that takes writes in the order of its zones, if its clients write in that order.
    pub adds_no_writes: bool,
    /// How checksums of blocks were made where the superblock says nothing of it.
    pub oldest_sums: Sums,
    /// Bugs that can be planted in it, to show that the prover finds them.
    pub planted_bugs: &'static [PlantedBug],
    /// See [`Layout::MOST_DEVICE_BLOCKS`].
    pub most_device_blocks: u64,
    /// See [`Layout::device_blocks`].
    pub device_blocks: fn(u64, &Options) -> u64,
    /// See [`Layout::largest_volume`].
    pub largest_volume: fn(u64) -> u64,
    /// See [`Layout::usual_volume`].
    pub usual_volume: fn(u64) -> u64,
    /// See [`Layout::accepts`].
    pub accepts: fn(&Superblock) -> bool,
    /// See [`Layout::check_size`].
    pub check_size: fn(&str, u64, &FormatOptions) -> Result<(), LayoutError>,
    /// See [`Layout::suit`].
    pub suit: fn(&dyn Arm, u64, Options) -> Options,
    /// See [`Layout::format`].
    pub format: fn(&mut dyn Disk, &FormatOptions) -> Result<(), LayoutError>,
    /// See [`Layout::mount`].
    pub mount: Mount,
    /// Mounts without writing and checks everything; see [`Layout::check`].
    pub check: Check,
    /// Mounts without writing and prints the on-disk structures; see [`Layout::dump`].
    pub dump: Dump,
    /// Finds out what is certain of a damaged volume.
    pub salvage: salvage::Open,
    /// Makes a volume that cannot be mounted mountable again.
    pub repair: salvage::Repair,
}

type Mount = fn(
    &mut dyn Disk,
    &Superblock,
    &MountOptions<'_>,
    &mut RecoverySteps,
) -> Result<Box<dyn Layer>, LayoutError>;
type Check = fn(&mut dyn Disk, &Superblock, &mut RecoverySteps) -> Result<CheckReport, LayoutError>;
type Dump = fn(&mut dyn Disk, &Superblock, &mut dyn fmt::Write) -> Result<(), LayoutError>;

impl Descriptor {
    /// The descriptor of an engine that promises everything and has no options: the base that a
    /// layout states its own facts over.
    pub const fn of<L: Layout>() -> Descriptor {
        Descriptor {
            number: 0,
            name: "",
            summary: "",
            promises: Promises {
                atomic: true,
                ordered: true,
                checked: true,
                immediate: true,
                elsewhere: true,
            },
            format_options: &[],
            mount_options: &[],
            device_flags: &[],
            adds_no_writes: false,
            oldest_sums: Sums::Crc,
            planted_bugs: &[],
            most_device_blocks: L::MOST_DEVICE_BLOCKS,
            device_blocks: L::device_blocks,
            largest_volume: L::largest_volume,
            usual_volume: L::usual_volume,
            accepts: L::accepts,
            check_size: L::check_size,
            suit: L::suit,
            format: L::format,
            mount: mount::<L>,
            check: check::<L>,
            dump: dump::<L>,
            salvage: |_, _| Err(not_salvaged()),
            repair: |_, _, _| Err(not_salvaged()),
        }
    }

    /// Everything that can be chosen about it.
    pub fn options(&self) -> impl Iterator<Item = &'static dyn AnyChoice> + use<> {
        self.format_options.iter().chain(self.mount_options).copied()
    }

    /// True if a flag of this name means something to it.
    pub fn obeys(&self, flag: &str) -> bool {
        self.options().any(|option| option.name() == flag) || self.device_flags.contains(&flag)
    }
}

fn mount<L: Layout>(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    options: &MountOptions<'_>,
    steps: &mut RecoverySteps,
) -> Result<Box<dyn Layer>, LayoutError> {
    Ok(Box::new(L::mount(disk, superblock, options, steps)?))
}

/// A mount that writes nothing.
fn look<L: Layout>(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    steps: &mut RecoverySteps,
) -> Result<L, LayoutError> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    L::mount(disk, superblock, &options, steps)
}

fn check<L: Layout>(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    steps: &mut RecoverySteps,
) -> Result<CheckReport, LayoutError> {
    let layout = look::<L>(disk, superblock, steps)?;
    // The check that follows is no part of the mount.
    steps.end();
    layout.check(disk)
}

fn dump<L: Layout>(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    look::<L>(disk, superblock, &mut RecoverySteps::new(None))?.dump(disk, out)
}

fn not_salvaged() -> LayoutError {
    LayoutError::Apart("volumes of this layout cannot be salvaged".into())
}
