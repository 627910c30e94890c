//! Check: reads all attributes and all names, and compares them. It writes nothing.
//!
//! The drive checks what it stores by itself, with a checksum for each block, so what is looked for
//! here are contradictions: names without an object, objects without a name, counts and bits that
//! are wrong.

use super::finding::{BadEntry, Finding, MOST_FINDINGS, Text};
use crate::error::{FsError, is_damage};
use crate::report::{self, Checked};
use crate::tree::chunk;
use crate::vlfs::numbers::own_of;
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::ondisk::slice::Slice;
use crate::vlfs::ondisk::superblock::load;
use crate::vlfs::ondisk::{
    MOST_DIRECTORY_BLOCKS, MOST_FILE_BYTES, ObjectNr, ROOT_OBJECT, attributes_of, block_of,
    blocks_for, is_slice, kinds, next_slice,
};
use seekless_engine::disk::Disk;
use seekless_engine::objects::{SLICE_OBJECTS, WITHIN_BITS, member_of, slice_of};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::call::{FileKind, MOST_SYMLINK, is_name};
use seekless_fs::tx::SECTOR_CONTENT;
use std::collections::{BTreeMap, BTreeSet};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What was found, phase by phase.
    pub list: Vec<Finding>,
    /// There were more.
    pub cut: bool,
    /// Objects that exist, and directories among them.
    pub objects: u64,
    /// Directories.
    pub directories: u64,
    /// Blocks up to the ends of all files.
    pub blocks: u64,
}

impl From<Findings> for Checked {
    fn from(found: Findings) -> Checked {
        let Findings { list, cut, objects, directories, blocks } = found;
        let boxed = |one| Box::new(one) as Box<dyn report::Finding>;
        Checked {
            list: list.into_iter().map(boxed).collect(),
            cut,
            unmounted: true,
            recovers: false,
            inodes: objects,
            directories,
            fragments: blocks,
            superblocks: 1,
            journal: None,
        }
    }
}

/// Looks for damage, and writes nothing.
///
/// # Errors
/// Those of [`load`]; errors of the volume.
pub fn check(disk: &mut dyn Disk) -> Result<Findings, FsError> {
    load(disk)?;
    let mut check = Check {
        objects: disk.blocks() >> WITHIN_BITS,
        disk,
        found: Findings::default(),
        slices: BTreeMap::new(),
        inodes: BTreeMap::new(),
        unreadable: BTreeSet::new(),
        names: BTreeMap::new(),
        inside: BTreeMap::new(),
        parents: BTreeMap::new(),
    };
    check.attributes()?;
    check.all_names()?;
    check.counts();
    check.numbers();
    let Check { mut found, inodes, .. } = check;
    found.list.sort_by_key(report::Finding::phase);
    found.objects = inodes.len() as u64;
    found.directories = inodes.values().filter(|inode| inode.is_directory()).count() as u64;
    let sizes = inodes.values().filter(|inode| inode.has_content());
    found.blocks = sizes.map(|inode| blocks_for(inode.size)).sum();
    Ok(found)
}

struct Check<'d> {
    disk: &'d mut dyn Disk,
    objects: u64,
    found: Findings,
    slices: BTreeMap<u32, Slice>,
    inodes: BTreeMap<ObjectNr, Inode>,
    unreadable: BTreeSet<ObjectNr>,
    /// Names that lead to an object.
    names: BTreeMap<ObjectNr, u32>,
    /// Directories in a directory.
    inside: BTreeMap<ObjectNr, u32>,
    /// Where a directory has its name.
    parents: BTreeMap<ObjectNr, ObjectNr>,
}

impl Check<'_> {
    fn add(&mut self, finding: Finding) {
        match self.found.list.len() < MOST_FINDINGS {
            true => self.found.list.push(finding),
            false => self.found.cut = true,
        }
    }

    /// The bytes of a block; none if the medium cannot read it.
    fn read(&mut self, block: u64) -> Result<Option<bytes::Bytes>, FsError> {
        match self.disk.read(block, 1) {
            Ok(data) => Ok(Some(data.to_bytes())),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Phase 1: what each object is.
    fn attributes(&mut self) -> Result<(), FsError> {
        let mut from = 0;
        while let Some(slice) = next_slice(self.disk, from) {
            from = slice + 1;
            let end = u64::from(own_of(slice) + SLICE_OBJECTS).min(self.objects) as ObjectNr;
            (own_of(slice)..end).try_for_each(|object| self.object(object))?;
        }
        let root = self.inodes.get(&ROOT_OBJECT).copied().unwrap_or_default();
        if !root.is_directory() {
            self.add(Finding::NoRoot { mode: root.mode });
        }
        Ok(())
    }

    fn object(&mut self, object: ObjectNr) -> Result<(), FsError> {
        let Some(bytes) = self.read(attributes_of(object))? else {
            self.unreadable.insert(object);
            self.add(Finding::Unreadable { object });
            return Ok(());
        };
        if is_slice(object) {
            match Slice::decode(&bytes) {
                Some(slice) => _ = self.slices.insert(slice_of(object), slice),
                None => self.add(Finding::BadSlice { object }),
            }
            return Ok(());
        }
        let inode = Inode::decode(&bytes);
        if inode == Inode::default() {
            return Ok(());
        }
        match impossible(&inode) {
            Some(why) => self.add(Finding::Attributes { object, why }),
            None => _ = self.inodes.insert(object, inode),
        }
        Ok(())
    }

    /// Phase 2: all names that lead on from the root.
    fn all_names(&mut self) -> Result<(), FsError> {
        let mut next = vec![ROOT_OBJECT];
        self.parents.insert(ROOT_OBJECT, ROOT_OBJECT);
        while let Some(dir) = next.pop() {
            let Some(inode) = self.inodes.get(&dir).copied().filter(Inode::is_directory) else {
                continue;
            };
            let above = self.parents[&dir];
            if inode.parent != above {
                let (object, stored, right) = (dir, inode.parent, above);
                self.add(Finding::WrongParent { object, stored, right });
            }
            let mut seen = BTreeSet::new();
            for block in 0..blocks_for(inode.size) {
                let Some(bytes) = self.read(block_of(dir, block))? else {
                    self.add(Finding::LostNames { dir, block });
                    continue;
                };
                for (number, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
                    let at = block * BLOCK_BYTES as u64 + (number * SECTOR_BYTES) as u64;
                    self.chunk(dir, at, &sector[..SECTOR_CONTENT], (&mut seen, &mut next));
                }
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        dir: ObjectNr,
        at: u64,
        chunk: &[u8],
        (seen, next): (&mut BTreeSet<Vec<u8>>, &mut Vec<ObjectNr>),
    ) {
        if chunk.iter().all(|&byte| byte == 0) {
            return;
        }
        for entry in chunk::entries(chunk) {
            let Ok(entry) = entry else { return self.add(Finding::BadChunk { dir, at }) };
            if entry.ino == 0 {
                continue;
            }
            let (object, kind, at) = (entry.ino, entry.kind, at + entry.at as u64);
            let name = || Text(entry.name.to_vec());
            match self.entry(object, entry.name, seen) {
                Err(why) => self.add(Finding::Entry { dir, name: name(), at, why }),
                Ok(actual) => {
                    if kinds::kind_of(kind) != actual && actual.is_some() {
                        self.add(Finding::WrongKind { dir, name: name(), at, object });
                    }
                    *self.names.entry(object).or_default() += 1;
                    if actual == Some(FileKind::Directory) {
                        *self.inside.entry(dir).or_default() += 1;
                        self.parents.insert(object, dir);
                        next.push(object);
                    }
                }
            }
        }
    }

    /// The kind of what a name leads to, none if that cannot be read; or why it cannot stay.
    fn entry(
        &self,
        object: ObjectNr,
        name: &[u8],
        seen: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<FileKind>, BadEntry> {
        if !is_name(name) || matches!(name, b"." | b"..") {
            return Err(BadEntry::NoName);
        }
        if !seen.insert(name.to_vec()) {
            return Err(BadEntry::Twice);
        }
        if u64::from(object) >= self.objects || is_slice(object) || object < ROOT_OBJECT {
            return Err(BadEntry::NoNumber(object));
        }
        if self.unreadable.contains(&object) {
            return Ok(None);
        }
        let kind = self.inodes.get(&object).and_then(Inode::kind);
        let kind = kind.ok_or(BadEntry::NoObject(object))?;
        match kind == FileKind::Directory && self.parents.contains_key(&object) {
            true => Err(BadEntry::SecondOfDirectory),
            false => Ok(Some(kind)),
        }
    }

    /// Phases 3 and 4: objects without a name, and counts of names.
    fn counts(&mut self) {
        let all: Vec<(ObjectNr, Inode)> = self.inodes.iter().map(|(&o, &i)| (o, i)).collect();
        for (object, inode) in all {
            let names = self.names.get(&object).copied().unwrap_or(0);
            if names == 0 && object != ROOT_OBJECT {
                let (links, size) = (inode.links, inode.size);
                self.add(Finding::Nameless { object, links, size });
                continue;
            }
            let right = match inode.is_directory() {
                true => 2 + self.inside.get(&object).copied().unwrap_or(0),
                false => names,
            };
            if inode.links != right {
                self.add(Finding::WrongLinks { object, stored: inode.links, right });
            }
        }
    }

    /// Phase 5: the bits of numbers in use.
    fn numbers(&mut self) {
        let slices: Vec<(u32, Slice)> = self.slices.iter().map(|(&n, &s)| (n, s)).collect();
        for (number, slice) in slices {
            for member in 1..SLICE_OBJECTS {
                let object = own_of(number) + member;
                if u64::from(object) >= self.objects || object < ROOT_OBJECT {
                    continue;
                }
                let bit = |bits: u128| bits >> member_of(object) & 1 == 1;
                let exists = self.inodes.contains_key(&object) || self.unreadable.contains(&object);
                match (exists, bit(slice.used)) {
                    (true, false) => self.add(Finding::Unmarked { object }),
                    (false, true) => self.add(Finding::Leaked { object }),
                    _ => {}
                }
                let links = self.inodes.get(&object).map(|inode| inode.links);
                let unnamed = links == Some(0);
                if unnamed != bit(slice.unnamed) && !self.unreadable.contains(&object) {
                    self.add(Finding::Noted { object, unnamed });
                }
            }
        }
    }
}

/// What attributes say that no object can have.
fn impossible(inode: &Inode) -> Option<&'static str> {
    match inode.kind() {
        None => Some("its mode is none of a possible kind"),
        Some(FileKind::Symlink) if inode.size == 0 || inode.size > MOST_SYMLINK as u64 => {
            Some("its text has no possible length")
        }
        Some(_) if inode.size > MOST_FILE_BYTES => Some("its size is more than a file can have"),
        Some(FileKind::Directory) if blocks_for(inode.size) > MOST_DIRECTORY_BLOCKS => {
            Some("its size is more than a directory can have")
        }
        Some(FileKind::Directory) if !inode.size.is_multiple_of(BLOCK_BYTES as u64) => {
            Some("it is a directory of no whole blocks")
        }
        Some(_) => None,
    }
}
