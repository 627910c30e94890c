//! Mounted file systems over devices that fail: what programs, the operator and the exit code say.

use crate::block_device::Loop;
use crate::harness::{command, pattern, run, seekless, succeed, temp_dir};
use crate::mount::{Disk, Foreground, Mounted, VLFS, possible};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

const EIO: Option<i32> = Some(5);

/// Writes a file and gives what `fsync` says.
fn write_synced(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[test]
fn messages_of_the_background_reach_a_file() {
    if !possible() {
        return;
    }
    let disk = Disk::new("raw", "32M", &[]);
    let messages = disk.dir.path().join("messages");
    fs::write(&messages, "before\n").expect("write");
    let path = messages.to_str().expect("UTF-8");
    let mounted = disk.mount_with_control(&["--messages", path]);
    disk.control(&["arm", "eio-write=0+32M"]);
    let failed = write_synced(&mounted.path("a"), b"content").expect_err("it fails");
    assert_eq!(failed.raw_os_error(), EIO);
    mounted.unmount();
    // The image is free when the process has said its last.
    disk.repair();
    let said = fs::read_to_string(&messages).expect("read");
    assert!(said.starts_with("before\n"), "{said}");
    let lines = said.lines().filter(|line| line.contains("read-only from now on: block "));
    assert_eq!(lines.count(), 1, "{said}");
    assert!(said.contains("the backing store failed while the file system was mounted"), "{said}");
    let refused = run(seekless()
        .args(["mount", "--messages", "/nonexistent/x"])
        .args([disk.image(), disk.point()]));
    assert!(refused.code() == 2 && refused.err.contains("--messages"), "{}", refused.err);
}

#[test]
fn a_failed_read_is_named_and_ends_nothing() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount(&[]);
    fs::write(mounted.path("a"), pattern(1, 100_000)).expect("write");
    mounted.unmount();
    let messages = disk.dir.path().join("messages");
    let path = messages.to_str().expect("UTF-8");
    let mounted = disk.mount_with_control(&["--messages", path]);
    disk.control(&["arm", "eio-read=0+32M"]);
    let failed = fs::read(mounted.path("a")).expect_err("it fails");
    assert_eq!(failed.raw_os_error(), EIO);
    let again = fs::read(mounted.path("a")).expect_err("it fails");
    assert_eq!(again.raw_os_error(), EIO);
    disk.control(&["clear"]);
    assert!(fs::read(mounted.path("a")).expect("read") == pattern(1, 100_000));
    fs::write(mounted.path("b"), "b").expect("nothing has failed for good");
    mounted.unmount();
    disk.is_clean();
    let said = fs::read_to_string(&messages).expect("read");
    // The file system names what it wanted, the log of the device how often it failed.
    let (own, device): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.contains("a read failed"));
    assert!(own.iter().all(|line| line.contains("block ")) && !own.is_empty(), "{said}");
    let image = format!("WARN seekless: {}: ", disk.image().display());
    assert!(device.iter().all(|line| line.contains(&image)) && !device.is_empty(), "{said}");
}

#[test]
fn what_is_there_is_read_after_a_write_has_failed() {
    if !possible() {
        return;
    }
    for layout in ["inplace", VLFS] {
        let disk = Disk::new(layout, "32M", &[]);
        let mounted = disk.mount(&[]);
        for n in 0..20 {
            fs::write(mounted.path(&n.to_string()), pattern(n, 20_000)).expect("write");
        }
        mounted.unmount();
        let mounted = disk.mount_with_control(&[]);
        disk.control(&["arm", "eio-write=0+32M"]);
        write_synced(&mounted.path("late"), b"content").expect_err("it fails");
        for n in 0..20 {
            let found = fs::read(mounted.path(&n.to_string()));
            assert!(found.expect("read") == pattern(n, 20_000), "{layout}, {n}");
        }
        mounted.unmount();
        disk.repair();
    }
}

#[test]
fn a_mount_that_failed_ends_with_its_code() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "32M", &[]);
    let mut daemon = Foreground::with(&disk, &["--faults", "eio-write=1M+31M"]);
    let content = pattern(2, 4 << 20);
    let failed = write_synced(&disk.point().join("a"), &content).expect_err("it fails");
    assert_eq!(failed.raw_os_error(), EIO);
    let refused = fs::write(disk.point().join("b"), "b").expect_err("it refuses changes");
    assert!(matches!(refused.raw_os_error(), Some(5 | 30)), "{refused}");
    Mounted { point: disk.point() }.unmount();
    assert_eq!(daemon.ended(), Some(5));
    let said = daemon.errors();
    assert!(said.contains("the backing store failed while the file system was mounted"), "{said}");
    assert!(said.contains("hint: repair or replace it, then run `seekless fsck`"), "{said}");
    disk.repair();
}

/// A file system in memory that is smaller than the files in it.
struct Small(PathBuf);

impl Small {
    fn new(point: PathBuf, size: &str) -> Small {
        fs::create_dir(&point).expect("mkdir");
        let mut mount = command("mount");
        mount.args(["-t", "tmpfs", "-o"]).arg(format!("size={size}")).args(["tmpfs"]).arg(&point);
        succeed(&mut mount);
        Small(point)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        run(command("umount").arg("-l").arg(&self.0));
    }
}

/// A block device has no space below it: with `--direct` the write fails, else a later sync.
#[test]
fn a_block_device_that_fails_is_reported() {
    if !possible() {
        return;
    }
    for (how, word) in
        [(&["--direct"][..], "store is full"), (&[], "Input/output error (os error 5)")]
    {
        let dir = temp_dir();
        let small = Small::new(dir.path().join("small"), "8M");
        let Some(device) = Loop::new(&small.0, 64 << 20) else { return };
        succeed(seekless().arg("mkfs").arg(&device.device));
        let disk = Disk::at(&device.device);
        let mut daemon = Foreground::with(&disk, how);
        let content = pattern(3, 24 << 20);
        let failed = write_synced(&disk.point().join("a"), &content).expect_err("it is full");
        assert_eq!(failed.raw_os_error(), EIO, "{how:?}");
        Mounted { point: disk.point() }.unmount();
        assert_eq!(daemon.ended(), Some(5), "{how:?}");
        let said = daemon.errors();
        let line = said.lines().find(|line| line.contains("read-only from now on: "));
        assert!(line.is_some_and(|line| line.contains(word)), "{how:?}: {said}");
    }
}
