//! A workload like that of `/usr/spool/news` on a time-sharing machine: the requests of a file
//! system to its disk, behind the buffer cache.
//!
//! Synthetic, because the trace of the Loge paper (section 7.1.1, claims L23 and L24) is not
//! available. It has the properties that the paper and its time name. Half of the requests write.
//! The volume is cut into cylinder groups as the Fast File System does, each with blocks of inodes,
//! of directories, and data; a newsgroup is a directory in a group of its own. An article that
//! arrives writes its inode, its directory and its data, one to three blocks behind each other.
//! Each article replaces the oldest one of the newsgroup, whose inode and data blocks are reused. A
//! reader picks a newsgroup and reads some of its articles, younger ones more often: the inode,
//! unless the cache has its block, and the data in order. Batches of articles arrive together, as
//! news do. Requests have no times: the next one follows the answer.

use crate::file_system::{GROUP_BLOCKS, Requests};
use crate::trace::{Action, Record};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

/// Fewest blocks of a volume of news.
pub const FEWEST_BLOCKS: u64 = 4096;
/// Of each 64 blocks of a group one has inodes, and two of each group have directories.
const INODE_SHARE: u64 = 64;
/// Most blocks of an article; their mean is 1.6.
const MOST_OF_ARTICLE: u64 = 3;
/// Most articles that arrive in a batch, and that a reader reads.
const BATCH: u64 = 16;
const SITTING: u64 = 24;
/// Inode blocks that the buffer cache holds.
const CACHED: usize = 400;

/// A newsgroup: a ring of slots for articles in its cylinder group.
#[derive(Clone, Debug)]
struct Newsgroup {
    /// First block of the group.
    at: BlockNr,
    /// Slots of [`MOST_OF_ARTICLE`] blocks, and the one that is used next.
    slots: u64,
    next: u64,
}

/// A stream of requests.
#[derive(Clone, Debug)]
pub struct News {
    rng: Rng,
    groups: Vec<Newsgroup>,
    requests: Requests,
}

impl News {
    /// News on a volume of `blocks` blocks.
    ///
    /// # Panics
    /// If there are fewer than [`FEWEST_BLOCKS`].
    pub fn new(blocks: u64, seed: u64) -> News {
        assert!(blocks >= FEWEST_BLOCKS, "news on {blocks} blocks");
        let mut rng = Rng::stream(seed, "news");
        let size = GROUP_BLOCKS.min(blocks / 4);
        let metadata = size / INODE_SHARE + 2;
        let slots = (size - metadata) / MOST_OF_ARTICLE;
        let group = |number: u64| Newsgroup { at: number * size, slots, next: rng.below(slots) };
        let groups = (0..blocks / size).map(group).collect();
        News { rng, groups, requests: Requests::new(CACHED) }
    }

    fn size(&self) -> u64 {
        self.groups.get(1).map_or(GROUP_BLOCKS, |group| group.at)
    }

    fn inode(&self, group: usize, slot: u64) -> BlockNr {
        let Newsgroup { at, slots, .. } = self.groups[group];
        at + slot * (self.size() / INODE_SHARE) / slots
    }

    fn directory(&self, group: usize, slot: u64) -> BlockNr {
        self.groups[group].at + self.size() / INODE_SHARE + slot % 2
    }

    /// Where the data of an article lies, and how many blocks: its slot decides.
    fn data(&self, group: usize, slot: u64) -> (BlockNr, u64) {
        let at = self.groups[group].at + self.size() / INODE_SHARE + 2 + slot * MOST_OF_ARTICLE;
        let length = match slot * 7 % 10 {
            0..6 => 1,
            6..8 => 2,
            _ => 3,
        };
        (at, length)
    }

    /// A batch of articles, each for any newsgroup.
    fn arrive(&mut self) {
        for _ in 0..=self.rng.below(BATCH) {
            let group = self.rng.below(self.groups.len() as u64) as usize;
            let slot = self.groups[group].next;
            self.groups[group].next = (slot + 1) % self.groups[group].slots;
            let (at, count) = self.data(group, slot);
            let (inode, directory) = (self.inode(group, slot), self.directory(group, slot));
            // The file system writes metadata at once, in order, and data a block at a time.
            self.requests.write_inode(inode);
            self.requests.push(Action::Write, directory);
            self.requests.push_all(Action::Write, at..at + count);
        }
    }

    /// A reader of one newsgroup: articles in order, younger ones more often.
    fn sit(&mut self) {
        let group = self.rng.below(self.groups.len() as u64) as usize;
        let Newsgroup { slots, next, .. } = self.groups[group];
        let age = self.rng.below(slots).min(self.rng.below(slots));
        let first = next + slots - 1 - age;
        for step in 0..=self.rng.below(SITTING) {
            let slot = (first + step) % slots;
            let inode = self.inode(group, slot);
            self.requests.read_inode(inode);
            let (at, count) = self.data(group, slot);
            self.requests.push_all(Action::Read, at..at + count);
        }
    }
}

impl Iterator for News {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.requests.is_empty() {
            let (reads, writes) = self.requests.made();
            if writes <= reads { self.arrive() } else { self.sit() }
        }
        self.requests.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::BLOCK_SECTORS;

    #[test]
    fn half_of_the_requests_write_and_all_stay_in_the_volume() {
        for blocks in [FEWEST_BLOCKS, 100_000] {
            let mut writes = 0;
            for record in News::new(blocks, 3).take(20_000) {
                assert!(record.sector + record.sectors <= blocks * BLOCK_SECTORS);
                writes += u32::from(record.action == Action::Write);
            }
            assert!((9_000..11_000).contains(&writes), "{writes}");
        }
    }
}
