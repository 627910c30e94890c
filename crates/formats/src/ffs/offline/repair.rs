//! Repair: makes true what check assumes, phase by phase.
//!
//! A round applies the findings of the earliest phase that has any, and those of phases that do not
//! depend on it, then checks again. Each fix is one sector, or sectors that are right by
//! themselves, so a crash leaves a subset of the findings. New directory blocks are written before
//! the inode that names them, and copies of blocks with several owners before their addresses. The
//! maps come last, computed from what the inodes claim, and the superblock is marked clean when a
//! check finds nothing.

mod found;
mod lost;
mod shared;

use crate::error::FsError;
use crate::ffs::journal::empty as log;
use crate::ffs::journal::file::LogFile;
use crate::ffs::offline::check::finding::{Finding, Slot};
use crate::ffs::offline::check::{Examined, examine, read_inode, write_group};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::entries;
use crate::ffs::ondisk::fields::put;
use crate::ffs::ondisk::format::{
    LOG_INODE, Recovery, SECTOR_ADDRESSES, SUPERBLOCK_AT, State, Superblock,
};
use crate::ffs::ondisk::geometry::{Fragment, Place};
use crate::ffs::ondisk::group;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, offset};
use crate::ffs::ondisk::seal::SealKind;
use crate::report::Journal;
use found::Finder;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{FileKind, ROOT, is_name};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds at most. Each phase takes a few; a file system with very many findings takes more.
const MOST_ROUNDS: u32 = 256;

/// What repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The findings that were repaired, in the order in which this was done.
    pub repaired: Vec<Finding>,
    /// What files have lost, a sentence each, with their paths.
    pub lost: Vec<String>,
    /// True if the superblock said that the file system was in use, and says now that it is clean.
    pub marked_clean: bool,
    /// What the log held, which was applied first.
    pub journal: Option<Journal>,
}

/// Repairs a file system. It applies its log first, and empties it. It runs the check itself, once
/// before each round.
///
/// # Errors
/// As for check; [`FsError::ReadOnlyFeatures`]; [`FsError::NotRepaired`] if findings remain, for
/// lack of free space say.
pub fn repair(disk: &mut dyn Disk) -> Result<RepairReport, FsError> {
    let journal = log::empty(disk)?;
    let mut report = repair_all(disk)?;
    if let Some(Journal { damage: Some(damage), lost, .. }) = &journal {
        report.lost.insert(0, format!("at most {lost} operations: {damage}"));
    }
    report.journal = journal;
    Ok(report)
}

fn repair_all(disk: &mut dyn Disk) -> Result<RepairReport, FsError> {
    let mut report = RepairReport::default();
    let mut lost = Vec::new();
    let mut left = 0;
    for round in 0..MOST_ROUNDS {
        let Examined { superblock, findings, known } = examine(disk)?;
        if superblock.read_only != 0 {
            return Err(FsError::ReadOnlyFeatures(superblock.read_only));
        }
        left = findings.list.len() as u64;
        let geometry = superblock.geometry()?;
        let store = Store::new(disk, geometry, superblock.sealer());
        let finder = Finder::new(known);
        let mut run = Repair::new(store, finder, superblock);
        if findings.is_clean() {
            report.lost = run.with_paths(&lost)?;
            report.marked_clean = run.mark_clean()?;
            return Ok(report);
        }
        if round == 0 {
            // What is there may be in a cache that only a process has lost, and what is written
            // now relies on it.
            run.store.flush(Edge::RepairFound)?;
        }
        let mut progress = false;
        let first = findings.list.iter().map(Finding::phase).filter(|&phase| phase > 0).min();
        let due: Vec<&Finding> =
            findings.list.iter().filter(|finding| is_due(finding.phase(), first)).collect();
        run.copy_shared(&due)?;
        for finding in due {
            if run.fix(finding)? {
                progress = true;
                report.repaired.push(finding.clone());
            }
        }
        lost.append(&mut run.lost);
        run.store.flush(Edge::RepairRound)?;
        if !progress {
            break;
        }
    }
    Err(FsError::NotRepaired { left })
}

/// True if a round repairs findings of this phase, of which the first one but 0 is given. Nothing
/// depends on copies of the superblock, and maps do not depend on link counts.
fn is_due(phase: u8, first: Option<u8>) -> bool {
    phase == 0 || Some(phase) == first || (phase == 5 && first == Some(4))
}

struct Repair<'d> {
    store: Store<'d>,
    finder: Finder,
    superblock: Superblock,
    /// Groups whose maps this round has written.
    groups: BTreeSet<u32>,
    /// Chunks that this round has written anew: places of other findings in them are stale.
    rebuilt: BTreeSet<u64>,
    /// Where the copies are of blocks with several owners, by the address that is to lead there.
    copies: BTreeMap<Slot, Fragment>,
    /// What files lose in this round: the inode, and a sentence.
    lost: Vec<(u32, String)>,
}

impl<'d> Repair<'d> {
    fn new(store: Store<'d>, finder: Finder, superblock: Superblock) -> Repair<'d> {
        let (groups, rebuilt) = (BTreeSet::new(), BTreeSet::new());
        let (copies, lost) = (BTreeMap::new(), Vec::new());
        Repair { store, finder, superblock, groups, rebuilt, copies, lost }
    }

    /// Applies a finding; false if it cannot be done, or not in this round.
    fn fix(&mut self, finding: &Finding) -> Result<bool, FsError> {
        use Finding as F;
        match *finding {
            F::Superblock { .. } | F::Copy { .. } => self.copies(finding)?,
            // The log is empty when the rounds begin.
            F::Log { .. } => return Ok(false),
            F::Spare { .. } => self.store.complete_spares(&self.superblock)?,
            F::Sector { kind, place, first } => self.sector(kind, place, first)?,
            F::Initialised { group, right, .. } => self.mark(group, right)?,
            F::BadInode { ino, .. } => self.bad_inode(ino)?,
            F::TooLarge { ino, .. } => {
                let most = self.store.geometry.most_file_bytes();
                self.set_inode(ino, |inode| inode.size = most)?;
            }
            F::BadAddress { slot, .. } | F::PastEnd { slot, .. } => self.set_slot(slot, 0)?,
            F::Duplicate { slot, .. } => match self.copies.remove(&slot) {
                Some(copy) => self.set_slot(slot, copy)?,
                None => {
                    self.lose_block(finding);
                    self.set_slot(slot, 0)?;
                }
            },
            F::Addresses { ino, place, from, to } => {
                self.lose_bytes(ino, from..to);
                self.sector(SealKind::Indirect, place, None)?;
            }
            F::WrongSectors { ino, right, .. } => {
                self.set_inode(ino, |inode| inode.sectors = right)?;
            }
            F::DirectoryHole { ino, index } => self.cut_directory(ino, index)?,
            F::NoRoot => return self.make_root(),
            F::BadChunk { dir, chunk, place } => {
                self.sector(SealKind::Directory, place, (chunk == 0).then_some(dir))?;
            }
            F::BadDots { dir, place } => self.dots(dir, place)?,
            F::BadName { place, .. }
            | F::NameTwice { place, .. }
            | F::EntryToFree { place, .. }
            | F::DirectoryTwice { place, .. } => return self.remove_entry(place),
            F::WrongType { ino, place, .. } => return self.set_type(ino, place),
            F::Cycle { ino, parent } => return self.remove_name(parent, ino),
            F::WrongParent { ino, right, .. } => self.set_parent(ino, right)?,
            F::LogFile => self.log_file()?,
            F::Leaked { ino } => self.set_inode(ino, free)?,
            F::Nameless { ino } => return self.reconnect(ino),
            F::WrongLinks { ino, right, .. } => self.set_inode(ino, |inode| inode.links = right)?,
            F::BadHeader { group } | F::WrongBits { group, .. } | F::WrongCounters { group } => {
                self.maps(group)?;
            }
        }
        Ok(true)
    }

    fn copies(&mut self, finding: &Finding) -> Result<(), FsError> {
        let group = if let Finding::Copy { group } = finding { *group } else { 0 };
        if group == 0 {
            // The state in a copy is old: until the last round the file system is not clean.
            self.superblock.state = State::InUse;
            self.superblock.recovery = Recovery::Fsck;
            self.superblock.mounted_with = None;
        }
        match self.store.geometry.superblock_of(group) {
            Some(block) => self.store.write_superblock(&self.superblock, block, 0),
            None => Ok(()),
        }
    }

    /// Replaces a sector that has a bad seal, or a chunk whose entries do not fill it.
    fn sector(&mut self, kind: SealKind, place: Place, first: Option<u32>) -> Result<(), FsError> {
        match (kind, first) {
            (SealKind::Map, Some(group)) => self.maps(group),
            (SealKind::Directory, Some(dir)) => {
                let parent = self.finder.known.folders.get(&dir).map_or(0, |folder| folder.parent);
                let parent = if parent == 0 { ROOT as u32 } else { parent };
                self.store.edit(place, kind, |chunk, _| entries::format_first(chunk, dir, parent))
            }
            (SealKind::Directory, None) => {
                self.store.edit(place, kind, |chunk, _| entries::format_empty(chunk))
            }
            _ => self.store.edit(place, kind, |content, _| content.fill(0)),
        }
    }

    fn mark(&mut self, group: u32, right: u32) -> Result<(), FsError> {
        let place = self.store.geometry.header_of(group);
        self.store.edit(place, SealKind::Map, |sector, _| {
            put(sector, group::offset::INITIALISED, &right.to_le_bytes());
        })
    }

    /// Rounds the size of a directory down, and frees any other impossible inode.
    fn bad_inode(&mut self, ino: u32) -> Result<(), FsError> {
        self.set_inode(ino, |inode| {
            let size = inode.size / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
            let is_directory = inode.kind() == Some(FileKind::Directory);
            if is_directory && size > 0 && ino >= ROOT as u32 && ino != LOG_INODE {
                inode.size = size;
            } else {
                free(inode);
            }
        })
    }

    /// Writes the inode of the log and its addresses, as the superblock says.
    fn log_file(&mut self) -> Result<(), FsError> {
        let Some(file) = LogFile::of(&self.superblock)? else { return Ok(()) };
        file.write_indirect(&mut self.store)?;
        file.write_inode(&mut self.store)
    }

    fn set_inode(&mut self, ino: u32, change: impl FnOnce(&mut Inode)) -> Result<(), FsError> {
        let place = self.store.geometry.inode_place(ino);
        self.store.edit(place, SealKind::Inodes, |sector, is_whole| {
            if !is_whole {
                sector.fill(0);
            }
            let at = place.at % SECTOR_BYTES;
            let mut inode = Inode::decode(&sector[at..at + INODE_BYTES]);
            change(&mut inode);
            put(sector, at, &inode.encode());
        })
    }

    /// Changes an address; 0 makes a hole.
    fn set_slot(&mut self, slot: Slot, to: Fragment) -> Result<(), FsError> {
        let (place, kind) = match slot {
            Slot::Inode(ino, index) => {
                let place = self.store.geometry.inode_place(ino);
                let at = place.at + offset::DIRECT + 4 * index;
                (Place { at, ..place }, SealKind::Inodes)
            }
            Slot::Indirect(place) => (place, SealKind::Indirect),
        };
        let at = place.at % SECTOR_BYTES;
        debug_assert!(at / 4 <= SECTOR_ADDRESSES, "an address in the content of a sector");
        self.store.edit(place, kind, |sector, is_whole| {
            if is_whole {
                put(sector, at, &to.to_le_bytes());
            }
        })
    }

    /// Ends a directory before its first missing block; frees it if that is block 0.
    fn cut_directory(&mut self, ino: u32, index: u64) -> Result<(), FsError> {
        let size = index * self.store.geometry.block_bytes() as u64;
        self.set_inode(ino, |inode| {
            if index == 0 {
                free(inode);
            } else {
                inode.size = size;
            }
        })
    }

    /// Rebuilds the first chunk of a directory, with the entries that fit behind the dots.
    fn dots(&mut self, dir: u32, place: Place) -> Result<(), FsError> {
        let known = &self.finder.known;
        let parent = known.folders.get(&dir).map_or(0, |folder| folder.parent);
        let parent = if parent == 0 { ROOT as u32 } else { parent };
        self.rebuilt.insert(self.store.geometry.sector_of(place));
        self.store.edit(place, SealKind::Directory, |chunk, _| {
            let old = chunk.to_vec();
            entries::format_first(chunk, dir, parent);
            for entry in entries::entries(&old).unwrap_or_default() {
                let kind = known.kind(entry.ino);
                let stays = is_name(entry.name) && !entries::is_dots(entry.name);
                if let Some(kind) = kind.filter(|_| stays) {
                    entries::add(chunk, entry.ino, kind, entry.name);
                }
            }
        })
    }

    /// True if this round has written the chunk anew, which has moved its entries.
    fn is_stale(&self, place: Place) -> bool {
        self.rebuilt.contains(&self.store.geometry.sector_of(place))
    }

    /// Removes an entry; false if the place is stale.
    fn remove_entry(&mut self, place: Place) -> Result<bool, FsError> {
        if self.is_stale(place) {
            return Ok(false);
        }
        let at = place.at % SECTOR_BYTES;
        self.store.edit(place, SealKind::Directory, |chunk, is_whole| {
            let mut all = entries::entries(chunk).unwrap_or_default().into_iter();
            if is_whole && all.any(|entry| entry.at == at) {
                entries::remove(chunk, at);
            }
        })?;
        Ok(true)
    }

    /// Sets the type of an entry; false if the place is stale.
    fn set_type(&mut self, ino: u32, place: Place) -> Result<bool, FsError> {
        if self.is_stale(place) {
            return Ok(false);
        }
        let at = place.at % SECTOR_BYTES;
        let Some(kind) = self.finder.known.kind(ino) else { return Ok(true) };
        self.store.edit(place, SealKind::Directory, |chunk, is_whole| {
            let mut all = entries::entries(chunk).unwrap_or_default().into_iter();
            if is_whole && all.any(|entry| entry.at == at && entry.ino == ino) {
                let moves = chunk[at + 6] & !entries::KIND_BITS;
                chunk[at + 6] = entries::type_byte(kind) | moves;
            }
        })?;
        Ok(true)
    }

    fn maps(&mut self, group: u32) -> Result<(), FsError> {
        if self.groups.insert(group) {
            write_group(&mut self.store, &self.finder.known, group)?;
        }
        Ok(())
    }

    /// Marks the file system clean if it is not; true if it was not.
    fn mark_clean(&mut self) -> Result<bool, FsError> {
        let superblock = &mut self.superblock;
        if superblock.state == State::Clean && superblock.recovery == Recovery::None {
            return Ok(false);
        }
        superblock.state = State::Clean;
        superblock.recovery = Recovery::None;
        // What the mark vouches for may be in a volatile cache: a killed mount has left it there.
        self.store.flush(Edge::RepairMark)?;
        let block = SUPERBLOCK_AT / self.store.geometry.block_bytes() as u64;
        self.store.write_superblock(&self.superblock, block, 0)?;
        self.store.flush(Edge::RepairMarkEnd)?;
        Ok(true)
    }
}

/// Frees an inode; its generation stays.
fn free(inode: &mut Inode) {
    *inode = Inode { generation: inode.generation, ..Inode::default() };
}

/// The inode of a directory that check accepted.
fn directory_inode(store: &mut Store<'_>, dir: u32) -> Result<Inode, FsError> {
    Ok(read_inode(store, dir)?.unwrap_or_default())
}

#[cfg(test)]
#[path = "repair/cuts.rs"]
mod cuts;
#[cfg(test)]
#[path = "repair/tests.rs"]
mod tests;
