//! Mounted file systems over a disk whose power goes: what programs notice, and what is left.

use crate::harness::{run, seekless, succeed};
use crate::mount::{
    Disk, Mounted, VLFS, has_transactions, policies_of_one_device, possible, runs_on,
};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

const SYNCED: &[u8] = b"it was synced";
const UNSYNCED: &[u8] = b"it was not";

impl Disk {
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("disk.ctl")
    }

    pub fn mount_with_control(&self, more: &[&str]) -> Mounted {
        let socket = self.socket();
        let socket = socket.to_str().expect("UTF-8");
        self.mount(&[&["--control", socket], more].concat())
    }

    /// Gives the answer to a command.
    pub fn control(&self, words: &[&str]) -> String {
        succeed(seekless().arg("control").arg(self.socket()).args(words))
    }

    /// Repairs what a power cut has left, unless a mount with this policy recovers it.
    pub fn repair_after(&self, policy: &str) {
        match policy {
            // It is mounted at once, and a repair frees what the short mount has not come to.
            policy if has_transactions(policy) => {
                self.mount(&["--policy", policy]).unmount();
                self.repair();
            }
            policy if policy.starts_with("wafs") => self.is_clean(),
            _ => self.repair(),
        }
    }

    /// Repairs what a power cut has left.
    pub fn repair(&self) {
        let (code, said) = self.fsck(&["--repair"]);
        assert!(code <= 1, "{code}: {said}");
        self.is_clean();
    }
}

fn write_synced(mounted: &Mounted) {
    fs::create_dir(mounted.path("dir")).expect("mkdir");
    let mut file = File::create(mounted.path("dir/synced")).expect("create");
    file.write_all(SYNCED).and_then(|()| file.sync_all()).expect("fsync");
}

/// The content of a file, if there is one.
fn content(mounted: &Mounted, name: &str) -> Option<Vec<u8>> {
    match fs::read(mounted.path(name)) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn a_power_cut_takes_only_what_was_not_synced() {
    if !possible() {
        return;
    }
    for policy in policies_of_one_device() {
        let layouts = ["raw", "inplace", "vlog", "lfs", VLFS];
        for layout in layouts.into_iter().filter(|layout| runs_on(policy, layout)) {
            let lost = (1..=4).filter(|&seed| cut_takes_unsynced(policy, layout, seed)).count();
            assert!(
                lost > 0,
                "{policy}, {layout}: what was not synced is always there, so the cut takes nothing"
            );
        }
    }
}

/// Cuts the power: what was synced is there. True if what was not synced is not.
fn cut_takes_unsynced(policy: &str, layout: &str, seed: u64) -> bool {
    // A small volume takes transactions of little more than one operation: each goes out at once.
    let size = if has_transactions(policy) { "256M" } else { "32M" };
    let disk = Disk::with_policy(policy, layout, size, &[]);
    let faults = format!("seed={seed}");
    let mounted = disk.mount_with_control(&["--policy", policy, "--faults", &faults]);
    write_synced(&mounted);
    fs::write(mounted.path("unsynced"), UNSYNCED).expect("write");
    let cut = disk.control(&["cut"]);
    assert!(cut.contains("\"cause\":\"on command\""), "{cut}");
    let refused = File::create(mounted.path("late")).expect_err("no power");
    assert_eq!(refused.raw_os_error(), Some(5), "{refused}");
    let refused = run(seekless().arg("control").arg(disk.socket()).arg("restart"));
    assert!(refused.code() != 0 && refused.err.contains("unmount"), "{}", refused.err);
    assert!(disk.control(&["status"]).contains("\"power\":\"off\""));
    mounted.unmount();
    disk.repair_after(policy);
    let mounted = disk.mount(&["--policy", policy]);
    let synced = content(&mounted, "dir/synced");
    assert_eq!(synced.as_deref(), Some(SYNCED), "{policy}, {layout}, seed {seed}");
    let unsynced = content(&mounted, "unsynced");
    mounted.unmount();
    disk.is_clean();
    unsynced.as_deref() != Some(UNSYNCED)
}

/// All that programs wrote before `seekless fs sync` survives the power cut behind it.
#[test]
fn a_power_cut_takes_nothing_that_fs_sync_has_covered() {
    if !possible() {
        return;
    }
    for (layout, more) in [("raw", &[][..]), ("vlog", &["--writeback"]), ("lfs", &[]), (VLFS, &[])]
    {
        let disk = Disk::new(layout, "32M", &[]);
        let faults = ["--faults", "unflushed=lose", "--policy", "async"];
        let mounted = disk.mount_with_control(&[&faults[..], more].concat());
        let name = |number: u32| format!("dir/{number}");
        fs::create_dir(mounted.path("dir")).expect("mkdir");
        for number in 0..100 {
            fs::write(mounted.path(&name(number)), SYNCED.repeat(100)).expect("write");
        }
        succeed(seekless().args(["fs", "sync"]).arg(&mounted.point));
        disk.control(&["cut"]);
        let failed = run(seekless().args(["fs", "sync"]).arg(&mounted.point));
        assert_eq!(failed.code(), 5, "without power nothing is durable: {}", failed.err);
        mounted.unmount();
        disk.repair();
        let mounted = disk.mount(&[]);
        for number in 0..100 {
            let found = content(&mounted, &name(number));
            assert!(found == Some(SYNCED.repeat(100)), "{layout}, {number}: {found:?}");
        }
        mounted.unmount();
    }
    let nowhere = run(seekless().args(["fs", "sync", "/"]));
    assert!(nowhere.code() == 1 && nowhere.err.contains("mounted there"), "{}", nowhere.err);
}

/// The same check sees a disk that lies about flushes.
#[test]
fn a_disk_that_lies_loses_what_was_synced() {
    if !possible() {
        return;
    }
    for policy in policies_of_one_device() {
        let disk = Disk::with_policy(policy, "raw", "32M", &[]);
        let mounted = disk.mount_with_control(&["--faults", "lying-flush,unflushed=lose"]);
        write_synced(&mounted);
        disk.control(&["cut"]);
        mounted.unmount();
        disk.repair();
        let mounted = disk.mount(&[]);
        assert_eq!(content(&mounted, "dir/synced"), None, "{policy}");
        mounted.unmount();
    }
}

#[test]
fn a_cut_in_the_middle_of_fsync_fails_it() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount_with_control(&[]);
    // The mount itself has flushed.
    disk.control(&["arm", "cut-on-flush"]);
    let mut file = File::create(mounted.path("a")).expect("create");
    file.write_all(SYNCED).expect("write");
    assert_eq!(file.sync_all().expect_err("no power").raw_os_error(), Some(5));
    assert_eq!(file.sync_all().expect_err("still none").raw_os_error(), Some(5));
    drop(file);
    mounted.unmount();
    disk.repair();
}

/// Without a cut nothing is lost: the cache of the disk is written out at the end.
#[test]
fn an_unmount_empties_the_cache_of_the_disk() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "32M", &[]);
    let mounted = disk.mount_with_control(&[]);
    fs::write(mounted.path("unsynced"), UNSYNCED).expect("write");
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    assert_eq!(content(&mounted, "unsynced").as_deref(), Some(UNSYNCED));
    mounted.unmount();
}
