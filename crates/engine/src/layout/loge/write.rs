//! Writing: choose places, write data with its labels, and install the new places in the table.

use super::commit::Commit;
use super::table::{Entry, label};
use super::{DATA, Loge, MAX_MEMBERS, Plan};
use crate::checksum;
use crate::data::{Data, Piece as DataPiece};
use crate::io::{Done, Io, Label as LabelBytes, Tag};
use crate::layer::Cx;
use crate::layout::desk::Work;
use crate::planted::{PlantedBug, planted};
use crate::units::BlockNr;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Most blocks of data in one batch on a device that keeps what it has completed.
const BATCH_BLOCKS: u32 = 1024;
/// Fewer blocks than this are no run of their own.
const SHORT_RUN: u32 = 8;

/// A transaction: where its blocks went, and the labels that say so.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    at: BlockNr,
    stamp: u64,
    entries: SmallVec<[Entry; 1]>,
    /// A label for each block; zeros where nothing is stored.
    labels: SmallVec<[LabelBytes; 1]>,
}

/// A transaction whose data is on its way to the device.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    request: usize,
    transaction: Transaction,
    commands_left: u32,
}

/// A run of blocks for the device.
#[derive(Debug)]
struct Run {
    place: u32,
    data: Data,
    labels: SmallVec<[LabelBytes; 1]>,
}

/// Commands collected for the device, neighbouring blocks joined into one.
#[derive(Debug, Default)]
pub(super) struct Commands(SmallVec<[Run; 2]>);

impl Commands {
    /// Adds a block. A block right behind the last one goes with it.
    pub fn push(&mut self, place: u32, piece: DataPiece, label: LabelBytes) {
        match self.0.last_mut() {
            Some(run) if place == run.place + run.labels.len() as u32 => {
                run.data.push(piece);
                run.labels.push(label);
            }
            _ => {
                let mut data = Data::none();
                data.push(piece);
                self.0.push(Run { place, data, labels: smallvec![label] });
            }
        }
    }

    /// Sends all commands with one tag, with labels if the device takes them; returns how many
    /// there were.
    pub fn send(self, tag: Tag, headers: bool, cx: &mut Cx<'_>) -> u32 {
        let count = self.0.len() as u32;
        for run in self.0 {
            let io = Io::write(tag, BlockNr::from(run.place), run.data);
            cx.send(0, if headers { io.with_labels(Arc::new(run.labels)) } else { io });
        }
        count
    }
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
        let overlaps = |(_, piece): (usize, &Piece)| {
            let Transaction { at: other, ref entries, .. } = piece.transaction;
            other < at + u64::from(count) && at < other + entries.len() as u64
        };
        !self.pieces.iter().any(overlaps) && self.next_has_room()
    }

    fn next_has_room(&mut self) -> bool {
        match self.desk.front() {
            Some(Work::Write { data, .. }) if self.free.free() < u64::from(data.blocks()) => {
                self.starving = true;
                false
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
                let plan = self.plan.get_or_insert_with(|| Plan::new(head.track, head.free_at));
                // Where it would lie if each block had a fixed place.
                let tracks = u64::from(self.free.tracks());
                let preferred = (at * tracks / self.areas.blocks) as u32;
                self.placer.choose(&mut self.free, arm, plan, want, preferred)
            }
            _ => self.placer.choose_nominal(&mut self.free, scattered),
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
        let durable = self.history.durable_stamp();
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
            self.counters.data_blocks += 1;
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
        !self.table.range(at, u64::from(count)).any(Entry::is_mapped)
    }

    /// Begins a write on a device with a volatile cache.
    pub(super) fn begin_write(
        &mut self,
        request: usize,
        at: BlockNr,
        data: &Data,
        cx: &mut Cx<'_>,
    ) {
        let mut commands = Commands::default();
        let transaction = self.prepare(at, data, &mut commands, cx);
        self.in_flight.insert(transaction.stamp);
        let piece = self.pieces.insert(Piece { request, transaction, commands_left: 0 });
        let sent = commands.send(DATA | piece as Tag, self.areas.headers, cx);
        self.pieces[piece].commands_left = sent;
        if sent == 0 {
            self.install_piece(piece, cx);
        }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, piece: usize, done: Done, cx: &mut Cx<'_>) {
        let Piece { request, commands_left, .. } = &mut self.pieces[piece];
        *commands_left -= 1;
        let (request, last) = (*request, *commands_left == 0);
        self.desk.spend(request, &done.spent);
        if let Err(error) = done.outcome {
            self.desk.fail(request, error);
            self.desk.latch(error, cx);
        }
        if last {
            self.install_piece(piece, cx);
        }
    }

    /// All data of a piece is on the device: the table may name it.
    fn install_piece(&mut self, piece: usize, cx: &mut Cx<'_>) {
        let Piece { request, transaction, .. } = self.pieces.remove(piece);
        self.in_flight.remove(&transaction.stamp);
        if !self.desk.has_failed(request) {
            self.install(&transaction, cx, &mut |_, _| {});
        }
        self.write_done(request, cx);
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
        self.changed_since.get_or_insert(cx.now);
        for ((index, &entry), block) in (0..).zip(entries).zip(at..) {
            let old = self.table.replace(block, entry);
            undo(block, old);
            if old.is_mapped() {
                self.history.supersede(old.place());
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
    fn write_done(&mut self, request: usize, cx: &mut Cx<'_>) {
        if let Some(request) = self.desk.part_written(request, cx) {
            self.wait_durable(request, cx);
        }
    }

    /// Forgets a range, on a device with a volatile cache.
    pub(super) fn trim(&mut self, request: usize, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
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

    /// Begins a batch on a device that keeps what it has completed: one read, or all writes that
    /// wait up to the next read, data, labels and tombstones together.
    pub(super) fn begin_batch(&mut self, cx: &mut Cx<'_>) {
        if self.desk.next_is_read()
            && let Some(Work::Read { request, at, count }) = self.desk.pop()
        {
            self.begin_read(request, at, count, cx);
            return;
        }
        let mut batch = Commit::default();
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
        if self.changed_since.is_none() {
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
