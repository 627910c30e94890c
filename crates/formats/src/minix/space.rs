//! Space in use: bits of the maps, zones and inodes that are allocated and freed, maps of files.

pub mod bits;
pub mod cut;
pub mod map;
pub mod trim;
pub mod zones;
