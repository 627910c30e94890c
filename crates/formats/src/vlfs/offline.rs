//! What works on a file system that is not mounted: make, check and repair.

pub mod check;
pub mod finding;
pub mod mkfs;
pub mod repair;
