//! FFS that is not mounted: made, checked, repaired, shown.

pub mod check;
pub mod dump;
pub mod extents;
pub mod mkfs;
pub mod repair;
pub mod store;
pub mod superblocks;
