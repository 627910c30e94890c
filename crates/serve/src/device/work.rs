//! Jobs of a file device, which the ring or the threads perform.

use super::buffers::Buffer;
use super::raw::{self, ZEROS, ZeroWay};
use bytes::Bytes;
use rustix::io::Errno;
use seekless_engine::io::Tag;
use std::fs::File;
use std::sync::Arc;

/// A job on the file. Offsets and lengths are in bytes.
#[derive(Debug)]
pub(super) enum Work {
    /// Fill the buffer; `filled` bytes of it are there already.
    Read { offset: u64, buffer: Buffer, filled: usize },
    /// Write the bytes, of which `written` are out already.
    Write { offset: u64, bytes: Bytes, written: usize },
    /// Make a range read as zeros; `done` bytes of it already do.
    Zero { offset: u64, bytes: u64, done: u64, way: ZeroWay },
    /// Make all completed writes durable, through the open file of this lane.
    Sync { lane: usize, file: Arc<File> },
}

/// A finished job.
#[derive(Debug)]
pub(super) struct Finished {
    /// The request it belongs to; unused for a sync.
    pub tag: Tag,
    /// The job, with its buffer.
    pub work: Work,
    /// Its result.
    pub result: Result<(), Errno>,
}

impl Work {
    /// Performs the job on this thread.
    pub(super) fn carry_out(&mut self, file: &File) -> Result<(), Errno> {
        match self {
            Work::Read { offset, buffer, filled } => {
                raw::read_full(file, &mut buffer.bytes_mut()[*filled..], *offset + *filled as u64)
            }
            Work::Write { offset, bytes, written } => {
                let rest = bytes.slice(*written..);
                raw::write_full(file, &[rest], *offset + *written as u64)
            }
            Work::Zero { offset, bytes, done, way } => {
                raw::zero_full(file, *offset + *done, *bytes - *done, way)
            }
            Work::Sync { file, .. } => raw::sync(file),
        }
    }

    /// Takes the result of one system call for the next part of the job. `None` if the job needs
    /// another call.
    pub(super) fn advance(&mut self, result: i32, direct: bool) -> Option<Result<(), Errno>> {
        if result < 0 {
            let errno = Errno::from_raw_os_error(-result);
            if errno == Errno::INTR || errno == Errno::AGAIN {
                return None;
            }
            if let Work::Zero { way, .. } = self
                && way.unsupported(errno)
            {
                *way = way.next();
                return None;
            }
            return Some(Err(errno));
        }
        let count = result as usize;
        match self {
            Work::Read { buffer, filled, .. } => {
                // A direct read can continue only at a block boundary. A short one means that the
                // file ends here, which is an error.
                let end = *filled + count;
                let whole =
                    if direct { end - end % seekless_engine::units::BLOCK_BYTES } else { end };
                if whole == *filled && whole < buffer.as_ref().len() {
                    return Some(Err(Errno::IO));
                }
                *filled = whole;
                (*filled == buffer.as_ref().len()).then_some(Ok(()))
            }
            Work::Write { bytes, written, .. } => {
                if count == 0 {
                    return Some(Err(Errno::IO));
                }
                *written += count;
                (*written == bytes.len()).then_some(Ok(()))
            }
            Work::Zero { bytes, done, way, .. } => {
                if *way != ZeroWay::Write {
                    return Some(Ok(()));
                }
                if count == 0 {
                    return Some(Err(Errno::IO));
                }
                *done += count as u64;
                (*done == *bytes).then_some(Ok(()))
            }
            Work::Sync { .. } => Some(Ok(())),
        }
    }

    /// For a range that is zeroed by writing: the offset of the next zeros, and the zeros.
    pub(super) fn next_zeros(offset: u64, bytes: u64, done: u64) -> (u64, &'static [u8]) {
        let here = (bytes - done).min(ZEROS.len() as u64);
        (offset + done, &ZEROS[..here as usize])
    }
}
