//! VLFS on the command line: made with its drive, filled, checked, and mounted over a disk whose
//! power goes.

use crate::harness::{command, run, seekless, succeed, temp_dir};
use crate::mount::{Disk, possible};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn made(dir: &Path) -> PathBuf {
    let image = dir.join("disk.img");
    let made = succeed(seekless().args(["mkfs", "--fs", "vlfs", "--size", "64M"]).arg(&image));
    assert!(made.contains("VLFS for up to"), "{made}");
    image
}

#[test]
fn a_tree_comes_back_and_leaves_no_damage() {
    let dir = temp_dir();
    let image = made(dir.path());
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("directories");
    fs::write(tree.join("a/large"), vec![7; 3_000_000]).expect("a file");
    for number in 0..300 {
        fs::write(tree.join(format!("a/b/{number:x<40}")), "a few words").expect("a file");
    }
    succeed(seekless().args(["fs", "cp"]).arg(&image).arg(&tree).arg(":/"));
    let back = dir.path().join("back");
    succeed(seekless().args(["fs", "cp"]).arg(&image).arg(":/tree").arg(&back));
    succeed(command("diff").arg("-r").args([&tree, &back]));
    succeed(seekless().args(["fs", "rm"]).arg(&image).args(["/tree/a", "--recursive"]));
    let said = succeed(seekless().arg("fsck").arg(&image));
    assert!(said.contains("2 inodes, 2 directories") && said.contains("; clean"), "{said}");
    let said = succeed(seekless().arg("check").arg(&image));
    assert!(said.contains("no damage found"), "{said}");
    let facts = succeed(seekless().arg("info").arg(&image));
    assert!(facts.contains("objects  "), "{facts}");
}

#[test]
fn patches_go_where_they_belong() {
    let dir = temp_dir();
    let image = made(dir.path());
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("a directory");
    for number in 0..20 {
        fs::write(source.join(number.to_string()), "a few words").expect("a file");
    }
    succeed(seekless().args(["fs", "cp"]).arg(&image).arg(&source).arg(":/"));
    let patches = || -> (u64, u64) {
        let told = succeed(seekless().args(["fs", "compact", "--json"]).arg(&image));
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let number = |name: &str| told[name].as_u64().expect("a number");
        (number("before_bytes"), number("after_bytes"))
    };
    let (before, after) = patches();
    assert!(before > 500 && after == 0, "{before} to {after}");
    assert_eq!(patches(), (0, 0));
    succeed(seekless().arg("check").arg(&image));
    succeed(seekless().arg("fsck").arg(&image));
    let back = dir.path().join("back");
    succeed(seekless().args(["fs", "cp"]).arg(&image).arg(":/source").arg(&back));
    succeed(command("diff").arg("-r").args([&source, &back]));
    let plain = dir.path().join("plain.img");
    succeed(seekless().args(["mkfs", "--fs", "ffs", "--size", "8M"]).arg(&plain));
    let refused = run(seekless().args(["fs", "compact"]).arg(&plain));
    assert!(refused.code() == 2 && refused.err.contains("keeps no patches"), "{}", refused.err);
}

#[test]
fn drives_and_blocks_are_not_mixed_up() {
    let dir = temp_dir();
    let image = made(dir.path());
    let plain = dir.path().join("plain.img");
    File::create(&plain).and_then(|file| file.set_len(8 << 20)).expect("a file");
    let refused = |image: &Path, arguments: &[&str], why: &str| {
        let ended = run(seekless().arg("mkfs").arg(image).args(arguments));
        assert!(ended.code() != 0 && ended.err.contains(why), "{arguments:?}: {}", ended.err);
    };
    refused(&image, &["--fs", "ffs"], "the drive of a VLFS");
    refused(&image, &["--fs", "vlfs"], "holds a file system, VLFS");
    refused(&plain, &["--fs", "vlfs"], "a drive of its own");
    let new = dir.path().join("new.img");
    refused(&new, &["--fs", "vlfs", "--size", "64M", "--layout", "vlog"], "a drive of its own");
    refused(&new, &["--fs", "vlfs", "--size", "64k"], "needs at least");
    assert!(!new.exists(), "what was refused leaves no file");
    let ended = run(seekless().arg("serve").arg(&image).args(["--listen", "localhost:0"]));
    assert!(ended.code() != 0 && ended.err.contains("no blocks to serve"), "{}", ended.err);
    let letter = dir.path().join("letter");
    fs::write(&letter, "Dear Rich").expect("a file");
    succeed(seekless().args(["fs", "cp"]).arg(&image).arg(&letter).arg(":/"));
    for tool in [&["map", "/letter"][..], &["dump"]] {
        let mut asked = seekless();
        let ended = run(asked.arg("fs").arg(tool[0]).arg(&image).args(&tool[1..]));
        assert!(ended.code() != 0 && ended.err.contains("seekless dump"), "{}", ended.err);
    }
    succeed(seekless().arg("mkfs").arg(&image).args(["--fs", "vlfs", "--force"]));
    succeed(seekless().arg("fsck").arg(&image));
}

/// Cuts the power twenty times under each policy: what was synced is there, and nothing is damaged.
#[test]
fn a_power_cut_takes_nothing_that_was_synced() {
    if !possible() {
        return;
    }
    for policy in ["async", "sync"] {
        let dir = temp_dir();
        let disk = Disk::at(&made(dir.path()));
        for round in 0..20 {
            let faults = format!("seed={round}");
            let mounted = disk.mount_with_control(&["--policy", policy, "--faults", &faults]);
            for known in 0..round {
                let read =
                    fs::read(mounted.path(&format!("synced{known}"))).expect("it was synced");
                assert_eq!(read, vec![known as u8; 9000], "{policy}, round {round}");
            }
            let path = mounted.path(&format!("synced{round}"));
            let mut file = File::create(path).expect("create");
            let written = file.write_all(&vec![round as u8; 9000]);
            written.and_then(|()| file.sync_all()).expect("fsync");
            let _ = fs::write(mounted.path("unsynced"), vec![round as u8; 20_000]);
            disk.control(&["cut"]);
            drop(file);
            mounted.unmount();
            disk.is_clean_but_for_files_without_a_name();
        }
    }
}

impl Disk {
    /// A file that lost its last name while it was open stays until the next mount.
    fn is_clean_but_for_files_without_a_name(&self) {
        let (code, said) = self.fsck(&[]);
        let is_known = |line: &str| line.contains("no name leads to it") || line.contains("noted");
        let others = said.lines().filter(|line| line.contains("object ") && !is_known(line));
        assert_eq!(others.count(), 0, "{code}: {said}");
    }
}
