//! A device over a file or a block device, in real time.
//!
//! *Buffered*, the page cache is the drive's volatile cache. A write completes when it is in there,
//! a read that finds its blocks there is answered at once, and the rest goes to the kernel's ring
//! or to threads. *Direct*, all requests bypass the page cache and go to the ring or to threads. In
//! both modes an answered write is durable only after the next flush.

use super::buffers::{Buffer, Pool};
use super::raw::{self, ZeroWay};
use super::ring::Ring;
use super::syncs::Syncs;
use super::threads::Threads;
use super::work::{Finished, Work};
use crate::image::{Image, ImageError};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use seekless_engine::data::Data;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::disk::Disk as _;
use seekless_engine::io::Extent;
use seekless_engine::io::{Done, Io, IoError, Op, Outcome, Tag};
use seekless_engine::units::{BLOCK_BYTES, BlockNr, SECTOR_BYTES, Time};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// How to perform requests that the page cache cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// The ring if the kernel has one, else threads.
    #[default]
    Auto,
    /// The kernel's io_uring.
    Uring,
    /// A few threads with ordinary system calls.
    Threads,
}

impl FromStr for IoMode {
    type Err = String;

    fn from_str(name: &str) -> Result<IoMode, String> {
        match name {
            "auto" => Ok(IoMode::Auto),
            "uring" => Ok(IoMode::Uring),
            "threads" => Ok(IoMode::Threads),
            _ => Err(format!("unknown I/O mode `{name}`: known are auto, uring, threads")),
        }
    }
}

/// Why a device cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No ring, although one was requested.
    #[error("the kernel offers no usable io_uring ({0}); choose --io threads or auto")]
    NoRing(io::Error),
    /// No direct I/O on this file system.
    #[error("{} does not allow direct I/O ({errno}); serve it without --direct", .path.display())]
    NoDirect {
        /// The image.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// Out of file descriptors or the like.
    #[error("cannot set up the device: {0}")]
    Os(#[from] io::Error),
    /// The image cannot be shared.
    #[error(transparent)]
    Image(#[from] ImageError),
}

#[derive(Debug)]
enum Engine {
    Ring(Box<Ring>),
    Threads(Threads),
}

impl Engine {
    fn start(&mut self, tag: Tag, work: Work) {
        match self {
            Engine::Ring(ring) => ring.start(tag, work),
            Engine::Threads(threads) => threads.start(tag, work),
        }
    }

    fn collect(&mut self, finished: &mut Vec<Finished>) {
        match self {
            Engine::Ring(ring) => ring.collect(finished),
            Engine::Threads(threads) => threads.collect(finished),
        }
    }

    fn pending(&self) -> usize {
        match self {
            Engine::Ring(ring) => ring.pending(),
            Engine::Threads(threads) => threads.pending(),
        }
    }
}

/// The device.
#[derive(Debug)]
pub struct FileDevice {
    // Fields are dropped in this order: the engine must let go of the file before the image unlocks
    // it.
    engine: Engine,
    file: Arc<File>,
    image: Image,
    blocks: u64,
    direct: bool,
    no_wait: bool,
    /// How to read what is in memory, and only that.
    cached: ReadWriteFlags,
    pool: Pool,
    zero_way: ZeroWay,
    syncs: Syncs,
    ready: Vec<Done>,
    ready_at: Time,
    finished: Vec<Finished>,
}

/// `ENXIO`: no such device or address.
const GONE: i32 = 6;

impl FileDevice {
    /// Checks whether [`FileDevice::new`] would refuse this image, without changing it. The caller
    /// checks before it mounts, because the device is created after the mount.
    ///
    /// # Errors
    /// If the kernel lacks a requested feature.
    pub fn try_out(image: &Image, mode: IoMode, direct: bool) -> Result<(), DeviceError> {
        let handle = image.handle()?;
        if direct {
            let no_direct = |errno| DeviceError::NoDirect { path: image.path().into(), errno };
            let flags = rustix::fs::fcntl_getfl(&handle).map_err(no_direct)?;
            rustix::fs::fcntl_setfl(&handle, flags | OFlags::DIRECT).map_err(no_direct)?;
            // Restore the flags: handles share them, and a mount goes through the page cache.
            rustix::fs::fcntl_setfl(&handle, flags).map_err(no_direct)?;
        }
        if mode == IoMode::Uring {
            Ring::new(Arc::new(handle), direct).map_err(DeviceError::NoRing)?;
        }
        Ok(())
    }

    /// A device over an open image.
    ///
    /// # Errors
    /// If the kernel lacks a requested feature.
    pub fn new(image: Image, mode: IoMode, direct: bool) -> Result<FileDevice, DeviceError> {
        let handle = image.handle()?;
        if direct {
            let no_direct = |errno| DeviceError::NoDirect { path: image.path().into(), errno };
            let flags = rustix::fs::fcntl_getfl(&handle).map_err(no_direct)?;
            rustix::fs::fcntl_setfl(&handle, flags | OFlags::DIRECT).map_err(no_direct)?;
        }
        // A file in memory knows no such flag, and needs none: no read of it waits for a device.
        let cached = match in_memory(&handle) {
            true => ReadWriteFlags::empty(),
            false => ReadWriteFlags::NOWAIT,
        };
        let file = Arc::new(handle);
        let ring = match mode {
            IoMode::Threads => Err(io::ErrorKind::Unsupported.into()),
            IoMode::Auto | IoMode::Uring => Ring::new(Arc::clone(&file), direct),
        };
        let engine = match ring {
            Ok(ring) => Engine::Ring(Box::new(ring)),
            Err(error) if mode == IoMode::Uring => return Err(DeviceError::NoRing(error)),
            Err(_) => Engine::Threads(Threads::new(Arc::clone(&file))?),
        };
        Ok(FileDevice {
            engine,
            file,
            blocks: image.blocks(),
            syncs: Syncs::new(&image)?,
            image,
            direct,
            no_wait: true,
            cached,
            pool: Pool::default(),
            zero_way: ZeroWay::Punch,
            ready: Vec::new(),
            ready_at: 0,
            finished: Vec::new(),
        })
    }

    /// A descriptor that becomes readable when [`Device::reap`] has something to do.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn wait_fd(&self) -> io::Result<OwnedFd> {
        match &self.engine {
            Engine::Ring(ring) => ring.wait_fd().try_clone_to_owned(),
            Engine::Threads(threads) => threads.wait_fd().try_clone_to_owned(),
        }
    }

    /// For the log, in one word: how requests are performed that the page cache cannot answer.
    pub fn engine_name(&self) -> &'static str {
        match self.engine {
            Engine::Ring(_) => "io_uring",
            Engine::Threads(_) => "threads",
        }
    }

    fn answer(&mut self, tag: Tag, outcome: Outcome) {
        self.ready.push(Done::new(tag, outcome));
    }

    fn read(&mut self, io: &Io) {
        let offset = raw::offset_of(io.at);
        let mut buffer = self.pool.take(io.count as usize * BLOCK_BYTES);
        let mut filled = 0;
        if !self.direct && self.no_wait {
            match read_cached(&self.file, &mut buffer, offset, self.cached) {
                Ok(count) if count == buffer.as_ref().len() => {
                    self.answer(io.tag, Ok(Data::bytes(buffer.freeze())));
                    return;
                }
                Ok(count) => filled = count,
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.no_wait = false,
                // Not in the cache, or an error: the ordinary path decides.
                Err(_) => {}
            }
        }
        self.engine.start(io.tag, Work::Read { offset, buffer, filled });
    }

    fn write(&mut self, io: &Io) {
        let offset = raw::offset_of(io.at);
        if self.direct {
            let mut buffer = self.pool.take(io.count as usize * BLOCK_BYTES);
            io.data.copy_to(buffer.bytes_mut());
            self.engine
                .start(fua_tag(io), Work::Write { offset, bytes: buffer.freeze(), written: 0 });
            return;
        }
        let result = match io.part {
            None => raw::write_full(&self.file, &raw::flatten(&io.data), offset),
            Some(part) => {
                let (from, to) = (part.first as usize, part.end() as usize);
                let range = from * SECTOR_BYTES..to * SECTOR_BYTES;
                let bytes = io.data.to_bytes().slice(range.clone());
                raw::write_full(&self.file, &[bytes], offset + range.start as u64)
            }
        };
        self.wrote(fua_tag(io), result.map_err(|errno| raw::io_error(errno, io.at)));
    }

    /// Finishes a write or a trim; with forced unit access it waits for a sync.
    fn wrote(&mut self, tag: Tag, result: Result<(), IoError>) {
        let (tag, fua) = (tag & !FUA, tag & FUA != 0);
        self.syncs.wrote();
        let result = result.map_err(|error| match error {
            IoError::NoSpace if self.is_cut_off() => IoError::Os { errno: GONE },
            other => other,
        });
        match result {
            Ok(()) if fua => self.syncs.wait(tag),
            result => self.answer(tag, result.map(|()| Data::none())),
        }
    }

    /// True for a block device that has become shorter: a write behind its end is refused as on a
    /// full host, but no room will come.
    fn is_cut_off(&self) -> bool {
        let end = || rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0)).ok();
        let has = |end| end >= self.blocks * BLOCK_BYTES as u64;
        self.image.is_block_device() && !end().is_some_and(has)
    }

    fn flush(&mut self, tag: Tag) {
        if self.image.read_only() || self.syncs.flush(tag) {
            self.answer(tag, Ok(Data::none()));
        }
    }

    /// Starts the waiting sync if a lane is free.
    fn start_sync(&mut self) {
        if let Some((lane, file)) = self.syncs.start() {
            self.engine.start(0, Work::Sync { lane, file });
        }
    }

    fn finish_sync(&mut self, lane: usize, result: Result<(), Errno>) {
        let outcome = result.map(|()| Data::none()).map_err(raw::sync_error);
        for tag in self.syncs.finish(lane, result) {
            self.answer(tag, outcome.clone());
        }
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { tag, work, result } = finished;
        match work {
            Work::Read { offset, buffer, .. } => {
                let block = offset / BLOCK_BYTES as u64;
                let outcome = match result {
                    Ok(()) => Ok(Data::bytes(buffer.freeze())),
                    Err(errno) => Err(raw::io_error(errno, block)),
                };
                self.answer(tag, outcome);
            }
            Work::Write { offset, .. } => {
                let block = offset / BLOCK_BYTES as u64;
                self.wrote(tag, result.map_err(|errno| raw::io_error(errno, block)));
            }
            Work::Zero { offset, way, .. } => {
                // Remember the methods that the store does not support.
                self.zero_way = way;
                let block = offset / BLOCK_BYTES as u64;
                self.wrote(tag, result.map_err(|errno| raw::io_error(errno, block)));
            }
            Work::Sync { lane, .. } => self.finish_sync(lane, result),
        }
    }
}

/// Marks the tag of a request with forced unit access while it is in the engine. Tags are slots
/// of the layer above, so the highest bit is free.
const FUA: Tag = 1 << 63;

fn fua_tag(io: &Io) -> Tag {
    assert!(io.tag & FUA == 0, "tag {:#x} of a request uses the highest bit", io.tag);
    if io.fua { io.tag | FUA } else { io.tag }
}

/// Reads what the page cache holds, without waiting. A short read is no error.
fn read_cached(
    file: &File,
    buffer: &mut Buffer,
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    let mut slices = [IoSliceMut::new(buffer.bytes_mut())];
    rustix::io::preadv2(file, &mut slices, offset, flags)
}

/// True for a file of `tmpfs`.
fn in_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

impl Device for FileDevice {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn extent(&mut self, at: BlockNr, limit: u64) -> (Extent, u64) {
        let (file, end) = (&self.file, at + limit);
        match raw::next_data(file, at, end).unwrap_or(end) {
            next if next > at => (Extent::Hole, next - at),
            _ => (Extent::Data, raw::next_hole(file, at, end) - at),
        }
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.ready_at = now;
        let end = io.at.checked_add(u64::from(io.count));
        if end.is_none_or(|end| end > self.blocks) {
            return self.answer(io.tag, Err(IoError::OutOfRange { at: io.at, count: io.count }));
        }
        match io.op {
            Op::Flush => self.flush(io.tag),
            Op::Read => self.read(&io),
            Op::Write | Op::Trim if self.image.read_only() => {
                self.answer(io.tag, Err(IoError::ReadOnly));
            }
            Op::Write => self.write(&io),
            Op::Trim => {
                let (offset, bytes) = (raw::offset_of(io.at), raw::offset_of(io.count.into()));
                let work = Work::Zero { offset, bytes, done: 0, way: self.zero_way };
                self.engine.start(fua_tag(&io), work);
            }
        }
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Done>) {
        let mut finished = std::mem::take(&mut self.finished);
        loop {
            // A finished write with forced unit access waits for a sync.
            self.start_sync();
            if self.engine.pending() > 0 {
                self.engine.collect(&mut finished);
            }
            if finished.is_empty() {
                break;
            }
            for one in finished.drain(..) {
                self.finish(one);
            }
        }
        self.finished = finished;
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        (!self.ready.is_empty()).then_some(self.ready_at)
    }

    fn is_sudden(&self) -> bool {
        true
    }

    fn volatile(&self) -> bool {
        true
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for FileDevice {
    /// The page cache takes any bytes. Direct requests go by blocks, which each disk accepts.
    fn takes_parts(&self) -> bool {
        !self.direct
    }

    /// Unless the store has turned out not to: then a trim would write zeros.
    fn punches(&self) -> bool {
        self.zero_way == ZeroWay::Punch && !self.image.read_only()
    }
}

#[cfg(test)]
mod tests;
