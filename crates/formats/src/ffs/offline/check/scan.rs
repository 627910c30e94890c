//! Phase 1: inodes and their blocks; phase 1b: the other owners of blocks claimed twice.

use super::finding::{Collector, Finding, Outcome, Span};
use super::state::{Brief, Folder, Known};
use super::walk::{Pointer, Visitor, walk};
use super::{Examination, is_mark, read_inode};
use crate::ffs::ondisk::format::LOG_INODE;
use crate::ffs::ondisk::geometry::{Fragment, Geometry, Place};
use crate::ffs::ondisk::group::GroupHeader;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, SECTOR_INODES, is_free};
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{FileKind, MOST_SYMLINK};
use std::collections::BTreeMap;
use std::ops::Range;

/// Inodes of a block of the table that are in use, and its damaged sectors.
type TableBlock = (Vec<(u32, Inode)>, Vec<(Place, u32)>);

impl Examination<'_> {
    /// Phases 1 and 1b.
    pub(super) fn inodes(&mut self) -> Outcome {
        let geometry = self.store.geometry.clone();
        let mut written = Vec::new();
        for group in 0..geometry.groups() {
            let (mark, stored) = self.mark(group)?;
            written.push(stored / geometry.inodes_per_block());
            self.known.add_group(mark);
            self.known.claim(geometry.metadata_of(group));
        }
        if let Some(file) = &self.log {
            self.known.claim(file.fragments.clone());
        }
        for group in 0..geometry.groups() {
            for index in 0..self.known.marks[group as usize] / geometry.inodes_per_block() {
                let (inodes, damaged) = self.table_block(group, index)?;
                // What the first write of a block behind the mark has not reached is free.
                for (place, ino) in damaged.into_iter().filter(|_| index < written[group as usize])
                {
                    let (kind, first) = (SealKind::Inodes, Some(ino));
                    self.found.add(Finding::Sector { kind, place, first });
                }
                for (ino, inode) in inodes {
                    // The superblock says what the file of the log has.
                    if ino != LOG_INODE || self.log.is_none() {
                        self.inode(ino, inode)?;
                    }
                }
                if self.found.cut {
                    return Ok(());
                }
            }
        }
        self.log_file()?;
        self.other_owners()
    }

    /// The file of the log is as the superblock says, or becomes so by a repair.
    fn log_file(&mut self) -> Outcome {
        let Some(file) = &self.log else { return Ok(()) };
        if !file.is_written(&mut self.store)? {
            self.found.add(Finding::LogFile);
        }
        if let Some(brief) = self.known.brief_mut(LOG_INODE) {
            let kind = Some(FileKind::File);
            *brief = Brief { kind, has_content: true, links: file.inode.links, names: 0 };
        }
        Ok(())
    }

    /// Initialised inodes of a group, in truth and by its header. If the header has a lower mark
    /// than the table shows, the write of the header was lost. If it is damaged, the seals in the
    /// table tell.
    fn mark(&mut self, group: u32) -> Outcome<(u32, u32)> {
        let geometry = self.store.geometry.clone();
        let place = geometry.header_of(group);
        let bytes = self.store.read(place.block, 1)?;
        let is_whole = self.store.is_whole(&bytes, place, SealKind::Map);
        let header =
            GroupHeader::decode(&bytes).filter(|header| is_whole && header.number == group);
        let stored =
            header.map(|header| header.initialised).filter(|&mark| is_mark(mark, &geometry));
        let each = geometry.inodes_per_block();
        let mut right = stored.unwrap_or(0);
        for index in right / each..geometry.table_blocks() {
            let (inodes, damaged) = self.table_block(group, index)?;
            let has_seals = damaged.len() < geometry.sectors_per_block();
            match stored {
                None if has_seals => right = (index + 1) * each,
                Some(_) if !inodes.is_empty() => right = (index + 1) * each,
                None => {}
                Some(_) => break,
            }
        }
        if let Some(stored) = stored.filter(|&stored| stored != right) {
            self.found.add(Finding::Initialised { group, stored, right });
        }
        Ok((right, stored.unwrap_or(right)))
    }

    fn table_block(&mut self, group: u32, index: u32) -> Outcome<TableBlock> {
        let geometry = self.store.geometry.clone();
        let block = geometry.table_of(group) + u64::from(index);
        let bytes = self.store.read(block, 1)?;
        let mut ino =
            group * geometry.sizes().inodes_per_group + index * geometry.inodes_per_block();
        let (mut inodes, mut damaged) = (Vec::new(), Vec::new());
        for at in (0..geometry.block_bytes()).step_by(SECTOR_BYTES) {
            let place = Place { block, at };
            if !self.store.is_whole(&bytes, place, SealKind::Inodes) {
                damaged.push((place, ino));
                ino += SECTOR_INODES as u32;
                continue;
            }
            for each in bytes[at..at + INODE_BYTES * SECTOR_INODES].chunks_exact(INODE_BYTES) {
                // Most inodes of a table are free: only the others are decoded.
                if !is_free(each) {
                    inodes.push((ino, Inode::decode(each)));
                }
                ino += 1;
            }
        }
        Ok((inodes, damaged))
    }

    fn inode(&mut self, ino: u32, mut inode: Inode) -> Outcome {
        let Inode { mode, size, .. } = inode;
        let kind = possible_kind(ino, &inode);
        if kind == Some(FileKind::Directory) {
            inode.size = size / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        }
        if kind.is_none() || inode.size != size {
            self.found.add(Finding::BadInode { ino, mode, size });
        }
        let Some(kind) = kind else { return Ok(()) };
        let most = self.store.geometry.most_file_bytes();
        if inode.size > most {
            self.found.add(Finding::TooLarge { ino, size });
            inode.size = most;
        }
        let Examination { store, known, found, .. } = self;
        let size = inode.size;
        let mut claimer = Claimer { ino, size, known, found, fragments: 0, next: 0 };
        if inode.has_blocks() {
            walk(store, ino, &inode, &mut claimer)?;
        }
        let Claimer { fragments, next, .. } = claimer;
        let unit = (self.store.geometry.fragment_bytes() / SECTOR_BYTES) as u64;
        let right = u32::try_from(fragments * unit).unwrap_or(u32::MAX);
        if inode.sectors != right {
            self.found.add(Finding::WrongSectors { ino, stored: inode.sectors, right });
        }
        if kind == FileKind::Directory && !self.directory(ino, &inode, next) {
            return Ok(());
        }
        let has_content = kind != FileKind::File || size > 0;
        if let Some(brief) = self.known.brief_mut(ino) {
            *brief = Brief { kind: Some(kind), has_content, links: inode.links, names: 0 };
        }
        Ok(())
    }

    /// Looks for holes in a directory of which the first `next` blocks exist; false if it has none.
    fn directory(&mut self, ino: u32, inode: &Inode, next: u64) -> bool {
        if next < inode.size_blocks(&self.store.geometry) {
            self.found.add(Finding::DirectoryHole { ino, index: next });
        }
        if next > 0 {
            self.known.folders.insert(ino, Folder::default());
        }
        next > 0
    }

    /// Phase 1b: names the other owner in each finding of a block claimed twice.
    fn other_owners(&mut self) -> Outcome {
        let mut owners: BTreeMap<Fragment, u32> = BTreeMap::new();
        let per_block = self.store.geometry.fragments_per_block();
        let end = self.store.geometry.fragments();
        for finding in &self.found.list {
            if let Finding::Duplicate { address, .. } = finding {
                let range = *address..(address + per_block).min(end);
                owners.extend(range.map(|fragment| (fragment, 0)));
            }
        }
        if owners.is_empty() {
            return Ok(());
        }
        let all: Vec<u32> = self.known.in_use().map(|(ino, _)| ino).collect();
        for ino in all {
            let Some(inode) = read_inode(&mut self.store, ino)? else { continue };
            if inode.has_blocks() {
                let mut finder = Finder { ino, known: &self.known, owners: &mut owners };
                walk(&mut self.store, ino, &inode, &mut finder)?;
            }
        }
        for finding in &mut self.found.list {
            if let Finding::Duplicate { address, other, .. } = finding {
                let owner = owners.range(*address..).map(|(_, &owner)| owner).find(|&ino| ino != 0);
                *other = owner.unwrap_or(0);
            }
        }
        Ok(())
    }
}

/// The kind of an inode whose fields agree with each other; a directory may have a bad size.
fn possible_kind(ino: u32, inode: &Inode) -> Option<FileKind> {
    let kind = inode.kind()?;
    let fits = match kind {
        FileKind::Directory => inode.size >= SECTOR_BYTES as u64,
        FileKind::Symlink => (1..=MOST_SYMLINK as u64).contains(&inode.size),
        _ => true,
    };
    (fits && ino > 1 && (ino != LOG_INODE || kind == FileKind::File)).then_some(kind)
}

/// Claims the blocks of an inode.
struct Claimer<'c> {
    ino: u32,
    /// Bytes of the file.
    size: u64,
    known: &'c mut Known,
    found: &'c mut Collector,
    /// Fragments claimed.
    fragments: u64,
    /// Blocks of the file from its start without a hole.
    next: u64,
}

impl Visitor for Claimer<'_> {
    fn pointer(&mut self, pointer: &Pointer, geometry: &Geometry) -> bool {
        let &Pointer { slot, index, level, address, fragments } = pointer;
        let ino = self.ino;
        let finding = if fragments == 0 {
            Finding::PastEnd { ino, index, address, slot }
        } else if !pointer.is_possible(geometry) {
            Finding::BadAddress { ino, index, address, slot }
        } else if !self.known.claim(pointer.range()) {
            let span = Span { fragments, level };
            Finding::Duplicate { ino, index, address, span, slot, other: 0 }
        } else {
            self.fragments += u64::from(fragments);
            self.next += u64::from(level == 0 && index == self.next);
            return true;
        };
        if !self.found.cut {
            self.known.rejected.insert(slot);
        }
        self.found.add(finding);
        false
    }

    fn damaged(&mut self, place: Place, blocks: Range<u64>, geometry: &Geometry) {
        let bytes = geometry.block_bytes() as u64;
        let from = blocks.start.saturating_mul(bytes).min(self.size);
        let to = blocks.end.saturating_mul(bytes).min(self.size);
        self.found.add(Finding::Addresses { ino: self.ino, place, from, to });
    }
}

/// Looks for the first owners of blocks.
struct Finder<'f> {
    ino: u32,
    known: &'f Known,
    owners: &'f mut BTreeMap<Fragment, u32>,
}

impl Visitor for Finder<'_> {
    fn pointer(&mut self, pointer: &Pointer, geometry: &Geometry) -> bool {
        if self.known.rejected.contains(&pointer.slot) || !pointer.is_possible(geometry) {
            return false;
        }
        for fragment in pointer.range() {
            if let Some(owner) = self.owners.get_mut(&fragment) {
                *owner = self.ino;
            }
        }
        true
    }

    fn damaged(&mut self, _place: Place, _blocks: Range<u64>, _geometry: &Geometry) {}
}

/// The addresses of the blocks of a directory, in order, without what phase 1 rejected.
pub(crate) struct Blocks<'b> {
    known: &'b Known,
    /// First fragment of each block.
    pub addresses: Vec<Fragment>,
}

impl<'b> Blocks<'b> {
    /// None yet.
    pub fn new(known: &'b Known) -> Blocks<'b> {
        Blocks { known, addresses: Vec::new() }
    }
}

impl Visitor for Blocks<'_> {
    fn pointer(&mut self, pointer: &Pointer, _geometry: &Geometry) -> bool {
        if self.known.rejected.contains(&pointer.slot) {
            return false;
        }
        if pointer.level == 0 && pointer.index == self.addresses.len() as u64 {
            self.addresses.push(pointer.address);
        }
        true
    }

    fn damaged(&mut self, _place: Place, _blocks: Range<u64>, _geometry: &Geometry) {}
}
