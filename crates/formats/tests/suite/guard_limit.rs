//! What a policy remembers has a limit: calls wait, and none fails.

use bytes::Bytes;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_formats::ffs::{self, check, mkfs};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, New, ROOT, Request};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;
use seekless_fs::system::FileSystem as _;

/// Guards and facts that one call adds at most.
const OF_ONE_CALL: f64 = 128.0;
const FILES: u32 = 3000;

/// Makes, writes and removes files in several directories while no time passes by itself; then the
/// most guards and facts at once, the writes until the last call was answered, and the clean end.
fn storm(policy: PolicyKind, most_guards: Option<usize>, volatile: bool) -> (f64, f64) {
    let cells = Box::new(Cells::new(8192));
    let ram = if volatile { Ram::volatile(cells) } else { Ram::new(cells) };
    let mut node = Plain::node(Box::new(ram));
    let mut now = 0;
    let options = MkfsOptions { bytes_per_inode: 4096, ..MkfsOptions::default() };
    mkfs(&mut NodeDisk::new(&mut node, &mut now), &options).expect("it fits");
    let core = CoreOptions { cache_bytes: 16 << 20, most_guards, ..CoreOptions::default() };
    let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
    let mounted = Blocking::mount_at(node, now, |disk| ffs::mount(disk, &options));
    let mut files = mounted.expect("it is clean");
    let dirs: Vec<u64> = (0..8)
        .map(|number| {
            let name = Bytes::from(format!("d{number}"));
            let what = New::Directory;
            let make = Request::Make { dir: ROOT, name, what, mode: 0o755, open: false };
            match files.run(make).expect("there is room") {
                Answer::Object(attr, _) => attr.ino,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    for number in 0..FILES {
        let dir = dirs[number as usize % dirs.len()];
        let name = Bytes::from(format!("f{number}"));
        let make = Request::Make { dir, name, what: New::File, mode: 0o644, open: true };
        let handle = match files.run(make).expect("there is room") {
            Answer::Object(_, Some(handle)) => handle,
            other => panic!("{other:?}"),
        };
        let data = Bytes::from_static(&[7; 1024]);
        let write = Request::Write { handle, at: 0, data, append: false };
        files.run(write).expect("there is room");
        files.run(Request::Release { handle }).expect("it is open");
        if number % 3 == 2 {
            let name = Bytes::from(format!("f{}", number - 2));
            let dir = dirs[(number as usize - 2) % dirs.len()];
            files.run(Request::Unlink { dir, name }).expect("it is there");
        }
    }
    let stats = files.fs().stats();
    let get = |name: &str| stats.iter().find(|one| one.0 == name).expect("a counter").1;
    let counts = (get("most guards and facts"), get("writes"));
    let (mut node, ended) = files.unmount();
    assert_eq!(ended, Ok(()));
    let mut now = 1 << 60;
    let found = check(&mut NodeDisk::new(&mut node, &mut now)).expect("it can be read");
    assert!(found.list.is_empty(), "{:?}", found.list);
    counts
}

#[test]
fn a_storm_of_calls_stays_below_the_limit() {
    for volatile in [false, true] {
        let (most, _) = storm(PolicyKind::Soft, Some(2000), volatile);
        assert!(most > 1000.0, "{most}: the storm is none");
        assert!(most <= 2000.0 + OF_ONE_CALL, "{most} guards and facts, volatile: {volatile}");
    }
}

/// Without a limit the same calls need many more, and no write.
#[test]
fn without_a_limit_there_are_more() {
    let (most, _) = storm(PolicyKind::Soft, Some(usize::MAX), false);
    assert!(most > 8000.0, "{most}");
}

/// The limit is an eighth of the cache: 16 MiB have room for this storm.
#[test]
fn the_limit_follows_the_cache() {
    let core = CoreOptions { cache_bytes: 64 << 20, ..CoreOptions::default() };
    assert_eq!(core.guards(), (8 << 20) / 256);
    assert_eq!(CoreOptions { cache_bytes: 1, ..core }.guards(), 512);
}
