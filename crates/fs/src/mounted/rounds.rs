//! What waits for the order of writes: calls in rounds, and space that may be freed.
//!
//! Where the policy orders writes, a call for durability goes in rounds. Each writes what nothing
//! keeps from the disk and what others wait for; when nothing keeps back what the call names, the
//! last round writes that. A round ends with a flush, so what it has written counts as ordered.

use super::Mounted;
use super::pending::{Durable, Pending, Work};
use super::personality::Personality;
use crate::call::Answer;
use crate::core::CallKey;
use crate::core::page::each;
use crate::system::FsCx;
use crate::tx::{BlockNo, Field, PageKind};
use seekless_engine::io::IoError;
use seekless_engine::planted::{PlantedBug, planted};

/// Rounds of one call at most. Each makes some change durable that others wait for, and no change
/// waits for a younger one; a call that exceeds this is a defect of the policy.
const MOST_ROUNDS: u32 = 10_000;

impl<P: Personality> Mounted<P> {
    /// Parks a call until something is durable.
    pub(crate) fn make_durable(
        &mut self,
        mut pending: Pending<P::Mark>,
        mut durable: Durable<P::Mark>,
        cx: &mut FsCx<'_, '_>,
    ) {
        let is_sound = self.core.failed().is_none();
        if self.core.is_durable_at_once() && is_sound && pending.work.is_sync() {
            if let Some(mark) = &durable.mark {
                self.format.is_durable(mark);
            }
            return self.end(pending, Ok(Answer::Done), cx);
        }
        if planted(PlantedBug::AckBeforeDurable) && !pending.again {
            let answer = pending.answer.take().unwrap_or(Answer::Done);
            return self.end(pending, Ok(answer), cx);
        }
        self.core.unpin(&mut pending.pins);
        durable.since = self.core.policy.now();
        if self.core.policy.takes_groups() {
            self.core.force_log(self.core.policy.log_end());
        } else if !self.core.policy.guards() {
            // Some of them go in a later round: what they hold is to be on the disk all the same.
            if durable.blocks.is_none() {
                durable.everything = self.core.cache.unwritten();
            }
            self.core.barriers.name(durable.named());
        }
        pending.durable = Some(Box::new(durable));
        let key = self.parked.insert(pending);
        self.awaiting += 1;
        self.core.policy.awaits(true);
        self.round(key, cx);
    }

    /// Parks a call until the log has what it has changed.
    pub(crate) fn make_logged(&mut self, mut pending: Pending<P::Mark>, cx: &mut FsCx<'_, '_>) {
        if planted(PlantedBug::AckBeforeDurable) {
            let answer = pending.answer.take().unwrap_or(Answer::Done);
            return self.end(pending, Ok(answer), cx);
        }
        self.core.unpin(&mut pending.pins);
        let to = pending.logged;
        let key = self.parked.insert(pending);
        self.awaiting += 1;
        self.core.settle_log(key, to, cx.below);
    }

    /// A call has come to the end of its rounds.
    pub(crate) fn no_longer_waits(&mut self, durable: Option<&Durable<P::Mark>>) {
        if let Some(durable) = durable {
            self.core.barriers.unname(durable.named());
        }
        self.awaiting -= 1;
        self.core.policy.awaits(self.awaiting > 0);
    }

    /// A round of a call has ended. True if another one follows.
    pub(crate) fn goes_on(
        &mut self,
        key: CallKey,
        result: Result<(), IoError>,
        cx: &mut FsCx<'_, '_>,
    ) -> bool {
        let durable = self.parked[key].durable.as_mut();
        if result.is_ok()
            && self.core.policy.takes_groups()
            && let Some(durable) = durable
        {
            // Its content is on the disk; then its names and inodes.
            let to = durable.logged.take();
            return match to.filter(|_| !planted(PlantedBug::FsyncWithoutLog)) {
                Some(to) => {
                    self.core.settle_log(key, to, cx.below);
                    true
                }
                None => false,
            };
        }
        let durable = self.parked[key].durable.as_ref();
        let goes_on = result.is_ok() && durable.is_some_and(|durable| !durable.last);
        if goes_on {
            self.round(key, cx);
        }
        goes_on
    }

    fn round(&mut self, key: CallKey, cx: &mut FsCx<'_, '_>) {
        let Some(mut durable) = self.parked[key].durable.take() else { return };
        durable.rounds += 1;
        assert!(durable.rounds < MOST_ROUNDS, "{:?} waits for ever", self.parked[key].work);
        let blocks = self.next_blocks(&mut durable);
        self.parked[key].durable = Some(durable);
        match blocks {
            Some(blocks) => self.core.settle_blocks(key, &blocks, cx.below),
            None => self.core.settle(key, cx.below),
        }
    }

    /// What the next round writes; `None` for everything.
    fn next_blocks(&self, durable: &mut Durable<P::Mark>) -> Option<Vec<BlockNo>> {
        let policy = &self.core.policy;
        if policy.takes_groups() {
            durable.logged = Some(policy.log_end());
            let all = durable.blocks.clone().unwrap_or_else(|| self.core.cache.unwritten());
            return Some(all.into_iter().filter(|&block| self.holds_content(block)).collect());
        }
        if !policy.guards() {
            durable.last = false;
            return match self.moved_tails(durable) {
                Some(moved) => Some(moved),
                None => self.unordered_blocks(durable),
            };
        }
        durable.last = true;
        if let Some(blocks) = &durable.blocks {
            let front = policy.next_writes(&durable.fields);
            durable.last = front.is_empty();
            return Some(if durable.last { blocks.clone() } else { front.into_iter().collect() });
        }
        durable.last = !policy.keeps_back(None, durable.since);
        let front = policy.next_writes_by(durable.since);
        let everything = durable.last || front.is_empty();
        Some(match everything {
            true => self.core.cache.unwritten(),
            false => front.into_iter().collect(),
        })
    }

    /// Tails at their new places, for which inodes wait that the call names; `None` if no inode
    /// does.
    fn moved_tails(&self, durable: &Durable<P::Mark>) -> Option<Vec<BlockNo>> {
        let policy = &self.core.policy;
        if durable.blocks.is_some() {
            let front = policy.next_writes(&durable.fields);
            return (!front.is_empty()).then(|| front.into_iter().collect());
        }
        if !policy.keeps_back(None, durable.since) {
            return None;
        }
        let front = policy.next_writes_by(durable.since);
        // What is left is under way: it counts after a flush.
        Some(if front.is_empty() {
            self.core.cache.unwritten()
        } else {
            front.into_iter().collect()
        })
    }

    /// The same without an order of writes. Old names at new places go first, then inodes and
    /// content, then names: a name must not lead to what its inode was before.
    fn unordered_blocks(&self, durable: &mut Durable<P::Mark>) -> Option<Vec<BlockNo>> {
        durable.last = true;
        durable.unordered += 1;
        if durable.unordered == 1 {
            durable.bodies.retain(|&block| self.core.cache.is_unwritten(block));
            if !durable.bodies.is_empty() {
                durable.last = false;
                return Some(durable.bodies.clone());
            }
        }
        let first = if durable.bodies.is_empty() { 1 } else { 2 };
        if durable.unordered > first {
            return durable.blocks.clone();
        }
        let all = durable.blocks.clone().unwrap_or_else(|| self.core.cache.unwritten());
        let (names, others): (Vec<BlockNo>, _) = all.iter().partition(|&&b| self.holds_names(b));
        durable.last = names.is_empty() || others.is_empty();
        if durable.last { durable.blocks.clone() } else { Some(others) }
    }

    /// True if a block holds names that are not written.
    fn holds_names(&self, block: BlockNo) -> bool {
        let buffer = self.core.cache.find(block).map(|slot| self.core.cache.get(slot));
        buffer.is_some_and(|one| one.kind == PageKind::Directory && one.dirty != 0)
    }

    /// True if a block holds content of files that is not written.
    fn holds_content(&self, block: BlockNo) -> bool {
        let Some(slot) = self.core.cache.find(block) else { return false };
        let buffer = self.core.cache.get(slot);
        let is_content = |index| buffer.kinds[index] == PageKind::Data;
        let is_being_written = buffer.writing.is_some() && buffer.kinds.contains(&PageKind::Data);
        is_being_written || each(buffer.dirty).any(is_content)
    }

    /// Those of some blocks that are written as they are; all of them if there is none.
    pub(crate) fn unguarded(&self, blocks: Vec<BlockNo>) -> Vec<BlockNo> {
        let block_bytes = self.core.shape.block_bytes;
        let is_guarded =
            |block: BlockNo| self.core.policy.is_guarded(Field::new(block, 0, block_bytes));
        let free: Vec<BlockNo> = blocks.iter().copied().filter(|&b| !is_guarded(b)).collect();
        if free.is_empty() { blocks } else { free }
    }

    /// Makes work of space that may be freed. True if there was some.
    pub(crate) fn take_frees(&mut self) -> bool {
        let before = self.queue.len();
        while let Some(pieces) = self.core.policy.take_free() {
            self.queue.push_front(Pending::own(Work::Free(pieces), self.last));
        }
        self.queue.len() > before
    }

    /// True if deletions are under way that may make room.
    pub(crate) fn frees_are_pending(&self, pending: &Pending<P::Mark>) -> bool {
        !pending.work.frees()
            && self.core.failed().is_none()
            && (self.core.policy.frees() > 0
                || self.may_make_room()
                || self.core.room_may_grow()
                || !self.later.waiting.is_empty()
                || self.queue.iter().any(|one| one.work.frees())
                || self.parked.iter().any(|(_, one)| one.work.frees()))
    }

    /// Calls wait for space, or a trim for the end of frees: writes what frees wait for, as soon as
    /// nothing else is written.
    /// True if such calls can run again.
    pub(crate) fn hurry_frees(&mut self, cx: &mut FsCx<'_, '_>) -> bool {
        if self.no_room.is_empty() && !self.waits_for_still() {
            return false;
        }
        let comes = self.core.failed().is_some() || self.core.room_has_changed();
        if comes {
            self.space_came();
        }
        if self.core.failed().is_some() {
            return true;
        }
        if self.core.policy.takes_groups() {
            // What was given up is free when the log says so.
            if self.core.policy.frees() > 0 || self.core.room_may_grow() {
                self.core.force_log(self.core.policy.log_end());
                self.core.push_output(cx.below);
            }
        } else if self.core.policy.frees() > 0 && self.core.in_flight() == 0 {
            self.core.queue_all();
            self.core.push_output(cx.below);
        }
        comes
    }
}
