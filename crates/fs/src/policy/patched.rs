//! Transactions of a volume that takes patches: an operation is the bytes that it changes.
//!
//! Operations since the last transaction make up the next one; one is under way at a time, and is
//! forced, so after a crash the file system, content included, is what it was after one of its
//! operations. Blocks of which little has changed go as patches, others as a whole. Space is given
//! up by cuts, which are part of the operation, so nothing is owed and nothing has to be put in
//! order.
//!
//! Invariant between calls: what is open fits into one transaction, with room for one short
//! operation. A long one asks for its place first ([`crate::tx::Tx::place_for_blocks`]).

mod open;

use super::guard::Manifest;
use super::journal::MOST_AGE;
use super::{
    Carried, Group, Policy, PolicyKind, Rule, Settle, TransactionLimits, VolumeTransaction,
};
use crate::core::page::{Mask, Page};
use crate::log::Lsn;
use crate::tx::BlockNo;
use open::Open;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::transaction::NAMED_BYTES;
use seekless_engine::units::Time;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that an operation says at most, if it is none that asks for its place.
pub const SHORT_BYTES: u64 = 768;
/// Blocks that it changes at most.
pub const SHORT_BLOCKS: u64 = 16;
/// Blocks that a volume must take in one transaction.
pub const NEEDED_BLOCKS: u64 = 2 * SHORT_BLOCKS;
/// Bytes of patches that it must take.
pub const NEEDED_BYTES: u64 = 2 * SHORT_BYTES;

/// A transaction that is under way.
#[derive(Clone, Debug)]
struct Flying {
    sectors: BTreeMap<BlockNo, Mask>,
    cuts: Vec<Range<BlockNo>>,
    whole_blocks: u64,
    /// Behind its last operation.
    end: Lsn,
}

/// The policy. Positions are numbers of operations.
#[derive(Clone, Debug)]
pub struct Patched {
    kind: PolicyKind,
    /// Operations share a transaction. Without it each has one of its own.
    group_commit: bool,
    open: Open,
    flying: Option<Flying>,
    /// Behind the last operation, and behind the last one that is durable.
    end: Lsn,
    durable: Lsn,
    /// Everything in front of it is to be durable.
    wanted: Lsn,
    /// When the next transaction goes out if nothing asks for it.
    due: Option<Time>,
    limits: TransactionLimits,
    /// An operation waits for the next transaction to go out.
    is_crowded: bool,
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
    patches: u64,
    patch_bytes: u64,
    cuts: u64,
}

impl Patched {
    /// A policy with nothing to write. Operations share transactions, or each has its own.
    ///
    /// Calls that change names or inodes are answered at once under `async`, and when their
    /// transaction is durable under `sync`.
    ///
    /// # Panics
    /// If the policy is another one.
    pub fn new(kind: PolicyKind, group_commit: bool) -> Patched {
        let is_known = matches!(kind, PolicyKind::Async | PolicyKind::Sync);
        assert!(is_known, "{} says what goes into a transaction", kind.name());
        let first = Lsn(1);
        Patched {
            kind,
            group_commit,
            open: Open::default(),
            flying: None,
            end: first,
            durable: first,
            wanted: first,
            due: None,
            limits: TransactionLimits { blocks: u64::MAX, patch_bytes: u64::MAX, sectors: 8 },
            is_crowded: false,
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

    /// True if a short operation may not fit.
    fn is_nearly_full(&self) -> bool {
        self.open.bytes() + SHORT_BYTES > self.limits.patch_bytes
            || self.open.blocks() + SHORT_BLOCKS > self.limits.blocks
    }

    /// Blocks in the next transaction.
    fn in_next(&self) -> usize {
        match planted(PlantedBug::TransactionSplit) {
            true => self.open.len().div_ceil(2),
            false => self.open.len(),
        }
    }

    /// Sectors of a block that wait for a transaction.
    fn waits(&self, block: BlockNo) -> Mask {
        if !Edge::TransactionHolds.stands() {
            return 0;
        }
        let flying = self.flying.as_ref().and_then(|flying| flying.sectors.get(&block));
        self.open.sectors(block) | flying.copied().unwrap_or(0)
    }
}

impl Policy for Patched {
    fn kind(&self) -> PolicyKind {
        self.kind
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn takes_groups(&self) -> bool {
        true
    }

    fn writes_patches(&self) -> bool {
        true
    }

    fn answers_late(&self) -> bool {
        self.kind.answers_when_durable()
    }

    fn group(&mut self, group: &Group<'_>, now: Time) -> Settle {
        let cuts = group.rules.iter().filter_map(|rule| match rule {
            Rule::Cut(blocks) => Some(blocks.clone()),
            _ => None,
        });
        let mut changes = false;
        for blocks in cuts {
            changes = true;
            self.open.cut(blocks);
        }
        let forgets = planted(PlantedBug::UnitForgetsContent);
        for (block, bytes, is_content) in &group.changed_bytes {
            if !(*is_content && forgets) {
                changes = true;
                self.open.change(*block, bytes.clone());
            }
        }
        if !changes {
            return Settle::Now;
        }
        self.end = Lsn(self.end.0 + 1);
        self.counts.operations += 1;
        self.due.get_or_insert(now + MOST_AGE);
        self.is_lost |=
            self.open.bytes() > self.limits.patch_bytes || self.open.blocks() > self.limits.blocks;
        if !self.group_commit || self.is_nearly_full() {
            self.force(self.end);
        }
        let at_once = group.rules.iter().any(|rule| matches!(rule, Rule::AtOnce(_)));
        if at_once && self.answers_late() { Settle::Logged(self.end) } else { Settle::Now }
    }

    fn image(&mut self, _block: BlockNo, _sectors: Mask, _page: &mut Page) -> (Manifest, Mask) {
        (Manifest::default(), 0)
    }

    fn before(&self, block: BlockNo, sectors: Mask) -> Option<Lsn> {
        let is_open = self.open.sectors(block) & sectors != 0;
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
        self.limits = limits;
    }

    fn next_transaction(&self) -> Option<VolumeTransaction> {
        let is_next = self.is_wanted() && self.flying.is_none() && !self.is_lost;
        is_next.then(|| self.open.transaction(self.in_next()))
    }

    fn transaction_sent(&mut self) -> u64 {
        let split = self.in_next();
        let sent = self.open.take(split);
        let end = if self.open.is_empty() { self.end } else { self.durable };
        let counts = &mut self.counts;
        counts.transactions += 1;
        counts.cuts += sent.cuts.len() as u64;
        let (mut sectors, mut whole_blocks) = (BTreeMap::new(), 0);
        for (block, carried) in sent.blocks {
            match &carried {
                Carried::Sectors(_) => whole_blocks += 1,
                Carried::Bytes(ranges) => {
                    counts.patches += 1;
                    let bytes = ranges.iter().map(|range| u64::from(range.end - range.start));
                    counts.patch_bytes += bytes.sum::<u64>();
                }
            }
            sectors.insert(block, open::sectors_of(&carried));
        }
        counts.blocks += whole_blocks;
        self.is_crowded = false;
        self.flying = Some(Flying { sectors, cuts: sent.cuts, whole_blocks, end });
        end.0
    }

    fn log_written(&mut self, number: u64) -> Lsn {
        let flying = self.flying.take().expect("a transaction was under way");
        debug_assert_eq!(flying.end, Lsn(number), "one is under way at a time");
        self.durable = flying.end;
        self.durable
    }

    fn lacks_room(&self) -> bool {
        let closes = self.is_wanted() && (self.flying.is_none() || !self.group_commit);
        closes || self.is_crowded || self.is_nearly_full()
    }

    fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn is_cut(&self, block: BlockNo) -> bool {
        let flying = self.flying.iter().flat_map(|flying| &flying.cuts);
        self.open.cuts().iter().chain(flying).any(|blocks| blocks.contains(&block))
    }

    fn blocks_to_come(&self) -> u64 {
        self.open.whole_blocks() + self.flying.as_ref().map_or(0, |flying| flying.whole_blocks)
    }

    fn place_for_blocks(&self) -> u64 {
        let bytes = self.limits.patch_bytes.saturating_sub(self.open.bytes() + SHORT_BYTES);
        let blocks = self.limits.blocks.saturating_sub(self.open.blocks() + SHORT_BLOCKS);
        blocks.min(bytes / NAMED_BYTES)
    }

    fn make_place(&mut self) {
        self.is_crowded = !self.open.is_empty();
        self.force(self.end);
    }

    fn log_stats(&self) -> Vec<(&'static str, u64)> {
        let Counts { operations, transactions, blocks, patches, patch_bytes, cuts } = self.counts;
        vec![
            ("operations in transactions", operations),
            ("transactions", transactions),
            ("blocks in transactions", blocks),
            ("blocks patched", patches),
            ("bytes of patches", patch_bytes),
            ("cuts", cuts),
        ]
    }
}
