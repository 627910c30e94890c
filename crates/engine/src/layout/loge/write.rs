//! Writing: choose places, write data with its labels, and install the new places in the table.

use super::table::{Entry, label};
use super::{Loge, MAX_MEMBERS};
use crate::checksum;
use crate::data::Data;
use crate::io::{Done, Io, Label as LabelBytes};
use crate::layer::Cx;
use crate::layout::desk::{RequestNr, Work};
use crate::layout::eager::commit::Batch;
use crate::layout::eager::place::Plan;
use crate::layout::eager::read::Entries;
use crate::layout::eager::write::Writing;
use crate::layout::eager::{self, BATCH_BLOCKS, Mapped, SHORT_RUN};
use crate::planted::{PlantedBug, planted};
use crate::units::BlockNr;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A transaction: where its blocks went, and the labels that say so.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    at: BlockNr,
    stamp: u64,
    entries: Entries<Entry>,
    /// A label for each block; zeros where nothing is stored.
    labels: SmallVec<[LabelBytes; 1]>,
}

/// The labels of the blocks of a command.
pub(super) type RunLabels = SmallVec<[LabelBytes; 1]>;
/// Commands of this layout: labels go beside the blocks.
pub(super) type Commands = eager::write::Commands<RunLabels>;

/// Puts labels on a command for a device that takes them.
pub(super) fn labelled(headers: bool) -> impl Fn(Io, RunLabels) -> Io {
    move |io, labels| if headers { io.with_labels(Arc::new(labels)) } else { io }
}

impl Loge {
    /// True if there is something to dispatch, room for it, and nothing in flight that it must
    /// not overtake.
    pub(super) fn next_may_begin(&mut self) -> bool {
        let (at, count) = match self.desk.front() {
            None => return false,
            Some(Work::Read { .. }) => return true,
            Some(Work::Write { at, data, .. }) => (*at, data.blocks()),
            Some(&Work::Trim { at, count, .. }) => (at, count),
        };
        // Of two versions of a block the one with the later stamp is found by a recovery, so the
        // later one must be the one that is installed last.
        let overlaps = |&Transaction { at: other, ref entries, .. }: &Transaction| {
            other < at + u64::from(count) && at < other + entries.len() as u64
        };
        !self.writes.iter().any(overlaps) && self.next_has_room()
    }

    fn next_has_room(&mut self) -> bool {
        match self.desk.front() {
            Some(Work::Write { data, .. }) if self.free.free() < u64::from(data.blocks()) => {
                self.commits.starve()
            }
            next => next.is_some(),
        }
    }

    /// The next free block, near the head; `want` blocks are still to be placed, `at` is the first
    /// of them, and `scattered` says that they do not continue what was written before. The callers
    /// have made sure that there is one.
    fn place(&mut self, at: BlockNr, want: u32, scattered: bool, cx: &Cx<'_>) -> u32 {
        let chosen = match (cx.arm(0), cx.head(0)) {
            (Some(arm), Some(head)) if self.headed => {
                let plan = self.plan.get_or_insert_with(|| Plan::new(head));
                // Where it would lie if each block had a fixed place.
                let tracks = u64::from(self.free.tracks());
                let preferred = (at * tracks / self.areas.blocks) as u32;
                self.placer.choose(&mut self.free, arm, plan, want, preferred)
            }
            _ => self.placer.nominal.choose(&mut self.free, scattered),
        };
        chosen.expect("room is checked before blocks are placed")
    }

    /// Gives a write its stamp, its places and its labels, and collects the commands. Blocks of
    /// zeros are not stored.
    fn prepare(
        &mut self,
        at: BlockNr,
        data: &Data,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Transaction {
        let count = data.blocks();
        let stamp = self.new_stamp();
        let overstated = planted(PlantedBug::DurableOverstated);
        let durable = if overstated { stamp - 1 } else { self.commits.noted() };
        let scattered = count < SHORT_RUN && at != self.sequential_at;
        self.sequential_at = at + u64::from(count);
        self.counters.client_blocks += u64::from(count);
        let mut entries = SmallVec::with_capacity(count as usize);
        let mut labels = SmallVec::with_capacity(count as usize);
        for index in 0..count {
            let block = data.block(index);
            if checksum::is_zero(&block) {
                entries.push(Entry::UNMAPPED);
                labels.push(LabelBytes::default());
                continue;
            }
            let sum = checksum::of_block(&block);
            let at = at + u64::from(index);
            let place = self.place(at, count - index, scattered, cx);
            let label = label(at, sum, stamp, durable, index, count);
            let label = label.encode(self.id, u64::from(place));
            entries.push(Entry::new(place, sum));
            labels.push(label);
            commands.push(place, block, label);
            self.commits.data_written();
        }
        Transaction { at, stamp, entries, labels }
    }

    fn new_stamp(&mut self) -> u64 {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        stamp
    }

    /// True if nothing of a range is stored.
    fn is_hole(&self, at: BlockNr, count: u32) -> bool {
        !self.table.range(at, u64::from(count)).any(Mapped::is_mapped)
    }

    /// Begins a write on a device with a volatile cache.
    pub(super) fn begin_write(
        &mut self,
        request: RequestNr,
        at: BlockNr,
        data: &Data,
        cx: &mut Cx<'_>,
    ) {
        let mut commands = Commands::default();
        let transaction = self.prepare(at, data, &mut commands, cx);
        self.in_flight.insert(transaction.stamp);
        let dress = labelled(self.areas.headers);
        if let Some(part) = self.writes.begin(request, transaction, commands, cx, dress) {
            self.install_part(&part, cx);
        }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        if let Some(part) = self.writes.done(part, done, &mut self.desk, cx) {
            self.install_part(&part, cx);
        }
    }

    /// All data of a part is on the device: the table may name it.
    fn install_part(&mut self, part: &Writing<Transaction>, cx: &mut Cx<'_>) {
        self.in_flight.remove(&part.then.stamp);
        if !self.desk.has_failed(part.request) {
            self.install(&part.then, cx, &mut |_, _| {});
        }
        self.write_done(part.request, cx);
    }

    /// Points the table at the new places of a transaction; the old ones wait until they may be
    /// used again. `undo` hears of each block and where it was.
    fn install(
        &mut self,
        transaction: &Transaction,
        cx: &Cx<'_>,
        undo: &mut dyn FnMut(BlockNr, Entry),
    ) {
        let Transaction { at, stamp, ref entries, ref labels } = *transaction;
        let count = entries.len() as u32;
        // Zeros over zeros change nothing, and need no tombstones.
        if !entries.iter().any(|entry| entry.is_mapped()) && self.is_hole(at, count) {
            return;
        }
        self.commits.changed(cx.now);
        for ((index, &entry), block) in (0..).zip(entries).zip(at..) {
            let old = self.table.replace(block, entry);
            undo(block, old);
            if old.is_mapped() {
                self.commits.supersede(old.place());
            }
            if !entry.is_mapped() {
                if !planted(PlantedBug::TombstoneLost) {
                    self.trims.bury(block, stamp, index, (count - 1) as u16);
                }
            } else if let Some(area) = &mut self.labels {
                area.set(u64::from(entry.place()), &labels[usize::from(index)]);
            }
        }
    }

    /// A part of a write or trim is in the table. Answers the request, or lets it wait for
    /// durability if it asked for that.
    fn write_done(&mut self, request: RequestNr, cx: &mut Cx<'_>) {
        if let Some(request) = self.desk.part_written(request, cx) {
            self.commits.wait(request, &mut self.desk, cx);
        }
    }

    /// Forgets a range, on a device with a volatile cache.
    pub(super) fn trim(&mut self, request: RequestNr, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        self.forget(at, count, cx, &mut |_, _| {});
        self.write_done(request, cx);
    }

    /// Forgets what is stored of a range, each run of it with a transaction of its own: holes need
    /// no tombstones, so that trimming an empty volume costs nothing.
    fn forget(
        &mut self,
        at: BlockNr,
        count: u32,
        cx: &Cx<'_>,
        undo: &mut dyn FnMut(BlockNr, Entry),
    ) {
        debug_assert!(u64::from(count) <= MAX_MEMBERS);
        let end = at + u64::from(count);
        let mut from = at;
        while from < end {
            let (mapped, length) = self.table.extent(from, end - from);
            if mapped {
                let transaction = Transaction {
                    at: from,
                    stamp: self.new_stamp(),
                    entries: smallvec![Entry::UNMAPPED; length as usize],
                    labels: SmallVec::new(),
                };
                self.install(&transaction, cx, undo);
            }
            from += length;
        }
    }

    /// Begins a read.
    pub(super) fn begin_read(
        &mut self,
        request: RequestNr,
        at: BlockNr,
        count: u32,
        cx: &mut Cx<'_>,
    ) {
        let entries = self.table.range(at, u64::from(count)).collect();
        self.reads.begin((request, at), entries, self.commits.open(), &mut self.desk, cx);
    }

    /// Begins a batch on a device that keeps what it has completed: one read, or all writes that
    /// wait up to the next read, data, labels and tombstones together.
    pub(super) fn begin_batch(&mut self, cx: &mut Cx<'_>) {
        if self.desk.next_is_read()
            && let Some(Work::Read { request, at, count }) = self.desk.pop()
        {
            self.begin_read(request, at, count, cx);
            return;
        }
        let mut batch = Batch::default();
        let mut commands = Commands::default();
        let mut blocks = 0;
        while !self.desk.next_is_read() && blocks < BATCH_BLOCKS && self.next_has_room() {
            match self.desk.pop() {
                Some(Work::Write { request, at, data }) => {
                    blocks += data.blocks();
                    let transaction = self.prepare(at, &data, &mut commands, cx);
                    self.install(&transaction, cx, &mut |at, old| batch.undo.push((at, old)));
                    batch.requests.push(request);
                }
                Some(Work::Trim { request, at, count }) => {
                    self.forget(at, count, cx, &mut |at, old| batch.undo.push((at, old)));
                    batch.requests.push(request);
                }
                _ => {}
            }
        }
        if batch.requests.is_empty() {
            return;
        }
        if !self.commits.has_changes() {
            // Nothing changed: trims of what was not stored, zeros written to it.
            for request in batch.requests {
                self.desk.part_done(request, cx);
            }
            return;
        }
        self.begin_commit(batch, commands, cx);
    }

    /// Takes back what a failed batch had installed, so that reads find the old blocks.
    pub(super) fn undo(&mut self, undo: &[(BlockNr, Entry)]) {
        for &(block, old) in undo.iter().rev() {
            self.table.replace(block, old);
        }
    }
}
