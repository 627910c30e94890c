//! What a repair does without a log that lies on another volume and is lost: the file system goes
//! on without one.
//!
//! One sector says all of it: there is no log, and a repair is needed if the log may have held
//! something. So a crash leaves the file system as it was, or abandoned.

use crate::error::FsError;
use crate::ffs::offline::superblocks::{self, load};
use crate::ffs::ondisk::format::{
    LOG_IN_USE, LogPlace, Recovery, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::BlockNr;
use seekless_fs::policy::PolicyKind;

/// Takes its log from a file system, which is mounted `async` from then on. True if the log may
/// have held operations that are in no other place.
///
/// # Errors
/// [`FsError::NoLog`] if its log lies on no other volume; [`FsError::ReadOnlyFeatures`]; those of
/// [`load`]; errors of the volume.
pub fn abandon(disk: &mut dyn Disk) -> Result<bool, FsError> {
    let found = load(disk)?;
    let mut superblock = found.superblock;
    if superblock.read_only != 0 {
        return Err(FsError::ReadOnlyFeatures(superblock.read_only));
    }
    if superblock.log.kind != LogPlace::ELSEWHERE {
        return Err(FsError::NoLog(PolicyKind::Wafs2Async));
    }
    let may_hold = superblock.incompatible & LOG_IN_USE != 0 || found.at != SUPERBLOCK_AT;
    superblock.log = LogPlace::default();
    superblock.incompatible &= !LOG_IN_USE;
    superblock.policy = PolicyKind::Async.into();
    superblock.mounted_with = None;
    if may_hold {
        superblock.state = State::InUse;
        superblock.recovery = Recovery::Fsck;
    }
    let block = superblock.encode(SUPERBLOCK_AT, found.counter.wrapping_add(1));
    disk.write(SUPERBLOCK_BLOCK, Data::bytes(block))?;
    disk.flush_for(Edge::LogRepairMark)?;
    // Copies that a crash leaves behind are findings of the next check.
    for block in copies(disk, &superblock)? {
        superblocks::write(disk, block, &superblock)?;
    }
    disk.flush_for(Edge::SparesEnd)?;
    Ok(may_hold)
}

/// Where the copies of the superblock are.
///
/// # Errors
/// [`FsError::Damaged`] if the superblock is impossible.
pub(super) fn copies(disk: &dyn Disk, superblock: &Superblock) -> Result<Vec<BlockNr>, FsError> {
    let geometry = superblock.geometry()?;
    let engine_blocks = u64::from(geometry.engine_blocks());
    let groups = (1..geometry.groups()).filter_map(|group| geometry.superblock_of(group));
    let spares = superblocks::places(disk, superblock)?;
    Ok(spares.chain(groups.map(|block| block * engine_blocks)).collect())
}
