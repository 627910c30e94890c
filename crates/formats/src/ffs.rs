//! FFS: the bytes on disk, how they are made, checked and repaired.
//!
//! A file system is a row of cylinder groups. Each has a header, two bitmaps, a table of inodes and
//! data. Every metadata sector has a seal, so damage is found when a sector is read and is never
//! taken for content. `SPEC.md`, section "FFS", has each structure to the byte.
//!
//! Start with [`format`] and [`geometry`] (where things lie), then [`inode`] and [`entries`].

pub mod alloc;
mod arrivals;
pub mod check;
pub mod cluster;
pub mod dirs;
pub mod dump;
mod durable;
#[cfg(test)]
mod dying;
pub mod entries;
mod fields;
pub mod format;
pub mod free;
pub mod geometry;
pub mod group;
#[cfg(test)]
mod harness;
pub mod holes;
pub mod inode;
pub mod inodes;
mod kind;
pub mod map;
#[cfg(test)]
mod memory;
pub mod mkfs;
pub mod mount;
pub mod ops;
pub mod paths;
mod perform;
pub mod personality;
mod piece;
pub mod reclaim;
pub mod repair;
#[cfg(test)]
pub(crate) mod sample;
pub mod seal;
mod seals;
pub mod store;
pub mod tail;
pub mod volume;

pub use check::check;
pub use check::finding::{Finding, Findings};
pub use dump::{dump_groups, dump_inode, dump_superblock};
pub use format::Superblock;
pub use geometry::{Bit, Fragment, Geometry, Place};
pub use group::GroupHeader;
pub use inode::Inode;
pub use kind::KIND;
pub use mkfs::{MkfsReport, mkfs};
pub use mount::mount;
pub use personality::Ffs;
pub use repair::{RepairReport, repair};
pub use seal::{SealKind, Sealer};
pub use store::{Found, load};
