//! Who refers to an inode: lookup counts of the kernel, open files, and inodes without names.
//!
//! An inode without names is deleted when its last reference goes. Cookies of
//! directories are places in them, so an open directory has no cursor. A handle by inode is no
//! reference: it is open as long as the kernel knows the inode.

use crate::call::{Handle, Ino, ROOT, inode_of};
use crate::cow::{CowMap, CowSet, CowTable};

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

impl Open {
    fn new(ino: Ino) -> Open {
        Open { ino, next_read: 0, window: 0, ahead: 0 }
    }
}

/// References to one inode.
#[derive(Clone, Copy, Debug)]
struct References {
    lookups: u64,
    handles: u32,
    /// What the handle by inode has read.
    by_inode: Open,
}

impl References {
    fn none(ino: Ino) -> References {
        References { lookups: 0, handles: 0, by_inode: Open::new(ino) }
    }
}

/// References to inodes.
#[derive(Clone, Debug)]
pub struct Handles {
    open: CowTable<Open>,
    references: CowMap<Ino, References>,
    orphans: CowSet<Ino>,
    /// The root, which the kernel knows without a lookup.
    root: Open,
}

impl Default for Handles {
    fn default() -> Handles {
        Handles {
            open: CowTable::default(),
            references: CowMap::default(),
            orphans: CowSet::default(),
            root: Open::new(ROOT),
        }
    }
}

impl Handles {
    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.open.share();
        self.references.share(|_| {});
        self.orphans.share();
    }

    /// Raises a lookup count.
    pub fn looked_up(&mut self, ino: Ino) {
        self.refer(ino, |references| references.lookups += 1);
    }

    fn refer(&mut self, ino: Ino, change: impl FnOnce(&mut References)) {
        self.references.update(ino, || References::none(ino), change);
    }

    /// Lowers a lookup count. True if the inode is to be deleted now.
    pub fn forget(&mut self, ino: Ino, count: u64) -> bool {
        let Some(references) = self.references.get_mut(&ino) else { return false };
        references.lookups = references.lookups.saturating_sub(count);
        let gone = references.lookups == 0 && references.handles == 0;
        gone && self.dropped(ino)
    }

    /// Opens an inode.
    pub fn open(&mut self, ino: Ino) -> Handle {
        self.refer(ino, |references| references.handles += 1);
        Handle::from(self.open.insert(Open::new(ino)))
    }

    /// An open file.
    pub fn get(&self, handle: Handle) -> Option<&Open> {
        match inode_of(handle) {
            None => self.open.get(u32::try_from(handle).ok()?),
            Some(ROOT) => Some(&self.root),
            Some(ino) => {
                self.references.get(&ino).filter(|one| one.lookups > 0).map(|one| &one.by_inode)
            }
        }
    }

    /// An open file.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Open> {
        match inode_of(handle) {
            None => self.open.get_mut(u32::try_from(handle).ok()?),
            Some(ROOT) => Some(&mut self.root),
            Some(ino) => {
                let known = self.references.get_mut(&ino).filter(|one| one.lookups > 0);
                known.map(|one| &mut one.by_inode)
            }
        }
    }

    /// Closes a handle. Gives the inode, and whether it is to be deleted now; `None` if the handle
    /// is not open.
    pub fn release(&mut self, handle: Handle) -> Option<(Ino, bool)> {
        let Open { ino, .. } = self.open.remove(u32::try_from(handle).ok()?)?;
        let references = self.references.get_mut(&ino).expect("an open file is referred to");
        references.handles -= 1;
        let gone = references.lookups == 0 && references.handles == 0;
        Some((ino, gone && self.dropped(ino)))
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
    pub fn take_orphans(&mut self) -> CowSet<Ino> {
        std::mem::take(&mut self.orphans)
    }

    /// The last reference to an inode has gone. True if it is to be deleted now.
    fn dropped(&mut self, ino: Ino) -> bool {
        self.references.remove(&ino);
        self.orphans.remove(&ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::by_inode;

    #[test]
    fn a_handle_by_inode_is_open_while_the_inode_is_known() {
        let mut handles = Handles::default();
        assert_eq!(handles.get(by_inode(5)), None);
        let handle = handles.open(5);
        assert_eq!(handles.get(by_inode(5)), None, "an open file is no lookup");
        handles.looked_up(5);
        assert_eq!(handles.get(by_inode(5)).map(|open| open.ino), Some(5));
        assert_eq!(handles.release(by_inode(5)), None);
        assert!(!handles.unnamed(5));
        assert!(!handles.forget(5, 1), "it is open");
        assert_eq!(handles.get_mut(by_inode(5)), None);
        assert_eq!(handles.release(handle), Some((5, true)));
        assert_eq!(handles.get(by_inode(ROOT)).map(|open| open.ino), Some(ROOT));
    }

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
