//! The `seekless` command.
fn main() {}
