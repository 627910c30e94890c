//! Options that several layouts have in common, and the text forms that options share.

use seekless_engine::options::Choice;
use seekless_engine::size::Size;
use seekless_engine::span::Span;
use seekless_engine::units::Time;
use std::fmt::Display;
use std::str::FromStr;

pub use crate::punch::NO_PUNCH;

/// Most blocks of a transaction of `vlog` and the log-structured layouts where there is room: 8
/// MiB, more than the cache of MinixUFS (claim V10).
pub const MOST_OF_GROUP: u64 = 2048;

/// Blocks in a segment.
pub static SEGMENT: Choice<Option<u32>> = Choice {
    name: "segment",
    value: "SIZE",
    help: "Size of the segments: a power of two, of `lfs`, `wolf` and `hylog` from 32k to 16M, of \
           `dcd` from 16k to 1M. What suits the device if left out",
    needs_arm: false,
    default: || None,
    parse: |text| {
        let size: Size = text.parse()?;
        let blocks = u32::try_from(size.blocks());
        blocks.map(Some).map_err(|_| format!("segments of {size} are too large"))
    },
    show: |_| String::new(),
};

/// Mount after a crash though blocks cannot be read in which the youngest records may have been.
/// What was durable in those only is lost then. A mount that may write overwrites them.
pub static PAST_UNREADABLE: Choice<bool> = Choice::switch(
    "past-unreadable",
    "Mount after a crash though blocks cannot be read in which the youngest writes may have been; \
     they are lost then",
);

/// Mount a damaged volume: what is certain can be read, and everything else is an error. Needs a
/// mount that is read-only.
pub static SALVAGE: Choice<bool> =
    Choice::switch("salvage", "Serve what is certain of a damaged volume");

/// With [`SALVAGE`]: where the newest content is not certain, read the newest that is found.
pub static ALLOW_STALE: Choice<bool> = Choice::switch(
    "allow-stale",
    "Where the newest content is not certain, read the newest that is found",
);

/// Takes a value that knows its own text form.
pub(crate) fn parse<T: FromStr>(text: &str) -> Result<T, String>
where
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// The same where leaving it out is a choice as well.
pub(crate) fn parse_some<T: FromStr>(text: &str) -> Result<Option<T>, String>
where
    T::Err: Display,
{
    parse(text).map(Some)
}

/// A span of time in nanoseconds.
pub(crate) fn parse_span(text: &str) -> Result<Option<Time>, String> {
    let span: Span = text.parse()?;
    Ok(Some(span.ns))
}

/// A percentage within these bounds.
pub(crate) fn parse_percent(text: &str, least: u32) -> Result<u32, String> {
    let percent = text.parse().ok().filter(|percent| (least..=100).contains(percent));
    percent.ok_or_else(|| format!("`{text}` is not a percentage from {least} to 100"))
}
