//! Formats of file systems: the bytes on disk, and the operations over them.
//!
//! A format is a [`seekless_fs::mounted::personality::Personality`] with mkfs, mount, check and
//! repair. Start with [`ffs`].
#![forbid(unsafe_code)]

pub mod ffs;
pub mod tree;
