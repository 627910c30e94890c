//! What an array says of one of its members.

use crate::io::IoError;
use crate::traffic::Traffic;

/// What is known of a member of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is to the array: `active`, `out` or `rebuilding`.
    pub state: &'static str,
    /// Why it was removed from the array since this was assembled.
    pub error: Option<IoError>,
    /// Blocks of it that could not be read.
    pub unreadable_blocks: u64,
    /// Blocks of it that held something else than was written, or could not be read, and that were
    /// put right from the others.
    pub healed_blocks: u64,
    /// What went to it since the array was assembled.
    pub traffic: Traffic,
}
