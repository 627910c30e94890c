//! A directory of disks: files of fixed size that can be read and written, and nothing else.
//!
//! Like a block device, a disk ignores that it is truncated, and refuses what lies beyond its end.
//! Pages that the kernel keeps of a disk stay good between two openings, for nothing changes behind
//! its back; they are dropped when the disk is removed.

use super::mount::{self, Right};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL, TimeOrNow,
    WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// What a disk is made of. Several threads use it at once.
pub trait Bytes: Debug + Send + Sync + 'static {
    /// Size in bytes; it never changes.
    fn size(&self) -> u64;

    /// Reads bytes that lie inside.
    ///
    /// # Errors
    /// What the reader is told: its operating system error, or `EIO`.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes bytes that lie inside.
    ///
    /// # Errors
    /// As for [`Bytes::read`].
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Threads that answer the kernel: two serve one client at its best, the third answers while they
/// wait for the medium.
const THREADS: usize = 3;
/// Bytes of one request at most.
const MOST_BYTES: usize = 1 << 20;
/// Requests that the kernel may have under way in the background (read-ahead and write-back), and
/// how many of them it calls many.
const MOST_BACKGROUND: u16 = 64;
const MANY_BACKGROUND: u16 = 48;
/// How long the kernel may trust attributes: they never change behind its back.
const VALID: Duration = Duration::from_secs(3600);
/// Disks are numbered from here; the directory has the number before.
const FIRST: u64 = 2;

/// What holes read as.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The disks there are, by their number.
#[derive(Debug)]
struct Disks<B>(Mutex<HashMap<u64, Arc<B>>>);

impl<B> Disks<B> {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<B>>> {
        // A panic while the lock is held leaves the map as it was or with one disk more or less.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: u64) -> Result<Arc<B>, Errno> {
        self.lock().get(&number).cloned().ok_or(Errno::ENOENT)
    }
}

/// A mounted directory of disks. It is in no tree of directories and reached through this process,
/// so nothing is left behind however that ends.
#[derive(Debug)]
pub struct DiskDirectory<B> {
    disks: Arc<Disks<B>>,
    notifier: Notifier,
    /// The only thing that keeps the file system alive.
    root: OwnedFd,
    next: AtomicU64,
}

impl<B: Bytes> DiskDirectory<B> {
    /// An empty directory. It is mounted at `point`, an empty directory, for a moment.
    ///
    /// # Errors
    /// If there is no FUSE here or the process may not mount.
    pub fn mount(point: &Path) -> io::Result<DiskDirectory<B>> {
        let disks = Arc::new(Disks(Mutex::default()));
        let right = Right::of_this_process();
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        config.acl = match right {
            Right::Root => SessionACL::All,
            Right::Helper => SessionACL::Owner,
        };
        let served = Served(Arc::clone(&disks));
        let (notifier, root) = mount::detached(right, point, |device| {
            let acl = config.acl;
            let session = Session::from_fd(served, device, acl, config)?;
            let notifier = session.notifier();
            // Its threads end by themselves when the file system does.
            session.spawn()?;
            Ok(notifier)
        })?;
        Ok(DiskDirectory { disks, notifier, root, next: AtomicU64::new(FIRST) })
    }

    /// Makes a disk a file; gives its number and its path.
    pub fn insert(&self, disk: Arc<B>) -> (u64, PathBuf) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let before = self.disks.lock().insert(number, disk);
        debug_assert!(before.is_none(), "numbers are used once");
        let (process, root) = (std::process::id(), self.root.as_raw_fd());
        (number, format!("/proc/{process}/fd/{root}/{number}.img").into())
    }

    /// The file is gone; what has it open gets errors.
    pub fn remove(&self, number: u64) {
        self.disks.lock().remove(&number);
        // Pages that stay are only memory that the kernel takes back when it wants it.
        let _ = self.notifier.inval_inode(INodeNo(number), 0, 0);
    }
}

/// The side of the kernel.
#[derive(Debug)]
struct Served<B>(Arc<Disks<B>>);

impl<B: Bytes> Served<B> {
    fn get(&self, number: INodeNo) -> Result<Arc<B>, Errno> {
        self.0.get(number.0)
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let size = if number == INodeNo::ROOT { 0 } else { self.get(number)?.size() };
        Ok(attributes(number, size))
    }

    fn read_bytes(&self, number: INodeNo, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let disk = self.get(number)?;
        let left = usize::try_from(disk.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(size as usize).min(MOST_BYTES)];
        disk.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn write_bytes(&self, number: INodeNo, offset: u64, bytes: &[u8]) -> Result<u32, Errno> {
        let disk = self.get(number)?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > disk.size()) {
            return Err(Errno::ENOSPC);
        }
        disk.write(offset, bytes)?;
        // The kernel sends a megabyte at most.
        Ok(bytes.len() as u32)
    }

    /// Space is always there; holes read as zeros.
    fn allocate(&self, number: INodeNo, offset: u64, length: u64, mode: i32) -> Result<(), Errno> {
        let disk = self.get(number)?;
        let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return if end > disk.size() { Err(Errno::ENOSPC) } else { Ok(()) };
        }
        let end = end.min(disk.size());
        let mut at = offset;
        while at < end {
            let count = (end - at).min(ZEROS.len() as u64);
            disk.write(at, &ZEROS[..count as usize])?;
            at += count;
        }
        Ok(())
    }
}

fn attributes(number: INodeNo, size: u64) -> FileAttr {
    let (kind, perm, nlink) = match number {
        INodeNo::ROOT => (FileType::Directory, 0o555, 2),
        _ => (FileType::RegularFile, 0o666, 1),
    };
    let never = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: number,
        size,
        blocks: size.div_ceil(512),
        atime: never,
        mtime: never,
        ctime: never,
        crtime: never,
        kind,
        perm,
        nlink,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// The number in the name of a disk.
fn number(name: &OsStr) -> Option<INodeNo> {
    name.to_str()?.strip_suffix(".img")?.parse().ok().map(INodeNo)
}

impl<B: Bytes> Filesystem for Served<B> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel may offer less than it is asked for, which is as good. Not asked for is
        // FUSE_ATOMIC_O_TRUNC: with it the kernel would take a file opened with O_TRUNC for empty,
        // whatever the answer; without it, it asks for a change of size and heeds the answer.
        let _ = config.set_max_write(MOST_BYTES as u32);
        let _ = config.set_max_background(MOST_BACKGROUND);
        let _ = config.set_congestion_threshold(MANY_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found =
            number(name).ok_or(Errno::ENOENT).and_then(|one| self.get(one).map(|d| (one, d)));
        match found {
            Ok((number, disk)) => {
                // Names are looked up anew each time: a disk that was removed is gone at once.
                let attributes = attributes(number, disk.size());
                reply.entry_with_ttls(&VALID, &Duration::ZERO, &attributes, Generation(0));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok(attributes) => reply.attr(&VALID, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    /// A disk keeps its size: like a block device it ignores that it is truncated, be it with
    /// `O_TRUNC`. The kernel believes the size that it is answered.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if number == INodeNo::ROOT && size.is_some() {
            return reply.error(Errno::EPERM);
        }
        match self.attributes(number) {
            Ok(attributes) => reply.attr(&VALID, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.get(number) {
            Ok(_) => reply.opened(FileHandle(number.0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_bytes(number, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_bytes(number, offset, bytes) {
            Ok(count) => reply.written(count),
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.allocate(number, offset, length, mode) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// The directory looks empty: disks are found by name only.
    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, reply: ReplyDirectory) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }
}
