//! How an operation reads and changes blocks: straight-line code that may stop and run again.
//!
//! An operation runs against cached blocks from start to end, in one go. If a block is missing it
//! stops with [`Stop::Miss`]: everything it has changed is undone, the blocks are read, and it runs
//! again from its start. So no other operation ever sees it half done, and an operation that fails
//! has changed nothing. Between two runs anything may have changed; nothing is carried over.
//!
//! A *block* here is a block of the file system (4096 or 8192 bytes), numbered from 0. Metadata
//! blocks are made of sealed sectors of 512 bytes: 504 bytes of content and a seal, which the cache
//! checks when it reads and sets when it writes. Offsets are offsets in the block, seals included;
//! a change never touches a seal.

use crate::call::{Errno, Ino, Timestamp};
use smallvec::SmallVec;

/// Number of a block of the file system.
pub type BlockNo = u64;

/// Content of a sealed sector in bytes; the seal follows.
pub const SECTOR_CONTENT: usize = 504;

/// Why an operation does not come to its end in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Blocks are missing: read all of them, then run it again.
    Miss(SmallVec<[(BlockNo, PageKind); 4]>),
    /// Another operation works on this inode in several steps: run it again when that has ended.
    Busy(Ino),
    /// There is no space now, but frees are pending: run it again after them, and fail with
    /// [`Errno::NoSpc`] if there are none.
    NoRoom,
    /// It fails.
    Refused(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Refused(errno)
    }
}

/// What a block holds: whether its sectors are sealed, and in which class it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// Bits of free inodes or fragments, and the header of a group: sealed.
    Bitmap,
    /// Content of files, and texts of long symbolic links: not sealed.
    Data,
    /// Inodes: sealed.
    Inodes,
    /// An indirect block: sealed.
    Indirect,
    /// A block of a directory: sealed.
    Directory,
}

impl PageKind {
    /// True if each sector has a seal.
    pub fn is_sealed(self) -> bool {
        self != PageKind::Data
    }
}

/// What a change means, for the policy that orders writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something of which the order does not matter: a size, a time, a counter, a free bit set.
    Plain,
    /// Bits of newly allocated things were set, or those of freed things cleared.
    Bits,
    /// An inode was initialised, or cleared.
    Inode(Ino),
    /// A pointer of an inode or an indirect block was set to a new block, or cleared.
    Pointer(Ino),
    /// A link count was changed.
    Links(Ino),
    /// A name was added for this inode.
    NameAdded(Ino),
    /// A name of this inode was removed.
    NameRemoved(Ino),
}

/// The blocks as an operation sees them.
pub trait Tx {
    /// The time for timestamps.
    fn now(&self) -> Timestamp;

    /// Bytes of a block.
    fn block_bytes(&self) -> usize;

    /// The content of a block, seals included.
    ///
    /// # Errors
    /// [`Stop::Miss`] if it must be read first; [`Errno::Io`] if it is damaged.
    fn page(&mut self, block: BlockNo, kind: PageKind) -> Result<&[u8], Stop>;

    /// Part of a block, seals included. Unlike [`Tx::page`] it neither reads nor checks the other
    /// sectors of the block, which may belong to another file.
    ///
    /// # Errors
    /// As for [`Tx::page`].
    fn part(
        &mut self,
        block: BlockNo,
        at: usize,
        length: usize,
        kind: PageKind,
    ) -> Result<&[u8], Stop> {
        Ok(&self.page(block, kind)?[at..at + length])
    }

    /// Changes bytes of a block that [`Tx::page`] has given. The old bytes are kept until the end
    /// of the operation.
    fn set(&mut self, block: BlockNo, at: usize, bytes: &[u8], change: Change);

    /// Makes a block, or part of it, zeros without reading it: it was just allocated, and what it
    /// held means nothing. `length` bytes from `at` on, whole fragments.
    fn fresh(&mut self, block: BlockNo, kind: PageKind, at: usize, length: usize);

    /// Nothing uses this block. Part of it is about to be allocated; no one needs the content of
    /// the rest, so a write of the part reads nothing.
    fn unused(&mut self, _block: BlockNo) {}

    /// Notes that blocks will be wanted: they are read together with what is missing.
    fn expect(&mut self, block: BlockNo, kind: PageKind);

    /// Notes that a dirty block holds content, names or addresses of an inode, so that a sync of
    /// the inode writes it.
    fn belongs(&mut self, _block: BlockNo, _ino: Ino) {}

    /// Forgets what the cache holds of freed fragments: a later write does not carry it.
    fn forget(&mut self, block: BlockNo, at: usize, length: usize);
}
