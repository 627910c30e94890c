//! What can be chosen about a disk caching disk: its shape when it is made, its ways at each mount.

use std::fmt;
use std::str::FromStr;

/// Blocks in a segment if nothing else is said: 128 KiB, as in the paper (claim D2).
pub const SEGMENT_BLOCKS: u32 = 32;
/// Requests of at least so many blocks go straight to the origin: 64 KiB (claim D9).
pub const BYPASS_BLOCKS: u32 = 16;
/// Blocks after which a stream of adjoining writes goes straight to the origin: 4 MiB.
pub const SEQUENTIAL_BLOCKS: u32 = 1024;

/// How the log is cut, decided when the volume is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks in a segment, a power of two from 4 to 256. Smaller ones are taken where the log
    /// would have fewer than eight.
    pub segment_blocks: u32,
    /// Blocks of the log; if not given, a sixteenth of the device, 1 GiB at most.
    pub log_blocks: Option<u64>,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { segment_blocks: SEGMENT_BLOCKS, log_blocks: None }
    }
}

/// How the volume is to work; can be another at each mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Where a write goes.
    pub mode: Mode,
    /// When a write is acknowledged that asks for nothing special.
    pub report: Report,
    /// What is written home first while nobody waits.
    pub order: Order,
    /// Requests of at least so many blocks go straight to the origin; 0 for none.
    pub bypass_blocks: u32,
    /// A stream of adjoining writes without a flush goes straight to the origin after so many
    /// blocks; 0 for never.
    pub sequential_blocks: u32,
    /// Segment buffers in memory, 2 to 4 (claim D6).
    pub buffers: u32,
}

impl Default for Caching {
    fn default() -> Caching {
        Caching {
            mode: Mode::Back,
            report: Report::Immediate,
            order: Order::LastFirst,
            bypass_blocks: BYPASS_BLOCKS,
            sequential_blocks: SEQUENTIAL_BLOCKS,
            buffers: 4,
        }
    }
}

/// No choice has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`: known are {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}

/// An enumeration with names for the command line.
macro_rules! named {
    ($type:ident, $what:literal, $(($one:ident, $name:literal)),+) => {
        impl $type {
            /// All of them, in the order in which they are listed to people.
            pub const ALL: &'static [$type] = &[$($type::$one),+];

            /// The name used on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self { $($type::$one => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<$type, UnknownName> {
                let known = $type::ALL.iter().find(|one| one.name() == name);
                known.copied().ok_or_else(|| UnknownName {
                    what: $what,
                    name: name.to_owned(),
                    known: [$($name),+].join(", "),
                })
            }
        }
    };
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To the log, and home some time later.
    Back,
    /// To the log, and home before it is acknowledged.
    Through,
    /// Straight home; the log only gives what it still holds.
    Around,
}

named!(
    Mode,
    "cache mode",
    (Back, "write-back"),
    (Through, "write-through"),
    (Around, "write-around")
);

/// When a write to the log is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// As soon as it is in memory, as in the paper. Its log write begins when the one in progress
    /// ends, so what a crash takes is bounded by the duration of two log writes.
    Immediate,
    /// When the log device has completed it.
    Logged,
}

named!(Report, "report", (Immediate, "immediate"), (Logged, "logged"));

/// Which blocks are written home first while nobody waits (claim D12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Those of the youngest segments, as in the paper.
    LastFirst,
    /// Those of the segments with the fewest valid blocks.
    LeastValid,
    /// Those next on the origin, from wherever they are in the log.
    Location,
}

named!(
    Order,
    "destage order",
    (LastFirst, "last-first"),
    (LeastValid, "least-valid"),
    (Location, "location")
);
