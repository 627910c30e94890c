//! Blocking access to the blocks of a file or a block device, and what its errors mean.

use bytes::Bytes;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use seekless_engine::data::{Body, Data};
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use smallvec::SmallVec;
use std::fs::File;
use std::io::IoSlice;

/// Source of the zeros that are written if the store cannot make zeros itself.
pub(crate) static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Pieces per system call; the kernel takes at most 1,024.
const GATHER: usize = 64;

/// Converts an error of the operating system for a request on `block`.
pub(crate) fn io_error(errno: Errno, block: BlockNr) -> IoError {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => IoError::NoSpace,
        Errno::IO | Errno::NODATA | Errno::REMOTEIO | Errno::ILSEQ => IoError::Media { block },
        Errno::ROFS | Errno::PERM => IoError::ReadOnly,
        other => IoError::Os { errno: other.raw_os_error() },
    }
}

/// Converts an error of a sync. It has no block, so its error names none. One that says that the
/// host is full is no refused write: what it was to cover may be lost while the page cache still
/// shows it.
pub(crate) fn sync_error(errno: Errno) -> IoError {
    match io_error(errno, 0) {
        IoError::Media { .. } | IoError::NoSpace => IoError::Os { errno: errno.raw_os_error() },
        other => other,
    }
}

/// Byte offset of a block.
pub(crate) fn offset_of(at: BlockNr) -> u64 {
    at * BLOCK_BYTES as u64
}

/// The payload as a list of byte strings; real bytes are not copied.
pub(crate) fn flatten(data: &Data) -> SmallVec<[Bytes; 2]> {
    let mut out = SmallVec::new();
    for piece in data.pieces() {
        match &piece.body {
            Body::Bytes(bytes) => out.push(bytes.clone()),
            Body::Zeros => {
                let mut left = piece.blocks as usize * BLOCK_BYTES;
                while left > 0 {
                    let here = left.min(ZEROS.len());
                    out.push(Bytes::from_static(&ZEROS[..here]));
                    left -= here;
                }
            }
            Body::Stamp { .. } | Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => {
                out.push(piece.to_bytes());
            }
        }
    }
    out
}

/// Fills `out` from byte `offset` on. A shorter file was truncated by another process: the missing
/// part is an error, not zeros.
pub(crate) fn read_full(file: &File, out: &mut [u8], offset: u64) -> Result<(), Errno> {
    let mut filled = 0;
    while filled < out.len() {
        match rustix::io::pread(file, &mut out[filled..], offset + filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes all of `parts` to byte `offset`.
pub(crate) fn write_full(file: &File, parts: &[Bytes], offset: u64) -> Result<(), Errno> {
    let mut offset = offset;
    for group in parts.chunks(GATHER) {
        let mut slices: SmallVec<[IoSlice<'_>; 4]> =
            group.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            match rustix::io::pwritev(file, left, offset) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    offset += count as u64;
                    IoSlice::advance_slices(&mut left, count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// Methods to make a range read as zeros, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZeroWay {
    /// Give the space back.
    Punch,
    /// Keep the space, have the kernel zero it (a block device without discard).
    Kernel,
    /// Write zeros.
    Write,
}

impl ZeroWay {
    /// The next method, for a store that does not support this one.
    pub(crate) fn next(self) -> ZeroWay {
        match self {
            ZeroWay::Punch => ZeroWay::Kernel,
            ZeroWay::Kernel | ZeroWay::Write => ZeroWay::Write,
        }
    }

    /// The mode of `fallocate`, for the methods that use it.
    pub(crate) fn flags(self) -> Option<FallocateFlags> {
        match self {
            ZeroWay::Punch => Some(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            ZeroWay::Kernel => Some(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE),
            ZeroWay::Write => None,
        }
    }

    /// True if `errno` means that the store does not support a method, so that the next one is
    /// tried. File systems and drivers differ in the number.
    pub(crate) fn unsupported(self, errno: Errno) -> bool {
        let known = matches!(
            errno,
            Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL | Errno::NOTTY
        );
        self != ZeroWay::Write && known
    }
}

/// Makes `bytes` bytes at `offset` read as zeros; `way` is lowered to a method that the store
/// supports.
pub(crate) fn zero_full(
    file: &File,
    offset: u64,
    bytes: u64,
    way: &mut ZeroWay,
) -> Result<(), Errno> {
    while let Some(flags) = way.flags() {
        match rustix::fs::fallocate(file, flags, offset, bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) if way.unsupported(errno) => *way = way.next(),
            Err(errno) => return Err(errno),
        }
    }
    let mut done = 0;
    while done < bytes {
        let here = (bytes - done).min(ZEROS.len() as u64);
        let part = Bytes::from_static(&ZEROS[..here as usize]);
        write_full(file, &[part], offset + done)?;
        done += here;
    }
    Ok(())
}

/// Makes everything written so far durable.
pub(crate) fn sync(file: &File) -> Result<(), Errno> {
    loop {
        match rustix::fs::fdatasync(file) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// The first block at or after `at` that may hold other bytes than zeros.
pub(crate) fn next_data(file: &File, at: BlockNr, blocks: u64) -> Option<BlockNr> {
    if at >= blocks {
        return None;
    }
    match rustix::fs::seek(file, SeekFrom::Data(offset_of(at))) {
        Ok(offset) => Some((offset / BLOCK_BYTES as u64).max(at)).filter(|&block| block < blocks),
        Err(Errno::NXIO) => None,
        // A block device, or a file system that does not report holes.
        Err(_) => Some(at),
    }
}

/// The first known hole behind `at`, which holds data; or `blocks`.
pub(crate) fn next_hole(file: &File, at: BlockNr, blocks: u64) -> BlockNr {
    match rustix::fs::seek(file, SeekFrom::Hole(offset_of(at))) {
        // A block that is only partly a hole holds data.
        Ok(offset) => offset.div_ceil(BLOCK_BYTES as u64).clamp(at + 1, blocks),
        Err(_) => blocks,
    }
}

/// Reads blocks into one byte string.
pub(crate) fn read_blocks(file: &File, at: BlockNr, count: u32) -> Result<Data, IoError> {
    if count == 0 {
        return Ok(Data::none());
    }
    let mut out = vec![0; count as usize * BLOCK_BYTES];
    read_full(file, &mut out, offset_of(at)).map_err(|errno| io_error(errno, at))?;
    Ok(Data::bytes(Bytes::from(out)))
}

/// Writes blocks.
pub(crate) fn write_blocks(file: &File, at: BlockNr, data: &Data) -> Result<(), IoError> {
    write_full(file, &flatten(data), offset_of(at)).map_err(|errno| io_error(errno, at))
}
