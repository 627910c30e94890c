//! The writes that a power cut may undo.
//!
//! The rule is that of NBD and of every disk with a volatile cache: a flush makes durable what was
//! completed before the flush was submitted, once the flush completes. A forced write (FUA) is
//! durable once it completes. After a failed flush the device may drop the writes that it covered;
//! no later flush makes them durable.
//!
//! Time is a counter that never runs backwards: request numbers, or the index of an event. The
//! invariant between calls: completed writes stand in order of completion, writes in flight in
//! order of submission, and no two writes have one number.

use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::io::{IoError, Labels, Part};
use seekless_engine::units::BlockNr;
use std::collections::VecDeque;
use std::sync::Arc;

/// A write that a power cut may undo, wholly or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending<W> {
    /// When it was submitted; tells the writes of a device apart.
    pub number: u64,
    /// When it completed: from then on only a flush is missing. `None` while it is in flight.
    pub completed: Option<u64>,
    /// No flush makes it durable: it failed itself, or a flush that was to cover it did.
    uncovered: bool,
    /// What was to be written.
    pub write: W,
}

impl<W> Pending<W> {
    /// True if a flush submitted at `flush` makes it durable.
    fn is_covered_by(&self, flush: u64) -> bool {
        !self.uncovered && self.completed.is_some_and(|at| at <= flush)
    }
}

/// Blocks to be written, or a part of them, and their labels on a device that has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockWrite {
    /// First block.
    pub at: BlockNr,
    /// New content.
    pub data: Data,
    /// New labels, one a block.
    pub labels: Option<Labels>,
    /// The sectors that are written, if not all.
    pub part: Option<Part>,
    /// Where each block goes, if they do not follow one another: a transaction, which never tears.
    pub places: Option<Arc<Vec<BlockNr>>>,
}

impl BlockWrite {
    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        self.data.blocks()
    }

    /// The blocks that it changes, in the order of its content.
    pub fn places(&self) -> impl Iterator<Item = BlockNr> + '_ {
        (0..self.blocks() as usize).map(|index| match &self.places {
            Some(places) => places[index],
            None => self.at + index as u64,
        })
    }

    /// Carries the whole write out.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_to(&self, medium: &mut Cells) -> Result<(), IoError> {
        if self.places.is_some() {
            let mut blocks = (0..).zip(self.places());
            return blocks.try_for_each(|(index, at)| medium.write(at, &self.data.slice(index, 1)));
        }
        match (&self.labels, self.part) {
            (None, None) => medium.write(self.at, &self.data),
            (None, Some(part)) => medium.write_part(self.at, &self.data, part),
            (Some(labels), _) => medium.write_labelled(self.at, &self.data, labels),
        }
    }
}

/// The pending writes of a device in order: of two to the same place the later one in the list has
/// the last word.
#[derive(Clone, Debug)]
pub struct PendingWrites<W> {
    writes: VecDeque<Pending<W>>,
}

impl<W> Default for PendingWrites<W> {
    fn default() -> PendingWrites<W> {
        PendingWrites { writes: VecDeque::new() }
    }
}

impl<W> PendingWrites<W> {
    /// Takes in a write that is in flight from now on.
    pub fn submit(&mut self, number: u64, write: W) {
        debug_assert!(self.writes.iter().all(|one| one.number != number), "{number} is taken");
        self.writes.push_back(Pending { number, completed: None, uncovered: false, write });
    }

    /// Takes in a write that a device carries out at once.
    pub fn admit(&mut self, number: u64, write: W) {
        self.submit(number, write);
        let one = self.writes.pop_back().expect("it was just taken in");
        self.complete(one, number);
    }

    /// Takes out the write with this number: it is durable now, or about to complete.
    pub fn remove(&mut self, number: u64) -> Option<Pending<W>> {
        let at = self.writes.iter().position(|one| one.number == number)?;
        self.writes.remove(at)
    }

    /// Puts back a write that completes at `now`: it is the newest of the completed ones.
    pub fn complete(&mut self, one: Pending<W>, now: u64) {
        debug_assert!(one.completed.is_none(), "write {} completes once", one.number);
        debug_assert!(self.newest_completion() <= Some(now), "time runs backwards to {now}");
        self.writes.push_back(Pending { completed: Some(now), ..one });
    }

    /// Puts back a write that fails at `now`: some of it may be on the medium, and no flush covers
    /// it.
    pub fn fail(&mut self, one: Pending<W>, now: u64) {
        self.complete(Pending { uncovered: true, ..one }, now);
    }

    /// True if a flush submitted at `flush` makes some write durable.
    pub fn has_covered(&self, flush: u64, belongs: impl Fn(&W) -> bool) -> bool {
        self.writes.iter().any(|one| one.is_covered_by(flush) && belongs(&one.write))
    }

    /// A flush submitted at `flush` completes: takes out what it makes durable, oldest first, of
    /// the writes that `belongs` says it is about.
    pub fn flush(&mut self, flush: u64, belongs: impl Fn(&W) -> bool) -> Vec<Pending<W>> {
        let covered = |one: &Pending<W>| one.is_covered_by(flush) && belongs(&one.write);
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.writes).into_iter().partition(covered);
        self.writes = left.into();
        debug_assert!(!self.has_covered(flush, belongs), "what a flush covers is durable");
        done
    }

    /// A flush submitted at `flush` fails: no later flush covers what it was to cover.
    pub fn fail_flush(&mut self, flush: u64) {
        for one in self.writes.iter_mut().filter(|one| one.completed.is_some_and(|at| at <= flush))
        {
            one.uncovered = true;
        }
    }

    /// Takes out the oldest write: a cache that is full writes it out.
    pub fn pop_oldest(&mut self) -> Option<Pending<W>> {
        self.writes.pop_front()
    }

    /// Takes out the writes that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&W) -> bool) {
        self.writes.retain(|one| keep(&one.write));
    }

    /// Takes out all of them.
    pub fn take(&mut self) -> VecDeque<Pending<W>> {
        std::mem::take(&mut self.writes)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &Pending<W>> {
        self.writes.iter()
    }

    /// All of them with the completed ones first: a write in flight counts as newer than every
    /// completed one.
    pub fn completed_first(&self) -> impl Iterator<Item = &Pending<W>> {
        let completed = self.writes.iter().filter(|one| one.completed.is_some());
        completed.chain(self.writes.iter().filter(|one| one.completed.is_none()))
    }

    /// All of them in order, to change what the user of the kernel keeps with each.
    pub fn writes_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.writes.iter_mut().map(|one| &mut one.write)
    }

    /// Number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True if a power cut undoes nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    fn newest_completion(&self) -> Option<u64> {
        self.writes.iter().rev().find_map(|one| one.completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Submits and completes writes as told: `3` submits write 3, `-3` completes it.
    fn told(steps: &[i64]) -> (PendingWrites<u64>, u64) {
        let mut pending = PendingWrites::default();
        let mut now = 0;
        for &step in steps {
            now = now.max(step.unsigned_abs());
            if step > 0 {
                pending.submit(step as u64, step as u64);
            } else {
                let one = pending.remove(step.unsigned_abs()).expect("it was submitted");
                pending.complete(one, now + 1);
            }
        }
        (pending, now + 1)
    }

    fn numbers<'p>(list: impl IntoIterator<Item = &'p Pending<u64>>) -> Vec<u64> {
        list.into_iter().map(|one| one.number).collect()
    }

    #[test]
    fn a_flush_covers_what_completed_before_it_was_submitted() {
        let (mut pending, flush) = told(&[1, 2, -1, 3]);
        let one = pending.remove(2).expect("in flight");
        pending.complete(one, flush + 1);
        assert_eq!(numbers(&pending.flush(flush, |_| true)), [1]);
        assert_eq!(numbers(pending.iter()), [3, 2]);
        assert_eq!(numbers(pending.completed_first()), [2, 3]);
    }

    #[test]
    fn a_flush_is_about_the_writes_that_belong_to_it() {
        let (mut pending, flush) = told(&[1, 2, 3, -1, -2, -3]);
        assert!(!pending.has_covered(flush, |&write| write > 3));
        assert_eq!(numbers(&pending.flush(flush, |&write| write != 2)), [1, 3]);
        assert_eq!(numbers(pending.iter()), [2]);
    }

    #[test]
    fn what_a_failed_flush_was_to_cover_stays_pending() {
        let (mut pending, flush) = told(&[1, 2, -1]);
        pending.fail_flush(flush);
        let one = pending.remove(2).expect("in flight");
        pending.complete(one, flush + 1);
        assert_eq!(numbers(&pending.flush(flush + 2, |_| true)), [2]);
        assert_eq!(numbers(pending.iter()), [1]);
    }

    #[test]
    fn a_failed_write_stays_pending() {
        let (mut pending, now) = told(&[1, 2, -1]);
        let one = pending.remove(2).expect("in flight");
        pending.fail(one, now + 1);
        assert_eq!(numbers(&pending.flush(now + 2, |_| true)), [1]);
        assert_eq!(numbers(pending.iter()), [2]);
        assert_eq!(pending.pop_oldest().map(|one| one.number), Some(2));
        assert!(pending.is_empty());
    }
}
