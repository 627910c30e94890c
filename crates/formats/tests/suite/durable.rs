//! `fsync` of one file: what it writes, and what a crash or a device that fails leaves of it.
//!
//! A random program changes a small volume, where blocks and inodes are soon used again. Whenever
//! `fsync` succeeds, the test notes content and path; a change of either ends the note. After the
//! crash and a repair each note must hold.

#![allow(clippy::disallowed_types)]

use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::io::IoError;
use seekless_engine::node::Node;
use seekless_engine::units::{BlockNr, SECONDS, Time};
use seekless_formats::ffs::{self, Ffs, check, mkfs, repair};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, Handle, Ino, New, ROOT, RenameHow, Request, SetAttr};
use seekless_fs::core::CoreOptions;
use seekless_fs::system::FileSystem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// What the medium has seen, and when it fails.
#[derive(Debug, Default)]
struct Watch {
    written: Vec<BlockNr>,
    /// Writes before each flush.
    flushes: Vec<usize>,
    /// Writes that succeed from here on; all of them if there is no number.
    left: Option<u64>,
}

#[derive(Debug)]
struct Watched {
    cells: Cells,
    watch: Arc<Mutex<Watch>>,
}

impl Medium for Watched {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.cells.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        let mut watch = self.watch.lock().expect("one thread");
        if let Some(left) = &mut watch.left {
            if *left == 0 {
                return Err(IoError::Media { block: at });
            }
            *left -= 1;
        }
        watch.written.extend(at..at + u64::from(data.blocks()));
        self.cells.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.cells.trim(at, count)
    }

    fn sync(&mut self) -> Result<(), IoError> {
        let mut watch = self.watch.lock().expect("one thread");
        let written = watch.written.len();
        watch.flushes.push(written);
        self.cells.sync()
    }
}

fn mount(node: Node, now: Time, cache_bytes: u64) -> Blocking<Ffs> {
    let core = CoreOptions { cache_bytes, ..CoreOptions::default() };
    let options = MountOptions { core, now: 1, ..MountOptions::default() };
    Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

fn world(blocks: u64, cache_bytes: u64, sizes: (u32, u32)) -> (Blocking<Ffs>, Arc<Mutex<Watch>>) {
    let watch = Arc::<Mutex<Watch>>::default();
    let medium = Watched { cells: Cells::new(blocks), watch: Arc::clone(&watch) };
    let mut node = Plain::node(Box::new(Ram::new(Box::new(medium))));
    let options = MkfsOptions {
        block: sizes.0,
        fragment: sizes.1,
        bytes_per_inode: 2048,
        ..MkfsOptions::default()
    };
    let mut now = 0;
    mkfs(&mut NodeDisk::new(&mut node, &mut now), &options).expect("it fits");
    (mount(node, now, cache_bytes), watch)
}

fn make(
    files: &mut Blocking<Ffs>,
    dir: Ino,
    name: &str,
    what: New,
) -> Result<(Ino, Handle), Errno> {
    let open = what == New::File;
    let name = Bytes::copy_from_slice(name.as_bytes());
    match files.run(Request::Make { dir, name, what, mode: 0o755, open })? {
        Answer::Object(attr, handle) => Ok((attr.ino, handle.unwrap_or_default())),
        other => panic!("{other:?}"),
    }
}

fn write(files: &mut Blocking<Ffs>, handle: Handle, at: u64, data: Vec<u8>) -> Result<u32, Errno> {
    match files.run(Request::Write { handle, at, data: data.into(), append: false })? {
        Answer::Written(count) => Ok(count),
        other => panic!("{other:?}"),
    }
}

fn read(files: &mut Blocking<Ffs>, ino: Ino) -> Result<Vec<u8>, Errno> {
    let handle = match files.run(Request::Open { ino, truncate: false })? {
        Answer::Opened(handle) => handle,
        other => panic!("{other:?}"),
    };
    match files.run(Request::Read { handle, at: 0, length: 1 << 20 })? {
        Answer::Bytes(bytes) => Ok(bytes.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// Blocks written by one `fsync` of a file of 1 KiB beside `other` bytes of dirty data.
fn cost(other: usize, all: bool) -> usize {
    let (files, watch) = world(40_000, 256 << 20, (8192, 1024));
    // Without clusters no data goes out before its time.
    let now = files.now();
    let (node, _) = files.unmount();
    let core =
        CoreOptions { cache_bytes: 256 << 20, cluster_bytes: 4096, ..CoreOptions::default() };
    let options = MountOptions { core, now: 1, ..MountOptions::default() };
    let mounted = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
    let mut files = mounted.expect("it is clean");
    let (_, big) = make(&mut files, ROOT, "big", New::File).expect("there is room");
    for at in (0..other).step_by(1 << 20) {
        for block in (at..at + (1 << 20)).step_by(8192) {
            write(&mut files, big, block as u64, vec![7]).expect("there is room");
        }
    }
    let (ino, small) = make(&mut files, ROOT, "small", New::File).expect("there is room");
    write(&mut files, small, 0, vec![8; 1024]).expect("there is room");
    watch.lock().expect("one thread").written.clear();
    let request = if all { Request::Sync } else { Request::Fsync { ino, data_only: false } };
    files.run(request).expect("nothing fails");
    let written = watch.lock().expect("one thread").written.len();
    eprintln!("{other} bytes dirty, all: {all}: {written} blocks written");
    written
}

#[test]
fn fsync_writes_its_own_blocks_only() {
    let alone = cost(0, false);
    let among = cost(64 << 20, false);
    assert!(alone <= 6 && among <= 6, "data, inode, directory and header: {alone}, {among}");
    assert!(cost(64 << 20, true) > 8000, "the other data was dirty");
}

/// A power cut in `fsync` may keep any of the writes since the last flush.
#[test]
fn fsync_makes_the_inode_durable_before_its_name() {
    let (mut files, watch) = world(4096, 64 << 20, (8192, 4096));
    let (dir, _) = make(&mut files, ROOT, "dir", New::Directory).expect("there is room");
    files.run(Request::Sync).expect("nothing fails");
    let (ino, handle) = make(&mut files, dir, "new", New::File).expect("there is room");
    write(&mut files, handle, 0, vec![1; 4096]).expect("there is room");
    *watch.lock().expect("one thread") = Watch::default();
    files.run(Request::Fsync { ino, data_only: false }).expect("nothing fails");
    let geometry = files.fs().format().superblock().geometry().expect("it is mounted");
    let table = geometry.inode_place(ino as u32).block * 2;
    let watch = watch.lock().expect("one thread");
    let [first, second] = watch.flushes[..] else { panic!("{watch:?}") };
    let of_table = |at: &BlockNr| (table..table + 2).contains(at);
    assert!(watch.written[..first].iter().any(of_table), "{watch:?}");
    assert!(second > first && !watch.written[first..].iter().any(of_table), "{watch:?}");
}

#[test]
fn fdatasync_of_an_overwrite_writes_the_data_alone() {
    let (mut files, watch) = world(4096, 64 << 20, (8192, 4096));
    let (ino, handle) = make(&mut files, ROOT, "f", New::File).expect("there is room");
    write(&mut files, handle, 0, vec![1; 8192]).expect("there is room");
    files.run(Request::Fsync { ino, data_only: true }).expect("nothing fails");
    let sync = |files: &mut Blocking<Ffs>, at: u64, data_only: bool| {
        files.idle(1000);
        write(files, handle, at, vec![2; 4096]).expect("there is room");
        watch.lock().expect("one thread").written.clear();
        files.run(Request::Fsync { ino, data_only }).expect("nothing fails");
        watch.lock().expect("one thread").written.len()
    };
    assert_eq!(sync(&mut files, 0, true), 1, "4 KiB of data");
    assert_eq!(sync(&mut files, 4096, false), 2, "the inode with its times, too");
    assert!(sync(&mut files, 8192, true) >= 2, "size and addresses have changed");
}

/// A generator of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }
}

#[derive(Clone, Debug)]
struct File {
    handle: Handle,
    content: Vec<u8>,
}

/// The program: what it knows of the tree, and which files are promised.
struct Program {
    files: Blocking<Ffs>,
    random: Random,
    /// Objects by number: directory and name.
    names: BTreeMap<Ino, (Ino, String)>,
    open: BTreeMap<Ino, File>,
    promised: BTreeSet<Ino>,
    serial: u64,
}

impl Program {
    fn pick(&mut self, directory: bool) -> Option<Ino> {
        let is_directory = |ino: &Ino| !self.open.contains_key(ino);
        let all: Vec<Ino> =
            self.names.keys().copied().filter(|ino| is_directory(ino) == directory).collect();
        let extra = usize::from(directory);
        let count = all.len() + extra;
        let at = if count == 0 { return None } else { self.random.below(count as u64) as usize };
        Some(all.get(at).copied().unwrap_or(ROOT))
    }

    fn name(&mut self) -> String {
        self.serial += 1;
        format!("n{}", self.serial)
    }

    fn path(&self, ino: Ino) -> Vec<String> {
        let (mut at, mut path) = (ino, Vec::new());
        while at != ROOT {
            let (dir, name) = &self.names[&at];
            path.push(name.clone());
            at = *dir;
        }
        path.reverse();
        path
    }

    fn is_below(&self, ino: Ino, dir: Ino) -> bool {
        let mut at = ino;
        while at != ROOT && at != dir {
            at = self.names[&at].0;
        }
        at == dir
    }

    fn create(&mut self, what: New) -> Result<(), Errno> {
        let (dir, name) = (self.pick(true).unwrap_or(ROOT), self.name());
        let is_file = what == New::File;
        let (ino, handle) = make(&mut self.files, dir, &name, what)?;
        self.names.insert(ino, (dir, name));
        if is_file {
            self.open.insert(ino, File { handle, content: Vec::new() });
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Errno> {
        let Some(ino) = self.pick(false) else { return Ok(()) };
        let old = self.open[&ino].content.len() as u64;
        let at = self.random.below(old + 1);
        let length = 1 + self.random.below(20_000) as usize;
        let value = self.random.below(255) as u8 + 1;
        self.promised.remove(&ino);
        let file = self.open.get_mut(&ino).expect("picked");
        let written = write(&mut self.files, file.handle, at, vec![value; length])? as usize;
        let end = at as usize + written;
        file.content.resize(file.content.len().max(end), 0);
        file.content[at as usize..end].fill(value);
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), Errno> {
        let Some(ino) = self.pick(false) else { return Ok(()) };
        let size = self.random.below(self.open[&ino].content.len() as u64 + 1);
        self.promised.remove(&ino);
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.files.run(Request::SetAttr { ino, set })?;
        self.open.get_mut(&ino).expect("picked").content.truncate(size as usize);
        Ok(())
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        let Some(ino) = self.pick(false) else { return Ok(()) };
        self.promised.remove(&ino);
        let (dir, name) = self.names[&ino].clone();
        self.files.run(Request::Unlink { dir, name: name.into() })?;
        self.names.remove(&ino);
        let handle = self.open.remove(&ino).expect("picked").handle;
        self.files.run(Request::Release { handle })?;
        self.files.run(Request::Forget { ino, count: 1 })?;
        Ok(())
    }

    fn rename(&mut self, directory: bool) -> Result<(), Errno> {
        let Some(ino) = self.pick(directory) else { return Ok(()) };
        let Some(to_dir) = self.pick(true) else { return Ok(()) };
        if ino == ROOT || self.is_below(to_dir, ino) {
            return Ok(());
        }
        let moved: Vec<Ino> =
            self.promised.iter().copied().filter(|&file| self.is_below(file, ino)).collect();
        for file in moved {
            self.promised.remove(&file);
        }
        let ((dir, name), to_name) = (self.names[&ino].clone(), self.name());
        let (from, to) = (name.into(), Bytes::from(to_name.clone()));
        let how = RenameHow::Replace;
        self.files.run(Request::Rename { dir, name: from, to_dir, to_name: to, how })?;
        self.names.insert(ino, (to_dir, to_name));
        Ok(())
    }

    fn fsync(&mut self) -> Result<(), Errno> {
        let Some(ino) = self.pick(false) else { return Ok(()) };
        let data_only = self.random.below(2) == 0;
        self.files.run(Request::Fsync { ino, data_only })?;
        self.promised.insert(ino);
        Ok(())
    }

    fn step(&mut self) -> Result<(), Errno> {
        match self.random.below(32) {
            0..5 => self.create(New::File),
            5 => self.create(New::Directory),
            6..14 => self.write(),
            14..16 => self.truncate(),
            16..20 => self.unlink(),
            20 => self.rename(true),
            21..23 => self.rename(false),
            23..29 => self.fsync(),
            29 => {
                let seconds = self.random.below(12);
                self.files.idle(seconds * SECONDS);
                Ok(())
            }
            30 if self.random.below(8) == 0 => {
                self.files.run(Request::Sync)?;
                self.promised.extend(self.open.keys());
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Runs a program; after `succeed` writes the medium fails, if a number is given. Returns how many
/// promises were kept and whether the file system has failed.
fn run(seed: u64, sizes: (u32, u32), succeed: Option<u64>) -> (usize, bool) {
    let (files, watch) = world(if seed.is_multiple_of(2) { 600 } else { 2000 }, 1 << 20, sizes);
    let mut random = Random(seed);
    let steps = 50 + random.below(800);
    watch.lock().expect("one thread").left = succeed;
    let (names, open) = (BTreeMap::new(), BTreeMap::new());
    let mut p = Program { files, random, names, open, promised: BTreeSet::new(), serial: 0 };
    for _ in 0..steps {
        let result = p.step();
        let failed = p.files.fs().failed();
        match result {
            Ok(()) | Err(Errno::NoSpc) => {}
            Err(errno) => assert!(failed.is_some(), "seed {seed}: {errno:?} without a failure"),
        }
        if failed.is_some() {
            break;
        }
    }
    let failed = p.files.fs().failed().is_some();
    if failed {
        let refused = make(&mut p.files, ROOT, "late", New::File);
        assert!(matches!(refused, Err(Errno::Io | Errno::RoFs)), "seed {seed}: {refused:?}");
        let ino = p.open.keys().next().copied().unwrap_or(ROOT);
        let refused = p.files.run(Request::Fsync { ino, data_only: true });
        assert_eq!(refused, Err(Errno::Io), "seed {seed}: after an error nothing is durable");
    }
    watch.lock().expect("one thread").left = None;
    let promised: Vec<(Vec<String>, Vec<u8>)> =
        p.promised.iter().map(|ino| (p.path(*ino), p.open[ino].content.clone())).collect();
    let mut now = p.files.now();
    let mut node = if failed {
        let (node, result) = p.files.unmount();
        assert!(matches!(result, Err(IoError::Media { .. })), "seed {seed}: {result:?}");
        node
    } else {
        p.files.abandon()
    };
    repair(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be repaired");
    let found = check(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be read");
    assert!(found.list.is_empty(), "seed {seed}: {:?}", found.list);
    let mut files = mount(node, now, 64 << 20);
    for (path, content) in &promised {
        let mut at = ROOT;
        for name in path {
            let request = Request::Lookup { dir: at, name: name.clone().into() };
            at = match files.run(request) {
                Ok(Answer::Object(attr, _)) => attr.ino,
                other => panic!("seed {seed}, {sizes:?}: {path:?} has no {name}: {other:?}"),
            };
        }
        let found = read(&mut files, at).expect("it can be read");
        let same = found == *content;
        let lengths = (found.len(), content.len());
        assert!(same, "seed {seed}, {sizes:?}: content of {path:?} differs, {lengths:?} bytes");
    }
    (promised.len(), failed)
}

const SIZES: [(u32, u32); 3] = [(8192, 1024), (4096, 1024), (8192, 4096)];

/// Seeds of a run, and one that once broke a promise. `SEEKLESS_SCRIPTS=20` runs twenty times as
/// many.
#[expect(clippy::disallowed_methods, reason = "a test may be told how long to run")]
fn seeds(one: u64) -> impl Iterator<Item = u64> {
    let times = std::env::var("SEEKLESS_SCRIPTS").ok().and_then(|text| text.parse().ok());
    let count = 300 * times.unwrap_or(1);
    (0..count).chain((count <= one).then_some(one))
}

#[test]
fn what_fsync_has_promised_is_there_after_a_crash() {
    let kept: usize = seeds(898).map(|seed| run(seed, SIZES[seed as usize % 3], None).0).sum();
    assert!(kept > 600, "only {kept} promises were looked at");
}

#[test]
fn what_fsync_has_promised_survives_a_device_that_fails() {
    let mut random = Random(5);
    let lasts: Vec<u64> = (0..=seeds(1086).max().unwrap_or(0)).map(|_| random.below(600)).collect();
    let fails = |seed| run(seed, SIZES[seed as usize % 3], Some(lasts[seed as usize]));
    let results: Vec<_> = seeds(1086).map(fails).collect();
    let kept: usize = results.iter().map(|one| one.0).sum();
    let failed = results.iter().filter(|one| one.1).count();
    assert!(kept > 300 && failed > 100, "{kept} promises, {failed} failures");
}

/// The content of a file after a crash and a repair.
fn after_crash(files: Blocking<Ffs>, paths: &[&[&str]]) -> Vec<Result<Vec<u8>, Errno>> {
    let mut now = files.now();
    let mut node = files.abandon();
    repair(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be repaired");
    let found = check(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be read");
    assert!(found.list.is_empty(), "{:?}", found.list);
    let mut files = mount(node, now, 64 << 20);
    let mut content = |path: &&[&str]| {
        let mut at = ROOT;
        for name in *path {
            match files.run(Request::Lookup { dir: at, name: Bytes::from((*name).to_owned()) })? {
                Answer::Object(attr, _) => at = attr.ino,
                other => panic!("{other:?}"),
            }
        }
        read(&mut files, at)
    };
    paths.iter().map(&mut content).collect()
}

/// A sync of a directory makes its names durable, each with an inode. Content waits for a sync of
/// the file.
#[test]
fn fsync_of_a_directory_leaves_content_to_the_files() {
    let (mut files, _) = world(4096, 64 << 20, (8192, 4096));
    let (_, handle) = make(&mut files, ROOT, "new", New::File).expect("there is room");
    write(&mut files, handle, 0, vec![7; 8192]).expect("there is room");
    files.run(Request::Fsync { ino: ROOT, data_only: false }).expect("nothing fails");
    let found = after_crash(files, &[&["new"]]).remove(0).expect("the name is durable");
    assert_ne!(found, vec![7; 8192], "the content was not synced");
}

/// The tail of a synced file moves when the file grows. Until the disk has it at the new place, it
/// stays at the old one, and no other file gets the space.
#[test]
fn what_was_synced_stays_when_the_tail_of_a_file_moves() {
    for (bytes, rests) in [(3000, 0), (3000, 7), (1000, 31), (5000, 40)] {
        let (mut files, _) = world(4096, 64 << 20, (8192, 1024));
        let (ino, handle) = make(&mut files, ROOT, "log", New::File).expect("there is room");
        write(&mut files, handle, 0, vec![7; bytes]).expect("there is room");
        files.run(Request::Fsync { ino, data_only: false }).expect("nothing fails");
        // It cannot grow in place.
        let (_, other) = make(&mut files, ROOT, "other", New::File).expect("there is room");
        write(&mut files, other, 0, vec![8; 1000]).expect("there is room");
        write(&mut files, handle, bytes as u64, vec![9; 2000]).expect("there is room");
        let (next, third) = make(&mut files, ROOT, "third", New::File).expect("there is room");
        write(&mut files, third, 0, vec![5; 3000]).expect("there is room");
        files.idle(rests * SECONDS);
        files.run(Request::Fsync { ino: next, data_only: false }).expect("nothing fails");
        let found = after_crash(files, &[&["log"], &["third"]]);
        let [Ok(log), Ok(third)] = &found[..] else { panic!("{found:?}") };
        assert!(log.starts_with(&vec![7; bytes]), "{bytes} bytes, {rests} s: {}", log.len());
        assert_eq!(*third, vec![5; 3000], "{bytes} bytes, {rests} s");
    }
}

/// The volume still has a deleted file that claims the blocks. Whichever of two claims a repair
/// believes, by number of inode or by name, files on both sides must win.
#[test]
fn files_keep_blocks_of_which_the_former_owner_is_still_on_the_volume() {
    let (mut files, _) = world(1024, 64 << 20, (8192, 4096));
    let (old, _) = make(&mut files, ROOT, "old", New::Directory).expect("there is room");
    let (new, _) = make(&mut files, ROOT, "new", New::Directory).expect("there is room");
    // Each inode is in a block of its own: a write of one carries no other of the three.
    let between = |files: &mut Blocking<Ffs>, which: &str| {
        for number in 0..100 {
            make(files, new, &format!("{which}{number}"), New::File).expect("there is room");
        }
    };
    let low = make(&mut files, new, "low", New::File).expect("there is room");
    between(&mut files, "a");
    let (gone, handle) = make(&mut files, old, "gone", New::File).expect("there is room");
    between(&mut files, "b");
    let high = make(&mut files, new, "high", New::File).expect("there is room");
    assert!(low.0 < gone && gone < high.0, "{low:?} {gone} {high:?}");
    let full =
        (0..1024).find_map(|block| write(&mut files, handle, block * 8192, vec![9; 8192]).err());
    assert_eq!(full, Some(Errno::NoSpc), "no other blocks are left");
    files.run(Request::Sync).expect("nothing fails");
    files.run(Request::Unlink { dir: old, name: "gone".into() }).expect("it is there");
    files.run(Request::Release { handle }).expect("it is open");
    files.run(Request::Forget { ino: gone, count: 1 }).expect("it was looked up");
    for (value, (ino, handle)) in [(1, low), (2, high)] {
        write(&mut files, handle, 0, vec![value; 24_576]).expect("its blocks are free");
        files.run(Request::Fsync { ino, data_only: false }).expect("nothing fails");
    }
    let found = after_crash(files, &[&["new", "low"], &["new", "high"]]);
    assert_eq!(found, [Ok(vec![1; 24_576]), Ok(vec![2; 24_576])]);
}

/// The inode lies two blocks of the table behind the mark that the volume knows.
#[test]
fn a_file_is_found_where_the_table_of_inodes_has_grown() {
    let (mut files, _) = world(2000, 64 << 20, (8192, 4096));
    let mut last = (ROOT, 0);
    for number in 0..200 {
        let name = format!("f{number}");
        last = make(&mut files, ROOT, &name, New::File).expect("there is room");
    }
    write(&mut files, last.1, 0, vec![3; 5000]).expect("there is room");
    files.run(Request::Fsync { ino: last.0, data_only: false }).expect("nothing fails");
    assert_eq!(after_crash(files, &[&["f199"]]), [Ok(vec![3; 5000])]);
}
