//! FFS as bytes: images of earlier versions, unknown features, and damage of each sector.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods, missing_docs)]

mod features;
mod fixtures;
mod flips;
mod forged;
pub mod medium;
mod tree;
