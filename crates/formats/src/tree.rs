//! Directories: chunks of entries on disk, and an index of names in memory.

pub mod chunk;
pub mod index;
