//! Structures on disk to the byte, and where they lie.

pub mod entries;
pub(crate) mod fields;
pub mod format;
pub mod geometry;
pub mod group;
pub mod inode;
pub mod seal;
pub(crate) mod seals;
