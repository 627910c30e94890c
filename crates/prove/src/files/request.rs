//! What a client of a file system asks for: operations on paths, as a shell would write them.

use super::names::Path;
use crate::script::Request;
use seekless_formats::KindLimits;
use serde::{Deserialize, Serialize};
use std::fmt;

/// An operation. Places and lengths of content are in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileRequest {
    /// Makes an empty file.
    Create(Path),
    /// Makes a directory.
    Mkdir(Path),
    /// Makes a symbolic link; the number chooses its text.
    Symlink(Path, u16),
    /// Makes a pipe.
    Fifo(Path),
    /// Another name of a file.
    Link(Path, Path),
    /// Removes a name.
    Unlink(Path),
    /// Removes an empty directory.
    Rmdir(Path),
    /// Renames; what had the new name is replaced.
    Rename(Path, Path),
    /// Two names change their objects.
    Exchange(Path, Path),
    /// Writes sectors.
    Write(Path, u32, u32),
    /// Writes sectors behind the end.
    Append(Path, u32),
    /// Sets the size in bytes.
    Truncate(Path, u32),
    /// Allocates sectors; the file grows to their end.
    Allocate(Path, u32, u32),
    /// Makes a hole.
    Punch(Path, u32, u32),
    /// Sets the permissions.
    Chmod(Path, u16),
    /// Sets the owner.
    Chown(Path, u32),
    /// Makes a file or the entries of a directory durable.
    Fsync(Path),
    /// Makes content and size durable.
    Fdatasync(Path),
    /// Makes everything durable.
    Sync,
    /// Opens a file under a number.
    Hold(Path, u8),
    /// Closes it.
    Release(u8),
}

use FileRequest as R;

/// Bytes of a sector.
const SECTOR: u64 = 512;

impl FileRequest {
    /// True if it makes something durable: others go on while it is under way.
    pub fn is_sync(&self) -> bool {
        matches!(self, R::Fsync(_) | R::Fdatasync(_) | R::Sync)
    }

    /// True if a format with these limits refuses it.
    pub fn exceeds(&self, limits: &KindLimits) -> bool {
        let is_long = |path: &Path| path.longest_name() > limits.name_bytes;
        match self {
            R::Allocate(..) | R::Punch(..) if !limits.allocates => true,
            R::Truncate(_, size) if u64::from(*size) > limits.file_bytes => true,
            R::Write(_, at, _) if u64::from(*at) * SECTOR >= limits.file_bytes => true,
            R::Chown(_, owner) if *owner > limits.owner => true,
            R::Create(path)
            | R::Mkdir(path)
            | R::Symlink(path, _)
            | R::Fifo(path)
            | R::Unlink(path)
            | R::Rmdir(path)
            | R::Write(path, ..)
            | R::Append(path, _)
            | R::Truncate(path, _)
            | R::Allocate(path, ..)
            | R::Punch(path, ..)
            | R::Chmod(path, _)
            | R::Chown(path, _)
            | R::Fsync(path)
            | R::Fdatasync(path)
            | R::Hold(path, _) => is_long(path),
            R::Link(one, other) | R::Rename(one, other) | R::Exchange(one, other) => {
                is_long(one) || is_long(other)
            }
            R::Sync | R::Release(_) => false,
        }
    }

    /// True if it may take space.
    pub fn takes_space(&self) -> bool {
        use FileRequest as R;
        match self {
            R::Unlink(_) | R::Rmdir(_) | R::Punch(..) | R::Chmod(..) | R::Chown(..) => false,
            R::Hold(..) | R::Release(_) => false,
            other => !other.is_sync(),
        }
    }
}

impl Request for FileRequest {
    fn length(&self) -> Option<u32> {
        match *self {
            R::Write(_, _, count) | R::Append(_, count) | R::Allocate(_, _, count) => Some(count),
            _ => None,
        }
    }

    fn limited(self, most: u32) -> FileRequest {
        match self {
            R::Write(path, at, count) => R::Write(path, at, count.min(most)),
            R::Append(path, count) => R::Append(path, count.min(most)),
            R::Allocate(path, at, count) => R::Allocate(path, at, count.min(most)),
            other => other,
        }
    }
}

impl fmt::Display for FileRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            R::Create(path) => write!(f, "touch {path}"),
            R::Mkdir(path) => write!(f, "mkdir {path}"),
            R::Symlink(path, text) => write!(f, "ln -s text{text} {path}"),
            R::Fifo(path) => write!(f, "mkfifo {path}"),
            R::Link(from, to) => write!(f, "ln {from} {to}"),
            R::Unlink(path) => write!(f, "rm {path}"),
            R::Rmdir(path) => write!(f, "rmdir {path}"),
            R::Rename(from, to) => write!(f, "mv {from} {to}"),
            R::Exchange(one, other) => write!(f, "mv --exchange {one} {other}"),
            R::Write(path, at, count) => write!(f, "write {path}, sectors {at}+{count}"),
            R::Append(path, count) => write!(f, "append to {path}, {count} sectors"),
            R::Truncate(path, size) => write!(f, "truncate -s {size} {path}"),
            R::Allocate(path, at, count) => write!(f, "fallocate {path}, sectors {at}+{count}"),
            R::Punch(path, at, count) => write!(f, "fallocate -p {path}, sectors {at}+{count}"),
            R::Chmod(path, mode) => write!(f, "chmod {mode:o} {path}"),
            R::Chown(path, uid) => write!(f, "chown {uid} {path}"),
            R::Fsync(path) => write!(f, "fsync {path}"),
            R::Fdatasync(path) => write!(f, "fdatasync {path}"),
            R::Sync => f.write_str("sync"),
            R::Hold(path, number) => write!(f, "open {path} as &{number}"),
            R::Release(number) => write!(f, "close &{number}"),
        }
    }
}
