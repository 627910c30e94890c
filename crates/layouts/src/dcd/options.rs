//! What can be chosen about a disk caching disk: its shape when it is made, its ways at each mount.

use crate::shared::{SEGMENT, parse};
use seekless_engine::layout::LayoutError;
use seekless_engine::options::{Choice, Options};
use seekless_engine::size::Size;
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

impl Shape {
    /// Refuses segments of a size that the log cannot have.
    ///
    /// # Errors
    /// A message that names the bounds.
    pub fn check(self) -> Result<Shape, LayoutError> {
        let blocks = self.segment_blocks;
        if blocks.is_power_of_two() && (4..=256).contains(&blocks) {
            return Ok(self);
        }
        let size = Size::from_blocks(blocks.into());
        let reason = format!(
            "a segment of {size} is not possible: a segment of dcd has a power of two of bytes, \
             from 16k to 1M"
        );
        Err(LayoutError::BadSize(reason))
    }

    /// What was chosen.
    pub fn of(options: &Options) -> Shape {
        Shape {
            segment_blocks: options.get(&SEGMENT).unwrap_or(SEGMENT_BLOCKS),
            log_blocks: options.get(&LOG_SIZE),
        }
    }

    /// The same as options.
    pub fn onto(self, options: Options) -> Options {
        options.with(&SEGMENT, Some(self.segment_blocks)).with(&LOG_SIZE, self.log_blocks)
    }
}

/// Size of the log in blocks.
pub static LOG_SIZE: Choice<Option<u64>> = Choice {
    name: "log-size",
    value: "SIZE",
    help: "Size of the log of `dcd`; a sixteenth of the device, 1 GiB at most, if left out; the \
           whole of a device of its own",
    needs_arm: false,
    default: || None,
    parse: |text| text.parse().map(|size: Size| Some(size.blocks())),
    show: |_| String::new(),
};

/// Where a write goes.
pub static CACHE: Choice<Mode> = Choice {
    name: "cache",
    value: "MODE",
    help: "Where `dcd` writes first: write-back, write-through or write-around",
    needs_arm: false,
    default: || Mode::Back,
    parse,
    show: Mode::to_string,
};

/// When a write is acknowledged that asks for nothing special.
pub static REPORT: Choice<Report> = Choice {
    name: "report",
    value: "WHEN",
    help: "When `dcd` acknowledges a write that asks for nothing special: immediate (from memory) \
           or logged",
    needs_arm: false,
    default: || Report::Immediate,
    parse,
    show: Report::to_string,
};

/// What is written home first while idle.
pub static DESTAGE: Choice<Order> = Choice {
    name: "destage",
    value: "ORDER",
    help: "What `dcd` writes home first while idle: last-first, least-valid or location",
    needs_arm: false,
    default: || Order::LastFirst,
    parse,
    show: Order::to_string,
};

/// Blocks of a request that goes straight to the origin.
pub static BYPASS: Choice<u32> = Choice {
    name: "bypass",
    value: "SIZE",
    help: "Requests from this size on go past the log of `dcd`; `off` for none",
    needs_arm: false,
    default: || BYPASS_BLOCKS,
    parse: limit,
    show: |_| "64k".to_owned(),
};

/// Blocks after which a stream goes straight to the origin.
pub static SEQUENTIAL: Choice<u32> = Choice {
    name: "sequential",
    value: "SIZE",
    help: "Streams of adjoining writes without a flush go past the log of `dcd` after this much; \
           `off` for never",
    needs_arm: false,
    default: || SEQUENTIAL_BLOCKS,
    parse: limit,
    show: |_| "4M".to_owned(),
};

/// Segment buffers in memory. No flag: the paper's range is 2 to 4 (claim D6).
pub static BUFFERS: Choice<u32> = Choice {
    name: "buffers",
    value: "N",
    help: "Segment buffers of `dcd` in memory",
    needs_arm: false,
    default: || 4,
    parse,
    show: u32::to_string,
};

/// A size in blocks, or 0 for `off`.
fn limit(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let size: Size = text.parse()?;
    u32::try_from(size.blocks()).map_err(|_| format!("{size} is too much; `off` is for never"))
}

impl Caching {
    /// What was chosen.
    pub fn of(options: &Options) -> Caching {
        Caching {
            mode: options.get(&CACHE),
            report: options.get(&REPORT),
            order: options.get(&DESTAGE),
            bypass_blocks: options.get(&BYPASS),
            sequential_blocks: options.get(&SEQUENTIAL),
            buffers: options.get(&BUFFERS),
        }
    }

    /// The same as options.
    pub fn onto(self, options: Options) -> Options {
        options
            .with(&CACHE, self.mode)
            .with(&REPORT, self.report)
            .with(&DESTAGE, self.order)
            .with(&BYPASS, self.bypass_blocks)
            .with(&SEQUENTIAL, self.sequential_blocks)
            .with(&BUFFERS, self.buffers)
    }
}

/// How the volume is to work; can be another at each mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caching {
    /// Where a write goes.
    pub mode: Mode,
    /// When a write is acknowledged that asks for nothing special.
    pub report: Report,
    /// What is written home first while no client waits.
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

/// Which blocks are written home first while no client waits (claim D12).
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
