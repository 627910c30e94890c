//! What the tests of FFS share: file systems in memory, with some of everything, and dying devices.

pub(crate) mod dying;
pub(crate) mod harness;
pub(crate) mod memory;
pub(crate) mod sample;
