//! Crash testing of any software: record what a disk is asked, then check every state that a
//! power cut could have left.
//!
//! [`record`] is a proxy that writes a recording; [`states`] says which crash states a recording
//! allows and which are tried; [`replay`] turns a state into a file and runs a check on it.

pub mod record;
pub mod replay;
pub mod states;
