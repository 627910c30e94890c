//! VLFS mounted: from calls to operations.

pub mod mount;
pub(crate) mod perform;
pub mod personality;
