//! Directories, and names that the disk does not know yet or still shows.

pub(crate) mod arrivals;
pub mod dirs;
pub mod paths;
