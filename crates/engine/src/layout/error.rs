//! Why a volume cannot be made, mounted or checked.

use crate::io::IoError;
use crate::superblock::SuperblockError;
use crate::units::BLOCK_BYTES;
use std::fmt;
use std::sync::Arc;

/// Why a volume cannot be made, mounted or checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The device is too small for the volume.
    #[error(
        "the device has {device} blocks of 4 KiB, the volume needs {needed}; choose a smaller size \
         or a larger device"
    )]
    TooSmall {
        /// Blocks there are.
        device: u64,
        /// Blocks needed.
        needed: u64,
    },
    /// The size is not one that the layout can have.
    #[error("{0}")]
    BadSize(String),
    /// The device takes writes in order only, and something above writes elsewhere, too.
    #[error(
        "the disk {disk} takes writes only in the order of its zones, and {writer} writes \
         elsewhere, too; choose another disk, or `inplace` and clients that write in order"
    )]
    InOrder {
        /// The disk.
        disk: String,
        /// What writes.
        writer: String,
    },
    /// The superblock is missing, damaged, foreign or newer.
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    /// A volume of two parts of which one is missing or belongs elsewhere.
    #[error("{0}")]
    Apart(String),
    /// It concerns the log of an origin, not the origin.
    #[error(transparent)]
    OfLog(Box<LayoutError>),
    /// The superblock is whole but what it describes is not.
    #[error("the volume is damaged: {0}")]
    Damaged(String),
    /// The device below is not usable, for reasons of its own: an array lacks a member, say.
    #[error(transparent)]
    Below(BelowError),
    /// The medium failed.
    #[error(transparent)]
    Io(#[from] IoError),
}

impl LayoutError {
    /// The same of the log of an origin.
    pub fn of_log(self) -> LayoutError {
        match self {
            LayoutError::OfLog(_) => self,
            other => LayoutError::OfLog(Box::new(other)),
        }
    }

    /// The device has more blocks than the `most` that the layout called `name` can use.
    pub fn too_large_a_device(name: &str, most: u64) -> LayoutError {
        let gibibytes = most >> (30 - BLOCK_BYTES.trailing_zeros());
        let most = match gibibytes % 1024 {
            0 => format!("{} TiB", gibibytes / 1024),
            _ => format!("{gibibytes} GiB"),
        };
        let reason =
            format!("layout {name} is limited to devices of {most}; choose a smaller size");
        LayoutError::BadSize(reason)
    }

    /// The error of a device that is more than a medium, to be found again with
    /// [`LayoutError::below`].
    pub fn from_below(error: impl std::error::Error + Send + Sync + 'static) -> LayoutError {
        LayoutError::Below(BelowError(Arc::new(error)))
    }

    /// The error of type `E` that a device below has reported, if this is one.
    pub fn below<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            LayoutError::Below(BelowError(error)) => error.downcast_ref(),
            _ => None,
        }
    }
}

/// What a device below a layout reports; the layout does not know its type.
#[derive(Clone, Debug)]
pub struct BelowError(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for BelowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for BelowError {}

impl PartialEq for BelowError {
    fn eq(&self, other: &BelowError) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for BelowError {}
