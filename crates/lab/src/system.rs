//! A workload like that of a system disk with the root file system and swap space: its requests
//! behind the buffer cache, two reads for each write.
//!
//! Synthetic, because the trace of the Loge paper (section 7.1.2, claim L25) is not available. The
//! lower third of the volume is the root file system, divided into cylinder groups. The start of a
//! program reads its inode, unless that is cached, and its file in order; popular programs start
//! more often. At times the update daemon writes a burst of inodes and bitmaps, most of them of a
//! small hot set, and a user saves a small file. The rest is swap space, a range for each process.
//! Pages are written in clusters and read back one by one, not always all of them. Requests have no
//! times: the next one follows the answer.

use crate::file_system::{GROUP_BLOCKS, Requests};
use crate::trace::{Action, Record};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

/// Fewest blocks of a volume.
pub const FEWEST_BLOCKS: u64 = 4096;
/// Programs, and most blocks of one.
const PROGRAMS: u64 = 400;
const MOST_OF_PROGRAM: u64 = 24;
/// Inode blocks that the buffer cache holds.
const CACHED: usize = 150;
/// Blocks of metadata that most updates go to.
const HOT: u64 = 60;
/// Processes in swap space, blocks of each, and most pages written together.
const PROCESSES: u64 = 48;
const PROCESS_BLOCKS: u64 = 512;
const CLUSTER: u64 = 8;

/// A stream of requests.
#[derive(Clone, Debug)]
pub struct System {
    rng: Rng,
    blocks: u64,
    requests: Requests,
}

impl System {
    /// A system disk with a volume of `blocks` blocks.
    ///
    /// # Panics
    /// If there are fewer than [`FEWEST_BLOCKS`].
    pub fn new(blocks: u64, seed: u64) -> System {
        assert!(blocks >= FEWEST_BLOCKS, "a system disk of {blocks} blocks");
        System { rng: Rng::stream(seed, "system"), blocks, requests: Requests::new(CACHED) }
    }

    /// Blocks of the root file system.
    fn root(&self) -> u64 {
        self.blocks / 3
    }

    /// A block of metadata: at the start of one of the cylinder groups.
    fn metadata(&self, number: u64) -> BlockNr {
        let size = GROUP_BLOCKS.min(self.root());
        let groups = self.root() / size;
        number % groups * size + number / groups % (size / 32)
    }

    /// Address of a program or a file; each has its own, scattered over the groups.
    fn file(&self, number: u64) -> BlockNr {
        let slots = self.root() / MOST_OF_PROGRAM;
        number * 7919 % slots * MOST_OF_PROGRAM
    }

    /// Popular numbers below `limit` come more often.
    fn popular(&mut self, limit: u64) -> u64 {
        let (a, b) = (self.rng.below(limit), self.rng.below(limit));
        a.min(b).min(self.rng.below(limit))
    }

    /// A program is started: its inode, and all of it in order.
    fn start_program(&mut self) {
        let program = self.popular(PROGRAMS);
        let inode = self.metadata(program);
        self.requests.read_inode(inode);
        let at = self.file(program);
        self.requests.push_all(Action::Read, at..at + 1 + program * 5 % MOST_OF_PROGRAM);
    }

    /// The update daemon writes out what has changed, and perhaps a small file with it.
    fn update(&mut self) {
        for _ in 0..5 + self.rng.below(6) {
            let number =
                if self.rng.chance(0.8) { self.popular(HOT) } else { self.rng.below(PROGRAMS) };
            let at = self.metadata(number);
            self.requests.write_inode(at);
        }
        if self.rng.chance(0.4) {
            let number = PROGRAMS + self.rng.below(PROGRAMS);
            let at = self.file(number);
            self.requests.push_all(Action::Write, at..at + 1 + self.rng.below(4));
        }
    }

    /// A cluster of a process in swap space, and the number of its pages to use.
    fn pages(&mut self) -> (BlockNr, u64) {
        let stretch = ((self.blocks - self.root()) / PROCESSES).min(PROCESS_BLOCKS);
        let process = self.rng.below(PROCESSES);
        let cluster = self.rng.below(stretch / CLUSTER) * CLUSTER;
        (self.root() + process * stretch + cluster, 1 + self.rng.below(CLUSTER))
    }

    fn swap(&mut self, action: Action) {
        let (at, count) = self.pages();
        self.requests.push_all(action, at..at + count);
    }
}

impl Iterator for System {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.requests.is_empty() {
            let swaps = self.rng.chance(0.4);
            let (reads, writes) = self.requests.made();
            match (2 * writes <= reads, swaps) {
                (true, true) => self.swap(Action::Write),
                (true, false) => self.update(),
                (false, true) => self.swap(Action::Read),
                (false, false) => self.start_program(),
            }
        }
        self.requests.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::BLOCK_SECTORS;

    #[test]
    fn a_third_of_the_requests_write_and_all_stay_in_the_volume() {
        for blocks in [FEWEST_BLOCKS, 300_000] {
            let mut writes = 0;
            for record in System::new(blocks, 3).take(30_000) {
                assert!(record.sector + record.sectors <= blocks * BLOCK_SECTORS);
                writes += u32::from(record.action == Action::Write);
            }
            assert!((9_000..11_000).contains(&writes), "{writes}");
        }
    }
}
