//! Records what a program does to the files of a directory, without root.
//!
//! A seccomp filter stops the program at calls that change files or sync them, and at no others
//! (`filter`). The recorder looks at the call before and after it is carried out (`enter`,
//! `leave`), and writes it down as a call to a file system ([`seekless_calls::Entry`]). The loop is
//! in `session`.
//!
//! What is recorded is what the files are afterwards: written bytes are read back. So
//! [`selfcheck::compare`] can rebuild the final tree from the record alone. If it differs from the
//! directory, the record is not complete, and no verdict may rest on it.

mod arch;
mod content;
mod enter;
mod error;
mod filter;
mod killed;
mod leave;
mod objects;
mod options;
mod pages;
mod pending;
mod preflight;
mod ptrace;
mod record;
mod recorder;
pub mod selfcheck;
mod session;
mod start;
mod stat;
mod subreaper;
mod tick;
mod tracee;
mod tree;

pub use error::Error;
pub use options::{ACKS, Exit, Options, Recording, Syncs};
pub use preflight::preflight;
pub use recorder::Recorder;
