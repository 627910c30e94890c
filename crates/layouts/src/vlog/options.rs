//! What can be chosen about the virtual log, at each mount.

use crate::shared::{parse_percent, parse_some};
use seekless_engine::options::Choice;
use std::fmt;
use std::str::FromStr;

/// Which tracks are emptied while the volume is idle. If not given, the least used ones on a
/// device with a head, and none on others, where an empty track is worth nothing.
pub static COMPACTION: Choice<Option<Compaction>> = Choice {
    name: "compaction",
    value: "CHOICE",
    help: "Which tracks `vlog` empties while idle: off, random, least-used (the default on a disk \
           with an arm) or nearest",
    needs_arm: true,
    default: || None,
    parse: parse_some,
    show: |_| String::new(),
};

/// How full a track is, in percent of its blocks, when eager writing leaves it for the next empty
/// one: 1 to 100. The virtual log paper takes 75 (claim V7).
pub static FILL_PERCENT: Choice<u32> = Choice {
    name: "fill-percent",
    value: "PERCENT",
    help: "How full a track is, in percent, when `vlog` leaves it for the next empty one",
    needs_arm: true,
    default: || 75,
    parse: |text| parse_percent(text, 1),
    show: u32::to_string,
};

/// Do not put neighbouring blocks of the volume back beside each other while idle, which otherwise
/// happens where there is compaction and nothing left to compact.
pub static NO_REORGANISE: Choice<bool> = Choice::switch(
    "no-reorganise",
    "Leave blocks where `vlog` has written them, however scattered, while idle",
)
.on_arm();

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
