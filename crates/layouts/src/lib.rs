//! The layouts: where a volume puts its blocks. One folder a layout, and a registry above them.
//!
//! A layout is a [`Descriptor`]: name, number, promises, options, format, mount, check. The
//! registry maps names and superblock numbers to descriptors, so callers need not know which
//! layouts exist, and adding one touches its own folder and one line of [`registry`].
//!
//! [`eager`] holds what the two layouts share that write to a free block near the head, [`punch`]
//! what all share that give space back to the host of a device.
#![forbid(unsafe_code)]

mod bits;
pub mod dcd;
pub mod descriptor;
mod eager;
pub mod inplace;
pub mod lfs;
pub mod loge;
mod mend;
mod punch;
pub mod registry;
pub mod salvage;
pub mod shared;
mod sizes;
pub mod vlfs;
pub mod vlog;
mod witness;

pub use descriptor::Descriptor;
pub use registry::{
    Kind, MENDED, UnknownLayout, check, check_timed, dump, format, known, mount, open_salvage,
    read_superblock, repair,
};
