//! Transactions: changes of several requests, anywhere in a volume, that take hold together or not
//! at all (section 8.5 of the Loge paper). A client collects them here and hands them in with
//! [`crate::node::Node::submit_transaction`]; until then no other client sees any of them.

use crate::data::{Data, Piece, is_zero};
use crate::units::BlockNr;
use std::collections::BTreeMap;

/// Changes that are to take hold together. Of several changes of a block the last one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction(BTreeMap<BlockNr, Option<Piece>>);

impl Transaction {
    /// No change yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Writes `data` from block `at` on.
    pub fn write(&mut self, at: BlockNr, data: &Data) {
        debug_assert!(at.checked_add(u64::from(data.blocks())).is_some(), "{at} is no block");
        for (block, index) in (at..).zip(0..data.blocks()) {
            self.0.insert(block, Some(data.block(index)));
        }
    }

    /// Forgets `count` blocks from `at` on: they read as zeros afterwards.
    pub fn trim(&mut self, at: BlockNr, count: u32) {
        for block in at..at + u64::from(count) {
            self.0.insert(block, None);
        }
    }

    /// Number of blocks that it changes.
    pub fn blocks(&self) -> u64 {
        self.0.len() as u64
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The block behind the last one that it changes; 0 if it changes none.
    pub fn end(&self) -> BlockNr {
        self.0.last_key_value().map_or(0, |(&block, _)| block + 1)
    }

    /// What it does, block by block in ascending order. `None` forgets a block, as zeros do.
    pub fn changes(&self) -> impl Iterator<Item = (BlockNr, Option<&Piece>)> {
        self.0.iter().map(|(&block, piece)| (block, piece.as_ref().filter(|piece| !is_zero(piece))))
    }

    /// True if it changes a block of the range `at..at + count`.
    pub fn overlaps(&self, at: BlockNr, count: u64) -> bool {
        self.0.range(at..at + count).next().is_some()
    }
}

/// Why a transaction cannot be handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The volume has no transactions of several requests.
    #[error(
        "the volume has no transactions of several requests; volumes of vlog and of log-structured \
         layouts have, and of loge if this program made them"
    )]
    Unsupported,
    /// It changes nothing.
    #[error("the transaction changes nothing; leave it out")]
    Empty,
    /// It changes more blocks than the volume can change at once.
    #[error("the transaction changes {blocks} blocks, the volume takes {most} at once; split it")]
    TooLarge {
        /// Blocks that it changes.
        blocks: u64,
        /// Most blocks of a transaction of this volume.
        most: u64,
    },
    /// It leaves the volume.
    #[error("the transaction goes up to block {end}, the volume has {blocks}")]
    OutOfRange {
        /// The block behind the last one that it changes.
        end: BlockNr,
        /// Size of the volume in blocks.
        blocks: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_block_counts() {
        let mut all = Transaction::new();
        assert!(all.is_empty() && all.end() == 0);
        all.write(7, &Data::stamp(3, 7, 1));
        all.trim(8, 1);
        all.write(20, &Data::zeros(1));
        all.write(7, &Data::stamp(1, 7, 2));
        assert_eq!((all.blocks(), all.end()), (4, 21));
        let changes: Vec<_> = all.changes().map(|(at, piece)| (at, piece.is_some())).collect();
        assert_eq!(changes, [(7, true), (8, false), (9, true), (20, false)]);
        assert_eq!(all.changes().next(), Some((7, Some(&Data::stamp(1, 7, 2).block(0)))));
        assert!(all.overlaps(0, 8) && all.overlaps(9, 1) && !all.overlaps(10, 10));
    }
}
