//! What check knows of the file system: who claims which fragment, and each inode in short.
//!
//! Memory: one bit for each fragment, eight bytes for each initialised inode, and some words for
//! each directory.

use super::finding::{Bitmap, Slot};
use crate::ffs::journal::held::{FRAGMENTS, Held};
use crate::ffs::ondisk::geometry::{Fragment, Geometry, Place};
use seekless_fs::call::FileKind;
use seekless_fs::log::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An inode in short.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brief {
    /// Its kind; none if it is free, or counts as free because it is damaged.
    pub kind: Option<FileKind>,
    /// True if it has content: repair keeps it when it has no name.
    pub has_content: bool,
    /// Links that it counts.
    pub links: u16,
    /// Entries that lead to it, `.` and `..` left out.
    pub names: u16,
}

/// What is known of a directory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Folder {
    /// The inode of `..`; 0 if it cannot be read.
    pub dotdot: u32,
    /// The directory with the entry that leads here; 0 if there is none.
    pub parent: u32,
    /// Where that entry stands.
    pub named: Place,
    /// Its count of renames.
    pub moves: u8,
    /// Directories whose parent this is.
    pub children: u32,
    /// Entries except `.` and `..`.
    pub entries: u32,
}

/// What the log leaves to the next mount. It is no damage.
#[derive(Debug)]
pub(crate) struct Open {
    /// Space that is marked as used and has no owner: what it is, its first number, and the one
    /// behind its last.
    spaces: BTreeMap<(bool, u32), u32>,
    /// Inodes that have no name and are to be freed.
    orphans: BTreeSet<u32>,
}

impl Open {
    /// What a log leaves.
    pub fn new(held: &Held) -> Open {
        let space =
            |&(what, first, count): &Space| ((what == FRAGMENTS, first), first + u32::from(count));
        Open {
            spaces: held.intents.iter().map(space).collect(),
            orphans: held.orphans.iter().copied().collect(),
        }
    }

    fn has(&self, are_fragments: bool, number: u32) -> bool {
        let before = self.spaces.range((are_fragments, 0)..=(are_fragments, number)).next_back();
        before.is_some_and(|(_, &end)| number < end)
    }

    /// True if an inode may be in use, or marked as such, and have no name.
    pub fn has_inode(&self, ino: u32) -> bool {
        self.orphans.contains(&ino) || self.has(false, ino)
    }

    /// Those of 64 things from `first` on that may be marked as used: of the fragments, or of the
    /// inodes.
    pub fn word(&self, what: Bitmap, first: u32, of: u64) -> u64 {
        let may_be = |bit: u32| match what {
            Bitmap::Fragments => self.has(true, first + bit),
            Bitmap::Inodes => self.has_inode(first + bit),
        };
        let bits = (0..64).filter(|bit| of >> bit & 1 == 1);
        bits.filter(|&bit| may_be(bit)).fold(0, |word, bit| word | 1 << bit)
    }
}

/// All that check knows.
#[derive(Debug)]
pub(crate) struct Known {
    per_group: u32,
    /// Initialised inodes of each group; a damaged mark is replaced by the right one.
    pub marks: Vec<u32>,
    briefs: Vec<Vec<Brief>>,
    claims: Vec<u64>,
    /// Directories by inode.
    pub folders: BTreeMap<u32, Folder>,
    /// Addresses that count as 0.
    pub rejected: BTreeSet<Slot>,
    /// What the log leaves to the next mount, if the file system was left with one.
    pub open: Option<Open>,
}

impl Known {
    /// Nothing yet.
    pub fn new(geometry: &Geometry) -> Known {
        Known {
            per_group: geometry.sizes().inodes_per_group,
            marks: Vec::new(),
            briefs: Vec::new(),
            claims: vec![0; (geometry.fragments() as usize).div_ceil(64)],
            folders: BTreeMap::new(),
            rejected: BTreeSet::new(),
            open: None,
        }
    }

    /// Adds the next group, with so many initialised inodes.
    pub fn add_group(&mut self, initialised: u32) {
        self.marks.push(initialised);
        self.briefs.push(vec![Brief::default(); initialised as usize]);
    }

    /// Raises the mark of a group: its next inodes are initialised, and free.
    pub fn raise_mark(&mut self, group: u32, initialised: u32) {
        self.marks[group as usize] = initialised;
        self.briefs[group as usize].resize(initialised as usize, Brief::default());
    }

    /// An inode in short; none if its number is impossible or behind the mark of its group.
    pub fn brief(&self, ino: u32) -> Option<&Brief> {
        let group = self.briefs.get((ino / self.per_group) as usize)?;
        group.get((ino % self.per_group) as usize)
    }

    /// The same, to be changed.
    pub fn brief_mut(&mut self, ino: u32) -> Option<&mut Brief> {
        let group = self.briefs.get_mut((ino / self.per_group) as usize)?;
        group.get_mut((ino % self.per_group) as usize)
    }

    /// The kind of an inode in use.
    pub fn kind(&self, ino: u32) -> Option<FileKind> {
        self.brief(ino).and_then(|brief| brief.kind)
    }

    /// All inodes in use, in order.
    pub fn in_use(&self) -> impl Iterator<Item = (u32, &Brief)> {
        let numbered = (0_u32..).zip(&self.briefs);
        numbered.flat_map(|(group, briefs)| {
            let first = group * self.per_group;
            (first..).zip(briefs).filter(|(_, brief)| brief.kind.is_some())
        })
    }

    /// True if an inode without a name is left to the next mount.
    pub fn is_left(&self, ino: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.has_inode(ino))
    }

    /// True if a file or the metadata of the group has the fragment.
    pub fn is_claimed(&self, fragment: Fragment) -> bool {
        self.claims[fragment as usize / 64] >> (fragment % 64) & 1 == 1
    }

    /// One bit for each of the 64 fragments from this one on: 1 if it is claimed.
    pub fn claimed_word(&self, first: Fragment) -> u64 {
        let (index, shift) = (first as usize / 64, first % 64);
        let low = self.claims[index] >> shift;
        match self.claims.get(index + 1) {
            Some(high) if shift > 0 => low | high << (64 - shift),
            _ => low,
        }
    }

    /// Initialised inodes of one group from a number on, at most `most`.
    pub fn inodes_from(&self, first: u32, most: u32) -> &[Brief] {
        let group = &self.briefs[(first / self.per_group) as usize];
        let from = ((first % self.per_group) as usize).min(group.len());
        &group[from..(from + most as usize).min(group.len())]
    }

    /// Claims fragments; none if one of them has an owner.
    pub fn claim(&mut self, range: Range<Fragment>) -> bool {
        if range.clone().any(|fragment| self.is_claimed(fragment)) {
            return false;
        }
        for fragment in range {
            self.claims[fragment as usize / 64] |= 1 << (fragment % 64);
        }
        true
    }

    /// Fragments that are claimed.
    pub fn claimed(&self) -> u64 {
        self.claims.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
