//! FFS that is not mounted: made, checked, repaired, shown.

pub mod check;
pub mod dump;
pub mod mkfs;
pub mod repair;
pub mod spare;
pub mod store;
