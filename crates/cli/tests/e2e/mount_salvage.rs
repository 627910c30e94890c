//! A file system on a damaged volume, mounted for what is left of it: each file that can be read is
//! whole, and what is lost is an error.

use crate::harness::{pattern, run, seekless};
use crate::mount::{Disk, Mounted, possible};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

const BLOCK: usize = 4096;
const FILES: u64 = 24;
const LENGTH: usize = 256 << 10;

fn content(file: u64) -> Vec<u8> {
    pattern(100 + file, LENGTH)
}

/// How many files are whole, and how many say that they are not.
fn count(mounted: &Mounted) -> (u64, u64) {
    let (mut whole, mut lost) = (0, 0);
    for file in 0..FILES {
        let mut found = Vec::new();
        let path = mounted.path(&format!("file{file}"));
        match File::open(&path).and_then(|mut it| it.read_to_end(&mut found)) {
            Ok(_) => {
                assert!(found == content(file), "file {file} is not what was written");
                whole += 1;
            }
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "file {file}: {error}");
                lost += 1;
            }
        }
    }
    (whole, lost)
}

/// Puts damage into one map block after the other; `act` hears which.
fn damaged(image: &Path, mut act: impl FnMut(usize)) {
    let good = fs::read(image).expect("an image");
    let begins = |at: &usize| good[at * BLOCK..].starts_with(b"SKLSMAP1");
    for at in (0..good.len() / BLOCK).filter(begins) {
        let mut bad = good.clone();
        bad[at * BLOCK + 700] ^= 1;
        fs::write(image, &bad).expect("damage");
        if run(seekless().arg("check").arg(image)).code() == 3 {
            act(at);
        }
    }
}

#[test]
fn a_damaged_volume_is_mounted_for_what_is_left() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount(&[]);
    for file in 0..FILES {
        fs::write(mounted.path(&format!("file{file}")), content(file)).expect("there is room");
    }
    mounted.unmount();
    // The process of the mount has ended: the image is as it left it.
    disk.is_clean();
    let (mut struck, mut read, mut lost) = (0, 0, 0);
    damaged(&disk.image(), |at| {
        struck += 1;
        let refused = run(seekless().arg("mount").arg(disk.image()).arg(disk.point()));
        assert_eq!(refused.code(), 3, "block {at}: {refused:?}");
        let mut mount = seekless();
        mount.arg("mount").arg(disk.image()).arg(disk.point()).arg("--salvage");
        let ended = run(&mut mount);
        if ended.code() != 0 {
            // What the file system itself begins with was in what is lost.
            assert!(ended.err.contains("error: "), "block {at}: {ended:?}");
            return;
        }
        let mounted = Mounted { point: disk.point() };
        let found = count(&mounted);
        (read, lost) = (read + found.0, lost + found.1);
        let write = fs::write(mounted.path("new"), b"refused");
        // A copy of the superblock may be all that is left: then the root cannot be read either.
        let error = write.expect_err("read-only").raw_os_error();
        assert!(matches!(error, Some(5 | 30)), "block {at}: {error:?}");
        mounted.unmount();
    });
    assert!(struck > 1 && read > 0 && lost > 0, "{struck} struck, {read} read, {lost} lost");
}
