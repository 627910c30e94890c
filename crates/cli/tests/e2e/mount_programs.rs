//! Programs on mounted file systems that the kernel lets open files without asking: files without
//! names, many programs at once, a kernel that writes back, a disk at its own pace.

use crate::harness::{command, eventually, installed, pattern, succeed};
use crate::mount::{Disk, Foreground, Mounted, has_transactions, policies, possible};
use std::fs::{self, File, FileTimes};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant, UNIX_EPOCH};

fn free_blocks(mounted: &Mounted) -> u64 {
    rustix::fs::statvfs(&mounted.point).expect("statfs").f_bfree
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "64M", &[]);
    let mounted = disk.mount(&["--cache", "1M"]);
    let before = free_blocks(&mounted);
    let (path, content) = (mounted.path("a"), pattern(1, 8 << 20));
    fs::write(&path, &content).expect("write");
    let (one, other) = (File::open(&path).expect("open"), File::options().append(true).open(&path));
    let mut other = other.expect("open");
    fs::remove_file(&path).expect("unlink");
    assert!(!path.exists());
    // Past the cache of the kernel, the content still comes from the file system.
    fs::write("/proc/sys/vm/drop_caches", "1").expect("drop caches");
    other.write_all(b"more").expect("append");
    let mut found = Vec::new();
    (&one).read_to_end(&mut found).expect("read");
    assert!(found[..content.len()] == content && &found[content.len()..] == b"more");
    assert_eq!(one.metadata().expect("stat").nlink(), 0);
    drop(one);
    other.set_len(4096).expect("truncate");
    let held = free_blocks(&mounted);
    assert!(held < before, "{held} of {before} blocks are free though a program has the file open");
    drop(other);
    eventually("the end of the file", || free_blocks(&mounted) == before);
    mounted.unmount();
    disk.is_clean();
}

#[test]
fn files_open_as_their_flags_say() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "32M", &[]);
    let mounted = disk.mount(&[]);
    let path = mounted.path("a");
    let open = |options: &mut fs::OpenOptions| options.open(&path);
    // A file that its maker may write though its mode forbids it.
    let mut options = File::options();
    let mut file = open(options.create_new(true).write(true).mode(0o400)).expect("create");
    file.write_all(b"content").expect("write");
    drop(file);
    let exists = open(File::options().create_new(true).write(true)).expect_err("it exists");
    assert_eq!(exists.raw_os_error(), Some(17));
    let mut again = open(File::options().create(true).append(true)).expect("open");
    again.write_all(b", more").expect("append");
    assert_eq!(fs::read(&path).expect("read"), b"content, more");
    let truncated = open(File::options().write(true).truncate(true)).expect("truncate");
    assert_eq!(truncated.metadata().expect("stat").size(), 0);
    assert_eq!(fs::read(&path).expect("read"), b"");
    (&truncated).write_all(b"new").expect("write");
    // What one program truncates, another that has it open sees.
    assert_eq!(again.metadata().expect("stat").size(), 3);
    let refused = File::open(&path).and_then(|mut file| file.write_all(b"x"));
    assert_eq!(refused.expect_err("open for reading").raw_os_error(), Some(9));
    let other_user = command("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "cat"])
        .arg(&path)
        .output()
        .expect("setpriv");
    assert!(!other_user.status.success(), "a user without rights reads the file");
    drop((again, truncated));
    mounted.unmount();
    disk.is_clean();
}

#[test]
fn many_programs_work_at_once() {
    if !possible() {
        return;
    }
    // A small cache, so that calls wait for the device while others run.
    for (layout, more) in [("inplace", &["--cache", "1M"][..]), ("vlog", &["--cache", "1M"])] {
        let disk = Disk::new(layout, "128M", &["--bytes-per-inode", "8k"]);
        let mounted = disk.mount(more);
        std::thread::scope(|scope| {
            for worker in 0..6 {
                let mounted = &mounted;
                scope.spawn(move || work(mounted, worker));
            }
        });
        mounted.unmount();
        disk.is_clean();
        let mounted = disk.mount(&[]);
        for worker in 0..6 {
            let dir = mounted.path(&format!("w{worker}"));
            assert_eq!(fs::read_dir(&dir).expect("list").count(), 50, "worker {worker}");
        }
        mounted.unmount();
    }
}

/// Makes, reads, renames and removes files of its own, and writes one that all share.
fn work(mounted: &Mounted, worker: u64) {
    let dir = mounted.path(&format!("w{worker}"));
    fs::create_dir(&dir).expect("mkdir");
    let shared = mounted.path("shared");
    let shared = File::options().create(true).truncate(false).write(true).open(shared);
    let shared = shared.expect("open");
    for n in 0..100 {
        let (path, content) = (dir.join(format!("f{n}")), pattern(worker * 1000 + n, 20_000));
        fs::write(&path, &content).expect("write");
        shared.write_all_at(&[worker as u8; 512], worker * 512).expect("write");
        assert!(fs::read(&path).expect("read") == content, "worker {worker}, file {n}");
        match n % 4 {
            0 => fs::remove_file(&path).expect("unlink"),
            1 => fs::rename(&path, dir.join(format!("g{n}"))).expect("rename"),
            2 => {
                let before = dir.join(format!("g{}", n - 1));
                fs::rename(&path, before).expect("rename over");
            }
            _ => {}
        }
    }
}

#[test]
fn a_kernel_that_writes_back_loses_nothing() {
    if !possible() {
        return;
    }
    let disk = Disk::new("vlog", "64M", &[]);
    let mounted = disk.mount(&["--writeback"]);
    let path = mounted.path("a");
    let mut file = File::options().create(true).append(true).open(&path).expect("create");
    for n in 0..3000_u32 {
        writeln!(file, "{n}").expect("append");
    }
    let size = file.metadata().expect("stat").size();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_times(FileTimes::new().set_modified(old)).expect("utimes");
    drop(file);
    let sparse = File::create(mounted.path("sparse")).expect("create");
    sparse.write_all_at(b"end", 10_000_000).expect("write");
    sparse.set_len(5_000_000).expect("truncate");
    sparse.write_all_at(b"x", 4_999_999).expect("write");
    drop(sparse);
    assert_eq!(fs::metadata(&path).expect("stat").modified().expect("time"), old);
    mounted.unmount();
    disk.is_clean();
    let mounted = disk.mount(&[]);
    let found = fs::metadata(mounted.path("a")).expect("stat");
    assert_eq!((found.size(), found.modified().expect("time")), (size, old));
    let text = fs::read_to_string(mounted.path("a")).expect("read");
    assert!(text.lines().zip(0..).all(|(line, n): (&str, u32)| line == n.to_string()));
    let sparse = fs::read(mounted.path("sparse")).expect("read");
    assert_eq!((sparse.len(), sparse[4_999_999], sparse[4_999_998]), (5_000_000, b'x', 0));
    mounted.unmount();
}

/// After a signal the mount lives until the last file is closed, which writes it back.
#[test]
fn a_signal_waits_for_what_the_kernel_has_not_written_back() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "128M", &[]);
    let content = pattern(3, 20 << 20);
    let mut daemon = Foreground::with(&disk, &["--writeback", "--cache", "1M"]);
    let mut file = File::create(disk.point().join("a")).expect("create");
    file.write_all(&content).expect("write");
    rustix::process::kill_process(daemon.pid(), rustix::process::Signal::TERM).expect("kill");
    eventually("the unmount", || !disk.point().join("a").exists());
    drop(file);
    assert_eq!(daemon.ended(), Some(0));
    disk.is_clean();
    let mounted = disk.mount(&[]);
    assert!(fs::read(mounted.path("a")).expect("read") == content);
    mounted.unmount();
}

#[test]
fn a_simulated_disk_sets_the_pace() {
    if !possible() {
        return;
    }
    let disk = Disk::new("inplace", "64M", &[]);
    let mounted = disk.mount(&["--disk", "cheetah9lp"]);
    let mut file = File::create(mounted.path("a")).expect("create");
    let begin = Instant::now();
    const SYNCS: u32 = 20;
    for _ in 0..SYNCS {
        file.write_all(&[1; 8192]).and_then(|()| file.sync_all()).expect("fsync");
    }
    // A turn of the disk takes 6 ms, and a synced write more than a third of one.
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(2) * SYNCS, "{SYNCS} synced writes took {took:?}");
    drop(file);
    mounted.unmount();
    disk.is_clean();
}

/// A process that has ended leaves alone what is mounted in its place.
#[test]
fn the_next_mount_at_a_directory_stays() {
    if !possible() {
        return;
    }
    let (one, other) = (Disk::new("raw", "16M", &[]), Disk::new("raw", "16M", &[]));
    for round in 0..8 {
        let first = one.mount(&[]);
        fs::write(first.path("a"), pattern(round, 4 << 20)).expect("write");
        succeed(command("fusermount3").arg("-u").arg(&first.point));
        let second = other.mount_at(&first.point);
        fs::write(second.path("b"), "b").expect("write");
        // The first process has ended when its image is free.
        one.is_clean();
        assert_eq!(fs::read(second.path("b")).expect("read"), b"b", "round {round}");
        second.unmount();
        other.is_clean();
    }
}

/// `fstrim` gives back what removed files have used: the image takes less of its host.
#[test]
fn fstrim_gives_free_space_back() {
    if !possible() || !installed("fstrim") {
        return;
    }
    // A loge volume gives its own free space back when it is idle.
    for policy in policies().filter(|&policy| !has_transactions(policy)) {
        let disk = Disk::with_policy(policy, "raw", "64M", &[]);
        let mounted = disk.mount(&["--policy", policy]);
        let taken = || std::fs::metadata(disk.image()).expect("the image").blocks() * 512;
        std::fs::write(mounted.point.join("stays"), [7; 100_000]).expect("written");
        std::fs::write(mounted.point.join("goes"), vec![7; 20 << 20]).expect("written");
        succeed(command("sync").arg(mounted.point.join("goes")));
        let before = taken();
        std::fs::remove_file(mounted.point.join("goes")).expect("removed");
        let said = succeed(command("fstrim").arg("--verbose").arg(&mounted.point));
        assert!(said.contains("trimmed") && !said.contains(" 0 B "), "{policy}: {said}");
        assert!(taken() + (19 << 20) < before, "{policy}: {} of {before}", taken());
        let content = std::fs::read(mounted.point.join("stays")).expect("read");
        assert!(content == [7; 100_000], "{policy}");
        // A user of the machine may not.
        let mut other = command("setpriv");
        other.args(["--reuid=65534", "--clear-groups", "fstrim"]).arg(&mounted.point);
        assert_ne!(crate::harness::run(&mut other).code(), 0, "{policy}");
    }
}
