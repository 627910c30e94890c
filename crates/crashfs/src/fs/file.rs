//! Open files.

use super::metadata::{Metadata, Permissions};
use crate::volume::{Volume, fail};
use seekless_fs::call::Errno;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What may be done with an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Each write goes to the end of the file.
    pub(super) append: bool,
}

/// See [`std::fs::File`]. It stays with the volume on which it was opened.
pub struct File {
    open: Arc<Open>,
}

/// An open file description, which clones share.
struct Open {
    volume: Arc<Volume>,
    object: usize,
    access: Access,
    at: Mutex<u64>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Open { object, access, .. } = &*self.open;
        f.debug_struct("File").field("object", object).field("access", access).finish()
    }
}

impl File {
    pub(super) fn new(volume: Arc<Volume>, object: usize, access: Access) -> File {
        File { open: Arc::new(Open { volume, object, access, at: Mutex::new(0) }) }
    }

    /// See [`std::fs::File::sync_all`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn sync_all(&self) -> io::Result<()> {
        self.open.volume.lock().sync(self.open.object, false);
        Ok(())
    }

    /// See [`std::fs::File::sync_data`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn sync_data(&self) -> io::Result<()> {
        self.open.volume.lock().sync(self.open.object, true);
        Ok(())
    }

    /// See [`std::fs::File::set_len`].
    ///
    /// # Errors
    /// As `std::fs` has them.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        match self.open.access.write || self.open.access.append {
            true => self.open.volume.lock().set_size(self.open.object, size),
            false => Err(fail(Errno::Inval)),
        }
    }

    /// See [`std::fs::File::metadata`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata(self.open.volume.lock().stat(self.open.object)))
    }

    /// See [`std::fs::File::set_permissions`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.open.volume.lock().set_mode(self.open.object, permissions.bits());
        Ok(())
    }

    /// See [`std::fs::File::try_clone`]. Both share their place in the file.
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn try_clone(&self) -> io::Result<File> {
        Ok(File { open: Arc::clone(&self.open) })
    }

    /// See `std::os::unix::fs::FileExt::read_at`.
    ///
    /// # Errors
    /// As `std::fs` has them.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self.open.access.read {
            true => self.open.volume.lock().read(self.open.object, at, into),
            false => Err(fail(Errno::BadF)),
        }
    }

    /// See `std::os::unix::fs::FileExt::read_exact_at`.
    ///
    /// # Errors
    /// As `std::fs` has them.
    pub fn read_exact_at(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        match self.read_at(into, at)? == into.len() {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        }
    }

    /// See `std::os::unix::fs::FileExt::write_at`. As on Linux, a file that appends ignores the
    /// place.
    ///
    /// # Errors
    /// As `std::fs` has them.
    pub fn write_at(&self, data: &[u8], at: u64) -> io::Result<usize> {
        self.write_to(data, at).map(|_| data.len())
    }

    /// See `std::os::unix::fs::FileExt::write_all_at`.
    ///
    /// # Errors
    /// As `std::fs` has them.
    pub fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        // Without bytes `std` makes no call, so nothing can fail.
        if data.is_empty() { Ok(()) } else { self.write_to(data, at).map(drop) }
    }

    /// Returns where the write ends.
    fn write_to(&self, data: &[u8], at: u64) -> io::Result<u64> {
        let Access { write, append, .. } = self.open.access;
        match write || append {
            true => self.open.volume.lock().write(self.open.object, (!append).then_some(at), data),
            false => Err(fail(Errno::BadF)),
        }
    }

    fn size(&self) -> u64 {
        self.open.volume.lock().stat(self.open.object).size
    }

    /// The place in the file. It is locked before the volume.
    fn at(&self) -> MutexGuard<'_, u64> {
        self.open.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for &File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut at = self.at();
        let count = self.read_at(into, *at)?;
        *at += count as u64;
        Ok(count)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut at = self.at();
        let end = self.write_to(data, *at)?;
        if !data.is_empty() {
            *at = end;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut at = self.at();
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => at.checked_add_signed(by),
            SeekFrom::End(by) => self.size().checked_add_signed(by),
        };
        // The largest place is that of `off_t`.
        let place = place.filter(|&place| i64::try_from(place).is_ok());
        *at = place.ok_or_else(|| fail(Errno::Inval))?;
        Ok(*at)
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
