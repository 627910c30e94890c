//! Copies of the superblock outside of the groups: one in the boot area, and one in the last block
//! of the volume, where the file system ends before it. A file system of one group has no others.
//!
//! A compatible feature of the superblock says that they are there. File systems made by older
//! versions have none, and get them with the next mount for writing.

use crate::error::{FsError, is_damage};
use crate::ffs::ondisk::format::{BOOT_COPY_AT, SPARE_COPIES, Superblock};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES};

/// What is at the place of a spare copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// A copy of the superblock.
    Whole,
    /// Something else, though there should be a copy.
    Damaged,
    /// There need not be one.
    Missing,
}

/// The places of the spare copies of a file system that ends at a byte.
pub fn places(disk: &dyn Disk, end: u64) -> impl Iterator<Item = BlockNr> + use<> {
    let last = disk.blocks().saturating_sub(1);
    let behind = (last * BLOCK_BYTES as u64 >= end).then_some(last);
    [BOOT_COPY_AT / BLOCK_BYTES as u64].into_iter().chain(behind)
}

/// What is at a place.
///
/// # Errors
/// Errors of the volume other than damage.
pub fn look(
    disk: &mut dyn Disk,
    block: BlockNr,
    superblock: &Superblock,
) -> Result<Spare, FsError> {
    let expected = superblock.compatible & SPARE_COPIES != 0;
    let other = if expected { Spare::Damaged } else { Spare::Missing };
    let bytes = match disk.read(block, 1) {
        Ok(data) => data.to_bytes(),
        Err(error) if is_damage(&error) => return Ok(other),
        Err(error) => return Err(error.into()),
    };
    let copy = Superblock::decode(&bytes[..SECTOR_BYTES], block * BLOCK_BYTES as u64);
    let agrees = |copy: &Superblock| copy.id == superblock.id && copy.sizes == superblock.sizes;
    Ok(match copy {
        Ok(copy) if agrees(&copy) => Spare::Whole,
        _ => other,
    })
}

/// Writes the copy of a place.
///
/// # Errors
/// Errors of the volume.
pub fn write(disk: &mut dyn Disk, block: BlockNr, superblock: &Superblock) -> Result<(), FsError> {
    let bytes = superblock.encode(block * BLOCK_BYTES as u64, 0);
    Ok(disk.write(block, Data::bytes(bytes))?)
}

/// Writes the copies that are not there, or damaged, and makes them durable: then the superblock
/// may say that they are there.
///
/// # Errors
/// Errors of the volume.
pub fn complete(disk: &mut dyn Disk, superblock: &Superblock) -> Result<(), FsError> {
    let end = superblock.geometry()?.bytes();
    let mut wrote = false;
    for block in places(disk, end) {
        if look(disk, block, superblock)? != Spare::Whole {
            write(disk, block, superblock)?;
            wrote = true;
        }
    }
    if wrote {
        disk.flush()?;
    }
    Ok(())
}
