//! Clusters over the real cache: how many extents a file has, and when it may move.

use super::of;
use crate::ffs::space::map;
use crate::ffs::{self, Ffs, Fragment, inodes};
use crate::ffs::{check, mkfs};
use crate::{MkfsOptions, MountOptions};
use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::node::Node;
use seekless_engine::units::SECONDS;
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, Handle, Ino, New, ROOT, Request};
use seekless_fs::core::tx::CoreTx;

const BLOCK: usize = 8192;

type Files = Blocking<Ffs>;

/// An empty file system of 16 MiB; clusters of `maxcontig` blocks, or of 64 KiB.
fn mounted(maxcontig: Option<u32>) -> Files {
    let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(4096)))));
    let options = MkfsOptions { block: 8192, fragment: 1024, ..MkfsOptions::default() };
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("it fits");
    let mut files = mount(node);
    if let Some(blocks) = maxcontig {
        files.fs_mut().parts_mut().0.volume.maxcontig = blocks;
    }
    files
}

fn mount(node: Node) -> Files {
    Blocking::mount(node, |disk| ffs::mount(disk, &MountOptions::default())).expect("it is clean")
}

fn make(files: &mut Files, name: &str) -> (Ino, Handle) {
    let name = Bytes::copy_from_slice(name.as_bytes());
    let make = Request::Make { dir: ROOT, name, what: New::File, mode: 0o644, open: true };
    match files.run(make) {
        Ok(Answer::Object(attr, Some(handle))) => (attr.ino, handle),
        other => panic!("{other:?}"),
    }
}

fn remove(files: &mut Files, name: &str, (ino, handle): (Ino, Handle)) {
    let name = Bytes::copy_from_slice(name.as_bytes());
    files.run(Request::Unlink { dir: ROOT, name }).expect("it is there");
    files.run(Request::Release { handle }).expect("it is open");
    files.run(Request::Forget { ino, count: 1 }).expect("it is known");
}

/// Content that differs from block to block and from file to file.
fn content(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|n| (n * 7 + n / 512 * 13 + seed * 31) as u8).collect()
}

fn write(files: &mut Files, handle: Handle, at: u64, data: &[u8]) -> Result<Answer, Errno> {
    let data = Bytes::copy_from_slice(data);
    files.run(Request::Write { handle, at, data, append: false })
}

/// Appends content in writes of `step` bytes.
fn fill(files: &mut Files, (ino, handle): (Ino, Handle), length: usize, step: usize) {
    let data = content(ino, length);
    for (n, part) in data.chunks(step).enumerate() {
        let written = write(files, handle, (n * step) as u64, part);
        assert_eq!(written, Ok(Answer::Written(part.len() as u32)));
    }
}

fn read(files: &mut Files, handle: Handle, length: usize) -> Bytes {
    match files.run(Request::Read { handle, at: 0, length: length as u32 }) {
        Ok(Answer::Bytes(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn places(files: &mut Files, ino: Ino) -> Vec<Fragment> {
    let (format, core) = files.fs_mut().parts_mut();
    let mut tx = CoreTx::new(core, 0);
    let inode = inodes::get(&mut tx, &format.volume, ino).expect("it is cached");
    let blocks = inode.size_blocks(&format.volume.geometry);
    let at = |index| map::address(&mut tx, &format.volume, &inode, index).expect("it is cached");
    let places = (0..blocks).map(at).collect();
    tx.undo();
    places
}

/// Runs of adjacent blocks.
fn extents(files: &mut Files, ino: Ino) -> usize {
    let each = files.fs().format().volume.geometry.fragments_per_block();
    let places = places(files, ino);
    1 + places.windows(2).filter(|pair| pair[0] + each != pair[1]).count()
}

/// The first part of the volume has a hole of one block beside each block in use. Searches begin
/// there.
fn checkerboard(files: &mut Files) -> Vec<(Ino, Handle)> {
    let small: Vec<(Ino, Handle)> = (0..800).map(|n| make(files, &format!("small {n}"))).collect();
    for &file in &small {
        fill(files, file, BLOCK, BLOCK);
    }
    let (mut kept, mut n) = (Vec::new(), 0);
    for file in small {
        match n % 2 {
            0 => kept.push(file),
            _ => remove(files, &format!("small {n}"), file),
        }
        n += 1;
    }
    files.run(Request::Sync).expect("memory does not fail");
    // Searches begin where small files are.
    for group in 0..files.fs().format().volume.geometry.groups() {
        files.fs_mut().parts_mut().0.volume.change_group(group, |group| group.block_rotor = 0);
    }
    files.fs_mut().parts_mut().0.volume.commit();
    kept
}

/// Nothing but the time of the last sync may be wrong after an unmount; content is checked again.
fn close(files: Files, expected: &[(Ino, usize)]) {
    let (mut node, stopped) = files.unmount();
    assert_eq!(stopped, Ok(()));
    let found = check(&mut NodeDisk::new(&mut node, &mut 0)).expect("it can be read");
    assert!(found.is_clean(), "{found}");
    let mut files = mount(node);
    for &(ino, length) in expected {
        let Ok(Answer::Opened(handle)) = files.run(Request::Open { ino, truncate: false }) else {
            panic!("inode {ino} cannot be opened")
        };
        assert_eq!(read(&mut files, handle, length), content(ino, length), "inode {ino}");
    }
}

/// Extents of a file of 40 blocks that is appended to in steps, on a fragmented volume.
fn fragmented(maxcontig: Option<u32>, step: usize) -> usize {
    let mut files = mounted(maxcontig);
    checkerboard(&mut files);
    let file = make(&mut files, "large");
    let length = 40 * BLOCK;
    fill(&mut files, file, length, step);
    let count = extents(&mut files, file.0);
    close(files, &[(file.0, length)]);
    count
}

#[test]
fn a_file_on_a_fragmented_volume_gets_whole_clusters() {
    for step in [1024, 3000, BLOCK, 5 * BLOCK, 40 * BLOCK] {
        let (with, without) = (fragmented(None, step), fragmented(Some(1), step));
        // The indirect block stands behind the twelfth block.
        assert!(with <= 7, "{with} extents in steps of {step}");
        assert!(without > 30, "{without} extents in steps of {step} without clusters");
    }
}

#[test]
fn files_that_grow_side_by_side_come_apart() {
    let run = |maxcontig| {
        let mut files = mounted(maxcontig);
        let (a, b) = (make(&mut files, "a"), make(&mut files, "b"));
        let length = 28 * BLOCK;
        for at in (0..length).step_by(BLOCK) {
            for (ino, handle) in [a, b] {
                let part = &content(ino, length)[at..at + BLOCK];
                write(&mut files, handle, at as u64, part).expect("there is room");
            }
        }
        let counts = (extents(&mut files, a.0), extents(&mut files, b.0));
        close(files, &[(a.0, length), (b.0, length)]);
        counts
    };
    let (with, without) = (run(None), run(Some(1)));
    assert!(with.0 <= 5 && with.1 <= 5, "{with:?}");
    assert!(without.0 >= 28 && without.1 >= 28, "{without:?}");
}

/// What moves must be new: a block that was written stays where it is.
#[test]
fn written_blocks_stay() {
    let mut files = mounted(None);
    let (a, b) = (make(&mut files, "a"), make(&mut files, "b"));
    let length = 8 * BLOCK;
    for at in (0..length).step_by(BLOCK) {
        if at == 7 * BLOCK {
            files.run(Request::Fsync { ino: a.0, data_only: true }).expect("memory does not fail");
        }
        for (ino, handle) in [a, b] {
            let part = &content(ino, length)[at..at + BLOCK];
            write(&mut files, handle, at as u64, part).expect("there is room");
        }
    }
    assert_eq!((extents(&mut files, a.0), extents(&mut files, b.0)), (8, 1));
    // Rewritten blocks are dirty, but not new.
    let before = places(&mut files, a.0);
    fill(&mut files, a, length, BLOCK);
    assert_eq!(places(&mut files, a.0), before);
    close(files, &[(a.0, length), (b.0, length)]);
}

#[test]
fn a_full_cluster_goes_out_at_once_and_the_rest_by_age() {
    let mut files = mounted(None);
    let file = make(&mut files, "f");
    fill(&mut files, file, 7 * BLOCK, BLOCK);
    files.idle(SECONDS);
    assert_eq!(files.fs().core().stats().blocks_written, 0);
    fill(&mut files, file, 9 * BLOCK, BLOCK);
    files.idle(SECONDS);
    let stats = *files.fs().core().stats();
    assert_eq!((stats.writes, stats.blocks_written), (1, 16), "one write of 64 KiB");
    files.idle(40 * SECONDS);
    assert!(files.fs().core().stats().blocks_written >= 18);
}

/// A write that finds no space takes its move back.
#[test]
fn a_move_is_undone_with_its_write() {
    let mut files = mounted(None);
    checkerboard(&mut files);
    let file = make(&mut files, "f");
    fill(&mut files, file, 7 * BLOCK, BLOCK);
    let before = places(&mut files, file.0);
    let free = files.fs().format().volume.free_fragments();
    let (format, core) = files.fs_mut().parts_mut();
    let mut tx = CoreTx::new(core, 0);
    let data = content(file.0, 8 * BLOCK);
    let who = seekless_fs::call::Credentials::default();
    let place = (7 * BLOCK as u64, false);
    let written = crate::ffs::ops::write::write(
        &mut tx,
        &mut format.volume,
        who,
        file.0,
        place,
        &data[7 * BLOCK..],
    );
    assert!(written.is_ok());
    let inode = inodes::get(&mut tx, &format.volume, file.0).expect("it is cached");
    let moved = map::address(&mut tx, &format.volume, &inode, 0).expect("it is cached");
    assert_ne!(moved, before[0], "the cluster has moved");
    tx.undo();
    format.volume.roll_back();
    assert_eq!(places(&mut files, file.0), before);
    assert_eq!(files.fs().format().volume.free_fragments(), free);
    fill(&mut files, file, 8 * BLOCK, BLOCK);
    assert_eq!(extents(&mut files, file.0), 1);
    close(files, &[(file.0, 8 * BLOCK)]);
}

#[test]
fn clusters_cover_a_file_without_overlap() {
    let mut files = mounted(None);
    let vol = &mut files.fs_mut().parts_mut().0.volume;
    vol.maxbpg = 20;
    let mut next = 0;
    let mut lengths = Vec::new();
    while next < 60 {
        let range = of(vol, next);
        assert_eq!(range.start, next);
        assert!(range.clone().all(|index| of(vol, index) == range));
        lengths.push(range.end - range.start);
        next = range.end;
    }
    assert_eq!(lengths, [8, 4, 8, 8, 4, 8, 8, 4, 8], "sections of 12, 20, 20 and 20 blocks");
}
