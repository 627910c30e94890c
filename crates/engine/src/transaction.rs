//! Transactions: changes of several requests, anywhere in a volume, that take hold together or not
//! at all (section 8.5 of the Loge paper). A client collects them here and hands them in with
//! [`crate::node::Node::submit_transaction`]; until then no other client sees any of them.

use crate::data::{Body, Data, Piece, is_zero};
use crate::objects;
use crate::units::{BLOCK_BYTES, BlockNr};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that a whole block or a cut takes in [`Transaction::patch_bytes`].
pub const NAMED_BYTES: u64 = 16;

/// Bytes that a change of so many bytes of a block takes in [`Transaction::patch_bytes`].
pub const fn patch_cost(length: usize) -> u64 {
    length as u64 + 12
}

/// Changes that are to take hold together. Of several changes of a block the last one counts.
///
/// Volumes that [take patches](crate::layer::Status::takes_patches) are told of bytes that change,
/// and of ranges too long to name each of their blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Ranges that are forgotten, before anything is written.
    cuts: Vec<Range<BlockNr>>,
    /// Blocks that change as a whole.
    blocks: BTreeMap<BlockNr, Option<Piece>>,
    /// Bytes that change in other blocks, in order of the changes.
    patches: BTreeMap<BlockNr, Vec<Patch>>,
}

/// Bytes that a block has from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the block.
    pub at: usize,
    /// What is there from then on, within the block.
    pub bytes: Bytes,
}

impl Transaction {
    /// No change yet.
    pub fn new() -> Transaction {
        Transaction::default()
    }

    /// Writes `data` from block `at` on.
    pub fn write(&mut self, at: BlockNr, data: &Data) {
        debug_assert!(at.checked_add(u64::from(data.blocks())).is_some(), "{at} is no block");
        for (block, index) in (at..).zip(0..data.blocks()) {
            self.patches.remove(&block);
            self.blocks.insert(block, Some(data.block(index)));
        }
    }

    /// Forgets `count` blocks from `at` on: they read as zeros afterwards.
    pub fn trim(&mut self, at: BlockNr, count: u32) {
        for block in at..at + u64::from(count) {
            self.patches.remove(&block);
            self.blocks.insert(block, None);
        }
    }

    /// The same for a range of any length, where the volume takes patches.
    pub fn cut(&mut self, range: Range<BlockNr>) {
        debug_assert!(!range.is_empty(), "{range:?}");
        self.blocks.retain(|block, _| !range.contains(block));
        self.patches.retain(|block, _| !range.contains(block));
        self.cuts.push(range);
    }

    /// Changes bytes of block `block` from offset `at` on, where the volume takes patches.
    ///
    /// # Panics
    /// In debug builds, if they leave the block.
    pub fn patch(&mut self, block: BlockNr, at: usize, bytes: &[u8]) {
        debug_assert!(!bytes.is_empty() && at + bytes.len() <= BLOCK_BYTES);
        match self.blocks.get_mut(&block) {
            Some(whole) => {
                let old = whole.take().map(|piece| piece.to_bytes().to_vec());
                let mut content = old.unwrap_or_else(|| vec![0; BLOCK_BYTES]);
                content[at..at + bytes.len()].copy_from_slice(bytes);
                *whole = Some(Piece::block(Body::Bytes(content.into())));
            }
            None => {
                let bytes = Bytes::copy_from_slice(bytes);
                self.patches.entry(block).or_default().push(Patch { at, bytes });
            }
        }
    }

    /// Number of blocks that it changes one by one, as a whole or in part.
    pub fn blocks(&self) -> u64 {
        (self.blocks.len() + self.patches.len()) as u64
    }

    /// True if it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks() == 0 && self.cuts.is_empty()
    }

    /// True if only volumes that take patches can do it.
    pub fn has_patches(&self) -> bool {
        !self.patches.is_empty() || !self.cuts.is_empty()
    }

    /// The block behind the last one that it changes; 0 if it changes none.
    pub fn end(&self) -> BlockNr {
        let whole = self.blocks.last_key_value().map(|(&block, _)| block + 1);
        let part = self.patches.last_key_value().map(|(&block, _)| block + 1);
        let cut = self.cuts.iter().map(|range| range.end).max();
        whole.into_iter().chain(part).chain(cut).max().unwrap_or(0)
    }

    /// What it does with whole blocks, in ascending order. `None` forgets a block, as zeros do.
    pub fn changes(&self) -> impl Iterator<Item = (BlockNr, Option<&Piece>)> {
        let piece = |piece: &'_ Piece| !is_zero(piece);
        self.blocks.iter().map(move |(&block, one)| (block, one.as_ref().filter(|one| piece(one))))
    }

    /// The ranges that it forgets before it does anything else.
    pub fn cuts(&self) -> &[Range<BlockNr>] {
        &self.cuts
    }

    /// The bytes that it changes in blocks that it does not change as a whole: the blocks in
    /// ascending order, the changes of each in theirs.
    pub fn patches(&self) -> impl Iterator<Item = (BlockNr, &[Patch])> {
        self.patches.iter().map(|(&block, patches)| (block, patches.as_slice()))
    }

    /// What it says beside the content of whole blocks, in bytes, at most: volumes that take
    /// patches keep as much in one block of their map. See
    /// [`patch_bytes`](crate::layer::Status::patch_bytes).
    pub fn patch_bytes(&self) -> u64 {
        let whole = |&at: &BlockNr| match objects::split(at).1 {
            objects::ATTRIBUTES => patch_cost(objects::ATTRIBUTE_BYTES) + NAMED_BYTES,
            _ => NAMED_BYTES,
        };
        let patches = self.patches.values().flatten().map(|one| patch_cost(one.bytes.len()));
        let cuts = self.cuts.len() as u64 * NAMED_BYTES;
        self.blocks.keys().map(whole).sum::<u64>() + patches.sum::<u64>() + cuts
    }

    /// True if it changes a block of the range `at..at + count`.
    pub fn overlaps(&self, at: BlockNr, count: u64) -> bool {
        let range = at..at + count;
        self.blocks.range(range.clone()).next().is_some()
            || self.patches.range(range.clone()).next().is_some()
            || self.cuts.iter().any(|cut| cut.start < range.end && range.start < cut.end)
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
    /// The volume takes whole blocks only.
    #[error("the volume changes whole blocks only; write the blocks whose bytes change")]
    Patches,
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
    /// It says more beside whole blocks than the volume can keep at once.
    #[error("the transaction says {bytes} bytes of changes, the volume takes {most}; split it")]
    TooManyPatches {
        /// As [`Transaction::patch_bytes`] counts them.
        bytes: u64,
        /// Most bytes of this volume.
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

    #[test]
    fn later_changes_make_earlier_ones_void() {
        let mut all = Transaction::new();
        all.patch(3, 10, b"gone");
        all.write(3, &Data::zeros(1));
        all.patch(3, 5, b"kept");
        assert!(!all.has_patches(), "the block is whole");
        let (_, piece) = all.changes().next().expect("block 3");
        assert_eq!(&piece.expect("it holds something").to_bytes()[4..10], b"\0kept\0");
        all.patch(9, 0, b"one");
        all.patch(9, 1, b"two");
        assert_eq!((all.blocks(), all.end(), all.has_patches()), (2, 10, true));
        all.cut(9..1 << 40);
        assert_eq!((all.blocks(), all.end()), (1, 1 << 40));
        all.patch(9, 2, b"new");
        let patches: Vec<_> = all.patches().map(|(at, all)| (at, all.len())).collect();
        assert_eq!(patches, [(9, 1)]);
        assert!(all.overlaps(1 << 39, 1) && !all.overlaps(4, 5));
    }
}
