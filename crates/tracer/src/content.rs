//! Content of files that is read back, and stores into shared mappings.
//!
//! Programs write through vectors, pipes, other files and mappings. What all have in common is the
//! file afterwards: its bytes are what is recorded.

use crate::pages::Pages;
use crate::record::{MOST_WRITE, Record};
use crate::stat::Stat;
use bytes::Bytes;
use seekless_fs::call::Ino;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::rc::Rc;

/// Bytes that are compared at a time.
const PAGE: usize = 4096;
/// Bytes that are read at a time for a comparison.
const STRIDE: usize = 256 * PAGE;

/// Reads at an offset; fewer bytes than asked for at the end of the file.
pub(crate) fn read_at(fd: RawFd, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        let rest = &mut buffer[got..];
        let offset = i64::try_from(at + got as u64).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the kernel writes at most the length of `rest` to it.
        let count = unsafe { libc::pread(fd, rest.as_mut_ptr().cast(), rest.len(), offset) };
        match count {
            0 => break,
            1.. => got += count.cast_unsigned(),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(got)
}

/// The next byte at or behind `at` that is not in a hole; `None` if there is none.
pub(crate) fn next_data(fd: RawFd, at: u64, end: u64) -> Option<u64> {
    // SAFETY: the call takes no pointer. The descriptor is the recorder's own.
    let found = unsafe { libc::lseek(fd, at.cast_signed(), libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => (found < end).then_some(found),
        // `ENXIO` says that no data follows; other failures, that holes are not known.
        Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => None,
        Err(_) => Some(at),
    }
}

/// Opens a file that is named by a path below `/proc`, for reading, without a wait for a pipe.
pub(crate) fn open_for_reading(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    Ok(options.open(path)?.into())
}

/// The content of a file, without its holes.
///
/// # Errors
/// If it cannot be read.
fn shadow(fd: RawFd) -> io::Result<Pages> {
    let (size, mut pages, mut at) = (Stat::of_fd(fd)?.size, Pages::default(), 0);
    let mut buffer = vec![0; STRIDE];
    while let Some(data) = next_data(fd, at, size).filter(|_| at < size) {
        at = data - data % PAGE as u64;
        let got = read_at(fd, &mut buffer, at)?;
        if got == 0 {
            break;
        }
        pages.write(at, &buffer[..got]);
        at += got as u64;
    }
    pages.resize(size);
    Ok(pages)
}

impl Record {
    /// Records that a range of a file was written with what is in it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn written(&mut self, ino: Ino, fd: RawFd, at: u64, length: u64) -> io::Result<()> {
        let end = at.saturating_add(length);
        let mut at = at;
        while at < end {
            let mut piece =
                vec![0; usize::try_from(end - at).map_or(MOST_WRITE, |n| n.min(MOST_WRITE))];
            let got = read_at(fd, &mut piece, at)?;
            if got == 0 {
                break;
            }
            piece.truncate(got);
            self.write(ino, at, Bytes::from(piece));
            at += got as u64;
        }
        Ok(())
    }

    /// Records the content of a file that is new to the record, without its holes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn content(&mut self, ino: Ino, fd: RawFd) -> io::Result<()> {
        let size = Stat::of_fd(fd)?.size;
        let (mut at, mut end) = (0, 0);
        while let Some(data) = next_data(fd, at, size) {
            let from = data - data % PAGE as u64;
            let length = (MOST_WRITE as u64).min(size - from);
            self.written(ino, fd, from, length)?;
            at = from + length;
            end = at;
            if at >= size {
                break;
            }
        }
        if end < size {
            self.resize(ino, size);
        }
        Ok(())
    }

    /// A mapped file may be stored into from now on: its content is remembered.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn map(&mut self, ino: Ino) -> io::Result<()> {
        let Some(file) = self.objects.take_readable(ino) else { return Ok(()) };
        let content = shadow(file.as_raw_fd())?;
        self.objects.map(ino, Rc::new(file), content);
        Ok(())
    }

    /// Records stores into a shared mapping of a file: the pages between two offsets that are not
    /// as they were at the last comparison.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn stores(&mut self, ino: Ino, within: std::ops::Range<u64>) -> io::Result<()> {
        let Some(file) = self.objects.mapping(ino) else { return Ok(()) };
        let fd = file.as_raw_fd();
        let size = Stat::of_fd(fd)?.size;
        let end = size.min(within.end);
        let mut at = within.start - within.start % PAGE as u64;
        let mut buffer = vec![0; STRIDE];
        while let Some(data) = next_data(fd, at, end) {
            at = data - data % PAGE as u64;
            let length = usize::try_from(end - at).map_or(STRIDE, |n| n.min(STRIDE));
            let got = read_at(fd, &mut buffer[..length], at)?;
            for (index, page) in buffer[..got].chunks(PAGE).enumerate() {
                self.stored(ino, at + (index * PAGE) as u64, page);
            }
            at += got as u64;
            if got == 0 || at >= end {
                break;
            }
        }
        Ok(())
    }

    /// Records a page if it is not as it was.
    fn stored(&mut self, ino: Ino, at: u64, page: &[u8]) {
        let shadow = self.objects.get(ino).and_then(|object| object.shadow.as_ref());
        if shadow.is_some_and(|shadow| !shadow.holds(at, page)) {
            self.write(ino, at, Bytes::copy_from_slice(page));
        }
    }
}
