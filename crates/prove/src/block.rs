//! The block volumes that are proved, their client and its history.
//!
//! Start with [`stack`] (which volumes, and how they are mounted), [`request`] and [`workload`]
//! (what clients do), then [`oracle`] (what a client hears) and [`history`] (what it allows).

mod content_names;
mod create;
mod history;
pub(crate) mod objects;
pub mod oracle;
mod redundancy;
pub mod request;
pub mod stack;
mod volume;
mod workload;

pub use stack::BlockSubject;
pub use workload::WORKLOADS;
