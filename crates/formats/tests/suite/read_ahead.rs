//! Read-ahead, as the device sees it: which reads come, and when.

#![expect(clippy::single_range_in_vec_init, reason = "a list of one read is meant")]

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::io::{Io, Op};
use seekless_engine::middleware::record::{Event, Log, Record};
use seekless_engine::node::Node;
use seekless_formats::ffs::{self, Ffs, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Handle, Ino, New, ROOT, Request};
use seekless_fs::core::CoreOptions;
use std::ops::Range;

const BLOCK: u64 = 8192;
/// Blocks of the file behind its hole.
const BLOCKS: u64 = 200;

struct World {
    files: Blocking<Ffs>,
    log: Log,
    handle: Handle,
    /// The first block of the file on the volume.
    base: u64,
}

fn mount(node: Node, now: u64, read_ahead_bytes: u32) -> Blocking<Ffs> {
    let core = CoreOptions { read_ahead_bytes, ..CoreOptions::default() };
    let options = MountOptions { core, ..MountOptions::default() };
    Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

fn open(files: &mut Blocking<Ffs>, ino: Ino) -> Handle {
    match files.run(Request::Open { ino, truncate: false }) {
        Ok(Answer::Opened(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

/// A file that is not in the cache. Inode and indirect block are.
fn world(read_ahead_bytes: u32) -> World {
    let ram = Ram::new(Box::new(Cells::new(8192)));
    let (device, log) = Record::new(Box::new(ram));
    let mut node = Plain::node(Box::new(device));
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &MkfsOptions::default()).expect("it fits");
    let mut files = mount(node, 0, 0);
    let name = Bytes::from_static(b"file");
    let make = Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true };
    let Ok(Answer::Object(attr, Some(handle))) = files.run(make) else { panic!("there is room") };
    // The first twelve blocks are a hole: those of the indirect block lie in one row.
    let data = Bytes::from(vec![7; (BLOCKS * BLOCK) as usize]);
    let written = files.run(Request::Write { handle, at: 12 * BLOCK, data, append: false });
    assert_eq!(written, Ok(Answer::Written((BLOCKS * BLOCK) as u32)));
    let now = files.now();
    let (node, stopped) = files.unmount();
    assert_eq!(stopped, Ok(()));
    let mut files = mount(node, now, read_ahead_bytes);
    let handle = open(&mut files, attr.ino);
    log.lend().clear();
    let mut world = World { files, log, handle, base: 0 };
    let last = world.read(BLOCKS - 1, 1).pop().expect("it is not in the cache");
    world.base = last.start - (BLOCKS - 1);
    world.handle = open(&mut world.files, attr.ino);
    world
}

impl World {
    /// Reads blocks of the file; gives the reads of the device, as blocks of the file.
    fn read(&mut self, index: u64, count: u64) -> Vec<Range<u64>> {
        let (handle, at) = (self.handle, (12 + index) * BLOCK);
        let length = (count * BLOCK) as u32;
        match self.files.run(Request::Read { handle, at, length }) {
            Ok(Answer::Bytes(bytes)) => assert_eq!(bytes.len() as u64, count * BLOCK),
            other => panic!("{other:?}"),
        }
        self.files.idle(0);
        let mut reads = Vec::new();
        for event in self.log.lend().drain(..) {
            if let Event::Submitted { io: Io { op: Op::Read, at, count, .. }, .. } = event {
                let at = (at / 2) - self.base;
                reads.push(at..at + u64::from(count) / 2);
            }
        }
        reads
    }
}

#[test]
fn the_second_sequential_read_starts_it_and_the_window_doubles() {
    let mut world = world(128 << 10);
    assert_eq!(world.read(0, 1), [0..1]);
    assert_eq!(world.read(1, 1), [1..2, 2..3], "a window of one block");
    let mut ahead = 3;
    let mut windows = Vec::new();
    for index in 2..60 {
        for read in world.read(index, 1) {
            assert_eq!(read.start, ahead, "nothing is read twice, and nothing is left out");
            ahead = read.end;
            windows.push(ahead - index - 1);
        }
        assert!(index < ahead, "block {index} came before it was asked for");
    }
    assert_eq!(windows[..4], [2, 4, 8, 16]);
    assert!(windows[4..].iter().all(|&window| window == 16), "{windows:?}: at most 128 KiB");
    assert!(windows.len() < 12, "{windows:?}: reads are large");
}

#[test]
fn the_window_ends_with_the_file() {
    let mut world = world(128 << 10);
    let mut last = 0;
    for index in BLOCKS - 30..BLOCKS - 1 {
        for read in world.read(index, 1) {
            last = last.max(read.end);
        }
    }
    assert_eq!(last, BLOCKS - 1, "the last block is in the cache");
}

#[test]
fn random_reads_start_none() {
    let mut world = world(128 << 10);
    for index in [50, 10, 90, 30, 32, 31, 120] {
        assert_eq!(world.read(index, 1), [index..index + 1]);
    }
    // A seek ends what sequential reads have begun.
    (60..70).for_each(|index| drop(world.read(index, 1)));
    assert_eq!(world.read(150, 1), [150..151]);
    assert_eq!(world.read(151, 1), [151..152, 152..153], "it begins again with one block");
}

#[test]
fn two_handles_do_not_disturb_each_other() {
    let mut world = world(128 << 10);
    let first = world.handle;
    let Ok(Answer::Object(attr, _)) =
        world.files.run(Request::Lookup { dir: ROOT, name: Bytes::from_static(b"file") })
    else {
        panic!("it is there")
    };
    let second = open(&mut world.files, attr.ino);
    world.log.lend().clear();
    for index in 0..20 {
        world.handle = first;
        let reads = world.read(index, 1);
        assert!(index < 2 || reads.first().is_none_or(|read| read.start > index));
        world.handle = second;
        let reads = world.read(100 + index, 1);
        assert!(index < 2 || reads.first().is_none_or(|read| read.start > 100 + index));
    }
}

#[test]
fn without_a_window_there_is_none() {
    let mut world = world(0);
    for index in 0..40 {
        assert_eq!(world.read(index, 1), [index..index + 1]);
    }
    assert_eq!(world.files.fs().core().stats().read_ahead, 0);
}
