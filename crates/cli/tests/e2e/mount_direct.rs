//! Direct I/O beside buffered I/O: a read that begins after a direct write has ended finds its
//! bytes, however the two were made.

use crate::harness::skip;
use crate::mount::{Disk, possible};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a write; direct I/O wants a whole number of sectors, aligned.
const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A buffer that direct I/O takes.
#[repr(align(4096))]
struct Aligned([u8; BLOCK]);

/// Asynchronous writes of the kernel (`io_submit`), one at a time.
struct Aio(libc::c_ulong);

/// `struct iocb`.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_fd: u32,
}

const IOCB_CMD_PWRITE: u16 = 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

impl Aio {
    fn new() -> Option<Aio> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context to the given place.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, 8, &raw mut context) };
        (made == 0).then_some(Aio(context))
    }

    /// Writes, and returns when the kernel says that it is done.
    fn write(&self, file: &File, block: &Aligned, at: u64) {
        let request = Iocb {
            opcode: IOCB_CMD_PWRITE,
            fd: file.as_raw_fd().cast_unsigned(),
            buffer: block.0.as_ptr().expose_provenance() as u64,
            length: BLOCK as u64,
            offset: at as i64,
            ..Iocb::default()
        };
        let mut list = [&raw const request];
        // SAFETY: the request and the buffer that it names live until the event below.
        let sent = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, list.as_mut_ptr()) };
        assert_eq!(sent, 1, "{}", std::io::Error::last_os_error());
        let mut event = Event::default();
        let none = std::ptr::null::<libc::timespec>();
        // SAFETY: there is room for the one event that is asked for.
        let got =
            unsafe { libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &raw mut event, none) };
        assert_eq!((got, event.result), (1, BLOCK as i64), "the write failed");
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is this one's, and no request is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// A block of a version.
fn fill(block: &mut Aligned, version: u64) {
    block.0.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&version.to_le_bytes()));
}

fn direct(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    options.open(path).expect("O_DIRECT")
}

/// A thread writes version after version directly; another one reads through the cache of the
/// kernel. A read never finds a version older than one whose write had ended before it began.
fn reads_see_what_was_written(path: &Path, write: &(dyn Fn(&File, &Aligned, u64) + Sync)) {
    let done: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (file, mut block) = (direct(path), Aligned([0; BLOCK]));
            let begin = Instant::now();
            for version in 1.. {
                if begin.elapsed() > Duration::from_secs(3) {
                    break;
                }
                for (at, done) in (0_u64..).zip(&done) {
                    fill(&mut block, version);
                    write(&file, &block, at * BLOCK as u64);
                    done.store(version, Ordering::SeqCst);
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let (file, mut found) = (File::open(path).expect("open"), [0; 8]);
                let mut stale = None;
                while !over.load(Ordering::SeqCst) && stale.is_none() {
                    for (at, done) in (0_u64..).zip(&done) {
                        let least = done.load(Ordering::SeqCst);
                        file.read_exact_at(&mut found, at * BLOCK as u64).expect("read");
                        let version = u64::from_le_bytes(found);
                        if version < least {
                            stale = Some((at, version, least));
                        }
                    }
                }
                assert_eq!(stale, None, "block, version that was read, version that was written");
            });
        }
    });
    // And nothing old stays in the cache.
    let file = File::open(path).expect("open");
    for (at, done) in (0_u64..).zip(&done) {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, at * BLOCK as u64).expect("read");
        assert_eq!(u64::from_le_bytes(found), done.load(Ordering::SeqCst), "block {at}");
    }
}

#[test]
fn buffered_reads_find_what_direct_writes_wrote() {
    if !possible() {
        return;
    }
    let Some(aio) = Aio::new() else { return skip("the kernel has no asynchronous I/O") };
    for layout in ["raw", "vlog"] {
        let disk = Disk::new(layout, "32M", &[]);
        let mounted = disk.mount(&[]);
        let path = mounted.path("file");
        std::fs::write(&path, vec![0; BLOCK * BLOCKS as usize]).expect("write");
        reads_see_what_was_written(&path, &|file, block, at| aio.write(file, block, at));
        std::fs::write(&path, vec![0; BLOCK * BLOCKS as usize]).expect("write");
        reads_see_what_was_written(&path, &|file, block, at| {
            file.write_all_at(&block.0, at).expect("write");
        });
        mounted.unmount();
        disk.is_clean();
    }
}
