//! A small log and files that are large: what a deletion gives up must not fill the log for good.

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::SECONDS;
use seekless_formats::ffs::{self, Ffs, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{AllocateHow, Answer, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem as _;

const MIB: u64 = 1 << 20;

/// A volume of 600 MiB with the smallest log.
fn made(policy: PolicyKind) -> Blocking<Ffs> {
    let mut cells = Cells::new(600 * MIB / 4096);
    let options = MkfsOptions { policy, journal: Some(MIB), ..MkfsOptions::default() };
    mkfs(&mut MediumDisk(&mut cells), &options).expect("it fits");
    let node = Plain::node(Box::new(Ram::new(Box::new(cells))));
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    let mounted = Blocking::mount_at(node, 0, |disk| ffs::mount(disk, &options));
    mounted.expect("it can be mounted")
}

#[test]
fn a_large_file_is_deleted_with_the_smallest_log() {
    for policy in [PolicyKind::Wafs1Async, PolicyKind::Wafs1Sync] {
        let mut files = made(policy);
        let space = |files: &mut Blocking<Ffs>| match files.run(Request::Space) {
            Ok(Answer::Space(space)) => space.free * u64::from(space.fragment_bytes),
            other => panic!("{other:?}"),
        };
        let before = space(&mut files);
        let name = Bytes::from_static(b"large");
        let what = New::File;
        let make = Request::Make { dir: ROOT, name: name.clone(), what, mode: 0o644, open: true };
        let Ok(Answer::Object(attr, Some(handle))) = files.run(make) else {
            panic!("there is room")
        };
        // 65,536 blocks: an intent for each when they go.
        let (at, length, how) = (0, 512 * MIB, AllocateHow::Extend);
        files.run(Request::Allocate { handle, at, length, how }).expect("there is room");
        files.run(Request::Release { handle }).expect("it is open");
        files.run(Request::Unlink { dir: ROOT, name }).expect("it is there");
        files.run(Request::Forget { ino: attr.ino, count: 1 }).expect("it has no reply");
        files.idle(10 * SECONDS);
        files.run(Request::Sync).expect("the log has room");
        assert!(before - space(&mut files) < MIB, "the space is free");
        let stats = files.fs().stats();
        let most = stats.iter().find(|one| one.0 == "most guards and facts").expect("counted").1;
        assert!((4096.0..=6144.0).contains(&most), "{most} pieces were owed at once");
        let mut now = files.now();
        let (mut node, ended) = files.unmount();
        ended.expect("it ends");
        now += 100 * SECONDS;
        let found = check(&mut NodeDisk::new(&mut node, &mut now)).expect("readable");
        assert!(found.list.is_empty() && found.unmounted, "{:?}", found.list);
    }
}
