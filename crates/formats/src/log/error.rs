//! Why a log cannot be made, opened, read or written.

use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::log::{LogError, LogShape, Lsn};

/// Why a log cannot be made, opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An option is not possible.
    #[error("{0}")]
    BadOption(String),
    /// Neither superblock is one.
    #[error("this is no log, or both of its superblocks are damaged")]
    NoLog,
    /// It is the log of a file system.
    #[error("this is the log of a file system, which its mount alone writes")]
    OfFileSystem,
    /// The volume is shorter than the log.
    #[error("the volume has {found} bytes, the log {needed}")]
    Truncated {
        /// Bytes of the log.
        needed: u64,
        /// Bytes of the volume.
        found: u64,
    },
    /// The newest superblock is lost.
    #[error("{0}")]
    Stale(LogError),
    /// Records that were durable are lost.
    #[error("{cause} (byte {byte} of the volume)")]
    Damaged {
        /// What is damaged, and up to where the log was durable.
        cause: LogError,
        /// Where the sector begins on the volume.
        byte: u64,
    },
    /// A record is too long for the log.
    #[error("a record of {length} bytes is too long: this log takes {most}")]
    TooLong {
        /// Bytes of the record.
        length: u64,
        /// The longest that the log takes.
        most: u64,
    },
    /// The log has no space for a record.
    #[error("the log is full: trim it first")]
    Full,
    /// What an epoch begins with has no place.
    #[error("the log has no space to begin an epoch: it can only be read")]
    NoSpaceToBegin,
    /// No durable record begins there.
    #[error("no durable record of the log begins at {0}")]
    NoRecord(Lsn),
    /// A write or a flush has failed before.
    #[error("the log has failed at an earlier write: open it again")]
    Failed,
    /// The volume failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl Error {
    /// What a scan of a log of these sizes says.
    pub(super) fn of_scan(error: LogError, shape: Option<LogShape>) -> Error {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES as u64;
        match (error, shape) {
            (LogError::Foreign { .. }, _) => Error::OfFileSystem,
            (LogError::Size { stated, blocks }, _) => {
                Error::Truncated { needed: bytes(stated), found: bytes(blocks) }
            }
            (LogError::Damaged { number, .. } | LogError::Group { number, .. }, Some(shape)) => {
                Error::damaged(error, number, shape)
            }
            (LogError::Stale { .. }, _) => Error::Stale(error),
            _ => Error::NoLog,
        }
    }

    fn damaged(cause: LogError, number: u64, shape: LogShape) -> Error {
        Error::Damaged { cause, byte: shape.place(number) * SECTOR_BYTES as u64 }
    }

    /// A sector that was whole when the log was opened is not.
    pub(super) fn lost(number: u64, durable: Lsn, shape: LogShape) -> Error {
        let durable = durable.number() + u64::from(durable.offset() > 0);
        Error::damaged(LogError::Damaged { number, durable }, number, shape)
    }

    /// The number of the damaged sector, if it is damage.
    pub fn damaged_sector(&self) -> Option<u64> {
        match self {
            Error::Damaged {
                cause: LogError::Damaged { number, .. } | LogError::Group { number, .. },
                ..
            } => Some(*number),
            _ => None,
        }
    }
}
