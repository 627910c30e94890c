//! Blocks and inodes: which are in use, and where those of a file are.

pub mod alloc;
pub mod cluster;
pub mod free;
pub mod holes;
pub mod map;
pub mod tail;
pub mod trim;
