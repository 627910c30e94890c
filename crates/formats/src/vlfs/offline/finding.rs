//! What check finds: one value for each kind of damage, with its severity.

use crate::report::{self, Nature, Severity};
use crate::vlfs::ondisk::ObjectNr;
use std::fmt;

/// Findings that one check keeps; it stops there.
pub const MOST_FINDINGS: usize = 16_384;

/// The bytes of a name, shown with escapes.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(pub Vec<u8>);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Why an entry of a directory cannot stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the cases are.
pub enum BadEntry {
    #[error("leads to object {0}, which no file can be")]
    NoNumber(ObjectNr),
    #[error("leads to object {0}, of which there is none")]
    NoObject(ObjectNr),
    #[error("is no name")]
    NoName,
    #[error("is there twice")]
    Twice,
    #[error("is another name of a directory")]
    SecondOfDirectory,
}

/// Something that check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Finding {
    #[error("object {object}: its attributes cannot be read")]
    Unreadable { object: ObjectNr },
    #[error("the root directory is missing: object 2 has mode {mode:#o}")]
    NoRoot { mode: u16 },
    #[error("object {object} says nothing possible of its slice")]
    BadSlice { object: ObjectNr },
    #[error("object {object}: {why}")]
    Attributes { object: ObjectNr, why: &'static str },
    #[error("directory {dir}: block {block} cannot be read")]
    LostNames { dir: ObjectNr, block: u64 },
    #[error("directory {dir}: the entries at byte {at} do not add up")]
    BadChunk { dir: ObjectNr, at: u64 },
    #[error("directory {dir}: the name `{name}` {why}")]
    Entry { dir: ObjectNr, name: Text, at: u64, why: BadEntry },
    #[error("directory {dir}: the name `{name}` says another kind than object {object}")]
    WrongKind { dir: ObjectNr, name: Text, at: u64, object: ObjectNr },
    #[error("directory {object} says that it lies in {stored}, and {right} has its name")]
    WrongParent { object: ObjectNr, stored: ObjectNr, right: ObjectNr },
    #[error("object {object} exists, and no name leads to it")]
    Nameless { object: ObjectNr, links: u32, size: u64 },
    #[error("object {object} counts {stored} names, has {right}")]
    WrongLinks { object: ObjectNr, stored: u32, right: u32 },
    #[error("object {object} exists, and its number is free")]
    Unmarked { object: ObjectNr },
    #[error("number {object} is in use, and there is no such object")]
    Leaked { object: ObjectNr },
    #[error("object {object} is noted as without a name, and is not, or the other way round")]
    Noted { object: ObjectNr, unnamed: bool },
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        match self {
            Finding::Leaked { .. } | Finding::Noted { .. } => Severity::Harmless,
            Finding::Nameless { links: 0, .. } => Severity::Harmless,
            Finding::WrongLinks { stored, right, .. } if stored > right => Severity::Harmless,
            Finding::WrongLinks { .. }
            | Finding::WrongKind { .. }
            | Finding::WrongParent { .. }
            | Finding::Unmarked { .. }
            | Finding::BadSlice { .. } => Severity::Repairable,
            Finding::Unreadable { .. }
            | Finding::NoRoot { .. }
            | Finding::Attributes { .. }
            | Finding::LostNames { .. }
            | Finding::BadChunk { .. }
            | Finding::Entry { .. }
            | Finding::Nameless { .. } => Severity::Fatal,
        }
    }

    fn phase(&self) -> u8 {
        match self {
            Finding::Unreadable { .. }
            | Finding::NoRoot { .. }
            | Finding::BadSlice { .. }
            | Finding::Attributes { .. } => 1,
            Finding::LostNames { .. }
            | Finding::BadChunk { .. }
            | Finding::Entry { .. }
            | Finding::WrongKind { .. }
            | Finding::WrongParent { .. } => 2,
            Finding::Nameless { .. } => 3,
            Finding::WrongLinks { .. } => 4,
            Finding::Unmarked { .. } | Finding::Leaked { .. } | Finding::Noted { .. } => 5,
        }
    }

    /// The numbers are those of the invariants of FFS that say the same.
    fn invariant(&self) -> Option<u8> {
        match self {
            Finding::Entry { why: BadEntry::NoNumber(_) | BadEntry::NoObject(_), .. } => Some(1),
            Finding::Unmarked { .. } => Some(4),
            Finding::WrongLinks { stored, right, .. } if stored < right => Some(5),
            Finding::Entry { why: BadEntry::SecondOfDirectory, .. } => Some(7),
            Finding::Entry { .. } | Finding::BadChunk { .. } => Some(6),
            _ => None,
        }
    }

    fn nature(&self) -> Nature {
        match self {
            Finding::Nameless { .. } | Finding::Leaked { .. } | Finding::Noted { .. } => {
                Nature::Leak
            }
            Finding::WrongLinks { stored, right, .. } if stored > right => Nature::HighCount,
            Finding::Unmarked { .. } => Nature::Maps,
            Finding::WrongParent { .. }
            | Finding::Entry { why: BadEntry::SecondOfDirectory, .. } => Nature::TwoParents,
            _ => Nature::Other,
        }
    }
}
