//! `seekless crash-test` from its arguments to its exit code, with workloads and checks of a few
//! lines of shell.
//!
//! [`bench`] runs the command and looks for what it may have left: directories, mounts of any
//! namespace, loop devices and processes. A test that needs root rights, FUSE or loop devices
//! skips where there are none.

mod bench;
mod doubts;
mod kept;
mod leaks;
mod machines;
mod models;
mod packages;
mod policies;
mod reports;
mod shards;
mod signals;
mod two_disks;
mod verdicts;
mod workloads;
