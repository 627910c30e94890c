//! Replaying a recording: images of crash states that cost next to nothing, and the user's check
//! run on them.
//!
//! Start with [`extents`] and [`image`] (a state as differences from a base image), then [`mount`]
//! (states as files), [`check`] (the command) and [`stop`] (an end before all is done). Which
//! states there are is for `crate::states` to say.

pub mod check;
pub mod copy;
pub mod extents;
pub mod image;
pub mod mount;
pub mod stop;
pub mod workers;
