//! States as files of a file system in user space: the kernel's side of the conversation.
//!
//! The protocol is the one of `linux/fuse.h`, version 7.31, spoken over `/dev/fuse` in the byte
//! order of the machine. One directory, a file for each state; only files can be written.

use super::image::Image;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What holes read as.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Bytes of one write at most, and of one read.
const MOST_BYTES: usize = 1 << 20;
const IN_HEADER: usize = 40;
const OUT_HEADER: usize = 16;
/// Room for the header and the fixed part of a write.
const HEADERS: usize = 4096;
const ROOT: u64 = 1;
/// Files are numbered from here.
pub(super) const FIRST_FILE: u64 = 2;

mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

/// Requests may be answered out of order, writes may be long, pages are counted below. Not asked
/// for is `FUSE_ATOMIC_O_TRUNC`: with it the kernel would take a file opened with `O_TRUNC` for
/// empty, whatever the answer; without it, it asks for a change of size and heeds the answer.
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const MAX_PAGES: u32 = 1 << 22;
/// A file's pages stay good between two openings.
const KEEP_CACHE: u32 = 1 << 1;
const SET_SIZE: u32 = 1 << 3;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
const NOTIFY_INVAL_INODE: i32 = 2;
/// Attributes never change behind the kernel's back.
const VALID_SECONDS: u64 = 3600;

/// The files there are, by their number.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<HashMap<u64, Arc<Image>>>);

impl Files {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Image>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, number: u64, image: Arc<Image>) {
        self.lock().insert(number, image);
    }

    pub(super) fn remove(&self, number: u64) {
        self.lock().remove(&number);
    }

    fn get(&self, number: u64) -> Result<Arc<Image>, i32> {
        self.lock().get(&number).cloned().ok_or(libc::ENOENT)
    }
}

/// Name of the file of this number.
pub(super) fn file_name(number: u64) -> String {
    format!("{number}.img")
}

#[expect(clippy::host_endian_bytes, reason = "the kernel speaks the byte order of the machine")]
fn u32_at(bytes: &[u8], at: usize) -> Result<u32, i32> {
    let part = bytes.get(at..at + 4).and_then(|part| part.first_chunk());
    part.map(|part| u32::from_ne_bytes(*part)).ok_or(libc::EINVAL)
}

#[expect(clippy::host_endian_bytes, reason = "the kernel speaks the byte order of the machine")]
fn u64_at(bytes: &[u8], at: usize) -> Result<u64, i32> {
    let part = bytes.get(at..at + 8).and_then(|part| part.first_chunk());
    part.map(|part| u64::from_ne_bytes(*part)).ok_or(libc::EINVAL)
}

/// A message being put together.
#[derive(Default)]
struct Out(Vec<u8>);

#[expect(clippy::host_endian_bytes, reason = "the kernel speaks the byte order of the machine")]
impl Out {
    fn u16(mut self, value: u16) -> Out {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Out {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn i32(mut self, value: i32) -> Out {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Out {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn zeros(mut self, count: usize) -> Out {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// `struct fuse_attr`.
    fn attributes(self, number: u64, size: u64) -> Out {
        let (mode, links) = match number {
            ROOT => (libc::S_IFDIR | 0o555, 2),
            _ => (libc::S_IFREG | 0o666, 1),
        };
        let out = self.u64(number).u64(size).u64(size.div_ceil(512)).zeros(36);
        let out = out.u32(mode).u32(links);
        // Owner, group and device number, then the size of a block, and flags.
        out.zeros(12).u32(4096).u32(0)
    }
}

/// What the kernel gets back.
enum Reply {
    /// Nothing at all.
    None,
    /// The body of an answer.
    Body(Vec<u8>),
}

fn body(out: Out) -> Result<Reply, i32> {
    Ok(Reply::Body(out.0))
}

/// Answers the kernel until the file system is gone.
pub(super) fn answer_all(device: &File, files: &Files) {
    let mut buffer = vec![0; MOST_BYTES + HEADERS];
    loop {
        let length = match (&*device).read(&mut buffer) {
            Ok(length) => length,
            // A request that was taken back, or a signal.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)
                ) =>
            {
                continue;
            }
            // It has been unmounted, or the connection is broken: there is nobody to tell.
            Err(_) => return,
        };
        let message = &buffer[..length];
        let (Ok(opcode), Ok(unique)) = (u32_at(message, 4), u64_at(message, 8)) else { return };
        let (error, bytes) = match answer(files, opcode, message) {
            Ok(Reply::None) => continue,
            Ok(Reply::Body(bytes)) => (0, bytes),
            Err(errno) => (-errno, Vec::new()),
        };
        // The kernel has asked for a megabyte at most.
        let total = (OUT_HEADER + bytes.len()) as u32;
        let header = Out::default().u32(total).i32(error).u64(unique);
        let message = [header.0, bytes].concat();
        // The one who asked may have been killed meanwhile.
        let _ = (&*device).write(&message);
    }
}

/// Tells the kernel to let go of the pages of a file.
pub(super) fn forget(device: &File, number: u64) -> io::Result<()> {
    let header = Out::default().u32(OUT_HEADER as u32 + 24).i32(NOTIFY_INVAL_INODE).u64(0);
    let message = header.u64(number).u64(0).u64(0);
    match (&*device).write(&message.0) {
        // It does not know the file, so it holds nothing of it.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other.map(|_| ()),
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn answer(files: &Files, opcode: u32, message: &[u8]) -> Result<Reply, i32> {
    let node = u64_at(message, 16)?;
    let rest = message.get(IN_HEADER..).ok_or(libc::EINVAL)?;
    match opcode {
        op::INIT => init(rest),
        op::FORGET | op::BATCH_FORGET | op::INTERRUPT => Ok(Reply::None),
        op::LOOKUP => {
            let name = rest.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = std::str::from_utf8(name).map_err(|_| libc::ENOENT)?;
            let number = name.strip_suffix(".img").and_then(|number| number.parse().ok());
            let number: u64 = number.ok_or(libc::ENOENT)?;
            let size = files.get(number)?.size();
            let out = Out::default().u64(number).u64(0).u64(0).u64(VALID_SECONDS).zeros(8);
            body(out.attributes(number, size))
        }
        op::GETATTR => attributes(files, node),
        op::SETATTR => {
            // A disk keeps its size: like a block device a state ignores that it is truncated, be
            // it with O_TRUNC. The kernel believes the size that it is answered.
            if node == ROOT && u32_at(rest, 0)? & SET_SIZE != 0 {
                return Err(libc::EPERM);
            }
            attributes(files, node)
        }
        op::OPEN => {
            files.get(node)?;
            body(Out::default().u64(node).u32(KEEP_CACHE).u32(0))
        }
        op::READ => {
            let (offset, size) = (u64_at(rest, 8)?, u32_at(rest, 16)? as usize);
            let image = files.get(node)?;
            let left = image.size().saturating_sub(offset);
            let count = size.min(MOST_BYTES).min(usize::try_from(left).unwrap_or(usize::MAX));
            let mut bytes = vec![0; count];
            image.read(offset, &mut bytes).map_err(|error| errno(&error))?;
            Ok(Reply::Body(bytes))
        }
        op::WRITE => {
            let (offset, size) = (u64_at(rest, 8)?, u32_at(rest, 16)?);
            let bytes = rest.get(40..40 + size as usize).ok_or(libc::EINVAL)?;
            let image = files.get(node)?;
            if offset.checked_add(u64::from(size)).is_none_or(|end| end > image.size()) {
                return Err(libc::ENOSPC);
            }
            image.write(offset, bytes).map_err(|error| errno(&error))?;
            body(Out::default().u32(size).u32(0))
        }
        op::FALLOCATE => allocate(files, node, rest),
        op::STATFS => {
            let out = Out::default().zeros(40).u32(4096).u32(255).u32(4096);
            body(out.zeros(28))
        }
        op::OPENDIR => body(Out::default().zeros(16)),
        op::READDIR
        | op::RELEASE
        | op::RELEASEDIR
        | op::FSYNC
        | op::FSYNCDIR
        | op::FLUSH
        | op::DESTROY => body(Out::default()),
        // The kernel remembers that and does without.
        _ => Err(libc::ENOSYS),
    }
}

fn init(rest: &[u8]) -> Result<Reply, i32> {
    let (major, readahead, offered) = (u32_at(rest, 0)?, u32_at(rest, 8)?, u32_at(rest, 12)?);
    if major != 7 {
        return Err(libc::EPROTO);
    }
    let flags = offered & (ASYNC_READ | BIG_WRITES | MAX_PAGES);
    let out = Out::default().u32(7).u32(31).u32(readahead).u32(flags);
    // Requests in the background, and when that is many; then the longest write, the grain of
    // times, and the longest request in pages.
    let out = out.u16(64).u16(48).u32(MOST_BYTES as u32).u32(1).u16((MOST_BYTES / 4096) as u16);
    body(out.zeros(34))
}

fn attributes(files: &Files, node: u64) -> Result<Reply, i32> {
    let size = if node == ROOT { 0 } else { files.get(node)?.size() };
    body(Out::default().u64(VALID_SECONDS).zeros(8).attributes(node, size))
}

/// Space is always there; holes read as zeros.
fn allocate(files: &Files, node: u64, rest: &[u8]) -> Result<Reply, i32> {
    const CHUNK: u64 = 64 << 10;
    let (offset, length, mode) = (u64_at(rest, 8)?, u64_at(rest, 16)?, u32_at(rest, 24)?);
    let image = files.get(node)?;
    let end = offset.checked_add(length).ok_or(libc::EINVAL)?;
    if mode & (PUNCH_HOLE | ZERO_RANGE) == 0 {
        return if end > image.size() { Err(libc::ENOSPC) } else { body(Out::default()) };
    }
    let end = end.min(image.size());
    let mut at = offset;
    while at < end {
        let count = CHUNK.min(end - at);
        let zeros = &ZEROS[..count as usize];
        image.write(at, zeros).map_err(|error| errno(&error))?;
        at += count;
    }
    body(Out::default())
}
