//! What a program finds after a power cut.
//!
//! A [`Tree`] knows objects by [`ObjectId`], so hard links, files without a name and files that are
//! open without one need nothing special: what has no path from the top is not found. Copies share
//! what they have in common, so a state costs what it changes.

mod content;
mod difference;
mod radix;

pub use difference::{Step, difference};

use super::micro::{Attributes, Change, NameChange, Object, ObjectId, TOP};
use bytes::Bytes;
use content::{Content, spread};
use radix::Radix;
use seekless_engine::checksum::{mix, xxh3_64};
use seekless_fs::call::New;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A state of a directory.
#[derive(Clone, Debug)]
pub struct Tree {
    objects: Arc<[Object]>,
    /// Objects that were changed since they were made.
    inodes: Radix<Arc<Inode>>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    attributes: Attributes,
    extended: BTreeMap<Bytes, Bytes>,
    content: Content,
    names: BTreeMap<Bytes, ObjectId>,
}

/// An object that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// From the top, without a slash at its begin.
    pub path: Vec<u8>,
    /// The object.
    pub object: ObjectId,
    /// The first path of the object, if this is another one.
    pub link_to: Option<Vec<u8>>,
}

impl Tree {
    /// A directory without entries, in a recording with these objects.
    pub fn new(objects: Arc<[Object]>) -> Tree {
        Tree { objects, inodes: Radix::default() }
    }

    /// The same without entries: where a directory begins that is to show trees of a recording.
    pub fn without_entries(&self) -> Tree {
        Tree::new(Arc::clone(&self.objects))
    }

    /// Applies a micro-operation. Those of one state are applied in their order.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Names { sets, .. } => sets.iter().for_each(|set| self.set_name(set)),
            Change::Page { object, at, data } => self.inode(*object).content.write(*at, data),
            Change::Zeros { object, from, to } => self.inode(*object).content.zero(*from, *to),
            Change::Grow { object, to } => self.inode(*object).content.grow(*to),
            Change::SetSize { object, from, to } => {
                let content = &mut self.inode(*object).content;
                if to < from { content.truncate(*to) } else { content.grow(*to) }
            }
            Change::Attributes { object, set } => {
                let inode = self.inode(*object);
                inode.attributes = inode.attributes.updated(*set);
            }
            Change::Attribute { object, name, value } => {
                let extended = &mut self.inode(*object).extended;
                match value {
                    Some(value) => drop(extended.insert(name.clone(), value.clone())),
                    None => drop(extended.remove(name)),
                }
            }
        }
    }

    fn set_name(&mut self, set: &NameChange) {
        let names = &mut self.inode(set.directory).names;
        match set.object {
            Some(object) => drop(names.insert(set.name.clone(), object)),
            None => drop(names.remove(&set.name)),
        }
    }

    fn inode(&mut self, object: ObjectId) -> &mut Inode {
        let attributes = self.objects[object as usize].attributes;
        let slot = self.inodes.slot(object.into());
        let new = || Arc::new(Inode { attributes, ..Inode::default() });
        Arc::make_mut(slot.get_or_insert_with(new))
    }

    fn held(&self, object: ObjectId) -> Option<&Inode> {
        self.inodes.get(object.into()).map(|inode| &**inode)
    }

    /// True if an object is the same in both because none has changed it.
    fn shares(&self, other: &Tree, object: ObjectId) -> bool {
        match (self.inodes.get(object.into()), other.inodes.get(object.into())) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        }
    }

    /// What kind of object it is, and what it was made with.
    pub fn object(&self, object: ObjectId) -> &Object {
        &self.objects[object as usize]
    }

    /// The attributes of an object.
    pub fn attributes(&self, object: ObjectId) -> Attributes {
        let made = self.objects[object as usize].attributes;
        self.held(object).map_or(made, |inode| inode.attributes)
    }

    /// The extended attributes of an object.
    pub fn extended(&self, object: ObjectId) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.held(object).into_iter().flat_map(|inode| &inode.extended)
    }

    /// The size of a file in bytes.
    pub fn size(&self, object: ObjectId) -> u64 {
        self.held(object).map_or(0, |inode| inode.content.size())
    }

    /// The pages of a file that are not zeros: first byte and bytes, in order, none of them behind
    /// the size.
    pub fn pages(&self, object: ObjectId) -> Vec<(u64, Bytes)> {
        self.held(object).map_or_else(Vec::new, |inode| inode.content.pages())
    }

    /// All bytes of a file, with its holes: [`Tree::pages`] has those of long ones.
    pub fn bytes(&self, object: ObjectId) -> Vec<u8> {
        let mut bytes = vec![0; self.size(object) as usize];
        for (at, page) in self.pages(object) {
            bytes[at as usize..at as usize + page.len()].copy_from_slice(&page);
        }
        bytes
    }

    /// The entries of a directory in the order of their names.
    pub fn names(&self, directory: ObjectId) -> impl Iterator<Item = (&Bytes, ObjectId)> {
        let names = self.held(directory).into_iter().flat_map(|inode| &inode.names);
        names.map(|(name, object)| (name, *object))
    }

    /// The object at a path.
    pub fn find(&self, path: &[u8]) -> Option<ObjectId> {
        let mut parts = path.split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        parts.try_fold(TOP, |at, part| self.held(at)?.names.get(part).copied())
    }

    /// All that has a path, directories before what is in them; not the top.
    pub fn found(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        // Where the first path of each object is.
        let mut first: BTreeMap<ObjectId, usize> = BTreeMap::new();
        let mut left = vec![(TOP, Vec::new())];
        while let Some((directory, base)) = left.pop() {
            for (name, object) in self.names(directory) {
                let mut path: Vec<u8> = base.clone();
                path.extend_from_slice(name);
                let earlier = *first.entry(object).or_insert(found.len());
                let link_to = (earlier < found.len()).then(|| found[earlier].path.clone());
                if self.object(object).is_directory() && link_to.is_none() {
                    let mut base = path.clone();
                    base.push(b'/');
                    left.push((object, base));
                }
                found.push(Found { path, object, link_to });
            }
        }
        found
    }

    /// Tells trees of a recording apart: trees in which a program finds the same have equal prints.
    pub fn print(&self) -> u128 {
        let top = self.inode_print(TOP);
        self.found().into_iter().fold(top, |print, found| {
            let path = xxh3_64(&found.path);
            let inode = match &found.link_to {
                Some(path) => spread(xxh3_64(path), 1),
                None => self.inode_print(found.object),
            };
            print ^ spread(mix(inode as u64 ^ path), mix((inode >> 64) as u64 ^ path))
        })
    }

    /// The part of an object, without its names.
    fn inode_print(&self, object: ObjectId) -> u128 {
        let Attributes { mode, uid, gid, atime, mtime } = self.attributes(object);
        let time = |time: Option<i64>| time.map(i64::cast_unsigned);
        let mode = mode.map(u64::from);
        let words = [mode, uid.map(u64::from), gid.map(u64::from), time(atime), time(mtime)];
        let mut hash = match &self.object(object).what {
            New::File => 1,
            New::Directory => 2,
            New::Symlink(text) => mix(xxh3_64(text) ^ 3),
            New::Fifo => 4,
            New::Socket => 5,
            New::CharDevice(number) => mix(u64::from(*number) << 8 | 6),
            New::BlockDevice(number) => mix(u64::from(*number) << 8 | 7),
        };
        for word in words {
            hash = mix(hash ^ word.map_or(0x6e6f_6e65, |word| mix(word ^ 0x736f_6d65)));
        }
        for (name, value) in self.extended(object) {
            hash = mix(hash ^ mix(xxh3_64(name)) ^ xxh3_64(value).rotate_left(17));
        }
        let content = self.held(object).map(|inode| inode.content.print());
        content.unwrap_or_else(|| Content::default().print()) ^ spread(hash, 0)
    }
}
