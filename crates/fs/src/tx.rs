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
//! a change never touches a seal. The seals of a format without checksums are empty, and hold for
//! every sector ([`crate::seal::Unsealed`]).

use crate::call::{Errno, Ino, Timestamp};
use smallvec::SmallVec;
use std::ops::Range;

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
    /// The next transaction of the volume has no place for it: run it again in the one after that.
    Crowded,
    /// A change of these bytes waits for something: run it again when they are on the disk.
    Guarded(Field),
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
    /// True if it is metadata: each sector has a seal, if the format has seals.
    pub fn is_sealed(self) -> bool {
        self != PageKind::Data
    }
}

/// Bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// The block.
    pub block: BlockNo,
    /// First byte.
    pub at: u16,
    /// Number of bytes, at least 1.
    pub length: u16,
}

impl Field {
    /// The bytes `at..at + length` of a block.
    ///
    /// # Panics
    /// If they are not in a block of 8192 bytes.
    pub fn new(block: BlockNo, at: usize, length: usize) -> Field {
        assert!(length > 0 && at + length <= 8192, "{length} bytes at {at}");
        Field { block, at: at as u16, length: length as u16 }
    }

    /// True if the two have bytes in common.
    pub fn overlaps(self, other: Field) -> bool {
        let starts_within = |a: Field, b: Field| (b.at..b.at + b.length).contains(&a.at);
        self.block == other.block && (starts_within(self, other) || starts_within(other, self))
    }
}

/// What a change needs on the disk before it may be there itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The present content of these bytes, or a later one.
    pub field: Field,
    /// What they are.
    pub why: Why,
}

/// What needed bytes are, for policies that leave out some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Bits of an allocation.
    Bits,
    /// Content of a file.
    Data,
    /// An address in an indirect block, for the inode that has the size.
    Address,
    /// Content of a directory, an indirect block or a symbolic link.
    Content,
    /// Content that the disk has at another place.
    Moved,
    /// An inode, a link count, an address, a name.
    Link,
    /// A name that is to be gone. A name that never was on the disk is not waited for.
    Removal,
    /// Where the directory of a needed name has its names. Without that name, nothing.
    Body,
}

/// What a guarded change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Replaces bytes, or adds some: a later change may replace it before it is on the disk.
    Replaces,
    /// Gives a file more: a later change that replaces it needs what this one needs.
    Grows,
    /// Clears addresses in an indirect block: the size that no longer covers them goes first.
    Clears,
    /// Takes a name or a link away, and is never replaced by a later change.
    Removes,
}

/// Space that an operation gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// What the format does afterwards: frees space, as a rule.
    pub what: Deferred,
    /// What must be on the disk before: bytes without the address.
    pub after: Field,
    /// The bytes held nothing but the address: a guard on them keeps the address from the disk.
    pub exact: bool,
}

/// What a format wants to be told when bytes are on the disk: that space is free, or a fact of its
/// own. Only the format reads the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred(pub [u32; 4]);

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
    fn set(&mut self, block: BlockNo, at: usize, bytes: &[u8]);

    /// Makes a block, or part of it, zeros without reading it: it was just allocated, and what it
    /// held means nothing. `length` bytes from `at` on, whole fragments.
    fn fresh(&mut self, block: BlockNo, kind: PageKind, at: usize, length: usize);

    /// Nothing uses this block. Part of it is about to be allocated; no one needs the content of
    /// the rest, so a write of the part reads nothing.
    fn unused(&mut self, _block: BlockNo) {}

    /// Notes that a block was free as a whole until this operation allocated all of it.
    fn began(&mut self, _block: BlockNo) {}

    /// True if no write of a block has begun since it was free as a whole, and no call waits for
    /// one: nothing of what it holds is on the volume.
    fn is_new(&self, _block: BlockNo) -> bool {
        false
    }

    /// True if a block of data is new, and all of it is in use. So its content may move without a
    /// trace on the volume.
    fn is_unwritten(&self, _block: BlockNo) -> bool {
        false
    }

    /// Notes that the last of these blocks of data was filled: together they are a cluster of a
    /// file, and go out soon.
    fn filled(&mut self, _blocks: &[BlockNo]) {}

    /// Notes that a block is to be written at once, without waiting for that.
    fn goes_early(&mut self, _block: BlockNo) {}

    /// Notes that the bits in a block of maps contradict what the operation knows: the maps of this
    /// group are not to be trusted.
    fn contradicts(&mut self, _map: BlockNo) {}

    /// Notes that blocks will be wanted: they are read together with what is missing.
    fn expect(&mut self, block: BlockNo, kind: PageKind);

    /// Notes that a dirty block holds content, names or addresses of an inode, so that a sync of
    /// the inode writes it.
    fn belongs(&mut self, _block: BlockNo, _ino: Ino) {}

    /// Makes blocks hold nothing: they read as zeros, and take no space. For volumes that
    /// [take patches](seekless_engine::layer::Status::takes_patches).
    fn cut(&mut self, _blocks: Range<BlockNo>) {}

    /// Makes a block zeros without reading it, and without a change: the volume holds nothing
    /// there.
    fn hole(&mut self, _block: BlockNo, _kind: PageKind) {}

    /// Blocks that can still be changed before the volume is full, if it is one that says so.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Whole blocks that the next transaction of the volume has place for beside a short operation.
    fn place_for_blocks(&self) -> u64 {
        u64::MAX
    }

    /// Forgets what the cache holds of freed fragments: a later write does not carry it.
    fn forget(&mut self, block: BlockNo, at: usize, length: usize);

    /// True if the policy keeps single changes from the disk: operations then say what each needs.
    fn guards(&self) -> bool {
        false
    }

    /// True if the policy keeps the end of a file where it was until it is at its new place.
    fn guards_moves(&self) -> bool {
        self.guards()
    }

    /// As [`Tx::guard`], for the inode of a file of which the end moves or has moved.
    fn guard_moved(&mut self, _changes: &[(Field, &[u8])], _needs: &[Need], _role: Role) {}

    /// As [`Tx::free_later`], for the place from which the end of a file has moved.
    fn free_moved(&mut self, _freed: Freed, _content: Option<Field>) -> bool {
        false
    }

    /// True if the policy takes over freed space, and frees it later.
    fn defers_frees(&self) -> bool {
        false
    }

    /// Keeps changes of bytes of one block from the disk until all needs are there. `changes` has
    /// the bytes that the disk may show until then; the new ones are set, in this operation.
    fn guard(&mut self, _changes: &[(Field, &[u8])], _needs: &[Need], _role: Role) {}

    /// True if a change of these bytes waits for something.
    fn is_guarded(&self, _field: Field) -> bool {
        false
    }

    /// Takes over to free space later, and to forget its content, of which the cache may hold some;
    /// false if the operation is to do that at once.
    fn free_later(&mut self, _freed: Freed, _content: Option<Field>) -> bool {
        false
    }

    /// Takes over to tell the format later that a fact of its own is on the disk, if the policy
    /// orders writes: it hands the number back as it does with space.
    fn tell_later(&mut self, _fact: Freed) -> bool {
        false
    }

    /// True if the policy takes what operations change, for a log or for transactions.
    fn takes_groups(&self) -> bool {
        false
    }

    /// New content of a file, to which this operation leads. A policy with a log writes it before
    /// the operation is there. With `always` it is part of the object, or was on the disk at
    /// another place.
    fn content(&mut self, _field: Field, _always: bool) {}

    /// Space that was given up is free now.
    fn freed(&mut self, _what: Deferred) {}

    /// An inode has lost its last name.
    fn orphaned(&mut self, _ino: u32) {}

    /// An inode without a name is free, or has a name again.
    fn adopted(&mut self, _ino: u32) {}

    /// The call that is under way is answered when these bytes are on the disk, if the policy
    /// writes at once.
    fn writes_at_once(&mut self, _field: Field) {}
}
