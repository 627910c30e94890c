//! The superblock and its copies: [`load`] reads the first one, or a copy if it is damaged.
//!
//! Copies begin the metadata of some groups. Spare copies lie outside of the groups: one in the
//! boot area, and one behind the end of the file system, if the volume has a block there. A file
//! system of one group has no others. A compatible feature of the superblock says that they are
//! there. File systems made by older versions have none, and get them with the next mount for
//! writing.

use crate::error::{FsError, is_damage};
use crate::ffs::ondisk::format::{
    BOOT_COPY_AT, COPY_GROUPS, SPARE_COPIES, SUPERBLOCK_AT, Superblock,
};
use crate::ffs::ondisk::geometry::{GROUP_UNIT, MOST_GROUP, STAGGERS};
use crate::ffs::ondisk::seal::counter;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES};

/// The block of the boot area with a copy.
const BOOT_COPY: BlockNr = BOOT_COPY_AT / BLOCK_BYTES as u64;
/// Blocks at the end of a volume in which the end of a file system is looked for. Behind it lie the
/// log and less than the metadata of a group: 4 MiB of 128 MiB, with the usual number of inodes.
/// A file system of one group, which has no other copies, has a log of at most 11 MiB unless the
/// user asks for more.
const REACH: u64 = 5120;

/// The superblock of a volume, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The superblock.
    pub superblock: Superblock,
    /// Byte at which it lies; [`SUPERBLOCK_AT`] unless the first one is damaged.
    pub at: u64,
    /// Its write counter.
    pub counter: u16,
}

/// Reads the superblock, or a copy if it is damaged.
///
/// # Errors
/// [`FsError::Foreign`] if there is neither; [`FsError::Damaged`] if the first one has a valid seal
/// and impossible fields, and there is no copy; versions and features that are refused; a volume
/// shorter than the file system.
pub fn load(disk: &mut dyn Disk) -> Result<Found, FsError> {
    let first = SUPERBLOCK_AT / BLOCK_BYTES as u64;
    let mut found = superblock_in(disk, first);
    if matches!(found, Err(FsError::Foreign | FsError::Damaged(_))) {
        found = find_spare(disk).or_else(|_| find_copy(disk)).or(found);
    }
    let found = found?;
    let volume = disk.blocks() * BLOCK_BYTES as u64;
    let needed = found.superblock.geometry()?.bytes();
    if volume < needed {
        return Err(FsError::Truncated { needed, found: volume });
    }
    Ok(found)
}

fn superblock_in(disk: &mut dyn Disk, block: BlockNr) -> Result<Found, FsError> {
    if block >= disk.blocks() {
        return Err(FsError::Foreign);
    }
    let bytes = match disk.read(block, 1) {
        Ok(data) => data.to_bytes(),
        Err(error) if is_damage(&error) => return Err(FsError::Foreign),
        Err(error) => return Err(error.into()),
    };
    let at = block * BLOCK_BYTES as u64;
    let superblock = Superblock::decode(&bytes[..SECTOR_BYTES], at)?;
    Ok(Found { superblock, at, counter: counter(&bytes) })
}

/// Where [`find_copy`] looks.
fn copy_places(disk: &dyn Disk) -> impl Iterator<Item = BlockNr> + use<> {
    let end = (disk.blocks() * BLOCK_BYTES as u64).min(MOST_GROUP + GROUP_UNIT + 1);
    (GROUP_UNIT..end).step_by(STAGGERS[1] as usize).map(|at| at / BLOCK_BYTES as u64)
}

/// Looks for a copy at each multiple of the least stagger, up to behind the largest first group.
/// These are all places of the copy in group 1, and of the other copies in groups of usual sizes.
fn find_copy(disk: &mut dyn Disk) -> Result<Found, FsError> {
    for block in copy_places(disk) {
        if disk.next_data(block) != Some(block) {
            continue;
        }
        // A copy of another file system may lie in a file. Only one that begins a group of the file
        // system that it describes counts.
        let found = match superblock_in(disk, block) {
            Err(error @ FsError::Io(_)) => return Err(error),
            found => found.ok(),
        };
        if let Some(found) = found {
            let geometry = found.superblock.geometry()?;
            let own = block / u64::from(geometry.engine_blocks());
            let has_it = |group| group < geometry.groups();
            let mut copies = COPY_GROUPS.into_iter().filter(|&group| has_it(group));
            if copies.any(|group| geometry.superblock_of(group) == Some(own)) {
                return Ok(found);
            }
        }
    }
    Err(FsError::Foreign)
}

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

/// The places of the spare copies of a file system.
///
/// # Errors
/// [`FsError::Damaged`] if the superblock is impossible.
pub fn places(
    disk: &dyn Disk,
    superblock: &Superblock,
) -> Result<impl Iterator<Item = BlockNr> + use<>, FsError> {
    let behind = superblock.geometry()?.bytes() / BLOCK_BYTES as u64;
    // A log behind the file system, or the volume that it lies on, is not for copies.
    let log = superblock.log_range()?.map(|range| range.start).filter(|&start| start >= behind);
    let has_room = behind < disk.blocks().min(log.unwrap_or(u64::MAX));
    Ok([BOOT_COPY].into_iter().chain(has_room.then_some(behind)))
}

/// Looks for a spare copy where the end of the file system is not known: in the boot area, then
/// from the end of the volume backwards.
///
/// # Errors
/// [`FsError::Foreign`] if there is none; errors of the volume.
fn find_spare(disk: &mut dyn Disk) -> Result<Found, FsError> {
    let from = disk.blocks().saturating_sub(REACH);
    for block in [BOOT_COPY].into_iter().chain((from..disk.blocks()).rev()) {
        if disk.next_data(block) != Some(block) {
            continue;
        }
        match superblock_in(disk, block) {
            Err(error @ FsError::Io(_)) => return Err(error),
            Ok(found) if block == BOOT_COPY || ends_at(&found, block)? => return Ok(found),
            _ => {}
        }
    }
    Err(FsError::Foreign)
}

/// True if a block is right behind the file system that a superblock in it describes: others are
/// content of files, or left from an older file system.
fn ends_at(found: &Found, block: BlockNr) -> Result<bool, FsError> {
    Ok(found.superblock.geometry()?.bytes() == block * BLOCK_BYTES as u64)
}

/// Erases the spare copies of an older file system where [`load`] looks for them, of a volume of
/// which the new one ends at a byte.
///
/// # Errors
/// Errors of the volume.
pub(super) fn erase(disk: &mut dyn Disk, end: u64) -> Result<(), IoError> {
    let blocks = disk.blocks();
    let from = blocks.saturating_sub(REACH).max(end / BLOCK_BYTES as u64);
    erase_at(disk, [BOOT_COPY].into_iter().chain(from..blocks))
}

/// Erases every superblock that [`load`] would find: the volume is to be something else.
///
/// # Errors
/// Errors of the volume.
pub fn erase_all(disk: &mut dyn Disk) -> Result<(), IoError> {
    let blocks = disk.blocks();
    let spares = [BOOT_COPY].into_iter().chain(blocks.saturating_sub(REACH)..blocks);
    let first = SUPERBLOCK_AT / BLOCK_BYTES as u64;
    let copies = copy_places(disk);
    erase_at(disk, [first].into_iter().chain(spares).chain(copies))
}

/// Erases the superblocks in these blocks.
fn erase_at(disk: &mut dyn Disk, blocks: impl Iterator<Item = BlockNr>) -> Result<(), IoError> {
    for block in blocks {
        if disk.next_data(block) != Some(block) {
            continue;
        }
        let holds_one = match superblock_in(disk, block) {
            Err(FsError::Io(error)) => return Err(error),
            Err(FsError::Foreign) => false,
            _ => true,
        };
        if holds_one {
            disk.write(block, Data::zeros(1))?;
        }
    }
    Ok(())
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
    Ok(match copy {
        Ok(copy) if copy.describes(superblock) => Spare::Whole,
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
    let mut wrote = false;
    for block in places(disk, superblock)? {
        if look(disk, block, superblock)? != Spare::Whole {
            write(disk, block, superblock)?;
            wrote = true;
        }
    }
    if wrote {
        disk.flush_for(Edge::SparesEnd)?;
    }
    Ok(())
}
