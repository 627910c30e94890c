//! Checks that leak nothing: each runs in a mount and a PID namespace of its own.
//!
//! [`Workers`] is a pool of processes. A worker is process 1 of its PID namespace. It attaches a
//! loop device to the file of a state, mounts it, runs the check, kills what the check left,
//! unmounts and answers. The parent ends a check by killing its worker: the kernel then ends
//! every process of the namespace, takes its mounts away, and the loop devices detach themselves.
//! So no mount, loop device or process outlives a check, however it ends. Workers of checks also
//! have a network, IPC, temporary files and a boot id of their own (`apart`).
//!
//! [`process`] starts workers, [`worker`] is their side, [`protocol`] what both sides say;
//! [`mounts`] and [`LoopDevice`] make system calls without help of other programs.

mod apart;
pub mod mounts;
mod no_syncs;
pub mod point;
pub mod pool;
pub mod process;
pub mod protocol;
pub(crate) mod rootless;
mod tree;
pub mod worker;

pub use mounts::{Mounted, Mounting, UnmountError};
pub use pool::{SandboxOptions, Workers};

pub use seekless_serve::attach::loop_device::LoopDevice;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use std::io;

/// Gives this process a mount namespace of its own: what it mounts is seen by itself and its
/// children, and vanishes with the last of them. To be called while the process has one thread.
///
/// # Errors
/// Without the capability `CAP_SYS_ADMIN`.
pub fn enter_private_namespace() -> io::Result<()> {
    // SAFETY: a mount namespace of its own takes no descriptor or memory from this process.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    make_private()
}

/// Mounts of this namespace are not passed on to others.
fn make_private() -> io::Result<()> {
    let how = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(mount_change("/", how)?)
}
