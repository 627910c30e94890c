//! What can be chosen about log-structured layouts. Segments are in [`crate::shared`].

use crate::shared::{parse, parse_percent, parse_span};
use seekless_engine::options::Choice;
use seekless_engine::units::Time;
use std::fmt;
use std::str::FromStr;

/// How space is won back.
pub static CLEANING: Choice<Cleaning> = Choice {
    name: "cleaning",
    value: "CHOICE",
    help: "How log-structured layouts win space back: copy (live blocks to new segments), plug (to \
           holes in fuller ones) or adaptive (the cheaper one)",
    needs_arm: false,
    default: Cleaning::default,
    parse,
    show: Cleaning::to_string,
};

/// After how long HyLog chooses anew which blocks are hot, in nanoseconds; 20 minutes if not given
/// (claim H17).
pub static INTERVAL: Choice<Option<Time>> = Choice {
    name: "interval",
    value: "SPAN",
    help: "After how long `hylog` chooses anew which blocks are hot; 20 minutes if left out",
    needs_arm: false,
    default: || None,
    parse: |text| match parse_span(text)? {
        Some(0) => Err("`hylog` chooses anew after some time; leave it out for 20 minutes".into()),
        span => Ok(span),
    },
    show: |_| String::new(),
};

/// Share of the blocks, in percent, that is to be hot in HyLog. If not given, the one that costs
/// least by the measured service times.
pub static HOT_PERCENT: Choice<Option<u32>> = Choice {
    name: "hot-percent",
    value: "PERCENT",
    help: "Share of the blocks, in percent, that is to be hot in `hylog`. If left out, the one \
           that costs least by the measured service times",
    needs_arm: false,
    default: || None,
    parse: |text| parse_percent(text, 0).map(Some),
    show: |_| String::new(),
};

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
