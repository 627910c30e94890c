//! The syncer: a wheel with a slot for each second, after which a dirty block is written.
//!
//! Blocks of files are written 30 s after their first change, directories after 29 s, other
//! metadata after 28 s, as in 4.4BSD; [`super::CoreOptions::write_age_s`] sets another age. A block
//! is in the slot that its buffer names; an entry in another slot is out of date.

use super::cache::Slot;
use super::{Core, WRITE_AGES_S};
use crate::cow::CowMap;
use crate::tx::{BlockNo, PageKind};
use seekless_engine::units::{SECONDS, Time};

/// Blocks by the second in which they are due, and in the order in which they came.
#[derive(Clone, Debug)]
pub struct Wheel {
    /// Seconds from the first change of a file's content to its write.
    age_s: u64,
    blocks: CowMap<(u64, u64), BlockNo>,
    /// Blocks that have come so far.
    count: u64,
    /// The last second in which one of them was ever due.
    latest: u64,
}

impl Wheel {
    /// An empty wheel: content of a file is due `age_s` seconds after its first change.
    ///
    /// # Panics
    /// If the age is not one of [`WRITE_AGES_S`].
    pub(crate) fn new(age_s: u64) -> Wheel {
        assert!(WRITE_AGES_S.contains(&age_s), "a write after {age_s} s");
        Wheel { age_s, blocks: CowMap::default(), count: 0, latest: 0 }
    }

    /// Seconds from the first change of a block to its write.
    fn age_s(&self, kind: PageKind) -> u64 {
        match kind {
            PageKind::Data => self.age_s,
            PageKind::Directory => self.age_s - 1,
            PageKind::Bitmap | PageKind::Inodes | PageKind::Indirect => self.age_s - 2,
        }
    }

    /// Adds a block that was changed at `now`; gives the second in which it is due.
    pub(crate) fn add(&mut self, block: BlockNo, kind: PageKind, now: Time) -> u64 {
        self.add_due(block, now.div_ceil(SECONDS) + self.age_s(kind))
    }

    fn add_due(&mut self, block: BlockNo, due: u64) -> u64 {
        self.latest = self.latest.max(due);
        self.count += 1;
        self.blocks.insert((due, self.count), block);
        due
    }

    /// Makes clones cheap.
    pub(crate) fn share(&mut self) {
        self.blocks.share(|_| {});
    }

    /// Adds a block that was written and stays dirty: behind all others, which it may wait for.
    fn add_last(&mut self, block: BlockNo, kind: PageKind, now: Time) -> u64 {
        self.add_due(block, self.latest.max(now.div_ceil(SECONDS) + self.age_s(kind)))
    }

    /// When the next slot is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.blocks.first().map(|(&(second, _), _)| second * SECONDS)
    }

    /// The next block, and the second in which it is due.
    fn take_one(&mut self) -> Option<(u64, BlockNo)> {
        self.blocks.pop_first().map(|((due, _), block)| (due, block))
    }

    /// The next slot, if it is due by `second`.
    fn take(&mut self, second: u64) -> Option<(u64, Vec<BlockNo>)> {
        let first = self.blocks.first().map(|one| one.0.0).filter(|&first| first <= second)?;
        let mut blocks = Vec::new();
        while self.blocks.first().is_some_and(|one| one.0.0 == first) {
            blocks.extend(self.blocks.pop_first().map(|one| one.1));
        }
        Some((first, blocks))
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

    /// Queues the blocks that have been dirty for the longest time, so many of them.
    pub(crate) fn queue_oldest(&mut self, most: u64) {
        let mut queued = 0;
        while queued < most
            && let Some((due, block)) = self.wheel.take_one()
        {
            let Some(slot) = self.cache.find(block) else { continue };
            if self.cache.get(slot).due == due && self.cache.get(slot).dirty != 0 {
                self.queue_write(slot);
                queued += 1;
            }
        }
    }

    /// Keeps the cache within its limit: evicts, and writes early if too much is dirty.
    pub fn relieve(&mut self) {
        let most = self.options.cache_bytes;
        while self.cache.bytes() > most && self.cache.evict(64) {
            self.stats.evicted += 1;
        }
        self.relieve_policy();
        let two_blocks = 2 * self.shape.block_bytes as u64;
        // No division: this runs before each call.
        let is_much = |dirty: usize| dirty > 1 && dirty as u64 * two_blocks > most;
        let sent = |core: &Core| core.output.queue.len() + core.logged.blocks();
        while is_much(self.cache.dirty().saturating_sub(sent(self))) {
            let Some((second, blocks)) = self.wheel.take(u64::MAX) else { return };
            self.queue_slot(second, &blocks);
        }
    }

    /// Keeps what the policy remembers within its limit: the oldest blocks are written early, so
    /// that what waits for them is forgotten.
    fn relieve_policy(&mut self) {
        let load = self.policy.load();
        self.stats.most_guards = self.stats.most_guards.max(load as u64);
        let most = self.most_guards;
        // One slot when all of the last one are sent: what is kept back would come again before the
        // classes that are written last. None while writes wait for a flush to be ordered: that
        // comes when all that is queued is written.
        if load > most - most / 5
            && self.output.queue.is_empty()
            && !self.barriers.orders()
            && let Some((second, blocks)) = self.wheel.take(u64::MAX)
        {
            self.queue_slot(second, &blocks);
        }
    }

    /// True if calls should wait until writes complete, because the cache is full of dirty blocks.
    pub fn is_congested(&self) -> bool {
        let is_full = self.cache.bytes() > self.options.cache_bytes || self.is_nvram_full();
        is_full && !self.sent.is_empty()
    }

    /// True if calls that change something should wait, because the policy remembers as much as it
    /// may. Without a write under way they need not: nothing would change. What frees space must
    /// not wait: the policy remembers that, too.
    pub fn is_policy_full(&self) -> bool {
        self.policy.load() > self.most_guards && !self.sent.is_empty()
    }

    /// A buffer that was written stays dirty: it is due again later.
    pub(crate) fn cool(&mut self, slot: Slot, now: Time) {
        let buffer = self.cache.get_mut(slot);
        buffer.due = self.wheel.add_last(buffer.block, buffer.kind, now);
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
        let mut wheel = Wheel::new(30);
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

    #[test]
    fn the_age_can_be_chosen() {
        let mut wheel = Wheel::new(3);
        assert_eq!(wheel.add(1, PageKind::Data, 1), 4);
        assert_eq!(wheel.add(2, PageKind::Bitmap, 1), 2);
    }
}
