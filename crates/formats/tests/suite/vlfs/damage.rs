//! Damaged structures: a check names them, a repair leaves nothing to find, and no bytes make
//! either of them, a mount or its calls panic.

use super::{Timed, findings, formatted, mount};
use bytes::Bytes;
use proptest::prelude::*;
use seekless_engine::disk::Disk as _;
use seekless_engine::objects::{ATTRIBUTES, address};
use seekless_engine::transaction::Transaction;
use seekless_engine::units::SECONDS;
use seekless_formats::vlfs::{self, repair};
use seekless_formats::{FsError, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::call::{Answer, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;

/// The objects of the tree, in the order in which they are made: they have the numbers from 3 on.
const DIR: u32 = 3;
const FILE: u32 = 4;
const LAST: u32 = 7;

/// A directory, and in it a file of two blocks, a link, an empty directory and a special file.
fn tree() -> Timed {
    let mut fs = mount(formatted(1 << 10, false), PolicyKind::Async);
    let mut make = |dir: u32, name: &'static str, what: New| {
        let name = Bytes::from_static(name.as_bytes());
        let make = Request::Make { dir: dir.into(), name, what, mode: 0o755, open: true };
        match fs.run(make) {
            Ok(Answer::Object(attr, handle)) => (attr.ino as u32, handle),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(make(ROOT as u32, "dir", New::Directory).0, DIR);
    let (file, handle) = make(DIR, "file", New::File);
    assert_eq!(file, FILE);
    make(DIR, "link", New::Symlink(Bytes::from_static(b"file")));
    make(DIR, "empty", New::Directory);
    assert_eq!(make(DIR, "fifo", New::Fifo).0, LAST);
    let data = Bytes::from(vec![9; 6000]);
    let handle = handle.expect("it is open");
    fs.run(Request::Write { handle, at: 0, data, append: false }).expect("there is room");
    let now = fs.now();
    let (node, stopped) = fs.unmount();
    stopped.expect("memory does not fail");
    (node, now + SECONDS)
}

/// Changes bytes below the file system.
fn set((node, now): &mut Timed, object: u32, within: u32, at: usize, bytes: &[u8]) {
    let mut all = Transaction::new();
    all.patch(address(object, within), at, bytes);
    NodeDisk::new(node, now).transact(all).expect("memory does not fail");
}

/// A check finds this, and after a repair nothing.
#[track_caller]
fn is_found(image: &mut Timed, what: &str) -> Vec<String> {
    let found = findings(image);
    assert!(found.iter().any(|one| one.contains(what)), "{what}: {found:#?}");
    let (node, now) = image;
    let repaired = repair(&mut NodeDisk::new(node, now)).expect("it can be repaired");
    assert!(!repaired.list.is_empty());
    assert_eq!(findings(image), [""; 0]);
    repaired.lost
}

#[test]
fn a_sound_tree_has_no_findings_and_needs_no_repair() {
    let (mut node, mut now) = tree();
    let repaired = repair(&mut NodeDisk::new(&mut node, &mut now)).expect("it is sound");
    assert!(repaired.list.is_empty() && repaired.lost.is_empty());
    assert_eq!(findings(&mut (node, now)), [""; 0]);
}

#[test]
fn each_kind_of_damage_is_found_and_mended() {
    let each: [(&str, u32, u32, usize, &[u8]); 12] = [
        ("more than a directory can have", DIR, ATTRIBUTES, 19, &[0x20]),
        ("counts 9 names, has 1", FILE, ATTRIBUTES, 4, &[9]),
        ("counts 0 names, has 1", FILE, ATTRIBUTES, 4, &[0]),
        ("none of a possible kind", FILE, ATTRIBUTES, 0, &[0, 0x30]),
        ("more than a file can have", FILE, ATTRIBUTES, 16, &[0xff; 8]),
        ("no whole blocks", DIR, ATTRIBUTES, 16, &[1]),
        ("says that it lies in 4", 6, ATTRIBUTES, 64, &[4]),
        ("number 9 is in use", 0, ATTRIBUTES, 9, &[2]),
        ("its number is free", 0, ATTRIBUTES, 8, &[0b1111]),
        ("noted as without a name", 0, ATTRIBUTES, 24, &[0b1_0000]),
        ("nothing possible of its slice", 0, ATTRIBUTES, 2, &[7]),
        ("do not add up", DIR, 0, 4, &[3, 0]),
    ];
    for (what, object, within, at, bytes) in each {
        let mut image = tree();
        set(&mut image, object, within, at, bytes);
        is_found(&mut image, what);
    }
}

#[test]
fn names_that_lead_nowhere_go_and_what_has_no_name_is_given_up() {
    let mut image = tree();
    // The first entry of the root leads to an object that is not there, then to a slice.
    set(&mut image, ROOT as u32, 0, 0, &100u32.to_le_bytes());
    let lost = is_found(&mut image, "of which there is none");
    assert!(lost.iter().any(|one| one.contains("`dir`")), "{lost:?}");
    let mut image = tree();
    set(&mut image, ROOT as u32, 0, 0, &128u32.to_le_bytes());
    is_found(&mut image, "which no file can be");
    let mut image = tree();
    set(&mut image, DIR, 0, 0, &6u32.to_le_bytes());
    is_found(&mut image, "another name of a directory");
}

#[test]
fn without_a_root_nothing_is_repaired() {
    let mut image = tree();
    set(&mut image, ROOT as u32, ATTRIBUTES, 0, &[0, 0x80]);
    assert!(findings(&mut image).iter().any(|one| one.contains("root directory is missing")));
    let (mut node, mut now) = image;
    let disk = &mut NodeDisk::new(&mut node, &mut now);
    assert!(matches!(repair(disk), Err(FsError::NotRepaired { .. })));
    let mounted = vlfs::mount(disk, &MountOptions::default());
    assert!(matches!(mounted, Err(FsError::BadVlfs(_))));
}

/// Calls that read all that there is; what they say does not matter.
fn look(fs: &mut Blocking<vlfs::Vlfs>) {
    for ino in ROOT..=u64::from(LAST) {
        let _ = fs.run(Request::Attr { ino });
        let _ = fs.run(Request::ReadLink { ino });
        let _ = fs.run(Request::Lookup { dir: ino, name: Bytes::from_static(b"file") });
        if let Ok(Answer::Opened(handle)) = fs.run(Request::Open { ino, truncate: false }) {
            let _ = fs.run(Request::Read { handle, at: 0, length: 10_000 });
            let _ = fs.run(Request::List { handle, cookie: 0, most_bytes: 4096 });
            let _ = fs.run(Request::Release { handle });
        }
        let name = Bytes::from_static(b"another");
        let (what, mode) = (New::File, 0o644);
        let _ = fs.run(Request::Make { dir: ino, name: name.clone(), what, mode, open: false });
        let _ = fs.run(Request::Unlink { dir: ino, name });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the bytes are, a mount and a check say what they are, and a repair mends them.
    #[test]
    fn any_bytes_are_mended(
        changes in prop::collection::vec(
            (0u32..=LAST, any::<bool>(), 0usize..96, prop::collection::vec(any::<u8>(), 1..9)),
            1..6,
        ),
    ) {
        let mut image = tree();
        for (object, is_content, at, mut bytes) in changes {
            let within = if is_content && object != 0 { 0 } else { ATTRIBUTES };
            bytes.truncate(96 - at);
            set(&mut image, object, within, at, &bytes);
        }
        let (mut node, mut now) = image;
        let options = MountOptions { policy: PolicyKind::Sync, ..MountOptions::default() };
        let root = vlfs::mount(&mut NodeDisk::new(&mut node, &mut now), &options).is_ok();
        if root {
            let mounted = Blocking::mount_at(node, now, |disk| vlfs::mount(disk, &options));
            let mut fs = mounted.expect("it was possible");
            look(&mut fs);
            now = fs.now() + SECONDS;
            (node, _) = fs.unmount();
        }
        match repair(&mut NodeDisk::new(&mut node, &mut now)) {
            Ok(_) => prop_assert_eq!(findings(&mut (node, now)), [""; 0]),
            Err(FsError::NotRepaired { .. }) => {
                let found = findings(&mut (node, now));
                prop_assert!(found.iter().any(|one| one.contains("root directory")), "{found:#?}");
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}
