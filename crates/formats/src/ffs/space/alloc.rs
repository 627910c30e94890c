//! Where things go: inodes, blocks, fragments.
//!
//! Directories go to groups with many free inodes and few directories, inodes to the group of
//! their directory, and data near their inode. An allocation changes bits through the transaction
//! and the summary of the group in [`crate::ffs::volume::Volume`]; both are undone together.

pub mod bits;
pub mod block;
pub mod cluster;
pub mod fragment;
pub mod group;
pub mod inode;
