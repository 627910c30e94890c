//! What `crash-test` and `replay-crashes` share: the options of a sweep, the way from the first
//! question to the exit code, and the reports.

pub mod args;
pub mod conduct;
pub mod output;
pub mod trees;
