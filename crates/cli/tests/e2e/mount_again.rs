//! Mounts right after an unmount, of files and of block devices: the process of the last mount may
//! still write, and the kernel may still close its files.

use crate::block_device::Loop;
use crate::harness::{pattern, run, seekless, succeed};
use crate::mount::{Disk, Mounted, possible};
use std::fs;
use std::path::Path;

const ROUNDS: usize = 8;

/// Mounts, writes 16 MiB, unmounts, and mounts at once.
fn mounts_at_once(image: &Path, point: &Path, more: &[&str]) {
    for round in 0..ROUNDS {
        let mut mount = seekless();
        let ended = run(mount.arg("mount").arg(image).arg(point).args(more));
        assert_eq!(ended.code(), 0, "{}, round {round}: {}", image.display(), ended.err);
        fs::write(point.join("file"), pattern(round as u64, 16 << 20)).expect("write");
        // Processes that other tests start may hold the file for a moment.
        Mounted { point: point.to_owned() }.unmount();
    }
    let fsck = run(seekless().arg("fsck").arg(image));
    assert_eq!(fsck.code(), 0, "{}{}", fsck.out, fsck.err);
}

#[test]
fn a_device_is_mounted_right_after_its_unmount() {
    if !possible() {
        return;
    }
    for layout in [None, Some("vlog"), Some("inplace")] {
        let dir = crate::harness::temp_dir();
        let Some(disk) = Loop::new(dir.path(), 128 << 20) else { return };
        let point = dir.path().join("mnt");
        fs::create_dir(&point).expect("mkdir");
        let mut mkfs = seekless();
        mkfs.arg("mkfs").arg(&disk.device);
        if let Some(layout) = layout {
            mkfs.args(["--layout", layout]);
        }
        succeed(&mut mkfs);
        mounts_at_once(&disk.device, &point, &[]);
        mounts_at_once(&disk.device, &point, &["--direct"]);
    }
}

#[test]
fn a_file_is_mounted_right_after_its_unmount() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "128M", &[]);
    mounts_at_once(&disk.image(), &disk.point(), &[]);
}

/// A mount at the pace of a disk writes its cache for long after the unmount.
#[test]
fn the_next_command_says_how_much_is_left_and_waits() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "20M", &[]);
    let mounted = disk.mount(&["--disk", "hp97560"]);
    for number in 0..200_u64 {
        fs::write(mounted.path(&format!("{number}")), pattern(number, 20_000)).expect("write");
    }
    mounted.unmount();
    let (code, said) = disk.fsck(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("was unmounted; waiting for process"), "{said}");
    assert!(said.contains("MiB of its changes are left"), "{said}");
}
