//! Images that a device has left which failed after each of its writes: mounted, reclaimed and
//! unmounted they are clean, and have as much in use as after a repair.
use super::{Reclaim, Reclaimed, Stage};
use crate::ffs::kit::dying::{checked, each_cut, file, find, made, make, mount, name, unlink};
use crate::ffs::{Ffs, Finding, Findings};
use crate::ffs::{check, repair};
use bytes::Bytes;
use seekless_crash::device::cut::CutMedium;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{MILLIS, SECONDS};
use seekless_fs::block::Blocking;
use seekless_fs::call::{Answer, Errno, FileKind, Ino, New, ROOT, RenameHow, Request};

fn link(files: &mut Blocking<Ffs>, (dir, of): (Ino, &str), to: (Ino, &str)) -> Result<(), Errno> {
    let ino = find(files, dir, of)?;
    files.run(Request::Link { ino, dir: to.0, name: name(to.1) })?;
    files.run(Request::Forget { ino, count: 1 })?;
    Ok(())
}

fn rename(files: &mut Blocking<Ffs>, from: (Ino, &str), to: (Ino, &str)) -> Result<Answer, Errno> {
    let how = RenameHow::Replace;
    let (old, new) = (name(from.1), name(to.1));
    files.run(Request::Rename { dir: from.0, name: old, to_dir: to.0, to_name: new, how })
}

/// What is on the disk before the device begins to fail.
fn begin(files: &mut Blocking<Ffs>) -> Result<(Ino, Ino), Errno> {
    let a = make(files, ROOT, New::Directory, "a")?.0;
    let b = make(files, ROOT, New::Directory, "b")?.0;
    make(files, a, New::Directory, "moves")?;
    make(files, a, New::Directory, "stays")?;
    for number in 0..6 {
        file(files, a, &format!("old{number}"), 3000 + 20_000 * number)?;
        file(files, b, &format!("other{number}"), 1000)?;
    }
    files.run(Request::Sync)?;
    Ok((a, b))
}

/// Changes that a crash leaves half done.
fn change(files: &mut Blocking<Ffs>, (a, b): (Ino, Ino)) -> Result<(), Errno> {
    link(files, (a, "old2"), (b, "second"))?;
    let deep = make(files, b, New::Directory, "deep")?.0;
    let deeper = make(files, deep, New::Directory, "deeper")?.0;
    file(files, deeper, "bottom", 9000)?;
    link(files, (a, "old3"), (deeper, "linked"))?;
    rename(files, (a, "moves"), (b, "moved"))?;
    rename(files, (a, "old1"), (b, "other1"))?;
    for number in 0..3 {
        file(files, ROOT, &format!("new{number}"), 104 << 10)?;
    }
    unlink(files, a, "old0")?;
    unlink(files, a, "old5")?;
    unlink(files, b, "other0")?;
    link(files, (b, "other2"), (ROOT, "third"))?;
    let old = find(files, a, "old4")?;
    let handle = match files.run(Request::Open { ino: old, truncate: false })? {
        Answer::Opened(handle) => handle,
        other => panic!("{other:?}"),
    };
    let data = Bytes::from(vec![9; 60_000]);
    files.run(Request::Write { handle, at: 0, data, append: true })?;
    files.run(Request::Release { handle })?;
    files.run(Request::RmDir { dir: a, name: name("stays") })?;
    files.run(Request::Sync)?;
    unlink(files, ROOT, "new1")?;
    files.run(Request::Sync).map(|_| ())
}

/// What a device leaves that fails after so many writes; none if it takes all of them.
fn cut(writes: u64) -> Option<Cells> {
    let medium = CutMedium::new(made(4 << 20));
    let mut files = mount(&medium, SECONDS);
    let dirs = begin(&mut files).expect("the device works");
    medium.die_after(writes);
    change(&mut files, dirs).err().map(|_| medium.contents())
}

/// What operations do while a reclaim is under way.
fn disturb(files: &mut Blocking<Ffs>) -> Option<Ino> {
    let (a, b) = (find(files, ROOT, "a").expect("durable"), find(files, ROOT, "b").expect("same"));
    let pause = |files: &mut Blocking<Ffs>| files.idle(250 * MILLIS);
    let _ = link(files, (a, "old3"), (ROOT, "again"));
    pause(files);
    let _ = unlink(files, a, "old3");
    let held = find(files, b, "second").ok();
    if let Some(ino) = held {
        files.run(Request::Open { ino, truncate: false }).expect("it is there");
    }
    let _ = unlink(files, b, "second");
    pause(files);
    let _ = unlink(files, a, "old2");
    let _ = file(files, a, "fresh", 30_000);
    pause(files);
    let _ = rename(files, (a, "fresh"), (b, "fresh"));
    let _ = make(files, ROOT, New::Directory, "young");
    pause(files);
    let _ = rename(files, (ROOT, "young"), (b, "young"));
    let _ = unlink(files, ROOT, "new0");
    held
}

/// Removes what repair has brought together, so that only what has names is left.
fn remove_all(files: &mut Blocking<Ffs>, dir: Ino) {
    let handle = match files.run(Request::Open { ino: dir, truncate: false }) {
        Ok(Answer::Opened(handle)) => handle,
        other => panic!("{other:?}"),
    };
    let list = Request::List { handle, cookie: 0, most_bytes: 1 << 16 };
    let Ok(Answer::Entries(entries)) = files.run(list) else { panic!("it can be read") };
    for entry in entries.iter().filter(|one| &one.name[..] != b"." && &one.name[..] != b"..") {
        let name = entry.name.clone();
        let removed = match entry.kind {
            FileKind::Directory => {
                remove_all(files, entry.ino);
                files.run(Request::RmDir { dir, name })
            }
            _ => files.run(Request::Unlink { dir, name }),
        };
        removed.expect("it is there");
    }
    files.run(Request::Release { handle }).expect("it is open");
}

/// The findings after a repair, without what it has kept of files that had lost their names.
fn repaired(mut cells: Cells) -> Findings {
    repair(&mut MediumDisk(&mut cells)).expect("it can be repaired");
    let medium = CutMedium::new(cells);
    let mut files = mount(&medium, SECONDS);
    if let Ok(lost) = find(&mut files, ROOT, "lost+found") {
        remove_all(&mut files, lost);
        files.run(Request::RmDir { dir: ROOT, name: name("lost+found") }).expect("it is empty");
    }
    assert_eq!(files.unmount().1, Ok(()));
    checked(&medium)
}

/// Mounts an image, and lets a reclaim come to its end.
/// What stays for a repair is a directory with two names.
fn reclaimed(cells: Cells, parts: Option<u64>, meanwhile: bool) -> (Findings, Reclaimed) {
    let medium = CutMedium::new(cells);
    let mut files = mount(&medium, 100 * MILLIS);
    assert!(files.fs().format().may_leak());
    if let Some(bytes) = parts {
        let volume = &mut files.fs_mut().parts_mut().0.volume;
        volume.reclaim = Some(Box::new(Reclaim::in_parts(&volume.geometry, bytes)));
    }
    if meanwhile {
        disturb(&mut files);
    }
    files.idle(600 * SECONDS);
    assert!(
        files.fs().format().volume.reclaim.is_none(),
        "{:?}",
        files.fs().format().volume.reclaim
    );
    let (done, may_leak) = (files.fs().format().reclaimed(), files.fs().format().may_leak());
    assert_eq!(files.unmount().1, Ok(()));
    let found = checked(&medium);
    let two_names = |one: &Finding| matches!(one, Finding::DirectoryTwice { .. });
    assert_eq!(found.list.iter().any(two_names), may_leak, "{found}");
    if may_leak {
        let few = |one: &Finding| {
            use Finding as F;
            matches!(one, F::DirectoryTwice { .. } | F::WrongParent { .. } | F::WrongLinks { .. })
        };
        assert!(found.list.iter().all(few), "{found}");
        return (repaired(medium.contents()), done);
    }
    (found, done)
}

/// Tries an image after each write of the program, or after each so many.
fn sweep(step: usize, mut each: impl FnMut(u64, Cells)) -> u64 {
    let mut images = 0;
    for writes in (0..).step_by(step) {
        let Some(cells) = cut(writes) else { break };
        each(writes, cells);
        images += 1;
    }
    images
}

#[test]
fn what_has_leaked_is_freed_as_by_a_repair() {
    let mut all = Reclaimed::default();
    let images = sweep(1, |writes, cells| {
        let right = repaired(cells.clone());
        let parts = (writes % 3 == 2).then_some(1);
        let (found, done) = reclaimed(cells, parts, false);
        assert!(found.is_clean() && found.unmounted, "after {writes} writes: {found}");
        let in_use = |found: &Findings| (found.inodes, found.directories, found.fragments);
        assert_eq!(in_use(&found), in_use(&right), "after {writes} writes, {done:?}");
        all.fragments += done.fragments;
        all.inodes += done.inodes;
        all.links += done.links;
        all.passes = all.passes.max(done.passes);
    });
    assert!(images > 10, "{images} images");
    assert!(all.fragments > 0 && all.inodes > 0 && all.links > 0, "{all:?}");
    assert!(all.passes > 1, "a directory that no name leads to takes another pass: {all:?}");
}

#[test]
fn operations_go_on_meanwhile() {
    let images = sweep(2, |writes, cells| {
        let (found, done) = reclaimed(cells, (writes % 4 == 2).then_some(1), true);
        assert!(found.is_clean() && found.unmounted, "after {writes} writes, {done:?}: {found}");
    });
    assert!(images > 5, "{images} images");
}

/// A file counts a link that no name accounts for, and loses one of its names between the stage
/// that counts names and the one that compares.
#[test]
fn a_name_that_goes_after_it_was_counted_does_not_hide_a_link() {
    let medium = CutMedium::new(made(4 << 20));
    let mut files = mount(&medium, SECONDS);
    file(&mut files, ROOT, "one", 1000).expect("there is room");
    link(&mut files, (ROOT, "one"), (ROOT, "two")).expect("there is room");
    assert_eq!(files.unmount().1, Ok(()));
    let cells = medium.contents();
    let mut links = 0;
    let change = |files: &mut Blocking<Ffs>| {
        link(files, (ROOT, "one"), (ROOT, "three")).expect("there is room");
    };
    each_cut(&cells, change, |after, medium| {
        let mut files = mount(&medium, 100 * MILLIS);
        for _ in 0..1000 {
            let stage = files.fs().format().volume.reclaim.as_ref().map(|reclaim| reclaim.stage);
            if stage == Some(Stage::Inodes) {
                unlink(&mut files, ROOT, "two").expect("it is there");
                break;
            }
            files.idle(10 * MILLIS);
        }
        files.idle(600 * SECONDS);
        links += files.fs().format().reclaimed().links;
        assert_eq!(files.unmount().1, Ok(()));
        let found = checked(&medium);
        assert!(found.is_clean(), "{after}: {found}");
    });
    assert!(links > 0, "no crash has left a link too many");
}

/// A power cut in the midst leaves what soft updates may leave, and the next reclaim ends it.
#[test]
fn a_reclaim_that_was_cut_off_is_done_again() {
    let (mut images, mut cut_off) = (0, 0);
    sweep(5, |_, cells| {
        for left in (0..12).step_by(3) {
            let medium = CutMedium::new(cells.clone());
            let mut files = mount(&medium, 10 * MILLIS);
            medium.die_after(left);
            files.idle(600 * SECONDS);
            cut_off += u64::from(files.fs().core().failed().is_some());
            let cells = medium.contents();
            let found = check(&mut MediumDisk(&mut cells.clone())).expect("it can be read");
            let bad = found.list.iter().find(|one| one.invariant().is_some_and(|rule| rule < 7));
            assert_eq!(bad, None, "after {left} writes of a reclaim");
            let (found, _) = reclaimed(cells, None, false);
            assert!(found.is_clean() && found.unmounted, "{found}");
            images += 1;
        }
    });
    assert!(images > 8 && cut_off > 4, "{cut_off} of {images} were cut off");
}

/// The space of a file that a crash has left without a name is there for a call that needs it.
#[test]
fn a_call_that_needs_space_does_not_wait_for_idle_time() {
    let mut tried = 0;
    for writes in 0.. {
        let medium = CutMedium::new(made(2 << 20));
        let mut files = mount(&medium, SECONDS);
        let capacity = files.fs().format().volume.free_fragments() as usize * 1024;
        medium.die_after(writes);
        let filled = file(&mut files, ROOT, "big", capacity * 6 / 10);
        if filled.and_then(|()| files.run(Request::Sync)).is_ok() {
            break;
        }
        let cells = medium.contents();
        let mut files = mount(&CutMedium::new(cells), 1000 * SECONDS);
        let needs = capacity * 7 / 10;
        let free = files.fs().format().volume.free_fragments() as usize * 1024;
        if find(&mut files, ROOT, "big") == Err(Errno::NoEnt) && free < needs {
            assert_eq!(file(&mut files, ROOT, "other", needs), Ok(()), "after {writes} writes");
            assert_eq!(file(&mut files, ROOT, "none", capacity), Err(Errno::NoSpc));
            assert_eq!(files.unmount().1, Ok(()));
            tried += 1;
        }
    }
    assert!(tried > 0, "no image had leaked what was needed");
}
