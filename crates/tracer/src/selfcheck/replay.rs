//! The tree that a recording gives, in memory.

use crate::pages::Pages;
use bytes::Bytes;
use seekless_calls::{Entry, Foreign, Told};
use seekless_fs::call::{
    AllocateHow, Call, FileKind, Ino, New, ROOT, RenameHow, Request, SetAttr, inode_of,
};
use std::collections::{BTreeMap, HashMap};

/// A file or directory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: FileKind,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) device: u32,
    pub(super) pages: Pages,
    /// Of a symbolic link.
    pub(super) text: Bytes,
    /// Of a directory.
    pub(super) entries: BTreeMap<Bytes, Ino>,
    pub(super) attributes: BTreeMap<Bytes, Bytes>,
}

impl Node {
    fn new(kind: FileKind, mode: u16, uid: u32, gid: u32) -> Node {
        Node {
            kind,
            mode,
            uid,
            gid,
            device: 0,
            pages: Pages::default(),
            text: Bytes::new(),
            entries: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }
}

/// A tree that is replayed.
#[derive(Debug)]
pub(super) struct Replay {
    nodes: HashMap<Ino, Node>,
    /// The last call that makes an object: its reply has the number.
    making: Option<Call>,
}

impl Default for Replay {
    fn default() -> Replay {
        let root = Node::new(FileKind::Directory, 0o755, 0, 0);
        Replay { nodes: HashMap::from([(ROOT, root)]), making: None }
    }
}

impl Replay {
    pub(super) fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    fn dir(&mut self, ino: Ino) -> Option<&mut BTreeMap<Bytes, Ino>> {
        let node = self.nodes.get_mut(&ino)?;
        (node.kind == FileKind::Directory).then_some(&mut node.entries)
    }

    fn file(&mut self, handle: u64) -> Option<&mut Pages> {
        let node = self.nodes.get_mut(&inode_of(handle)?)?;
        (node.kind == FileKind::File).then_some(&mut node.pages)
    }

    /// Carries out an entry; `None` if that cannot be done.
    pub(super) fn apply(&mut self, entry: &Entry) -> Option<()> {
        match entry {
            Entry::Call { call, .. } if matches!(call.request, Request::Make { .. }) => {
                self.making.replace(call.clone()).is_none().then_some(())
            }
            Entry::Call { call, .. } => self.call(&call.request),
            Entry::Reply { told: Told::Object(ino, ..), number } => {
                match self.making.take_if(|call| call.id == *number) {
                    Some(call) => self.make(*ino, call),
                    None => Some(()),
                }
            }
            Entry::Foreign { change, .. } => self.foreign(change),
            Entry::Reply { .. } | Entry::Begin | Entry::Mark(_) => Some(()),
        }
    }

    fn make(&mut self, ino: Ino, call: Call) -> Option<()> {
        let Request::Make { dir, name, what, mode, .. } = call.request else { return None };
        let mut node = Node::new(what.kind(), mode, call.who.uid, call.who.gid);
        match what {
            New::Symlink(text) => node.text = text,
            New::CharDevice(device) | New::BlockDevice(device) => node.device = device,
            _ => {}
        }
        let is_new = self.nodes.insert(ino, node).is_none();
        let is_free = self.dir(dir)?.insert(name, ino).is_none();
        (is_new && is_free).then_some(())
    }

    fn call(&mut self, request: &Request) -> Option<()> {
        match request {
            Request::Forget { ino, .. } => self.nodes.remove(ino).map(|_| ()),
            Request::SetAttr { ino, set } => self.set(*ino, set),
            Request::Link { ino, dir, name } => {
                self.nodes.get(ino)?;
                self.dir(*dir)?.insert(name.clone(), *ino).is_none().then_some(())
            }
            Request::Unlink { dir, name } => self.dir(*dir)?.remove(name).map(|_| ()),
            Request::RmDir { dir, name } => {
                let ino = self.dir(*dir)?.remove(name)?;
                self.nodes.get(&ino)?.entries.is_empty().then_some(())
            }
            Request::Rename { dir, name, to_dir, to_name, how } => {
                self.rename((*dir, name), (*to_dir, to_name), *how)
            }
            Request::Write { handle, at, data, .. } => {
                self.file(*handle)?.write(*at, data);
                Some(())
            }
            Request::Allocate { handle, at, length, how } => {
                let pages = self.file(*handle)?;
                let end = at.saturating_add(*length);
                match how {
                    AllocateHow::Extend => pages.extend(end),
                    AllocateHow::KeepSize => {}
                    AllocateHow::Punch | AllocateHow::Zero { keep_size: true } => {
                        pages.zero(*at, *length);
                    }
                    AllocateHow::Zero { keep_size: false } => {
                        pages.zero(*at, *length);
                        pages.extend(end);
                    }
                }
                Some(())
            }
            Request::Fsync { ino, .. } => self.nodes.get(ino).map(|_| ()),
            _ => Some(()),
        }
    }

    fn rename(&mut self, from: (Ino, &Bytes), to: (Ino, &Bytes), how: RenameHow) -> Option<()> {
        let moved = *self.dir(from.0)?.get(from.1)?;
        let target = self.dir(to.0)?.get(to.1).copied();
        if target == Some(moved) {
            return Some(());
        }
        self.dir(from.0)?.remove(from.1);
        self.dir(to.0)?.insert(to.1.clone(), moved);
        if how == RenameHow::Exchange {
            self.dir(from.0)?.insert(from.1.clone(), target?);
        }
        Some(())
    }

    fn set(&mut self, ino: Ino, set: &SetAttr) -> Option<()> {
        let node = self.nodes.get_mut(&ino)?;
        node.mode = set.mode.unwrap_or(node.mode);
        node.uid = set.uid.unwrap_or(node.uid);
        node.gid = set.gid.unwrap_or(node.gid);
        if let Some(size) = set.size {
            node.pages.resize(size);
        }
        Some(())
    }

    fn foreign(&mut self, change: &Foreign) -> Option<()> {
        match change {
            Foreign::Unnamed { ino, mode, uid, gid } => {
                let node = Node::new(FileKind::File, *mode, *uid, *gid);
                self.nodes.insert(*ino, node).is_none().then_some(())
            }
            Foreign::SyncedRange { .. } => Some(()),
            Foreign::SetAttribute { ino, name, value } => {
                let node = self.nodes.get_mut(ino)?;
                node.attributes.insert(name.clone(), value.clone());
                Some(())
            }
            Foreign::RemoveAttribute { ino, name } => {
                self.nodes.get_mut(ino)?.attributes.remove(name).map(|_| ())
            }
        }
    }
}
