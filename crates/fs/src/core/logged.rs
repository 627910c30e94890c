//! The log of a policy that keeps one: its groups, its writes, and what waits for them.
//!
//! A transaction ends with its group. A block with sectors of groups that are not durable is not
//! written in place: it waits here, and its write is tried again when the log has come further. So
//! do calls that are answered when the log has their group. The log itself goes out with forced
//! unit access, so it needs no flush.

use super::failure::Lost;
use super::page::{Mask, mask};
use super::tx::Changed;
use super::{CallKey, Core, Ordering, Sent};
use crate::call::Timestamp;
use crate::log::{LogWrite, Lsn};
use crate::policy::{Group, LogIo, Rule, Settle, TransactionLimits};
use crate::tx::{BlockNo, Field, PageKind};
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::io::{Io, IoError, Part, Purpose};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, Time};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Pieces of space that may be given up and not free yet before the next step of any operation. A
/// step adds 2,048 at most.
const MOST_OWED: usize = 4096;

/// What waits for the log.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    /// Calls, by how far the log must be durable.
    calls: BTreeMap<Lsn, Vec<CallKey>>,
    /// Blocks of the queue of writes, with their class.
    blocks: BTreeSet<(u8, BlockNo)>,
    /// The policy knows what the volume takes.
    asked: bool,
}

impl Logged {
    /// Blocks that are not written because the log has not come far enough.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// All calls that wait.
    pub(crate) fn take_calls(&mut self) -> impl Iterator<Item = CallKey> + use<> {
        std::mem::take(&mut self.calls).into_values().flatten()
    }
}

impl Core {
    /// The group of a transaction that has ended well. `at` is the time of the driver.
    pub(crate) fn log_group(&mut self, time: Timestamp, at: Time) -> Settle {
        let Core { cache, scratch, policy, shape, seals, .. } = &mut *self;
        let changed = Changed::new(cache, scratch, (shape.block_bytes, seals.content_bytes()));
        let mut contents: SmallVec<[(BlockNo, Mask, bool); 2]> = SmallVec::new();
        for rule in &scratch.rules {
            let &Rule::Content { field, always } = rule else { continue };
            let Some(slot) = cache.find(field.block) else { continue };
            let buffer = cache.get(slot);
            let is_content = |index: usize| buffer.kinds[index] == PageKind::Data;
            let sectors = super::page::each(sectors_of(field) & buffer.dirty)
                .filter(|&index| is_content(index))
                .fold(0, |all: Mask, index| all | 1 << index);
            contents.push((field.block, sectors, always));
        }
        let changed_contents = match policy.carries_content() {
            true => scratch.changed_contents(cache, shape.block_bytes),
            false => SmallVec::new(),
        };
        let (edits, sectors, changed_bytes) = match policy.writes_patches() {
            true => {
                let bytes = scratch.changed_bytes(cache, shape.block_bytes);
                (Vec::new(), SmallVec::new(), bytes)
            }
            false => (changed.edits(), changed.sectors(), Vec::new()),
        };
        let rules = &scratch.rules;
        let group =
            Group { edits, sectors, contents, changed_contents, changed_bytes, rules, time };
        let settle = policy.group(&group, at);
        // After that only reads run, and go on.
        if self.policy.is_lost() && self.failed().is_none() {
            self.fail(IoError::NoSpace, Lost::Log);
            // The call fails: the log never comes so far.
            return Settle::Logged(Lsn(u64::MAX));
        }
        settle
    }

    /// True if no operation may run, because the log has no room for its group.
    pub fn lacks_log_room(&self) -> bool {
        self.policy.takes_groups() && self.failed().is_none() && self.policy.lacks_room()
    }

    /// True if the volume may have more room soon: it brings some back by itself, or has not heard
    /// of all that was given up.
    pub fn room_may_grow(&self) -> bool {
        let unheard = self.policy.log_durable() < self.policy.log_end();
        self.room.is_some_and(|room| room.comes_back || unheard) && self.failed().is_none()
    }

    /// True if so much space is given up and not free yet that nothing else may give up more: what
    /// is open must fit into a checkpoint, beside the longest group, in the smallest log.
    pub fn owes_much(&self) -> bool {
        self.policy.takes_groups() && self.failed().is_none() && self.policy.frees() > MOST_OWED
    }

    /// Makes the log durable up to its present end; [`Core::take_settled`] names the call then.
    pub fn settle_log(&mut self, key: CallKey, to: Lsn, below: &mut Below<'_>) {
        if let Some(error) = self.failed() {
            self.barriers.settle(key, Err(error));
        } else if to <= self.policy.log_durable() {
            self.barriers.settle(key, Ok(()));
        } else {
            self.logged.calls.entry(to).or_default().push(key);
            self.force_log(to);
        }
        self.push_output(below);
    }

    /// Makes the log durable up to here. Content that must be on the disk before is queued.
    pub(crate) fn force_log(&mut self, to: Lsn) {
        self.policy.force(to);
        self.queue_held_up();
    }

    fn queue_held_up(&mut self) {
        for block in self.policy.take_held_up() {
            self.queue_now(block);
        }
    }

    fn queue_now(&mut self, block: BlockNo) {
        if let Some(slot) = self.cache.find(block) {
            self.queue_write(slot);
        }
    }

    /// How far the log must be durable before anything of a block can be written in place.
    pub(crate) fn waits_for_log(&self, block: BlockNo) -> Option<Lsn> {
        let buffer = self.cache.get(self.cache.find(block)?);
        let can_be_written = buffer.dirty != 0 && buffer.writing.is_none();
        can_be_written.then(|| self.policy.before(block, buffer.dirty)).flatten()
    }

    /// A block waits until the log is durable up to `to`.
    pub(crate) fn wait_for_log(&mut self, class: u8, block: BlockNo, to: Lsn) {
        self.logged.blocks.insert((class, block));
        self.force_log(to);
    }

    /// Sends what the log has to write. True if blocks were queued meanwhile.
    pub(crate) fn push_log(&mut self, below: &mut Below<'_>) -> bool {
        if !self.policy.takes_groups() || self.failed().is_some() {
            return false;
        }
        if !self.logged.asked {
            self.logged.asked = true;
            if below.node(0).takes_parts() {
                self.policy.use_parts();
            }
            let status = below.node(0).layer.status();
            self.policy.use_transactions(TransactionLimits {
                blocks: status.transaction_blocks(),
                patch_bytes: status.patch_bytes(),
                sectors: self.shape.sectors(),
            });
        }
        self.ask_room(below);
        let is_due = self.policy.log_due().is_some_and(|due| due <= below.now());
        if is_due && !self.is_durable_at_once() {
            self.force_log(self.policy.log_end());
        }
        self.queue_held_up();
        while let Some(io) = self.policy.log_write(below.now()) {
            self.send_log(io, below);
        }
        self.push_transaction(below);
        self.barriers.kept_back |= self.policy.waits_for_flush();
        let homeward = self.policy.take_homeward();
        homeward.into_iter().for_each(|block| self.queue_now(block));
        !self.output.queue.is_empty()
    }

    fn send_log(&mut self, io: LogIo, below: &mut Below<'_>) {
        let (io, sent) = match io {
            LogIo::Sectors { at, write } => {
                self.stats.log_writes += 1;
                self.stats.log_sectors += (write.bytes.len() / SECTOR_BYTES) as u64;
                (sectors_io(at, &write), Sent::Log(write.number))
            }
            LogIo::Superblock { at, bytes } => {
                self.stats.log_writes += 1;
                self.stats.log_sectors += BLOCK_SECTORS;
                (Io::write(0, at, Data::bytes(bytes.into())), Sent::LogSuperblock)
            }
        };
        let io = if self.options.ordering == Ordering::Trusted { io } else { io.with_fua() };
        let tag = self.sent.insert(sent);
        below.submit(0, Io { tag, ..io }.for_purpose(Purpose::Journal));
    }

    /// Sectors of the log are durable, or lost.
    pub(crate) fn log_written(&mut self, number: u64, outcome: Result<(), IoError>) {
        if let Err(error) = outcome {
            return self.fail(error, Lost::Log);
        }
        let durable = self.policy.log_written(number);
        self.log_has_come_to(durable);
    }

    /// Answers the calls, and queues the blocks, that have waited for the log.
    fn log_has_come_to(&mut self, durable: Lsn) {
        let later = self.logged.calls.split_off(&Lsn(durable.0 + 1));
        let done = std::mem::replace(&mut self.logged.calls, later);
        done.into_values().flatten().for_each(|key| self.barriers.settle(key, Ok(())));
        for one in std::mem::take(&mut self.logged.blocks) {
            self.output.queue.insert(one);
        }
    }

    /// A superblock of the log is durable, or lost.
    pub(crate) fn log_superblock_written(&mut self, outcome: Result<(), IoError>) {
        match outcome {
            Ok(()) => {
                let durable = self.policy.superblock_written();
                self.log_has_come_to(durable);
            }
            Err(error) => self.fail(error, Lost::Log),
        }
    }
}

fn sectors_of(field: Field) -> Mask {
    mask(usize::from(field.at), usize::from(field.length))
}

/// The request that writes sectors of a log.
fn sectors_io(at: u64, write: &LogWrite) -> Io {
    let first = at + write.sector / BLOCK_SECTORS;
    let skip = (write.sector % BLOCK_SECTORS) as usize;
    let sectors = write.bytes.len() / SECTOR_BYTES;
    if skip == 0 && write.bytes.len().is_multiple_of(BLOCK_BYTES) {
        return Io::write(0, first, Data::bytes(write.bytes.clone()));
    }
    let mut bytes = vec![0; ((skip + sectors) * SECTOR_BYTES).next_multiple_of(BLOCK_BYTES)];
    bytes[skip * SECTOR_BYTES..(skip + sectors) * SECTOR_BYTES].copy_from_slice(&write.bytes);
    let part = Part { first: skip as u32, sectors: sectors as u32 };
    Io::write(0, first, Data::bytes(bytes.into())).of_part(part)
}
