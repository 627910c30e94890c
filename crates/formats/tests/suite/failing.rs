//! A device that fails under load: the file system becomes read-only, and no call reports success
//! for what may be lost. A block that cannot be read costs only what lies there.

#![allow(clippy::disallowed_types)]

use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use seekless_engine::units::BlockNr;
use seekless_formats::ffs::{self, Ffs, check, load, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, Handle, Ino, New, ROOT, Request};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::FileSystem;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a medium cannot do.
#[derive(Debug, Default)]
struct Faults {
    no_writes: bool,
    no_reads: bool,
    /// Blocks that cannot be read until they are written.
    unreadable: BTreeSet<BlockNr>,
    /// Blocks that cannot be written.
    unwritable: BTreeSet<BlockNr>,
    /// Blocks that read as other bytes than were written.
    garbled: BTreeSet<BlockNr>,
}

/// Memory that can be told to fail.
#[derive(Debug)]
struct Failing {
    cells: Cells,
    faults: Arc<Mutex<Faults>>,
}

impl Failing {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("one thread")
    }
}

/// The first block of a set in a range.
fn first_in(set: &BTreeSet<BlockNr>, at: BlockNr, count: u32) -> Option<IoError> {
    set.range(at..at + u64::from(count)).next().map(|&block| IoError::Media { block })
}

impl Medium for Failing {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let error = {
            let faults = self.faults();
            let all = faults.no_reads.then_some(IoError::Media { block: at });
            all.or(first_in(&faults.unreadable, at, count))
        };
        let mut bytes = match error {
            Some(error) => return Err(error),
            None => self.cells.read(at, count)?.to_bytes().to_vec(),
        };
        for &block in self.faults().garbled.range(at..at + u64::from(count)) {
            let from = (block - at) as usize * 4096;
            bytes[from..from + 4096].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        Ok(Data::bytes(bytes.into()))
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let count = data.blocks();
        let mut faults = self.faults();
        let all = faults.no_writes.then_some(IoError::Media { block: at });
        if let Some(error) = all.or(first_in(&faults.unwritable, at, count)) {
            return Err(error);
        }
        faults.unreadable.retain(|block| !(at..at + u64::from(count)).contains(block));
        drop(faults);
        self.cells.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.cells.trim(at, count)
    }

    fn sync(&mut self) -> Result<(), IoError> {
        self.cells.sync()
    }
}

struct World {
    files: Blocking<Ffs>,
    faults: Arc<Mutex<Faults>>,
}

impl World {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("one thread")
    }

    /// Unmounts, mounts again with an empty cache.
    fn remount(self) -> World {
        let now = self.files.now();
        let (node, result) = self.files.unmount();
        assert_eq!(result, Ok(()));
        let options = MountOptions::default();
        let files = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
        World { files: files.expect("it was unmounted"), faults: self.faults }
    }
}

/// A file system of 16 MiB.
fn world_of(mkfs_options: &MkfsOptions, cache_bytes: u64, parts: bool) -> World {
    let faults = Arc::<Mutex<Faults>>::default();
    let medium = Failing { cells: Cells::new(4096), faults: Arc::clone(&faults) };
    let ram = Ram::new(Box::new(medium));
    let ram = if parts { ram } else { ram.in_whole_blocks() };
    let mut node = Plain::node(Box::new(ram));
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), mkfs_options).expect("fits");
    let core = CoreOptions { cache_bytes, ..CoreOptions::default() };
    let options = MountOptions { core, ..MountOptions::default() };
    let files = Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("just made");
    World { files, faults }
}

fn world() -> World {
    world_of(&MkfsOptions::default(), 64 << 20, true)
}

fn make(files: &mut Blocking<Ffs>, name: &'static str) -> Result<Answer, Errno> {
    let name = Bytes::from_static(name.as_bytes());
    files.run(Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true })
}

#[test]
fn a_failed_write_is_reported_and_ends_all_changes() {
    let World { mut files, faults } = world();
    make(&mut files, "kept").expect("it works");
    files.run(Request::Sync).expect("it works");
    make(&mut files, "lost").expect("it is in memory");
    faults.lock().expect("one thread").no_writes = true;
    assert_eq!(files.run(Request::Sync), Err(Errno::Io), "nothing is lost silently");
    assert!(matches!(files.fs().failed(), Some(IoError::Media { .. })));
    faults.lock().expect("one thread").no_writes = false;
    assert_eq!(make(&mut files, "new"), Err(Errno::Io));
    assert_eq!(files.run(Request::Sync), Err(Errno::Io), "a retry proves nothing");
    let name = Bytes::from_static(b"kept");
    assert!(files.run(Request::Lookup { dir: ROOT, name }).is_ok(), "reads go on");
    let now = files.now();
    let (node, result) = files.unmount();
    assert!(matches!(result, Err(IoError::Media { .. })));
    let options = MountOptions::default();
    let mounted = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
    assert!(matches!(mounted, Err(FsError::NotClean)), "there is no clean mark");
}

#[test]
fn a_failed_write_of_the_syncer_is_not_forgotten() {
    let World { mut files, faults } = world();
    make(&mut files, "lost").expect("it is in memory");
    faults.lock().expect("one thread").no_writes = true;
    files.idle(40 * seekless_engine::units::SECONDS);
    faults.lock().expect("one thread").no_writes = false;
    assert_eq!(files.run(Request::Sync), Err(Errno::Io));
    assert!(files.unmount().1.is_err());
}

#[test]
fn a_failed_read_fails_one_call_and_can_be_repeated() {
    let World { mut files, faults } = world();
    make(&mut files, "f").expect("it works");
    let now = files.now();
    let (node, result) = files.unmount();
    assert_eq!(result, Ok(()));
    let options = MountOptions::default();
    let mounted = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
    let mut files = mounted.expect("it was unmounted");
    let name = Bytes::from_static(b"f");
    faults.lock().expect("one thread").no_reads = true;
    let lookup = Request::Lookup { dir: ROOT, name };
    assert_eq!(files.run(lookup.clone()), Err(Errno::Io));
    assert_eq!(files.fs().failed(), None);
    faults.lock().expect("one thread").no_reads = false;
    assert!(files.run(lookup).is_ok());
    assert_eq!(files.unmount().1, Ok(()));
}

/// Content without zeros that differs from one piece of 4096 bytes to the next.
fn content(ino: Ino, length: usize) -> Vec<u8> {
    (0..length).map(|n| (ino as usize * 41 + n / 4096 * 17 + n % 251) as u8 | 1).collect()
}

/// A file with content, and its handle.
fn filled(files: &mut Blocking<Ffs>, name: &'static str, length: usize) -> (Ino, Handle) {
    let (ino, handle) = match make(files, name) {
        Ok(Answer::Object(attr, Some(handle))) => (attr.ino, handle),
        other => panic!("{other:?}"),
    };
    write(files, handle, 0, content(ino, length)).expect("there is room");
    (ino, handle)
}

fn write(
    files: &mut Blocking<Ffs>,
    handle: Handle,
    at: u64,
    data: Vec<u8>,
) -> Result<Answer, Errno> {
    files.run(Request::Write { handle, at, data: data.into(), append: false })
}

fn open(files: &mut Blocking<Ffs>, ino: Ino) -> Handle {
    match files.run(Request::Open { ino, truncate: false }) {
        Ok(Answer::Opened(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

fn read(
    files: &mut Blocking<Ffs>,
    handle: Handle,
    at: usize,
    length: usize,
) -> Result<Bytes, Errno> {
    match files.run(Request::Read { handle, at: at as u64, length: length as u32 })? {
        Answer::Bytes(bytes) => Ok(bytes),
        other => panic!("{other:?}"),
    }
}

fn remove(files: &mut Blocking<Ffs>, name: &'static str) -> Result<Answer, Errno> {
    files.run(Request::Unlink { dir: ROOT, name: Bytes::from_static(name.as_bytes()) })
}

/// The block of the volume that holds these bytes.
fn block_with(world: World, bytes: &[u8]) -> (World, BlockNr) {
    let World { files, faults } = world;
    let mut now = files.now();
    let (mut node, result) = files.unmount();
    assert_eq!(result, Ok(()));
    let holds = |node: &mut Node, block: BlockNr, now: &mut u64| {
        let io = seekless_engine::io::Io::read(0, block, 1);
        let data = node.run(now, io).expect("memory").to_bytes();
        data.windows(bytes.len()).any(|window| window == bytes)
    };
    let found = (0..4096).find(|&block| holds(&mut node, block, &mut now));
    let options = MountOptions::default();
    let files = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
    let files = files.expect("it was unmounted");
    (World { files, faults }, found.expect("it is on the volume"))
}

#[test]
fn a_bad_block_hurts_the_range_that_lies_there() {
    let mut world = world();
    let (length, pieces) = (28 * 4096, 28);
    let (ino, _) = filled(&mut world.files, "hurt", length);
    let (other, _) = filled(&mut world.files, "other", length);
    for bad in [0, 3, 12, 27] {
        let (mut now, block) = block_with(world, &content(ino, length)[bad * 4096..][..4096]);
        now.faults().unreadable.insert(block);
        let files = &mut now.files;
        let handle = open(files, ino);
        assert_eq!(read(files, handle, 0, length), Err(Errno::Io));
        for piece in 0..pieces {
            let bytes = read(files, handle, piece * 4096, 4096);
            let expected = Bytes::copy_from_slice(&content(ino, length)[piece * 4096..][..4096]);
            assert_eq!(bytes, if piece == bad { Err(Errno::Io) } else { Ok(expected) }, "{piece}");
        }
        let handle = open(files, other);
        assert_eq!(read(files, handle, 0, length).as_deref(), Ok(&content(other, length)[..]));
        write(files, handle, 0, content(other, length)).expect("the mount stays writable");
        filled(files, "new", 10_000);
        remove(files, "new").expect("the mount stays writable");
        assert_eq!(files.run(Request::Sync), Ok(Answer::Done));
        assert_eq!((files.fs().failed(), files.fs().failure()), (None, None));
        // A write of the whole block gives it new content.
        let handle = open(files, ino);
        let at = bad / 2 * 8192;
        write(files, handle, at as u64, content(ino, length)[at..at + 8192].to_vec())
            .expect("the mount stays writable");
        world = now.remount();
        let handle = open(&mut world.files, ino);
        let bytes = read(&mut world.files, handle, 0, length);
        assert_eq!(bytes.as_deref(), Ok(&content(ino, length)[..]));
    }
    assert_eq!(world.files.unmount().1, Ok(()));
}

#[test]
fn a_bad_fragment_hurts_one_of_the_files_in_its_block() {
    let mut world = world();
    let files: Vec<Ino> =
        ["a", "b", "c", "d"].map(|name| filled(&mut world.files, name, 4096).0).to_vec();
    let (mut world, block) = block_with(world, &content(files[1], 4096));
    world.faults().unreadable.insert(block);
    for (n, &ino) in files.iter().enumerate() {
        let handle = open(&mut world.files, ino);
        let bytes = read(&mut world.files, handle, 0, 4096);
        let expected = Bytes::from(content(ino, 4096));
        assert_eq!(bytes, if n == 1 { Err(Errno::Io) } else { Ok(expected) }, "file {n}");
    }
    // It can be removed, and its place holds something new.
    remove(&mut world.files, "b").expect("no content is needed");
    assert_eq!(world.files.run(Request::Sync), Ok(Answer::Done));
    assert_eq!(world.files.unmount().1, Ok(()));
}

/// Read-ahead meets the bad block first; the calls that follow are as exact as without it.
#[test]
fn a_bad_block_in_the_window_of_read_ahead_costs_nothing_else() {
    let mut world = world();
    let length = 64 * 4096;
    let (ino, _) = filled(&mut world.files, "hurt", length);
    let (mut world, block) = block_with(world, &content(ino, length)[40 * 4096..][..4096]);
    world.faults().unreadable.insert(block);
    let handle = open(&mut world.files, ino);
    for piece in 0..64 {
        let bytes = read(&mut world.files, handle, piece * 4096, 4096);
        assert_eq!(bytes.is_err(), piece == 40, "piece {piece}");
    }
    assert!(world.files.fs().core().stats().read_ahead > 0);
    assert_eq!(world.files.unmount().1, Ok(()));
}

/// A failed write of one block, and the message about it.
fn failure_of(world: World, block: BlockNr, change: impl FnOnce(&mut Blocking<Ffs>)) -> String {
    world.faults().unwritable.insert(block);
    let World { mut files, .. } = world;
    change(&mut files);
    assert_eq!(files.run(Request::Sync), Err(Errno::Io));
    assert_eq!(files.fs().failed(), Some(IoError::Media { block }));
    assert_eq!(make(&mut files, "refused"), Err(Errno::Io), "it is read-only");
    files.fs().failure().expect("it has failed")
}

#[test]
fn a_failed_write_names_its_block_and_what_it_holds() {
    let end = ": the medium reports an error; unmount, then run `seekless fsck --repair`";
    let fresh = || {
        let mut world = world();
        let (ino, _) = filled(&mut world.files, "named in its directory", 30 * 8192);
        (world, ino)
    };
    let rewrite = |ino| {
        move |files: &mut Blocking<Ffs>| {
            let handle = open(files, ino);
            write(files, handle, 0, content(ino, 25 * 8192)).expect("it is in memory");
        }
    };

    let (world, ino) = fresh();
    let (world, block) = block_with(world, &content(ino, 30 * 8192)[15 * 8192..][..4096]);
    let text = failure_of(world, block, rewrite(ino));
    assert_eq!(text, format!("block {block} with data of inode {ino}{end}"));

    // One write carries the blocks of three files, and fails at the second.
    let (mut world, _) = fresh();
    let three = ["a", "b", "c"].map(|name| filled(&mut world.files, name, 8192).0);
    let (world, block) = block_with(world, &content(three[1], 8192)[4096..]);
    let text = failure_of(world, block, |files| {
        for ino in three {
            let handle = open(files, ino);
            write(files, handle, 0, content(ino, 8192)).expect("it is in memory");
        }
    });
    assert_eq!(text, format!("block {block} with data of inode {}{end}", three[1]));

    let (world, _) = fresh();
    let (world, block) = block_with(world, b"named in its directory");
    let text = failure_of(world, block, |files| drop(make(files, "new")));
    assert_eq!(text, format!("block {block} with names in directory {ROOT}{end}"));

    let (world, ino) = fresh();
    let World { files, faults } = world;
    let (mut node, _) = files.unmount();
    let found = load(&mut NodeDisk::new(&mut node, &mut 0)).expect("it is there");
    let geometry = found.superblock.geometry().expect("it is one");
    let place = geometry.inode_place(ino as u32);
    let block = place.block * 2 + (place.at / 4096) as u64;
    let options = MountOptions::default();
    let files = Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("it is clean");
    let text = failure_of(World { files, faults }, block, |files| {
        let handle = open(files, ino);
        write(files, handle, 40 * 8192, vec![1]).expect("it is in memory");
    });
    assert_eq!(text, format!("block {block} with inodes{end}"));
}

/// Where the volume takes whole blocks only, the rest of a block is read before a fragment is
/// written. If that is not possible, what lies there must not become zeros.
#[test]
fn a_rest_that_cannot_be_read_is_not_overwritten() {
    let options = MkfsOptions { fragment: 1024, ..MkfsOptions::default() };
    let mut world = world_of(&options, 64 << 20, false);
    // They share 4096 bytes with the root directory; the next four files do not.
    for name in ["x", "y", "z"] {
        filled(&mut world.files, name, 1024);
    }
    let (old, _) = filled(&mut world.files, "old", 1024);
    let (mut world, block) = block_with(world, &content(old, 1024));
    world.faults().unreadable.insert(block);
    let (new, _) = filled(&mut world.files, "new", 1024);
    assert_eq!(world.files.run(Request::Sync), Err(Errno::Io));
    let text = world.files.fs().failure().expect("it has failed");
    // The block of 8192 bytes also holds names that have changed.
    let start = format!(
        "block {block} with data of inodes {ROOT}, {new}, of which the rest cannot be read"
    );
    assert!(text.starts_with(&start), "{text}");
    world.faults().unreadable.clear();
    let handle = open(&mut world.files, old);
    let bytes = read(&mut world.files, handle, 0, 1024);
    assert_eq!(bytes.as_deref(), Ok(&content(old, 1024)[..]));
    assert!(world.files.unmount().1.is_err());
}

/// The maps of a group go bad while it is mounted: nothing is allocated in it from then on, and all
/// else works.
#[test]
fn maps_that_go_bad_under_a_mount_close_their_group() {
    for garbled in [false, true] {
        let mkfs_options = MkfsOptions { group: Some(2 << 20), ..MkfsOptions::default() };
        // The cache is so small that maps leave it.
        let mut world = world_of(&mkfs_options, 256 << 10, true);
        let (kept, _) = filled(&mut world.files, "kept", 100_000);
        filled(&mut world.files, "gone", 100_000);
        let (_, handle) = filled(&mut world.files, "large", 1 << 20);
        world.files.run(Request::Sync).expect("memory does not fail");
        assert_eq!(
            read(&mut world.files, handle, 0, 1 << 20).map(|bytes| bytes.len()),
            Ok(1 << 20)
        );
        let geometry = world.files.fs().format().superblock().geometry().expect("it is mounted");
        let block = geometry.maps_of(0) * 2;
        let bad = [block, block + 1];
        if garbled {
            world.faults().garbled.extend(bad);
        } else {
            world.faults().unreadable.extend(bad);
        }
        let files = &mut world.files;
        assert!(files.fs().format().closed_groups().is_empty());
        let (new, _) = filled(files, "new", 100_000);
        assert_eq!(files.fs().format().closed_groups(), [0]);
        remove(files, "gone").expect("its blocks stay marked");
        let handle = open(files, kept);
        assert_eq!(read(files, handle, 0, 100_000).as_deref(), Ok(&content(kept, 100_000)[..]));
        write(files, handle, 100_000, content(kept, 100_000)).expect("there is room elsewhere");
        assert_eq!(files.run(Request::Sync), Ok(Answer::Done));
        assert_eq!(files.fs().failed(), None);
        let handle = open(files, new);
        assert_eq!(read(files, handle, 0, 100_000).as_deref(), Ok(&content(new, 100_000)[..]));
        let (faults, mut now) = (world.faults, world.files.now());
        let (mut node, result) = world.files.unmount();
        assert_eq!(result, Ok(()));
        *faults.lock().expect("one thread") = Faults::default();
        let mut disk = NodeDisk::new(&mut node, &mut now);
        let refused = ffs::mount(&mut disk, &MountOptions::default());
        assert!(matches!(refused, Err(FsError::MetDamage)), "the next mount asks for a check");
        repair(&mut disk).expect("the maps follow from the inodes");
        let found = check(&mut disk).expect("it can be read");
        assert!(found.is_clean(), "{found}");
        let mounted =
            Blocking::mount_at(node, now, |disk| ffs::mount(disk, &MountOptions::default()));
        let mut files = mounted.expect("it is clean");
        let handle = open(&mut files, kept);
        assert_eq!(read(&mut files, handle, 0, 200_000).map(|bytes| bytes.len()), Ok(200_000));
    }
}
