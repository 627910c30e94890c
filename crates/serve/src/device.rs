//! Devices over a file or a block device.

pub mod buffers;
pub mod file;
pub mod medium;
pub(crate) mod raw;
mod ring;
mod syncs;
mod threads;
mod work;
