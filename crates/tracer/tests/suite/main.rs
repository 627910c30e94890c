//! Real programs that are recorded.

#![allow(clippy::unwrap_used)] // A test that cannot go on has failed.

mod basics;
mod checks;
mod edges;
mod harness;
mod limits;
mod rights;
