//! The layouts: where a volume puts its blocks. One folder a layout, and a registry above them.
//!
//! A layout is a [`Descriptor`]: name, number, promises, options, format, mount, check. The
//! registry maps names and superblock numbers to descriptors, so callers need not know which
//! layouts exist, and adding one touches its own folder and one line of [`registry`].
//!
//! [`eager`] holds what the two layouts share that write to a free block near the head.
#![forbid(unsafe_code)]

pub mod dcd;
pub mod descriptor;
mod eager;
pub mod inplace;
pub mod lfs;
pub mod loge;
pub mod registry;
pub mod shared;
mod sizes;
pub mod vlog;

pub use descriptor::Descriptor;
pub use registry::{
    Kind, UnknownLayout, check, check_timed, dump, format, known, mount, read_superblock,
};
