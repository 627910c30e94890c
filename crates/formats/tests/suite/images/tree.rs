//! A tree with each kind of object, and its listing: one line for each name.

use seekless_engine::Bytes;
use seekless_engine::checksum::crc32c;
use seekless_formats::ffs::Ffs;
use seekless_fs::block::Blocking;
use seekless_fs::call::{
    AllocateHow, Answer, Attr, Errno, FileKind, Handle, Ino, New, ROOT, Request, SeekWhat, SetAttr,
};
use std::collections::{BTreeMap, BTreeSet};

/// Names that a walk visits at most: no image here has more, unless directories form a ring.
const MOST_NAMES: usize = 5000;

/// A mounted file system, by path.
pub struct Files(pub Blocking<Ffs>);

/// What a walk finds under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub attr: Attr,
    /// Text of a link, or data of a file: offset, length and checksum of each piece.
    pub content: String,
}

/// Each path with what it names, or why that cannot be read.
pub type Tree = BTreeMap<String, Result<Object, Errno>>;

impl Files {
    pub fn run(&mut self, request: Request) -> Result<Answer, Errno> {
        self.0.run(request)
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr, Errno> {
        let name = Bytes::copy_from_slice(name);
        match self.run(Request::Lookup { dir, name })? {
            Answer::Object(attr, _) => {
                self.run(Request::Forget { ino: attr.ino, count: 1 })?;
                Ok(attr)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn resolve(&mut self, path: &str) -> Result<Ino, Errno> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(ROOT, |dir, name| Ok(self.lookup(dir, name.as_bytes())?.ino))
    }

    fn split(&mut self, path: &str) -> Result<(Ino, Bytes), Errno> {
        let (dir, name) = path.rsplit_once('/').expect("a path");
        Ok((self.resolve(dir)?, Bytes::copy_from_slice(name.as_bytes())))
    }

    pub fn make(&mut self, path: &str, what: New) -> Result<Ino, Errno> {
        let (dir, name) = self.split(path)?;
        match self.run(Request::Make { dir, name, what, mode: 0o750, open: false })? {
            Answer::Object(attr, _) => {
                self.run(Request::Forget { ino: attr.ino, count: 1 })?;
                Ok(attr.ino)
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        let (dir, name) = self.split(path)?;
        self.run(Request::Unlink { dir, name }).map(|_| ())
    }

    fn open<T>(
        &mut self,
        ino: Ino,
        use_it: impl FnOnce(&mut Files, Handle) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Answer::Opened(handle) = self.run(Request::Open { ino, truncate: false })? else {
            panic!("an open answers with a handle");
        };
        let used = use_it(self, handle);
        self.run(Request::Release { handle })?;
        used
    }

    pub fn write(&mut self, path: &str, at: u64, data: &[u8]) -> Result<(), Errno> {
        let ino = self.resolve(path)?;
        self.open(ino, |files, handle| {
            let (mut at, mut rest) = (at, data);
            while !rest.is_empty() {
                let data = Bytes::copy_from_slice(rest);
                let request = Request::Write { handle, at, data, append: false };
                let Answer::Written(count) = files.run(request)? else { panic!("not written") };
                at += u64::from(count);
                rest = &rest[count as usize..];
            }
            Ok(())
        })
    }

    /// The pieces of a file that are no holes, without those that hold zeros only.
    fn data(&mut self, ino: Ino) -> Result<String, Errno> {
        self.open(ino, |files, handle| {
            let (mut at, mut text) = (0, String::new());
            loop {
                let from = match files.run(Request::Seek { handle, at, what: SeekWhat::Data }) {
                    Ok(Answer::At(from)) => from,
                    Err(Errno::NxIo) => return Ok(text),
                    Err(errno) => return Err(errno),
                    Ok(other) => panic!("{other:?}"),
                };
                let hole = Request::Seek { handle, at: from, what: SeekWhat::Hole };
                let Answer::At(end) = files.run(hole)? else { panic!("no place") };
                assert!(from >= at && end > from, "a search goes forward");
                let length = u32::try_from(end - from).expect("small files");
                let request = Request::Read { handle, at: from, length };
                let Answer::Bytes(bytes) = files.run(request)? else { panic!("no bytes") };
                text.push_str(&format!(" {from}+{}:{:08x}", bytes.len(), crc32c(&bytes)));
                at = end;
            }
        })
    }

    /// The names of a directory, and the error that ends the list early.
    fn names(&mut self, dir: Ino) -> (Vec<Bytes>, Result<(), Errno>) {
        let mut names = Vec::new();
        let ended = self.open(dir, |files, handle| {
            let mut cookie = 0;
            loop {
                let request = Request::List { handle, cookie, most_bytes: 4096 };
                let Answer::Entries(entries) = files.run(request)? else { panic!("no entries") };
                let Some(last) = entries.last() else { return Ok(()) };
                cookie = last.cookie;
                names.extend(entries.into_iter().map(|entry| entry.name));
                assert!(names.len() < MOST_NAMES, "a list has an end");
            }
        });
        (names, ended)
    }

    fn object(&mut self, attr: Attr) -> Result<Object, Errno> {
        let content = match attr.kind {
            FileKind::File => self.data(attr.ino)?,
            FileKind::Symlink => match self.run(Request::ReadLink { ino: attr.ino })? {
                Answer::Text(text) => format!(" -> {}", text.escape_ascii()),
                other => panic!("{other:?}"),
            },
            _ => String::new(),
        };
        Ok(Object { attr, content })
    }

    /// Reads everything that directories list.
    pub fn tree(&mut self) -> Tree {
        self.tree_with(&[])
    }

    /// Reads everything, also these paths if their directories do not list them.
    pub fn tree_with(&mut self, paths: &[&str]) -> Tree {
        let mut tree = Tree::new();
        let mut next = vec![(ROOT, String::new())];
        while let Some((dir, path)) = next.pop() {
            let (mut names, ended) = self.names(dir);
            if let Err(errno) = ended {
                tree.insert(path.clone(), Err(errno));
                let below = paths.iter().filter_map(|at| at.strip_prefix(&format!("{path}/")));
                let below = below.filter(|name| !name.contains('/'));
                names.extend(below.map(|name| Bytes::copy_from_slice(name.as_bytes())));
                names.sort_unstable();
                names.dedup();
            }
            for name in names.iter().filter(|name| !name.starts_with(b".")) {
                let path = format!("{path}/{}", name.escape_ascii());
                let found = self.lookup(dir, name);
                if let Ok(Attr { kind: FileKind::Directory, ino, .. }) = found {
                    next.push((ino, path.clone()));
                }
                let object = found.and_then(|attr| self.object(attr));
                // A directory that cannot be listed to its end stays an error.
                tree.entry(path).or_insert(object);
                assert!(tree.len() < MOST_NAMES, "the tree has an end");
            }
        }
        tree
    }

    /// Reads as much as it can of a tree that may be anything: directories once each, the first
    /// pieces of files. Errors are right answers.
    pub fn wander(&mut self) {
        let (mut seen, mut next) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(dir) = next.pop() {
            let names = self.names(dir).0;
            for name in names.iter().filter(|name| *name != "." && *name != "..") {
                let Ok(attr) = self.lookup(dir, name) else { continue };
                match attr.kind {
                    FileKind::Directory if seen.insert(attr.ino) => next.push(attr.ino),
                    FileKind::File => drop(self.pieces(attr)),
                    FileKind::Symlink => drop(self.run(Request::ReadLink { ino: attr.ino })),
                    _ => {}
                }
            }
        }
    }

    /// Reads the begin of some pieces of a file, and its end.
    fn pieces(&mut self, attr: Attr) -> Result<(), Errno> {
        let length = 10_000;
        self.open(attr.ino, |files, handle| {
            let mut at = 0;
            for _ in 0..30 {
                let data = Request::Seek { handle, at, what: SeekWhat::Data };
                let Answer::At(from) = files.run(data)? else { panic!("no place") };
                files.run(Request::Read { handle, at: from, length })?;
                let hole = Request::Seek { handle, at: from, what: SeekWhat::Hole };
                let Answer::At(end) = files.run(hole)? else { panic!("no place") };
                assert!(from >= at && end > from, "a search goes forward");
                at = end;
            }
            let at = attr.size.saturating_sub(u64::from(length));
            files.run(Request::Read { handle, at, length }).map(|_| ())
        })
    }

    /// Unmounts, which succeeds.
    pub fn unmount(self) {
        assert_eq!(self.0.unmount().1, Ok(()));
    }
}

/// A tree as text, for a comparison forever: no word of it may change.
pub fn listing(tree: &Tree) -> String {
    let mut out = String::new();
    for (path, object) in tree {
        let Object { attr, content } = object.as_ref().expect("it can be read");
        let Attr { kind, mode, links, uid, gid, size, sectors, device, mtime, .. } = attr;
        out.push_str(&format!(
            "{path} {kind:?} {mode:o} links {links} owner {uid}:{gid} size {size} sectors \
             {sectors} device {device} mtime {mtime}{content}\n"
        ));
    }
    out
}

/// Bytes that compress well and differ from file to file.
pub fn content(file: u64, length: usize) -> Vec<u8> {
    let unit = (file.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
    (0..length).map(|at| unit[at % 8] ^ (at / 1024) as u8).collect()
}

/// Fills an empty file system with some of everything. Fixtures depend on it: they were made by it.
pub fn fill(files: &mut Files) -> Result<(), Errno> {
    let block = 8192;
    files.make("/a", New::Directory)?;
    files.make("/a/b", New::Directory)?;
    files.make("/empty", New::Directory)?;
    for (number, (path, length)) in (1..).zip([
        ("/nothing", 0),
        ("/small", 100),
        ("/a/tail", block + 100),
        ("/a/b/direct", 5 * block),
        ("/a/b/indirect", 14 * block + 5),
    ]) {
        files.make(path, New::File)?;
        files.write(path, 0, &content(number, length))?;
    }
    // A piece in the direct blocks, and one behind each kind of indirect block.
    files.make("/a/holes", New::File)?;
    let each = match files.run(Request::Space)? {
        Answer::Space(space) => u64::from(space.block_bytes) / 512 * 126,
        other => panic!("{other:?}"),
    };
    let bytes = each * 512 / 126;
    for (number, index) in (10..).zip([3, 12, 12 + each + 1, 12 + each + each * each + 2]) {
        files.write("/a/holes", index * bytes, &content(number, 700))?;
    }
    let ino = files.make("/a/reserved", New::File)?;
    files.open(ino, |files, handle| {
        let how = AllocateHow::KeepSize;
        files.run(Request::Allocate { handle, at: 0, length: 3 * block as u64, how }).map(|_| ())
    })?;
    let ino = files.resolve("/small")?;
    let (dir, name) = files.split("/a/b/second name")?;
    files.run(Request::Link { ino, dir, name })?;
    files.run(Request::Forget { ino, count: 1 })?;
    files.make("/a/short", New::Symlink(Bytes::from_static(b"b/direct")))?;
    files.make("/a/long", New::Symlink(Bytes::from(vec![b'x'; 400])))?;
    files.make("/pipe", New::Fifo)?;
    files.make("/socket", New::Socket)?;
    files.make("/null", New::CharDevice(0x103))?;
    files.make("/disk", New::BlockDevice(0x800))?;
    for number in 0..90 {
        files.make(&format!("/empty/{number:02} {}", "n".repeat(90)), New::Fifo)?;
    }
    let set = SetAttr { mode: Some(0o4711), uid: Some(12), gid: Some(34), ..SetAttr::default() };
    let ino = files.resolve("/a/tail")?;
    files.run(Request::SetAttr { ino, set })?;
    Ok(())
}
