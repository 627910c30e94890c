//! Trims of free space: what is given back, and that no file and no state after a crash uses it.

use bytes::Bytes;
use seekless_engine::data::Body;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_BYTES, SECONDS};
use seekless_formats::ffs::{self, Ffs, check, mkfs, repair};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, Errno, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;

use super::images::medium::Shared;

const BLOCKS: u64 = 2048;
const ALL: Request = Request::Trim { from: 0, to: u64::MAX, least: 0 };
const POLICIES: [PolicyKind; 3] = [PolicyKind::Async, PolicyKind::Sync, PolicyKind::Soft];

/// A file system on a medium that others can look at. What is free there holds garbage.
fn made(policy: PolicyKind, read_only: bool) -> (Blocking<Ffs>, Shared) {
    let mut cells = Cells::new(BLOCKS);
    for at in 0..BLOCKS {
        cells.set(at, Body::Bytes(vec![0xee; BLOCK_BYTES].into()));
    }
    mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("it fits");
    let medium = Shared::new(cells);
    (mount(&medium, policy, read_only), medium)
}

fn mount(medium: &Shared, policy: PolicyKind, read_only: bool) -> Blocking<Ffs> {
    let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
    let mut options = MountOptions { policy, now: 1, ..MountOptions::default() };
    options.core.read_only = read_only;
    Blocking::mount_at(node, 0, |disk| ffs::mount(disk, &options)).expect("it can be mounted")
}

fn name(number: u8) -> Bytes {
    Bytes::from(format!("f{number}"))
}

fn file(files: &mut Blocking<Ffs>, number: u8, bytes: usize) {
    let what = New::File;
    let make = Request::Make { dir: ROOT, name: name(number), what, mode: 0o644, open: true };
    let made = files.run(make).expect("there is room");
    let Answer::Object(_, Some(handle)) = made else { panic!("{made:?}") };
    let data = Bytes::from(vec![number; bytes]);
    let write = Request::Write { handle, at: 0, data, append: false };
    assert_eq!(files.run(write), Ok(Answer::Written(bytes as u32)));
    files.run(Request::Release { handle }).expect("it is open");
}

fn content(files: &mut Blocking<Ffs>, number: u8) -> Option<Vec<u8>> {
    let found = files.run(Request::Lookup { dir: ROOT, name: name(number) }).ok()?;
    let Answer::Object(attr, _) = found else { panic!("{found:?}") };
    let opened = files.run(Request::Open { ino: attr.ino, truncate: false }).expect("a file");
    let Answer::Opened(handle) = opened else { panic!("{opened:?}") };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < attr.size {
        let read = Request::Read { handle, at: bytes.len() as u64, length: 1 << 20 };
        let Ok(Answer::Bytes(more)) = files.run(read) else { panic!("it cannot be read") };
        bytes.extend_from_slice(&more);
    }
    files.run(Request::Release { handle }).expect("it is open");
    Some(bytes)
}

fn trimmed(files: &mut Blocking<Ffs>, request: Request) -> u64 {
    match files.run(request) {
        Ok(Answer::Trimmed(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn free_bytes(files: &mut Blocking<Ffs>) -> u64 {
    match files.run(Request::Space) {
        Ok(Answer::Space(space)) => space.free * u64::from(space.fragment_bytes),
        other => panic!("{other:?}"),
    }
}

fn garbage(medium: &Shared) -> u64 {
    let mut cells = medium.cells();
    let is_garbage =
        |at: &u64| cells.read(*at, 1).expect("memory").to_bytes()[..] == [0xee; BLOCK_BYTES];
    (0..BLOCKS).filter(is_garbage).count() as u64
}

#[test]
fn free_space_goes_back_and_files_stay() {
    for policy in POLICIES {
        let (mut files, medium) = made(policy, false);
        (1..=20).for_each(|number| file(&mut files, number, usize::from(number) * 5000));
        (1..=20).filter(|number| number % 3 == 0).for_each(|number| {
            files.run(Request::Unlink { dir: ROOT, name: name(number) }).expect("it is there");
        });
        let before = garbage(&medium);
        let bytes = trimmed(&mut files, ALL);
        let free = free_bytes(&mut files);
        assert!(bytes <= free && bytes > free * 9 / 10, "{policy:?}: {bytes} of {free}");
        // The rest held removed files.
        let gone = (before - garbage(&medium)) * BLOCK_BYTES as u64;
        assert!(gone > bytes * 8 / 10, "{policy:?}: {gone} of {bytes}");
        assert_eq!(trimmed(&mut files, ALL), bytes, "a second time");
        for number in 1..=20 {
            let wanted = (number % 3 != 0).then(|| vec![number; usize::from(number) * 5000]);
            assert_eq!(content(&mut files, number), wanted, "{policy:?}: file {number}");
        }
        // What was given back is used again.
        file(&mut files, 99, 1 << 20);
        let (mut node, ended) = files.unmount();
        assert_eq!(ended, Ok(()));
        let found = check(&mut NodeDisk::new(&mut node, &mut (1 << 60))).expect("it can be read");
        assert!(found.is_clean(), "{found}");
        let mut files = mount(&medium, policy, false);
        assert_eq!(content(&mut files, 99), Some(vec![99; 1 << 20]));
    }
}

/// The removal of a file is not durable when the trim is asked for. It is when its blocks go.
#[test]
fn a_trim_makes_what_it_gives_back_free_on_the_disk_first() {
    for policy in POLICIES {
        let (mut files, medium) = made(policy, false);
        (1..=8).for_each(|number| file(&mut files, number, 60_000));
        files.run(Request::Sync).expect("the device works");
        for number in [2, 5] {
            files.run(Request::Unlink { dir: ROOT, name: name(number) }).expect("it is there");
        }
        let before = files.now();
        trimmed(&mut files, ALL);
        assert!(
            files.now() < before + SECONDS,
            "{policy:?}: it waits for no write that is due late"
        );
        // The power goes.
        let mut cells = medium.cells();
        drop(files);
        repair(&mut MediumDisk(&mut cells)).expect("it can be repaired");
        let mut files = mount(&Shared::new(cells), policy, false);
        for number in 1..=8 {
            let wanted = ![2, 5].contains(&number);
            assert_eq!(content(&mut files, number), wanted.then(|| vec![number; 60_000]));
        }
    }
}

#[test]
fn the_range_and_the_shortest_run_count() {
    let (mut files, _) = made(PolicyKind::Async, false);
    let all = trimmed(&mut files, ALL);
    let middle = BLOCKS / 2 * BLOCK_BYTES as u64;
    let lower = trimmed(&mut files, Request::Trim { from: 0, to: middle, least: 0 });
    let upper = trimmed(&mut files, Request::Trim { from: middle, to: u64::MAX, least: 0 });
    assert_eq!(lower + upper, all);
    assert!(lower > 0 && upper > 0);
    assert_eq!(trimmed(&mut files, Request::Trim { from: middle, to: middle, least: 0 }), 0);
    let least = BLOCKS * BLOCK_BYTES as u64;
    assert_eq!(trimmed(&mut files, Request::Trim { from: 0, to: u64::MAX, least }), 0);
}

#[test]
fn a_mount_that_only_reads_gives_nothing_back() {
    let (files, medium) = made(PolicyKind::Async, false);
    assert_eq!(files.unmount().1, Ok(()));
    let before = garbage(&medium);
    let mut files = mount(&medium, PolicyKind::Async, true);
    assert_eq!(files.run(ALL), Err(Errno::RoFs));
    assert_eq!(garbage(&medium), before);
}
