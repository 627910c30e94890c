//! Guards: bytes of a block that may not reach the disk before something else is there.
//!
//! A *field* is a range of bytes of a block. A *fact* is a field whose present content, or a later
//! one, is on the disk. A *guard* keeps the old bytes of changed fields until all the facts that it
//! needs hold: each image of the block that is written before has the old bytes there. A deferred
//! *action* waits for facts in the same way. The block in the cache is never changed back, and no
//! operation waits for a guard.
//!
//! Guards of one block that overlap are released in their order, so that the disk sees the changes
//! of a field in order. A fact is taken from a write if no guard that is as old as the fact was
//! rolled back there: what a younger guard has put back is not older than the fact. This makes "as
//! of now" right. It cannot come to a circle, for a guard needs only facts of a lower level (bits,
//! inodes, pointers, names, removals by rename).
//!
//! The same table serves two policies. Soft updates (Ganger and Patt; paper 001, section 2.2) lets
//! the syncer write blocks when it likes. Synchronous FFS writes at once what a call needs.

mod closure;
mod image;
mod table;
#[cfg(test)]
mod tests;

pub use image::{Image, Manifest};

use crate::core::cache::NumberMap;
use crate::tx::BlockNo;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// The block.
    pub block: BlockNo,
    /// First byte.
    pub at: u16,
    /// Number of bytes, at least 1.
    pub length: u16,
}

impl Field {
    /// The bytes `at..at + length` of a block.
    ///
    /// # Panics
    /// If they are not in a block of 8192 bytes.
    pub fn new(block: BlockNo, at: usize, length: usize) -> Field {
        assert!(length > 0 && at + length <= 8192, "{length} bytes at {at}");
        Field { block, at: at as u16, length: length as u16 }
    }

    fn span(self) -> Span {
        Span { from: self.at, to: self.at + self.length }
    }
}

/// Bytes of the block at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: u16,
    to: u16,
}

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.from < other.to && other.from < self.to
    }

    fn covers(self, other: Span) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    fn bytes(self) -> std::ops::Range<usize> {
        usize::from(self.from)..usize::from(self.to)
    }
}

/// A changed field with its old content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Old {
    span: Span,
    bytes: SmallVec<[u8; 16]>,
}

/// Old bytes that images show until its needs hold.
#[derive(Clone, Debug)]
struct Guard {
    /// Names it; never given twice.
    serial: u64,
    /// Its place among the guards of its block.
    order: u64,
    /// The time of the oldest change that it keeps back: its old bytes may be that old.
    since: u64,
    /// The facts that it needs, and a bit for each that does not hold yet.
    needs: SmallVec<[Field; 3]>,
    missing: u64,
    olds: SmallVec<[Old; 2]>,
}

/// Facts that a guard or an action needs at most.
const MOST_NEEDS: usize = 64;

impl Guard {
    fn overlaps(&self, span: Span) -> bool {
        self.olds.iter().any(|old| old.span.overlaps(span))
    }
}

/// An action that waits.
#[derive(Clone, Debug)]
struct Waiting<A> {
    serial: u64,
    missing: u32,
    action: A,
}

/// What waits for a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Guard { block: BlockNo, serial: u64, need: u8 },
    Action { slot: usize, serial: u64 },
}

/// A fact of a block that does not hold yet.
#[derive(Clone, Copy, Debug)]
struct Fact {
    span: Span,
    /// When it was asked for.
    time: u64,
    target: Target,
}

/// What hangs on a block: its guards in order, and the facts that its writes bring.
#[derive(Clone, Debug, Default)]
struct Hung {
    guards: SmallVec<[Guard; 2]>,
    facts: SmallVec<[Fact; 4]>,
}

/// All guards, facts and deferred actions of a file system. `A` is an action.
#[derive(Clone, Debug)]
pub struct Guards<A> {
    blocks: NumberMap<Hung>,
    actions: Slab<Waiting<A>>,
    ready: VecDeque<A>,
    /// Counts guards and actions, and serves as the time.
    serial: u64,
    /// Guards, facts and waiting actions, for the limit.
    count: usize,
}
