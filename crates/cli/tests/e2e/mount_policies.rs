//! Which policy may mount what: after a crash under another one, and without flushes.

use crate::harness::{run, seekless, succeed};
use crate::mount::{Disk, possible};
use seekless_formats::MountOptions;
use seekless_formats::ffs;
use seekless_fs::policy::PolicyKind;
use seekless_serve::files::{Volume, VolumeOptions};

/// A file system that was mounted with a policy and not unmounted.
fn left_by(policy: PolicyKind) -> Disk {
    let disk = Disk::new("raw", "16M", &[]);
    let options = VolumeOptions::new(vec![disk.image()], false);
    let mut volume = Volume::open(&options).expect("it is there");
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    ffs::mount(&mut volume, &options).expect("it is new");
    disk
}

#[test]
fn another_policy_is_refused_after_a_crash_with_the_remedy() {
    for left in PolicyKind::UNLOGGED {
        for asked in PolicyKind::UNLOGGED.into_iter().filter(|&asked| asked != left) {
            let disk = left_by(left);
            let mount = || {
                let mut mount = seekless();
                mount.arg("mount").args([disk.image(), disk.point()]);
                mount.args(["--policy", asked.name()]);
                mount
            };
            let refused = run(&mut mount());
            assert_eq!(refused.code(), 3, "{}", refused.err);
            let (left, asked) = (left.name(), asked.name());
            let cause =
                format!("mounted with --policy {left} and not unmounted, so --policy {asked}");
            assert!(refused.err.contains(&cause), "{}", refused.err);
            assert!(refused.err.contains("run `seekless fsck --repair` first"), "{}", refused.err);
            let repaired = run(seekless().args(["fsck", "--repair"]).arg(disk.image()));
            assert_eq!(repaired.code(), 1, "{}", repaired.err);
            if possible() {
                succeed(&mut mount());
                succeed(std::process::Command::new("fusermount3").arg("-u").arg(disk.point()));
            }
        }
    }
}

/// A file under the page cache reports writes before they are durable.
#[test]
fn a_mount_without_flushes_says_what_it_gives_up() {
    if !possible() {
        return;
    }
    let disk = Disk::new("raw", "16M", &[]);
    for policy in PolicyKind::UNLOGGED {
        let mut mount = seekless();
        mount.arg("mount").args([disk.image(), disk.point()]).arg("--trust-completions");
        let said = run(mount.args(["--policy", policy.name()]));
        match policy {
            PolicyKind::Sync => {
                assert_eq!(said.code(), 2, "{}", said.err);
                assert!(said.err.contains("leave out --trust-completions"), "{}", said.err);
            }
            _ => {
                assert_eq!(said.code(), 0, "{}", said.err);
                assert!(said.err.contains("may lose what fsync has promised"), "{}", said.err);
                succeed(std::process::Command::new("fusermount3").arg("-u").arg(disk.point()));
            }
        }
    }
}
