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

/// Which segments are cleaned first; what the layout prefers if not given.
pub static VICTIMS: Choice<Option<Victims>> = Choice {
    name: "victims",
    value: "CHOICE",
    help: "Which segments log-structured layouts clean first: greedy (the emptiest), cost-benefit \
           (old and empty ones) or fifo (in the order in which they were written). If left out, \
           greedy for `lld` and cost-benefit for the others",
    needs_arm: false,
    default: || None,
    parse: |text| text.parse().map(Some).map_err(|error: UnknownVictims| error.to_string()),
    show: |victims| victims.map_or(String::new(), |victims| victims.to_string()),
};

/// What becomes of a segment that is written before it is full (claim V10).
pub static PARTIAL: Choice<Partial> = Choice {
    name: "partial",
    value: "CHOICE",
    help: "What `lld` does with a segment that a flush finds less than three quarters full: fresh \
           (write all of it again to a fresh one with what comes next) or in-place (go on behind \
           it)",
    needs_arm: false,
    default: Partial::default,
    parse,
    show: Partial::to_string,
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

/// Which segments are cleaned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Victims {
    /// Those with the least live blocks.
    Greedy,
    /// Those with the best ratio of benefit to cost, (1 − u) · age / (1 + u).
    CostBenefit,
    /// Those that were written first.
    Fifo,
}

impl Victims {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Victims; 3] = [Victims::Greedy, Victims::CostBenefit, Victims::Fifo];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Victims::Greedy => "greedy",
            Victims::CostBenefit => "cost-benefit",
            Victims::Fifo => "fifo",
        }
    }
}

impl fmt::Display for Victims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Victims are not chosen in a way of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no choice of victims is called `{0}`; there are greedy, cost-benefit, fifo")]
pub struct UnknownVictims(String);

impl FromStr for Victims {
    type Err = UnknownVictims;

    fn from_str(name: &str) -> Result<Victims, UnknownVictims> {
        let found = Victims::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownVictims(name.to_owned()))
    }
}

/// What becomes of a segment that is written before it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Partial {
    /// It is written again, with what has come since, to a fresh segment.
    #[default]
    Fresh,
    /// The log goes on behind what is written.
    InPlace,
}

impl Partial {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: [Partial; 2] = [Partial::Fresh, Partial::InPlace];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Partial::Fresh => "fresh",
            Partial::InPlace => "in-place",
        }
    }
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Nothing of this name becomes of such a segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no treatment of partial segments is called `{0}`; there are fresh, in-place")]
pub struct UnknownPartial(String);

impl FromStr for Partial {
    type Err = UnknownPartial;

    fn from_str(name: &str) -> Result<Partial, UnknownPartial> {
        let found = Partial::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownPartial(name.to_owned()))
    }
}
