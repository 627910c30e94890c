//! Phase 2: the entries of all directories, in the order of their inodes.

use super::finding::{Finding, Outcome};
use super::scan::Blocks;
use super::state::{Folder, Known};
use super::walk::walk;
use super::{Examination, read_inode};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::entries::{Entry, entries, is_dots, kind_of_type, moves_of};
use crate::ffs::ondisk::format::LOG_INODE;
use crate::ffs::ondisk::geometry::Place;
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{FileKind, ROOT, is_name};
use seekless_fs::tx::SECTOR_CONTENT;
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
                self.chunk(dir, chunk, place, &bytes, &mut names)?;
                held = Some((place.block, bytes));
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        dir: u32,
        chunk: u64,
        place: Place,
        bytes: &[u8],
        names: &mut Names,
    ) -> Outcome {
        if !self.store.is_whole(bytes, place, SealKind::Directory) {
            let (kind, first) = (SealKind::Directory, (chunk == 0).then_some(dir));
            self.found.add(Finding::Sector { kind, place, first });
            return Ok(());
        }
        let content = &bytes[place.at..place.at + SECTOR_CONTENT];
        let Some(all) = entries(content) else {
            self.found.add(Finding::BadChunk { dir, chunk, place });
            return Ok(());
        };
        let dots = if chunk == 0 { self.dots(dir, place, &all) } else { 0 };
        // Where the dots are bad, the repair of the chunk leaves out what has their names.
        let is_left_out = |entry: &Entry<'_>| chunk == 0 && dots == 0 && is_dots(entry.name);
        let used = |entry: &&Entry<'_>| entry.ino != 0 && !is_left_out(entry);
        for entry in all.iter().skip(dots).filter(used) {
            let place = Place { at: place.at + entry.at, ..place };
            self.entry(dir, place, entry, names)?;
        }
        Ok(())
    }

    /// Checks `.` and `..` of a first chunk; answers how many entries they are.
    fn dots(&mut self, dir: u32, place: Place, all: &[Entry<'_>]) -> usize {
        let is_dot = |index: usize, name: &[u8]| {
            all.get(index).filter(|entry| {
                entry.ino != 0
                    && entry.name == name
                    && kind_of_type(entry.type_byte) == Some(FileKind::Directory)
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

    fn entry(&mut self, dir: u32, place: Place, entry: &Entry<'_>, names: &mut Names) -> Outcome {
        let name = || entry.name.to_vec();
        let ino = entry.ino;
        if !is_name(entry.name) || is_dots(entry.name) {
            self.found.add(Finding::BadName { dir, name: name(), place });
            return Ok(());
        }
        let kind = self.known.kind(ino).filter(|_| ino != LOG_INODE);
        let Some(kind) = kind else {
            self.found.add(Finding::EntryToFree { dir, name: name(), ino, place });
            return Ok(());
        };
        if !names.insert(name()) {
            self.found.add(Finding::NameTwice { dir, name: name(), place });
            return Ok(());
        }
        if self.known.folders.get(&ino).is_some_and(|folder| folder.parent != 0)
            && (!self.takes_over(ino, dir, entry)? || !self.drop_name(ino)?)
        {
            self.found.add(Finding::DirectoryTwice { dir, name: name(), ino, place });
            return Ok(());
        }
        if let Some(folder) = self.known.folders.get_mut(&ino) {
            (folder.parent, folder.named) = (dir, place);
            folder.moves = moves_of(entry.type_byte);
        }
        if kind_of_type(entry.type_byte) != Some(kind) {
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
        Ok(())
    }

    /// The inode that `..` of a directory names; 0 if it cannot be read.
    fn dotdot(&mut self, ino: u32) -> Outcome<u32> {
        if let Some(folder) = self.known.folders.get(&ino).filter(|folder| folder.dotdot != 0) {
            return Ok(folder.dotdot);
        }
        let places = chunks_of(&mut self.store, &self.known, ino)?;
        let Some(&place) = places.first() else { return Ok(0) };
        let bytes = self.store.read(place.block, 1)?;
        if !self.store.is_whole(&bytes, place, SealKind::Directory) {
            return Ok(0);
        }
        let all = entries(&bytes[place.at..place.at + SECTOR_CONTENT]).unwrap_or_default();
        let up = all.get(1).filter(|entry| entry.name == b"..");
        Ok(up.map_or(0, |entry| entry.ino))
    }

    /// True if another name of a directory is the one to keep. A rename that a crash has cut off
    /// leaves both names, and a link for each: the later one stays. Otherwise the one stays that
    /// lies in the directory that `..` names; the other one is left of an older object with this
    /// number.
    fn takes_over(&mut self, ino: u32, dir: u32, entry: &Entry<'_>) -> Outcome<bool> {
        let links = self.known.brief(ino).map_or(0, |brief| brief.links);
        let Some(&Folder { parent, moves, .. }) = self.known.folders.get(&ino) else {
            return Ok(false);
        };
        let other = moves_of(entry.type_byte);
        if links > 2 && (moves + 1) % 4 == other {
            return Ok(true);
        }
        if links > 2 && (other + 1) % 4 == moves {
            return Ok(false);
        }
        Ok(parent != dir && self.dotdot(ino)? == dir)
    }

    /// Takes back the name under which a directory was found.
    fn drop_name(&mut self, ino: u32) -> Outcome<bool> {
        let Some(&Folder { parent: dir, named: place, .. }) = self.known.folders.get(&ino) else {
            return Ok(false);
        };
        let bytes = self.store.read(place.block, 1)?;
        let sector = place.at / SECTOR_BYTES * SECTOR_BYTES;
        let all = entries(&bytes[sector..sector + SECTOR_CONTENT]).unwrap_or_default();
        let Some(entry) = all.iter().find(|entry| sector + entry.at == place.at) else {
            return Ok(false);
        };
        let name = entry.name.to_vec();
        let is_of_entry =
            |one: &Finding| matches!(one, Finding::WrongType { place: at, .. } if *at == place);
        self.found.list.retain(|one| !is_of_entry(one));
        self.found.add(Finding::DirectoryTwice { dir, name, ino, place });
        if let Some(folder) = self.known.folders.get_mut(&dir) {
            folder.children -= 1;
            folder.entries -= 1;
        }
        if let Some(brief) = self.known.brief_mut(ino) {
            brief.names = brief.names.saturating_sub(1);
        }
        Ok(true)
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
