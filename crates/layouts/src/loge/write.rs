//! Writing: choose places, write data with its labels, and install the new places in the table.

use super::format::{Label, SCATTERED};
use super::table::Entry;
use super::{Loge, MAX_MEMBERS};
use crate::eager::commit::Batch;
use crate::eager::read::Entries;
use crate::eager::runs::Run;
use crate::eager::writes::{Answered, Refused, Writing};
use crate::eager::{self, BATCH_BLOCKS, Mapped, SHORT_RUN};
use bytes::Bytes;
use seekless_engine::checksum::Identity;
use seekless_engine::data::{Body, Data, Piece, is_zero};
use seekless_engine::io::{Done, Io, Label as LabelBytes};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{RequestNr, Work};
use seekless_engine::transaction::Transaction as Group;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A transaction: where its blocks went, and the labels that say so.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    /// Its blocks, in ascending order.
    pub(super) runs: SmallVec<[Run; 1]>,
    pub(super) stamp: u64,
    entries: Entries<Entry>,
    /// A label for each block; zeros where nothing is stored. None for those that only forget.
    labels: SmallVec<[LabelBytes; 1]>,
    /// Where its descriptor went, if it has one, and the label of that.
    pub(super) descriptor: Option<(u32, LabelBytes)>,
}

/// Which block of its transaction a block is, and which the last one is.
pub(super) type Member = (u16, u16);

impl Transaction {
    /// One without content so far.
    pub(super) fn new(runs: SmallVec<[Run; 1]>, stamp: u64) -> Transaction {
        let (entries, labels) = (SmallVec::new(), SmallVec::new());
        Transaction { runs, stamp, entries, labels, descriptor: None }
    }

    /// Number of its blocks.
    pub(super) fn blocks(&self) -> usize {
        self.entries.len()
    }

    /// What was to lie at one place lies at another one.
    fn rename(&mut self, (id, blocks): (Identity, u64), from: u32, to: u32) {
        let relabel = |label: &mut LabelBytes| {
            // It was made in this life: it says what it says.
            if let Ok(Some(said)) = Label::decode(id, u64::from(from), label, blocks) {
                *label = said.encode(id, u64::from(to));
            }
        };
        if let Some((place, label)) = self.descriptor.as_mut().filter(|(place, _)| *place == from) {
            *place = to;
            relabel(label);
        }
        for (entry, label) in self.entries.iter_mut().zip(&mut self.labels) {
            if entry.is_mapped() && entry.place() == from {
                *entry = Entry::new(to, entry.checksum());
                relabel(label);
            }
        }
    }

    fn overlaps(&self, at: BlockNr, count: u64) -> bool {
        self.runs
            .iter()
            .any(|&(own, own_count)| own < at + count && at < own + u64::from(own_count))
    }
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
        // Of two versions of a block the one with the later stamp is found by a recovery, so the
        // later one must be the one that is installed last.
        if self.requests.next_is_read() {
            return true;
        }
        !self.relocation.is_active()
            && !self.next_overtakes()
            && !self.next_may_exceed()
            && self.next_has_room()
    }

    /// True if what is to be dispatched next changes blocks that are on their way.
    fn next_overtakes(&self) -> bool {
        let mut writes = self.writes.iter();
        match self.requests.front() {
            None | Some(Work::Read { .. }) => false,
            Some(Work::Write { at, data, .. }) => {
                writes.any(|other| other.overlaps(*at, u64::from(data.blocks())))
            }
            Some(&Work::Trim { at, count, .. }) => {
                writes.any(|other| other.overlaps(at, u64::from(count)))
            }
            Some(Work::Group { all, .. }) => writes.any(|other| {
                other.runs.iter().any(|&(at, count)| all.overlaps(at, u64::from(count)))
            }),
        }
    }

    fn next_has_room(&mut self) -> bool {
        let wanted = match self.requests.front() {
            None => return false,
            Some(Work::Write { data, .. }) => u64::from(data.blocks()),
            // The last one is for the descriptor.
            Some(Work::Group { all, .. }) => all.blocks() + 1,
            Some(Work::Read { .. } | Work::Trim { .. }) => 0,
        };
        let starves = self.free.free() < wanted || self.next_needs_flush();
        if starves && !self.relocation_would_free() {
            return self.commits.starve();
        }
        !starves && self.table_has_room()
    }

    /// Gives a write its stamp, its places and its labels, and collects the commands. Blocks of
    /// zeros are not stored, unless they are to keep room in a volume that may run out of it.
    fn prepare(
        &mut self,
        at: BlockNr,
        (data, keep): (&Data, bool),
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Transaction {
        let count = data.blocks();
        let stamp = self.new_stamp();
        let scattered = count < SHORT_RUN && at != self.sequential_at;
        self.sequential_at = at + u64::from(count);
        self.counters.client_blocks += u64::from(count);
        let mut transaction = Transaction::new(smallvec![(at, count)], stamp);
        for index in 0..count {
            let piece = self.stored_piece(data, index, keep);
            let member = (index as u16, (count - 1) as u16);
            let at = at + u64::from(index);
            let how = (member, count - index, scattered);
            self.store(&mut transaction, at, piece, how, commands, cx);
        }
        transaction
    }

    /// What is stored of a block of a write; nothing of zeros that need not keep their room.
    pub(super) fn stored_piece(&self, data: &Data, index: u32, keep: bool) -> Option<Piece> {
        let piece = data.block(index);
        if !is_zero(&piece) {
            return Some(piece);
        }
        // As bytes: what is read back of them has the checksum of bytes.
        let zeros = || Piece::block(Body::Bytes(Bytes::from_static(&[0; BLOCK_BYTES])));
        (keep && self.is_sparse()).then(zeros)
    }

    /// Up to which stamp a label of transaction `stamp` calls everything durable.
    pub(super) fn known_durable(&self, stamp: u64) -> u64 {
        let overstated = planted(PlantedBug::DurableOverstated);
        if overstated { stamp - 1 } else { self.commits.noted() }
    }

    /// Finds a place for the next block of a transaction; nothing is stored for `None`. `how` says
    /// which block it is, how many are to come with it, and whether they lie scattered.
    pub(super) fn store(
        &mut self,
        transaction: &mut Transaction,
        at: BlockNr,
        piece: Option<Piece>,
        how: (Member, u32, bool),
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) {
        let ((index, last), want, scattered) = how;
        let Some(piece) = piece else {
            transaction.entries.push(Entry::UNMAPPED);
            transaction.labels.push(LabelBytes::default());
            return;
        };
        let place = self.place(at, want, scattered, cx);
        self.store_at(transaction, at, piece, (index, last), place, commands);
    }

    /// Stores the next block of a transaction at a place.
    pub(super) fn store_at(
        &mut self,
        transaction: &mut Transaction,
        at: BlockNr,
        piece: Piece,
        (index, last): Member,
        place: u32,
        commands: &mut Commands,
    ) {
        let sum = self.sums.of(&piece);
        let stamp = transaction.stamp;
        let durable = self.known_durable(stamp);
        let label = Label { block: at as u32, sum, stamp, durable, index, last };
        let label = label.encode(self.id, u64::from(place));
        transaction.entries.push(Entry::new(place, sum));
        transaction.labels.push(label);
        commands.push(place, piece, label);
        self.commits.data_written();
    }

    pub(super) fn new_stamp(&mut self) -> u64 {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        stamp
    }

    /// True if nothing of a range is stored.
    fn is_hole(&self, at: BlockNr, count: u32) -> bool {
        self.table.extent(at, u64::from(count)) == (false, u64::from(count))
    }

    /// Begins a write on a device with a volatile cache.
    pub(super) fn begin_write(
        &mut self,
        request: RequestNr,
        at: BlockNr,
        data: (&Data, bool),
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

    /// The same for a transaction of several requests.
    pub(super) fn begin_group(&mut self, request: RequestNr, all: &Group, cx: &mut Cx<'_>) {
        let mut commands = Commands::default();
        let Some(transaction) = self.prepare_group(all, &mut commands, cx) else {
            self.write_done(request, cx);
            return;
        };
        self.in_flight.insert(transaction.stamp);
        let dress = labelled(self.areas.headers);
        if let Some(part) = self.writes.begin(request, transaction, commands, cx, dress) {
            self.install_part(&part, cx);
        }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        let moves = self.labels.is_some() && !self.headed;
        match self.writes.done(part, done, moves, &mut self.requests, cx) {
            Answered::Waits => {}
            Answered::Ended(part) => self.install_part(&part, cx),
            Answered::Refused(refused) => self.put_elsewhere(refused, cx),
        }
    }

    /// The medium refuses a block of data: it goes elsewhere, if there is room. Nothing has its
    /// label so far.
    #[cold]
    fn put_elsewhere(&mut self, refused: Refused, cx: &mut Cx<'_>) {
        if self.free.free() == 0 || self.requests.failed().is_some() {
            let Refused { part, error, .. } = refused;
            let part = self.writes.give_up(part, error, &mut self.requests, cx);
            return self.install_part(&part, cx);
        }
        self.placer.nominal.leave(&self.free, refused.place);
        let place = self.place_away(0, 1, true, cx);
        let volume = (self.id, self.areas.blocks);
        let transaction = self.writes.elsewhere(refused, place, cx);
        if !planted(PlantedBug::RefusedPlaceNamed) {
            transaction.rename(volume, refused.place, place);
        }
    }

    /// All data of a part is on the device: the table may name it.
    fn install_part(&mut self, part: &Writing<Transaction>, cx: &mut Cx<'_>) {
        self.in_flight.remove(&part.then.stamp);
        if !self.requests.has_failed(part.request) {
            self.install(&part.then, cx, &mut |_, _| {});
        } else if self.requests.failed().is_none() {
            let Transaction { entries, descriptor, .. } = &part.then;
            let places =
                entries.iter().filter(|entry| entry.is_mapped()).map(|entry| entry.place());
            let places = places.chain(descriptor.iter().map(|&(place, _)| place));
            places.for_each(|place| self.free.release(place));
        }
        self.write_done(part.request, cx);
    }

    /// Points the table at the new places of a transaction; the old ones wait until they may be
    /// used again. `undo` hears of each block and where it was.
    pub(super) fn install(
        &mut self,
        transaction: &Transaction,
        cx: &Cx<'_>,
        undo: &mut dyn FnMut(BlockNr, Entry),
    ) {
        let Transaction { ref runs, stamp, ref entries, ref labels, descriptor } = *transaction;
        // Zeros over zeros change nothing, and need no tombstones.
        let zeros = !entries.iter().any(|entry| entry.is_mapped());
        if zeros && runs.iter().all(|&(at, count)| self.is_hole(at, count)) {
            return;
        }
        self.commits.changed(cx.now);
        self.relocation.changed(self.commits.open());
        if let Some((place, label)) = descriptor {
            self.keep_descriptor(stamp, place, &label);
        }
        let last = (entries.len() - 1) as u16;
        let blocks = runs.iter().flat_map(|&(at, count)| at..at + u64::from(count));
        for ((index, &entry), block) in (0..).zip(entries).zip(blocks) {
            let old = self.replace(block, entry);
            undo(block, old);
            if old.is_mapped() {
                self.commits.supersede(old.place());
            }
            if !entry.is_mapped() {
                if !planted(PlantedBug::TombstoneLost) {
                    let member = if descriptor.is_some() { SCATTERED } else { (index, last) };
                    self.trims.bury(block, stamp, member);
                }
            } else if let Some(area) = &mut self.labels {
                area.set(u64::from(entry.place()), &labels[usize::from(index)]);
            }
        }
    }

    /// A part of a write or trim is in the table. Answers the request, or lets it wait for
    /// durability if it asked for that.
    fn write_done(&mut self, request: RequestNr, cx: &mut Cx<'_>) {
        if let Some(request) = self.requests.part_written(request, cx) {
            self.commits.wait(request, &mut self.requests, cx);
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
                let runs = smallvec![(from, length as u32)];
                let mut transaction = Transaction::new(runs, self.new_stamp());
                transaction.entries = smallvec![Entry::UNMAPPED; length as usize];
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
        self.sorter.read(at, count);
        let entries = self.table.range(at, u64::from(count)).collect();
        self.reads.begin((request, at), entries, self.commits.open(), &mut self.requests, cx);
    }

    /// True if a change is next, and there is room for it.
    fn batch_goes_on(&mut self, cx: &mut Cx<'_>) -> bool {
        self.refuse_what_exceeds(cx);
        !self.requests.next_is_read() && !self.relocation.is_active() && self.next_has_room()
    }

    /// Begins a batch on a device that keeps what it has completed: one read, or all writes that
    /// wait up to the next read, data, labels and tombstones together.
    pub(super) fn begin_batch(&mut self, cx: &mut Cx<'_>) {
        if self.requests.next_is_read()
            && let Some(Work::Read { request, at, count }) = self.requests.pop()
        {
            self.begin_read(request, at, count, cx);
            return;
        }
        let mut batch = Batch::default();
        let mut commands = Commands::default();
        let mut blocks = 0;
        while blocks < BATCH_BLOCKS && self.batch_goes_on(cx) {
            match self.requests.pop() {
                Some(Work::Write { request, at, data, keep }) => {
                    blocks += data.blocks();
                    let transaction = self.prepare(at, (&data, keep), &mut commands, cx);
                    self.install(&transaction, cx, &mut |at, old| batch.undo.push((at, old)));
                    batch.requests.push(request);
                }
                Some(Work::Trim { request, at, count }) => {
                    self.forget(at, count, cx, &mut |at, old| batch.undo.push((at, old)));
                    batch.requests.push(request);
                }
                Some(Work::Group { request, all }) => {
                    blocks += all.blocks() as u32;
                    if let Some(transaction) = self.prepare_group(&all, &mut commands, cx) {
                        self.install(&transaction, cx, &mut |at, old| batch.undo.push((at, old)));
                    }
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
                self.requests.part_done(request, cx);
            }
            return;
        }
        self.begin_commit(batch, commands, cx);
    }

    /// Takes back what a failed batch had installed, so that reads find the old blocks.
    pub(super) fn undo(&mut self, undo: &[(BlockNr, Entry)]) {
        for &(block, old) in undo.iter().rev() {
            self.replace(block, old);
        }
    }

    /// Changes the table.
    fn replace(&mut self, block: BlockNr, entry: Entry) -> Entry {
        let old = self.table.replace(block, entry);
        self.stored += u64::from(entry.is_mapped());
        self.stored -= u64::from(old.is_mapped());
        old
    }
}
