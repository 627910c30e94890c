//! What is known of files.

use crate::volume::Stat;
use std::io;
use std::time::{Duration, SystemTime};

/// See [`std::fs::Metadata`].
#[derive(Clone, Debug)]
pub struct Metadata(pub(super) Stat);

/// See [`std::fs::FileType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileType {
    is_directory: bool,
}

/// See [`std::fs::Permissions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    mode: u16,
}

/// The kinds of objects.
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;

#[allow(clippy::len_without_is_empty)] // As in `std`.
impl Metadata {
    /// See [`std::fs::Metadata::file_type`].
    pub fn file_type(&self) -> FileType {
        FileType { is_directory: self.0.is_directory }
    }

    /// See [`std::fs::Metadata::is_dir`].
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// See [`std::fs::Metadata::is_file`].
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// See [`std::fs::Metadata::is_symlink`].
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// See [`std::fs::Metadata::len`]. Directories have 0 bytes.
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// See [`std::fs::Metadata::permissions`].
    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.0.mode }
    }

    /// See [`std::fs::Metadata::modified`]. So that tests repeat, the time is that of a clock which
    /// ticks once a change, a nanosecond each.
    ///
    /// # Errors
    /// None; the signature is that of `std::fs`.
    pub fn modified(&self) -> io::Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(self.0.modified))
    }

    /// See `std::os::unix::fs::MetadataExt::ino`.
    pub fn ino(&self) -> u64 {
        self.0.ino
    }

    /// See `std::os::unix::fs::MetadataExt::nlink`. Directories count their names only.
    pub fn nlink(&self) -> u64 {
        self.0.links.into()
    }

    /// See `std::os::unix::fs::MetadataExt::mode`.
    pub fn mode(&self) -> u32 {
        u32::from(self.0.mode) | if self.0.is_directory { DIRECTORY } else { FILE }
    }
}

impl FileType {
    /// See [`std::fs::FileType::is_dir`].
    pub fn is_dir(&self) -> bool {
        self.is_directory
    }

    /// See [`std::fs::FileType::is_file`].
    pub fn is_file(&self) -> bool {
        !self.is_directory
    }

    /// See [`std::fs::FileType::is_symlink`]. There are none.
    pub fn is_symlink(&self) -> bool {
        false
    }
}

impl Permissions {
    pub(super) fn bits(&self) -> u16 {
        self.mode
    }

    /// See [`std::fs::Permissions::readonly`].
    pub fn readonly(&self) -> bool {
        self.mode & 0o222 == 0
    }

    /// See [`std::fs::Permissions::set_readonly`].
    pub fn set_readonly(&mut self, readonly: bool) {
        match readonly {
            true => self.mode &= !0o222,
            false => self.mode |= 0o222,
        }
    }

    /// See `std::os::unix::fs::PermissionsExt::mode`.
    pub fn mode(&self) -> u32 {
        self.mode.into()
    }

    /// See `std::os::unix::fs::PermissionsExt::set_mode`.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = (mode & 0o7777) as u16;
    }

    /// See `std::os::unix::fs::PermissionsExt::from_mode`.
    pub fn from_mode(mode: u32) -> Permissions {
        Permissions { mode: (mode & 0o7777) as u16 }
    }
}
