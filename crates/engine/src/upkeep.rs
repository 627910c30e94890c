//! Work on an array that an operator asks for while the array is used, and how far it has come.

use crate::io::IoError;
use thiserror::Error;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upkeep {
    /// Compare copies and parity on all members.
    Scrub {
        /// At most so many bytes of each member are read in a second; without it, as many as
        /// clients leave time for.
        bytes_per_second: Option<u64>,
    },
    /// Give the scrub up.
    StopScrub,
    /// How fast a new member is filled, in bytes a second; without it, as fast as clients leave
    /// time for.
    RebuildRate {
        /// The limit.
        bytes_per_second: Option<u64>,
    },
}

/// Why that cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UpkeepError {
    /// There is no array.
    #[error("the volume is not on an array")]
    NoArray,
    /// RAID-0.
    #[error("RAID-0 has nothing to compare")]
    NoRedundancy,
    /// Nothing may be written.
    #[error("the array is read-only; stop the server and run `seekless check --scrub`")]
    ReadOnly,
    /// A member is out, or being filled.
    #[error("a member is missing or being filled; a scrub needs all of them")]
    Degraded,
    /// One is under way.
    #[error("a scrub is under way")]
    UnderWay,
    /// None is under way.
    #[error("no scrub is under way")]
    NoScrub,
    /// No member is to be replaced.
    #[error(
        "all members are there; stop the server and run `seekless replace` without the one to be \
         replaced"
    )]
    NoneOut,
    /// A new member is being filled already.
    #[error("a member is being filled; try again when it is: `seekless status` says how far it is")]
    Filling,
    /// A scrub reads all members.
    #[error("a scrub is under way; wait for its end, or `seekless scrub --stop`")]
    Scrubbing,
    /// What comes of a failure is not over.
    #[error("a member has just failed, and its last requests are under way; try again")]
    Unsettled,
    /// The volume has ended.
    #[error("the volume refuses writes; stop the server")]
    Failed,
    /// The new member cannot be written.
    #[error("the new member: {0}")]
    NewMember(IoError),
}

/// What became of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubState {
    /// It is under way.
    Running,
    /// It has compared everything.
    Ended,
    /// It was given up: an operator has said so, a member failed, or the array was shut down.
    Stopped,
}

impl ScrubState {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ScrubState::Running => "running",
            ScrubState::Ended => "ended",
            ScrubState::Stopped => "stopped",
        }
    }
}

/// How far a scrub has come, and what it has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrub {
    /// What became of it.
    pub state: ScrubState,
    /// Stripes that were compared.
    pub done: u64,
    /// Of how many.
    pub stripes: u64,
    /// Rows of blocks, one of each member, in which copies differ or parity does not fit.
    pub mismatched: u64,
    /// Blocks that a member could not read.
    pub unreadable: u64,
    /// How many of them were written anew from the other members.
    pub repaired: u64,
}
