//! Crash states as plain directories: no mount, no device, no root.
//!
//! Each worker has a [`copy`] of the tree. From state to state only what differs is written
//! ([`steps`]), and what the check before has changed. [`checker`] shows a copy to the check at the
//! path of the run: by a bind mount in namespaces of the worker, or where the machine allows none,
//! by a copy that lies there.

pub mod checker;
pub mod copy;
pub mod steps;
#[cfg(test)]
mod tests;

pub use checker::DirectoryChecker;
pub use copy::Copy;
