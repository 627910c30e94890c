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
//! rolled back there: what a younger guard has put back is not older than the fact. So a guard
//! waits only for guards that are older than itself, and there is no circle.
//!
//! The same table serves two policies. Soft updates (Ganger and Patt; paper 001, section 2.2) lets
//! the syncer write blocks when it likes. Synchronous FFS writes at once what a call needs.

mod front;
mod image;
mod table;
#[cfg(test)]
mod tests;

pub use image::Manifest;

use crate::core::page::Mask;
use crate::tx::{BlockNo, Field};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of the block at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: u16,
    to: u16,
}

impl Span {
    fn of(field: Field) -> Span {
        Span { from: field.at, to: field.at + field.length }
    }

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

/// A fact that a guard needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    field: Field,
    /// Names it; never given twice.
    number: u64,
    /// The time of the guard that asked for it.
    time: u64,
}

/// Old bytes that images show until its needs hold.
#[derive(Clone, Debug)]
struct Guard {
    /// Names it; never given twice. It is the time, too.
    serial: u64,
    /// The time of the oldest change that it keeps back: its old bytes may be that old.
    since: u64,
    /// The facts that it needs and that do not hold yet.
    needs: SmallVec<[Need; 3]>,
    olds: SmallVec<[Old; 2]>,
    keeps: Keeps,
}

/// What a guard keeps from the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// Something that comes: a later change of the same bytes supersedes it.
    Addition,
    /// More of something, such as a size: a later change that supersedes others needs what they
    /// need, too.
    Growth,
    /// A name that goes when another one has come.
    Name,
    /// A link that goes when its name is gone.
    Link,
}

impl Guard {
    fn overlaps(&self, span: Span) -> bool {
        self.olds.iter().any(|old| old.span.overlaps(span))
    }

    /// The sectors in which some of a field is kept back.
    fn touches(&self, span: Span) -> Mask {
        let overlaps = self.olds.iter().filter(|old| old.span.overlaps(span));
        overlaps.fold(0, |all, old| all | image::touched(old.span))
    }

    /// True if all of a field is kept back by this guard.
    fn covers(&self, span: Span) -> bool {
        self.olds.iter().any(|old| old.span.covers(span))
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
    Guard { block: BlockNo, need: u64 },
    Action { slot: usize, serial: u64 },
}

/// A fact of a block that does not hold yet.
#[derive(Clone, Copy, Debug)]
struct Fact {
    span: Span,
    /// Sectors of it that no write has carried yet.
    left: Mask,
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
    blocks: BTreeMap<BlockNo, Hung>,
    actions: Slab<Waiting<A>>,
    ready: VecDeque<A>,
    /// Since when each guard keeps something back, and its serial.
    oldest: BTreeSet<(u64, u64)>,
    /// Counts guards and actions, and serves as the time.
    serial: u64,
    /// Counts needs.
    asked: u64,
    /// Guards, facts and waiting actions, for the limit.
    count: usize,
    /// No guard is superseded now.
    keeps_all: bool,
}
