//! File systems with a log: made, mounted after a power cut, and with the log on a device of its
//! own, which may be missing, wrong, or lost.

use crate::harness::{run, seekless, succeed};
use crate::mount::{Disk, possible};
use std::fs;
use std::path::Path;

/// A tree of small files.
fn plant(at: &Path, files: u32) {
    fs::create_dir(at).expect("mkdir");
    for number in 0..files {
        fs::write(at.join(number.to_string()), format!("{number}").repeat(100)).expect("write");
    }
}

fn is_whole(at: &Path, files: u32) {
    for number in 0..files {
        let found = fs::read_to_string(at.join(number.to_string())).expect("it was synced");
        assert_eq!(found, format!("{number}").repeat(100));
    }
}

/// After a power cut a mount applies the log and says so; no repair is needed, and what was synced
/// is there.
#[test]
fn a_mount_recovers_after_a_power_cut() {
    if !possible() {
        return;
    }
    for policy in ["wafs-1async", "wafs-1sync", "lffs-file"] {
        for layout in ["raw", "vlog", "lfs"] {
            let disk = Disk::with_policy(policy, layout, "64M", &[]);
            let mounted = disk.mount_with_control(&["--faults", "unflushed=lose"]);
            plant(&mounted.path("synced"), 300);
            succeed(seekless().args(["fs", "sync"]).arg(&mounted.point));
            plant(&mounted.path("later"), 100);
            disk.control(&["cut"]);
            mounted.unmount();
            let (code, said) = disk.fsck(&[]);
            assert_eq!(code, 0, "{said}");
            assert!(said.contains("clean when a mount has applied the log"), "{said}");
            let listed = succeed(seekless().args(["fs", "ls"]).arg(disk.image()).arg("/synced"));
            assert_eq!(listed.lines().count(), 300, "without a write: {listed}");
            let mut mount = seekless();
            let said = run(mount.arg("mount").args([disk.image(), disk.point()]));
            assert_eq!(said.code(), 0, "{}", said.err);
            assert!(said.err.contains("sectors were brought up to date"), "{}", said.err);
            is_whole(&disk.point().join("synced"), 300);
            plant(&disk.point().join("after"), 10);
            crate::mount::Mounted { point: disk.point() }.unmount();
            let (code, said) = disk.fsck(&[]);
            assert!(code == 0 && said.contains("; clean\n"), "{said}");
        }
    }
}

#[test]
fn a_log_apart_is_named_wherever_it_is_needed() {
    let disk = Disk::with_policy("wafs-2async", "vlog", "32M", &[]);
    let journal = disk.journal();
    let mut copy = seekless();
    copy.args(["fs", "cp"]).arg(disk.image()).args(["Cargo.toml", ":/first"]);
    let refused = run(&mut copy);
    assert_eq!(refused.code(), 3, "{}", refused.err);
    assert!(refused.err.contains("lies on another volume"), "{}", refused.err);
    assert!(refused.err.contains("name that volume with --journal"), "{}", refused.err);
    succeed(copy.args(&journal));
    // Unmounted, it is read without its log, too.
    let ls = |more: &[std::ffi::OsString]| {
        succeed(seekless().args(["fs", "ls"]).arg(disk.image()).args(more))
    };
    assert_eq!(ls(&[]), "/first\n");
    assert_eq!(ls(&journal), "/first\n");
    disk.is_clean();
    if !possible() {
        return;
    }
    let mounted = disk.mount(&[]);
    plant(&mounted.path("dir"), 50);
    let said = succeed(seekless().arg("status").arg(disk.image()));
    assert!(said.contains("a journal of 4 MiB apart"), "{said}");
    assert!(said.contains("  log       ") && said.contains("of 4.0 MiB used"), "{said}");
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&["--policy", "wafs-2sync", "--read-only"]);
    is_whole(&mounted.path("dir"), 50);
    mounted.unmount();
}

/// What `--journal` names may be of another file system, too short, or not asked for.
#[test]
fn a_wrong_log_is_refused() {
    let disk = Disk::with_policy("wafs-2sync", "raw", "16M", &[]);
    let other = Disk::with_policy("wafs-2sync", "raw", "16M", &[]);
    let plain = Disk::new("raw", "16M", &[]);
    let check = |disk: &Disk, journal: &[std::ffi::OsString]| {
        let mut mount = seekless();
        mount.arg("mount").args([disk.image(), disk.point()]).args(journal);
        let ended = run(&mut mount);
        (ended.code(), ended.err)
    };
    let (code, said) = check(&disk, &other.journal());
    assert!(code == 3 && said.contains("is not that of this file system"), "{code}: {said}");
    let (code, said) = check(&plain, &disk.journal());
    assert!(code == 2 && said.contains("leave out --journal"), "{code}: {said}");
    let short = disk.dir.path().join("short.img");
    fs::copy(&disk.journal()[1], &short).expect("copy");
    fs::File::options().write(true).open(&short).expect("open").set_len(1 << 20).expect("shorten");
    let (code, said) = check(&disk, &["--journal".into(), short.into()]);
    assert!(code == 3 && said.contains("of which 1048576 are there"), "{code}: {said}");
    let (code, said) = check(&disk, &["--journal".into(), disk.image().into()]);
    assert!(code == 2 && said.contains("given twice"), "{code}: {said}");
    let (code, said) = check(&disk, &["--journal".into(), "nowhere.img".into()]);
    assert!(code == 3 && said.contains("nowhere.img"), "{code}: {said}");
    // The log of another file system is not overwritten.
    let mut mkfs = seekless();
    mkfs.arg("mkfs").arg(disk.dir.path().join("new.img")).args(["--size", "16M"]);
    let refused = run(mkfs.args(other.journal()));
    assert_eq!(refused.code(), 1, "{}", refused.err);
    assert!(refused.err.contains("holds a log or other data"), "{}", refused.err);
    assert!(!disk.dir.path().join("new.img").exists(), "nothing stays of a mkfs that failed");
    other.is_clean();
}

/// The device of the log is lost: the rest goes on without it.
#[test]
fn a_lost_log_is_abandoned() {
    let disk = Disk::with_policy("wafs-2async", "raw", "32M", &[]);
    let mut copy = seekless();
    succeed(
        copy.args(["fs", "cp"]).arg(disk.image()).args(["Cargo.toml", ":/a"]).args(disk.journal()),
    );
    let alone = Disk::at(&disk.image());
    let (code, said) = alone.fsck(&["--abandon-journal"]);
    assert!(code == 16 && said.contains("--repair"), "{code}: {said}");
    let (code, said) = alone.fsck(&["--repair", "--abandon-journal"]);
    assert!(code == 1 && said.contains("held nothing that is lost"), "{code}: {said}");
    alone.is_clean();
    let (code, said) = alone.fsck(&["--repair", "--abandon-journal"]);
    assert!(code == 8 && said.contains("has no log"), "{code}: {said}");
    assert_eq!(succeed(seekless().args(["fs", "ls"]).arg(alone.image())), "/a\n");
    if !possible() {
        return;
    }
    alone.mount(&[]).unmount();
    alone.is_clean();
}

/// A log in use is refused at once, and not taken for one of which the mount ends.
#[test]
fn a_log_in_use_is_refused_at_once() {
    if !possible() {
        return;
    }
    let disk = Disk::with_policy("wafs-2async", "raw", "16M", &[]);
    let mounted = disk.mount(&[]);
    let mut mkfs = seekless();
    mkfs.arg("mkfs").arg(disk.dir.path().join("new.img")).args(["--size", "16M"]);
    let refused = run(mkfs.args(disk.journal()));
    assert_eq!(refused.code(), 4, "{}", refused.err);
    assert!(refused.err.contains("log.img is in use"), "{}", refused.err);
    assert!(!refused.err.contains("was unmounted"), "{}", refused.err);
    mounted.unmount();
    disk.is_clean();
}
