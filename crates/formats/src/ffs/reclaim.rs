//! Reclaim while mounted: after a crash under soft updates, finds space, inodes and links in use
//! that no name leads to, and frees them.
//!
//! A pass goes through the groups in parts. Of each part it *takes* as candidates the bits that are
//! in use, then reads the *names* of all directories, then visits all *inodes*, and at last frees
//! the *space* that no inode has. It runs in bounded steps between the calls
//! ([`seekless_fs::mounted`]).
//!
//! Operations go on meanwhile, so candidates only become fewer. What an operation allocates never
//! becomes one, because its bit was free. What an operation frees is dropped, because the disk may
//! still lead to it. An inode whose names an operation has changed keeps its count in this pass. If
//! that was not found right in an earlier pass, another one follows.
//! The inodes keep what they have in use, named or not: an inode without a name is deleted in the
//! usual way, and gives up its blocks itself. So a fragment is freed only if nothing on the disk
//! has led to it since the crash, and a crash in the midst leaves no more than leaks.
//!
//! Another pass follows while one has left something out. What an inode had is gone from the disk
//! before the next pass takes candidates: it waits until nothing that was freed is owed.
//!
//! A directory may have two names. A program sees both, so they stay for a repair. Where one of
//! them is gone `..` is made to lead to the directory of the other one.
//!
//! Memory: one bit for each inode; one bit for each fragment, two bits and four bytes for each
//! inode of a part; and some 50 bytes for each directory that stands before its parent in the
//! table. A part has as many groups as fit into 64 MiB, which is all of a file system below 90 GB.

mod hooks;
mod inodes;
mod marks;
mod names;
mod space;
#[cfg(test)]
mod tests;
mod walk;

use crate::ffs::ondisk::geometry::Geometry;
use crate::ffs::volume::Volume;
use marks::{Marks, Names};
use seekless_fs::call::Ino;
use seekless_fs::cow::{CowMap, CowSet};
use seekless_fs::tx::{Stop, Tx};
use std::ops::Range;

/// Bytes that the marks of one part take at most, unless one group takes more.
const MOST_BYTES: u64 = 64 << 20;
/// Blocks of metadata that a step reads at most.
const STEP_PAGES: usize = 24;

/// What a pass does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Takes candidates.
    Take,
    /// Reads directories.
    Names,
    /// Visits inodes.
    Inodes,
    /// Frees space.
    Space,
    /// Nothing is left.
    Done,
}

/// What a reclaim has freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Passes that have come to their end.
    pub passes: u64,
    /// Fragments that no inode had.
    pub fragments: u64,
    /// Inodes without a name, and numbers of inodes that nothing had used.
    pub inodes: u64,
    /// Links that no name accounted for, of inodes that stay.
    pub links: u64,
}

/// How far the visit of one inode has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Visit {
    /// The block of the file where it goes on.
    at: u64,
    /// What it has counted so far: fragments, or directories in a directory.
    count: u64,
}

/// A reclaim that is under way.
#[derive(Clone, Debug)]
pub struct Reclaim {
    stage: Stage,
    /// The groups of this part.
    part: Range<u32>,
    /// The group or the inode that is next.
    next: u32,
    visit: Visit,
    /// The inode that a visit of several steps is at. An operation that changes its space or, of a
    /// directory, its names disturbs the visit.
    watched: Option<Ino>,
    disturbed: bool,
    /// Bytes of marks of a part at most.
    most_bytes: u64,
    /// Something was left to another pass.
    again: bool,
    /// Fragments that were in use and that no inode is known to have.
    fragments: Marks,
    /// Fragments of the file of the log: the superblock says that they are in use.
    log: Range<u32>,
    /// Inodes that were in use.
    inodes: Marks,
    /// Inodes whose names an operation has changed.
    touched: Marks,
    /// Inodes whose links were right at a time, or were made so: operations keep them right.
    exact: Marks,
    /// A directory without a name goes, and with it names of others.
    names_go: bool,
    /// Names of each inode.
    names: Names,
    /// Directories with more links than their own two and those of the directories in them, and how
    /// many.
    surplus: CowMap<u32, u32>,
    /// Directories of which `..` leads elsewhere than to the parent, as far as that is known.
    ups: CowMap<u32, u32>,
    /// This pass has found a directory with two names.
    two_names: bool,
    /// Inodes that have lost their last name since the mount and are not deleted yet.
    unnamed: CowSet<Ino>,
    /// Numbers of directories that are free in memory, but not for use yet.
    leaving: CowSet<u32>,
    done: Reclaimed,
}

impl Reclaim {
    /// A reclaim that has to begin.
    pub fn new(geometry: &Geometry) -> Reclaim {
        Reclaim::in_parts(geometry, MOST_BYTES)
    }

    /// The same in parts that have marks of so many bytes at most, or one group.
    pub(crate) fn in_parts(geometry: &Geometry, most_bytes: u64) -> Reclaim {
        let none = || Marks::new(0..0);
        let mut reclaim = Reclaim {
            stage: Stage::Take,
            part: 0..0,
            next: 0,
            visit: Visit::default(),
            watched: None,
            disturbed: false,
            most_bytes,
            again: false,
            fragments: none(),
            log: 0..0,
            inodes: none(),
            touched: none(),
            exact: Marks::new(0..geometry.inodes()),
            names_go: false,
            names: Names::new(0..0),
            ups: CowMap::default(),
            surplus: CowMap::default(),
            two_names: false,
            unnamed: CowSet::default(),
            leaving: CowSet::default(),
            done: Reclaimed::default(),
        };
        reclaim.begin_part(geometry, 0);
        reclaim
    }

    /// The same with a log in a file, which has these fragments whatever its inode says.
    pub fn with_log(self, log: Range<u32>) -> Reclaim {
        Reclaim { log, ..self }
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.fragments.share();
        self.inodes.share();
        self.touched.share();
        self.exact.share();
        self.names.share();
        self.surplus.share(|_| {});
        self.ups.share(|_| {});
        self.unnamed.share();
        self.leaving.share();
    }

    /// What was freed so far.
    pub fn done(&self) -> Reclaimed {
        self.done
    }

    /// True if nothing is left to be freed.
    pub fn is_complete(&self) -> bool {
        self.stage == Stage::Done
    }

    /// True if a directory has two names, which a rename leaves that a crash cuts off. A program
    /// sees both, so neither goes while the file system is mounted: a repair drops the older one.
    pub fn leaves_two_names(&self) -> bool {
        self.two_names
    }

    /// True if the next step waits until nothing that was freed is owed.
    pub fn waits_for_frees(&self) -> bool {
        self.stage == Stage::Take
    }

    /// Begins with the groups from one on, as many as the bytes of their marks allow.
    fn begin_part(&mut self, geometry: &Geometry, first: u32) {
        let bytes = |group: u32| {
            let inodes = u64::from(geometry.sizes().inodes_per_group);
            (u64::from(geometry.group_fragments(group)) + 34 * inodes) / 8
        };
        let (mut end, mut sum) = (first, 0);
        while end < geometry.groups() && (end == first || sum + bytes(end) <= self.most_bytes) {
            sum += bytes(end);
            end += 1;
        }
        let starts = |group: u32| match group < geometry.groups() {
            true => geometry.group_start(group),
            false => geometry.fragments(),
        };
        let each = geometry.sizes().inodes_per_group;
        let inodes = first * each..end * each;
        self.fragments = Marks::new(starts(first)..starts(end));
        self.inodes = Marks::new(inodes.clone());
        self.touched = Marks::new(inodes.clone());
        self.names = Names::new(inodes);
        self.surplus.clear();
        self.ups.clear();
        self.part = first..end;
        self.begin(Stage::Take, first);
    }

    /// Begins a stage.
    fn begin(&mut self, stage: Stage, next: u32) {
        (self.stage, self.next) = (stage, next);
        self.visit = Visit::default();
    }

    /// The groups of this part are done: goes on with the next ones, another pass, or nothing.
    fn end_part(&mut self, geometry: &Geometry) {
        if std::mem::take(&mut self.names_go) {
            self.exact = Marks::new(0..geometry.inodes());
        }
        if self.part.end < geometry.groups() {
            self.begin_part(geometry, self.part.end);
            return;
        }
        self.done.passes += 1;
        if std::mem::take(&mut self.again) {
            self.two_names = false;
            self.begin_part(geometry, 0);
        } else {
            self.begin(Stage::Done, 0);
        }
    }
}

/// Runs one step of the reclaim that is under way. Returns an inode that has no name, and is to be
/// deleted when no one refers to it.
///
/// # Errors
/// Those of [`Tx::page`]. After an error other than a missing block the reclaim must end: what a
/// damaged block holds may lead to anything.
pub(crate) fn step(tx: &mut dyn Tx, vol: &mut Volume) -> Result<Option<Ino>, Stop> {
    let Some(reclaim) = &vol.reclaim else { return Ok(None) };
    match reclaim.stage {
        Stage::Take => space::take(tx, vol).map(|()| None),
        Stage::Names => names::step(tx, vol).map(|()| None),
        Stage::Inodes => inodes::step(tx, vol),
        Stage::Space => space::step(tx, vol).map(|()| None),
        Stage::Done => Ok(None),
    }
}

/// The reclaim that is under way: a step of it runs.
fn of(vol: &mut Volume) -> &mut Reclaim {
    vol.reclaim.as_mut().expect("a step runs only while a reclaim is under way")
}
