//! File systems as state machines without I/O.
//!
//! Calls come in, replies go out; below are volumes, reached through the client seam of the engine
//! ([`seekless_engine::client`]). A file system reads no clock and draws no random number, so the
//! same code is mounted through FUSE, runs in virtual time, and serves offline tools.
//!
//! Start with [`call`] (the vocabulary) and [`system`] (the seam), then [`tx`] (how an operation
//! changes blocks), then [`mounted`] (the call loop). Formats are a crate of their own.
#![forbid(unsafe_code)]

pub mod block;
pub mod call;
pub mod core;
pub mod cow;
pub mod fields;
pub mod log;
pub mod mounted;
pub mod node;
pub mod policy;
pub mod seal;
pub mod system;
pub mod tx;
