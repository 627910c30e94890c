//! Who refers to an inode: lookup counts of the kernel, open files, and inodes without names.
//!
//! An inode without names is deleted when its last reference goes. Cookies of
//! directories are places in them, so an open directory has no cursor.

use super::cache::NumberMap;
use crate::call::{Handle, Ino};
use slab::Slab;
use std::collections::BTreeSet;

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The object.
    pub ino: Ino,
    /// Where a sequential read would go on.
    pub next_read: u64,
    /// Bytes to read ahead; 0 while reads are not sequential.
    pub window: u32,
    /// Where read-ahead has come to.
    pub ahead: u64,
}

/// References to one inode.
#[derive(Clone, Copy, Debug, Default)]
struct References {
    lookups: u64,
    handles: u32,
}

/// References to inodes.
#[derive(Debug, Default)]
pub struct Handles {
    open: Slab<Open>,
    references: NumberMap<References>,
    orphans: BTreeSet<Ino>,
}

impl Handles {
    /// Raises a lookup count.
    pub fn looked_up(&mut self, ino: Ino) {
        self.references.entry(ino).or_default().lookups += 1;
    }

    /// Lowers a lookup count. True if the inode is to be deleted now.
    pub fn forget(&mut self, ino: Ino, count: u64) -> bool {
        if let Some(references) = self.references.get_mut(&ino) {
            references.lookups = references.lookups.saturating_sub(count);
        }
        self.dropped(ino)
    }

    /// Opens an inode.
    pub fn open(&mut self, ino: Ino) -> Handle {
        self.references.entry(ino).or_default().handles += 1;
        self.open.insert(Open { ino, next_read: 0, window: 0, ahead: 0 }) as Handle
    }

    /// An open file.
    pub fn get(&self, handle: Handle) -> Option<&Open> {
        self.open.get(usize::try_from(handle).ok()?)
    }

    /// An open file.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Open> {
        self.open.get_mut(usize::try_from(handle).ok()?)
    }

    /// Closes a handle. Gives the inode, and whether it is to be deleted now; `None` if the handle
    /// is not open.
    pub fn release(&mut self, handle: Handle) -> Option<(Ino, bool)> {
        let Open { ino, .. } = self.open.try_remove(usize::try_from(handle).ok()?)?;
        if let Some(references) = self.references.get_mut(&ino) {
            references.handles -= 1;
        }
        Some((ino, self.dropped(ino)))
    }

    /// The last name of an inode has gone. True if the inode is to be deleted now; otherwise it is
    /// when the last reference goes.
    pub fn unnamed(&mut self, ino: Ino) -> bool {
        if self.references.contains_key(&ino) {
            self.orphans.insert(ino);
            return false;
        }
        true
    }

    /// Inodes without names that are still referred to, in order; all references are dropped.
    pub fn take_orphans(&mut self) -> BTreeSet<Ino> {
        std::mem::take(&mut self.orphans)
    }

    fn dropped(&mut self, ino: Ino) -> bool {
        let gone =
            self.references.get(&ino).is_some_and(|one| one.lookups == 0 && one.handles == 0);
        if gone {
            self.references.remove(&ino);
        }
        gone && self.orphans.remove(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_without_names_goes_with_its_last_reference() {
        let mut handles = Handles::default();
        assert!(handles.unnamed(9), "no one refers to it");
        handles.looked_up(5);
        handles.looked_up(5);
        let handle = handles.open(5);
        assert!(!handles.unnamed(5));
        assert!(!handles.forget(5, 2));
        assert_eq!(handles.release(handle), Some((5, true)));
        assert_eq!(handles.release(handle), None);
        handles.looked_up(6);
        assert!(!handles.forget(6, 1), "it has names");
        assert!(!handles.forget(7, 1), "unknown");
    }
}
