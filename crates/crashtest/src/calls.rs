//! Recordings of calls in crash tests.
//!
//! [`record`] hears the calls of a mounted file system. [`replay`] makes them again under any
//! policy, in virtual time over a volume that records its blocks, and that recording is swept as
//! every other. [`store`] keeps them in files. [`trace`] records calls without a mount and without
//! root.

pub mod record;
pub mod replay;
pub mod store;
pub mod trace;
