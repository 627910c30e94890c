//! Structures on disk to the byte, and where they lie.

pub mod entries;
pub mod format;
pub mod geometry;
pub mod group;
pub mod inode;

pub(crate) use seekless_fs::fields;
pub use seekless_fs::seal;
