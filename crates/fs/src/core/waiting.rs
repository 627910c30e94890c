//! Calls that wait: for blocks that are read, for an inode that another call holds, for space.
//!
//! Each queue is first in, first out. A call that stopped goes to the back of the ready queue when
//! what it waited for has come, and runs again from its start.

use super::CallKey;
use crate::call::Ino;
use crate::cow::CowMap;
use seekless_engine::io::IoError;
use std::collections::{BTreeMap, VecDeque};

/// Runs of one call at most. Each run that stops makes progress, because what it missed stays
/// pinned; a call that exceeds this is a defect of its operation. An index of a directory of a GiB
/// is built in as many.
pub const MOST_RUNS: u32 = 8192;

/// Calls that can run, and those that wait for blocks.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    queue: VecDeque<CallKey>,
    missing: CowMap<CallKey, Missing>,
}

/// Blocks that a call waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Missing {
    blocks: usize,
    error: Option<IoError>,
}

impl Ready {
    /// Appends a call.
    pub fn push(&mut self, key: CallKey) {
        self.queue.push_back(key);
    }

    /// The next call.
    pub fn pop(&mut self) -> Option<CallKey> {
        self.queue.pop_front()
    }

    /// Number of calls that can run.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// True if no call can run.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Makes clones cheap.
    pub(crate) fn share(&mut self) {
        self.missing.share(|_| {});
    }

    /// A call waits for so many blocks.
    pub(crate) fn wait(&mut self, key: CallKey, blocks: usize) {
        debug_assert!(blocks > 0, "a call waits for something");
        self.missing.insert(key, Missing { blocks, error: None });
    }

    /// A block has come for a call, or has failed.
    pub(crate) fn arrived(&mut self, key: CallKey, error: Option<IoError>) {
        let missing = self.missing.get_mut(&key).expect("the call waits");
        missing.blocks -= 1;
        missing.error = missing.error.or(error);
        if missing.blocks == 0 {
            if missing.error.is_none() {
                self.missing.remove(&key);
            }
            self.queue.push_back(key);
        }
    }

    /// Why a block that this call waited for could not be read.
    pub fn take_error(&mut self, key: CallKey) -> Option<IoError> {
        if self.missing.is_empty() {
            return None;
        }
        self.missing.remove(&key).and_then(|missing| missing.error)
    }
}

/// Inodes that operations of several steps hold, and calls that wait for them.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    held: BTreeMap<Ino, VecDeque<CallKey>>,
}

impl Locks {
    /// True if an operation holds the inode.
    #[inline]
    pub fn is_held(&self, ino: Ino) -> bool {
        !self.held.is_empty() && self.held.contains_key(&ino)
    }

    /// True if no operation holds any inode.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds an inode.
    pub fn hold(&mut self, ino: Ino) {
        self.held.entry(ino).or_default();
    }

    /// Lets a call wait for an inode that is held.
    pub fn wait(&mut self, ino: Ino, key: CallKey) {
        self.held.entry(ino).or_default().push_back(key);
    }

    /// Lets go of an inode; gives those that waited, in order.
    pub fn release(&mut self, ino: Ino) -> VecDeque<CallKey> {
        self.held.remove(&ino).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_ready_when_its_last_block_has_come() {
        let mut ready = Ready::default();
        ready.wait(3, 2);
        ready.arrived(3, Some(IoError::ReadOnly));
        assert!(ready.is_empty());
        ready.push(9);
        ready.arrived(3, None);
        assert_eq!((ready.pop(), ready.pop(), ready.pop()), (Some(9), Some(3), None));
        assert_eq!(ready.take_error(3), Some(IoError::ReadOnly));
        assert_eq!(ready.take_error(3), None);
    }

    #[test]
    fn those_who_wait_for_an_inode_go_on_in_order() {
        let mut locks = Locks::default();
        locks.hold(5);
        assert!(locks.is_held(5) && !locks.is_held(6));
        locks.wait(5, 1);
        locks.wait(5, 2);
        assert_eq!(locks.release(5), [1, 2]);
        assert!(locks.is_empty());
    }
}
