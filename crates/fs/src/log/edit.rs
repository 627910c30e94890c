//! A change of sealed sectors, as a transaction makes it and a log records it.

use super::group::Record;
use crate::seal::SealKind;
use crate::tx::{BlockNo, PageKind};

/// A change of sealed sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Whole sectors were made zeros, and then got the bytes of later edits.
    Fresh {
        /// The block.
        block: BlockNo,
        /// Offset in it.
        at: u16,
        /// Bytes, whole sectors.
        length: u16,
        /// What the sectors hold.
        kind: PageKind,
    },
    /// Bytes of one sector, as they are now.
    Bytes {
        /// The block.
        block: BlockNo,
        /// Offset in it.
        at: u16,
        /// What the sector holds.
        kind: PageKind,
        /// The bytes.
        bytes: &'a [u8],
    },
}

impl<'a> Edit<'a> {
    /// The record of it in a log.
    ///
    /// # Panics
    /// If its sectors have no seals, or the block has no number of 32 bits.
    pub fn record(&self) -> Record<'a> {
        let seal = |kind| SealKind::of_page(kind).expect("edits are of sealed sectors") as u8;
        let number = |block| u32::try_from(block).expect("a block of a format has 32 bits");
        match *self {
            Edit::Fresh { block, at, length, kind } => {
                Record::Fresh { seal: seal(kind), at, block: number(block), length }
            }
            Edit::Bytes { block, at, kind, bytes } => {
                Record::Bytes { seal: seal(kind), at, block: number(block), bytes }
            }
        }
    }
}
