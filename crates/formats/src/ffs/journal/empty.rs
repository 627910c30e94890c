//! What a repair does with the log first: it applies what is whole, and leaves the log empty.
//!
//! The repair then changes what groups of the log have made. So the superblock asks for a repair,
//! and nothing else, before the log goes; and the log is empty before the first change.

use super::held::{Held, may_hold_groups, read};
use super::place::write_superblock;
use crate::error::FsError;
use crate::ffs::offline::superblocks::load;
use crate::ffs::ondisk::format::{
    LOG_IN_USE, Recovery, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use crate::report::Journal;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_fs::log::{LogSuperblock, Lsn};

/// Applies the whole groups of the log, and empties it. None if the log holds none, or there is no
/// log.
///
/// # Errors
/// Those of [`read`], and of [`load`]; errors of the volume.
pub fn empty(disk: &mut dyn Disk) -> Result<Option<Journal>, FsError> {
    let found = load(disk)?;
    if found.superblock.read_only != 0 || !may_hold_groups(&found) {
        return Ok(None);
    }
    let mut superblock = found.superblock;
    let held = read(disk, &superblock, true)?;
    let report = held.report();
    held.patches.write(disk)?;
    disk.flush_for(Edge::LogRedone)?;
    superblock.incompatible |= LOG_IN_USE;
    superblock.state = State::InUse;
    superblock.recovery = Recovery::Fsck;
    superblock.mounted_with = None;
    write(disk, &superblock, found.counter.wrapping_add(1))?;
    disk.flush_for(Edge::LogRepairMark)?;
    for log in blank(&held) {
        write_superblock(disk, held.range.start, &log)?;
        disk.flush_for(Edge::LogEpoch)?;
    }
    superblock.incompatible &= !LOG_IN_USE;
    write(disk, &superblock, found.counter.wrapping_add(2))?;
    disk.flush_for(Edge::LogEmptied)?;
    Ok(Some(report))
}

fn write(disk: &mut dyn Disk, superblock: &Superblock, counter: u16) -> Result<(), FsError> {
    let block = superblock.encode(SUPERBLOCK_AT, counter);
    Ok(disk.write(SUPERBLOCK_BLOCK, Data::bytes(block))?)
}

/// Both superblocks of a log that holds nothing: what is in the ring is of earlier epochs.
fn blank(held: &Held) -> [LogSuperblock; 2] {
    let (number, epoch) = held.newest;
    let at = Lsn::new(number, 0);
    let first = LogSuperblock {
        sequence: held.superblock.sequence + 1,
        start: at,
        durable: at,
        epoch: epoch + 1,
        clean: true,
        ..held.superblock
    };
    [first, LogSuperblock { sequence: first.sequence + 1, ..first }]
}

impl Held {
    /// What the log holds, for people.
    pub fn report(&self) -> Journal {
        Journal {
            groups: self.groups,
            unnamed: self.unnamed,
            sectors: self.patches.count(),
            intents: self.intents.len() as u64,
            orphans: self.orphans.len() as u64,
            damage: self.damage.map(|damage| damage.to_string()),
            lost: self.lost,
        }
    }
}
