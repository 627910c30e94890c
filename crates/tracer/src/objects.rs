//! The files and directories below the directory of a run: which inode each is, and its names.
//!
//! An object gets a number of its own when it is made, and keeps it until its last name goes. So
//! an inode number that the file system gives a second time is a new object.

use crate::pages::Pages;
use crate::stat::{Key, Stat};
use bytes::Bytes;
use seekless_fs::call::{Attr, FileKind, Ino, ROOT};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Descriptors that are held open at most. Beyond, the oldest one is closed.
const MOST_OPEN: usize = 256;

/// A file or directory.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: Key,
    pub(crate) kind: FileKind,
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: u32,
    /// Names; of a directory, its own and those of its subdirectories, as Unix counts.
    pub(crate) links: u32,
    /// Calls so far that raised its lookup count.
    pub(crate) lookups: u64,
    /// Names of its extended attributes.
    pub(crate) xattrs: BTreeSet<Bytes>,
    /// The content at the last comparison, if a program shares a writable mapping of it.
    pub(crate) shadow: Option<Pages>,
}

impl Object {
    /// Its attributes, as far as a reply has a digest of them.
    pub(crate) fn attr(&self, ino: Ino, size: u64) -> Attr {
        Attr {
            ino,
            generation: 0,
            kind: self.kind,
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size,
            sectors: 0,
            device: self.device,
            atime: 0,
            mtime: 0,
            ctime: 0,
            btime: 0,
        }
    }
}

/// All objects, by number, by inode and by name.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    objects: HashMap<Ino, Object>,
    by_key: HashMap<Key, Ino>,
    names: BTreeMap<(Ino, Bytes), Ino>,
    /// Objects with a shadow, open for reading.
    mapped: BTreeMap<Ino, Rc<OwnedFd>>,
    /// Files that are mapped so that only reading is allowed, open for reading.
    readable: BTreeMap<Ino, OwnedFd>,
    /// Open for reading, the oldest first.
    open: HashMap<Ino, Rc<OwnedFd>>,
    opened: VecDeque<Ino>,
    last: Ino,
}

impl Objects {
    /// A new object. The first one is the root.
    pub(crate) fn add(&mut self, stat: &Stat) -> Ino {
        let ino = if self.last == 0 { ROOT } else { self.last + 1 };
        self.last = ino;
        let object = Object {
            key: stat.key,
            kind: stat.kind,
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            device: stat.device,
            links: if stat.kind == FileKind::Directory { 2 } else { 0 },
            lookups: 0,
            xattrs: BTreeSet::new(),
            shadow: None,
        };
        if let Some(old) = self.by_key.insert(stat.key, ino) {
            // The inode number came again; the old object is an unnamed file that has gone.
            self.close(old);
            self.mapped.remove(&old);
            self.readable.remove(&old);
        }
        self.objects.insert(ino, object);
        ino
    }

    pub(crate) fn of(&self, stat: &Stat) -> Option<Ino> {
        self.by_key.get(&stat.key).copied()
    }

    pub(crate) fn get(&self, ino: Ino) -> Option<&Object> {
        self.objects.get(&ino)
    }

    pub(crate) fn get_mut(&mut self, ino: Ino) -> Option<&mut Object> {
        self.objects.get_mut(&ino)
    }

    pub(crate) fn is_directory(&self, ino: Ino) -> bool {
        self.get(ino).is_some_and(|object| object.kind == FileKind::Directory)
    }

    /// The object that a name stands for.
    pub(crate) fn named(&self, dir: Ino, name: &Bytes) -> Option<Ino> {
        self.names.get(&(dir, name.clone())).copied()
    }

    /// A name of an object. All names are looked through.
    pub(crate) fn name_of(&self, ino: Ino) -> Option<(Ino, Bytes)> {
        self.names.iter().find(|(_, named)| **named == ino).map(|(place, _)| place.clone())
    }

    /// Names of a directory, in their order.
    pub(crate) fn entries(&self, dir: Ino) -> Vec<(Bytes, Ino)> {
        let from = (dir, Bytes::new());
        let entries = self.names.range(from..(dir + 1, Bytes::new()));
        entries.map(|((_, name), ino)| (name.clone(), *ino)).collect()
    }

    /// Gives an object a name.
    pub(crate) fn name(&mut self, dir: Ino, name: Bytes, ino: Ino) {
        self.names.insert((dir, name), ino);
        self.count(dir, ino, 1);
    }

    /// Takes a name away; the object that it stood for.
    pub(crate) fn unname(&mut self, dir: Ino, name: &Bytes) -> Option<Ino> {
        let ino = self.names.remove(&(dir, name.clone()))?;
        self.count(dir, ino, -1);
        Some(ino)
    }

    /// Counts a name: a directory has one name, which its own count of 2 covers, and counts in its
    /// parent.
    fn count(&mut self, dir: Ino, ino: Ino, change: i32) {
        let counts = if self.is_directory(ino) { dir } else { ino };
        if let Some(object) = self.objects.get_mut(&counts) {
            object.links = object.links.saturating_add_signed(change);
        }
    }

    /// Forgets an object, which has no name.
    pub(crate) fn remove(&mut self, ino: Ino) -> Option<Object> {
        let object = self.objects.remove(&ino)?;
        if self.by_key.get(&object.key) == Some(&ino) {
            self.by_key.remove(&object.key);
        }
        self.mapped.remove(&ino);
        self.readable.remove(&ino);
        self.close(ino);
        Some(object)
    }

    /// The numbers of files with a shadow.
    pub(crate) fn mapped(&self) -> Vec<Ino> {
        self.mapped.keys().copied().collect()
    }

    /// Gives a file a shadow.
    pub(crate) fn map(&mut self, ino: Ino, file: Rc<OwnedFd>, content: Pages) {
        if let Some(object) = self.objects.get_mut(&ino) {
            object.shadow = Some(content);
            self.mapped.insert(ino, file);
        }
    }

    /// A file is mapped, and is not stored into yet.
    pub(crate) fn map_to_read(&mut self, ino: Ino, file: OwnedFd) {
        self.readable.insert(ino, file);
    }

    /// Takes the descriptor of a file that is mapped and now may be stored into.
    pub(crate) fn take_readable(&mut self, ino: Ino) -> Option<OwnedFd> {
        self.readable.remove(&ino)
    }

    /// Files that are mapped and not stored into yet.
    pub(crate) fn mapped_to_read(&self) -> Vec<Ino> {
        self.readable.keys().copied().collect()
    }

    /// The descriptor of a file with a shadow.
    pub(crate) fn mapping(&self, ino: Ino) -> Option<Rc<OwnedFd>> {
        self.mapped.get(&ino).cloned()
    }

    /// The descriptor that is held of a file.
    pub(crate) fn opened(&self, ino: Ino) -> Option<Rc<OwnedFd>> {
        self.open.get(&ino).cloned()
    }

    /// Holds a descriptor of a file that is open for reading.
    pub(crate) fn hold(&mut self, ino: Ino, file: OwnedFd) -> Rc<OwnedFd> {
        let file = Rc::new(file);
        if self.open.insert(ino, Rc::clone(&file)).is_none() {
            self.opened.push_back(ino);
        }
        while self.open.len() > MOST_OPEN {
            match self.opened.pop_front() {
                Some(oldest) => self.open.remove(&oldest),
                None => break,
            };
        }
        file
    }

    fn close(&mut self, ino: Ino) {
        self.open.remove(&ino);
        // Numbers of closed files stay in the line; it is cleared when most of it is stale.
        if self.opened.len() > 4 * MOST_OPEN {
            let open = &self.open;
            self.opened.retain(|ino| open.contains_key(ino));
        }
    }
}
