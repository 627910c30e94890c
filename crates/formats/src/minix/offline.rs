//! What works on a file system that is not mounted: make, check, repair, and lists of extents.

pub mod check;
pub mod extents;
pub mod finding;
pub mod mkfs;
pub mod repair;
pub mod store;
