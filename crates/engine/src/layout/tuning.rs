//! Choices that change how a layout works, never what it stores: a volume can be mounted with
//! others at any time.

use super::dcd::Caching;
use crate::units::Time;
use std::fmt;
use std::str::FromStr;

/// How a volume is to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Which tracks the virtual log empties while no client waits. If not given, the least used
    /// ones on a device with a head, and none on others, where an empty track is worth nothing.
    pub compaction: Option<Compaction>,
    /// How full a track is, in percent of its blocks, when eager writing leaves it for the next
    /// empty one: 1 to 100. The virtual log paper takes 75 (claim V7).
    pub fill_percent: u32,
    /// While no client waits and there is nothing to compact, the virtual log puts neighbouring
    /// blocks of the volume back beside each other. Only where there is compaction.
    pub reorganise: bool,
    /// While no client waits, Loge puts neighbouring blocks of the volume back beside each other.
    pub sort: bool,
    /// While no client waits, Loge puts blocks that were read in succession beside each other.
    pub clusters: bool,
    /// While no client waits, Loge keeps the arm on its way to the next free block, on devices
    /// that carry out seeks.
    pub anticipate: bool,
    /// Mount a virtual log or a disk caching disk after a crash though blocks cannot be read in
    /// which its youngest records may have been: what was durable in those only is lost then. A
    /// mount that may write overwrites them.
    pub past_unreadable: bool,
    /// How the disk caching disk works.
    pub caching: Caching,
    /// After how long HyLog chooses anew which blocks are hot, in nanoseconds; 20 minutes if not
    /// given (claim H17).
    pub interval: Option<Time>,
    /// How log-structured layouts win space back.
    pub cleaning: Cleaning,
    /// Share of the blocks, in percent, that is to be hot in HyLog; if not given, the one that
    /// costs least by the measured service times.
    pub hot_percent: Option<u32>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            compaction: None,
            fill_percent: 75,
            reorganise: true,
            sort: false,
            clusters: false,
            anticipate: false,
            past_unreadable: false,
            interval: None,
            hot_percent: None,
            cleaning: Cleaning::default(),
            caching: Caching::default(),
        }
    }
}

/// How log-structured layouts win space back (claim H19).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cleaning {
    /// The cheaper of the other two, by measured service times.
    #[default]
    Adaptive,
    /// What is live in segments that are rather empty goes to new segments.
    Copy,
    /// It goes to holes in fuller segments, block by block.
    Plug,
}

impl Cleaning {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Cleaning; 3] = [Cleaning::Adaptive, Cleaning::Copy, Cleaning::Plug];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cleaning::Adaptive => "adaptive",
            Cleaning::Copy => "copy",
            Cleaning::Plug => "plug",
        }
    }
}

impl fmt::Display for Cleaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Space is not won back in a way of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no way of cleaning is called `{0}`; there are adaptive, copy, plug")]
pub struct UnknownCleaning(String);

impl FromStr for Cleaning {
    type Err = UnknownCleaning;

    fn from_str(name: &str) -> Result<Cleaning, UnknownCleaning> {
        let found = Cleaning::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownCleaning(name.to_owned()))
    }
}

/// Which track is emptied next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compaction {
    /// None at all.
    Off,
    /// One at random, as in the virtual log paper (section 4.2).
    Random,
    /// The one with the fewest blocks in use, which costs the least for the space it gives.
    LeastUsed,
    /// The nearest one ahead of the head.
    Nearest,
}

impl Compaction {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Compaction; 4] =
        [Compaction::Off, Compaction::Random, Compaction::LeastUsed, Compaction::Nearest];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Compaction::Off => "off",
            Compaction::Random => "random",
            Compaction::LeastUsed => "least-used",
            Compaction::Nearest => "nearest",
        }
    }
}

impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No way of compacting has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown compaction `{0}`: known are off, random, least-used, nearest")]
pub struct UnknownCompaction(String);

impl FromStr for Compaction {
    type Err = UnknownCompaction;

    fn from_str(name: &str) -> Result<Compaction, UnknownCompaction> {
        let known = Compaction::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| UnknownCompaction(name.to_owned()))
    }
}
