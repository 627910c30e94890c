//! The walk: directories from the root on, each entry of them, and what it leads to.

use super::Check;
use crate::error::FsError;
use crate::minix::offline::finding::{BadEntry, Finding, Text};
use crate::minix::ondisk::entry::{self, ENTRY_BYTES, is_dots};
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Place, Zone};
use crate::minix::ondisk::inode::{DIRECT, Inode, ROOT_INODE};
use seekless_fs::call::FileKind;
use seekless_fs::fields::u32_at;
use std::collections::BTreeSet;

/// An entry of a directory.
struct Entry {
    index: u64,
    place: Place,
    number: u32,
    name: Vec<u8>,
}

/// The zones of one file.
#[derive(Default)]
struct Listing {
    zones: Vec<(u64, Zone)>,
    /// Zones that were looked at.
    visits: u32,
}

impl Check<'_, '_> {
    /// Walks all directories. The first name of a directory that the walk meets is its name.
    pub(super) fn walk(&mut self) -> Result<(), FsError> {
        self.seen.insert(ROOT_INODE);
        self.take(ROOT_INODE)?;
        let mut todo = vec![(ROOT_INODE, ROOT_INODE)];
        while let Some((dir, parent)) = todo.pop() {
            if self.cut {
                return Ok(());
            }
            self.directories += 1;
            // Its own name `.` and its name, or that of the root, which no directory has.
            self.names[dir as usize] += 2;
            let inode = self.store.inode(dir)?;
            self.directory((dir, &inode), parent, &mut todo)?;
        }
        Ok(())
    }

    /// An inode that a name leads to for the first time.
    fn take(&mut self, number: u32) -> Result<(), FsError> {
        self.inodes += 1;
        let inode = self.store.inode(number)?;
        let most = self.geometry.most_file_bytes();
        if u64::from(inode.size) > most && inode.has_zones() {
            let most = u32::try_from(most).unwrap_or(u32::MAX);
            self.add(Finding::TooLarge { ino: number, size: inode.size, most });
        }
        self.claim(number, &inode, true)
    }

    fn directory(
        &mut self,
        (dir, inode): (u32, &Inode),
        parent: u32,
        todo: &mut Vec<(u32, u32)>,
    ) -> Result<(), FsError> {
        let each = ENTRY_BYTES as u32;
        let right = (inode.size / each * each).max(2 * each);
        if right != inode.size {
            self.add(Finding::DirectorySize { ino: dir, size: inode.size, right });
        }
        let size = u64::from(inode.size).min(self.geometry.most_file_bytes());
        let per_zone = (self.geometry.zone_bytes() / ENTRY_BYTES) as u64;
        let (mut names, mut has_dots) = (BTreeSet::new(), [false; 2]);
        for (index, zone) in self.zones_of(inode, self.geometry.size_zones(size))? {
            if !self.geometry.is_data(zone) {
                continue;
            }
            let bytes = self.store.zone(zone)?.to_vec();
            let first = self.geometry.place_of(zone);
            for (nth, bytes) in (0..per_zone).zip(bytes.chunks_exact(ENTRY_BYTES)) {
                let index = index * per_zone + nth;
                if (index + 1) * ENTRY_BYTES as u64 > size || self.cut {
                    break;
                }
                let place = first.plus(nth as usize * ENTRY_BYTES);
                let name = entry::name(bytes).to_vec();
                let entry = Entry { index, place, number: entry::number(bytes), name };
                if let Some(dots) = has_dots.get_mut(index as usize) {
                    *dots = self.dots((dir, parent), &entry);
                } else if entry.number != 0 {
                    self.entry(dir, entry, &mut names, todo)?;
                }
            }
        }
        if has_dots != [true; 2] {
            self.add(Finding::BadDots { ino: dir, parent });
        }
        Ok(())
    }

    /// True if an entry is the `.` or `..` that belongs at its place.
    fn dots(&mut self, (dir, parent): (u32, u32), entry: &Entry) -> bool {
        let (name, leads) = if entry.index == 0 { (&b"."[..], dir) } else { (&b".."[..], parent) };
        if entry.name != name || (entry.index == 0 && entry.number != leads) {
            return false;
        }
        if entry.number != leads {
            let (stored, right) = (entry.number, parent);
            self.add(Finding::WrongParent { ino: dir, stored, right, place: entry.place });
        }
        true
    }

    fn entry(
        &mut self,
        dir: u32,
        entry: Entry,
        names: &mut BTreeSet<Vec<u8>>,
        todo: &mut Vec<(u32, u32)>,
    ) -> Result<(), FsError> {
        let Entry { place, number, name, .. } = entry;
        let text = Text(name.clone());
        let bad = |why| Finding::Entry { dir, name: text.clone(), why, place };
        if name.is_empty() || is_dots(&name) || name.contains(&b'/') {
            self.add(bad(BadEntry::NoName));
            return Ok(());
        }
        if number > self.geometry.inodes() {
            self.add(bad(BadEntry::NoSuchInode(number)));
            return Ok(());
        }
        let inode = self.store.inode(number)?;
        let Some(kind) = inode.kind() else {
            self.add(bad(BadEntry::Free(number)));
            return Ok(());
        };
        let most_text = self.geometry.zone_bytes() as u32;
        if kind == FileKind::Symlink && !(1..most_text).contains(&inode.size) {
            self.add(bad(BadEntry::NoText(number)));
            return Ok(());
        }
        if !names.insert(name) {
            self.add(bad(BadEntry::Twice));
            return Ok(());
        }
        let is_new = self.seen.insert(number);
        if kind != FileKind::Directory {
            self.names[number as usize] += 1;
        } else if is_new {
            self.names[dir as usize] += 1;
            todo.push((number, dir));
        } else {
            self.add(Finding::DirectoryTwice { dir, name: text, ino: number, place });
        }
        if is_new { self.take(number) } else { Ok(()) }
    }

    /// Zones of a file before its end, holes left out: index and number.
    fn zones_of(&mut self, inode: &Inode, end: u64) -> Result<Vec<(u64, Zone)>, FsError> {
        let mut listing = Listing::default();
        let each = self.geometry.addresses() as u64;
        let mut first = 0;
        for (index, &zone) in inode.zones.iter().enumerate() {
            let level = index.saturating_sub(DIRECT - 1) as u32;
            self.zones_below((zone, level), (first, end), &mut listing)?;
            first += each.pow(level);
        }
        Ok(listing.zones)
    }

    fn zones_below(
        &mut self,
        (zone, level): (Zone, u32),
        (first, end): (u64, u64),
        listing: &mut Listing,
    ) -> Result<(), FsError> {
        if zone == 0 || first >= end || !self.geometry.is_data(zone) {
            return Ok(());
        }
        // Zones that lead to one another make no list longer than the volume.
        listing.visits += 1;
        if listing.visits > self.geometry.zones() {
            return Ok(());
        }
        if level == 0 {
            listing.zones.push((first, zone));
            return Ok(());
        }
        let each = self.geometry.addresses();
        let span = (each as u64).pow(level - 1);
        let bytes = self.store.zone(zone)?.to_vec();
        for entry in 0..each {
            let below = (u32_at(&bytes, entry * ADDRESS_BYTES), level - 1);
            self.zones_below(below, (first + entry as u64 * span, end), listing)?;
        }
        Ok(())
    }
}
