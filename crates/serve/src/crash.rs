//! The disk that crashes: a device in memory or over a file with a volatile cache, whose power can
//! be cut, which loses, reorders and tears what was not flushed, and which fails in other ways on
//! demand.
//!
//! Start with [`plan`] (what is to go wrong), then [`disk`] (the device), [`cut`] (what a power cut
//! leaves behind), [`store`] (where the blocks rest) and `commands` (what it is told while it is
//! served).

mod commands;
pub mod cut;
pub mod disk;
pub mod memory;
pub mod plan;
pub mod store;

#[cfg(test)]
mod tests;
