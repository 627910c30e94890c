//! Entries of directories.

use super::metadata::{FileType, Metadata};
use crate::volume::{Stat, Volume};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See [`std::fs::ReadDir`]. It has the entries of the moment at which it was made.
#[derive(Debug)]
pub struct ReadDir {
    directory: Arc<Path>,
    volume: Arc<Volume>,
    entries: std::vec::IntoIter<(OsString, usize)>,
}

/// See [`std::fs::DirEntry`].
#[derive(Debug)]
pub struct DirEntry {
    directory: Arc<Path>,
    volume: Arc<Volume>,
    name: OsString,
    object: usize,
}

impl ReadDir {
    pub(super) fn of(volume: &Arc<Volume>, path: &Path) -> io::Result<ReadDir> {
        let state = volume.lock();
        let list = state.list(state.find(path)?)?;
        let entries: Vec<(OsString, usize)> =
            list.into_iter().map(|(name, at)| (OsStr::from_bytes(&name).into(), at)).collect();
        let (directory, volume) = (path.into(), Arc::clone(volume));
        Ok(ReadDir { directory, volume, entries: entries.into_iter() })
    }
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        let (name, object) = self.entries.next()?;
        let (directory, volume) = (Arc::clone(&self.directory), Arc::clone(&self.volume));
        Some(Ok(DirEntry { directory, volume, name, object }))
    }
}

impl DirEntry {
    fn stat(&self) -> Stat {
        self.volume.lock().stat(self.object)
    }

    /// See [`std::fs::DirEntry::path`].
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// See [`std::fs::DirEntry::file_name`].
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// See [`std::fs::DirEntry::metadata`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata(self.stat()))
    }

    /// See [`std::fs::DirEntry::file_type`].
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn file_type(&self) -> io::Result<FileType> {
        Ok(Metadata(self.stat()).file_type())
    }
}
