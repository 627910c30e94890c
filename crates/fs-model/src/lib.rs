//! What tests and the prover hold a file system against.
//!
//! [`model`] is a whole file system in memory without a disk, [`script`] makes calls, and
//! [`oracle`] compares the replies of two systems.
#![forbid(unsafe_code)]

pub mod model;
pub mod oracle;
pub mod script;
