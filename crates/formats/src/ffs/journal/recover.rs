//! Recovery: brings the volume up to date with its log, and begins a new epoch.
//!
//! Order: sectors in place, flush, groups that carry on open intents and orphans, flush, one
//! superblock of the log, flush, the other one, flush. Until the first of these superblocks is
//! there, the log is what it was; all that recovery writes is what it would write again. So
//! recovery that is cut off anywhere starts over.

use super::held::{Held, may_hold_groups, read};
use super::place::write_superblock;
use crate::error::FsError;
use crate::ffs::offline::superblocks::load;
use crate::ffs::ondisk::format::{LOG_IN_USE, Superblock};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::{BLOCK_SECTORS, BlockNr};
use seekless_fs::log::{Begun, GroupBuilder, Record, Ring, Space, checkpoint};
use seekless_fs::policy::journal::OpenLog;
use std::fmt;

/// A file system whose log was applied: what a mount goes on with.
#[derive(Debug)]
pub struct Recovered {
    /// The writer of the log. It has begun an epoch.
    pub ring: Ring,
    /// The first block of the log.
    pub at: BlockNr,
    /// Space that is marked as used, and that the mount has to free.
    pub open: Vec<Space>,
    /// Inodes without a name, which the mount has to free.
    pub orphans: Vec<u32>,
    /// Groups that the log held.
    pub groups: u64,
    /// Sectors that were not in place.
    pub sectors: u64,
    /// One superblock of the log was damaged. Both are written.
    pub lacks_copy: bool,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recovered { groups, sectors, open, orphans, .. } = self;
        write!(f, "the log held {groups} operations, {sectors} sectors were brought up to date")?;
        match open.len() + orphans.len() {
            0 => Ok(()),
            left => write!(f, ", {left} pieces of space and inodes are being freed"),
        }
    }
}

impl From<Recovered> for OpenLog {
    fn from(recovered: Recovered) -> OpenLog {
        let Recovered { ring, at, open: intents, orphans, .. } = recovered;
        OpenLog { ring, at, intents, orphans }
    }
}

/// Brings in place what the log holds. Without a log that may hold something it does nothing.
///
/// # Errors
/// Those of [`recover`] and of [`load`].
pub fn bring_home(disk: &mut dyn Disk) -> Result<(), FsError> {
    let found = load(disk)?;
    match may_hold_groups(&found) {
        true => recover(disk, &found.superblock).map(|_| ()),
        false => Ok(()),
    }
}

/// Applies the log of a file system that is not mounted, and begins a new epoch. All of it is
/// durable afterwards. The groups of a log that the superblock does not say to be in use are in
/// place already.
///
/// # Errors
/// [`FsError::LogDamaged`] if groups are lost: then nothing is written. [`FsError::LogFull`]; those
/// of [`read`]; errors of the volume.
pub fn recover(disk: &mut dyn Disk, superblock: &Superblock) -> Result<Recovered, FsError> {
    let held = read(disk, superblock, superblock.incompatible & LOG_IN_USE != 0)?;
    if let Some(damage) = held.damage {
        return Err(FsError::LogDamaged(damage));
    }
    let parts = disk.takes_parts();
    let groups = carried(&held);
    // The place for the groups is found before anything is written.
    let begun = Ring::begin_with(&held.superblock, held.newest, parts, groups);
    let begun = begun.map_err(|_| FsError::LogFull)?;
    let sectors = held.patches.write(disk)?;
    disk.flush_for(Edge::LogRedone)?;
    let at = held.range.start;
    let ring = begin(disk, at, begun)?;
    let Held { intents: open, orphans, groups, lacks_copy, .. } = held;
    Ok(Recovered { ring, at, open, orphans, groups, sectors, lacks_copy })
}

/// Groups that carry on what is open.
fn carried(held: &Held) -> Vec<GroupBuilder> {
    let intents =
        held.intents.iter().map(|&(what, first, count)| Record::Free { what, first, count });
    let orphans = held.orphans.iter().map(|&inode| Record::Orphan(inode));
    let open: Vec<Record<'_>> = intents.chain(orphans).collect();
    // An epoch may begin without one.
    if open.is_empty() { Vec::new() } else { checkpoint(&open) }
}

/// Writes what an epoch begins with.
fn begin(disk: &mut dyn Disk, at: BlockNr, begun: Begun) -> Result<Ring, FsError> {
    let Begun { ring, carried, superblocks: [first, second] } = begun;
    for write in &carried {
        debug_assert!(write.sector.is_multiple_of(BLOCK_SECTORS), "whole blocks");
        disk.write(at + write.sector / BLOCK_SECTORS, Data::bytes(write.bytes.clone()))?;
    }
    if !carried.is_empty() {
        disk.flush_for(Edge::LogCarried)?;
    }
    write_superblock(disk, at, &first)?;
    disk.flush_for(Edge::LogEpoch)?;
    write_superblock(disk, at, &second)?;
    disk.flush_for(Edge::LogBegun)?;
    Ok(ring)
}
