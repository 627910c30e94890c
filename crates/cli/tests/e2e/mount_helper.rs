//! Mounts as `mount(8)` and fstab ask for them, and devices that give a file system its size.

use crate::block_device::Loop;
use crate::harness::{command, run, seekless, succeed, temp_dir};
use crate::mount::{Disk, Mounted, possible};
use seekless_serve::status::Report;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What the kernel says of the mount at a directory.
fn kernel_line(point: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let at = format!(" {} ", point.display());
    mounts.lines().find(|line| line.contains(&at)).unwrap_or_default().to_owned()
}

fn policy(point: &Path) -> String {
    let text = succeed(seekless().arg("status").arg(point).arg("--json"));
    let report: Report = serde_json::from_str(&text).expect("a report");
    report.file_system.expect("a file system").policy
}

#[test]
fn the_helper_of_mount_mounts_with_the_options_of_fstab() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let options = "rw,noauto,noatime,noexec,policy=soft,cache=8M,nofail,x-systemd.requires=a";
    for name in ["mount.seekless", "mount.fuse.seekless"] {
        let helper = disk.dir.path().join(name);
        symlink(env!("CARGO_BIN_EXE_seekless"), &helper).expect("a link");
        let mut mount = command(&helper);
        mount.arg(disk.image()).arg(disk.point()).args(["-n", "-s", "-o", options]);
        let said = succeed(&mut mount);
        assert!(said.contains("mounted at"), "{said}");
        let mounted = Mounted { point: disk.point() };
        let line = kernel_line(&mounted.point);
        let all = [" fuse.seekless ", "noexec", "noatime", "nosuid"];
        assert!(all.iter().all(|part| line.contains(part)), "{line}");
        assert_eq!(policy(&mounted.point), "soft");
        fs::write(mounted.path(name), "content").expect("a file");
        mounted.unmount();
    }
    // As `mount.fuse` starts it.
    let mut mount = seekless();
    succeed(mount.arg(disk.image()).arg(disk.point()).args(["-o", "ro"]));
    let mounted = Mounted { point: disk.point() };
    assert_eq!(fs::read(mounted.path("mount.seekless")).expect("a file"), b"content");
    assert!(fs::write(mounted.path("new"), "").is_err(), "it is read-only");
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&["-o", "noatime,policy=sync"]);
    assert_eq!(policy(&mounted.point), "sync");
    mounted.unmount();
    let mut mount = seekless();
    mount.arg("mount").arg(disk.image()).arg(disk.point()).args(["-o", "no_such=1"]);
    let refused = run(&mut mount);
    assert_eq!(refused.code(), 2, "{}", refused.err);
    assert!(refused.err.contains("--no-such"), "{}", refused.err);
}

#[test]
fn a_file_system_on_a_device_takes_the_size_of_the_device() {
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 64 << 20) else { return };
    for layout in [&["--layout", "vlog"][..], &["--layout", "lfs"], &[]] {
        let mut mkfs = seekless();
        mkfs.arg("mkfs").arg(&disk.device).args(layout).arg("--force");
        let said = succeed(&mut mkfs);
        assert!(said.contains("MiB for data"), "{said}");
        let fsck = run(seekless().arg("fsck").arg(&disk.device));
        assert_eq!(fsck.code(), 0, "{}{}", fsck.out, fsck.err);
    }
    let file = dir.path().join("none.img");
    let refused = run(seekless().arg("mkfs").arg(&file).args(["--layout", "vlog"]));
    assert_eq!(refused.code(), 2, "{}", refused.err);
    assert!(refused.err.contains("needs a size") && !file.exists(), "{}", refused.err);
}
