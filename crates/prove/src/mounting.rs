//! Mounting what a power cut has left, on memory that answers at once.

use crate::subject::{Recovery, Subject, VolumeOf};
use crate::volume::Mounted as _;
use seekless_crash::device::volatile::TRANSACTION_BLOCKS;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::layout::MountOptions;

/// Mounts media; the device `lost` is gone.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount<S: Subject>(
    subject: S,
    media: &mut [Cells],
    lost: Option<usize>,
    options: &MountOptions<'_>,
) -> Result<S::Mounted, String> {
    let mut plain: Vec<_> = media.iter_mut().map(|medium| MediumDisk(medium)).collect();
    let here = |(index, disk)| (lost != Some(index)).then_some(disk as &mut dyn Disk);
    let mut disks: Vec<_> = plain.iter_mut().enumerate().map(here).collect();
    subject.mount(&mut disks, options)
}

/// Carries out a recovery that is known, and mounts what it leaves.
///
/// # Errors
/// What the volume finds wrong with them.
pub fn mount_recovered<S: Subject>(
    subject: S,
    media: &mut [Cells],
    recovery: &Recovery,
    options: &MountOptions<'_>,
) -> Result<S::Mounted, String> {
    let mut disk = MediumDisk(&mut media[0]);
    recovery.apply(&mut disk).map_err(|error| error.to_string())?;
    subject.mount_recovered(&mut [Some(&mut disk)], options)
}

/// The volume over memory that answers at once. In the place of a lost device stands an empty one:
/// a volume that still uses it finds nothing there.
pub fn join<S: Subject>(
    mounted: S::Mounted,
    media: Vec<Cells>,
    lost: Option<usize>,
    volatile: bool,
) -> VolumeOf<S> {
    let ram = |(index, medium): (usize, Cells)| -> Box<dyn Device> {
        let medium = if lost == Some(index) { Cells::new(medium.blocks()) } else { medium };
        let medium = Box::new(medium);
        let ram = if volatile { Ram::volatile(medium) } else { Ram::new(medium) };
        Box::new(ram.with_transactions(TRANSACTION_BLOCKS))
    };
    mounted.join(media.into_iter().enumerate().map(ram).collect(), 0)
}
