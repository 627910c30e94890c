//! What check finds: one value for each kind of damage, with its severity.

use crate::minix::ondisk::geometry::{Place, Zone};
use crate::report::{self, Nature, Severity};
use std::fmt;

/// Findings that one check keeps; it stops there.
pub const MOST_FINDINGS: usize = 16_384;

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// In an inode: 0 to 6 of data, 7 to 9 of indirect zones.
    Inode(u32, usize),
    /// In an indirect zone.
    Indirect(Place),
}

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
    #[error("leads to inode {0}, of which there is none")]
    NoSuchInode(u32),
    #[error("leads to inode {0}, which is free")]
    Free(u32),
    #[error("leads to inode {0}, a symbolic link without a possible text")]
    NoText(u32),
    #[error("is no name")]
    NoName,
    #[error("is there twice")]
    Twice,
}

/// Something that check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Finding {
    #[error("the medium cannot read block {page} of the volume, which holds metadata")]
    Unreadable { page: u64 },
    #[error("the root directory is missing: inode 1 has mode {mode:#o}")]
    NoRoot { mode: u16 },
    #[error("inode {ino}: {size} bytes are more than a file can have")]
    TooLarge { ino: u32, size: u32, most: u32 },
    #[error("inode {ino}: the address {zone} lies outside the data")]
    BadAddress { ino: u32, zone: Zone, slot: Slot },
    #[error("inode {ino}: zone {zone} lies behind the end")]
    BehindEnd { ino: u32, zone: Zone, slot: Slot },
    #[error("inode {ino}: zone {zone} belongs to another file, or to this one twice")]
    Duplicate { ino: u32, zone: Zone, slot: Slot },
    #[error("directory {dir}: the name `{name}` {why}")]
    Entry { dir: u32, name: Text, why: BadEntry, place: Place },
    #[error("directory {ino} has {size} bytes, which are no whole entries behind `.` and `..`")]
    DirectorySize { ino: u32, size: u32, right: u32 },
    #[error("directory {ino} does not begin with `.` and `..`")]
    BadDots { ino: u32, parent: u32 },
    #[error("directory {ino}: `..` leads to {stored}, and {right} has its name")]
    WrongParent { ino: u32, stored: u32, right: u32, place: Place },
    #[error("directory {dir}: `{name}` is another name of directory {ino}")]
    DirectoryTwice { dir: u32, name: Text, ino: u32, place: Place },
    #[error("inode {ino} is in use, and no name leads to it")]
    Nameless { ino: u32, links: u16, size: u32 },
    #[error("inode {ino} counts {stored} names, has {right}")]
    WrongLinks { ino: u32, stored: u16, right: u16 },
    #[error("inode {ino} is in use and marked as free")]
    UnmarkedInode { ino: u32 },
    #[error("{count} zones from {zone} on are in use and marked as free")]
    UnmarkedZones { zone: Zone, count: u32 },
    #[error("{count} zones from {zone} on are marked as in use, and no file has them")]
    Leaked { zone: Zone, count: u32 },
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        match self {
            Finding::Nameless { .. } | Finding::Leaked { .. } | Finding::BehindEnd { .. } => {
                Severity::Harmless
            }
            Finding::WrongLinks { stored, right, .. } if stored > right => Severity::Harmless,
            Finding::WrongLinks { .. }
            | Finding::UnmarkedInode { .. }
            | Finding::UnmarkedZones { .. }
            | Finding::WrongParent { .. }
            | Finding::DirectoryTwice { .. }
            | Finding::DirectorySize { .. } => Severity::Repairable,
            Finding::Unreadable { .. }
            | Finding::NoRoot { .. }
            | Finding::TooLarge { .. }
            | Finding::BadAddress { .. }
            | Finding::Duplicate { .. }
            | Finding::Entry { .. }
            | Finding::BadDots { .. } => Severity::Fatal,
        }
    }

    fn phase(&self) -> u8 {
        match self {
            Finding::Unreadable { .. } | Finding::NoRoot { .. } => 1,
            Finding::TooLarge { .. }
            | Finding::BadAddress { .. }
            | Finding::BehindEnd { .. }
            | Finding::Duplicate { .. }
            | Finding::Entry { .. }
            | Finding::DirectorySize { .. }
            | Finding::BadDots { .. }
            | Finding::WrongParent { .. }
            | Finding::DirectoryTwice { .. } => 2,
            Finding::Nameless { .. } => 3,
            Finding::WrongLinks { .. } => 4,
            Finding::UnmarkedInode { .. }
            | Finding::UnmarkedZones { .. }
            | Finding::Leaked { .. } => 5,
        }
    }

    /// The numbers are those of the invariants of FFS that say the same.
    fn invariant(&self) -> Option<u8> {
        match self {
            Finding::Entry { why: BadEntry::NoSuchInode(_) | BadEntry::Free(_), .. } => Some(1),
            Finding::Duplicate { .. } => Some(2),
            Finding::BadAddress { .. } => Some(3),
            Finding::UnmarkedInode { .. } | Finding::UnmarkedZones { .. } => Some(4),
            Finding::WrongLinks { stored, right, .. } if stored < right => Some(5),
            Finding::Entry { .. } | Finding::DirectorySize { .. } | Finding::BadDots { .. } => {
                Some(6)
            }
            Finding::DirectoryTwice { .. } => Some(7),
            _ => None,
        }
    }

    fn nature(&self) -> Nature {
        match self {
            Finding::Nameless { .. } | Finding::Leaked { .. } | Finding::BehindEnd { .. } => {
                Nature::Leak
            }
            Finding::WrongLinks { stored, right, .. } if stored > right => Nature::HighCount,
            Finding::UnmarkedInode { .. } | Finding::UnmarkedZones { .. } => Nature::Maps,
            Finding::WrongParent { .. } | Finding::DirectoryTwice { .. } => Nature::TwoParents,
            _ => Nature::Other,
        }
    }
}
