//! What else a sync of one file has to write: directories that got a name of it, and inodes that
//! gave up blocks that it uses.
//!
//! An entry stays until a sync has made it durable. An operation that stops leaves its entries:
//! an entry too many costs a write, one that is missing could cost a file. If there are too many,
//! all are dropped, and the next sync writes everything.

use crate::ffs::ondisk::geometry::Fragment;
use seekless_fs::call::Ino;
use seekless_fs::cow::CowMap;
use seekless_fs::tx::BlockNo;
use smallvec::SmallVec;

/// Entries of one kind at most, about 50 bytes each.
const MOST: usize = 1 << 18;

/// Inodes in one entry at most.
const MOST_INODES: usize = 16;

/// An inode that may still claim fragments on the volume that it gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loser {
    /// The inode.
    pub ino: Ino,
    /// Their addresses may stand in its indirect blocks, too.
    pub deep: bool,
}

/// Inodes that may still claim the same fragments.
type Losers = SmallVec<[Loser; 2]>;

/// What an inode needs besides its own blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Directories that got or lost a name of it.
    pub dirs: SmallVec<[Ino; 1]>,
    /// Inodes that may still claim blocks of it on the volume.
    pub losers: Losers,
    stamp: u64,
}

/// Changes of names and owners that may not be durable yet.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The stamp of a new entry. It rises with each sync.
    clock: u64,
    needs: CowMap<Ino, Needs>,
    /// Freed fragments: how many from here on, the inodes that had them, and the stamp.
    freed: CowMap<Fragment, (u32, Losers, u64)>,
    /// Groups of which the table of inodes has grown.
    grown: CowMap<u32, u64>,
    /// Blocks to which the tail of a directory has moved: the directory, and the stamp.
    bodies: CowMap<BlockNo, (Ino, u64)>,
    /// When a directory was renamed last: names below it may depend on that.
    moved: Option<u64>,
    /// When entries were dropped last.
    dropped: Option<u64>,
}

/// A sync under way: what is durable at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    clock: u64,
    /// Everything up to the clock; otherwise the entries of these inodes.
    pub all: bool,
    /// Inodes with blocks and path.
    pub inodes: Vec<Ino>,
    /// Groups with their headers.
    pub groups: Vec<u32>,
}

/// Adds what is not in a list; gives the length of the list.
fn add<A: smallvec::Array<Item: PartialEq>>(list: &mut SmallVec<A>, one: A::Item) -> usize {
    if !list.contains(&one) {
        list.push(one);
    }
    list.len()
}

impl Paths {
    /// Makes clones cheap.
    pub fn share(&mut self) {
        self.needs.share(|_| {});
        self.freed.share(|_| {});
        self.grown.share(|_| {});
        self.bodies.share(|_| {});
    }

    /// A directory got or lost a name of an inode.
    pub fn named(&mut self, ino: Ino, dir: Ino) {
        self.note(ino, |needs| add(&mut needs.dirs, dir));
    }

    /// A directory was renamed.
    pub fn moved(&mut self) {
        self.moved = Some(self.clock);
    }

    /// The tail of a directory has moved to a block. Its inode may share a block with others that
    /// a sync writes; then the names at the old place are lost unless this block is there.
    pub fn body(&mut self, block: BlockNo, dir: Ino) {
        self.bodies.insert(block, (dir, self.clock));
    }

    /// Blocks to which tails of directories have moved.
    pub fn bodies(&self) -> impl Iterator<Item = (BlockNo, Ino)> {
        self.bodies.iter().map(|(&block, &(dir, _))| (block, dir))
    }

    /// A block is on the volume.
    pub fn wrote_body(&mut self, block: BlockNo) {
        self.bodies.remove(&block);
    }

    /// The table of inodes of a group has grown.
    pub fn grown(&mut self, group: u32) {
        self.grown.insert(group, self.clock);
    }

    /// An inode gave up fragments of one block.
    pub fn freed(&mut self, loser: Loser, at: Fragment, count: u32) {
        let mut losers = Losers::from_slice(&[loser]);
        if let Some((longer, others, stamp)) = self.freed.remove(&at) {
            // One of them may have had the fragments before the others, at another address.
            others.iter().for_each(|&other| _ = add(&mut losers, other));
            if longer > count {
                self.freed.update(at + count, || (longer - count, others, stamp), |_| {});
            }
        }
        self.freed.insert(at, (count, losers, self.clock));
        if self.freed.len() > MOST {
            self.drop_all();
        }
    }

    /// An inode got fragments of one block of `per_block` fragments.
    pub fn claimed(&mut self, ino: Ino, at: Fragment, count: u32, per_block: u32) {
        if self.freed.is_empty() {
            return;
        }
        let first = at - at % per_block;
        let losers: SmallVec<[Loser; 4]> = self
            .freed
            .range(first..at + count)
            .filter(|&(&from, &(length, ..))| from + length > at)
            .flat_map(|(_, (_, losers, _))| losers.iter().copied())
            .filter(|other| other.ino != ino)
            .collect();
        for loser in losers {
            // What the loser had taken itself may have an older owner on the volume.
            let older = self.needs.get(&loser.ino).map(|needs| needs.losers.clone());
            for other in older.unwrap_or_default().into_iter().chain([loser]) {
                if other.ino != ino {
                    self.note(ino, |needs| add(&mut needs.losers, other));
                }
            }
        }
    }

    /// Adds to an entry; `add` gives the length of the list.
    fn note(&mut self, ino: Ino, add: impl FnOnce(&mut Needs) -> usize) {
        let clock = self.clock;
        let count = self.needs.update(ino, Needs::default, |needs| {
            needs.stamp = clock;
            add(needs)
        });
        if count > MOST_INODES || self.needs.len() > MOST {
            self.drop_all();
        }
    }

    fn drop_all(&mut self) {
        self.needs.clear();
        self.freed.clear();
        self.dropped = Some(self.clock);
    }

    /// What an inode needs.
    pub fn of(&self, ino: Ino) -> Option<&Needs> {
        self.needs.get(&ino)
    }

    /// True if the header of a group must go with its inodes.
    pub fn has_grown(&self, group: u32) -> bool {
        self.grown.contains_key(&group)
    }

    /// True if entries were dropped: only a sync of everything is sure.
    pub fn is_unknown(&self) -> bool {
        self.dropped.is_some()
    }

    /// True if a directory was renamed, so that a file without an entry may have a new path.
    pub fn has_moved(&self) -> bool {
        self.moved.is_some()
    }

    /// The inodes of which a directory got a name.
    pub fn names_in(&self, dir: Ino) -> impl Iterator<Item = Ino> {
        self.needs.iter().filter(move |one| one.1.dirs.contains(&dir)).map(|one| *one.0)
    }

    /// Begins a sync: entries of later changes survive it.
    pub fn begin(&mut self, all: bool, inodes: Vec<Ino>, groups: Vec<u32>) -> Mark {
        self.clock += 1;
        Mark { clock: self.clock - 1, all, inodes, groups }
    }

    /// A sync is complete.
    pub fn end(&mut self, mark: &Mark) {
        let is_new = |stamp: u64| stamp > mark.clock;
        if mark.all {
            self.needs.retain(|_, needs| is_new(needs.stamp));
            self.freed.retain(|_, freed| is_new(freed.2));
            self.grown.retain(|_, stamp| is_new(*stamp));
            self.bodies.retain(|_, body| is_new(body.1));
            self.moved = self.moved.filter(|&stamp| is_new(stamp));
            self.dropped = self.dropped.filter(|&stamp| is_new(stamp));
            return;
        }
        for ino in &mark.inodes {
            if self.needs.get(ino).is_some_and(|needs| !is_new(needs.stamp)) {
                self.needs.remove(ino);
            }
        }
        for group in &mark.groups {
            if self.grown.get(group).is_some_and(|&stamp| !is_new(stamp)) {
                self.grown.remove(group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loser(ino: Ino) -> Loser {
        Loser { ino, deep: false }
    }

    #[test]
    fn a_claim_names_all_former_owners_that_may_be_on_the_volume() {
        let mut paths = Paths::default();
        paths.freed(loser(10), 16, 8);
        paths.freed(loser(11), 16, 2);
        paths.claimed(12, 18, 3, 8);
        assert_eq!(
            paths.of(12).map(|needs| needs.losers.iter().map(|one| one.ino).collect::<Vec<_>>()),
            Some(vec![10])
        );
        paths.claimed(13, 16, 1, 8);
        assert_eq!(
            paths.of(13).map(|needs| needs.losers.iter().map(|one| one.ino).collect::<Vec<_>>()),
            Some(vec![11, 10])
        );
        paths.freed(loser(12), 18, 3);
        paths.claimed(14, 18, 1, 8);
        assert_eq!(
            paths.of(14).map(|needs| needs.losers.iter().map(|one| one.ino).collect::<Vec<_>>()),
            Some(vec![10, 12])
        );
        assert_eq!(paths.of(15), None);
    }

    /// An inode that had fragments twice may claim them on the volume at the first address.
    #[test]
    fn a_former_owner_counts_with_each_address_that_it_had() {
        let mut paths = Paths::default();
        let deep = Loser { ino: 10, deep: true };
        paths.freed(deep, 16, 8);
        paths.claimed(10, 16, 8, 8);
        paths.freed(loser(10), 16, 8);
        paths.claimed(11, 16, 8, 8);
        let losers = |paths: &Paths, ino| paths.of(ino).expect("it has needs").losers.to_vec();
        assert_eq!(losers(&paths, 11), [loser(10), deep]);
        paths.freed(loser(11), 16, 8);
        paths.claimed(10, 16, 8, 8);
        paths.freed(loser(10), 16, 8);
        paths.claimed(12, 16, 8, 8);
        assert!(losers(&paths, 12).contains(&deep), "{:?}", losers(&paths, 12));
    }

    #[test]
    fn a_sync_ends_the_entries_that_it_has_seen() {
        let mut paths = Paths::default();
        paths.named(5, 2);
        paths.named(6, 2);
        let mark = paths.begin(false, vec![5, 6], vec![]);
        paths.named(6, 3);
        paths.end(&mark);
        assert_eq!(paths.names_in(2).collect::<Vec<_>>(), [6]);
        let mark = paths.begin(true, vec![], vec![]);
        paths.moved();
        paths.end(&mark);
        assert!(paths.of(6).is_none() && paths.has_moved());
    }

    #[test]
    fn too_many_entries_make_everything_unknown() {
        let mut paths = Paths::default();
        (0..=MOST as u64).for_each(|ino| paths.named(ino + 3, 2));
        assert!(paths.is_unknown() && paths.of(3).is_none());
        let mark = paths.begin(true, vec![], vec![]);
        paths.end(&mark);
        assert!(!paths.is_unknown());
    }
}
