//! The syncer: a wheel with a slot for each second, after which a dirty block is written.
//!
//! Blocks of files are written 30 s after their first change, directories after 29 s, other
//! metadata after 28 s, as in 4.4BSD. A block is in the slot that its buffer names; an entry in
//! another slot is out of date.

use super::Core;
use crate::tx::{BlockNo, PageKind};
use seekless_engine::units::{SECONDS, Time};
use std::collections::BTreeMap;

/// Blocks by the second in which they are due.
#[derive(Debug, Default)]
pub struct Wheel {
    slots: BTreeMap<u64, Vec<BlockNo>>,
}

/// Seconds from the first change of a block to its write.
pub fn age(kind: PageKind) -> u64 {
    match kind {
        PageKind::Data => 30,
        PageKind::Directory => 29,
        PageKind::Bitmap | PageKind::Inodes | PageKind::Indirect => 28,
    }
}

impl Wheel {
    /// Adds a block that was changed at `now`; gives the second in which it is due.
    pub(crate) fn add(&mut self, block: BlockNo, kind: PageKind, now: Time) -> u64 {
        let due = now.div_ceil(SECONDS) + age(kind);
        self.slots.entry(due).or_default().push(block);
        due
    }

    /// When the next slot is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.slots.first_key_value().map(|(second, _)| second * SECONDS)
    }

    /// The next slot, if it is due by `second`.
    fn take(&mut self, second: u64) -> Option<(u64, Vec<BlockNo>)> {
        let entry = self.slots.first_entry().filter(|entry| *entry.key() <= second)?;
        Some(entry.remove_entry())
    }
}

impl Core {
    /// Queues the blocks of which the time has come.
    pub(crate) fn fire_wheel(&mut self, now: Time) {
        while let Some((second, blocks)) = self.wheel.take(now / SECONDS) {
            self.queue_slot(second, &blocks);
        }
    }

    /// Queues everything that is dirty.
    pub(crate) fn queue_all(&mut self) {
        while let Some((second, blocks)) = self.wheel.take(u64::MAX) {
            self.queue_slot(second, &blocks);
        }
    }

    /// Keeps the cache within its limit: evicts, and writes early if too much is dirty.
    pub fn relieve(&mut self) {
        let most = self.options.cache_bytes;
        while self.cache.bytes() > most && self.cache.evict(64) {
            self.stats.evicted += 1;
        }
        let most_dirty = (most / self.shape.block_bytes as u64 / 2).max(1) as usize;
        while self.cache.dirty() > self.output.queue.len() + most_dirty {
            let Some((second, blocks)) = self.wheel.take(u64::MAX) else { return };
            self.queue_slot(second, &blocks);
        }
    }

    /// True if calls should wait until writes complete, because the cache is full of dirty blocks.
    pub fn is_congested(&self) -> bool {
        self.cache.bytes() > self.options.cache_bytes && !self.sent.is_empty()
    }

    fn queue_slot(&mut self, second: u64, blocks: &[BlockNo]) {
        for &block in blocks {
            let Some(slot) = self.cache.find(block) else { continue };
            if self.cache.get(slot).due == second && self.cache.get(slot).dirty != 0 {
                self.queue_write(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_goes_first_and_files_last() {
        let mut wheel = Wheel::default();
        assert_eq!(wheel.deadline(), None);
        assert_eq!(wheel.add(1, PageKind::Data, 1), 31);
        assert_eq!(wheel.add(2, PageKind::Directory, 1), 30);
        assert_eq!(wheel.add(3, PageKind::Inodes, SECONDS), 29);
        assert_eq!(wheel.deadline(), Some(29 * SECONDS));
        assert_eq!(wheel.take(28), None);
        assert_eq!(wheel.take(30), Some((29, vec![3])));
        assert_eq!(wheel.take(30), Some((30, vec![2])));
        assert_eq!(wheel.take(30), None);
    }
}
