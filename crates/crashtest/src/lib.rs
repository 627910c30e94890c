//! Crash testing of any software: record what a disk is asked, then check every state that a
//! power cut could have left.
//!
//! [`record`] is a proxy that writes a recording; [`states`] says which crash states a recording
//! allows and which are tried; [`replay`] turns a state into a file and runs a check on it.
//! [`sweep`] does that for every state of a [`session`], and [`report`] tells what was found;
//! [`places`] names the files behind offsets.
//!
//! [`file_system`] makes file systems, [`sandbox`] mounts them and runs checks that leak nothing,
//! [`workload`] runs what is recorded, and [`preflight`] says what the machine lacks for that.
//! [`directory`] shows states of recorded calls as plain directories.
//! [`own`] does all of this with file systems of Seekless, and [`calls`] records their calls.

pub mod calls;
pub mod directory;
pub mod file_system;
pub mod own;
pub mod places;
pub mod preflight;
pub mod record;
pub mod replay;
pub mod report;
pub mod sandbox;
pub mod session;
pub mod states;
pub mod sweep;
pub mod trees;
pub mod workload;
