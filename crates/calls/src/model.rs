//! What a power cut may leave of recorded calls, under a model of a file system.
//!
//! A call becomes micro-operations, each of which reaches the disk as a whole: a change of names,
//! a page of a file, a size, attributes. A [`Model`] is a row of rules, as data. The rules say
//! which earlier micro-operations are on the disk if a later one is, and what a sync makes durable.
//! Every set of micro-operations that holds the durable ones and is closed over those needs is a
//! state that a power cut may leave; [`Tree`] is what a program finds in it.
//!
//! [`Recorded::read`] makes the micro-operations of a recording, [`Modelled::new`] applies a model
//! to them, and [`Tree::apply`] builds a state. Nothing in here does I/O.

mod durable;
mod kept;
mod micro;
mod needs;
mod read;
mod rules;
mod story;
mod tree;
mod trees;

pub use durable::Barriers;
pub use kept::Kept;
pub use micro::{
    Attributes, Change, Mark, Micro, NameChange, Object, ObjectId, PAGE, Recorded, Sync, TOP,
};
pub use needs::{Modelled, Need};
pub use read::Unmodelled;
pub use rules::{Covers, Model, Rule};
pub use story::{MissingSync, Why};
pub use tree::{Found, Step, Tree, difference};
pub use trees::Trees;

#[cfg(test)]
mod tests;
