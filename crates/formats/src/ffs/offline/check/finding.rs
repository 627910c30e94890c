//! What check finds: one value for each kind of damage, with its severity.

use crate::error::FsError;
use crate::ffs::ondisk::geometry::{Fragment, Place};
use crate::ffs::ondisk::seal::SealKind;
use crate::report::{Journal, Severity};
use seekless_fs::log::LogError;
use std::fmt;

/// Findings that one check keeps; it stops there.
pub const MOST_FINDINGS: usize = 16_384;

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// In an inode: 0 to 11 direct, 12 to 14 indirect.
    Inode(u32, usize),
    /// In an indirect block.
    Indirect(Place),
}

/// How much an address leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Fragments.
    pub fragments: u32,
    /// 0 for a block of the file, 1 to 3 for an indirect block.
    pub level: u32,
}

/// Which bitmap of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bitmap {
    /// That of the inodes.
    Inodes,
    /// That of the fragments.
    Fragments,
}

/// Something that check found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Finding {
    #[error("the superblock is damaged; the copy at byte {at} is whole")]
    Superblock { at: u64 },
    #[error("{damage}; at most {lost} operations behind it are lost")]
    Log { damage: LogError, lost: u64 },
    #[error("the copy of the superblock in block {block} of the volume is damaged")]
    Spare { block: u64 },
    #[error("the copy of the superblock in group {group} is damaged")]
    Copy { group: u32 },
    #[error(
        "{} sector at block {}, byte {}: the seal is bad",
        .kind.name(),
        .place.block,
        .place.at
    )]
    Sector { kind: SealKind, place: Place, first: Option<u32> },
    #[error("group {group}: {stored} inodes count as initialised, {right} are")]
    Initialised { group: u32, stored: u32, right: u32 },
    #[error("the inode of the log, or an address of it, is not what the superblock says")]
    LogFile,
    #[error("inode {ino}: mode {mode:#o} or size {size} is impossible")]
    BadInode { ino: u32, mode: u16, size: u64 },
    #[error("inode {ino}: {size} bytes are more than a file can have")]
    TooLarge { ino: u32, size: u64 },
    #[error("inode {ino}: block {index} has the impossible address {address}")]
    BadAddress { ino: u32, index: u64, address: Fragment, slot: Slot },
    #[error("inode {ino}: block {index} at {address} also belongs to inode {other}")]
    Duplicate { ino: u32, index: u64, address: Fragment, span: Span, slot: Slot, other: u32 },
    #[error("inode {ino}: block {index} at {address} lies behind the end of the file")]
    PastEnd { ino: u32, index: u64, address: Fragment, slot: Slot },
    #[error("inode {ino}: the addresses of bytes {from} to {to} are damaged, which read as zeros")]
    Addresses { ino: u32, place: Place, from: u64, to: u64 },
    #[error("inode {ino}: counts {stored} sectors, has {right}")]
    WrongSectors { ino: u32, stored: u32, right: u32 },
    #[error("directory {ino}: block {index} is missing")]
    DirectoryHole { ino: u32, index: u64 },
    #[error("the root directory is missing")]
    NoRoot,
    #[error("directory {dir}: the entries of chunk {chunk} do not fill it")]
    BadChunk { dir: u32, chunk: u64, place: Place },
    #[error("directory {dir}: `.` or `..` is missing or wrong")]
    BadDots { dir: u32, place: Place },
    #[error("directory {dir}: the name {} is impossible", text(.name))]
    BadName { dir: u32, name: Vec<u8>, place: Place },
    #[error("directory {dir}: there are two entries {}", text(.name))]
    NameTwice { dir: u32, name: Vec<u8>, place: Place },
    #[error("directory {dir}: {} leads to inode {ino}, which is not in use", text(.name))]
    EntryToFree { dir: u32, name: Vec<u8>, ino: u32, place: Place },
    #[error("directory {dir}: {} is a second name of directory {ino}", text(.name))]
    DirectoryTwice { dir: u32, name: Vec<u8>, ino: u32, place: Place },
    #[error("directory {dir}: the type of {} is not that of inode {ino}", text(.name))]
    WrongType { dir: u32, name: Vec<u8>, ino: u32, place: Place },
    #[error("directory {ino} is its own ancestor")]
    Cycle { ino: u32, parent: u32 },
    #[error("directory {ino}: `..` leads to {stored}, its parent is {right}")]
    WrongParent { ino: u32, stored: u32, right: u32 },
    #[error("inode {ino} is in use, has no name, and holds nothing to keep")]
    Leaked { ino: u32 },
    #[error("inode {ino} has no name")]
    Nameless { ino: u32 },
    #[error("inode {ino}: counts {stored} links, has {right}")]
    WrongLinks { ino: u32, stored: u16, right: u16 },
    #[error("group {group}: the header is damaged")]
    BadHeader { group: u32 },
    #[error(
        "group {group}: {lost} used {} are marked free and {leaked} free ones used, first {first}",
        match .what { Bitmap::Inodes => "inodes", Bitmap::Fragments => "fragments" }
    )]
    WrongBits { group: u32, what: Bitmap, lost: u32, leaked: u32, first: u32 },
    #[error("group {group}: the counters are wrong")]
    WrongCounters { group: u32 },
}

/// A name for people.
fn text(name: &[u8]) -> String {
    format!("\"{}\"", name.escape_ascii())
}

impl Finding {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        use Finding as F;
        match self {
            F::PastEnd { .. }
            | F::WrongSectors { .. }
            | F::Leaked { .. }
            | F::Nameless { .. }
            | F::WrongCounters { .. }
            | F::WrongBits { lost: 0, .. } => Severity::Harmless,
            F::WrongLinks { stored, right, .. } if stored > right => Severity::Harmless,
            F::Initialised { stored, right, .. } if stored < right => Severity::Harmless,
            F::Superblock { .. }
            | F::Spare { .. }
            | F::Copy { .. }
            | F::LogFile
            | F::Initialised { .. }
            | F::Sector { kind: SealKind::Superblock | SealKind::Map, .. }
            | F::BadHeader { .. }
            | F::WrongBits { .. }
            | F::WrongType { .. }
            | F::WrongLinks { .. }
            | F::WrongParent { .. }
            | F::DirectoryTwice { .. } => Severity::Repairable,
            _ => Severity::Fatal,
        }
    }

    /// The invariant of crash states that it breaks (`docs`: I1 to I9); none for damage that the
    /// list does not name.
    pub fn invariant(&self) -> Option<u8> {
        use Finding as F;
        match self {
            F::EntryToFree { .. } => Some(1),
            F::Duplicate { .. } => Some(2),
            F::BadAddress { .. } => Some(3),
            F::WrongBits { lost, .. } if *lost > 0 => Some(4),
            F::WrongLinks { stored, right, .. } if stored < right => Some(5),
            F::BadChunk { .. }
            | F::BadDots { .. }
            | F::BadName { .. }
            | F::NameTwice { .. }
            | F::DirectoryHole { .. }
            | F::NoRoot => Some(6),
            F::Cycle { .. } | F::DirectoryTwice { .. } => Some(7),
            _ => None,
        }
    }

    /// The phase of the check that finds it: 0 superblocks, 1 inodes and blocks, 2 names, 3
    /// connectivity, 4 counts, 5 maps. Repair goes from phase to phase.
    pub fn phase(&self) -> u8 {
        use Finding as F;
        match self {
            F::Superblock { .. } | F::Log { .. } | F::Spare { .. } | F::Copy { .. } => 0,
            F::Sector { kind: SealKind::Map, .. }
            | F::BadHeader { .. }
            | F::WrongBits { .. }
            | F::WrongCounters { .. } => 5,
            F::Sector { kind: SealKind::Directory, .. }
            | F::BadChunk { .. }
            | F::BadDots { .. }
            | F::BadName { .. }
            | F::NameTwice { .. }
            | F::EntryToFree { .. }
            | F::DirectoryTwice { .. }
            | F::WrongType { .. } => 2,
            F::Cycle { .. } | F::WrongParent { .. } | F::Leaked { .. } | F::Nameless { .. } => 3,
            F::WrongLinks { .. } => 4,
            _ => 1,
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// What was found, phase by phase.
    pub list: Vec<Finding>,
    /// True if there were more than [`MOST_FINDINGS`], and later phases did not run.
    pub cut: bool,
    /// True if the last unmount was clean.
    pub unmounted: bool,
    /// True if it was not, and a mount brings in place what is not, from a log that is whole.
    pub recovers: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Data fragments in use.
    pub fragments: u64,
    /// Whole copies of the superblock, the first one included.
    pub superblocks: u32,
    /// What the log holds that is not in place, if there is a log. It was seen in place.
    pub journal: Option<Journal>,
}

impl Findings {
    /// True if nothing was found. The file system may still be marked as in use.
    pub fn is_clean(&self) -> bool {
        self.list.is_empty()
    }

    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.list.iter().map(Finding::severity).max()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.list {
            writeln!(f, "{}: {finding}", finding.severity().name())?;
        }
        if self.cut {
            writeln!(f, "there are more findings; repair finds them")?;
        }
        let Findings { inodes, directories, fragments, list, .. } = self;
        write!(
            f,
            "{inodes} inodes, {directories} directories, {fragments} fragments, {} findings",
            list.len()
        )
    }
}

/// Collects findings up to the limit.
#[derive(Debug, Default)]
pub(super) struct Collector {
    pub list: Vec<Finding>,
    pub cut: bool,
}

impl Collector {
    /// Adds a finding, or notes that there are too many.
    pub fn add(&mut self, finding: Finding) {
        if self.list.len() < MOST_FINDINGS {
            self.list.push(finding);
        } else {
            self.cut = true;
        }
    }
}

/// Shorthand of the modules of check.
pub(super) type Outcome<T = ()> = Result<T, FsError>;
