//! Minix against `mkfs.minix` and `fsck.minix` of util-linux, both ways. They know blocks of 1,024
//! bytes.

use crate::harness::{command, installed, pattern, run, seekless, skip, succeed, temp_dir};
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_formats::minix::{KIND, mkfs, mount};
use seekless_formats::{MkfsOptions, MountOptions};
use seekless_fs::block::Blocking;
use seekless_fs::block::disk::NodeDisk;
use seekless_fs::block::plain::Plain;
use seekless_fs_model::model::Limits;
use seekless_fs_model::oracle::Judge;
use seekless_fs_model::script::{Kind, Script, Shape};
use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// False, with a word about it, if util-linux was installed without its tools for Minix.
fn has_tools() -> bool {
    let has = installed("mkfs.minix") && installed("fsck.minix");
    if !has {
        skip("mkfs.minix or fsck.minix is missing (Debian: apt-get install util-linux-extra)");
    }
    has
}

/// `fsck.minix` finds nothing. It says what it finds, and ends well all the same.
fn passes(image: &Path) {
    let said = succeed(command("fsck.minix").arg("-f").arg(image));
    let findings: Vec<&str> =
        said.lines().filter(|line| !line.starts_with("Forcing filesystem check")).collect();
    assert!(findings.is_empty(), "fsck.minix: {findings:#?}");
}

fn zeros(dir: &Path, bytes: u64) -> PathBuf {
    let image = dir.join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(bytes)).expect("a file");
    image
}

fn foreign(dir: &Path, version: &str) -> PathBuf {
    let image = zeros(dir, 8 << 20);
    succeed(command("mkfs.minix").arg(version).arg(&image));
    image
}

fn ours(dir: &Path, block: &str) -> PathBuf {
    let image = dir.join("disk.img");
    let size = ["--size", "8M", "--block", block];
    let said = succeed(seekless().args(["mkfs", "--fs", "minix"]).args(size).arg(&image));
    assert!(said.contains("Minix V3"), "{said}");
    image
}

fn tool(name: &str, image: &Path) -> Command {
    let mut tool = seekless();
    tool.args(["fs", name]).arg(image);
    tool
}

/// A small tree with links, a large file and a hole.
fn tree(dir: &Path) -> PathBuf {
    let top = dir.join("tree");
    fs::create_dir_all(top.join("a/b")).expect("directories");
    fs::write(top.join("a/large"), pattern(1, 2_000_000)).expect("a file");
    fs::write(top.join("a/b/small"), "a few words\n").expect("a file");
    fs::hard_link(top.join("a/b/small"), top.join("again")).expect("a link");
    symlink("a/b/small", top.join("soft")).expect("a link");
    fs::File::create(top.join("hole")).and_then(|file| file.set_len(9 << 20)).expect("a file");
    for number in 0..60 {
        fs::write(top.join(format!("a/{number:x<50}")), "x").expect("a file");
    }
    top
}

/// Copies a tree in and out again, and removes part of it.
fn takes_a_tree(dir: &Path, image: &Path) {
    let tree = tree(dir);
    succeed(tool("cp", image).arg(&tree).arg(":/"));
    assert_eq!(succeed(tool("cat", image).arg("/tree/soft")), "a few words\n");
    let back = dir.join("back");
    succeed(tool("cp", image).arg(":/tree").arg(&back));
    succeed(command("diff").args(["-r", "--no-dereference"]).args([&tree, &back]));
    let said = succeed(seekless().arg("fsck").arg(image));
    assert!(said.contains("; clean"), "{said}");
}

#[test]
fn an_image_of_mkfs_minix_takes_files() {
    if !has_tools() {
        return;
    }
    let dir = temp_dir();
    let image = foreign(dir.path(), "-3");
    takes_a_tree(dir.path(), &image);
    passes(&image);
    succeed(tool("rm", &image).args(["/tree/a", "--recursive"]));
    passes(&image);
}

#[test]
fn an_image_of_ours_passes_the_check_of_util_linux() {
    for block in ["1k", "2k", "4k"] {
        let dir = temp_dir();
        let image = ours(dir.path(), block);
        takes_a_tree(dir.path(), &image);
        let dumped = succeed(&mut tool("dump", &image));
        assert!(dumped.contains("Minix V3"), "{dumped}");
        let root = succeed(tool("dump", &image).args(["--inode", "1"]));
        assert!(root.contains("inode 1 at byte") && root.contains("drwxr-xr-x"), "{root}");
        let map = succeed(tool("map", &image).arg("/tree/a/large"));
        assert!(!map.is_empty());
        if block == "1k" && has_tools() {
            passes(&image);
        }
    }
}

/// After a script on blocks of 1,024 bytes `fsck.minix` finds nothing.
fn script_passes(kind: Kind, seed: u64) {
    let mut cells = Cells::new(32 << 8);
    let options = MkfsOptions { block: 1024, inodes: Some(4096), ..(KIND.defaults)() };
    mkfs(&mut MediumDisk(&mut cells), &options).expect("it fits");
    let node = Plain::node(Box::new(Ram::new(Box::new(cells))));
    let options = MountOptions { now: 1, ..MountOptions::default() };
    let mounted = Blocking::mount(node, |disk| mount(disk, &options)).expect("just made");
    let limits = Limits {
        most_bytes: 0x7fff_ffff,
        most_links: KIND.limits.links,
        exchanges: true,
        most_name: KIND.limits.name_bytes,
        most_text: 1023,
        most_device: 0xffff,
        allocates: KIND.limits.allocates,
        time_step: KIND.limits.time_step,
    };
    let shape = Shape {
        block: 1024,
        fragment: 1024,
        capacity: 32 << 20,
        most_bytes: limits.most_bytes,
        direct: 7,
        addresses: 128,
    };
    let script = Script::random(kind, seed, 2000, shape);
    let mut judge = Judge::new(mounted, limits, false);
    judge.run(&script.calls).unwrap_or_else(|wrong| panic!("{kind:?}: {wrong:?}"));
    let dir = temp_dir();
    let image = zeros(dir.path(), 32 << 20);
    let _ = judge.remount(|mounted| {
        let (mut node, stopped) = mounted.unmount();
        stopped.expect("memory does not fail");
        let file = fs::OpenOptions::new().write(true).open(&image).expect("it was made");
        for at in 0..32 << 8 {
            let block = NodeDisk::new(&mut node, &mut 0).read(at, 1).expect("memory");
            file.write_all_at(&block.to_bytes(), at * 4096).expect("a file");
        }
        passes(&image);
        Blocking::mount(node, |disk| mount(disk, &options)).expect("it is sound")
    });
}

/// Deep trees are left out: `fsck.minix` goes down 50 directories.
#[test]
fn scripts_leave_nothing_that_fsck_minix_finds() {
    if !has_tools() {
        return;
    }
    for kind in Kind::ALL {
        if !matches!(kind, Kind::DeepTree | Kind::Mixed | Kind::FullDisk) {
            script_passes(kind, 1);
        }
    }
}

#[test]
fn older_versions_are_refused_by_name() {
    if !has_tools() {
        return;
    }
    for (version, names) in [("-1", "version 1 with names of 30"), ("-2", "version 2 with names")] {
        let dir = temp_dir();
        let image = foreign(dir.path(), version);
        let ended = run(seekless().arg("fsck").arg(&image));
        assert_eq!(ended.code(), 8, "{}", ended.err);
        assert!(ended.err.contains(names), "{}", ended.err);
        let ended = run(&mut tool("ls", &image));
        assert!(!ended.status.success() && ended.err.contains(names), "{}", ended.err);
        let ended = run(seekless().args(["mkfs", "--fs", "minix"]).arg(&image));
        assert!(ended.err.contains("holds a file system, Minix"), "{}", ended.err);
    }
}

/// What `seekless fsck --repair` mends, `fsck.minix` finds nothing in.
#[test]
fn a_repaired_image_passes() {
    if !has_tools() {
        return;
    }
    let dir = temp_dir();
    let image = ours(dir.path(), "1k");
    takes_a_tree(dir.path(), &image);
    let file = fs::OpenOptions::new().write(true).open(&image).expect("it was made");
    // The begins of both maps: inodes and zones in use are free.
    file.write_all_at(&[3, 0, 0], 2048).expect("a file");
    file.write_all_at(&[3, 0, 0, 0], 3072).expect("a file");
    let ended = run(seekless().arg("fsck").arg(&image));
    assert_eq!(ended.code(), 4, "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("marked as free"), "{}", ended.out);
    let ended = run(seekless().arg("fsck").arg(&image).arg("--repair"));
    assert_eq!(ended.code(), 1, "{}{}", ended.out, ended.err);
    passes(&image);
}

#[test]
fn options_that_the_format_has_no_place_for_are_refused() {
    let dir = temp_dir();
    let image = dir.path().join("disk.img");
    for (option, says) in [
        (["--label", "x"], "no place for a label"),
        (["--minfree", "5"], "keeps no space for root"),
        (["--fragment", "1k"], "no fragments"),
        (["--policy", "soft"], "no place for a policy"),
        (["--block", "8k"], "1k, 2k or 4k"),
    ] {
        let mut mkfs = seekless();
        mkfs.args(["mkfs", "--fs", "minix", "--size", "4M"]).args(option).arg(&image);
        let ended = run(&mut mkfs);
        assert!(!ended.status.success() && ended.err.contains(says), "{option:?}: {}", ended.err);
        assert!(!image.exists(), "what did not exist before does not stay");
    }
}
