//! Damaged images: a check names what is wrong, a repair mends it, and nothing panics.

use super::{BLOCKS, image, mount, node_of, options};
use proptest::prelude::*;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_formats::minix::{self, Finding, Geometry, Inode, check, load, repair};
use seekless_formats::{FsError, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{Answer, FileKind, Ino, New, ROOT, RenameHow, Request, SetAttr, by_inode};
use seekless_fs::policy::PolicyKind;
use std::collections::BTreeSet;

/// A file system with directories, links, a large file with holes, and special files.
pub(super) fn sample(block: u32) -> Cells {
    let mut cells = image(512, &options(block));
    let mut fs = mount(node_of(cells.clone(), true), PolicyKind::Async);
    let mut make = |dir: Ino, name: &str, what: New| -> Ino {
        let request =
            Request::Make { dir, name: name.to_owned().into(), what, mode: 0o755, open: false };
        match fs.run(request) {
            Ok(Answer::Object(attr, _)) => attr.ino,
            other => panic!("{other:?}"),
        }
    };
    let a = make(ROOT, "a", New::Directory);
    let b = make(a, "b", New::Directory);
    let file = make(b, "file", New::File);
    let small = make(ROOT, "small", New::File);
    make(a, "link", New::Symlink("some/where".into()));
    make(a, "pipe", New::Fifo);
    for number in 0..40 {
        make(b, &format!("name{number}"), New::File);
    }
    let each = u64::from(block);
    for at in [0, 6, 7, 8, 300, 7 + each / 4, 7 + each / 4 + 1] {
        let data = vec![at as u8 | 1; block as usize].into();
        let write = Request::Write { handle: by_inode(file), at: at * each, data, append: false };
        fs.run(write).expect("there is room");
    }
    let link = Request::Link { ino: small, dir: b, name: "other".into() };
    fs.run(link).expect("there is room");
    let (mut node, stopped) = fs.unmount();
    assert_eq!(stopped, Ok(()));
    for at in 0..cells.blocks() {
        let data = NodeDisk::new(&mut node, &mut 0).read(at, 1).expect("memory");
        cells.write(at, &data).expect("memory");
    }
    cells
}

fn disk_of(cells: &mut Cells) -> MediumDisk<'_> {
    MediumDisk(cells)
}

pub(super) fn geometry(cells: &mut Cells) -> Geometry {
    load(&mut disk_of(cells)).expect("it is there")
}

pub(super) fn bytes(cells: &mut Cells, at: u64, length: usize) -> Vec<u8> {
    let block = cells.read(at / 4096, 1).expect("memory").to_bytes();
    block[(at % 4096) as usize..][..length].to_vec()
}

pub(super) fn put(cells: &mut Cells, at: u64, bytes: &[u8]) {
    let mut block = cells.read(at / 4096, 1).expect("memory").to_bytes().to_vec();
    block[(at % 4096) as usize..][..bytes.len()].copy_from_slice(bytes);
    cells.write(at / 4096, &Data::bytes(block.into())).expect("memory");
}

fn inode_at(cells: &mut Cells, number: u32) -> u64 {
    let place = geometry(cells).inode_place(number);
    place.page * 4096 + place.at as u64
}

pub(super) fn inode(cells: &mut Cells, number: u32) -> Inode {
    let at = inode_at(cells, number);
    Inode::decode(&bytes(cells, at, 64))
}

pub(super) fn change(cells: &mut Cells, number: u32, change: impl FnOnce(&mut Inode)) {
    let (at, mut inode) = (inode_at(cells, number), inode(cells, number));
    change(&mut inode);
    put(cells, at, &inode.encode());
}

/// Walks what can be reached, reads it, and changes some of it. Errors are right; a panic is not.
fn use_it(fs: &mut Blocking<minix::Minix>) {
    let (mut todo, mut seen) = (vec![ROOT], BTreeSet::new());
    while let Some(dir) = todo.pop() {
        if !seen.insert(dir) || seen.len() > 200 {
            continue;
        }
        let mut cookie = 0;
        while let Ok(Answer::Entries(entries)) =
            fs.run(Request::List { handle: by_inode(dir), cookie, most_bytes: 600 })
        {
            let Some(last) = entries.last() else { break };
            assert!(last.cookie > cookie, "a list goes on");
            cookie = last.cookie;
            for entry in entries.iter().filter(|entry| entry.name[0] != b'.') {
                let lookup = Request::Lookup { dir, name: entry.name.clone() };
                let Ok(Answer::Object(attr, _)) = fs.run(lookup) else { continue };
                let handle = by_inode(attr.ino);
                let _ = fs.run(Request::ReadLink { ino: attr.ino });
                let _ = fs.run(Request::Read { handle, at: 0, length: 200_000 });
                let end = attr.size.saturating_sub(10);
                let _ = fs.run(Request::Read { handle, at: end, length: 20 });
                if attr.kind == FileKind::Directory {
                    todo.push(attr.ino);
                }
            }
        }
    }
    for ino in 1..60 {
        let set = SetAttr { size: Some(700), ..SetAttr::default() };
        let _ = fs.run(Request::SetAttr { ino, set });
        let data = "hello".into();
        let _ = fs.run(Request::Write { handle: by_inode(ino), at: 9000, data, append: true });
        for name in ["a", "b", "file", "name7"] {
            let (name, to_name) = (name.to_owned().into(), "moved".into());
            let how = RenameHow::Exchange;
            let _ = fs.run(Request::Rename { dir: ino, name, to_dir: ROOT, to_name, how });
        }
        let _ = fs.run(Request::RmDir { dir: ino, name: "b".into() });
        let _ = fs.run(Request::Unlink { dir: ino, name: "file".into() });
        let (what, mode) = (New::File, 0o600);
        let _ = fs.run(Request::Make { dir: ino, name: "new".into(), what, mode, open: false });
    }
    let _ = fs.run(Request::Sync);
}

/// Mounts and uses an image if that is possible, then repairs it: a check finds nothing afterwards.
fn survives(cells: &Cells) {
    let options = MountOptions { now: 1, ..MountOptions::default() };
    let mounted =
        Blocking::mount(node_of(cells.clone(), true), |disk| minix::mount(disk, &options));
    if let Ok(mut fs) = mounted {
        use_it(&mut fs);
        let _ = fs.unmount();
    }
    let mut cells = cells.clone();
    match repair(&mut disk_of(&mut cells)) {
        Ok(_) => {
            let found = check(&mut disk_of(&mut cells)).expect("it can be read");
            assert!(found.list.is_empty(), "after a repair: {:?}", found.list);
            mount(node_of(cells, true), PolicyKind::Async);
        }
        Err(FsError::Io(error)) => panic!("memory fails: {error}"),
        Err(_) => {}
    }
}

/// What a check finds after a change, and that a repair mends it.
fn found(block: u32, break_it: impl FnOnce(&mut Cells)) -> Vec<Finding> {
    let mut cells = sample(block);
    assert!(check(&mut disk_of(&mut cells)).expect("it is whole").list.is_empty());
    break_it(&mut cells);
    let found = check(&mut disk_of(&mut cells)).expect("it can be read").list;
    survives(&cells);
    found
}

fn has(found: &[Finding], is_it: impl Fn(&Finding) -> bool) {
    assert!(found.iter().any(is_it), "{found:?}");
}

/// Numbers of the sample, in the order in which it was made.
const DIR: u32 = 2;
const INNER: u32 = 3;
const FILE: u32 = 4;
const SMALL: u32 = 5;

#[test]
fn a_zone_that_is_marked_as_free_is_named() {
    for block in BLOCKS {
        let found = found(block, |cells| {
            let geometry = geometry(cells);
            let at = u64::from(geometry.zmap().first) * u64::from(block);
            put(cells, at, &[3, 0]);
        });
        has(&found, |one| matches!(one, Finding::UnmarkedZones { .. }));
    }
}

#[test]
fn an_inode_that_is_marked_as_free_is_named() {
    let found = found(1024, |cells| put(cells, 2048, &[3, 0]));
    has(&found, |one| matches!(one, Finding::UnmarkedInode { ino: FILE }));
}

#[test]
fn space_that_nothing_has_is_a_leak() {
    let found = found(4096, |cells| {
        let geometry = geometry(cells);
        let at = u64::from(geometry.zmap().first) * 4096 + 30;
        put(cells, at, &[0xff]);
    });
    let leaked = |one: &Finding| matches!(one, Finding::Leaked { count: 8, .. });
    assert!(found.len() == 1 && leaked(&found[0]), "{found:?}");
}

#[test]
fn an_address_outside_the_data_is_named() {
    for zone in [1, 5, u32::MAX, 1 << 20] {
        let found = found(1024, |cells| change(cells, FILE, |inode| inode.zones[0] = zone));
        has(&found, |one| matches!(one, Finding::BadAddress { ino: FILE, .. }));
        let found = self::found(1024, |cells| change(cells, FILE, |inode| inode.zones[8] = zone));
        has(&found, |one| matches!(one, Finding::BadAddress { ino: FILE, .. }));
    }
}

#[test]
fn a_zone_behind_the_end_is_a_leak() {
    for block in BLOCKS {
        let found = found(block, |cells| {
            change(cells, SMALL, |inode| inode.zones[2] = 300);
        });
        has(&found, |one| matches!(one, Finding::BehindEnd { zone: 300, .. }));
    }
}

#[test]
fn a_zone_of_two_files_is_named() {
    let found = found(1024, |cells| {
        let zone = inode(cells, FILE).zones[7];
        change(cells, SMALL, |inode| (inode.zones[9], inode.size) = (zone, 1 << 30));
    });
    has(&found, |one| matches!(one, Finding::Duplicate { .. }));
    let found = self::found(1024, |cells| {
        let zone = inode(cells, FILE).zones[7];
        let at = u64::from(zone) * 1024;
        put(cells, at, &zone.to_le_bytes());
    });
    has(&found, |one| matches!(one, Finding::Duplicate { ino: FILE, .. }));
}

#[test]
fn a_directory_in_itself_is_named() {
    for block in BLOCKS {
        // The directory `b` gets the directory above it in place of a file.
        let found = found(block, |cells| {
            let zone = inode(cells, INNER).zones[0];
            let at = u64::from(zone) * u64::from(block) + 128;
            put(cells, at, &DIR.to_le_bytes());
        });
        has(&found, |one| matches!(one, Finding::DirectoryTwice { dir: INNER, ino: DIR, .. }));
        has(&found, |one| matches!(one, Finding::Nameless { ino: FILE, .. }));
    }
}

#[test]
fn a_hole_in_a_directory_reads_as_free_entries() {
    let found = found(1024, |cells| {
        change(cells, INNER, |inode| inode.zones[1] = 0);
    });
    has(&found, |one| matches!(one, Finding::Nameless { .. }));
    let found = self::found(1024, |cells| change(cells, INNER, |inode| inode.zones[0] = 0));
    has(&found, |one| matches!(one, Finding::BadDots { ino: INNER, parent: DIR }));
    let found = self::found(4096, |cells| change(cells, INNER, |inode| inode.size = 1 << 30));
    assert!(!found.iter().any(|one| matches!(one, Finding::TooLarge { .. })), "{found:?}");
}

#[test]
fn entries_that_lead_nowhere_are_named() {
    for number in [50_000_u32, u32::MAX, 100] {
        let found = found(1024, |cells| {
            let zone = inode(cells, INNER).zones[0];
            let at = u64::from(zone) * 1024 + 128;
            put(cells, at, &number.to_le_bytes());
        });
        has(&found, |one| matches!(one, Finding::Entry { dir: INNER, .. }));
    }
    let found = found(1024, |cells| {
        let zone = inode(cells, DIR).zones[0];
        put(cells, u64::from(zone) * 1024 + 64, &FILE.to_le_bytes());
    });
    has(&found, |one| matches!(one, Finding::WrongParent { ino: DIR, stored: FILE, .. }));
}

#[test]
fn counts_of_names_are_compared() {
    let found = found(2048, |cells| change(cells, SMALL, |inode| inode.links = 9));
    assert_eq!(found, [Finding::WrongLinks { ino: SMALL, stored: 9, right: 2 }]);
}

#[test]
fn without_a_root_nothing_is_mounted_or_repaired() {
    let mut cells = sample(1024);
    change(&mut cells, 1, |inode| inode.mode = 0o100_644);
    let refused = minix::mount(&mut disk_of(&mut cells), &MountOptions::default()).err();
    let said = refused.expect("it has no root").to_string();
    assert!(said.contains("inode 1 has mode 0o100644"), "{said}");
    assert!(matches!(repair(&mut disk_of(&mut cells)), Err(FsError::NotRepaired { .. })));
}

#[test]
fn older_versions_are_named_and_a_truncated_image_too() {
    for (magic, version, names) in [(0x137f_u16, 1, 14), (0x138f, 1, 30), (0x2468, 2, 14)] {
        let mut cells = Cells::new(64);
        put(&mut cells, 1024 + 4, &[1, 0, 1, 0]);
        put(&mut cells, 1024 + 16, &magic.to_le_bytes());
        let refused = load(&mut disk_of(&mut cells)).expect_err("it is old");
        assert_eq!(refused, FsError::OlderMinix { version, names });
        assert!((minix::KIND.is_on)(&mut disk_of(&mut cells)).expect("memory"));
    }
    let mut whole = sample(1024);
    let mut cells = Cells::new(100);
    for at in 0..100 {
        let data = whole.read(at, 1).expect("memory");
        cells.write(at, &data).expect("memory");
    }
    let refused = load(&mut disk_of(&mut cells)).expect_err("its end is missing");
    assert_eq!(refused, FsError::Truncated { needed: 512 * 4096, found: 100 * 4096 });
}

/// Bytes that are likely to mean something.
fn byte() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![0_u8, 1, 2, 5, 64, 128, 200, 255])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the superblock says, nothing panics.
    #[test]
    fn garbage_in_the_superblock_survives(
        block in prop::sample::select(BLOCKS.to_vec()),
        changes in prop::collection::vec((0_u64..30, any::<u8>()), 1..6),
    ) {
        let mut cells = sample(block);
        for (at, byte) in changes {
            if !(24..26).contains(&at) {
                put(&mut cells, 1024 + at, &[byte]);
            }
        }
        survives(&cells);
    }

    /// Whatever metadata says, nothing panics, and a repair ends with a sound file system.
    #[test]
    fn garbage_in_metadata_survives(
        block in prop::sample::select(BLOCKS.to_vec()),
        changes in prop::collection::vec((any::<u32>(), byte()), 1..12),
    ) {
        let mut cells = sample(block);
        let geometry = geometry(&mut cells);
        // Maps, inodes, and the zones behind, where directories and addresses lie.
        let from = 2 * u64::from(block);
        let to = (u64::from(geometry.first_data()) + 24) * u64::from(block);
        for (at, byte) in changes {
            put(&mut cells, from + u64::from(at) % (to - from), &[byte]);
        }
        survives(&cells);
    }

    /// The same for addresses that lead to zones in use: those of other files, and their own.
    #[test]
    fn addresses_that_lead_astray_survive(
        block in prop::sample::select(BLOCKS.to_vec()),
        changes in prop::collection::vec((2_u32..8, 0_usize..10, 0_u32..20), 1..8),
    ) {
        let mut cells = sample(block);
        let first = geometry(&mut cells).first_data();
        for (number, slot, zone) in changes {
            change(&mut cells, number, |inode| inode.zones[slot] = first + zone);
        }
        survives(&cells);
    }
}
