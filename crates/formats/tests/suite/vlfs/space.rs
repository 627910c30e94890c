//! Space: what is told of it, and what comes back.

use super::{Timed, formatted, mount};
use seekless_engine::units::SECONDS;
use seekless_formats::MountOptions;
use seekless_formats::vlfs::{self, Vlfs};
use seekless_fs::block::Blocking;
use seekless_fs::call::{Answer, Errno, Handle, New, ROOT, Request, SetAttr, Space};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;

fn space(fs: &mut Blocking<Vlfs>) -> Space {
    match fs.run(Request::Space) {
        Ok(Answer::Space(space)) => space,
        other => panic!("{other:?}"),
    }
}

fn file(fs: &mut Blocking<Vlfs>) -> (u64, Handle) {
    let (name, what) = ("file".into(), New::File);
    match fs.run(Request::Make { dir: ROOT, name, what, mode: 0o644, open: true }) {
        Ok(Answer::Object(attr, Some(handle))) => (attr.ino, handle),
        other => panic!("{other:?}"),
    }
}

/// Writes until the volume is full. Returns the bytes that it took.
fn fill(fs: &mut Blocking<Vlfs>, handle: Handle) -> u64 {
    let mut at = 0;
    loop {
        let data = vec![at as u8 | 1; 128 << 10].into();
        match fs.run(Request::Write { handle, at, data, append: false }) {
            Ok(Answer::Written(written)) => at += u64::from(written),
            Err(Errno::NoSpc) => return at,
            other => panic!("{other:?}"),
        }
    }
}

fn unmounted(fs: Blocking<Vlfs>) -> Timed {
    let now = fs.now() + SECONDS;
    (fs.unmount().0, now)
}

/// A full volume is full at the same place each time: what a file took comes back when it is cut.
#[test]
fn a_file_that_is_cut_makes_room_for_another_one() {
    for volatile in [false, true] {
        let mut fs = mount(formatted(2048, volatile), PolicyKind::Async);
        let (ino, handle) = file(&mut fs);
        let most = fill(&mut fs, handle);
        assert!(most > 6 << 20, "{most} bytes of 8 MiB");
        for round in 0..5 {
            let set = SetAttr { size: Some(0), ..SetAttr::default() };
            fs.run(Request::SetAttr { ino, set }).expect("a cut needs no space");
            let taken = fill(&mut fs, handle);
            assert!(taken * 100 > most * 95, "round {round}: {taken} of {most} bytes");
        }
    }
}

#[test]
fn sizes_are_told_on_a_mount_for_reading_too() {
    let mut fs = mount(formatted(2048, false), PolicyKind::Async);
    let (_, handle) = file(&mut fs);
    let before = space(&mut fs);
    let data = vec![1; 1 << 20].into();
    fs.run(Request::Write { handle, at: 0, data, append: false }).expect("there is room");
    fs.run(Request::Sync).expect("memory does not fail");
    let after = space(&mut fs);
    assert!(before.free >= after.free + 256 && after.free > 0, "{before:?}, {after:?}");
    let (node, now) = unmounted(fs);
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let options = MountOptions { core, ..MountOptions::default() };
    let mounted = Blocking::mount_at(node, now, |disk| vlfs::mount(disk, &options));
    let told = space(&mut mounted.expect("it is sound"));
    assert_eq!(told.fragments, after.fragments);
    assert!(told.free.abs_diff(after.free) < 16, "{told:?}, {after:?}");
}
