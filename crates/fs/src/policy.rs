//! The seam of policies: in which order changes reach the volume, and what a call waits for.
//!
//! The core tells a policy of each transaction that has ended well, asks it for the image of a
//! block that is about to be written, tells it of completed writes, and asks what a call for
//! durability waits for. [`none::Async`] orders nothing.

pub mod none;

use crate::core::cache::Buffer;
use crate::core::page::Page;
use crate::tx::{BlockNo, Change};
use std::fmt::Debug;

/// The policies that a mount may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    /// Writes in any order.
    #[default]
    Async,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 1] = [PolicyKind::Async];

    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Async => "async",
        }
    }
}

/// One edit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The block.
    pub block: BlockNo,
    /// First byte.
    pub at: usize,
    /// Number of bytes.
    pub length: usize,
    /// What it means; `None` if the bytes were made zeros without being read.
    pub change: Option<Change>,
}

/// A transaction that has ended well.
#[derive(Clone, Copy, Debug)]
pub struct Group<'g> {
    /// Its edits in order, if the policy wants them.
    pub edits: &'g [Edit],
}

/// When a call may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settle {
    /// At once.
    Now,
    /// After all changes up to now are durable.
    Durable,
}

/// What a call wants durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWhat {
    /// One file and a path to it.
    File(crate::call::Ino),
    /// Everything.
    All,
}

/// The order of writes.
pub trait Policy: Debug + Send {
    /// True if [`Policy::committed`] needs the edits.
    fn wants_edits(&self) -> bool;

    /// A transaction has ended well: its edits are in the cache.
    fn committed(&mut self, group: &Group<'_>) -> Settle;

    /// The image of a dirty buffer to be written; `None` if other blocks must go first. The seals
    /// of the buffer are set.
    fn image(&mut self, buffer: &Buffer) -> Option<Page>;

    /// The write of an image has completed.
    fn written(&mut self, block: BlockNo);

    /// What a call for durability waits for.
    fn sync(&mut self, what: SyncWhat) -> Settle;
}
