//! FFS: the bytes on disk, how they are made, checked and repaired, and the calls on them.
//!
//! A file system is a row of cylinder groups. Each has a header, two bitmaps, a table of inodes and
//! data. Every metadata sector has a seal, so damage is found when a sector is read and is never
//! taken for content. `SPEC.md`, section "FFS", has each structure to the byte.
//!
//! | wing | holds |
//! |---|---|
//! | [`ondisk`] | structures on disk to the byte, and where they lie |
//! | [`space`] | which blocks and inodes are in use, and where those of a file are |
//! | [`names`] | directories, and names that the disk does not know yet |
//! | [`ops`] | the operations, over one transaction each |
//! | [`calls`] | what the call loop needs: mount, requests, durability |
//! | [`reclaim`] | freeing, while mounted, what a crash left without a name |
//! | [`journal`] | where the log lies, its recovery, the file system as recovery would leave it |
//! | [`offline`] | mkfs, check, repair, dump |
//!
//! Start with [`ondisk::format`] and [`ondisk::geometry`] (where things lie), then
//! [`ondisk::inode`] and [`ondisk::entries`].

pub mod calls;
pub mod inodes;
pub mod journal;
mod kind;
#[cfg(test)]
pub(crate) mod kit;
pub mod names;
pub mod offline;
pub mod ondisk;
pub mod ops;
pub mod reclaim;
pub mod space;
pub mod volume;

pub use calls::mount::mount;
pub use calls::personality::Ffs;
pub use kind::KIND;
pub use offline::check::check;
pub use offline::check::finding::{Finding, Findings};
pub use offline::dump::{dump_groups, dump_inode, dump_superblock};
pub use offline::mkfs::{MkfsReport, mkfs};
pub use offline::repair::{RepairReport, repair};
pub use offline::superblocks::{Found, load};
pub use ondisk::format::Superblock;
pub use ondisk::geometry::{Bit, Fragment, Geometry, Place};
pub use ondisk::group::GroupHeader;
pub use ondisk::inode::Inode;
pub use ondisk::seal::{SealKind, Sealer};
