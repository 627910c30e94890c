//! What no transaction carries yet: bytes that have changed, by block, and cuts.

use crate::core::page::{Mask, mask};
use crate::policy::{Carried, VolumeTransaction};
use crate::tx::BlockNo;
use seekless_engine::transaction::{NAMED_BYTES, patch_cost};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that the patches of a block may say. More of them fill the map block of the volume so fast
/// that a whole block, and its place in the map, cost less.
const MOST_PATCHED: u64 = 256;

/// Ranges in ascending order, with at least so many bytes between two that a second patch costs
/// less.
type Ranges = SmallVec<[Range<u16>; 4]>;

/// A block that has changed.
#[derive(Clone, Debug, Default)]
struct Changed {
    bytes: Ranges,
    /// [`patch_cost`] of all ranges.
    cost: u64,
}

impl Changed {
    fn add(&mut self, new: Range<u16>) {
        let joins = |old: &Range<u16>| {
            let gap = patch_cost(0) as u16;
            old.start <= new.end.saturating_add(gap) && new.start <= old.end.saturating_add(gap)
        };
        let first = self.bytes.iter().position(joins);
        let Some(first) = first else {
            let at = self.bytes.partition_point(|old| old.start < new.start);
            self.cost += cost(&new);
            self.bytes.insert(at, new);
            return;
        };
        let count = self.bytes[first..].iter().take_while(|old| joins(old)).count();
        let joined = self.bytes[first..first + count]
            .iter()
            .fold(new.clone(), |all, old| all.start.min(old.start)..all.end.max(old.end));
        self.cost -= self.bytes[first..first + count].iter().map(cost).sum::<u64>();
        self.cost += cost(&joined);
        self.bytes.drain(first..first + count);
        self.bytes.insert(first, joined);
    }

    fn is_whole(&self) -> bool {
        self.cost > MOST_PATCHED
    }

    fn sectors(&self) -> Mask {
        let of = |range: &Range<u16>| mask(range.start.into(), (range.end - range.start).into());
        self.bytes.iter().fold(0, |all, range| all | of(range))
    }

    fn says(&self) -> u64 {
        if self.is_whole() { NAMED_BYTES } else { self.cost }
    }

    fn carried(&self) -> Carried {
        match self.is_whole() {
            true => Carried::Sectors(self.sectors()),
            false => Carried::Bytes(self.bytes.clone()),
        }
    }
}

fn cost(range: &Range<u16>) -> u64 {
    patch_cost(usize::from(range.end - range.start))
}

/// The sectors in which something is that a transaction carries.
pub(super) fn sectors_of(carried: &Carried) -> Mask {
    let of = |range: &Range<u16>| mask(range.start.into(), (range.end - range.start).into());
    match carried {
        Carried::Sectors(sectors) => *sectors,
        Carried::Bytes(ranges) => ranges.iter().fold(0, |all, range| all | of(range)),
    }
}

/// What is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    changed: BTreeMap<BlockNo, Changed>,
    cuts: Vec<Range<BlockNo>>,
    /// What the blocks say.
    says: u64,
    whole: u64,
}

impl Open {
    /// True if nothing is.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.cuts.is_empty()
    }

    /// Blocks of the file system that have changed.
    pub(super) fn len(&self) -> usize {
        self.changed.len()
    }

    /// The same, as the volume counts them.
    pub(super) fn blocks(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Of them, those that are written as a whole.
    pub(super) fn whole_blocks(&self) -> u64 {
        self.whole
    }

    /// Bytes that a transaction of it says.
    pub(super) fn bytes(&self) -> u64 {
        self.says + self.cuts.len() as u64 * NAMED_BYTES
    }

    /// What was cut.
    pub(super) fn cuts(&self) -> &[Range<BlockNo>] {
        &self.cuts
    }

    /// Sectors of a block that have changed.
    pub(super) fn sectors(&self, block: BlockNo) -> Mask {
        self.changed.get(&block).map_or(0, Changed::sectors)
    }

    fn count(&mut self, says: u64, is_whole: bool, adds: bool) {
        match adds {
            true => (self.says, self.whole) = (self.says + says, self.whole + u64::from(is_whole)),
            false => (self.says, self.whole) = (self.says - says, self.whole - u64::from(is_whole)),
        }
    }

    /// Bytes of a block have changed.
    pub(super) fn change(&mut self, block: BlockNo, bytes: Range<u16>) {
        let one = self.changed.entry(block).or_default();
        let (before, was_whole) =
            if one.bytes.is_empty() { (0, false) } else { (one.says(), one.is_whole()) };
        one.add(bytes);
        let (says, is_whole) = (one.says(), one.is_whole());
        self.count(before, was_whole, false);
        self.count(says, is_whole, true);
    }

    /// Blocks hold nothing from now on.
    pub(super) fn cut(&mut self, blocks: Range<BlockNo>) {
        let gone: Vec<BlockNo> =
            self.changed.range(blocks.clone()).map(|(&block, _)| block).collect();
        for block in gone {
            if let Some(one) = self.changed.remove(&block) {
                self.count(one.says(), one.is_whole(), false);
            }
        }
        let covers = |old: &&Range<BlockNo>| old.start <= blocks.start && blocks.end <= old.end;
        if self.cuts.iter().find(covers).is_none() {
            self.cuts.retain(|old| !(blocks.start <= old.start && old.end <= blocks.end));
            self.cuts.push(blocks);
        }
    }

    /// The first `count` blocks, and all cuts, as a transaction.
    pub(super) fn transaction(&self, count: usize) -> VolumeTransaction {
        let blocks = self.changed.iter().take(count);
        let blocks = blocks.map(|(&block, one)| (block, one.carried())).collect();
        VolumeTransaction { cuts: self.cuts.clone(), blocks }
    }

    /// Takes them out.
    pub(super) fn take(&mut self, count: usize) -> VolumeTransaction {
        let all = self.transaction(count);
        for (block, _) in &all.blocks {
            if let Some(one) = self.changed.remove(block) {
                self.count(one.says(), one.is_whole(), false);
            }
        }
        self.cuts.clear();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_one_patch_and_many_bytes_a_whole_block() {
        let mut open = Open::default();
        open.change(7, 10..20);
        open.change(7, 25..30);
        let joined = std::iter::once(10..30).collect();
        assert_eq!(open.transaction(9).blocks[0].1, Carried::Bytes(joined));
        assert_eq!((open.bytes(), open.whole_blocks()), (patch_cost(20), 0));
        open.change(7, 1000..1400);
        assert_eq!(open.transaction(9).blocks[0].1, Carried::Sectors(0b111));
        assert_eq!((open.bytes(), open.whole_blocks()), (NAMED_BYTES, 1));
        open.cut(5..9);
        assert_eq!((open.bytes(), open.whole_blocks(), open.len()), (NAMED_BYTES, 0, 0));
        open.cut(0..100);
        open.cut(3..4);
        assert_eq!(open.cuts(), std::slice::from_ref(&(0..100)));
        assert!(!open.take(9).cuts.is_empty() && open.is_empty() && open.bytes() == 0);
    }

    proptest! {
        /// All bytes that were named are covered, ranges are apart, and the sums are right.
        #[test]
        fn ranges_cover_what_was_named(
            all in prop::collection::vec((0u64..3, 0u16..4000, 1u16..96), 1..40),
        ) {
            let mut open = Open::default();
            for &(block, at, length) in &all {
                open.change(block, at..at + length);
            }
            let says: u64 = open.changed.values().map(Changed::says).sum();
            prop_assert_eq!(open.bytes(), says);
            for (block, at, length) in all {
                let ranges = &open.changed[&block].bytes;
                let covers = |one: &Range<u16>| one.start <= at && at + length <= one.end;
                prop_assert!(ranges.iter().any(covers), "{ranges:?}");
                let gap = patch_cost(0) as u16;
                let apart = |pair: &[Range<u16>]| pair[0].end + gap <= pair[1].start;
                prop_assert!(ranges.windows(2).all(apart), "{ranges:?}");
            }
        }
    }
}
