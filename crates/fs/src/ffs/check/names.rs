//! Phase 2: the entries of all directories, in the order of their inodes.

use super::finding::{Finding, Outcome};
use super::scan::Blocks;
use super::state::Known;
use super::walk::walk;
use super::{Examination, read_inode};
use crate::call::{FileKind, ROOT};
use crate::ffs::entries::{Entry, entries, is_dots, is_name, type_byte};
use crate::ffs::format::LOG_INODE;
use crate::ffs::geometry::Place;
use crate::ffs::seal::SealKind;
use crate::ffs::store::Store;
use crate::tx::SECTOR_CONTENT;
use seekless_engine::units::SECTOR_BYTES;
use std::collections::BTreeSet;

/// The names of one directory, to find those that it has twice.
type Names = BTreeSet<Vec<u8>>;

impl Examination<'_> {
    /// Phase 2.
    pub(super) fn names(&mut self) -> Outcome {
        match self.known.folders.get_mut(&(ROOT as u32)) {
            Some(root) => root.parent = ROOT as u32,
            None => self.found.add(Finding::NoRoot),
        }
        let all: Vec<u32> = self.known.folders.keys().copied().collect();
        for dir in all {
            let chunks = chunks_of(&mut self.store, &self.known, dir)?;
            let mut names = Names::new();
            let mut held: Option<(u64, bytes::Bytes)> = None;
            for (chunk, place) in (0..).zip(chunks) {
                if self.found.cut {
                    return Ok(());
                }
                let bytes = match held.take().filter(|(block, _)| *block == place.block) {
                    Some((_, bytes)) => bytes,
                    None => self.store.read(place.block, 1)?,
                };
                self.chunk(dir, chunk, place, &bytes, &mut names);
                held = Some((place.block, bytes));
            }
        }
        Ok(())
    }

    fn chunk(&mut self, dir: u32, chunk: u64, place: Place, bytes: &[u8], names: &mut Names) {
        if !self.store.is_whole(bytes, place, SealKind::Directory) {
            let (kind, first) = (SealKind::Directory, (chunk == 0).then_some(dir));
            self.found.add(Finding::Sector { kind, place, first });
            return;
        }
        let content = &bytes[place.at..place.at + SECTOR_CONTENT];
        let Some(all) = entries(content) else {
            self.found.add(Finding::BadChunk { dir, chunk, place });
            return;
        };
        let dots = if chunk == 0 { self.dots(dir, place, &all) } else { 0 };
        // Where the dots are bad, the repair of the chunk leaves out what has their names.
        let is_left_out = |entry: &Entry<'_>| chunk == 0 && dots == 0 && is_dots(entry.name);
        let used = |entry: &&Entry<'_>| entry.ino != 0 && !is_left_out(entry);
        for entry in all.iter().skip(dots).filter(used) {
            let place = Place { at: place.at + entry.at, ..place };
            self.entry(dir, place, entry, names);
        }
    }

    /// Checks `.` and `..` of a first chunk; answers how many entries they are.
    fn dots(&mut self, dir: u32, place: Place, all: &[Entry<'_>]) -> usize {
        let is_dot = |index: usize, name: &[u8]| {
            all.get(index).filter(|entry| {
                entry.ino != 0
                    && entry.name == name
                    && entry.type_byte == type_byte(FileKind::Directory)
            })
        };
        let own = is_dot(0, b".").filter(|entry| entry.ino == dir);
        let (Some(_), Some(up)) = (own, is_dot(1, b"..")) else {
            self.found.add(Finding::BadDots { dir, place });
            return 0;
        };
        if let Some(folder) = self.known.folders.get_mut(&dir) {
            folder.dotdot = up.ino;
        }
        2
    }

    fn entry(&mut self, dir: u32, place: Place, entry: &Entry<'_>, names: &mut Names) {
        let name = || entry.name.to_vec();
        let ino = entry.ino;
        if !is_name(entry.name) || is_dots(entry.name) {
            self.found.add(Finding::BadName { dir, name: name(), place });
            return;
        }
        let kind = self.known.kind(ino).filter(|_| ino != LOG_INODE);
        let Some(kind) = kind else {
            self.found.add(Finding::EntryToFree { dir, name: name(), ino, place });
            return;
        };
        if !names.insert(name()) {
            self.found.add(Finding::NameTwice { dir, name: name(), place });
            return;
        }
        if let Some(folder) = self.known.folders.get_mut(&ino) {
            if folder.parent != 0 {
                self.found.add(Finding::DirectoryTwice { dir, name: name(), ino, place });
                return;
            }
            folder.parent = dir;
        }
        if entry.type_byte != type_byte(kind) {
            self.found.add(Finding::WrongType { dir, name: name(), ino, place });
        }
        if kind == FileKind::Directory
            && let Some(folder) = self.known.folders.get_mut(&dir)
        {
            folder.children += 1;
        }
        if let Some(folder) = self.known.folders.get_mut(&dir) {
            folder.entries += 1;
        }
        if let Some(brief) = self.known.brief_mut(ino) {
            brief.names = brief.names.saturating_add(1);
        }
    }
}

/// The places of the chunks of a directory, in order.
pub(crate) fn chunks_of(store: &mut Store<'_>, known: &Known, dir: u32) -> Outcome<Vec<Place>> {
    let Some(inode) = read_inode(store, dir)? else { return Ok(Vec::new()) };
    let mut blocks = Blocks::new(known);
    walk(store, dir, &inode, &mut blocks)?;
    let in_block = store.geometry.sectors_per_block();
    let count = (inode.size / SECTOR_BYTES as u64).min((blocks.addresses.len() * in_block) as u64);
    let place = |chunk: u64| {
        let address = blocks.addresses[chunk as usize / in_block];
        let place = store.geometry.place_of(address);
        Place { at: place.at + chunk as usize % in_block * SECTOR_BYTES, ..place }
    };
    Ok((0..count).map(place).collect())
}
