//! Formats of file systems: the bytes on disk, the operations over them, and the registry in which
//! commands find them.
//!
//! A format is a folder: a [`seekless_fs::mounted::personality::Personality`] with mkfs, mount,
//! check and repair, declared in a [`kind::KindDescriptor`]. A line of [`registry`] lists it.
//! [`log`] is the write-ahead log of a file system as a service of its own.
#![forbid(unsafe_code)]

pub mod error;
pub mod ffs;
pub mod kind;
pub mod log;
pub mod minix;
pub mod options;
pub mod registry;
pub mod report;
mod steps;
pub mod tree;
pub mod vlfs;

pub use error::FsError;
pub use kind::{KindDescriptor, KindLimits, MountedFs};
pub use options::{MkfsOptions, MountOptions, SwitchOptions};
pub use registry::Kind;
pub use report::{Checked, Extent, Finding, Journal, Nature, Repaired, Severity};
