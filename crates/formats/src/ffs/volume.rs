//! What the operations of FFS know in memory: group summaries, name indexes, parents.
//!
//! All of it can be recomputed from the disk. An operation that stops must leave it as it was, as
//! the transaction does with blocks: each change is kept with its inverse until the end of the
//! operation. So the caller of an operation ends it with exactly one of [`Volume::commit`] (it
//! succeeded) and [`Volume::roll_back`] (it stopped, for whatever reason).

use crate::error::FsError;
use crate::ffs::names::paths::Paths;
use crate::ffs::ondisk::format::{Optimisation, Superblock};
use crate::ffs::ondisk::geometry::Geometry;
use crate::ffs::reclaim::Reclaim;
use crate::tree::index::Names;
use seekless_fs::call::{Errno, Ino};
use seekless_fs::cow::{CowMap, CowSet, Part};
use seekless_fs::tx::{Field, Need, Stop, Why};

/// Directories of which the parent is kept in memory, at most; about 50 bytes each.
const MOST_PARENTS: usize = 1 << 20;

/// The summary of a cylinder group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Blocks of which each fragment is free.
    pub free_blocks: u32,
    /// Free fragments in blocks of which some are in use.
    pub free_fragments: u32,
    /// Runs of exactly this many free fragments in blocks of which some are in use.
    pub runs: [u32; 8],
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub directories: u32,
    /// Where the search for a block begins: a fragment of the group.
    pub block_rotor: u32,
    /// Where the search for fragments begins, likewise.
    pub fragment_rotor: u32,
    /// Where the search for an inode begins: an inode of the group.
    pub inode_rotor: u32,
    /// Inodes of which the table is initialised.
    pub initialised: u32,
    /// Directories among the first `recounted_to` inodes, as a reclaim has counted them.
    pub recounted: u32,
    /// How far a reclaim has counted.
    pub recounted_to: u32,
}

impl Group {
    /// Free fragments, those of free blocks included.
    pub fn free(&self, fragments_per_block: u32) -> u64 {
        u64::from(self.free_blocks) * u64::from(fragments_per_block)
            + u64::from(self.free_fragments)
    }
}

/// The inverse of a change.
#[derive(Clone, Debug)]
enum Undo {
    Group(u32, Group),
    Name { dir: Ino, hash: u32, at: u64, present: bool },
    Room { dir: Ino, chunk: u32, room: u16 },
    Index(Ino),
    Covered { dir: Ino, blocks: u64 },
    Parent(Ino, Option<Ino>),
    Owed(Owed),
    Moves(Ino),
    Body(Ino),
    Arrives(Ino, Option<Arriving>),
    Leaves(Departure),
    Left(u32),
}

/// A name that goes from the disk when another one has come: directory, hash, and a number that
/// tells it from others.
pub type Departure = (Ino, u32, u32);

/// Where the name of a directory stands, and how many of its names the disk does not know yet.
type Arriving = (Field, u32);

/// Space that is free for users but not on the disk yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// Fragments.
    pub fragments: u64,
    /// Inodes.
    pub inodes: u64,
}

/// A mounted FFS, as its operations see it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Where things are.
    pub geometry: Geometry,
    /// Percent of the space that only root may use.
    pub minfree: u32,
    /// Blocks of a cluster.
    pub maxcontig: u32,
    /// Blocks that one file allocates in a group before it moves on.
    pub maxbpg: u32,
    /// Whether a growing tail gets a whole block or exactly what it needs.
    pub optimisation: Optimisation,
    /// What a sync of one file needs to know.
    pub paths: Paths,
    groups: Part<Vec<Group>>,
    /// Fragments for data and indirect blocks.
    data: u64,
    /// Free fragments of all groups together.
    free: u64,
    owed: Owed,
    /// What changes of inodes in this operation need on the disk before.
    needs: Vec<(Ino, Need)>,
    /// What finds leaks while mounted, if a crash may have left some.
    pub(crate) reclaim: Option<Box<Reclaim>>,
    /// Names that were removed, until they have gone from the disk.
    leaving: CowMap<Departure, Field>,
    /// Counts them.
    departures: u32,
    /// Where the names of directories stand that may not be on the disk yet.
    arriving: CowMap<Ino, Arriving>,
    /// Directories that have moved, and how many of their old names may still be on the disk.
    moving: CowMap<Ino, u32>,
    /// Directories that have grown, or moved their tails, and how often since the disk knew.
    unsettled: CowMap<Ino, u32>,
    /// Files may have addresses behind their end, which a crash has left.
    follows_crash: bool,
    /// All names were read since then, and no directory has two.
    have_one_name: bool,
    /// Those of them that have none.
    have_no_more: CowSet<Ino>,
    /// Groups of which the header on disk is behind.
    stale: CowSet<u32>,
    /// A group has no run of so many free blocks, as far as a search has shown.
    no_run: Part<Vec<u32>>,
    /// Groups with damaged maps, of which nothing is free.
    closed: CowSet<u32>,
    names: Names,
    parents: CowMap<Ino, Ino>,
    undo: Vec<Undo>,
}

impl Volume {
    /// A volume of which no group is loaded yet; [`load`](crate::ffs::space::alloc::group::load)
    /// loads one.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the sizes contradict each other.
    pub fn new(superblock: &Superblock) -> Result<Volume, FsError> {
        let geometry = superblock.geometry()?;
        let data = (0..geometry.groups()).map(|g| u64::from(geometry.data_fragments(g))).sum();
        Ok(Volume {
            data,
            groups: Part::new(vec![Group::default(); geometry.groups() as usize]),
            no_run: Part::new(vec![u32::MAX; geometry.groups() as usize]),
            geometry,
            minfree: u32::from(superblock.minfree),
            maxcontig: superblock.maxcontig.max(1),
            maxbpg: superblock.maxbpg.max(1),
            optimisation: superblock.optimisation,
            free: 0,
            owed: Owed::default(),
            needs: Vec::new(),
            reclaim: None,
            leaving: CowMap::default(),
            departures: 0,
            arriving: CowMap::default(),
            moving: CowMap::default(),
            unsettled: CowMap::default(),
            follows_crash: false,
            have_one_name: false,
            have_no_more: CowSet::default(),
            paths: Paths::default(),
            stale: CowSet::default(),
            closed: CowSet::default(),
            names: Names::default(),
            parents: CowMap::default(),
            undo: Vec::new(),
        })
    }

    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.paths.share();
        self.groups.share(|_| {});
        self.no_run.share(|_| {});
        self.stale.share();
        self.closed.share();
        self.names.share();
        self.parents.share(|_| {});
        self.arriving.share(|_| {});
        self.leaving.share(|_| {});
        self.moving.share(|_| {});
        self.unsettled.share(|_| {});
        self.have_no_more.share();
        self.reclaim.iter_mut().for_each(|reclaim| reclaim.share());
    }

    /// Puts the summary of a group in place, at mount.
    pub fn set_group(&mut self, group: u32, summary: Group) {
        self.replace_group(group, summary);
    }

    /// Takes a group out of use of whose table so many inodes are initialised. No operation is
    /// under way.
    pub fn close_group(&mut self, group: u32, initialised: u32) {
        self.replace_group(group, Group { initialised, ..Group::default() });
        self.closed.insert(group);
        self.stale.remove(&group);
    }

    /// Groups that are out of use because their maps are damaged.
    pub fn closed(&self) -> &CowSet<u32> {
        &self.closed
    }

    /// True if the maps of a group must not be touched.
    pub fn is_closed(&self, group: u32) -> bool {
        !self.closed.is_empty() && self.closed.contains(&group)
    }

    /// Space that is still to be freed.
    pub fn owed(&self) -> Owed {
        self.owed
    }

    /// Changes what is still to be freed.
    pub fn change_owed(&mut self, change: impl FnOnce(&mut Owed)) {
        self.undo.push(Undo::Owed(self.owed));
        change(&mut self.owed);
    }

    /// The number of the inode of a directory is free.
    pub fn left_directory(&mut self, ino: u32) {
        if self.has_left_directory(ino) {
            self.undo.push(Undo::Left(ino));
        }
    }

    /// The next change of an inode needs this on the disk before.
    pub fn need(&mut self, ino: Ino, need: Need) {
        self.needs.push((ino, need));
    }

    /// True if the next change of an inode needs content at its new place.
    pub fn needs_moved(&self, ino: Ino) -> bool {
        self.needs.iter().any(|(of, need)| *of == ino && need.why == Why::Moved)
    }

    /// A name of a directory has been removed, and stands there on the disk until it is written.
    pub fn leaves(&mut self, dir: Ino, hash: u32, field: Field) -> Departure {
        self.departures = self.departures.wrapping_add(1);
        let departure = (dir, hash, self.departures);
        self.leaving.insert(departure, field);
        self.undo.push(Undo::Leaves(departure));
        departure
    }

    /// A removed name has gone from the disk.
    pub fn has_left(&mut self, departure: Departure) {
        self.leaving.remove(&departure);
    }

    /// Where names of a directory with this hash stand that may not have gone from the disk.
    pub fn leaving(&self, dir: Ino, hash: u32) -> impl Iterator<Item = Field> {
        self.leaving.range((dir, hash, 0)..=(dir, hash, u32::MAX)).map(|one| *one.1)
    }

    /// Where names of a directory stand that may not have gone from the disk.
    pub fn leaving_from(&self, dir: Ino) -> impl Iterator<Item = Field> {
        self.leaving.range((dir, 0, 0)..=(dir, u32::MAX, u32::MAX)).map(|one| *one.1)
    }

    /// A directory has moved: its old name goes from the disk later.
    pub fn moves(&mut self, dir: Ino) {
        self.moving.update(dir, || 0, |names| *names += 1);
        self.undo.push(Undo::Moves(dir));
    }

    /// An old name of a directory has gone from the disk.
    pub fn has_moved(&mut self, dir: Ino) {
        lower(&mut self.moving, dir);
    }

    /// The disk does not know yet where a directory has its names.
    pub fn unsettle(&mut self, dir: Ino) {
        self.unsettled.update(dir, || 0, |changes| *changes += 1);
        self.undo.push(Undo::Body(dir));
    }

    /// The disk knows of one more change of where a directory has its names.
    pub fn settle(&mut self, dir: Ino) {
        lower(&mut self.unsettled, dir);
    }

    /// True if the disk may not know where a directory has its names.
    pub fn is_unsettled(&self, dir: Ino) -> bool {
        self.unsettled.contains_key(&dir)
    }

    /// True if old names of some directories may still be on the disk.
    pub fn are_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// True if an old name of a directory may still be on the disk.
    pub fn is_moving(&self, dir: Ino) -> bool {
        self.moving.contains_key(&dir)
    }

    /// The volume was not unmounted, and no check has looked at it.
    pub fn follows_crash(&mut self) {
        self.follows_crash = true;
    }

    /// True if a directory may have two names, which a rename leaves that a crash cuts off.
    pub fn may_have_two_names(&self) -> bool {
        self.follows_crash && !self.have_one_name
    }

    /// No directory has two names, as all names were read.
    pub fn have_one_name(&mut self) {
        self.have_one_name = true;
    }

    /// True if a file may have addresses behind its end.
    pub fn may_have_more(&self, ino: Ino) -> bool {
        self.follows_crash && !self.have_no_more.contains(&ino)
    }

    /// A file has no addresses behind its end.
    pub fn has_no_more(&mut self, ino: Ino) {
        self.have_no_more.insert(ino);
    }

    /// A directory has a new name, which stands there.
    pub fn arrives(&mut self, dir: Ino, field: Field) {
        let before = self.arriving.get(&dir).copied();
        self.undo.push(Undo::Arrives(dir, before));
        self.arriving.insert(dir, (field, before.map_or(1, |(_, names)| names + 1)));
    }

    /// The disk knows one more name of a directory.
    pub fn has_arrived(&mut self, dir: Ino) {
        match self.arriving.get(&dir).copied() {
            Some((field, names @ 2..)) => {
                self.arriving.insert(dir, (field, names - 1));
            }
            Some(_) => {
                self.arriving.remove(&dir);
            }
            None => {}
        }
    }

    /// Where the name of a directory stands, if it may not be on the disk.
    pub fn arriving(&self, dir: Ino) -> Option<Field> {
        self.arriving.get(&dir).map(|one| one.0)
    }

    /// True if no directory has a name that may not be on the disk.
    pub fn all_arrived(&self) -> bool {
        self.arriving.is_empty()
    }

    /// Takes what changes of an inode need.
    pub fn take_needs(&mut self, ino: Ino) -> Vec<Need> {
        let (these, others) =
            std::mem::take(&mut self.needs).into_iter().partition(|(of, _)| *of == ino);
        self.needs = others;
        let these: Vec<(Ino, Need)> = these;
        these.into_iter().map(|(_, need)| need).collect()
    }

    /// The operation has succeeded: its changes stand.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.needs.clear();
        self.names.trim();
        if self.parents.len() > MOST_PARENTS {
            self.parents.clear();
        }
    }

    /// The operation has stopped: its changes are undone.
    pub fn roll_back(&mut self) {
        self.needs.clear();
        while let Some(undo) = self.undo.pop() {
            self.undo_one(undo);
        }
    }

    fn undo_one(&mut self, undo: Undo) {
        match undo {
            Undo::Group(group, old) => {
                self.replace_group(group, old);
            }
            Undo::Owed(old) => self.owed = old,
            Undo::Moves(dir) => self.has_moved(dir),
            Undo::Body(dir) => self.settle(dir),
            Undo::Leaves(departure) => self.has_left(departure),
            Undo::Left(ino) => self.leaves_directory(ino),
            Undo::Arrives(dir, Some(before)) => {
                self.arriving.insert(dir, before);
            }
            Undo::Arrives(dir, None) => {
                self.arriving.remove(&dir);
            }
            Undo::Index(dir) => self.names.drop_index(dir),
            Undo::Name { dir, hash, at, present } => {
                if let Some(index) = self.names.get(dir) {
                    index.set_name(hash, at, present);
                }
            }
            Undo::Room { dir, chunk, room } => {
                if let Some(index) = self.names.get(dir) {
                    index.set_room(chunk, room);
                }
            }
            Undo::Covered { dir, blocks } => {
                if let Some(index) = self.names.get(dir) {
                    index.covered = blocks;
                }
            }
            Undo::Parent(dir, Some(parent)) => {
                self.parents.insert(dir, parent);
            }
            Undo::Parent(dir, None) => {
                self.parents.remove(&dir);
            }
        }
    }

    /// True if the operation under way has changed something in memory.
    pub fn has_changes(&self) -> bool {
        !self.undo.is_empty()
    }

    /// The summaries of all groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The summary of a group.
    pub fn group(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    fn replace_group(&mut self, group: u32, new: Group) -> Group {
        let per_block = self.geometry.fragments_per_block();
        let old = std::mem::replace(&mut self.groups.make_mut()[group as usize], new);
        if new.free_blocks > old.free_blocks {
            self.no_run.make_mut()[group as usize] = u32::MAX;
        }
        self.free = self.free + new.free(per_block) - old.free(per_block);
        old
    }

    /// Changes the summary of a group.
    pub fn change_group(&mut self, group: u32, change: impl FnOnce(&mut Group)) {
        let mut new = self.groups[group as usize];
        change(&mut new);
        let old = self.replace_group(group, new);
        self.undo.push(Undo::Group(group, old));
        self.stale.insert(group);
    }

    /// False if a group has no run of so many free blocks.
    pub fn may_have_run(&self, group: u32, blocks: u32) -> bool {
        blocks < self.no_run[group as usize]
    }

    /// Notes that a search of a whole group has found no run of so many free blocks. The note goes
    /// when a block of the group becomes free.
    pub fn has_no_run(&mut self, group: u32, blocks: u32) {
        let least = &mut self.no_run.make_mut()[group as usize];
        *least = blocks.min(*least);
    }

    /// A group of which the header on disk is behind its summary.
    pub fn stale_group(&self) -> Option<u32> {
        self.stale.first().copied()
    }

    /// The header of a group is behind its maps.
    pub fn is_behind(&mut self, group: u32) {
        self.stale.insert(group);
    }

    /// The header of this group was stored.
    pub fn stored(&mut self, group: u32) {
        self.stale.remove(&group);
    }

    /// Free fragments in all groups.
    pub fn free_fragments(&self) -> u64 {
        self.free
    }

    /// Fragments for data and indirect blocks, used and free.
    pub fn data_fragments(&self) -> u64 {
        self.data
    }

    /// Fragments that only root may use.
    pub fn reserve(&self) -> u64 {
        self.data * u64::from(self.minfree) / 100
    }

    /// Name indexes; changes of names and rooms go through [`Volume::set_name`] and
    /// [`Volume::set_room`].
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// Notes in the index of a directory, if there is one, that a name came or went.
    pub fn set_name(&mut self, dir: Ino, hash: u32, at: u64, present: bool) {
        if let Some(index) = self.names.get(dir) {
            index.set_name(hash, at, present);
            self.names.grown(usize::from(present));
            self.undo.push(Undo::Name { dir, hash, at, present: !present });
        }
    }

    /// Notes the room of a chunk in the index of its directory, if there is one.
    pub fn set_room(&mut self, dir: Ino, chunk: u32, room: u16) {
        if let Some(index) = self.names.get(dir) {
            let old = index.set_room(chunk, room);
            self.undo.push(Undo::Room { dir, chunk, room: old });
        }
    }

    /// Notes that the index of a directory covers a block more.
    pub fn set_covered(&mut self, dir: Ino, blocks: u64) {
        if let Some(index) = self.names.get(dir) {
            let old = std::mem::replace(&mut index.covered, blocks);
            self.undo.push(Undo::Covered { dir, blocks: old });
        }
    }

    /// The parent of a directory, if it is known.
    pub fn parent(&self, dir: Ino) -> Option<Ino> {
        self.parents.get(&dir).copied()
    }

    /// Notes the parent of a directory, as the disk has it. If the operation has changed nothing
    /// yet, what it learns stays though it stops.
    pub fn learn_parent(&mut self, dir: Ino, parent: Ino) {
        if self.has_changes() {
            self.set_parent(dir, Some(parent));
        } else {
            self.parents.insert(dir, parent);
        }
    }

    /// Prepares an index for building. If the operation has changed something, the index goes
    /// when that is undone, for it may have seen the changes.
    pub fn build_index(&mut self, dir: Ino) {
        if self.has_changes() {
            self.undo.push(Undo::Index(dir));
        }
    }

    /// Notes a changed parent of a directory, or that the directory is gone.
    pub fn set_parent(&mut self, dir: Ino, parent: Option<Ino>) {
        let old = match parent {
            Some(parent) => self.parents.insert(dir, parent),
            None => self.parents.remove(&dir),
        };
        if old != parent {
            self.undo.push(Undo::Parent(dir, old));
        }
    }

    /// Checks the number of an inode.
    ///
    /// # Errors
    /// [`Errno::Stale`] if there is no such inode.
    pub fn number(&self, ino: Ino) -> Result<u32, Stop> {
        let most = u64::from(self.geometry.inodes());
        if ino < seekless_fs::call::ROOT || ino >= most {
            return Err(Errno::Stale.into());
        }
        Ok(ino as u32)
    }
}

/// Takes one from a count; a count of 0 is no entry.
fn lower(counts: &mut CowMap<Ino, u32>, of: Ino) {
    let left = counts.update(
        of,
        || 1,
        |count| {
            *count = count.saturating_sub(1);
            *count
        },
    );
    if left == 0 {
        counts.remove(&of);
    }
}
