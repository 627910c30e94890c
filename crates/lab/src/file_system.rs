//! Shared by the generated file systems: requests for single blocks, in order, behind a buffer
//! cache.

use crate::trace::{Action, Record};
use seekless_engine::units::BlockNr;
use std::collections::VecDeque;
use std::ops::Range;

/// Blocks of a cylinder group of the Fast File System: 16 cylinders of an HP97560.
pub(crate) const GROUP_BLOCKS: u64 = 2736;

/// Requests that are generated and not sent.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    queue: VecDeque<(Action, BlockNr)>,
    reads: u64,
    writes: u64,
    /// The blocks of inodes that the buffer cache holds, the oldest first, and how many it may.
    cached: VecDeque<BlockNr>,
    most: usize,
}

impl Requests {
    /// None yet, with a buffer cache of `most` blocks of inodes.
    pub(crate) fn new(most: usize) -> Requests {
        let (queue, cached) = (VecDeque::new(), VecDeque::new());
        Requests { queue, reads: 0, writes: 0, cached, most }
    }

    /// True if all are sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of reads and writes so far.
    pub(crate) fn made(&self) -> (u64, u64) {
        (self.reads, self.writes)
    }

    /// A request for one block.
    pub(crate) fn push(&mut self, action: Action, at: BlockNr) {
        match action {
            Action::Write => self.writes += 1,
            _ => self.reads += 1,
        }
        self.queue.push_back((action, at));
    }

    /// A request for each of several blocks, in order.
    pub(crate) fn push_all(&mut self, action: Action, blocks: Range<BlockNr>) {
        blocks.for_each(|at| self.push(action, at));
    }

    /// Writes a block of inodes, which is in the cache then.
    pub(crate) fn write_inode(&mut self, at: BlockNr) {
        self.cache(at);
        self.push(Action::Write, at);
    }

    /// Reads a block of inodes, unless it is in the cache.
    pub(crate) fn read_inode(&mut self, at: BlockNr) {
        if !self.cache(at) {
            self.push(Action::Read, at);
        }
    }

    /// The next request.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        let (action, at) = self.queue.pop_front()?;
        Some(Record::of_blocks(action, at, 1))
    }

    /// Puts a block into the cache; true if it was there.
    fn cache(&mut self, at: BlockNr) -> bool {
        let known = self.cached.contains(&at);
        if !known {
            self.cached.push_back(at);
            if self.cached.len() > self.most {
                self.cached.pop_front();
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_read_once_while_the_cache_holds_them() {
        let mut requests = Requests::new(2);
        for at in [1, 2, 1, 3, 2, 1] {
            requests.read_inode(at);
        }
        requests.write_inode(3);
        let asked: Vec<u64> =
            std::iter::from_fn(|| requests.pop()).map(|one| one.sector / 8).collect();
        assert_eq!(asked, [1, 2, 3, 1, 3], "the first in is the first out");
        assert_eq!(requests.made(), (4, 1));
    }
}
