//! The log of an FFS: its place on the volume, and what a mount, a check or a repair make of it.

pub mod place;
