//! Why a file system cannot be made, read or repaired.

use seekless_engine::io::IoError;

/// Why a file system cannot be made, read or repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// An option of `mkfs` is not possible.
    #[error("{0}")]
    BadOption(String),
    /// The volume is too small.
    #[error("the volume has {found} bytes, the file system needs {needed}; use a larger volume")]
    TooSmall {
        /// Bytes needed at least.
        needed: u64,
        /// Bytes there are.
        found: u64,
    },
    /// There is no superblock.
    #[error("this is no FFS: no superblock was found; `seekless mkfs` makes one")]
    Foreign,
    /// The superblock was written by a newer version.
    #[error("the file system has version {0}, this program knows version 1; use a newer one")]
    Newer(u32),
    /// The file system uses features that this program does not know.
    #[error("the file system has unknown incompatible features {0:#x}; use a newer program")]
    UnknownFeatures(u32),
    /// The superblock has a valid seal, but its sizes contradict each other.
    #[error("the superblock is damaged: {0}; run `seekless fsck --repair`")]
    Damaged(String),
    /// The volume is shorter than the file system.
    #[error("the volume has {found} bytes, the file system {needed}; restore the missing part")]
    Truncated {
        /// Bytes of the file system.
        needed: u64,
        /// Bytes of the volume.
        found: u64,
    },
    /// It was not unmounted.
    #[error("the file system was not unmounted; run `seekless fsck --repair` or mount --read-only")]
    NotClean,
    /// Findings remain after as many rounds as repair makes.
    #[error("repair left {left} findings; copy the files that can be read and make a new one")]
    NotRepaired {
        /// Findings that remain.
        left: u64,
    },
    /// The volume failed.
    #[error(transparent)]
    Io(#[from] IoError),
}
