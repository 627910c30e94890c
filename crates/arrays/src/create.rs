//! Making an array of new members.

use super::assemble::on;
use super::bitmap;
use super::geometry::Geometry;
use super::member::{BITMAP_BLOCK, LOG_BLOCK, MemberState, MemberSuperblock, USUAL_LOG_BLOCKS};
use super::{Level, MOST_CHUNK_BLOCKS, MOST_MEMBERS, VolumeError, least_log_blocks};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::units::BLOCK_BYTES;

/// From this size on, chunks begin at a mebibyte of the member (64 MiB).
const LARGE_BLOCKS: u64 = 64 * 256;
/// Blocks of a member that are filled at a time (1 MiB).
const CLEAR_BLOCKS: u64 = 256;
const MEBIBYTE: u64 = (1 << 20) / BLOCK_BYTES as u64;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct CreateArray {
    /// The level.
    pub level: Level,
    /// Blocks in a chunk.
    pub chunk: u32,
    /// Tells arrays apart.
    pub id: u128,
    /// All blocks of all members are zeros. Otherwise the first assembly brings them into step.
    pub blank: bool,
}

/// The sizes of an array whose smallest member has `device` blocks: geometry and blocks of a log.
///
/// # Errors
/// Numbers that make no array.
pub fn shape(
    level: Level,
    members: usize,
    chunk: u32,
    device: u64,
) -> Result<(Geometry, u32), VolumeError> {
    let bad = |reason: String| Err(VolumeError::BadShape(reason));
    if !(level.least_members()..=MOST_MEMBERS).contains(&members) {
        let least = level.least_members();
        return bad(format!(
            "{level} has {least} to {MOST_MEMBERS} members, not {members}; name an image for each"
        ));
    }
    if !(1..=MOST_CHUNK_BLOCKS).contains(&chunk) {
        return bad(format!(
            "a chunk has 1 to {MOST_CHUNK_BLOCKS} blocks of 4 KiB, not {chunk}; choose a --chunk \
             of 4k to 1M"
        ));
    }
    let large = device >= LARGE_BLOCKS;
    let log_blocks = match level {
        Level::Raid5 if large => USUAL_LOG_BLOCKS.max(least_log_blocks(members, chunk)),
        Level::Raid5 => least_log_blocks(members, chunk),
        _ => 0,
    };
    let first = LOG_BLOCK + u64::from(log_blocks);
    let first = if large { first.next_multiple_of(MEBIBYTE) } else { first };
    let stripes = device.saturating_sub(first) / u64::from(chunk);
    if stripes == 0 {
        return bad(format!(
            "a member of {device} blocks of 4 KiB is too small: {level} with chunks of {chunk} \
             needs at least {}; choose larger devices, or smaller chunks",
            first + u64::from(chunk)
        ));
    }
    Ok((Geometry { level, members, chunk, first, stripes }, log_blocks))
}

/// Blocks that each member of an array needs to offer `blocks` blocks in all.
///
/// # Errors
/// Numbers that make no array.
pub fn member_blocks(
    level: Level,
    members: usize,
    chunk: u32,
    blocks: u64,
) -> Result<u64, VolumeError> {
    // What precedes the chunks depends on the size, so both are tried.
    let (small, _) = shape(level, members, chunk, LARGE_BLOCKS - 1)?;
    let stripes = blocks.div_ceil(small.stripe_blocks());
    let needed = small.block(stripes, 0);
    if needed < LARGE_BLOCKS {
        return Ok(needed);
    }
    let (large, _) = shape(level, members, chunk, LARGE_BLOCKS)?;
    Ok(large.block(stripes, 0).max(LARGE_BLOCKS))
}

/// Makes an array of these members, in their order, and returns what they now say.
///
/// # Errors
/// Numbers that make no array, and what the media report.
pub fn create(
    disks: &mut [&mut dyn Disk],
    options: &CreateArray,
) -> Result<MemberSuperblock, VolumeError> {
    let &CreateArray { level, chunk, id, blank } = options;
    let device = disks.iter().map(|disk| disk.blocks()).min().unwrap_or(0);
    let (geometry, log_blocks) = shape(level, disks.len(), chunk, device)?;
    let mut superblock = MemberSuperblock {
        id,
        geometry,
        log_blocks,
        index: 0,
        events: 1,
        clean: blank,
        states: vec![MemberState::Active; disks.len()],
        rebuilt: 0,
    };
    for (member, disk) in disks.iter_mut().enumerate() {
        on(member, prepare(*disk, &superblock, !blank))?;
        on(member, write_both(*disk, &mut superblock, member))?;
    }
    Ok(superblock)
}

/// An empty log, and no marks or all.
pub(super) fn prepare(
    disk: &mut dyn Disk,
    superblock: &MemberSuperblock,
    marked: bool,
) -> Result<(), IoError> {
    let regions = if marked { bitmap::MOST_REGIONS as usize } else { 0 };
    disk.write(BITMAP_BLOCK, Data::bytes(bitmap::encode(0..regions)))?;
    let end = LOG_BLOCK + u64::from(superblock.log_blocks);
    let mut at = LOG_BLOCK;
    while at < end {
        let count = (end - at).min(CLEAR_BLOCKS);
        disk.write(at, Data::zeros(count as u32))?;
        at += count;
    }
    Ok(())
}

/// Both copies of the superblock of a new member, the younger one first: the older one has the
/// count of the other members. Alone it would pass for that of a member that was always there, and
/// the new member for one that holds what it should.
pub(super) fn write_both(
    disk: &mut dyn Disk,
    superblock: &mut MemberSuperblock,
    member: usize,
) -> Result<(), IoError> {
    debug_assert!(superblock.events > 0, "the older copy has a count, too");
    superblock.write(disk, member)?;
    disk.flush_for(Edge::MemberYoungerFirst)?;
    superblock.events -= 1;
    superblock.write(disk, member)?;
    superblock.events += 1;
    disk.flush_for(Edge::CreateFlush)
}
