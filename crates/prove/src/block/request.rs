//! What a client of a block volume asks for.

use crate::script::Request;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What a write carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Something never seen before: stamps with the number of the operation as version.
    Fresh,
    /// Zeros.
    Zeros,
    /// Copies of blocks of the device, metadata included, which must never be taken for what they
    /// are copies of. The number chooses which.
    Copies(u64),
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockRequest {
    /// Writes blocks.
    Write {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
        /// What they are to hold.
        content: Content,
        /// With forced unit access.
        fua: bool,
    },
    /// Trims blocks.
    Trim {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
        /// With forced unit access.
        #[serde(default)]
        fua: bool,
    },
    /// Changes single blocks as one transaction: every `step`th from `at` on, modulo the size of
    /// the volume. Where there are no transactions, each on its own.
    Group {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
        /// From one block to the next.
        step: u64,
        /// Every third one is trimmed; all others are written.
        trims: bool,
        /// Answered only when durable.
        fua: bool,
    },
    /// Reads blocks.
    Read {
        /// First block.
        at: u64,
        /// Blocks.
        count: u32,
    },
    /// Flushes.
    Flush,
}

impl BlockRequest {
    /// The blocks that a group changes in a volume of `blocks` blocks, in ascending order, and
    /// whether each is written (or trimmed).
    pub(super) fn members(self, blocks: u64) -> BTreeMap<u64, bool> {
        let BlockRequest::Group { at, count, step, trims, .. } = self else {
            return BTreeMap::new();
        };
        let block = |index: u32| (at + u64::from(index) * step) % blocks;
        (0..count).map(|index| (block(index), !(trims && index % 3 == 2))).collect()
    }
}

impl Request for BlockRequest {
    fn length(&self) -> Option<u32> {
        match self {
            BlockRequest::Write { count, .. }
            | BlockRequest::Trim { count, .. }
            | BlockRequest::Read { count, .. }
            | BlockRequest::Group { count, .. } => Some(*count),
            BlockRequest::Flush => None,
        }
    }

    fn limited(mut self, most: u32) -> BlockRequest {
        match &mut self {
            BlockRequest::Write { count, .. }
            | BlockRequest::Trim { count, .. }
            | BlockRequest::Read { count, .. }
            | BlockRequest::Group { count, .. } => *count = most.clamp(1, *count),
            BlockRequest::Flush => {}
        }
        self
    }
}

impl fmt::Display for BlockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forced = |fua| if fua { ", FUA" } else { "" };
        match *self {
            BlockRequest::Write { at, count, content, fua } => {
                let what = match content {
                    Content::Fresh => "",
                    Content::Zeros => "zeros to ",
                    Content::Copies(_) => "copies of device blocks to ",
                };
                write!(f, "write {what}{at}+{count}{}", forced(fua))
            }
            BlockRequest::Trim { at, count, fua } => {
                write!(f, "trim {at}+{count}{}", forced(fua))
            }
            BlockRequest::Group { at, count, step, trims, fua } => {
                let trims = if trims { ", every third one trimmed" } else { "" };
                write!(
                    f,
                    "transaction of {count} blocks from {at} in steps of {step}{trims}{}",
                    forced(fua)
                )
            }
            BlockRequest::Read { at, count } => write!(f, "read {at}+{count}"),
            BlockRequest::Flush => f.write_str("flush"),
        }
    }
}
