//! Calls: from requests to operations, and mounting.

pub mod mount;
mod perform;
pub mod personality;
