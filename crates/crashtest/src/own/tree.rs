//! The tree of a recovered file system: all that a check sees of it.
//!
//! Crash states with different blocks often recover to the same tree, and a check says the same of
//! each. Names, kinds, attributes, links, content and the times of content count. The numbers of
//! inodes, other times and the space of files do not. Where this process may not mount, a check
//! finds the tree in a plain directory.

use super::device::ImageDevice;
use super::policy::OwnPolicy;
use crate::replay::image::Image;
use seekless_calls::model::{Attributes, Change, NameChange, Object, ObjectId, PAGE, TOP, Tree};
use seekless_formats::{FsError, Kind, MountedFs};
use seekless_fs::call::{
    Answer, Attr, Call, Credentials, DirEntry, Errno, FileKind, Ino, New, ROOT, Request, by_inode,
};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::Runs as _;
use seekless_serve::files::{Offline, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a tree at most that is read only to tell it from others: a larger one costs more than
/// checks do.
const MOST_BYTES: u64 = 16 << 20;
/// Objects of such a tree at most.
const MOST_OBJECTS: usize = 20_000;
/// Bytes of a read or a list.
const PIECE: u32 = 128 << 10;

/// Why a tree cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Unshown {
    /// The file system cannot be mounted.
    #[error(transparent)]
    FileSystem(#[from] FsError),
    /// It is too large to be read only to tell it from others.
    #[error("it has more than {MOST_BYTES} bytes or {MOST_OBJECTS} objects")]
    Large,
    /// Something of it cannot be read: a check would meet the same error.
    #[error("{path} cannot be read: {errno}")]
    Unreadable {
        /// From the top.
        path: String,
        /// What a program gets.
        errno: Errno,
    },
}

/// A tree without entries: what every directory of a checker begins with.
pub fn empty() -> Tree {
    let what = New::Directory;
    let attributes = Attributes { mode: Some(0o755), ..Attributes::default() };
    Tree::new([Object { ino: ROOT, what, attributes }].into())
}

/// How much of a tree is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All of it.
    Any,
    /// Only a small one.
    Small,
}

/// The tree in an image that was recovered.
///
/// # Errors
/// [`Unshown`].
pub fn tree(image: &Arc<Image>, policy: OwnPolicy, size: Size) -> Result<Tree, Unshown> {
    let device = ImageDevice::new(Arc::clone(image));
    let mut volume = Volume::of_device(Box::new(device), "a recovered state");
    // It takes the file system as it is, and writes nothing.
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let kind = Kind::of(&mut volume)?;
    let fs = (kind.mount)(&mut volume, &policy.mount_options(core, 0))?;
    let mut walk = Walk {
        fs: Offline::new(fs, volume),
        objects: Vec::new(),
        numbers: BTreeMap::new(),
        changes: Vec::new(),
        left: if size == Size::Small { MOST_BYTES } else { u64::MAX },
        most_objects: if size == Size::Small { MOST_OBJECTS } else { usize::MAX },
    };
    walk.all()?;
    let mut tree = Tree::new(walk.objects.into());
    walk.changes.iter().for_each(|change| tree.apply(change));
    Ok(tree)
}

struct Walk {
    fs: Offline<Box<dyn MountedFs>>,
    objects: Vec<Object>,
    numbers: BTreeMap<Ino, ObjectId>,
    changes: Vec<Change>,
    /// Bytes that may still be read.
    left: u64,
    most_objects: usize,
}

impl Walk {
    fn ask(&mut self, path: &str, request: Request) -> Result<Answer, Unshown> {
        let call = Call { id: 1, who: Credentials::default(), now: 0, request };
        let result = self.fs.run(call).result;
        result.map_err(|errno| Unshown::Unreadable { path: path.to_owned(), errno })
    }

    fn all(&mut self) -> Result<(), Unshown> {
        let Answer::Attr(top) = self.ask("/", Request::Attr { ino: ROOT })? else {
            unreachable!("attributes are asked for");
        };
        self.object(&top, "/")?;
        let mut directories = vec![(ROOT, String::new())];
        while let Some((ino, path)) = directories.pop() {
            let directory = self.numbers[&ino];
            for DirEntry { name, .. } in self.list(ino, &path)? {
                let path = format!("{path}/{}", String::from_utf8_lossy(&name));
                let lookup = Request::Lookup { dir: ino, name: name.clone() };
                let Answer::Object(attr, _) = self.ask(&path, lookup)? else {
                    unreachable!("an object is asked for");
                };
                let is_new = !self.numbers.contains_key(&attr.ino);
                let object = self.object(&attr, &path)?;
                let set = NameChange { directory, name, object: Some(object) };
                self.changes.push(Change::Names { sets: vec![set], replacing: None });
                if is_new && attr.kind == FileKind::Directory {
                    directories.push((attr.ino, path));
                }
            }
        }
        Ok(())
    }

    /// The number of an object. A new one is read.
    fn object(&mut self, attr: &Attr, path: &str) -> Result<ObjectId, Unshown> {
        if let Some(&object) = self.numbers.get(&attr.ino) {
            return Ok(object);
        }
        let object = self.objects.len() as ObjectId;
        debug_assert!(object != TOP || attr.ino == ROOT, "the top comes first");
        let what = match attr.kind {
            FileKind::File => New::File,
            FileKind::Directory => New::Directory,
            FileKind::Symlink => match self.ask(path, Request::ReadLink { ino: attr.ino })? {
                Answer::Text(text) => New::Symlink(text),
                _ => unreachable!("a text is asked for"),
            },
            FileKind::Fifo => New::Fifo,
            FileKind::Socket => New::Socket,
            FileKind::CharDevice => New::CharDevice(attr.device),
            FileKind::BlockDevice => New::BlockDevice(attr.device),
        };
        let attributes = Attributes {
            mode: Some(attr.mode),
            uid: Some(attr.uid),
            gid: Some(attr.gid),
            atime: None,
            mtime: Some(attr.mtime),
        };
        if self.objects.len() == self.most_objects {
            return Err(Unshown::Large);
        }
        self.numbers.insert(attr.ino, object);
        self.objects.push(Object { ino: attr.ino, what, attributes });
        if attr.kind == FileKind::File {
            self.content(object, attr, path)?;
        }
        Ok(object)
    }

    fn content(&mut self, object: ObjectId, attr: &Attr, path: &str) -> Result<(), Unshown> {
        self.left = self.left.checked_sub(attr.size).ok_or(Unshown::Large)?;
        self.changes.push(Change::Grow { object, to: attr.size });
        let mut from = 0;
        while from < attr.size {
            let read = Request::Read { handle: by_inode(attr.ino), at: from, length: PIECE };
            let Answer::Bytes(bytes) = self.ask(path, read)? else {
                unreachable!("bytes are asked for");
            };
            if bytes.is_empty() {
                return Err(Unshown::Unreadable { path: path.to_owned(), errno: Errno::Io });
            }
            for at in (0..bytes.len()).step_by(PAGE as usize) {
                let data = bytes.slice(at..bytes.len().min(at + PAGE as usize));
                if data.iter().any(|&byte| byte != 0) {
                    self.changes.push(Change::Page { object, at: from + at as u64, data });
                }
            }
            from += bytes.len() as u64;
        }
        Ok(())
    }

    fn list(&mut self, ino: Ino, path: &str) -> Result<Vec<DirEntry>, Unshown> {
        let Answer::Opened(handle) = self.ask(path, Request::Open { ino, truncate: false })? else {
            unreachable!("a handle is asked for");
        };
        let (mut all, mut cookie) = (Vec::new(), 0);
        loop {
            let list = Request::List { handle, cookie, most_bytes: PIECE };
            let Answer::Entries(entries) = self.ask(path, list)? else {
                unreachable!("entries are asked for");
            };
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            all.extend(entries);
            if all.len() > self.most_objects {
                return Err(Unshown::Large);
            }
        }
        self.ask(path, Request::Release { handle })?;
        all.retain(|entry: &DirEntry| !matches!(&entry.name[..], b"." | b".."));
        Ok(all)
    }
}
