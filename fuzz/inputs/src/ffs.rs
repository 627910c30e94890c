//! An FFS with any bytes in any of its metadata, under valid seals or not: mounted, read, written,
//! checked, repaired, and checked again.

use seekless_engine::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::units::{BlockNr, SECTOR_BYTES};
use seekless_formats::ffs::{self, Ffs, Finding, SealKind, Sealer, check, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Attr, Errno, FileKind, Handle, Ino, New, ROOT, Request, SeekWhat};
use seekless_fs::core::CoreOptions;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

const KINDS: [SealKind; 5] = [
    SealKind::Superblock,
    SealKind::Map,
    SealKind::Inodes,
    SealKind::Indirect,
    SealKind::Directory,
];

/// Applies edits {sector 2, offset in it 2, kind of the seal 1, length 1, bytes} to the image.
fn damage(disk: &mut dyn Disk, mut input: &[u8]) {
    let sectors = disk.blocks() * 8;
    while let Some((head, rest)) = input.split_first_chunk::<6>() {
        let sector = u64::from(u16::from_le_bytes([head[0], head[1]])) % sectors;
        let from = usize::from(u16::from_le_bytes([head[2], head[3]])) % SECTOR_BYTES;
        let length = usize::from(head[5]).min(rest.len()).min(SECTOR_BYTES - from);
        let Ok(block) = disk.read(sector / 8, 1) else { return };
        let mut bytes = block.to_bytes().to_vec();
        let at = (sector % 8) as usize * SECTOR_BYTES;
        bytes[at + from..at + from + length].copy_from_slice(&rest[..length]);
        if let Some(&kind) = KINDS.get(usize::from(head[4])) {
            Sealer::new(1).set(&mut bytes[at..at + SECTOR_BYTES], sector, kind, 1);
        }
        if disk.write(sector / 8, Data::bytes(bytes.into())).is_err() {
            return;
        }
        input = &rest[length..];
    }
}

/// A medium that outlives a mount.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Cells>>);

impl Shared {
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
struct Files(Blocking<Ffs>);

impl Files {
    fn mount(medium: &Shared, read_only: bool) -> Result<Files, FsError> {
        let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
        let core = CoreOptions { read_only, ..CoreOptions::default() };
        let options = MountOptions { core, now: 1, ..MountOptions::default() };
        Blocking::mount(node, |disk| ffs::mount(disk, &options)).map(Files)
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
    fn wander(&mut self) {
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
    fn fill(&mut self, names: [&'static [u8]; 4]) -> Result<(), Errno> {
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
    fn change(&mut self) {
        for name in [&b"d"[..], b"l", b"g"] {
            let _ = self.0.run(Request::Unlink { dir: ROOT, name: Bytes::from_static(name) });
        }
        let _ = self.fill([b"new", b"f", b"s", b"h"]);
    }
}

/// The image before its damage.
fn base() -> &'static Cells {
    static BASE: OnceLock<Cells> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut cells = Cells::new(512);
        let options = MkfsOptions { id: 1, group: Some(512 << 10), ..MkfsOptions::default() };
        mkfs(&mut MediumDisk(&mut cells), &options).expect("these options are possible");
        let medium = Shared(Arc::new(Mutex::new(cells)));
        let mut files = Files::mount(&medium, false).expect("just made");
        files.fill([b"d", b"f", b"l", b"g"]).expect("there is room");
        files.0.unmount().1.expect("memory");
        medium.with(|cells| cells.clone())
    })
}

/// Checks, repairs and checks.
fn mends(cells: &Cells) {
    let mut cells = cells.clone();
    let mut disk = MediumDisk(&mut cells);
    let Ok(findings) = check(&mut disk) else { return };
    let outcome = repair(&mut disk);
    let left = check(&mut disk).expect("the superblock was readable");
    match outcome {
        Ok(_) => assert!(left.is_clean(), "{findings}\nleft {left}"),
        Err(FsError::ReadOnlyFeatures(_)) => {}
        Err(FsError::NotRepaired { .. }) => {
            // A full file system has no room for what lost its name; nothing else may remain.
            let is_room =
                |finding: &Finding| matches!(finding, Finding::Nameless { .. } | Finding::NoRoot);
            assert!(left.list.iter().any(is_room), "{findings}\nleft {left}");
        }
        Err(error) => panic!("{error}"),
    }
}

/// The fuzz target.
pub fn run(input: &[u8]) {
    let mut cells = base().clone();
    damage(&mut MediumDisk(&mut cells), input);
    let medium = Shared(Arc::new(Mutex::new(cells.clone())));
    if let Ok(mut files) = Files::mount(&medium, true) {
        files.wander();
        drop(files.0.unmount());
    }
    if let Ok(mut files) = Files::mount(&medium, false) {
        files.change();
        files.wander();
        drop(files.0.unmount());
        mends(&medium.with(|cells| cells.clone()));
    }
    mends(&cells);
}
