//! The driver through the kernel, with the model of POSIX as the file system.

use super::{MountOptions, Volume, VolumeOptions, serve};
use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, StatxFlags};
use seekless_engine::io::{Done, IoError};
use seekless_engine::layer::Port;
use seekless_engine::units::Time;
use seekless_fs::call::{Call, Request};
use seekless_fs::system::{FileSystem, FsCx, Runs as _};
use seekless_fs_model::model::Model;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

/// The model as a file system of its own.
#[derive(Debug)]
struct Modelled {
    model: Model,
    stopped: bool,
}

impl FileSystem for Modelled {
    fn submit(&mut self, call: Call, cx: &mut FsCx<'_, '_>) {
        let silent = matches!(call.request, Request::Forget { .. });
        let reply = self.model.run(call);
        if !silent {
            cx.replies.push(reply);
        }
    }

    fn complete(&mut self, _: Port, _: Done, _: &mut FsCx<'_, '_>) {}

    fn pump(&mut self, _: &mut FsCx<'_, '_>) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _: &mut FsCx<'_, '_>) {
        // The kernel has closed and forgotten everything but the objects that it still caches.
        assert_eq!(self.model.handles().count(), 0, "all files are closed");
        self.stopped = true;
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn failed(&self) -> Option<IoError> {
        None
    }

    fn requests(&self) -> u64 {
        0
    }

    fn stats(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// The model, mounted.
struct Mount {
    dir: TempDir,
    serving: Option<JoinHandle<Result<super::Ended, super::FilesError>>>,
}

impl Mount {
    /// `None`, and says so, where file systems cannot be mounted.
    fn new(read_only: bool) -> Option<Mount> {
        Mount::with(read_only, false)
    }

    /// The kernel writes back if `writeback` says so.
    fn with(read_only: bool, writeback: bool) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            let _ = writeln!(std::io::stderr(), "skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (image, point) = (dir.path().join("raw.img"), dir.path().join("mnt"));
        File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("an image");
        fs::create_dir(&point).expect("a directory");
        let images = vec![image.clone()];
        let policy = "model".to_owned();
        let kernel = Vec::new();
        let options = MountOptions { point, images, read_only, writeback, policy, kernel };
        let (tell, told) = mpsc::channel();
        let serving = std::thread::spawn(move || {
            let volume = VolumeOptions::new(vec![image], read_only);
            let volume = Volume::open(&volume).expect("a volume");
            let fs = Modelled { model: Model::new(Default::default()), stopped: false };
            serve(Box::new(fs), volume, &options, &mut || tell.send(()).expect("a listener"))
        });
        told.recv_timeout(Duration::from_secs(30)).expect("it is mounted");
        Some(Mount { dir, serving: Some(serving) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    fn unmount(mut self) -> super::Ended {
        let point = self.path("");
        let unmounted = std::process::Command::new("umount").arg(&point).status();
        assert!(unmounted.expect("umount").success());
        let serving = self.serving.take().expect("it is served");
        serving.join().expect("no panic").expect("a clean end")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.serving.is_some() {
            let _ = std::process::Command::new("umount").arg("-l").arg(self.path("")).status();
        }
    }
}

#[test]
fn files_keep_what_is_written() {
    let Some(mount) = Mount::new(false) else { return };
    let path = mount.path("a");
    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(&path, &content).expect("write");
    assert!(fs::read(&path).expect("read") == content);
    let mut file = File::options().append(true).read(true).open(&path).expect("open");
    file.write_all(b"end").expect("append");
    file.seek(std::io::SeekFrom::End(-4)).expect("seek");
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).expect("read");
    assert_eq!(&tail[1..], b"end");
    file.set_len(10).expect("truncate");
    assert_eq!(fs::read(&path).expect("read"), content[..10]);
    file.sync_all().expect("fsync");
    file.sync_data().expect("fdatasync");
    File::open(mount.path("")).and_then(|dir| dir.sync_all()).expect("fsync of a directory");
    // Open but without a name.
    fs::remove_file(&path).expect("unlink");
    file.write_all(b"more").expect("append");
    assert_eq!(file.metadata().expect("stat").size(), 14);
    assert_eq!(file.metadata().expect("stat").nlink(), 0);
    assert!(!path.exists());
    drop(file);
    assert!(mount.unmount().requests > 10);
}

#[test]
fn holes_are_made_and_found() {
    let Some(mount) = Mount::new(false) else { return };
    let path = mount.path("sparse");
    let file = File::options().create_new(true).read(true).write(true).open(path).expect("create");
    file.write_all_at(&[1; 65536], 1 << 20).expect("write");
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)).expect("data"), 1 << 20);
    assert_eq!(seek(SeekFrom::Hole(1 << 20)).expect("hole"), (1 << 20) + 65536);
    assert_eq!(seek(SeekFrom::Data(2 << 20)), Err(rustix::io::Errno::NXIO));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1 << 20, 32768).expect("punch");
    let mut bytes = [9; 65536];
    file.read_exact_at(&mut bytes, 1 << 20).expect("read");
    assert!(bytes[..32768] == [0; 32768] && bytes[32768..] == [1; 32768]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2 << 20).expect("allocate");
    assert_eq!(file.metadata().expect("stat").size(), 2 << 20);
    rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 2 << 20, 4096).expect("allocate");
    assert_eq!(file.metadata().expect("stat").size(), 2 << 20);
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapse, Err(rustix::io::Errno::OPNOTSUPP));
    drop(file);
    mount.unmount();
}

#[test]
fn names_are_made_renamed_and_removed() {
    let Some(mount) = Mount::new(false) else { return };
    let (a, b, dir) = (mount.path("a"), mount.path("b"), mount.path("dir"));
    assert!(fs::metadata(&a).is_err(), "the kernel remembers that there is none");
    fs::write(&a, "a").expect("write");
    fs::hard_link(&a, &b).expect("link");
    assert_eq!(fs::metadata(&a).expect("stat").nlink(), 2);
    fs::create_dir(&dir).expect("mkdir");
    assert_eq!(fs::metadata(mount.path("")).expect("stat").nlink(), 3);
    fs::rename(&b, dir.join("c")).expect("rename");
    fs::write(&b, "other").expect("write");
    let rename = |how| rustix::fs::renameat_with(CWD, &a, CWD, &b, how);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(rustix::io::Errno::EXIST));
    rename(RenameFlags::EXCHANGE).expect("exchange");
    assert_eq!(fs::read(&a).expect("read"), b"other");
    assert_eq!(fs::read(&b).expect("read"), b"a");
    rename(RenameFlags::empty()).expect("rename over");
    assert_eq!(fs::metadata(dir.join("c")).expect("stat").nlink(), 1);
    symlink("dir/c", mount.path("link")).expect("symlink");
    assert_eq!(fs::read_link(mount.path("link")).expect("readlink"), Path::new("dir/c"));
    assert_eq!(fs::read(mount.path("link")).expect("read"), b"a");
    assert_eq!(fs::remove_dir(&dir).expect_err("not empty").raw_os_error(), Some(39));
    let long = mount.path(&"n".repeat(256));
    assert_eq!(fs::metadata(&long).expect_err("too long").raw_os_error(), Some(36));
    fs::write(mount.path(&"n".repeat(255)), "").expect("the longest name");
    fs::remove_dir_all(&dir).expect("remove");
    assert_eq!(fs::metadata(mount.path("")).expect("stat").nlink(), 2);
    mount.unmount();
}

#[test]
fn large_directories_are_listed_whole() {
    let Some(mount) = Mount::new(false) else { return };
    let dir = mount.path("many");
    fs::create_dir(&dir).expect("mkdir");
    let mut names: Vec<String> = (0..3000).map(|n| format!("a file with number {n:06}")).collect();
    for name in &names {
        File::create(dir.join(name)).expect("create");
    }
    // Attributes on the way: `readdirplus`.
    for _ in 0..2 {
        let mut found: Vec<String> = Vec::new();
        for entry in fs::read_dir(&dir).expect("list") {
            let entry = entry.expect("an entry");
            assert_eq!(entry.metadata().expect("stat").size(), 0);
            found.push(entry.file_name().into_string().expect("a name"));
        }
        found.sort();
        names.sort();
        assert!(found == names, "{} of {} names", found.len(), names.len());
    }
    // Entries that are removed while they are listed.
    for entry in fs::read_dir(&dir).expect("list") {
        fs::remove_file(entry.expect("an entry").path()).expect("unlink");
    }
    fs::remove_dir(&dir).expect("rmdir");
    mount.unmount();
}

#[test]
fn attributes_are_set() {
    let Some(mount) = Mount::new(false) else { return };
    let path = mount.path("a");
    fs::write(&path, "a").expect("write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).expect("chmod");
    assert_eq!(fs::metadata(&path).expect("stat").mode() & 0o7777, 0o4751);
    std::os::unix::fs::chown(&path, Some(7), Some(8)).expect("chown");
    let found = fs::metadata(&path).expect("stat");
    assert_eq!((found.uid(), found.gid()), (7, 8));
    let old = UNIX_EPOCH - Duration::new(5, 300);
    let new = UNIX_EPOCH + Duration::new(7, 123_456_789);
    let times = fs::FileTimes::new().set_accessed(new).set_modified(old);
    File::options().write(true).open(&path).and_then(|f| f.set_times(times)).expect("utimes");
    let found = fs::metadata(&path).expect("stat");
    assert_eq!((found.accessed().expect("time"), found.modified().expect("time")), (new, old));
    rustix::fs::mknodat(
        CWD,
        mount.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o640),
        0,
    )
    .expect("mkfifo");
    assert_eq!(fs::metadata(mount.path("fifo")).expect("stat").mode() & 0o170_000, 0o010_000);
    let space = rustix::fs::statvfs(mount.path("")).expect("statfs");
    assert_eq!(space.f_namemax, 255);
    assert!(space.f_bfree > 0 && space.f_bfree <= space.f_blocks);
    mount.unmount();
}

#[test]
fn the_kernel_refuses_changes_of_a_read_only_mount() {
    let Some(mount) = Mount::new(true) else { return };
    let refused = fs::write(mount.path("a"), "a").expect_err("read-only");
    assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    mount.unmount();
}

/// What the kernel has cached of an object is what the file system says.
fn is_fresh(path: &Path) {
    let stat = |flags| {
        let mask = StatxFlags::BASIC_STATS;
        let found = rustix::fs::statx(CWD, path, flags | AtFlags::SYMLINK_NOFOLLOW, mask);
        let found = found.unwrap_or_else(|errno| panic!("{}: {errno}", path.display()));
        let time = |at: rustix::fs::StatxTimestamp| (at.tv_sec, at.tv_nsec);
        // Reading from the cache of the kernel changes no time of access.
        let times = (time(found.stx_mtime), time(found.stx_ctime));
        (found.stx_ino, found.stx_mode, found.stx_nlink, found.stx_size, found.stx_blocks, times)
    };
    let cached = stat(AtFlags::empty());
    assert_eq!(cached, stat(AtFlags::STATX_FORCE_SYNC), "{}", path.display());
}

#[test]
fn cached_attributes_are_those_of_the_file_system() {
    let Some(mount) = Mount::new(false) else { return };
    let at = |name: &str| mount.path(name);
    let all = |names: &[&str]| names.iter().for_each(|name| is_fresh(&at(name)));
    for dir in ["d", "e", "d/s", "e/t"] {
        fs::create_dir(at(dir)).expect("mkdir");
        all(&["", "d"]);
    }
    fs::write(at("d/f"), "content").expect("write");
    all(&["d", "d/f"]);
    for name in ["d/g", "e/h", "i"] {
        fs::hard_link(at("d/f"), at(name)).expect("link");
        all(&["d/f", name, "d", "e", ""]);
    }
    fs::remove_file(at("d/g")).expect("unlink");
    all(&["d/f", "e/h", "d"]);
    fs::write(at("e/x"), "replaced").expect("write");
    fs::hard_link(at("e/x"), at("y")).expect("link");
    fs::rename(at("i"), at("e/x")).expect("rename over");
    all(&["d/f", "e/h", "e/x", "y", "e", ""]);
    fs::rename(at("d/s"), at("e/s")).expect("move a directory");
    all(&["d", "e", "e/s"]);
    let exchange = RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(CWD, at("e/s"), CWD, at("d/f"), exchange).expect("exchange");
    all(&["d", "e", "e/s", "d/f", "e/x"]);
    fs::rename(at("d/f"), at("e/t")).expect("replace a directory");
    all(&["d", "e", "e/t"]);
    let file = File::options().read(true).write(true).open(at("y")).expect("open");
    file.write_all_at(b"far", 100_000).expect("write");
    all(&["y"]);
    file.set_len(5).expect("truncate");
    all(&["y"]);
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 50_000).expect("allocate");
    all(&["y"]);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 0, 40_000).expect("punch");
    all(&["y"]);
    fs::set_permissions(at("y"), fs::Permissions::from_mode(0o6777)).expect("chmod");
    all(&["y"]);
    fs::remove_dir(at("e/t")).expect("rmdir");
    all(&["e"]);
    drop(file);
    mount.unmount();
}
