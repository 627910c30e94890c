//! The file systems that are proved, their client and its history.
//!
//! Start with [`subject`] (how an image is made, mounted and looked at) and [`request`] (what
//! clients do), then [`world`] and [`plan`] (what they know), [`judge`] and [`contract`] (what a
//! crash may leave). [`workload`] and [`ace`] draw what happens; [`image`] and [`mounted`] read a
//! tree from the bytes of an image and through calls.

mod ace;
mod area;
mod calls;
pub mod contract;
mod image;
mod judge;
mod looks;
mod mounted;
mod names;
pub mod oracle;
mod plan;
pub mod request;
pub mod subject;
mod tags;
mod tree;
mod versions;
pub mod volume;
mod workload;
mod world;

pub use ace::Ace;
pub use contract::Rules;
pub use looks::{Looks, Memory};
pub use subject::{CLASSES, FileSubject};
