//! Machines that lack something, and file systems besides ext4.

use super::bench::{Bench, DURABLE, ROWS, ends_with};
use crate::harness::{command, copy_program, installed, run, skip};
use std::process::Command;

/// Where the program is reached by every user.
fn public_program(bench: &Bench) -> std::path::PathBuf {
    let path = bench.path("seekless");
    copy_program(&path);
    path
}

fn small(test: &mut Command) -> &mut Command {
    test.args(["--run", DURABLE, "--check", ROWS])
}

#[test]
fn a_user_without_rights_is_told_all_that_is_missing_at_once() {
    crate::require!("setpriv");
    let Some(bench) = Bench::new() else { return };
    let program = public_program(&bench);
    let mut test = command("setpriv");
    test.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    test.args(["crash-test", "--fs", "ext4"]).current_dir("/").env("TMPDIR", bench.path("tmp"));
    let ended = ends_with(small(&mut test), 7);
    assert!(ended.err.contains("crash-test cannot run here:"), "{}", ended.err);
    assert!(ended.err.contains("may not mount (no CAP_SYS_ADMIN); "), "{}", ended.err);
    let helps = |text: &str| text.contains("run as root") || text.contains("--privileged");
    assert!(helps(&ended.err), "{}", ended.err);
    assert!(ended.err.contains("/dev/loop-control may not be opened"), "{}", ended.err);
    assert_eq!(ended.err.matches("error:").count(), 1, "one message: {}", ended.err);
    assert!(ended.out.is_empty(), "{}", ended.out);
    bench.assert_nothing_left();
}

#[test]
fn a_missing_mkfs_is_told_with_its_package() {
    let Some(bench) = Bench::new() else { return };
    // Where `mkfs.f2fs` is installed it is hidden, in a mount namespace of this test.
    let hide = "for dir in /sbin /usr/sbin /usr/local/sbin /bin /usr/bin; do \
                test ! -e $dir/mkfs.f2fs || mount --bind /dev/null $dir/mkfs.f2fs; done; \
                rm -f hidden; exec \"$@\"";
    let program = env!("CARGO_BIN_EXE_seekless");
    let mut test = command("unshare");
    if installed("mkfs.f2fs") {
        // A device in place of the program is no program.
        test.args(["--mount", "sh", "-c", hide, "sh"]).arg(program);
    } else {
        test = command(program);
    }
    test.arg("crash-test").env("TMPDIR", bench.path("tmp")).args(["--fs", "f2fs"]);
    let ended = ends_with(small(&mut test), 7);
    assert!(ended.err.contains("mkfs.f2fs is not installed"), "{}", ended.err);
    assert!(ended.err.contains("f2fs-tools"), "{}", ended.err);
    bench.assert_nothing_left();
}

#[test]
fn without_fuse_the_device_is_named() {
    let Some(bench) = Bench::new() else { return };
    let lacks = "mount -t tmpfs none /dev && exec \"$@\"";
    let mut test = command("unshare");
    test.args(["--mount", "sh", "-c", lacks, "sh", env!("CARGO_BIN_EXE_seekless"), "crash-test"]);
    test.args(["--fs", "ext4"]).env("TMPDIR", bench.path("tmp"));
    let ended = ends_with(small(&mut test), 7);
    for device in ["/dev/fuse is not there", "/dev/loop-control is not there"] {
        assert!(ended.err.contains(device), "{}", ended.err);
    }
    assert!(ended.err.contains("modprobe") || ended.err.contains("--privileged"), "{}", ended.err);
    bench.assert_nothing_left();
}

/// A file system whose states two workers check at once: they have one UUID.
fn is_green(fs: &str, size: &str) {
    let Some(bench) = Bench::new() else { return };
    if !installed(&format!("mkfs.{fs}")) {
        return skip(&format!("mkfs.{fs} is not installed"));
    }
    let mut test = bench.command("crash-test");
    test.args(["--fs", fs, "--size", size, "--samples", "2", "--exhaustive", "0", "--jobs", "2"]);
    let ended = run(small(&mut test));
    if ended.code() == 7 && ended.err.contains(&format!("this kernel has no {fs}")) {
        return skip(&format!("this kernel has no {fs}"));
    }
    super::bench::expect_code(&ended, 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
    bench.assert_nothing_left();
}

#[test]
fn xfs_is_green() {
    is_green("xfs", "300M");
}

#[test]
fn btrfs_is_green() {
    is_green("btrfs", "128M");
}

#[test]
fn f2fs_is_green() {
    is_green("f2fs", "64M");
}

/// The namespaces of a container, without a container engine.
#[test]
fn the_namespaces_of_a_container_are_enough() {
    crate::require!("unshare");
    let Some(bench) = Bench::new() else { return };
    let mut test = command("unshare");
    test.args(["--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--mount-proc"]);
    test.arg(env!("CARGO_BIN_EXE_seekless")).arg("crash-test").env("TMPDIR", bench.path("tmp"));
    test.args(["--size", "32M", "--samples", "2", "--exhaustive", "0"]);
    let ended = run(small(&mut test));
    super::bench::expect_code(&ended, 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
    bench.assert_nothing_left();
}

/// The command line of the manual, where containers run: the root of this machine is the image.
#[test]
fn a_privileged_container_is_enough() {
    crate::require!("podman");
    let Some(_bench) = Bench::new() else { return };
    let container = |inside: &[&str]| {
        let mut podman = command("podman");
        podman.args(["run", "--rm", "--privileged", "--network", "none", "--rootfs", "/:O"]);
        podman.args(inside);
        podman
    };
    let tried = run(&mut container(&["true"]));
    if tried.code() != 0 {
        return skip(&format!("no container runs here: {}", tried.err.trim()));
    }
    let program = env!("CARGO_BIN_EXE_seekless");
    let mut test = container(&[program, "crash-test", "--size", "32M", "--samples", "2"]);
    let ended = run(small(&mut test));
    super::bench::expect_code(&ended, 0);
    assert!(ended.out.starts_with("GREEN"), "{}", ended.out);
}
