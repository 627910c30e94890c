//! Which policy may mount what: after a crash under another one, and without flushes.

use crate::harness::{Ended, run, seekless, succeed};
use crate::mount::{Disk, possible};
use seekless_engine::disk::Disk as _;
use seekless_formats::MountOptions;
use seekless_formats::ffs;
use seekless_fs::policy::PolicyKind;
use seekless_serve::files::{Volume, VolumeOptions};
use std::process::Command;
use std::time::Duration;

/// A file system that was mounted with one policy and not unmounted, and can be mounted with
/// another one after a repair.
fn left_by(policy: PolicyKind, next: PolicyKind) -> Disk {
    let made = if policy.is_logged() { policy } else { next };
    let layout = match policy.wants_transactions() || next.wants_transactions() {
        true => "loge",
        false => "raw",
    };
    let disk = Disk::with_policy(made.name(), layout, "16M", &[]);
    let options = VolumeOptions::new(vec![disk.image()], false);
    let mut volume = Volume::open(&options).expect("it is there");
    // Two devices together have no transactions.
    if let [_, path] = disk.journal().as_slice()
        && !policy.wants_transactions()
    {
        let journal = Volume::open_journal(&options, path.as_ref()).expect("it is there");
        let at = volume.blocks();
        volume = volume.join(journal, at).expect("both are open");
    }
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    ffs::mount(&mut volume, &options).expect("it is new");
    disk
}

/// Runs a command on an image that this process has just closed. A child that another test forks
/// at that moment has the lock of the image until it begins its own program.
fn once_free(command: impl Fn() -> Command) -> Ended {
    const IN_USE: i32 = 4;
    for _ in 0..500 {
        let ended = run(&mut command());
        if ended.code() != IN_USE {
            return ended;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the image stays in use");
}

#[test]
fn another_policy_is_refused_after_a_crash_with_the_remedy() {
    for left in PolicyKind::ALL {
        for asked in PolicyKind::ALL.into_iter().filter(|&asked| asked != left) {
            let disk = left_by(left, asked);
            let mount = || {
                let mut mount = seekless();
                mount.arg("mount").args([disk.image(), disk.point()]);
                if !asked.wants_transactions() {
                    mount.args(disk.journal());
                }
                mount.args(["--policy", asked.name()]);
                mount
            };
            if left.is_logged() && asked.is_logged() {
                // What is in a log does not depend on when calls were answered.
                // A log in a file serves all policies with a log on the same volume.
                let is_there = left.has_own_log_volume() == asked.has_own_log_volume()
                    && (left.has_log_in_file() || !asked.has_log_in_file());
                if !is_there {
                    let refused = once_free(mount);
                    assert_eq!(refused.code(), 3, "{}", refused.err);
                    assert!(refused.err.contains("the file system has no log"), "{}", refused.err);
                } else if possible() {
                    let said = once_free(mount);
                    assert!(said.err.contains("the log held 0 operations"), "{}", said.err);
                    succeed(Command::new("fusermount3").arg("-u").arg(disk.point()));
                }
                continue;
            }
            let refused = once_free(mount);
            assert_eq!(refused.code(), 3, "{}", refused.err);
            let (left, asked) = (left.name(), asked.name());
            let cause =
                format!("mounted with --policy {left} and not unmounted, so --policy {asked}");
            assert!(refused.err.contains(&cause), "{}", refused.err);
            assert!(refused.err.contains("run `seekless fsck --repair` first"), "{}", refused.err);
            let (code, said) = disk.fsck(&["--repair"]);
            assert_eq!(code, 1, "{said}");
            if possible() {
                succeed(&mut mount());
                succeed(Command::new("fusermount3").arg("-u").arg(disk.point()));
            }
        }
    }
}

#[test]
fn transactions_need_no_log_and_refuse_one() {
    let disk = Disk::with_policy("wafs-2async", "loge", "16M", &[]);
    let mut mount = seekless();
    mount.arg("mount").args([disk.image(), disk.point()]).args(disk.journal());
    let refused = run(mount.args(["--policy", "atomic"]));
    assert_eq!(refused.code(), 2, "{}", refused.err);
    assert!(refused.err.contains("--policy atomic keeps no log"), "{}", refused.err);
    assert!(refused.err.contains("hint: leave out --journal"), "{}", refused.err);
}

/// A file under the page cache reports writes before they are durable.
#[test]
fn a_mount_without_flushes_says_what_it_gives_up() {
    if !possible() {
        return;
    }
    for policy in PolicyKind::ALL {
        let disk = Disk::with_policy(policy.name(), "raw", "16M", &[]);
        let mut mount = seekless();
        mount.arg("mount").args([disk.image(), disk.point()]).args(disk.journal());
        mount.arg("--trust-completions");
        let said = run(mount.args(["--policy", policy.name()]));
        match policy.answers_when_durable() {
            true => {
                assert_eq!(said.code(), 2, "{}", said.err);
                assert!(said.err.contains("leave out --trust-completions"), "{}", said.err);
            }
            false => {
                assert_eq!(said.code(), 0, "{}", said.err);
                assert!(said.err.contains("may lose what fsync has promised"), "{}", said.err);
                succeed(Command::new("fusermount3").arg("-u").arg(disk.point()));
            }
        }
    }
}
