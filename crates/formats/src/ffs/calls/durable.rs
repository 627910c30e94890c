//! `fsync` of one file or directory: the blocks that make it readable after a crash.
//!
//! They are its dirty blocks, its inode, and the path: directories that got a name of it, up to the
//! root. Inodes that gave up its blocks are among them, so that no other file claims these blocks
//! after a crash. A directory brings the inodes of its new names, but not the content of new files:
//! that is for a sync of each file. Bitmaps are not among them: a check makes them from the inodes.

use crate::ffs::inodes;
use crate::ffs::names::dirs;
use crate::ffs::names::paths::Mark;
use crate::ffs::volume::Volume;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{FileKind, Ino, ROOT};
use seekless_fs::core::tx::CoreTx;
use seekless_fs::mounted::pending;
use seekless_fs::tx::{BlockNo, Field, Stop, Tx as _};
use std::collections::BTreeSet;

/// What a call for durability waits for.
pub(crate) type Durable = pending::Durable<Mark>;

/// Everything.
pub(crate) fn all(vol: &mut Volume) -> Durable {
    let bodies = vol.paths.bodies().map(|one| one.0).collect();
    let mark = vol.paths.begin(true, Vec::new(), Vec::new());
    Durable { bodies, ..Durable::new(None, Vec::new(), Some(mark)) }
}

/// Blocks that are collected.
struct Reach<'a, 'c> {
    tx: &'a mut CoreTx<'c>,
    vol: &'a mut Volume,
    blocks: BTreeSet<BlockNo>,
    fields: BTreeSet<Field>,
    groups: BTreeSet<u32>,
    /// Inodes with content and inode in `blocks`.
    whole: BTreeSet<Ino>,
    /// Directories whose way to the root is in `blocks`.
    rooted: BTreeSet<Ino>,
    /// Inodes of which the directories with new names, and with removed ones, are in `blocks`.
    named: BTreeSet<Ino>,
    /// The path is not known.
    unknown: bool,
}

/// What makes a file durable; with `data_only`, without times.
///
/// # Errors
/// Those of [`inodes::get`] for an ancestor that is read.
pub(crate) fn file(
    tx: &mut CoreTx<'_>,
    vol: &mut Volume,
    ino: Ino,
    data_only: bool,
) -> Result<Durable, Stop> {
    vol.number(ino)?;
    if tx.takes_groups() {
        // The log brings names and inodes of all.
        let blocks = tx.owned(ino).collect();
        let mark = vol.paths.begin(true, Vec::new(), Vec::new());
        return Ok(Durable::new(Some(blocks), Vec::new(), Some(mark)));
    }
    if vol.paths.is_unknown() {
        return Ok(all(vol));
    }
    let (blocks, fields, groups) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (whole, rooted, named) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut reach = Reach { tx, vol, blocks, fields, groups, whole, rooted, named, unknown: false };
    reach.file(ino, data_only)?;
    let bodies = reach.bodies()?;
    let Reach { vol, blocks, fields, groups, whole, named, unknown, .. } = reach;
    if unknown {
        return Ok(all(vol));
    }
    let inodes = whole.intersection(&named).copied().collect();
    let mark = vol.paths.begin(false, inodes, groups.into_iter().collect());
    let fields = fields.into_iter().collect();
    Ok(Durable { bodies, ..Durable::new(Some(blocks.into_iter().collect()), fields, Some(mark)) })
}

impl Reach<'_, '_> {
    fn file(&mut self, ino: Ino, data_only: bool) -> Result<(), Stop> {
        let asked = !data_only && !planted(PlantedBug::FsyncWithoutInode);
        let needs_inode = asked || self.vol.paths.of(ino).is_some();
        self.content(ino, needs_inode)?;
        if self.is_directory(ino)? {
            let names: Vec<Ino> = self.vol.paths.names_in(ino).collect();
            for child in names {
                if self.kind(child)? != Some(FileKind::File) {
                    self.owned(child)?;
                }
                self.inode(child)?;
                // Other directories may still have a name of what had this inode before.
                self.path(child)?;
            }
            return self.way_up(ino);
        }
        self.path(ino)
    }

    /// Tails of directories that have moved, and of which the inodes are in the blocks.
    fn bodies(&mut self) -> Result<Vec<BlockNo>, Stop> {
        let mut bodies = Vec::new();
        for (block, dir) in self.vol.paths.bodies().collect::<Vec<_>>() {
            let inode = self.vol.geometry.inode_place(self.vol.number(dir)?).block;
            if !self.tx.is_block_unwritten(block) {
                self.vol.paths.wrote_body(block);
            } else if Edge::FsyncBodies.blocks(self.blocks.contains(&inode)) {
                self.blocks.insert(block);
                bodies.push(block);
            }
        }
        Ok(bodies)
    }

    /// The dirty blocks of an inode, and those of which others must let go.
    fn content(&mut self, ino: Ino, with_inode: bool) -> Result<(), Stop> {
        if !self.whole.insert(ino) {
            return Ok(());
        }
        if Edge::FsyncOwned.stands() {
            self.owned(ino)?;
        }
        if with_inode {
            self.inode(ino)?;
        }
        if self.tx.defers_frees() {
            // Freed space has no other owner before the disk knows that it is free.
            return Ok(());
        }
        let losers = self.vol.paths.of(ino).map(|needs| needs.losers.clone());
        for loser in losers.unwrap_or_default() {
            if !Edge::FsyncLosers.stands() {
                break;
            }
            if loser.deep {
                self.blocks.extend(self.tx.owned_addresses(loser.ino));
            }
            self.inode(loser.ino)?;
        }
        Ok(())
    }

    /// The dirty blocks of an inode.
    fn owned(&mut self, ino: Ino) -> Result<(), Stop> {
        let number = self.vol.number(ino)?;
        let inode = self.vol.geometry.inode_place(number).block;
        let block_bytes = self.vol.geometry.block_bytes();
        for block in self.tx.owned(ino).collect::<Vec<_>>() {
            self.blocks.insert(block);
            self.fields.insert(match block == inode {
                true => inodes::field(self.vol, number),
                false => Field::new(block, 0, block_bytes),
            });
        }
        Ok(())
    }

    /// The inode itself, and what a check needs to find it.
    fn inode(&mut self, ino: Ino) -> Result<(), Stop> {
        let number = self.vol.number(ino)?;
        self.blocks.insert(self.vol.geometry.inode_place(number).block);
        self.fields.insert(inodes::field(self.vol, number));
        let group = self.vol.geometry.group_of_inode(number);
        if Edge::FsyncGroup.blocks(self.vol.paths.has_grown(group)) && self.groups.insert(group) {
            self.blocks.insert(self.vol.geometry.header_of(group).block);
        }
        Ok(())
    }

    /// Directories with a new name of this object, and their way to the root.
    fn path(&mut self, ino: Ino) -> Result<(), Stop> {
        let dirs = self.vol.paths.of(ino).map(|needs| needs.dirs.clone()).unwrap_or_default();
        // It may have an old name, and a directory above that a new one.
        self.unknown |= Edge::FsyncMoved.blocks(self.vol.paths.has_moved());
        for dir in dirs.into_iter().filter(|_| !planted(PlantedBug::FsyncWithoutName)) {
            self.content(dir, true)?;
            self.way_up(dir)?;
        }
        self.named.insert(ino);
        Ok(())
    }

    /// New names of a directory and of those above it.
    fn way_up(&mut self, dir: Ino) -> Result<(), Stop> {
        let mut at = if planted(PlantedBug::FsyncWithoutParent) { ROOT } else { dir };
        while at != ROOT && self.rooted.insert(at) {
            if !self.is_directory(at)? {
                return Ok(());
            }
            let named = self.vol.paths.of(at).map(|needs| needs.dirs.clone());
            for dir in named.unwrap_or_default() {
                self.content(at, true)?;
                self.content(dir, true)?;
            }
            self.named.insert(at);
            let inode = inodes::get(self.tx, self.vol, at)?;
            at = dirs::parent(self.tx, self.vol, (at, &inode))?;
        }
        Ok(())
    }

    fn kind(&mut self, ino: Ino) -> Result<Option<FileKind>, Stop> {
        Ok(inodes::raw(self.tx, self.vol, self.vol.number(ino)?)?.kind())
    }

    fn is_directory(&mut self, ino: Ino) -> Result<bool, Stop> {
        let inode = inodes::raw(self.tx, self.vol, self.vol.number(ino)?)?;
        Ok(inode.kind() == Some(FileKind::Directory) && inode.links > 0)
    }
}
