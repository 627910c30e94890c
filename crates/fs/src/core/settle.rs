//! When written is durable: calls that wait for all changes made before them.
//!
//! Changes belong to epochs. A call that asks for durability ends an epoch and waits until no
//! buffer holds a change of it or of an older one; then a flush follows, then the reply. A change
//! counts from its commit to the completion of the write that carries it. A call for one file waits
//! for writes of its own blocks only.

use super::failure::Lost;
use super::page::Mask;
use super::{CallKey, Core, Ordering, Sent};
use crate::policy::guard::Manifest;
use crate::tx::BlockNo;
use seekless_engine::client::Below;
use seekless_engine::edge::Edge;
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};
use std::collections::{BTreeMap, VecDeque};

/// Epochs, and calls that wait for their end.
#[derive(Clone, Debug)]
pub struct Barriers {
    /// The oldest epoch with an entry in `counts`.
    oldest: u64,
    /// Buffers with changes that are not written, by epoch; the last is the current one.
    counts: VecDeque<usize>,
    /// Calls and the epochs they ended, in order.
    waiting: VecDeque<(u64, CallKey)>,
    /// Calls that wait for blocks: how many they wait for.
    files: BTreeMap<CallKey, usize>,
    /// Blocks that such calls wait for.
    blocks: BTreeMap<BlockNo, Vec<Wait>>,
    /// Blocks that calls will wait for in this round or a later one, and how many calls each.
    named: BTreeMap<BlockNo, usize>,
    /// Such calls of which all blocks are written.
    files_written: Vec<CallKey>,
    /// Calls that wait for the flush in flight.
    flushing: Option<Vec<CallKey>>,
    /// A write has completed since the last flush was sent.
    unflushed: bool,
    /// What completed writes bring that are not ordered yet.
    brought: Manifest,
    /// A write has gone out without changes that wait for others.
    pub(crate) kept_back: bool,
    /// What the flush in flight orders.
    ordering: Manifest,
    /// Calls that can be answered.
    settled: Vec<(CallKey, Result<(), IoError>)>,
}

/// What a call waits for in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    key: CallKey,
    /// Sectors that were dirty then, and of which no write has begun.
    pending: Mask,
    /// A write is in flight that carries others of them.
    in_flight: bool,
}

impl Default for Barriers {
    fn default() -> Barriers {
        Barriers {
            oldest: 0,
            counts: VecDeque::from([0]),
            waiting: VecDeque::new(),
            files: BTreeMap::new(),
            blocks: BTreeMap::new(),
            named: BTreeMap::new(),
            files_written: Vec::new(),
            flushing: None,
            unflushed: false,
            brought: Manifest::default(),
            kept_back: false,
            ordering: Manifest::default(),
            settled: Vec::new(),
        }
    }
}

impl Barriers {
    /// A buffer has become dirty; gives the epoch of the change.
    pub(crate) fn dirtied(&mut self) -> u64 {
        *self.counts.back_mut().expect("there is a current epoch") += 1;
        self.oldest + self.counts.len() as u64 - 1
    }

    /// A buffer that is being written keeps other changes, which may be of the same epoch.
    pub(crate) fn still_dirty(&mut self, epoch: u64) {
        let index = usize::try_from(epoch - self.oldest).expect("an epoch in use");
        self.counts[index] += 1;
    }

    /// The changes of one buffer that were made in this epoch are written, or forgotten.
    pub(crate) fn cleaned(&mut self, epoch: u64) {
        let index = usize::try_from(epoch - self.oldest).expect("an epoch in use");
        self.counts[index] -= 1;
        self.advance();
    }

    /// A write has completed. A flush that was sent before may not cover it.
    pub(crate) fn wrote(&mut self) {
        self.unflushed |= self.flushing.is_none() || Edge::FilesMissedWrite.stands();
    }

    /// Drops epochs that have ended and have no changes.
    fn advance(&mut self) {
        while self.counts.len() > 1 && self.counts[0] == 0 {
            self.counts.pop_front();
            self.oldest += 1;
        }
    }

    /// Ends the current epoch for a call.
    fn wait(&mut self, key: CallKey) {
        let epoch = self.oldest + self.counts.len() as u64 - 1;
        self.waiting.push_back((epoch, key));
        self.counts.push_back(0);
        self.advance();
    }

    /// Calls of which all changes are written.
    fn take_written(&mut self) -> Vec<CallKey> {
        let mut written = std::mem::take(&mut self.files_written);
        while let Some(&(epoch, key)) = self.waiting.front()
            && Edge::FilesWaitEpoch.allows(epoch < self.oldest)
        {
            self.waiting.pop_front();
            written.push(key);
        }
        written
    }

    /// A call waits for what it names in these blocks.
    fn wait_for(&mut self, key: CallKey, blocks: &[(BlockNo, Wait)]) {
        if blocks.is_empty() {
            self.files_written.push(key);
            return;
        }
        self.files.insert(key, blocks.len());
        for &(block, wait) in blocks {
            self.blocks.entry(block).or_default().push(wait);
        }
    }

    /// A write of some sectors of a block has begun.
    pub(crate) fn writing(&mut self, block: BlockNo, sectors: Mask) {
        for wait in self.blocks.get_mut(&block).into_iter().flatten() {
            wait.in_flight |= wait.pending & sectors != 0;
            wait.pending &= !sectors;
        }
    }

    /// A write of a block has completed; these of its sectors are dirty.
    pub(crate) fn wrote_block(&mut self, block: BlockNo, dirty: Mask) {
        self.settle_waits(block, |wait| {
            wait.in_flight = false;
            // What is not dirty was forgotten.
            wait.pending &= dirty;
        });
    }

    /// No change of a block is unwritten: calls wait for it no longer.
    pub(crate) fn wrote_all_of(&mut self, block: BlockNo) {
        self.settle_waits(block, |wait| (wait.pending, wait.in_flight) = (0, false));
    }

    /// True if writes have completed that a flush is to order, or orders now.
    pub(crate) fn orders(&self) -> bool {
        !self.brought.is_empty() || !self.ordering.is_empty()
    }

    /// A call of several rounds is to wait for these blocks, in one of them.
    pub(crate) fn name(&mut self, blocks: &[BlockNo]) {
        for &block in blocks {
            *self.named.entry(block).or_default() += 1;
        }
    }

    /// It waits no longer.
    pub(crate) fn unname(&mut self, blocks: &[BlockNo]) {
        for block in blocks {
            let Some(calls) = self.named.get_mut(block) else { continue };
            *calls -= 1;
            if *calls == 0 {
                self.named.remove(block);
            }
        }
    }

    /// True if a call waits for the write of a block with changes of this epoch.
    pub(crate) fn is_awaited(&self, block: BlockNo, epoch: u64) -> bool {
        self.blocks.contains_key(&block)
            || self.named.contains_key(&block)
            || self.waiting.back().is_some_and(|&(waits_for, _)| waits_for >= epoch)
    }

    /// Changes what calls wait for in a block; those that wait for nothing else are done.
    fn settle_waits(&mut self, block: BlockNo, mut change: impl FnMut(&mut Wait)) {
        if self.blocks.is_empty() {
            return;
        }
        let Some(mut waits) = self.blocks.remove(&block) else { return };
        waits.retain_mut(|wait| {
            change(wait);
            debug_assert!(!wait.in_flight, "a block has one write in flight, and it has ended");
            let done = Edge::FilesWaitWritten.allows(wait.pending == 0);
            if done {
                self.settled_one(wait.key);
            }
            !done
        });
        if !waits.is_empty() {
            self.blocks.insert(block, waits);
        }
    }

    /// One of the blocks that a call waits for is written.
    fn settled_one(&mut self, key: CallKey) {
        let blocks = self.files.get_mut(&key).expect("the call waits");
        *blocks -= 1;
        if *blocks == 0 {
            self.files.remove(&key);
            self.files_written.push(key);
        }
    }

    /// A call can be answered.
    pub(crate) fn settle(&mut self, key: CallKey, result: Result<(), IoError>) {
        self.settled.push((key, result));
    }

    /// All calls that wait for writes.
    fn take_waiting(&mut self) -> Vec<CallKey> {
        let mut keys = std::mem::take(&mut self.files_written);
        keys.extend(std::mem::take(&mut self.waiting).into_iter().map(|one| one.1));
        keys.extend(std::mem::take(&mut self.files).into_keys());
        self.blocks.clear();
        keys
    }
}

impl Core {
    /// Writes everything that is dirty; [`Core::take_settled`] names the call when it is durable.
    pub fn settle(&mut self, key: CallKey, below: &mut Below<'_>) {
        if let Some(error) = self.failed() {
            self.barriers.settled.push((key, Err(error)));
            return;
        }
        self.queue_all();
        self.barriers.wait(key);
        self.push_output(below);
    }

    /// Writes these blocks if they are dirty; [`Core::take_settled`] names the call when they are
    /// durable.
    pub fn settle_blocks(&mut self, key: CallKey, blocks: &[BlockNo], below: &mut Below<'_>) {
        if let Some(error) = self.failed() {
            self.barriers.settled.push((key, Err(error)));
            return;
        }
        let mut waits = Vec::new();
        for &block in blocks {
            let Some(slot) = self.cache.find(block) else { continue };
            let buffer = self.cache.get(slot);
            let wait = Wait { key, pending: buffer.dirty, in_flight: buffer.writing.is_some() };
            if wait.pending != 0 || wait.in_flight {
                waits.push((block, wait));
                self.queue_write(slot);
            }
        }
        self.barriers.wait_for(key, &waits);
        self.push_output(below);
    }

    /// A call that asked for durability and can be answered.
    pub fn take_settled(&mut self) -> Option<(CallKey, Result<(), IoError>)> {
        if self.barriers.settled.is_empty() {
            return None;
        }
        Some(self.barriers.settled.remove(0))
    }

    /// Writes have completed: what they bring holds once they are ordered.
    pub(crate) fn brought(&mut self, manifest: Manifest) {
        match self.options.ordering {
            Ordering::Completion | Ordering::Trusted => self.policy.settled(manifest),
            Ordering::Flush if planted(PlantedBug::FactAtCompletion) => {
                self.policy.settled(manifest)
            }
            Ordering::Flush => self.barriers.brought.append(manifest),
        }
    }

    /// Sends a flush if calls wait for one. So it does if changes wait for one, and one of them has
    /// missed a write, or nothing else is to be written.
    pub(crate) fn push_flush(&mut self, below: &mut Below<'_>) {
        if self.barriers.flushing.is_some() {
            return;
        }
        let wants_order = self.is_idle() || self.barriers.kept_back;
        let orders = !self.barriers.brought.is_empty() && wants_order;
        let written = self.barriers.take_written();
        let lets_go = self.nvram_wants_flush();
        if written.is_empty() && !orders && !lets_go {
            return;
        }
        if !self.barriers.unflushed || self.options.ordering == Ordering::Trusted {
            self.barriers.settled.extend(written.into_iter().map(|key| (key, Ok(()))));
            return;
        }
        self.barriers.unflushed = false;
        self.barriers.kept_back = false;
        self.barriers.ordering = std::mem::take(&mut self.barriers.brought);
        self.barriers.flushing = Some(written);
        self.nvram_flushes();
        self.stats.flushes += 1;
        let tag = self.sent.insert(Sent::Flush);
        below.submit(0, Edge::FilesFlush.flush(tag));
    }

    /// A flush has completed.
    pub(crate) fn flushed(&mut self, error: Option<IoError>) {
        let calls = self.barriers.flushing.take().unwrap_or_default();
        let ordered = std::mem::take(&mut self.barriers.ordering);
        if Edge::FactsOfFailedFlush.allows(error.is_none()) {
            self.policy.settled(ordered);
        }
        if error.is_none() {
            self.nvram_flushed();
        }
        let result = error.or(self.failed()).map_or(Ok(()), Err);
        self.barriers.settled.extend(calls.into_iter().map(|key| (key, result)));
        // A failed flush may have lost writes that had completed.
        if let Some(error) = error {
            self.fail(error, Lost::Flush);
        }
    }

    /// After a failed write each call that waits for durability fails.
    pub(crate) fn fail_barriers(&mut self) {
        let Some(error) = self.failed() else { return };
        let logged = self.logged.take_calls();
        for key in self.barriers.take_waiting().into_iter().chain(logged) {
            self.barriers.settled.push((key, Err(error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_for_its_epoch_and_older_ones_only() {
        let mut barriers = Barriers::default();
        let (a, b) = (barriers.dirtied(), barriers.dirtied());
        barriers.wait(1);
        let c = barriers.dirtied();
        barriers.wait(2);
        barriers.cleaned(c);
        assert_eq!((a, b, c), (0, 0, 1));
        let awaited = [0, 1, 2].map(|epoch| barriers.is_awaited(9, epoch));
        assert_eq!(awaited, [true, true, false], "changes of now are not waited for");
        barriers.cleaned(a);
        assert!(barriers.take_written().is_empty());
        barriers.cleaned(b);
        assert_eq!(barriers.take_written(), [1, 2]);
        barriers.wait(3);
        assert_eq!(barriers.take_written(), [3], "nothing is dirty");
        assert_eq!(barriers.counts.len(), 1);
    }

    /// Where a volume takes parts, a write may leave dirty sectors behind a gap.
    #[test]
    fn a_call_waits_until_each_sector_of_its_blocks_is_written() {
        let mut barriers = Barriers::default();
        let wait = |pending, in_flight| Wait { key: 7, pending, in_flight };
        barriers.wait_for(7, &[(3, wait(0b1001, true)), (4, wait(0b10, false))]);
        barriers.wrote_block(3, 0b1001);
        barriers.writing(3, 0b1);
        barriers.writing(4, 0b110);
        barriers.wrote_block(4, 0);
        barriers.wrote_block(3, 0b1000);
        assert!(barriers.take_written().is_empty(), "the fourth sector is not written");
        barriers.writing(3, 0b1100);
        assert!(barriers.take_written().is_empty(), "its write is in flight");
        barriers.wrote_block(3, 0b1000);
        assert_eq!(barriers.take_written(), [7], "what has changed since does not count");

        barriers.wait_for(8, &[(3, Wait { key: 8, ..wait(0b1000, false) })]);
        assert!(barriers.is_awaited(3, 0) && !barriers.is_awaited(4, 0));
        barriers.wrote_block(3, 0b1);
        assert_eq!(barriers.take_written(), [8], "what was forgotten is not waited for");
    }
}
