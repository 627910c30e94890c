//! Transactions of the volume: operations take hold as a whole, and no log is kept.
//!
//! The layout of the volume writes several blocks so that a crash leaves all of them or none
//! (section 8.5 of the Loge paper). Operations since the last transaction make up the next one; one
//! is under way at a time, and is forced, so after a crash the file system is what it was after one
//! of its operations. Content that an operation gives a place is on the disk before, or goes with
//! it where both lie in one block of the volume.
//!
//! Under `unit` a transaction carries content, too: what operations have written is part of them,
//! and after a crash content is of the same point in time. A call that writes much is several
//! operations, from its first byte on.
//!
//! Space that an operation gives up is free in the maps when its transaction is durable. There is
//! no place for a note of what is still to be freed, so a crash may leave space and inodes that
//! nothing uses; a mount finds them while files are in use, as under `soft`.
//!
//! Invariant between calls: the open sectors fit into one transaction, with room for one operation.

use super::guard::Manifest;
use super::journal::MOST_AGE;
use super::journal::contents::Contents;
use super::journal::open::Open;
use super::{
    Brings, Carried, Group, Policy, PolicyKind, Rule, Settle, TransactionLimits, VolumeTransaction,
};
use crate::core::page::{ENGINE_SECTORS, Mask, Page, mask};
use crate::core::transactions::whole_blocks;
use crate::log::Lsn;
use crate::tx::{BlockNo, Deferred, Field};
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::Time;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Blocks of the file system that one operation changes at most.
pub const MOST_BLOCKS: u64 = 64;

/// Blocks of content that one operation changes at most: a step of a write, and a cluster that
/// moves.
pub const MOST_CONTENT_BLOCKS: u64 = 64;

/// Blocks of the file system that a transaction must be able to take.
pub fn needed_blocks(policy: PolicyKind) -> u64 {
    MOST_BLOCKS + if policy.carries_content() { MOST_CONTENT_BLOCKS } else { 0 }
}

/// Sectors by block.
type Sectors = BTreeMap<BlockNo, Mask>;

/// A transaction that is under way.
#[derive(Clone, Debug)]
struct Flying {
    sectors: Sectors,
    /// Behind its last operation.
    end: Lsn,
}

/// The policy. Positions are numbers of operations.
#[derive(Clone, Debug)]
pub struct Atomic {
    kind: PolicyKind,
    /// Operations share a transaction. Without it each has one of its own.
    group_commit: bool,
    /// Sectors that operations have changed and no transaction carries.
    open: Sectors,
    /// Blocks of the volume that they lie in.
    size: u64,
    flying: Option<Flying>,
    contents: Contents,
    frees: Open,
    /// Behind the last operation, and behind the last one that is durable.
    end: Lsn,
    durable: Lsn,
    /// Everything in front of it is to be durable.
    wanted: Lsn,
    /// When the next transaction goes out if nothing asks for it.
    due: Option<Time>,
    /// Blocks of a transaction at most.
    most: u64,
    /// Blocks of the volume that one operation changes at most.
    reserve: u64,
    /// An operation was too large for a transaction: nothing more can be written.
    is_lost: bool,
    counts: Counts,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    operations: u64,
    transactions: u64,
    blocks: u64,
}

fn sectors_of(field: Field) -> Mask {
    mask(usize::from(field.at), usize::from(field.length))
}

/// Blocks of the volume that these sectors lie in.
fn blocks_of(sectors: Mask) -> u64 {
    u64::from(whole_blocks(sectors).count_ones()) / ENGINE_SECTORS as u64
}

impl Atomic {
    /// A policy with nothing to write. Operations share transactions, or each has its own.
    ///
    /// # Panics
    /// If the policy is another one.
    pub fn new(kind: PolicyKind, group_commit: bool) -> Atomic {
        assert!(kind.wants_transactions(), "{} has no transactions", kind.name());
        let first = Lsn(1);
        Atomic {
            kind,
            group_commit,
            open: Sectors::new(),
            size: 0,
            flying: None,
            contents: Contents::default(),
            frees: Open::default(),
            end: first,
            durable: first,
            wanted: first,
            due: None,
            most: u64::MAX,
            reserve: 0,
            is_lost: false,
            counts: Counts::default(),
        }
    }

    /// Behind the last operation that a transaction carries.
    fn sent(&self) -> Lsn {
        self.flying.as_ref().map_or(self.durable, |flying| flying.end)
    }

    /// True if what is open is to go out.
    fn is_wanted(&self) -> bool {
        self.wanted > self.sent() && !self.open.is_empty()
    }

    /// True if content must be on the disk before what is open, and no transaction carries it.
    fn waits_for_content(&self) -> bool {
        let carried = self.open.iter().map(|(&block, &sectors)| (block, whole_blocks(sectors)));
        self.contents.hold().is_some() && self.contents.waited_for(carried) > 0
    }

    fn add(&mut self, block: BlockNo, sectors: Mask) {
        let all = self.open.entry(block).or_default();
        self.size += blocks_of(*all | sectors) - blocks_of(*all);
        *all |= sectors;
    }

    /// Content goes with the operation, or first.
    fn add_content(&mut self, group: &Group<'_>, lsn: Lsn) {
        if self.carries_content() {
            let carried = !planted(PlantedBug::UnitForgetsContent);
            let changed = group.changed_contents.iter().filter(|_| carried);
            changed.for_each(|&(block, sectors)| self.add(block, sectors));
            return;
        }
        for &(block, sectors, _) in &group.contents {
            self.contents.wait(lsn, block, sectors);
        }
    }

    fn no_longer_waits_for(&mut self, field: Field) {
        self.contents.forget(field.block, sectors_of(field));
    }

    fn forget(&mut self, block: BlockNo, sectors: Mask) {
        let Some(all) = self.open.get_mut(&block) else { return };
        self.size -= blocks_of(*all) - blocks_of(*all & !sectors);
        *all &= !sectors;
        if *all == 0 {
            self.open.remove(&block);
        }
    }

    /// Blocks of the file system in the next transaction.
    fn in_next(&self) -> usize {
        match planted(PlantedBug::TransactionSplit) {
            true => self.open.len().div_ceil(2),
            false => self.open.len(),
        }
    }

    fn note_rules(&mut self, rules: &[Rule], lsn: Lsn, end: Lsn) {
        let mut given_up = Vec::new();
        for rule in rules {
            match *rule {
                Rule::Free { freed, content } => {
                    given_up.push(freed.what);
                    // Nothing on the disk will lead there: the same transaction gives it up.
                    content.into_iter().for_each(|field| self.no_longer_waits_for(field));
                }
                Rule::Freed(piece) => self.frees.freed(piece, end),
                Rule::Forget(field) => {
                    self.forget(field.block, sectors_of(field));
                    self.no_longer_waits_for(field);
                }
                Rule::Guard { .. }
                | Rule::AtOnce(_)
                | Rule::Content { .. }
                | Rule::Orphan(_)
                | Rule::Adopted(_)
                | Rule::Cut(_) => {}
            }
        }
        self.frees.give_up(given_up, lsn, end);
    }

    /// Sectors of a block that wait for a transaction.
    fn waits(&self, block: BlockNo) -> Mask {
        if !Edge::TransactionHolds.stands() {
            return 0;
        }
        let flying = self.flying.as_ref().and_then(|flying| flying.sectors.get(&block));
        self.open.get(&block).copied().unwrap_or(0) | flying.copied().unwrap_or(0)
    }
}

impl Policy for Atomic {
    fn kind(&self) -> PolicyKind {
        self.kind
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn takes_groups(&self) -> bool {
        true
    }

    fn carries_content(&self) -> bool {
        self.kind.carries_content()
    }

    fn defers_frees(&self) -> bool {
        true
    }

    fn group(&mut self, group: &Group<'_>, now: Time) -> Settle {
        let (lsn, end) = (self.end, Lsn(self.end.0 + 1));
        self.note_rules(group.rules, lsn, end);
        if group.sectors.is_empty() && group.changed_contents.is_empty() {
            return Settle::Now;
        }
        self.end = end;
        self.counts.operations += 1;
        self.due.get_or_insert(now + MOST_AGE);
        for &(block, sectors) in &group.sectors {
            self.add(block, sectors);
        }
        self.add_content(group, lsn);
        self.is_lost |= self.size > self.most;
        if !self.group_commit || self.size + self.reserve > self.most {
            self.force(self.end);
        }
        Settle::Now
    }

    fn image(&mut self, block: BlockNo, sectors: Mask, _page: &mut Page) -> (Manifest, Mask) {
        let brings = self.contents.write(block, sectors).into_iter();
        let brings: SmallVec<_> = brings.map(|(lsn, count)| Brings::Content(lsn, count)).collect();
        (Manifest::of(brings), 0)
    }

    fn settled(&mut self, manifest: Manifest) {
        for one in manifest.brings {
            if let Brings::Content(lsn, sectors) = one {
                self.contents.written(lsn, sectors);
            }
        }
    }

    fn before(&self, block: BlockNo, sectors: Mask) -> Option<Lsn> {
        let is_open = self.open.get(&block).is_some_and(|open| open & sectors != 0);
        (self.waits(block) & sectors != 0).then(|| if is_open { self.end } else { self.sent() })
    }

    fn held(&self, block: BlockNo) -> Mask {
        self.waits(block)
    }

    fn force(&mut self, to: Lsn) {
        self.wanted = self.wanted.max(to);
        if self.wanted >= self.end {
            self.due = None;
        }
    }

    fn take_held_up(&mut self) -> Vec<BlockNo> {
        if !self.is_wanted() {
            return Vec::new();
        }
        let mut blocks = self.contents.take_new(self.end);
        blocks.retain(|&block| self.contents.waits_for(block));
        blocks
    }

    fn log_end(&self) -> Lsn {
        self.end
    }

    fn log_durable(&self) -> Lsn {
        self.durable
    }

    fn log_due(&self) -> Option<Time> {
        self.due
    }

    fn use_transactions(&mut self, limits: TransactionLimits) {
        self.most = limits.blocks;
        self.reserve = needed_blocks(self.kind) * (limits.sectors / ENGINE_SECTORS) as u64;
    }

    fn next_transaction(&self) -> Option<VolumeTransaction> {
        let is_next = self.is_wanted()
            && self.flying.is_none()
            && !self.is_lost
            && !Edge::TransactionDataFirst.blocks(self.waits_for_content());
        let all = self.open.iter().map(|(&block, &sectors)| (block, Carried::Sectors(sectors)));
        let blocks = || all.take(self.in_next()).collect();
        is_next.then(|| VolumeTransaction { cuts: Vec::new(), blocks: blocks() })
    }

    fn transaction_sent(&mut self) -> u64 {
        let split = self.open.keys().nth(self.in_next()).copied();
        let rest = split.map(|block| self.open.split_off(&block)).unwrap_or_default();
        let end = if rest.is_empty() { self.end } else { self.durable };
        let sectors = std::mem::replace(&mut self.open, rest);
        let size = self.open.values().map(|&sectors| blocks_of(sectors)).sum();
        self.counts.transactions += 1;
        self.counts.blocks += self.size - size;
        self.size = size;
        self.flying = Some(Flying { sectors, end });
        end.0
    }

    fn log_written(&mut self, number: u64) -> Lsn {
        let flying = self.flying.take().expect("a transaction was under way");
        debug_assert_eq!(flying.end, Lsn(number), "one is under way at a time");
        self.durable = flying.end;
        self.durable
    }

    fn waits_for_flush(&self) -> bool {
        self.is_wanted() && self.waits_for_content()
    }

    /// Where content goes first, what comes now would have to wait for more of it.
    fn lacks_room(&self) -> bool {
        let closes = self.is_wanted() && (self.flying.is_none() || !self.group_commit);
        closes || self.size + self.reserve > self.most
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn take_free(&mut self) -> Option<Vec<Deferred>> {
        self.frees.take_free(self.durable)
    }

    fn frees(&self) -> usize {
        self.frees.pieces()
    }

    fn load(&self) -> usize {
        self.frees.pieces()
    }

    fn log_stats(&self) -> Vec<(&'static str, u64)> {
        let Counts { operations, transactions, blocks } = self.counts;
        vec![
            ("operations in transactions", operations),
            ("transactions", transactions),
            ("blocks in transactions", blocks),
        ]
    }
}

#[cfg(test)]
mod tests;
