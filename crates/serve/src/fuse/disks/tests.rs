use super::*;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::sync::Condvar;
use std::time::Duration;

const SIZE: usize = 1 << 20;

/// A disk in memory that counts what it is asked.
#[derive(Debug, Default)]
struct Asked {
    kind: Kind,
    bytes: Mutex<Vec<u8>>,
    /// Writes that wait for another one beside them.
    waiting: Mutex<usize>,
    met: Condvar,
    /// Writes wait so.
    pairs: bool,
    log: Mutex<Vec<String>>,
}

impl Asked {
    fn new(kind: Kind, pairs: bool) -> Arc<Asked> {
        Arc::new(Asked { kind, bytes: Mutex::new(vec![0; SIZE]), pairs, ..Asked::default() })
    }

    fn say(&self, text: String) {
        self.log.lock().expect("no panic").push(text);
    }

    fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("no panic"))
    }

    /// Waits until a second write is under way, but not forever.
    fn meet(&self) -> io::Result<()> {
        let mut waiting = self.waiting.lock().expect("no panic");
        *waiting += 1;
        self.met.notify_all();
        let alone = |waiting: &mut usize| *waiting < 2;
        let waited = self.met.wait_timeout_while(waiting, Duration::from_secs(20), alone);
        let (_waiting, timeout) = waited.expect("no panic");
        if timeout.timed_out() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Bytes for Asked {
    fn size(&self) -> u64 {
        SIZE as u64
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.say(format!("read {offset}+{}", out.len()));
        let bytes = self.bytes.lock().expect("no panic");
        out.copy_from_slice(&bytes[offset as usize..][..out.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.pairs {
            self.meet()?;
        }
        self.say(format!("write {offset}+{}", data.len()));
        self.bytes.lock().expect("no panic")[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.say("flush".to_owned());
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64, zero: bool) -> io::Result<()> {
        self.say(format!("{} {offset}+{length}", if zero { "zero" } else { "trim" }));
        self.bytes.lock().expect("no panic")[offset as usize..][..length as usize].fill(0);
        Ok(())
    }

    fn append(&self, opened: u64, bytes: &[u8]) -> io::Result<()> {
        self.say(format!("append {opened}: {}", String::from_utf8_lossy(bytes)));
        Ok(())
    }

    fn closed(&self, opened: u64) -> io::Result<()> {
        self.say(format!("closed {opened}"));
        Ok(())
    }
}

/// A directory at a path, or why the test does nothing.
fn directory(point: &Path) -> Option<DiskDirectory<Asked>> {
    match DiskDirectory::mount_at(point) {
        Ok(directory) => Some(directory),
        Err(error) => {
            eprintln!("skipped: no FUSE here: {error}");
            None
        }
    }
}

fn open(path: &Path, flags: i32) -> File {
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).expect("it opens")
}

#[test]
fn a_directory_stays_at_its_path_until_it_is_dropped() {
    let point = tempfile::tempdir().expect("a directory");
    let Some(directory) = directory(point.path()) else { return };
    let disk = Asked::new(Kind::Direct, false);
    let (number, path) = directory.insert_named("disk", Arc::clone(&disk)).expect("a new name");
    assert_eq!(path, point.path().canonicalize().expect("a path").join("disk"));
    for (bad, kind) in [
        ("disk", io::ErrorKind::AlreadyExists),
        ("3.img", io::ErrorKind::InvalidInput),
        ("..", io::ErrorKind::InvalidInput),
        ("a/b", io::ErrorKind::InvalidInput),
        ("", io::ErrorKind::InvalidInput),
    ] {
        let refused = directory.insert_named(bad, Arc::clone(&disk)).expect_err("it is refused");
        assert_eq!(refused.kind(), kind, "{bad}");
    }
    let (_, unnamed) = directory.insert(Arc::clone(&disk));
    assert_eq!(unnamed.metadata().expect("it is found").len(), SIZE as u64);
    let names = std::fs::read_dir(point.path()).expect("a directory");
    let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["disk"]);
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(point.path()), mode(&path)), (0o755, 0o666));
    directory.remove(number);
    assert!(!path.exists());
    drop(directory);
    assert!(!unnamed.exists(), "nothing is mounted there");
    std::fs::remove_dir(point.path()).expect("the mount point is free");
    std::fs::create_dir(point.path()).expect("for its owner");
}

#[test]
fn a_direct_disk_sees_each_request_at_once() {
    let point = tempfile::tempdir().expect("a directory");
    let Some(directory) = directory(point.path()) else { return };
    let disk = Asked::new(Kind::Direct, false);
    let (_, path) = directory.insert_named("disk", Arc::clone(&disk)).expect("a new name");
    for flags in [0, libc::O_DIRECT] {
        let file = open(&path, flags);
        let layout = std::alloc::Layout::from_size_align(4096, 4096).expect("a layout");
        let mut pages = vec![7_u8; 8192];
        let at = pages.as_ptr().align_offset(layout.align());
        let page = &mut pages[at..at + 4096];
        file.write_all_at(page, 8192).expect("written");
        assert_eq!(disk.said(), ["write 8192+4096"]);
        for _ in 0..2 {
            file.read_exact_at(page, 8192).expect("read");
            assert_eq!(disk.said(), ["read 8192+4096"], "no page is kept");
        }
        file.sync_all().expect("synced");
        file.sync_data().expect("synced");
        assert_eq!(disk.said(), ["flush", "flush"]);
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE;
        let zero = rustix::fs::FallocateFlags::ZERO_RANGE;
        let keep = rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, hole | keep, 4096, 8192).expect("a hole");
        rustix::fs::fallocate(&file, zero | keep, 0, 4096).expect("zeros");
        assert_eq!(disk.said(), ["trim 4096+8192", "zero 0+4096"]);
        drop(file);
        // The kernel sends it when it closes the file.
        assert!(disk.said().iter().all(|said| said.starts_with("closed")));
    }
}

/// Two direct writes reach the disk side by side: each waits for the other.
#[test]
fn a_direct_disk_gets_writes_in_parallel() {
    let point = tempfile::tempdir().expect("a directory");
    let Some(directory) = directory(point.path()) else { return };
    let disk = Asked::new(Kind::Direct, true);
    let (_, path) = directory.insert_named("disk", Arc::clone(&disk)).expect("a new name");
    let file = open(&path, 0);
    std::thread::scope(|scope| {
        for turn in 0..2 {
            let file = &file;
            scope.spawn(move || file.write_all_at(&[1; 512], turn * 512).expect("not alone"));
        }
    });
}

/// So does a loop device over it, whose requests the kernel sends by itself.
#[test]
fn a_loop_device_over_a_direct_disk_writes_in_parallel() {
    let point = tempfile::tempdir().expect("a directory");
    let Some(directory) = directory(point.path()) else { return };
    let disk = Asked::new(Kind::Direct, true);
    let (_, path) = directory.insert_named("disk", Arc::clone(&disk)).expect("a new name");
    let losetup = |words: &[&str], path: &Path| {
        std::process::Command::new("losetup").args(words).arg(path).output()
    };
    let attached = losetup(&["--direct-io=on", "--find", "--show"], &path);
    let device = match attached {
        Ok(attached) if attached.status.success() => {
            PathBuf::from(String::from_utf8_lossy(&attached.stdout).trim())
        }
        failed => return eprintln!("skipped: no loop devices here: {failed:?}"),
    };
    let file = open(&device, libc::O_DIRECT);
    let wrote: Vec<io::Result<()>> = std::thread::scope(|scope| {
        let write = |turn: u64| {
            let pages = vec![1_u8; 8192];
            let at = pages.as_ptr().align_offset(4096);
            file.write_all_at(&pages[at..at + 4096], turn * 8192)
        };
        let threads = [0, 1].map(|turn| scope.spawn(move || write(turn)));
        threads.map(|thread| thread.join().expect("no panic")).into()
    });
    drop(file);
    losetup(&["--detach"], &device).expect("it detaches");
    assert!(wrote.iter().all(Result::is_ok), "each waited for the other: {wrote:?}");
}

#[test]
fn a_log_takes_every_way_of_appending() {
    let point = tempfile::tempdir().expect("a directory");
    let Some(directory) = directory(point.path()) else { return };
    let log = Asked::new(Kind::Log, false);
    let (_, path) = directory.insert_named("log", Arc::clone(&log)).expect("a new name");
    let said = |expected: &[&str]| {
        let said = log.said();
        let texts: Vec<&str> =
            said.iter().filter_map(|one| Some(one.split_once(": ")?.1)).collect();
        assert_eq!(texts, expected, "{said:?}");
        assert!(said.last().is_some_and(|last| last.starts_with("closed")), "{said:?}");
    };
    let mut append = OpenOptions::new().append(true).open(&path).expect("it opens");
    append.write_all(b"a\n").expect("written");
    append.write_all(b"b\n").expect("written");
    drop(append);
    said(&["a\n", "b\n"]);
    // Truncation is ignored, and the offset too.
    std::fs::write(&path, "c\n").expect("written");
    said(&["c\n"]);
    let file = open(&path, 0);
    file.write_all_at(b"d\n", 100_000).expect("written");
    assert_eq!(file.read_at(&mut [0; 10], 0).expect("read"), 0, "it reads as empty");
    drop(file);
    said(&["d\n"]);
    let mut both = OpenOptions::new().append(true).create(true).open(&path).expect("it opens");
    both.write_all(b"e\n").expect("written");
    both.sync_all().expect("synced");
    drop(both);
    assert!(log.said().contains(&"flush".to_owned()));
    // Each opening has its own number.
    let (mut one, mut other) = (append_to(&path), append_to(&path));
    one.write_all(b"f").expect("written");
    other.write_all(b"g").expect("written");
    let said = log.said();
    let opened = |at: usize| said[at].split(':').next().map(str::to_owned);
    assert_ne!(opened(0), opened(1), "{said:?}");
}

fn append_to(path: &Path) -> File {
    OpenOptions::new().append(true).open(path).expect("it opens")
}
