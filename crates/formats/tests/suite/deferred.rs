//! Soft updates put deletions off: what that saves, and what does not wait for them.

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::node::Node;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem as _;

fn made(blocks: u64) -> Node {
    let mut node = Plain::node(Box::new(Ram::new(Box::new(Cells::new(blocks)))));
    let options = MkfsOptions { bytes_per_inode: 8192, ..MkfsOptions::default() };
    mkfs(&mut NodeDisk::new(&mut node, &mut 0), &options).expect("it fits");
    node
}

fn mount(node: Node, now: Time, policy: PolicyKind) -> Blocking<Ffs> {
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options)).expect("it is clean")
}

fn name(number: usize) -> Bytes {
    Bytes::from(format!("f{number}"))
}

fn file(files: &mut Blocking<Ffs>, number: usize, bytes: usize) -> Result<u32, Errno> {
    let make =
        Request::Make { dir: ROOT, name: name(number), what: New::File, mode: 0o644, open: true };
    let (ino, handle) = match files.run(make)? {
        Answer::Object(attr, Some(handle)) => (attr.ino, handle),
        other => panic!("{other:?}"),
    };
    files.run(Request::Forget { ino, count: 1 })?;
    let mut written = 0;
    while (written as usize) < bytes {
        let data = Bytes::from(vec![7; (bytes - written as usize).min(64 << 10)]);
        match files.run(Request::Write { handle, at: u64::from(written), data, append: false }) {
            Ok(Answer::Written(count)) => written += count,
            _ => break,
        }
    }
    files.run(Request::Release { handle })?;
    Ok(written)
}

fn unlink(files: &mut Blocking<Ffs>, number: usize) {
    files.run(Request::Unlink { dir: ROOT, name: name(number) }).expect("it is there");
}

fn counter(files: &Blocking<Ffs>, name: &str) -> u64 {
    let stats = files.fs().stats();
    stats.iter().find(|one| one.0 == name).expect("a counter").1 as u64
}

fn ends_clean(files: Blocking<Ffs>) {
    let (mut node, ended) = files.unmount();
    assert_eq!(ended, Ok(()));
    let found = check(&mut NodeDisk::new(&mut node, &mut (1 << 60))).expect("it can be read");
    assert!(found.is_clean() && found.unmounted, "{found}");
}

/// A file system with files of one indirect block each, none of which is in the cache.
fn cold(policy: PolicyKind, count: usize) -> Blocking<Ffs> {
    let mut files = mount(made(4096), 0, policy);
    for number in 0..count {
        assert_eq!(file(&mut files, number, 104 << 10), Ok(104 << 10));
    }
    files.run(Request::Sync).expect("the device works");
    let now = files.now();
    let (node, ended) = files.unmount();
    assert_eq!(ended, Ok(()));
    let mut files = mount(node, now, policy);
    files.run(Request::Lookup { dir: ROOT, name: name(0) }).expect("it is there");
    files
}

#[test]
fn a_full_disk_with_pending_frees_takes_a_write() {
    let mut files = mount(made(1024), 0, PolicyKind::Soft);
    let all = file(&mut files, 0, 8 << 20).expect("an inode is free");
    assert!(all < 8 << 20 && all > 2 << 20, "{all} bytes fit");
    files.run(Request::Sync).expect("the device works");
    assert_eq!(file(&mut files, 1, 8192), Ok(0), "it is full");
    unlink(&mut files, 0);
    assert_eq!(file(&mut files, 2, 1 << 20), Ok(1 << 20), "the space comes back at once");
    ends_clean(files);
}

#[test]
fn files_that_were_never_written_cost_no_write_of_theirs() {
    let mut files = mount(made(4096), 0, PolicyKind::Soft);
    files.run(Request::Sync).expect("the device works");
    let before = (counter(&files, "blocks written"), counter(&files, "metadata blocks written"));
    for number in 0..200 {
        assert_eq!(file(&mut files, number, 20 << 10), Ok(20 << 10));
        unlink(&mut files, number);
    }
    let written = |files: &Blocking<Ffs>| {
        let metadata = counter(files, "metadata blocks written") - before.1;
        (counter(files, "blocks written") - before.0 - metadata, metadata)
    };
    assert_eq!(written(&files), (0, 0), "nothing while they come and go");
    files.idle(120 * SECONDS);
    let (data, metadata) = written(&files);
    assert_eq!(data, 0, "no content of theirs");
    assert!(metadata < 20, "{metadata} blocks for the times of the directory and the maps");
    ends_clean(files);
}

#[test]
fn a_deletion_does_not_read_in_the_way_of_calls() {
    let reads = |policy| {
        let mut files = cold(policy, 30);
        let before = counter(&files, "metadata reads");
        (1..30).for_each(|number| unlink(&mut files, number));
        let at_once = counter(&files, "metadata reads") - before;
        files.idle(5 * SECONDS);
        let in_all = counter(&files, "metadata reads") - before;
        ends_clean(files);
        (at_once, in_all)
    };
    let (at_once, in_all) = reads(PolicyKind::Soft);
    // Inodes and names are read; the 29 indirect blocks are not.
    assert!(at_once < 5 && in_all >= at_once + 29, "{at_once} of {in_all}");
    let (at_once, in_all) = reads(PolicyKind::Async);
    assert!(at_once >= 28 && in_all >= 29, "{at_once} of {in_all}");
}

#[test]
fn a_sync_makes_the_deletions_durable_that_were_put_off() {
    let mut files = cold(PolicyKind::Soft, 10);
    let free = counter(&files, "free fragments");
    (0..10).for_each(|number| unlink(&mut files, number));
    assert_eq!(counter(&files, "free fragments"), free);
    files.run(Request::Sync).expect("the device works");
    assert!(counter(&files, "free fragments") > free, "what it waits for is freed soon");
    ends_clean(files);
}

#[test]
fn an_unmount_ends_the_deletions_that_were_put_off() {
    let mut files = cold(PolicyKind::Soft, 10);
    (1..10).for_each(|number| unlink(&mut files, number));
    ends_clean(files);
}

#[test]
fn deletions_that_were_put_off_make_room() {
    let mut files = cold(PolicyKind::Soft, 60);
    let free = counter(&files, "free fragments") as usize * 4096;
    let filled = file(&mut files, 100, free * 2).expect("an inode is free");
    assert!((filled as usize) < free, "{filled} of {free}");
    (1..20).for_each(|number| unlink(&mut files, number));
    assert_eq!(file(&mut files, 101, 1 << 20), Ok(1 << 20));
    ends_clean(files);
}

/// While calls come all the time a deletion waits for half a minute.
#[test]
fn a_deletion_that_has_waited_for_long_does_not_wait_for_idle_time() {
    let mut files = cold(PolicyKind::Soft, 5);
    (1..5).for_each(|number| unlink(&mut files, number));
    let before = counter(&files, "metadata reads");
    for _ in 0..330 {
        files.idle(90 * MILLIS);
        files.run(Request::Space).expect("always");
    }
    assert_eq!(counter(&files, "metadata reads"), before, "calls come all the time");
    for _ in 0..20 {
        files.idle(90 * MILLIS);
        files.run(Request::Space).expect("always");
    }
    assert!(counter(&files, "metadata reads") >= before + 4);
    ends_clean(files);
}
