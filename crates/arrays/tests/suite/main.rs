//! Tests of arrays in one program.
#![allow(clippy::disallowed_types, missing_docs)]

mod members;
#[path = "../../../layouts/tests/suite/support/seen.rs"]
mod seen;
#[path = "../../../layouts/tests/suite/support/mod.rs"]
mod support;
mod volumes;

mod array_cuts;
mod array_rebuilds;
mod array_recovery;
mod array_resyncs;
mod array_scrubs;
mod arrays;
mod mended_reads;
mod online_replace;
mod online_scrubs;
