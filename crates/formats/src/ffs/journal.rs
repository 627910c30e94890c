//! The log of an FFS: its place on the volume, and what a mount, a check or a repair make of it.
//!
//! [`held`] reads the log. [`recover`] brings the volume up to date, for a mount that writes;
//! [`empty`] does so for a repair, which goes on by itself; [`abandon`] gives up a log that is
//! lost; [`switch`] gives the file system another policy, and a log if that wants one. [`overlay`]
//! shows the volume as recovery would leave it, and writes nothing: a mount that only reads and a
//! check use it.

pub mod abandon;
pub mod empty;
pub mod file;
pub mod held;
pub mod overlay;
pub mod patches;
pub mod place;
pub mod recover;
pub mod switch;
#[cfg(test)]
mod tests;
