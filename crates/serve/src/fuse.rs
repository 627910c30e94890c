//! File systems in user space: the kernel asks through `/dev/fuse`, threads of this process answer.
//!
//! The protocol is spoken by the crate `fuser`. [`mount`] attaches a device to a directory and
//! takes it out of the tree of directories again, so that nothing stays mounted however the process
//! ends; [`disks`] is a directory of files of fixed size, each of which behaves like a disk.

pub mod disks;
pub(crate) mod mount;
