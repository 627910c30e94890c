//! Volumes as block devices of this machine.

use crate::harness::{
    check_is_clean, command, create, eventually, installed, run, seekless, skip, succeed, temp_dir,
};
use crate::mount::possible;
use seekless_serve::status::Report;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// True where block devices can be made of volumes.
fn can_attach() -> bool {
    if !Path::new("/dev/loop-control").exists() {
        skip("attaching needs /dev/loop-control");
        return false;
    }
    possible()
}

/// A device that is taken away with its test.
struct Device(PathBuf);

impl Device {
    fn attach(image: &Path, more: &[&str]) -> Device {
        let line = succeed(seekless().arg("attach").arg(image).args(more));
        assert!(line.starts_with("/dev/loop") && line.lines().count() == 1, "{line}");
        Device(line.trim().into())
    }

    fn report(&self) -> Report {
        let text = succeed(seekless().arg("status").arg(&self.0).arg("--json"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn detach(self) {
        let said = succeed(seekless().arg("detach").arg(&self.0));
        // Another test may have a device of this name now.
        std::mem::forget(self);
        assert!(said.ends_with(": detached\n"), "{said}");
    }

    /// Ends its process as a crash would; users of the device get errors.
    fn kill(self) {
        let pid = self.report().pid;
        let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("signal");
        let name = self.0.file_name().expect("a name").to_owned();
        std::mem::forget(self);
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        eventually("the end of the device", || !backing.exists());
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = run(seekless().arg("detach").arg(&self.0));
    }
}

/// Small file systems get blocks of 1 KiB where sectors allow it. `vlog` would read for each of
/// them.
#[test]
fn a_device_has_sectors_that_suit_its_layout() {
    if !can_attach() {
        return;
    }
    let dir = temp_dir();
    for (layout, more, sector) in
        [("vlog", &[][..], 4096), ("inplace", &[], 512), ("lfs", &["--sector", "512"], 512)]
    {
        let image = create(dir.path(), layout, "64M");
        let device = Device::attach(&image, more);
        let said = succeed(command("blockdev").arg("--getss").arg(&device.0));
        assert_eq!(said.trim(), sector.to_string(), "{layout} {more:?}");
        if installed("mkfs.ext4") {
            succeed(command("mkfs.ext4").arg("-q").arg(&device.0));
            let file = File::open(&device.0).expect("the device");
            let mut log_size = [0; 4];
            file.read_exact_at(&mut log_size, 1024 + 24).expect("a superblock");
            let bytes = 1024 << u32::from_le_bytes(log_size);
            assert_eq!(bytes, if sector == 4096 { 4096 } else { 1024 }, "{layout} {more:?}");
        }
        device.detach();
    }
}

/// Writes of parts of blocks are counted, and warned of where they are many.
#[test]
fn many_partial_writes_are_warned_of() {
    let dir = temp_dir();
    let image = create(dir.path(), "vlog", "8M");
    let server = crate::harness::Server::image(&image);
    let mut client = crate::nbd::Client::connect(server.socket()).expect("connection");
    let status = |more: &[&str]| succeed(seekless().arg("status").arg(&image).args(more));
    for block in 0..200 {
        client.write(block * 4096, &[1; 4096], false).expect("write");
    }
    assert!(!status(&[]).contains("WARNING"), "{}", status(&[]));
    for block in 0..100 {
        client.write(block * 4096 + 1024, &[2; 1024], false).expect("write");
    }
    let said = status(&[]);
    assert!(said.contains("WARNING") && said.contains("33 % of the writes cover part"), "{said}");
    let report: Report = serde_json::from_str(&status(&["--json"])).expect("a report");
    assert_eq!(report.partial_writes, 100);
    client.disconnect().expect("goodbye");
    assert_eq!(server.stop().code(), 0);
}

#[test]
fn a_file_system_of_the_kernel_lives_on_a_volume() {
    if !can_attach() {
        return;
    }
    if !installed("mkfs.ext4") {
        return skip("mkfs.ext4 is not installed");
    }
    let dir = temp_dir();
    let image = create(dir.path(), "vlog", "64M");
    let point = dir.path().join("mnt");
    fs::create_dir(&point).expect("mkdir");
    let device = Device::attach(&image, &[]);
    succeed(command("mkfs.ext4").arg("-q").arg(&device.0));
    succeed(command("mount").arg(&device.0).arg(&point));
    fs::write(point.join("file"), [7; 100_000]).expect("writes");
    let refused = run(seekless().arg("detach").arg(&device.0));
    assert_ne!(refused.code(), 0);
    assert!(refused.err.contains("is mounted at"), "{}", refused.err);
    assert!(refused.err.contains("hint: unmount it first"), "{}", refused.err);
    succeed(command("umount").arg(&point));
    let report = device.report();
    assert!(report.requests["write"].bytes > 100_000, "{report:?}");
    assert_eq!(report.at, device.0.display().to_string());
    device.detach();
    check_is_clean(&image);
    let device = Device::attach(&image, &["--read-only"]);
    succeed(command("mount").args(["-o", "ro"]).arg(&device.0).arg(&point));
    assert_eq!(fs::read(point.join("file")).expect("reads"), [7; 100_000]);
    succeed(command("umount").arg(&point));
    let node = File::options().write(true).open(&device.0);
    let written =
        node.and_then(|mut file| file.write_all(&[1; 4096]).and_then(|()| file.sync_all()));
    assert!(written.is_err(), "it is read-only");
    device.detach();
}

#[test]
fn what_was_synced_survives_the_process() {
    if !can_attach() {
        return;
    }
    let dir = temp_dir();
    let image = create(dir.path(), "lfs", "32M");
    let device = Device::attach(&image, &[]);
    let mut file = File::options().read(true).write(true).open(&device.0).expect("opens");
    file.write_all(&[5; 65536]).expect("writes");
    file.sync_all().expect("syncs");
    drop(file);
    device.kill();
    let device = Device::attach(&image, &[]);
    let file = File::open(&device.0).expect("opens");
    let mut found = [0; 65536];
    file.read_exact_at(&mut found, 0).expect("reads");
    assert_eq!(found, [5; 65536]);
    drop(file);
    device.detach();
    check_is_clean(&image);
}

#[test]
fn discarded_bytes_are_zeros_at_any_sector() {
    if !can_attach() {
        return;
    }
    if !installed("blkdiscard") {
        return skip("blkdiscard is not installed");
    }
    let dir = temp_dir();
    let image = create(dir.path(), "loge", "32M");
    let device = Device::attach(&image, &["--sector", "512"]);
    let mut file = File::options().write(true).open(&device.0).expect("opens");
    file.write_all(&[9; 65536]).expect("writes");
    file.sync_all().expect("syncs");
    drop(file);
    let mut discard = command("blkdiscard");
    discard.args(["--offset", "512", "--length", "20480"]).arg(&device.0);
    succeed(&mut discard);
    let file = File::open(&device.0).expect("opens");
    let mut found = [1; 65536];
    file.read_exact_at(&mut found, 0).expect("reads");
    let zeros = found.iter().filter(|byte| **byte == 0).count();
    assert_eq!((zeros, found[511], found[20992]), (20480, 9, 9));
    drop(file);
    device.detach();
    check_is_clean(&image);
}

#[test]
fn what_is_in_use_or_absent_is_refused() {
    if !can_attach() {
        return;
    }
    let dir = temp_dir();
    let image = create(dir.path(), "inplace", "16M");
    let device = Device::attach(&image, &[]);
    let again = run(seekless().arg("attach").arg(&image));
    assert_eq!(again.code(), 4, "{}", again.err);
    assert!(again.err.contains("in use"), "{}", again.err);
    // By the image, too.
    let said = succeed(seekless().arg("detach").arg(&image));
    assert!(said.contains("/dev/loop"), "{said}");
    std::mem::forget(device);
    let gone = run(seekless().arg("detach").arg(&image));
    assert!(gone.err.contains("no block device is made of it"), "{}", gone.err);
    let missing = run(seekless().arg("attach").arg(dir.path().join("missing")));
    assert_ne!(missing.code(), 0);
    assert!(missing.err.contains("missing"), "{}", missing.err);
}
