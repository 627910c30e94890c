//! Volumes over several devices: RAID-0, RAID-1 and RAID-5.
//!
//! An [`Array`] is a layer over as many ports as it has members. As a
//! [`Nested`](seekless_engine::nested::Nested) device it carries any layout; through an
//! [`ArrayDisk`] it can be formatted, mounted and checked in blocking style. `CONTRACT.md` says
//! what it promises when members fail, also together with the power.
#![forbid(unsafe_code)]

mod arbitrate;
pub mod array;
mod ask;
pub mod assemble;
pub mod bitmap;
mod blocking;
pub mod create;
pub mod geometry;
mod log;
pub mod member;
mod recover;
mod replace;
mod resync;
pub mod scrub;
mod unwritten;

pub use array::Array;
pub use assemble::{AssembleOptions, Assembled, assemble};
pub use blocking::ArrayDisk;
pub use create::{CreateArray, create};
pub use replace::replace;

use seekless_engine::io::IoError;
use seekless_engine::layout::LayoutError;
use std::fmt;
use std::str::FromStr;

/// Most members of an array.
pub const MOST_MEMBERS: usize = 32;
/// Largest chunk, in blocks (1 MiB).
pub const MOST_CHUNK_BLOCKS: u32 = 256;
/// Chunk if nothing else is said, in blocks (64 KiB).
pub const DEFAULT_CHUNK_BLOCKS: u32 = 16;

/// How an array uses its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Chunks dealt out in turn: fast, and lost with any member.
    Raid0,
    /// The same on all members.
    Raid1,
    /// Chunks dealt out, with parity that stands in for any one member.
    Raid5,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 3] = [Level::Raid0, Level::Raid1, Level::Raid5];

    /// Its number on disk and on the command line.
    pub fn number(self) -> u32 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid5 => 5,
        }
    }

    /// The level with that number.
    pub fn from_number(number: u32) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.number() == number)
    }

    /// Fewest members that make sense.
    pub fn least_members(self) -> usize {
        match self {
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 => 3,
        }
    }

    /// Members that may be missing without loss of data.
    pub fn spare(self, members: usize) -> usize {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => members - 1,
            Level::Raid5 => 1,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RAID-{}", self.number())
    }
}

impl FromStr for Level {
    type Err = VolumeError;

    fn from_str(text: &str) -> Result<Level, VolumeError> {
        let known = text.parse().ok().and_then(Level::from_number);
        known.ok_or_else(|| VolumeError::UnknownLevel(text.to_owned()))
    }
}

impl From<VolumeError> for LayoutError {
    fn from(error: VolumeError) -> LayoutError {
        LayoutError::from_below(error)
    }
}

/// Blocks of a log in which two of the largest records find room, as they must.
pub(crate) fn least_log_blocks(members: usize, chunk: u32) -> u32 {
    2 * (1 + members as u32 * chunk) + 2
}

/// Why an array cannot be made or assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// No such level.
    #[error("unknown RAID level `{0}`: known are 0, 1 and 5")]
    UnknownLevel(String),
    /// The number of members or the chunk makes no sense.
    #[error("{0}")]
    BadShape(String),
    /// Not a member of any array.
    #[error("this is not a member of an array; `seekless create --raid` makes some")]
    NoMember,
    /// The superblock of the member is damaged.
    #[error("both copies of the member's superblock are damaged")]
    Damaged,
    /// A newer format.
    #[error(
        "the member has format version {0}, this program knows versions up to {known}; use \
         a newer one",
        known = member::VERSION
    )]
    Newer(u32),
    /// Shorter than the array needs.
    #[error("the member is truncated: the array needs {needed} blocks of 4 KiB, there are {found}")]
    Truncated {
        /// Blocks needed.
        needed: u64,
        /// Blocks there are.
        found: u64,
    },
    /// A member of another array.
    #[error(
        "this belongs to another array ({found:032x}) than the others ({expected:032x}); leave it \
         out, or name the members of its own array"
    )]
    Foreign {
        /// Position among the devices given, from 1.
        device: usize,
        /// Its array.
        found: u128,
        /// The array of the others.
        expected: u128,
    },
    /// Two devices claim the same place.
    #[error(
        "this claims to be member {member} of the array, as number {first} of those given does; \
         leave out the one that is a copy"
    )]
    Twice {
        /// Position among the devices given, from 1.
        first: usize,
        /// Position among the devices given, from 1.
        second: usize,
        /// The place.
        member: usize,
    },
    /// Members are missing, and the caller does not allow that.
    #[error(
        "{missing} of {members} members missing or out of date ({who}); give them all, or \
         --degraded to go on without"
    )]
    Degraded {
        /// How many.
        missing: usize,
        /// Of how many.
        members: usize,
        /// Which, for people.
        who: String,
    },
    /// Members were in use without each other.
    #[error(
        "members {first} and {second} have diverged: each was in use without the other since; give \
         the one whose content is wanted and not the other, with --degraded, and then replace the \
         other"
    )]
    Diverged {
        /// One of them.
        first: usize,
        /// The other.
        second: usize,
    },
    /// More members are missing than the level can do without.
    #[error("{missing} of {members} members missing or out of date ({who}); {level} needs more")]
    TooFew {
        /// How many.
        missing: usize,
        /// Of how many.
        members: usize,
        /// Which, for people.
        who: String,
        /// The level.
        level: Level,
    },
    /// The log cannot be replayed, and without all members there is no other way.
    #[error(
        "the log of member {member} is damaged and a member is missing: parity cannot be trusted; \
         give all members"
    )]
    LogDamaged {
        /// Which log.
        member: usize,
    },
    /// Members disagree, and the volume cannot be mounted with any of them believed.
    #[error(
        "the members disagree, and whichever is believed, the volume cannot be mounted \
         ({reason}); nothing was overwritten: take the member with the wrong bytes out and put it \
         back with `seekless replace`, or restore from a copy"
    )]
    Undecided {
        /// What the mount said.
        reason: String,
    },
    /// A medium failed.
    #[error("member {member}: {error}")]
    Io {
        /// Which member.
        member: usize,
        /// How.
        error: IoError,
    },
}
