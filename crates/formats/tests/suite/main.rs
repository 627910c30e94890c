//! Tests of file systems in one program.
#![allow(missing_docs)]

mod deferred;
mod durable;
mod failing;
mod fork;
mod guard_limit;
mod images;
mod large_directories;
mod layouts;
mod log_example;
mod log_limit;
mod minix;
mod nvram;
mod oracle;
mod parts;
mod policies;
mod read_ahead;
mod scripts;
mod sync_writes;
mod trim;
mod vlfs;
