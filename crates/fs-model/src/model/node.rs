//! Objects of the model: attributes, and what they hold.

use super::content::Content;
use bytes::Bytes;
use seekless_fs::call::{Attr, Credentials, FileKind, Ino, New, Timestamp};
use std::collections::BTreeMap;

/// Cookie behind `.` and `..`, the first two entries.
pub(super) const DOTS: u64 = 2;

/// An object.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub ino: Ino,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; 0 once the object has been removed.
    pub links: u32,
    /// Size in bytes, of files.
    pub size: u64,
    /// Last access that a call set.
    pub atime: Timestamp,
    /// First and last read after that. A file system may raise the time of access to any of them.
    pub reads: Option<(Timestamp, Timestamp)>,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Lookups not yet forgotten.
    pub lookups: u64,
    /// Open handles.
    pub handles: u32,
    /// What it holds.
    pub body: Body,
}

/// What an object holds.
#[derive(Clone, Debug)]
pub enum Body {
    /// Bytes.
    File(Content),
    /// Names.
    Directory(Entries),
    /// The text of a symbolic link.
    Symlink(Bytes),
    /// Nothing: a pipe, a socket or a device with its number.
    Special(FileKind, u32),
}

/// The names in a directory. An entry keeps its cookie as long as it exists.
#[derive(Clone, Debug)]
pub struct Entries {
    /// The directory above.
    pub parent: Ino,
    names: BTreeMap<Bytes, u64>,
    by_cookie: BTreeMap<u64, (Bytes, Ino)>,
    last_cookie: u64,
}

impl Entries {
    fn new(parent: Ino) -> Entries {
        Entries { parent, names: BTreeMap::new(), by_cookie: BTreeMap::new(), last_cookie: DOTS }
    }

    /// The object of a name.
    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        let cookie = self.names.get(name)?;
        self.by_cookie.get(cookie).map(|(_, ino)| *ino)
    }

    /// Names and objects, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Ino)> {
        self.names.iter().map(|(name, cookie)| (name, self.by_cookie[cookie].1))
    }

    /// True if there is no name.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Entries behind a cookie, in the order of their cookies.
    pub(super) fn behind(&self, cookie: u64) -> impl Iterator<Item = (u64, &Bytes, Ino)> {
        self.by_cookie.range(cookie + 1..).map(|(cookie, (name, ino))| (*cookie, name, *ino))
    }

    /// Adds a name, or makes it lead to another object.
    pub(super) fn set(&mut self, name: Bytes, ino: Ino) {
        let next = self.last_cookie + 1;
        let cookie = *self.names.entry(name.clone()).or_insert(next);
        self.last_cookie = self.last_cookie.max(cookie);
        self.by_cookie.insert(cookie, (name, ino));
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.names.remove(name) {
            self.by_cookie.remove(&cookie);
        }
    }
}

impl Node {
    /// A directory of root's.
    pub(super) fn directory(ino: Ino, parent: Ino, mode: u16) -> Node {
        let mut node = Node::new(ino, &New::Directory, Credentials::default(), 0);
        node.mode = mode;
        if let Some(entries) = node.entries_mut() {
            entries.parent = parent;
        }
        node
    }

    /// A new object; its directory and mode are filled in by the operation that makes it.
    pub(super) fn new(ino: Ino, what: &New, who: Credentials, now: Timestamp) -> Node {
        let (links, body, size) = match what {
            New::File => (1, Body::File(Content::default()), 0),
            New::Directory => (2, Body::Directory(Entries::new(ino)), 0),
            New::Symlink(text) => (1, Body::Symlink(text.clone()), text.len() as u64),
            New::Fifo | New::Socket => (1, Body::Special(what.kind(), 0), 0),
            New::CharDevice(number) | New::BlockDevice(number) => {
                (1, Body::Special(what.kind(), *number), 0)
            }
        };
        Node {
            ino,
            mode: 0,
            uid: who.uid,
            gid: who.gid,
            links,
            size,
            atime: now,
            reads: None,
            mtime: now,
            ctime: now,
            btime: now,
            lookups: 0,
            handles: 0,
            body,
        }
    }

    /// Its kind.
    pub fn kind(&self) -> FileKind {
        match &self.body {
            Body::File(_) => FileKind::File,
            Body::Directory(_) => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special(kind, _) => *kind,
        }
    }

    /// The names, of a directory.
    pub fn entries(&self) -> Option<&Entries> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn entries_mut(&mut self) -> Option<&mut Entries> {
        match &mut self.body {
            Body::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// The bytes, of a file.
    pub fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }

    /// Its attributes. The numbers of an object are never used again, so its generation is 1.
    pub fn attr(&self) -> Attr {
        let device = if let Body::Special(_, number) = self.body { number } else { 0 };
        Attr {
            ino: self.ino,
            generation: 1,
            kind: self.kind(),
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            sectors: self.content().map_or(0, |content| content.count() * 8),
            device,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }

    /// Content or names have changed.
    pub(super) fn changed(&mut self, now: Timestamp) {
        self.mtime = now;
        self.ctime = now;
    }

    /// A call has read it.
    pub(super) fn was_read(&mut self, now: Timestamp) {
        let (first, last) = self.reads.unwrap_or((now, now));
        self.reads = Some((first.min(now), last.max(now)));
    }
}
