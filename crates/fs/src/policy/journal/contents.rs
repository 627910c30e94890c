//! Content of files that must be on the disk before the group that leads to it is in the log.
//!
//! A group waits for the sectors that its operation has allocated. Under `--data ordered` that is
//! all content; texts of long symbolic links and ends of files that have moved are waited for in
//! any case. A group that waits holds back the log from there on.

use super::Lsn;
use crate::core::page::Mask;
use crate::tx::BlockNo;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Sectors of a block that a group waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    lsn: Lsn,
    left: Mask,
}

/// Groups that wait for content.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Contents {
    /// Sectors of which no write has begun.
    blocks: BTreeMap<BlockNo, SmallVec<[Wait; 2]>>,
    /// Sectors that are not settled, by group.
    groups: BTreeMap<Lsn, u32>,
    /// Their sum.
    unsettled: u32,
    /// Blocks that no one was told of, by the group that waits.
    new: VecDeque<(Lsn, BlockNo)>,
}

impl Contents {
    /// The group at `lsn` waits for sectors of a block.
    pub fn wait(&mut self, lsn: Lsn, block: BlockNo, sectors: Mask) {
        if sectors == 0 {
            return;
        }
        self.blocks.entry(block).or_default().push(Wait { lsn, left: sectors });
        *self.groups.entry(lsn).or_default() += sectors.count_ones();
        self.unsettled += sectors.count_ones();
        self.new.push_back((lsn, block));
    }

    /// Sectors are being written. Gives the groups that wait for them, and for how many.
    pub fn write(&mut self, block: BlockNo, sectors: Mask) -> SmallVec<[(Lsn, u32); 2]> {
        let mut brings = SmallVec::new();
        let Some(waits) = self.blocks.get_mut(&block) else { return brings };
        waits.retain(|wait| {
            let carried = (wait.left & sectors).count_ones();
            if carried > 0 {
                brings.push((wait.lsn, carried));
            }
            wait.left &= !sectors;
            wait.left != 0
        });
        if waits.is_empty() {
            self.blocks.remove(&block);
        }
        brings
    }

    /// Sectors that a group waits for are settled.
    pub fn written(&mut self, lsn: Lsn, sectors: u32) {
        let left = self.groups.get_mut(&lsn).expect("a group that waits");
        *left -= sectors;
        self.unsettled -= sectors;
        if *left == 0 {
            self.groups.remove(&lsn);
        }
    }

    /// Sectors mean nothing any longer: no write will carry them.
    pub fn forget(&mut self, block: BlockNo, sectors: Mask) {
        for (lsn, count) in self.write(block, sectors) {
            self.written(lsn, count);
        }
    }

    /// The first group that waits.
    pub fn hold(&self) -> Option<Lsn> {
        self.groups.keys().next().copied()
    }

    /// True if a group waits for sectors of a block that no write carries yet.
    pub fn waits_for(&self, block: BlockNo) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Sectors that groups wait for, apart from these of these blocks that no write carries yet.
    pub fn waited_for(&self, apart: impl Iterator<Item = (BlockNo, Mask)>) -> u32 {
        let apart: u32 = apart
            .filter_map(|(block, sectors)| Some((self.blocks.get(&block)?, sectors)))
            .flat_map(|(waits, sectors)| waits.iter().map(move |wait| wait.left & sectors))
            .map(Mask::count_ones)
            .sum();
        self.unsettled - apart
    }

    /// Blocks that groups in front of `end` have begun to wait for since the last time.
    pub fn take_new(&mut self, end: Lsn) -> Vec<BlockNo> {
        let mut taken = Vec::new();
        while let Some((_, block)) = self.new.pop_front_if(|one| one.0 < end) {
            taken.push(block);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_waits_until_all_its_content_is_settled() {
        let mut contents = Contents::default();
        contents.wait(Lsn(5), 9, 0b111);
        contents.wait(Lsn(8), 9, 0b1);
        contents.wait(Lsn(8), 10, 0);
        assert_eq!((contents.take_new(Lsn(5)), contents.hold()), (vec![], Some(Lsn(5))));
        assert_eq!((contents.take_new(Lsn(8)), contents.take_new(Lsn(9))), (vec![9], vec![9]));
        let apart = |sectors| contents.waited_for([(9, sectors), (7, 1)].into_iter());
        assert_eq!((apart(0), apart(0b1), apart(0b111)), (4, 2, 0));
        let first = contents.write(9, 0b1);
        assert_eq!(first[..], [(Lsn(5), 1), (Lsn(8), 1)]);
        contents.written(Lsn(8), 1);
        contents.written(Lsn(5), 1);
        assert_eq!(contents.hold(), Some(Lsn(5)));
        contents.forget(9, 0b110);
        assert_eq!(contents.hold(), None);
        assert!(contents.blocks.is_empty() && contents.take_new(Lsn(u64::MAX)).is_empty());
    }
}
