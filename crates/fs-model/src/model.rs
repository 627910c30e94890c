//! POSIX in memory: what every call must answer.
//!
//! The model has no disk, no cache and no limits of space. It takes a [`Call`] and gives the
//! [`Reply`] at once. Its rules are those of Linux; where Linux leaves a choice to the file system,
//! the rule stands at the operation. The oracle ([`crate::oracle`]) holds file systems to it.
//!
//! Invariant between calls: an object is in the table if and only if it has names, open handles or
//! lookups. A directory has two names and one more for each directory in it.

mod attrs;
mod content;
mod data;
mod names;
mod node;
#[cfg(test)]
mod tests;

pub use content::Content;
pub use node::{Body, Entries, Node};

use seekless_fs::call::{
    Answer, Attr, Call, Credentials, Errno, Handle, Ino, MOST_NAME, MOST_SYMLINK, ROOT, Reply,
    Request, Timestamp, inode_of,
};
use seekless_fs::system::Runs;
use std::collections::BTreeMap;

/// Limits of a file system that calls can meet though it has space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a file at most.
    pub most_bytes: u64,
    /// Names of an object at most.
    pub most_links: u32,
    /// Two names can be exchanged.
    pub exchanges: bool,
    /// Bytes of a name at most.
    pub most_name: usize,
    /// Bytes of the text of a symbolic link at most.
    pub most_text: usize,
    /// The largest number of a device.
    pub most_device: u32,
    /// Space can be allocated that was not written, and holes can be made.
    pub allocates: bool,
    /// Nanoseconds between two times. With more than one, times are those that 32 bits hold, and
    /// there is none of creation.
    pub time_step: Timestamp,
}

impl Limits {
    /// A time as the file system keeps it.
    pub(crate) fn time(&self, time: Timestamp) -> Timestamp {
        match self.time_step {
            1 => time,
            step => time.div_euclid(step).clamp(0, Timestamp::from(u32::MAX)) * step,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            most_bytes: 1 << 40,
            most_links: 65_000,
            exchanges: true,
            most_name: MOST_NAME,
            most_text: MOST_SYMLINK,
            most_device: u32::MAX,
            allocates: true,
            time_step: 1,
        }
    }
}

/// How the model numbers what it makes. A test of the oracle uses two ways, so that a comparison of
/// raw numbers fails.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    next_ino: Ino,
    next_handle: Handle,
    stride: u64,
}

/// A file system in memory.
#[derive(Clone, Debug)]
pub struct Model {
    limits: Limits,
    nodes: BTreeMap<Ino, Node>,
    handles: BTreeMap<Handle, Ino>,
    numbers: Numbers,
}

/// Who makes a call, and when.
#[derive(Clone, Copy, Debug)]
struct By {
    who: Credentials,
    now: Timestamp,
}

type Outcome = Result<Answer, Errno>;

impl Model {
    /// An empty file system whose root belongs to root, made at time 0.
    pub fn new(limits: Limits) -> Model {
        Model::numbered(limits, ROOT + 1, 1)
    }

    /// The same; the numbers of objects and handles begin with `first` and are `stride` apart.
    ///
    /// # Panics
    /// If a number would be that of the root, or `stride` is zero.
    pub fn numbered(limits: Limits, first: u64, stride: u64) -> Model {
        assert!(first > ROOT && stride > 0, "numbers begin behind the root and grow");
        let root = Node::directory(ROOT, ROOT, 0o755);
        let numbers = Numbers { next_ino: first, next_handle: first, stride };
        Model { limits, nodes: BTreeMap::from([(ROOT, root)]), handles: BTreeMap::new(), numbers }
    }

    /// An object that exists.
    pub fn node(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// The object of an open handle.
    pub fn opened(&self, handle: Handle) -> Option<Ino> {
        self.handles.get(&handle).copied()
    }

    /// All open handles, in order.
    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.handles.keys().copied()
    }

    /// All objects, in order of their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Gives the root the owner, permissions and times that a system's root has.
    pub fn adopt_root(&mut self, attr: &Attr) {
        let root = self.known(ROOT);
        (root.mode, root.uid, root.gid) = (attr.mode, attr.uid, attr.gid);
        (root.atime, root.mtime, root.ctime) = (attr.atime, attr.mtime, attr.ctime);
        root.btime = attr.btime;
    }

    /// Ends all handles and lookups; objects without names go.
    pub fn unmount(&mut self) {
        self.handles.clear();
        for node in self.nodes.values_mut() {
            (node.handles, node.lookups) = (0, 0);
        }
        self.nodes.retain(|_, node| node.links > 0);
    }

    /// Runs what a call wants.
    fn answer(&mut self, request: Request, by: By) -> Outcome {
        match request {
            Request::Lookup { dir, name } => self.lookup(dir, &name),
            Request::Forget { ino, count } => self.forget(ino, count),
            Request::Attr { ino } => Ok(Answer::Attr(self.get(ino)?.attr())),
            Request::SetAttr { ino, set } => self.set_attr(ino, &set, by),
            Request::ReadLink { ino } => self.read_link(ino, by),
            Request::Make { dir, name, what, mode, open } => {
                self.make(dir, name, what, names::Making { mode, open, by })
            }
            Request::Link { ino, dir, name } => self.link(ino, dir, name, by),
            Request::Unlink { dir, name } => self.unlink(dir, &name, by),
            Request::RmDir { dir, name } => self.rmdir(dir, &name, by),
            Request::Rename { dir, name, to_dir, to_name, how } => {
                self.rename(&names::Rename { dir, name, to_dir, to_name, how }, by)
            }
            Request::Open { ino, truncate } => self.open(ino, truncate, by),
            Request::Release { handle } => self.release(handle),
            Request::Read { handle, at, length } => self.read(handle, at, length, by),
            Request::Write { handle, at, data, append } => {
                self.write(handle, (!append).then_some(at), &data, by)
            }
            Request::List { handle, cookie, most_bytes } => {
                self.list(handle, cookie, most_bytes, by)
            }
            Request::Fsync { ino, .. } => self.get(ino).map(|_| Answer::Done),
            Request::Sync => Ok(Answer::Done),
            // How much is free, and in which runs, is a matter of the format.
            Request::Trim { .. } => Ok(Answer::Trimmed(0)),
            Request::Space => Ok(Answer::Space(self.space())),
            Request::Allocate { handle, at, length, how } => {
                self.allocate(handle, at, length, how, by)
            }
            Request::Seek { handle, at, what } => self.seek(handle, at, what),
        }
    }

    fn get(&self, ino: Ino) -> Result<&Node, Errno> {
        self.nodes.get(&ino).ok_or(Errno::Stale)
    }

    fn get_mut(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&ino).ok_or(Errno::Stale)
    }

    /// An object that names or handles refer to, so it exists.
    fn known(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(&ino).expect("names and handles refer to objects that exist")
    }

    fn by_handle(&self, handle: Handle) -> Result<Ino, Errno> {
        let known =
            |ino: &Ino| *ino == ROOT || self.nodes.get(ino).is_some_and(|node| node.lookups > 0);
        match inode_of(handle) {
            None => self.handles.get(&handle).copied().ok_or(Errno::BadF),
            by_inode => by_inode.filter(known).ok_or(Errno::BadF),
        }
    }

    fn new_ino(&mut self) -> Ino {
        let ino = self.numbers.next_ino;
        self.numbers.next_ino += self.numbers.stride;
        ino
    }

    fn new_handle(&mut self, ino: Ino) -> Handle {
        let handle = self.numbers.next_handle;
        self.numbers.next_handle += self.numbers.stride;
        self.handles.insert(handle, ino);
        self.known(ino).handles += 1;
        handle
    }

    /// Raises the lookup count, and gives the attributes.
    fn looked_up(&mut self, ino: Ino) -> Attr {
        let node = self.known(ino);
        node.lookups += 1;
        node.attr()
    }

    /// Drops an object that has neither names nor users.
    fn reap(&mut self, ino: Ino) {
        let unused = |node: &Node| node.links == 0 && node.handles == 0 && node.lookups == 0;
        if self.nodes.get(&ino).is_some_and(unused) {
            self.nodes.remove(&ino);
        }
    }

    fn forget(&mut self, ino: Ino, count: u64) -> Outcome {
        // The kernel forgets objects that are gone already; the root has no count.
        if let Some(node) = self.nodes.get_mut(&ino).filter(|node| node.ino != ROOT) {
            node.lookups = node.lookups.saturating_sub(count);
            self.reap(ino);
        }
        Ok(Answer::Done)
    }
}

impl Runs for Model {
    fn run(&mut self, call: Call) -> Reply {
        let by = By { who: call.who, now: self.limits.time(call.now) };
        Reply { id: call.id, result: self.answer(call.request, by) }
    }
}
