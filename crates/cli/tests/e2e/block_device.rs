//! A block device as backing store: no file system between the volume and the device. Loop devices
//! stand in for disks.

use crate::each_layout;
use crate::harness::{
    Ended, Server, check_is_clean, command, create, installed, pattern, run, seekless, skip,
    succeed, temp_dir,
};
use crate::load::fio;
use crate::nbd::Client;
use crate::require;
use crate::stacked::Stack;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

each_layout!(
    a_device_is_served_through_kills,
    a_device_serves_one_master,
    a_device_that_holds_something_is_overwritten_only_by_force,
    an_earlier_content_does_not_shine_through,
    sizes_are_those_of_the_device,
    a_device_that_goes_away_is_reported,
    a_device_that_shrinks_is_reported,
);

/// A loop device over a file; detached when dropped.
pub struct Loop {
    pub device: PathBuf,
    file: PathBuf,
}

impl Loop {
    /// A device of `bytes` zeros, or why the test does nothing.
    pub fn new(dir: &Path, bytes: u64) -> Option<Loop> {
        if !installed("losetup") {
            skip("losetup is not installed");
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("loop devices need root rights");
            return None;
        }
        let file = dir.join("disk");
        File::create(&file).and_then(|file| file.set_len(bytes)).expect("file");
        let attached = run(command("losetup").args(["--find", "--show"]).arg(&file));
        if !attached.status.success() {
            skip("no loop devices here");
            return None;
        }
        Some(Loop { device: PathBuf::from(attached.out.trim()), file })
    }

    /// Content of the whole device, past the page cache.
    fn content(&self) -> Vec<u8> {
        fs::read(&self.device).expect("the device is readable")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run(command("losetup").arg("--detach").arg(&self.device));
    }
}

/// Makes a volume as large as the device allows.
fn create_on(device: &Path, layout: &str, more: &[&str]) -> Ended {
    run(seekless().arg("create").arg(device).args(["--layout", layout]).args(more))
}

/// A volume on a device, or why the test does nothing.
fn volume(dir: &Path, layout: &str, bytes: u64) -> Option<Loop> {
    let disk = Loop::new(dir, bytes)?;
    let made = create_on(&disk.device, layout, &[]);
    assert_eq!(made.code(), 0, "{}", made.err);
    Some(disk)
}

fn serve(device: &Path, dir: &Path, more: &[&str]) -> Server {
    Server::at(device, &dir.join("disk.sock"), more)
}

fn refused(ended: &Ended, code: i32, part: &str) {
    assert_eq!(ended.code(), code, "{}", ended.err);
    assert!(ended.err.starts_with("error: "), "{}", ended.err);
    assert!(ended.err.contains(part), "`{part}` is missing in: {}", ended.err);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
}

const CREATE: [&str; 6] = ["create", "--force", "--layout", "dcd", "--size", "32M"];

/// The same bytes by two names.
#[test]
fn a_file_is_not_written_beside_the_loop_device_on_it() {
    let dir = temp_dir();
    let Some(disk) = volume(dir.path(), "vlog", 64 << 20) else { return };
    let other = dir.path().join("other.sock");
    let (device, file) = (&disk.device, &disk.file);
    // With an emulated disk, a server opens its image in another way.
    for way in [&[][..], &["--disk", "cmr-20tb:256M"]] {
        let server = serve(device, dir.path(), way);
        let serve = run(seekless().arg("serve").arg(file).arg("--socket").arg(&other));
        refused(&serve, 4, "in use");
        refused(&run(seekless().arg("check").arg(file)), 4, "in use");
        assert_eq!(server.stop().code(), 0);
    }
    // The device may be mounted at any time, and says nothing then.
    let way = format!("losetup --detach {}", device.display());
    for what in [&["serve"][..], &["serve", "--raw"]] {
        let ended = run(seekless().args(what).arg(file).arg("--socket").arg(&other));
        refused(&ended, 4, &way);
    }
    refused(&run(seekless().args(CREATE).arg(file)), 4, &way);
    assert_eq!(run(seekless().arg("check").arg(file)).code(), 0);
}

/// A file system that is mounted through a loop device keeps its first block.
#[test]
fn a_file_that_is_mounted_is_not_made_a_volume() {
    require!("mkfs.ext4");
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 64 << 20) else { return };
    let at = dir.path().join("mnt");
    fs::create_dir(&at).expect("a directory");
    succeed(command("mkfs.ext4").arg("-q").arg(&disk.device));
    succeed(command("mount").arg(&disk.device).arg(&at));
    let before = fs::read(&disk.file).expect("the file is readable");
    let [ended, through] =
        [&disk.file, &disk.device].map(|path| run(seekless().args(CREATE).arg(path)));
    let same = fs::read(&disk.file).expect("the file is readable")[..1024] == before[..1024];
    succeed(command("umount").arg(&at));
    refused(&ended, 4, &format!("mounted at {}", at.display()));
    refused(&through, 4, "in use");
    assert!(same, "the first block was overwritten");
}

fn a_device_is_served_through_kills(layout: &str) {
    require!("fio");
    let ways: [&[&str]; 3] = [&[], &["--direct"], &["--direct", "--io", "threads"]];
    for way in ways {
        let dir = temp_dir();
        let Some(disk) = volume(dir.path(), layout, 64 << 20) else { return };
        let region = ["--rw=randwrite", "--bssplit=512/5:4k/80:64k/15", "--size=16m"];
        let verify = ["--verify=crc32c", "--verify_fatal=1", "--iodepth=16"];
        let server = serve(&disk.device, dir.path(), way);
        let job = |uri: &str, more: &[&str]| {
            let mut job = fio(uri, dir.path(), &region);
            job.args(verify).args(more);
            job
        };
        succeed(&mut job(server.uri(), &["--do_verify=1", "--fsync=64", "--end_fsync=1"]));
        // Killed under load on another part of the volume; what was flushed before must stay.
        let endless = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--fsync=16", "--offset=24m"];
        let mut load = fio(server.uri(), dir.path(), &endless);
        load.args(["--size=16m", "--time_based", "--runtime=60"]);
        let client = std::thread::spawn(move || run(&mut load));
        std::thread::sleep(Duration::from_millis(400));
        server.kill();
        let ended = client.join().expect("fio ends");
        assert!(!ended.status.success(), "fio did not notice that the server died");
        check_is_clean(&disk.device);
        let server = serve(&disk.device, dir.path(), way);
        succeed(&mut job(server.uri(), &["--verify_only"]));
        let ended = server.stop();
        assert_eq!(ended.code(), 0, "{}", ended.err);
        check_is_clean(&disk.device);
    }
}

fn a_device_serves_one_master(layout: &str) {
    let dir = temp_dir();
    let Some(disk) = volume(dir.path(), layout, 16 << 20) else { return };
    let server = serve(&disk.device, dir.path(), &[]);
    let other = dir.path().join("other.sock");
    for more in [&[][..], &["--read-only"], &["--direct"]] {
        let mut second = seekless();
        second.arg("serve").arg(&disk.device).arg("--socket").arg(&other).args(more);
        refused(&run(&mut second), 4, "in use");
        assert!(!other.exists(), "a refused server left its socket behind");
    }
    for name in ["info", "check", "dump"] {
        refused(&run(seekless().arg(name).arg(&disk.device)), 4, "in use");
    }
    refused(&create_on(&disk.device, layout, &["--force"]), 4, "in use");
    Client::connect(server.socket()).expect("the first server still serves");
    assert_eq!(server.stop().code(), 0);
    // Readers share.
    let _first = serve(&disk.device, dir.path(), &["--read-only"]);
    let _second = Server::at(&disk.device, &other, &["--read-only"]);
    check_is_clean(&disk.device);
}

fn a_device_that_holds_something_is_overwritten_only_by_force(layout: &str) {
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 32 << 20) else { return };
    let makers: [&[&str]; 3] =
        [&["mkfs.ext4", "-q", "-F"], &["mkswap", "-q"], &["mkfs.vfat", "-n", "X"]];
    for maker in makers.into_iter().filter(|maker| installed(maker[0])) {
        succeed(command(maker[0]).args(&maker[1..]).arg(&disk.device));
        let before = disk.content();
        let ended = create_on(&disk.device, layout, &[]);
        refused(&ended, 1, "holds");
        assert!(ended.err.contains("hint: ") && ended.err.contains("--force"), "{}", ended.err);
        assert!(before == disk.content(), "a refused `create` after {maker:?} wrote to the device");
    }
    if installed("mkfs.ext4") {
        succeed(command("mkfs.ext4").args(["-q", "-F"]).arg(&disk.device));
        let at = dir.path().join("mnt");
        fs::create_dir(&at).expect("directory");
        if run(command("mount").arg(&disk.device).arg(&at)).status.success() {
            let forced = create_on(&disk.device, layout, &["--force"]);
            succeed(command("umount").arg(&at));
            refused(&forced, 4, "in use");
        }
    }
    let forced = create_on(&disk.device, layout, &["--force"]);
    assert_eq!(forced.code(), 0, "{}", forced.err);
    check_is_clean(&disk.device);
    let again = create_on(&disk.device, layout, &[]);
    refused(&again, 1, "a Seekless volume");
    // A device with one damaged superblock still counts as a volume.
    let raw = File::options().write(true).open(&disk.device).expect("device");
    raw.write_all_at(&[0; 4096], 0).expect("write");
    drop(raw);
    refused(&create_on(&disk.device, layout, &[]), 1, "a Seekless volume");
}

fn an_earlier_content_does_not_shine_through(layout: &str) {
    let dir = temp_dir();
    let Some(disk) = Loop::new(dir.path(), 24 << 20) else { return };
    fs::write(&disk.device, pattern(4, 24 << 20)).expect("write");
    refused(&create_on(&disk.device, layout, &[]), 1, "holds");
    let forced = create_on(&disk.device, layout, &["--force"]);
    assert_eq!(forced.code(), 0, "{}", forced.err);
    check_is_clean(&disk.device);
    let server = serve(&disk.device, dir.path(), &[]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![1; client.size_bytes() as usize];
    for (index, part) in found.chunks_mut(1 << 20).enumerate() {
        client.read((index as u64) << 20, part).expect("read");
    }
    assert!(found.iter().all(|&byte| byte == 0), "a new volume shows what the device held");
}

fn sizes_are_those_of_the_device(layout: &str) {
    let dir = temp_dir();
    // Not a whole number of blocks: what is left over is not used.
    let bytes = (20 << 20) + 1536;
    let Some(disk) = Loop::new(dir.path(), bytes) else { return };
    let huge = create_on(&disk.device, layout, &["--size", "64M"]);
    refused(&huge, 2, "room for a volume of at most");
    assert!(disk.content().iter().all(|&byte| byte == 0), "a refused `create` wrote");
    let made = create_on(&disk.device, layout, &[]);
    assert_eq!(made.code(), 0, "{}", made.err);
    check_is_clean(&disk.device);
    {
        let server = serve(&disk.device, dir.path(), &["--direct"]);
        let mut client = Client::connect(server.socket()).expect("connection");
        let size = client.size_bytes();
        assert!(size > bytes / 2 && size < bytes, "{size} bytes of {bytes}");
        client.write(size - 4096, &[7; 4096], true).expect("the last block");
        let mut found = [0; 4096];
        client.read(size - 4096, &mut found).expect("the last block");
        assert_eq!(found, [7; 4096]);
        assert_eq!(server.stop().code(), 0);
    }
    check_is_clean(&disk.device);
    let made = create_on(&disk.device, layout, &["--size", "4M", "--force"]);
    assert_eq!(made.code(), 0, "{}", made.err);
    let server = serve(&disk.device, dir.path(), &[]);
    let client = Client::connect(server.socket()).expect("connection");
    assert_eq!(client.size_bytes(), 4 << 20);
}

/// Writes pieces and flushes until the server refuses; returns the number of pieces acknowledged
/// and flushed.
fn write_until_it_fails(client: &mut Client, from: u64) -> u64 {
    for index in from..256 {
        let bytes = pattern(index, 64 << 10);
        let wrote = client.write(index << 16, &bytes, false).and_then(|()| client.flush());
        if let Err(error) = wrote {
            // EIO, ENOSPC; EPERM or EROFS once the volume is read-only.
            assert!(matches!(error.raw_os_error(), Some(5 | 28 | 1 | 30)), "{error:?}");
            return index;
        }
    }
    panic!("a device that is gone took 16 MiB");
}

/// The server reports the failed volume once.
fn has_failed(mut client: Client, server: Server) {
    assert!(client.write(0, &[1; 4096], true).is_err(), "writes went on after a failure");
    assert!(client.flush().is_err(), "a flush after a lost write was called good");
    drop(client);
    let ended = server.stop();
    assert_eq!(ended.code(), 5, "{}", ended.err);
    let count = |part: &str| ended.err.matches(part).count();
    assert_eq!(count("the volume is read-only from now on"), 1, "{}", ended.err);
    assert_eq!(count("error: "), 1, "{}", ended.err);
    assert_eq!(count("hint: "), 1, "{}", ended.err);
    assert_eq!(count("panicked"), 0, "{}", ended.err);
}

/// The pieces that were acknowledged are there.
fn has_kept(device: &Path, dir: &Path, pieces: u64) {
    check_is_clean(device);
    let server = serve(device, dir, &[]);
    let mut client = Client::connect(server.socket()).expect("connection");
    let mut found = vec![0; 64 << 10];
    for index in 0..pieces {
        client.read(index << 16, &mut found).expect("read");
        assert!(found == pattern(index, 64 << 10), "piece {index} differs");
    }
    client.write(0, &pattern(99, 64 << 10), true).expect("write");
    drop(client);
    assert_eq!(server.stop().code(), 0);
    check_is_clean(device);
}

/// The disk is unplugged: the loop device is over a served image, and its server is killed.
fn a_device_that_goes_away_is_reported(layout: &str) {
    if !Stack::possible() {
        return;
    }
    for way in [&[][..], &["--direct"]] {
        let dir = temp_dir();
        let below = create(dir.path(), "inplace", "24M");
        {
            let cable = Server::image(&below);
            let stack = Stack::new(dir.path(), cable.uri());
            let made = create_on(stack.device(), layout, &[]);
            assert_eq!(made.code(), 0, "{}", made.err);
            let server = serve(stack.device(), dir.path(), way);
            let mut client = Client::connect(server.socket()).expect("connection");
            for index in 0..64 {
                let bytes = pattern(index, 64 << 10);
                client.write(index << 16, &bytes, index % 2 == 0).expect("write");
            }
            client.flush().expect("flush");
            cable.kill();
            let failed_at = write_until_it_fails(&mut client, 64);
            assert_eq!(failed_at, 64, "a device without a server was written to");
            let mut found = vec![0; 1 << 20];
            // An error or the right content, never anything else.
            if client.read(0, &mut found).is_ok() {
                assert!(found[..64 << 10] == pattern(0, 64 << 10), "wrong bytes were read");
            }
            has_failed(client, server);
        }
        let cable = Server::image(&below);
        let stack = Stack::new(dir.path(), cable.uri());
        has_kept(stack.device(), dir.path(), 64);
    }
}

/// The device becomes shorter than the volume on it while it is served. Returns the volume with 64
/// flushed pieces on it, and its device.
fn cut_short(dir: &Path, layout: &str, way: &[&str]) -> Option<(Loop, Server, Client)> {
    let disk = volume(dir, layout, 24 << 20)?;
    let server = serve(&disk.device, dir, way);
    let mut client = Client::connect(server.socket()).expect("connection");
    for index in 0..64 {
        client.write(index << 16, &pattern(index, 64 << 10), false).expect("write");
    }
    client.flush().expect("flush");
    let short = 512 << 10;
    File::options().write(true).open(&disk.file).and_then(|f| f.set_len(short)).expect("cut");
    succeed(command("losetup").arg("--set-capacity").arg(&disk.device));
    Some((disk, server, client))
}

const CUT_WAYS: [&[&str]; 3] = [&[], &["--direct"], &["--direct", "--io", "threads"]];

fn a_device_that_shrinks_is_reported(layout: &str) {
    for way in CUT_WAYS {
        let dir = temp_dir();
        let Some((disk, server, mut client)) = cut_short(dir.path(), layout, way) else { return };
        let failed_at = write_until_it_fails(&mut client, 64);
        assert_eq!(failed_at, 64, "blocks behind the end of the device were written");
        has_failed(client, server);
        refused(&run(seekless().arg("check").arg(&disk.device)), 3, "truncated");
    }
}

/// A read behind the new end is an error, never zeros.
fn what_is_cut_off_reads_as_an_error(layout: &str) {
    for way in CUT_WAYS {
        let dir = temp_dir();
        let Some((_disk, server, mut client)) = cut_short(dir.path(), layout, way) else { return };
        let mut found = vec![0; 64 << 10];
        let mut errors = 0;
        for index in 0..64 {
            match client.read(index << 16, &mut found) {
                Ok(()) => {
                    let right = found == pattern(index, 64 << 10);
                    assert!(right, "{way:?}: piece {index} of a device cut short reads wrong");
                }
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 32, "{way:?}: {errors} errors");
        drop(client);
        drop(server);
    }
}

#[test]
fn what_is_cut_off_reads_as_an_error_on_vlog() {
    what_is_cut_off_reads_as_an_error("vlog");
}

#[test]
fn what_is_cut_off_reads_as_an_error_on_loge() {
    what_is_cut_off_reads_as_an_error("loge");
}

#[test]
fn what_is_cut_off_reads_as_an_error_on_inplace() {
    what_is_cut_off_reads_as_an_error("inplace");
}
