//! The side of the kernel: its questions about the directory and its files, and the answers.
//!
//! The kernel trusts sizes for an hour but looks names up each time. So a disk that was removed is
//! gone at once.

use super::{Bytes, Disks, Kind};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Bytes of one request at most.
const MOST_BYTES: usize = 1 << 20;
/// Requests that the kernel may have under way in the background (read-ahead and write-back), and
/// how many of them it calls many.
const MOST_BACKGROUND: u16 = 64;
const MANY_BACKGROUND: u16 = 48;
/// How long the kernel may trust attributes: they never change behind its back.
const VALID: Duration = Duration::from_secs(3600);

/// The side of the kernel.
#[derive(Debug)]
pub(super) struct Served<B> {
    disks: Arc<Disks<B>>,
    /// Number of the next opening of a file.
    opened: AtomicU64,
}

impl<B: Bytes> Served<B> {
    pub(super) fn new(disks: Arc<Disks<B>>) -> Served<B> {
        Served { disks, opened: AtomicU64::new(1) }
    }

    fn get(&self, number: INodeNo) -> Result<Arc<B>, Errno> {
        self.disks.get(number.0)
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        if number == INodeNo::ROOT {
            return Ok(attributes(number, 0));
        }
        Ok(attributes(number, shown_size(&*self.get(number)?)))
    }

    fn read_bytes(&self, number: INodeNo, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let disk = self.get(number)?;
        let left = usize::try_from(shown_size(&*disk).saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(size as usize).min(MOST_BYTES)];
        disk.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn write_bytes(
        &self,
        number: INodeNo,
        opened: FileHandle,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u32, Errno> {
        let disk = self.get(number)?;
        if disk.kind() == Kind::Log {
            disk.append(opened.0, bytes)?;
            return Ok(bytes.len() as u32);
        }
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
        if disk.kind() == Kind::Log {
            return Err(Errno::EINVAL);
        }
        let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return if end > disk.size() { Err(Errno::ENOSPC) } else { Ok(()) };
        }
        let end = end.min(disk.size());
        if offset < end {
            disk.discard(offset, end - offset, mode & libc::FALLOC_FL_ZERO_RANGE != 0)?;
        }
        Ok(())
    }

    /// Opens a file: how the kernel is to treat it.
    fn opening(&self, number: INodeNo) -> Result<(FileHandle, FopenFlags), Errno> {
        // The kernel does not ask about a disk that is closed. A process that serves a disk and has
        // it open would otherwise never end when it is killed: it closes the disk, waits for an
        // answer, and its threads that give answers are gone.
        let quiet = FopenFlags::FOPEN_NOFLUSH;
        let flags = match self.get(number)?.kind() {
            Kind::Cached => FopenFlags::FOPEN_KEEP_CACHE | quiet,
            // Without the second flag the kernel sends writes one by one.
            Kind::Direct => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | quiet
            }
            Kind::Log => FopenFlags::FOPEN_DIRECT_IO,
        };
        Ok((FileHandle(self.opened.fetch_add(1, Ordering::Relaxed)), flags))
    }
}

/// The size that the kernel is told.
fn shown_size(disk: &impl Bytes) -> u64 {
    if disk.kind() == Kind::Log { 0 } else { disk.size() }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn attributes(number: INodeNo, size: u64) -> FileAttr {
    let (kind, perm, nlink) = match number {
        INodeNo::ROOT => (FileType::Directory, 0o755, 2),
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

impl<B: Bytes> Filesystem for Served<B> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel may offer less than it is asked for, which is as good. Not asked for is
        // FUSE_ATOMIC_O_TRUNC: with it the kernel would take a file opened with O_TRUNC for empty,
        // whatever the answer; without it, it asks for a change of size and heeds the answer.
        let _ = config.set_max_write(MOST_BYTES as u32);
        let _ = config.set_max_background(MOST_BACKGROUND);
        let _ = config.set_congestion_threshold(MANY_BACKGROUND);
        // Else the kernel sends the direct requests of one file one by one, as of a loop device.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| self.disks.find(name)).map(INodeNo);
        let found = number.filter(|number| *number != INodeNo::ROOT).ok_or(Errno::ENOENT);
        match found.and_then(|number| self.attributes(number)) {
            Ok(attributes) => {
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
        match self.opening(number) {
            Ok((opened, flags)) => reply.opened(opened, flags),
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
        opened: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_bytes(number, opened, offset, bytes) {
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
        answer(self.allocate(number, offset, length, mode), reply);
    }

    /// A descriptor is closed. It makes nothing durable: that is `fsync`.
    fn flush(
        &self,
        _: &Request,
        number: INodeNo,
        opened: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        // What was removed has nothing left to say.
        let closed = self.get(number).map_or(Ok(()), |disk| disk.closed(opened.0));
        answer(closed.map_err(Errno::from), reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.get(number).and_then(|disk| Ok(disk.flush()?)), reply);
    }

    /// The directory itself has nothing to make durable.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    /// Lists the names that were given. Disks without one are found by their number only.
    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = self.disks.lock();
        let named = entries
            .names
            .iter()
            .map(|(name, number)| (INodeNo(*number), FileType::RegularFile, name.as_str()));
        let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (next, (number, kind, name)) in (1..).zip(dots.into_iter().chain(named)).skip(from) {
            if reply.add(number, next, kind, name) {
                break;
            }
        }
        drop(entries);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }
}
