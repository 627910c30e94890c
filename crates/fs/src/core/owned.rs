//! Which dirty buffers belong to which inode, so that a sync of one file writes only its own.
//!
//! A pair stays from the commit of a change until no change of the buffer is unwritten. A block
//! that fragments of several files share has a pair with each of them.

use crate::call::Ino;
use crate::cow::CowSet;
use crate::tx::BlockNo;

/// Pairs of inodes and blocks, in both orders.
#[derive(Clone, Debug, Default)]
pub struct Owned {
    by_ino: CowSet<(Ino, BlockNo)>,
    by_block: CowSet<(BlockNo, Ino)>,
}

impl Owned {
    /// Makes clones cheap.
    pub(crate) fn share(&mut self) {
        self.by_ino.share();
        self.by_block.share();
    }

    /// Adds a pair.
    pub(crate) fn insert(&mut self, ino: Ino, block: BlockNo) {
        if self.by_ino.insert((ino, block)) {
            self.by_block.insert((block, ino));
        }
    }

    /// Drops the pairs of a block: its changes are written.
    pub(crate) fn forget(&mut self, block: BlockNo) {
        let first = |pairs: &CowSet<_>| pairs.range((block, 0)..=(block, Ino::MAX)).next().copied();
        while let Some((_, ino)) = first(&self.by_block) {
            self.by_block.remove(&(block, ino));
            self.by_ino.remove(&(ino, block));
        }
    }

    /// The blocks of an inode, in order.
    pub fn of(&self, ino: Ino) -> impl Iterator<Item = BlockNo> {
        self.by_ino.range((ino, 0)..=(ino, BlockNo::MAX)).map(|pair| pair.1)
    }

    /// The inodes with changes in a block, in order.
    pub fn inodes_in(&self, block: BlockNo) -> impl Iterator<Item = Ino> {
        self.by_block.range((block, 0)..=(block, Ino::MAX)).map(|pair| pair.1)
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.by_ino.len()
    }

    /// True without pairs.
    pub fn is_empty(&self) -> bool {
        self.by_ino.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_forgotten_for_each_of_its_inodes() {
        let mut owned = Owned::default();
        for (ino, block) in [(3, 10), (3, 11), (4, 10), (3, 10)] {
            owned.insert(ino, block);
        }
        assert_eq!(owned.inodes_in(10).collect::<Vec<_>>(), [3, 4]);
        owned.forget(10);
        assert_eq!(owned.of(3).collect::<Vec<_>>(), [11]);
        assert_eq!(owned.of(4).count(), 0);
        owned.forget(11);
        assert!(owned.is_empty() && owned.by_block.is_empty());
    }
}
