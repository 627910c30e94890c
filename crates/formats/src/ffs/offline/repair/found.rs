//! Names for what lost its own: `lost+found`, and the root directory if it is missing.
//!
//! A directory that repair makes or extends gets whole free blocks, chosen by what the inodes claim
//! and not by the bitmaps, which may be wrong. It has at most twelve; then `lost+found.1` begins.

use super::{Repair, directory_inode};
use crate::error::FsError;
use crate::ffs::offline::check::names::chunks_of;
use crate::ffs::offline::check::state::{Brief, Folder, Known};
use crate::ffs::ondisk::entries;
use crate::ffs::ondisk::format::FIRST_INODE;
use crate::ffs::ondisk::geometry::{Fragment, Place};
use crate::ffs::ondisk::inode::{DIRECT, Inode};
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::edge::Edge;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{FileKind, ROOT};
use seekless_fs::tx::SECTOR_CONTENT;

/// Directories for what has no name, at most.
const MOST_FOUND: u32 = 1000;

/// What is free, as the round goes on.
pub(super) struct Finder {
    pub known: Known,
    /// Where the search for a free block goes on.
    next: Fragment,
    /// The directory for what has no name, once it is known.
    found: Option<u32>,
    /// Directories that are full, or no directories.
    skipped: u32,
}

impl Finder {
    /// Starts from what check knows.
    pub fn new(known: Known) -> Finder {
        Finder { known, next: 0, found: None, skipped: 0 }
    }
}

impl Repair<'_> {
    /// Makes the root directory anew; false if there is no space.
    pub(super) fn make_root(&mut self) -> Result<bool, FsError> {
        if self.finder.known.marks[0] == 0 && !self.open_table(0)? {
            return Ok(false);
        }
        self.make_directory(ROOT as u32, ROOT as u32)
    }

    /// Gives an object a name in `lost+found`, or in the root if there is no space for a directory;
    /// false if there is none for the name either.
    pub(super) fn reconnect(&mut self, ino: u32) -> Result<bool, FsError> {
        let Some(kind) = self.finder.known.kind(ino) else { return Ok(false) };
        let name = format!("#{ino}");
        loop {
            let Some(dir) = self.found_directory()? else {
                return self.add(ROOT as u32, ino, kind, name.as_bytes());
            };
            if dir != ino && self.add(dir, ino, kind, name.as_bytes())? {
                return Ok(true);
            }
            self.finder.found = None;
            self.finder.skipped += 1;
        }
    }

    /// Removes the entry of `dir` that leads to `ino`.
    pub(super) fn remove_name(&mut self, dir: u32, ino: u32) -> Result<bool, FsError> {
        for place in chunks_of(&mut self.store, &self.finder.known, dir)? {
            let bytes = self.store.read(place.block, 1)?;
            let chunk = &bytes[place.at..place.at + SECTOR_CONTENT];
            let all = entries::entries(chunk).unwrap_or_default();
            let mut named = all.iter().filter(|each| !entries::is_dots(each.name));
            if let Some(entry) = named.find(|each| each.ino == ino) {
                self.remove_entry(Place { at: place.at + entry.at, ..place })?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes `..` of a directory lead to its parent.
    pub(super) fn set_parent(&mut self, dir: u32, parent: u32) -> Result<(), FsError> {
        let first = chunks_of(&mut self.store, &self.finder.known, dir)?.first().copied();
        let Some(place) = first else { return Ok(()) };
        self.store.edit(place, SealKind::Directory, |chunk, _| {
            crate::ffs::ondisk::fields::put(chunk, entries::LEAST_ENTRY, &parent.to_le_bytes());
        })
    }

    /// The directory for what has no name; it is made if need be.
    fn found_directory(&mut self) -> Result<Option<u32>, FsError> {
        while self.finder.found.is_none() && self.finder.skipped < MOST_FOUND {
            let name = match self.finder.skipped {
                0 => "lost+found".to_string(),
                number => format!("lost+found.{number}"),
            };
            match self.look_up(ROOT as u32, name.as_bytes())? {
                Some(ino) if self.is_connected(ino) => self.finder.found = Some(ino),
                Some(_) => self.finder.skipped += 1,
                None => {
                    let Some(ino) = self.free_inode()? else { return Ok(None) };
                    if !self.make_directory(ino, ROOT as u32)?
                        || !self.add(ROOT as u32, ino, FileKind::Directory, name.as_bytes())?
                    {
                        return Ok(None);
                    }
                    self.finder.found = Some(ino);
                }
            }
        }
        Ok(self.finder.found)
    }

    fn is_connected(&self, ino: u32) -> bool {
        self.finder.known.folders.get(&ino).is_some_and(|folder| folder.parent == ROOT as u32)
    }

    fn look_up(&mut self, dir: u32, name: &[u8]) -> Result<Option<u32>, FsError> {
        for place in chunks_of(&mut self.store, &self.finder.known, dir)? {
            let bytes = self.store.read(place.block, 1)?;
            let chunk = &bytes[place.at..place.at + SECTOR_CONTENT];
            let all = entries::entries(chunk).unwrap_or_default();
            if let Some(entry) = all.iter().find(|entry| entry.ino != 0 && entry.name == name) {
                return Ok(Some(entry.ino));
            }
        }
        Ok(None)
    }

    /// Adds an entry, in a new block if need be; false if the directory or the volume is full, or
    /// the name is in use.
    fn add(&mut self, dir: u32, ino: u32, kind: FileKind, name: &[u8]) -> Result<bool, FsError> {
        if self.look_up(dir, name)?.is_some() {
            return Ok(false);
        }
        let chunks = chunks_of(&mut self.store, &self.finder.known, dir)?;
        let mut added = false;
        for place in chunks {
            let bytes = self.store.read(place.block, 1)?;
            let mut probe = bytes[place.at..place.at + SECTOR_CONTENT].to_vec();
            if entries::add(&mut probe, ino, kind, name) {
                self.store.edit(place, SealKind::Directory, |chunk, _| {
                    chunk.copy_from_slice(&probe);
                })?;
                added = true;
                break;
            }
        }
        if !added && !self.extend(dir, ino, kind, name)? {
            return Ok(false);
        }
        if kind == FileKind::Directory {
            self.set_parent(ino, dir)?;
            if let Some(folder) = self.finder.known.folders.get_mut(&ino) {
                folder.parent = dir;
            }
        }
        Ok(true)
    }

    /// Adds a block with one entry to a directory. A last block of fragments is replaced by a copy.
    fn extend(&mut self, dir: u32, ino: u32, kind: FileKind, name: &[u8]) -> Result<bool, FsError> {
        let geometry = self.store.geometry.clone();
        let inode = directory_inode(&mut self.store, dir)?;
        let chunks = chunks_of(&mut self.store, &self.finder.known, dir)?;
        let in_block = geometry.sectors_per_block();
        let kept = chunks.len() % in_block;
        let index = chunks.len() / in_block;
        if index >= DIRECT {
            return Ok(false);
        }
        let Some(address) = self.free_block() else { return Ok(false) };
        let mut bytes = vec![0; geometry.block_bytes()];
        for chunk in bytes.chunks_exact_mut(SECTOR_BYTES) {
            entries::format_empty(chunk);
        }
        for (to, place) in chunks[chunks.len() - kept..].iter().enumerate() {
            let old = self.store.read(place.block, 1)?;
            bytes[to * SECTOR_BYTES..][..SECTOR_CONTENT]
                .copy_from_slice(&old[place.at..place.at + SECTOR_CONTENT]);
        }
        let added = entries::add(&mut bytes[kept * SECTOR_BYTES..], ino, kind, name);
        debug_assert!(added, "an empty chunk has room for any name");
        self.write_chunks(address, bytes)?;
        let size = ((index + 1) * geometry.block_bytes()) as u64;
        let old = if inode.direct[index] == 0 {
            0
        } else {
            inode.block_fragments(index as u64, &geometry)
        };
        let more = (geometry.fragments_per_block() - old) as usize * geometry.fragment_bytes();
        self.set_inode(dir, |inode| {
            inode.direct[index] = address;
            inode.size = size;
            inode.sectors = inode.sectors.saturating_add((more / SECTOR_BYTES) as u32);
        })?;
        Ok(true)
    }

    /// Makes an empty directory out of a free inode; false if there is no space.
    fn make_directory(&mut self, ino: u32, parent: u32) -> Result<bool, FsError> {
        let Some(address) = self.free_block() else { return Ok(false) };
        let geometry = self.store.geometry.clone();
        let mut bytes = vec![0; geometry.block_bytes()];
        for chunk in bytes.chunks_exact_mut(SECTOR_BYTES) {
            entries::format_empty(chunk);
        }
        entries::format_first(&mut bytes, ino, parent);
        self.write_chunks(address, bytes)?;
        let now = self.superblock.written;
        self.set_inode(ino, |inode| {
            let mut direct = [0; DIRECT];
            direct[0] = address;
            *inode = Inode {
                mode: if ino == ROOT as u32 { 0o040_755 } else { 0o040_700 },
                links: 2,
                generation: inode.generation.wrapping_add(1),
                size: geometry.block_bytes() as u64,
                sectors: geometry.sectors_per_block() as u32,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                direct,
                ..Inode::default()
            };
        })?;
        let known = &mut self.finder.known;
        if let Some(brief) = known.brief_mut(ino) {
            let kind = Some(FileKind::Directory);
            *brief = Brief { kind, has_content: true, links: 2, names: 0 };
        }
        known.folders.insert(ino, Folder { dotdot: parent, parent, ..Folder::default() });
        Ok(true)
    }

    /// Writes the chunks of a block of a directory, and makes them durable before an inode names
    /// them.
    fn write_chunks(&mut self, address: Fragment, mut bytes: Vec<u8>) -> Result<(), FsError> {
        let place = self.store.geometry.place_of(address);
        let first = self.store.geometry.sector_of(place);
        self.store.sealer.set_all(&mut bytes, first, SealKind::Directory, 0);
        self.store.write(place.block, bytes)?;
        self.store.flush(Edge::RepairChunks)
    }

    /// A block that nothing claims; it is claimed now.
    pub(super) fn free_block(&mut self) -> Option<Fragment> {
        let geometry = &self.store.geometry;
        let count = geometry.fragments_per_block();
        let mut at = self.finder.next;
        while at < geometry.fragments() {
            if geometry.is_data(at, count) && self.finder.known.claim(at..at + count) {
                self.finder.next = at + count;
                return Some(at);
            }
            at += count;
        }
        None
    }

    /// A free inode in an initialised part of a table, or in a block that is initialised now.
    fn free_inode(&mut self) -> Result<Option<u32>, FsError> {
        let geometry = self.store.geometry.clone();
        let per_group = geometry.sizes().inodes_per_group;
        for _ in 0..2 {
            for group in 0..geometry.groups() {
                let first = group * per_group;
                let mut inodes = first..first + self.finder.known.marks[group as usize];
                let free =
                    |ino: &u32| *ino >= FIRST_INODE && self.finder.known.kind(*ino).is_none();
                if let Some(ino) = inodes.find(free) {
                    return Ok(Some(ino));
                }
            }
            let full = |group: &u32| self.finder.known.marks[*group as usize] < per_group;
            let Some(group) = (0..geometry.groups()).find(full) else { return Ok(None) };
            self.open_table(group)?;
        }
        Ok(None)
    }

    /// Initialises the next block of the inode table of a group; false if there is none.
    fn open_table(&mut self, group: u32) -> Result<bool, FsError> {
        let geometry = self.store.geometry.clone();
        let mark = self.finder.known.marks[group as usize];
        if mark >= geometry.sizes().inodes_per_group {
            return Ok(false);
        }
        let block = geometry.table_of(group) + u64::from(mark / geometry.inodes_per_block());
        let mut bytes = vec![0; geometry.block_bytes()];
        let first = geometry.sector_of(Place { block, at: 0 });
        self.store.sealer.set_all(&mut bytes, first, SealKind::Inodes, 0);
        self.store.write(block, bytes)?;
        self.store.flush(Edge::RepairTable)?;
        let right = mark + geometry.inodes_per_block();
        self.finder.known.raise_mark(group, right);
        self.mark(group, right)?;
        Ok(true)
    }
}
