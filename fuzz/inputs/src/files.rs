//! A mounted file system of any format as the fuzz targets use it, and a medium that outlives the
//! mount.

use seekless_engine::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::io::IoError;
use seekless_engine::units::BlockNr;
use seekless_formats::{FsError, Kind, MountOptions, MountedFs};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Attr, Errno, FileKind, Handle, Ino, New, ROOT, Request, SeekWhat};
use seekless_fs::core::CoreOptions;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// A medium that outlives a mount.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Cells>>);

impl Shared {
    pub(crate) fn new(cells: Cells) -> Shared {
        Shared(Arc::new(Mutex::new(cells)))
    }

    /// The content as it is now.
    pub(crate) fn cells(&self) -> Cells {
        self.with(|cells| cells.clone())
    }

    fn with<T>(&self, run: impl FnOnce(&mut Cells) -> T) -> T {
        run(&mut self.0.lock().expect("one thread"))
    }
}

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        self.with(|cells| cells.blocks())
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.with(|cells| cells.read(at, count))
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.with(|cells| cells.write(at, data))
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.with(|cells| cells.trim(at, count))
    }
}

/// A mounted file system, and its calls.
pub(crate) struct Files(pub(crate) Blocking<Box<dyn MountedFs>>);

impl Files {
    pub(crate) fn mount(kind: Kind, medium: &Shared, read_only: bool) -> Result<Files, FsError> {
        let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
        let core = CoreOptions { read_only, ..CoreOptions::default() };
        let options = MountOptions { core, now: 1, ..MountOptions::default() };
        Blocking::mount(node, |disk| (kind.mount)(disk, &options)).map(Files)
    }

    fn object(&mut self, request: Request) -> Result<Attr, Errno> {
        let Answer::Object(attr, _) = self.0.run(request)? else { panic!("no object") };
        self.0.run(Request::Forget { ino: attr.ino, count: 1 })?;
        Ok(attr)
    }

    fn make(&mut self, dir: Ino, name: &'static [u8], what: New) -> Result<Ino, Errno> {
        let name = Bytes::from_static(name);
        Ok(self.object(Request::Make { dir, name, what, mode: 0o644, open: false })?.ino)
    }

    fn open<T>(
        &mut self,
        ino: Ino,
        run: impl FnOnce(&mut Files, Handle) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let opened = self.0.run(Request::Open { ino, truncate: false })?;
        let Answer::Opened(handle) = opened else { panic!("no handle") };
        let result = run(self, handle);
        self.0.run(Request::Release { handle })?;
        result
    }

    fn write(&mut self, ino: Ino, at: u64, length: usize) -> Result<(), Errno> {
        let data = Bytes::from(vec![5; length]);
        let append = false;
        self.open(ino, |files, handle| {
            files.0.run(Request::Write { handle, at, data, append }).map(|_| ())
        })
    }

    fn names(&mut self, dir: Ino) -> Vec<Bytes> {
        let mut names = Vec::new();
        let _ = self.open(dir, |files, handle| {
            let mut cookie = 0;
            loop {
                let list = Request::List { handle, cookie, most_bytes: 4096 };
                let Answer::Entries(entries) = files.0.run(list)? else { panic!("no entries") };
                let Some(last) = entries.last() else { return Ok(()) };
                cookie = last.cookie;
                names.extend(entries.into_iter().map(|entry| entry.name));
            }
        });
        names
    }

    /// The begin of some pieces of a file, and its end.
    fn pieces(&mut self, attr: Attr) -> Result<(), Errno> {
        let length = 10_000;
        self.open(attr.ino, |files, handle| {
            let mut at = 0;
            for _ in 0..8 {
                let data = Request::Seek { handle, at, what: SeekWhat::Data };
                let Answer::At(from) = files.0.run(data)? else { panic!("no place") };
                files.0.run(Request::Read { handle, at: from, length })?;
                let hole = Request::Seek { handle, at: from, what: SeekWhat::Hole };
                let Answer::At(end) = files.0.run(hole)? else { panic!("no place") };
                assert!(from >= at && end > from, "a search goes forward");
                at = end;
            }
            let at = attr.size.saturating_sub(u64::from(length));
            files.0.run(Request::Read { handle, at, length }).map(|_| ())
        })
    }

    /// Reads what it can.
    pub(crate) fn wander(&mut self) {
        let (mut seen, mut next) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(dir) = next.pop() {
            for name in self.names(dir).into_iter().filter(|name| name != "." && name != "..") {
                let Ok(attr) = self.object(Request::Lookup { dir, name }) else { continue };
                match attr.kind {
                    FileKind::Directory if seen.insert(attr.ino) => next.push(attr.ino),
                    FileKind::File => drop(self.pieces(attr)),
                    FileKind::Symlink => drop(self.0.run(Request::ReadLink { ino: attr.ino })),
                    _ => {}
                }
            }
        }
    }

    /// A small tree: also what is done to a damaged file system, where calls may fail.
    pub(crate) fn fill(&mut self, names: [&'static [u8]; 4]) -> Result<(), Errno> {
        let dir = self.make(ROOT, names[0], New::Directory)?;
        let file = self.make(dir, names[1], New::File)?;
        self.write(file, 0, 110_000)?;
        self.write(file, 9_000_000, 700)?;
        self.make(ROOT, names[2], New::Symlink(Bytes::from(vec![b'y'; 300])))?;
        self.object(Request::Link { ino: file, dir: ROOT, name: Bytes::from_static(names[3]) })?;
        let small = self.make(dir, names[2], New::File)?;
        self.write(small, 0, 100)
    }

    /// Removes files and adds some.
    pub(crate) fn change(&mut self) {
        for name in [&b"d"[..], b"l", b"g"] {
            let _ = self.0.run(Request::Unlink { dir: ROOT, name: Bytes::from_static(name) });
        }
        let _ = self.fill([b"new", b"f", b"s", b"h"]);
    }
}
