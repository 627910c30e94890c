//! Another policy for a file system that has files: mounted with each, and after a power cut.

use crate::harness::{run, seekless, succeed};
use crate::mount::{Disk, possible};
use std::fs;

fn switch(disk: &Disk, policy: &str, more: &[&str]) -> (i32, String) {
    let mut command = seekless();
    command.args(["fs", "switch-policy"]).arg(disk.image()).arg(policy);
    let ended = run(command.args(more));
    (ended.code(), format!("{}{}", ended.out, ended.err))
}

#[test]
fn a_file_system_goes_from_policy_to_policy_with_its_files() {
    let disk = Disk::new("raw", "32M", &[]);
    let mut copy = seekless();
    succeed(copy.args(["fs", "cp"]).arg(disk.image()).args(["Cargo.toml", ":/first"]));
    let mut files = 1;
    for policy in ["soft", "lffs-file", "wafs-1sync", "sync", "wafs-1async", "async", "lffs-file"] {
        let (code, said) = switch(&disk, policy, &[]);
        assert!(code == 0 && said.contains(&format!("policy {policy}, before")), "{code}: {said}");
        disk.is_clean();
        if possible() {
            let mounted = disk.mount(&[]);
            let text = succeed(seekless().arg("status").arg(disk.image()));
            assert!(text.contains(&format!("policy {policy}")), "{text}");
            fs::write(mounted.path(&format!("under-{files}")), policy).expect("write");
            mounted.unmount();
            files += 1;
            disk.is_clean();
        }
        let listed = succeed(seekless().args(["fs", "ls"]).arg(disk.image()));
        assert_eq!(listed.lines().count(), files, "{listed}");
    }
}

#[test]
fn what_was_not_unmounted_keeps_its_policy() {
    if !possible() {
        return;
    }
    let disk = Disk::new("raw", "32M", &[]);
    let mounted = disk.mount_with_control(&["--faults", "unflushed=lose"]);
    let refused = switch(&disk, "soft", &[]);
    assert!(refused.0 != 0 && refused.1.contains("in use"), "{}: {}", refused.0, refused.1);
    fs::write(mounted.path("file"), "content").expect("write");
    disk.control(&["cut"]);
    mounted.unmount();
    let (code, said) = switch(&disk, "lffs-file", &[]);
    assert!(code != 0 && said.contains("seekless fsck --repair"), "{code}: {said}");
    disk.fsck(&["--repair"]);
    let (code, said) = switch(&disk, "lffs-file", &[]);
    assert_eq!(code, 0, "{said}");
    disk.mount(&[]).unmount();
    disk.is_clean();
}

#[test]
fn a_log_that_does_not_fit_is_refused_and_nothing_stays() {
    let disk = Disk::new("raw", "16M", &[]);
    let (code, said) = switch(&disk, "lffs-file", &["--journal-size", "64M"]);
    assert!(code != 0 && said.contains("the largest piece has"), "{code}: {said}");
    let log = disk.dir.path().join("log.img");
    let path = log.to_str().expect("a name").to_owned();
    let (code, said) = switch(&disk, "wafs-2async", &["--journal", &path]);
    assert!(code == 2 && said.contains("--journal-size SIZE makes it"), "{code}: {said}");
    let (code, said) =
        switch(&disk, "wafs-2async", &["--journal", &path, "--journal-size", "100k"]);
    assert!(code != 0 && said.contains("use 1M to"), "{code}: {said}");
    assert!(!log.exists(), "what a switch that failed has made does not stay");
    disk.is_clean();
}
