//! A disk that records what it is asked, as a file of a file system in user space.
//!
//! A request is on the recording before it is carried out, and its answer before the client gets
//! it. Requests are carried out in the order in which the recording answers them. So the state with
//! every write kept is the content of this disk, byte for byte. A request that cannot be recorded
//! fails and is not carried out.

use super::marks::MarkFile;
use super::recorder::Recorder;
use super::tape::{DISKS, Request};
use rustix::fs::FallocateFlags;
use seekless_serve::fuse::disks::{Bytes, Kind};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest zeros or trim of one record, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Error number of the protocol for a medium without space, and for every other failure.
const NO_SPACE: u32 = 28;
const FAILED: u32 = 5;

/// A disk over a file that is its own: requests change the file at once, durable or not.
#[derive(Debug)]
pub struct RecordedDisk {
    recorder: Arc<Recorder>,
    file: File,
    /// Which connection of the recording it is.
    connection: u32,
    /// Where it begins in the file and on the recorded export.
    begin: u64,
    size: u64,
    /// Requests that change the content.
    writes: AtomicU64,
    /// Held while a request is carried out and answered.
    order: Mutex<()>,
}

impl RecordedDisk {
    /// A disk of `size` bytes in a file, which holds the content at the start and is no shorter.
    /// The recording must be of a disk of this size.
    ///
    /// # Errors
    /// If the file is shorter, or its length cannot be found.
    pub fn new(recorder: Arc<Recorder>, file: File, size: u64) -> io::Result<RecordedDisk> {
        let found = file.metadata()?.len();
        if found < size {
            let cause = format!("the file of the disk has {found} bytes, the disk {size}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
        }
        let (writes, order) = (AtomicU64::new(0), Mutex::new(()));
        Ok(RecordedDisk { recorder, file, connection: DISKS[0], begin: 0, size, writes, order })
    }

    /// The second disk of a recording of two, in the file of both: it begins at byte `begin`.
    ///
    /// # Errors
    /// As for [`RecordedDisk::new`].
    pub fn second(
        recorder: Arc<Recorder>,
        file: File,
        begin: u64,
        size: u64,
    ) -> io::Result<RecordedDisk> {
        let whole = RecordedDisk::new(recorder, file, begin + size)?;
        Ok(RecordedDisk { connection: DISKS[1], begin, size, ..whole })
    }

    /// Writes, zeros and trims that were asked for.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Records a request, carries it out, and records the answer.
    fn ask(
        &self,
        request: Request<'_>,
        carry_out: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        if !matches!(request, Request::Flush) {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.recorder.request(self.connection, request)?;
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let done = carry_out(&self.file);
        let errno = match &done {
            Ok(()) => 0,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => NO_SPACE,
            Err(_) => FAILED,
        };
        self.recorder.answer(self.connection, number, errno)?;
        done
    }
}

impl Bytes for RecordedDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn kind(&self) -> Kind {
        Kind::Direct
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, self.begin + offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = self.begin + offset;
        self.ask(Request::Write { offset, data, fua: false }, |file| {
            file.write_all_at(data, offset)
        })
    }

    /// Only the recording knows of flushes: the file need not survive a crash of this machine.
    fn flush(&self) -> io::Result<()> {
        self.ask(Request::Flush, |_| Ok(()))
    }

    fn discard(&self, offset: u64, length: u64, zero: bool) -> io::Result<()> {
        let (mut at, end) = (self.begin + offset, self.begin + offset + length);
        while at < end {
            let count = (end - at).min(MOST_BYTES);
            // It fits: it is at most 2³⁰.
            let (length, fua) = (count as u32, false);
            let request = match zero {
                true => Request::Zeros { offset: at, length, fua, no_hole: true },
                false => Request::Trim { offset: at, length, fua },
            };
            self.ask(request, |file| clear(file, at, count))?;
            at += count;
        }
        Ok(())
    }
}

/// Makes bytes of a file read as zeros.
fn clear(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, hole, offset, length) {
        // A file system without holes.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let zeros = vec![0; length.min(1 << 20) as usize];
            let mut at = offset;
            while at < offset + length {
                let count = (offset + length - at).min(zeros.len() as u64);
                file.write_all_at(&zeros[..count as usize], at)?;
                at += count;
            }
            Ok(())
        }
        other => Ok(other?),
    }
}

/// A file of the directory in which a program runs under recording.
#[derive(Debug)]
pub enum Node {
    /// The disk.
    Disk(RecordedDisk),
    /// The log of acknowledgements.
    Acks(MarkFile),
}

impl Node {
    /// Writes, zeros and trims of a disk that were asked for.
    pub fn writes(&self) -> u64 {
        match self {
            Node::Disk(disk) => disk.writes(),
            Node::Acks(_) => 0,
        }
    }
}

impl Bytes for Node {
    fn size(&self) -> u64 {
        match self {
            Node::Disk(disk) => disk.size(),
            Node::Acks(_) => 0,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Node::Disk(disk) => disk.kind(),
            Node::Acks(_) => Kind::Log,
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Node::Disk(disk) => disk.read(offset, out),
            Node::Acks(_) if out.is_empty() => Ok(()),
            Node::Acks(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Node::Disk(disk) => disk.write(offset, bytes),
            // The directory appends to it.
            Node::Acks(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn flush(&self) -> io::Result<()> {
        match self {
            Node::Disk(disk) => disk.flush(),
            Node::Acks(_) => Ok(()),
        }
    }

    fn discard(&self, offset: u64, length: u64, zero: bool) -> io::Result<()> {
        match self {
            Node::Disk(disk) => disk.discard(offset, length, zero),
            Node::Acks(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    fn append(&self, opened: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Node::Disk(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Node::Acks(marks) => marks.append(opened, bytes),
        }
    }

    fn closed(&self, opened: u64) -> io::Result<()> {
        match self {
            Node::Disk(_) => Ok(()),
            Node::Acks(marks) => marks.end_line(opened),
        }
    }
}

#[cfg(test)]
mod tests;
