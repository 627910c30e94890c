//! What a mount knows in memory: where to look for free numbers, and indexes of large directories.
//! All of it can be read again from the volume.

use super::ondisk::ObjectNr;
use crate::tree::index::{DirIndex, Names};
use seekless_engine::objects::SLICE_OBJECTS;
use seekless_fs::call::Ino;
use seekless_fs::cow::{CowMap, CowSet};
use std::collections::BTreeSet;

/// A change that an operation has made, to be taken back.
#[derive(Clone, Copy, Debug)]
enum Undo {
    /// A slice was full, or not.
    Full(u32, bool),
    /// The slice at which the search begins that has no better place.
    Rotor(u32),
}

/// The volume, as far as a mount knows it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Numbers that objects may have.
    objects: u64,
    /// Slices without a free number.
    full: CowSet<u32>,
    rotor: u32,
    names: Names,
    /// Directories above others, as lookups have found them.
    parents: CowMap<ObjectNr, ObjectNr>,
    new_parents: Vec<(ObjectNr, Option<ObjectNr>)>,
    /// Directories whose index the operation has changed.
    touched: BTreeSet<Ino>,
    /// What contradicts itself, if anything was met.
    damage: Option<String>,
    undo: Vec<Undo>,
}

impl Volume {
    /// A volume of so many objects.
    pub fn new(objects: u64) -> Volume {
        Volume {
            objects,
            full: CowSet::default(),
            rotor: 0,
            names: Names::default(),
            parents: CowMap::default(),
            new_parents: Vec::new(),
            touched: BTreeSet::new(),
            damage: None,
            undo: Vec::new(),
        }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.full.share();
        self.names.share();
        self.parents.share(|_| {});
    }

    /// The operation has succeeded.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.touched.clear();
        self.names.trim();
        for (dir, parent) in std::mem::take(&mut self.new_parents) {
            match parent {
                Some(parent) => _ = self.parents.insert(dir, parent),
                None => _ = self.parents.remove(&dir),
            }
        }
    }

    /// The operation has stopped. An index that it has changed is built again when it is wanted.
    pub fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Full(slice, true) => _ = self.full.insert(slice),
                Undo::Full(slice, false) => _ = self.full.remove(&slice),
                Undo::Rotor(slice) => self.rotor = slice,
            }
        }
        for dir in std::mem::take(&mut self.touched) {
            self.names.drop_index(dir);
        }
        self.new_parents.clear();
    }

    /// Numbers that objects may have, from 0 on.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// Slices of them.
    pub fn slices(&self) -> u32 {
        self.objects.div_ceil(u64::from(SLICE_OBJECTS)) as u32
    }

    /// The object of a number that calls name, if it can be one.
    pub fn number(&self, ino: Ino) -> Option<ObjectNr> {
        let is_file = ino < self.objects && !ino.is_multiple_of(u64::from(SLICE_OBJECTS));
        is_file.then_some(ino as ObjectNr)
    }

    /// The slice at which a search begins that has no better place.
    pub fn rotor(&self) -> u32 {
        self.rotor
    }

    /// The next such search begins here.
    pub fn set_rotor(&mut self, slice: u32) {
        self.undo.push(Undo::Rotor(self.rotor));
        self.rotor = slice;
    }

    /// True if a slice has no free number, as far as is known.
    pub fn is_full(&self, slice: u32) -> bool {
        self.full.contains(&slice)
    }

    /// A slice has a free number, or none.
    pub fn set_full(&mut self, slice: u32, full: bool) {
        let changed = if full { self.full.insert(slice) } else { self.full.remove(&slice) };
        if changed {
            self.undo.push(Undo::Full(slice, !full));
        }
    }

    /// Indexes of directories. A change is made through [`Volume::index`].
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The index of a directory that an operation changes, if there is one.
    pub fn index(&mut self, dir: Ino) -> Option<&mut DirIndex> {
        let index = self.names.get(dir)?;
        self.touched.insert(dir);
        Some(index)
    }

    /// The directory above another one, if an operation has found it.
    pub fn parent(&self, dir: ObjectNr) -> Option<ObjectNr> {
        self.parents.get(&dir).copied()
    }

    /// A directory has this one above it, or is gone.
    pub fn set_parent(&mut self, dir: ObjectNr, parent: Option<ObjectNr>) {
        self.new_parents.push((dir, parent));
    }

    /// A directory has no index any longer.
    pub fn forget(&mut self, dir: Ino) {
        self.names.drop_index(dir);
    }

    /// Something contradicts itself. The first of such things is kept.
    pub fn meets(&mut self, damage: String) {
        self.damage.get_or_insert(damage);
    }

    /// What contradicts itself, if anything was met.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }
}
