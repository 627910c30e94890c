//! What a check of a file system finds, and what a repair did, whatever the format.

use std::fmt::{self, Debug, Display};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A crash may leave it under every policy: leaks, counts too high, counters.
    Harmless,
    /// Repair restores it and loses nothing that a name leads to.
    Repairable,
    /// Repair loses names or content.
    Fatal,
}

impl Severity {
    /// The word in messages.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Harmless => "harmless",
            Severity::Repairable => "repairable",
            Severity::Fatal => "fatal",
        }
    }
}

/// What kind of damage a finding is, as far as contracts tell kinds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Nature {
    /// Space or an inode is in use and nothing leads to it.
    Leak,
    /// A count of links is too high.
    HighCount,
    /// Something in use is marked as free.
    Maps,
    /// A directory has two names, or its `..` leads elsewhere.
    TwoParents,
    /// Anything else.
    Other,
}

/// Something that a check found; its text tells what and where.
pub trait Finding: Debug + Display + Send {
    /// How bad it is.
    fn severity(&self) -> Severity;

    /// The phase of the check, from 1 on.
    fn phase(&self) -> u8;

    /// The number of the invariant of the format that it breaks, if it has one.
    fn invariant(&self) -> Option<u8>;

    /// What kind of damage it is.
    fn nature(&self) -> Nature;
}

/// What the log of a file system holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Whole groups: an operation each.
    pub groups: u64,
    /// Whole groups that do not count: no superblock of the log names them.
    pub unnamed: u64,
    /// Sectors of metadata that they change.
    pub sectors: u64,
    /// Pieces of space that are still to be freed.
    pub intents: u64,
    /// Inodes without a name that are still to be freed.
    pub orphans: u64,
    /// What is wrong with it.
    pub damage: Option<String>,
    /// Operations that are lost by that at most.
    pub lost: u64,
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Journal { groups, unnamed, sectors, intents, orphans, damage, lost } = self;
        write!(f, "the log holds {groups} operations on {sectors} sectors")?;
        if *unnamed > 0 {
            write!(f, ", and {unnamed} behind its last superblock, which do not count")?;
        }
        if intents + orphans > 0 {
            write!(f, ", {intents} pieces of space and {orphans} inodes are to be freed")?;
        }
        if let Some(damage) = damage {
            write!(f, "; {damage}, so at most {lost} operations behind it are lost")?;
        }
        Ok(())
    }
}

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// What was found, phase by phase.
    pub list: Vec<Box<dyn Finding>>,
    /// True if there were more findings than a check lists, and later phases did not run.
    pub cut: bool,
    /// True if the last unmount was clean.
    pub unmounted: bool,
    /// True if it was not, and a mount brings in place what is not, from a log that is whole.
    pub recovers: bool,
    /// Inodes in use.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Units of data in use: fragments or blocks.
    pub fragments: u64,
    /// Whole copies of the superblock, the first one included.
    pub superblocks: u32,
    /// What the log holds that is not in place, if there is a log. The check sees it in place.
    pub journal: Option<Journal>,
}

impl Checked {
    /// True if nothing was found. The file system may still be marked as in use.
    pub fn is_clean(&self) -> bool {
        self.list.is_empty()
    }

    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.list.iter().map(|one| one.severity()).max()
    }
}

/// Neighbouring bytes of a file that are neighbours on the volume, too, or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub file: u64,
    /// Bytes.
    pub length: u64,
    /// Offset on the volume; none for a hole.
    pub volume: Option<u64>,
}

/// What a repair did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The findings that were repaired, in the order in which this was done.
    pub list: Vec<Box<dyn Finding>>,
    /// What files have lost, a sentence each, with their paths.
    pub lost: Vec<String>,
    /// True if the superblock said that the file system was in use, and says now that it is clean.
    pub marked_clean: bool,
    /// What the log held, which was applied first.
    pub journal: Option<Journal>,
}
