//! Writing data: choose places, write, and install the new places in the map.

use super::format::{Entry, SLICE_ENTRIES, looks_like_map};
use super::tree::SliceNr;
use super::{RESERVE, Vlog};
use crate::eager::commit::Batch;
use crate::eager::place::Plan;
use crate::eager::read::{Entries, invert_first};
use crate::eager::runs::{Run, runs};
use crate::eager::writes::{Answered, Writing};
use crate::eager::{self, BATCH_BLOCKS, Mapped, SHORT_RUN};
use seekless_engine::data::{Body, Data, Piece, is_zero};
use seekless_engine::edge::Edge;
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::{RequestNr, Work};
use seekless_engine::transaction::Transaction;
use seekless_engine::units::BlockNr;
use smallvec::{SmallVec, smallvec};

/// Where the data of a part of a write, or of a transaction, went.
#[derive(Clone, Debug)]
pub(super) struct Install {
    /// The blocks of the volume, in ascending order.
    runs: SmallVec<[Run; 1]>,
    /// An entry for each of them.
    pub(super) entries: Entries<Entry>,
}

impl Install {
    /// The blocks of the volume, each with its entry.
    fn each(&self) -> impl Iterator<Item = (BlockNr, Entry)> {
        let blocks = self.runs.iter().flat_map(|&(at, count)| at..at + u64::from(count));
        blocks.zip(self.entries.iter().copied())
    }

    /// Slices that it makes dirty, at most.
    fn slices(&self) -> usize {
        match self.runs[..] {
            [_] => 2,
            _ => slices_of_runs(&self.runs),
        }
    }
}

/// The number of slices that runs of blocks touch; the runs ascend.
fn slices_of_runs(runs: &[Run]) -> usize {
    let mut last = None;
    let new = |&(at, count): &Run| {
        let slices = Vlog::slices_of(at, count);
        let known = usize::from(last == Some(*slices.start()));
        last = Some(*slices.end());
        slices.count() - known
    };
    runs.iter().map(new).sum()
}

/// The blocks that a transaction changes.
fn runs_of(all: &Transaction) -> SmallVec<[Run; 1]> {
    runs(all.changes().map(|(at, _)| at)).into()
}

/// Commands of this layout: nothing goes beside the blocks.
pub(super) type Commands = eager::write::Commands<()>;

/// A command as it is.
pub(super) fn bare(io: Io, (): ()) -> Io {
    io
}

impl Vlog {
    /// Slices that a range touches.
    fn slices_of(at: BlockNr, count: u32) -> std::ops::RangeInclusive<SliceNr> {
        let last = at + u64::from(count) - 1;
        (at / SLICE_ENTRIES as u64) as SliceNr..=(last / SLICE_ENTRIES as u64) as SliceNr
    }

    /// True if there is something to dispatch and room for it.
    #[inline(always)]
    pub(super) fn next_has_room(&mut self) -> bool {
        match self.requests.front() {
            None => false,
            Some(Work::Read { .. }) => true,
            Some(&Work::Write { at, ref data, .. }) => {
                let count = data.blocks();
                self.has_room(u64::from(count), Vlog::slices_of(at, count).count())
            }
            Some(&Work::Trim { at, count, .. }) => self.has_room_to_trim(at, count),
            Some(Work::Group { all, .. }) => {
                let (blocks, slices) = (all.blocks(), slices_of_runs(&runs_of(all)));
                self.has_room(blocks, slices)
            }
        }
    }

    /// True if a write of so many blocks can begin: they, and a map block for every slice that then
    /// waits for a commit, find room.
    fn has_room(&mut self, count: u64, touched: usize) -> bool {
        // Writes in flight will dirty slices when they complete.
        let waiting = self.dirty.len() + touched + self.touching;
        let needed = count + waiting as u64 + RESERVE;
        let room = waiting <= self.dirty_limit.max(touched) || self.dirty.is_empty();
        if self.free.free() < needed || !room {
            return self.commits.starve();
        }
        true
    }

    /// True if a trim can be applied without crowding the next commit.
    fn has_room_to_trim(&mut self, at: BlockNr, count: u32) -> bool {
        let touched = Vlog::slices_of(at, count).filter(|&slice| self.tree.node(slice).place != 0);
        let waiting = self.dirty.len() + touched.count();
        let room = waiting <= self.dirty_limit || self.dirty.is_empty();
        if self.free.free() < waiting as u64 + RESERVE || !room {
            return self.commits.starve();
        }
        true
    }

    /// The next free block for data or map, near the head; `want` blocks are still to be placed,
    /// and `scattered` says that they do not continue what was written before. The callers have
    /// made sure that there is one.
    pub(super) fn place(&mut self, want: u32, scattered: bool, cx: &Cx<'_>) -> u32 {
        if let Some(place) = self.avoid.and_then(|victim| self.place_in_hole(victim, cx)) {
            return place;
        }
        let chosen = match cx.arm(0).filter(|_| self.headed) {
            Some(arm) => match self.plan.as_mut() {
                Some(plan) => self.placer.choose(&mut self.free, arm, plan, want),
                None => {
                    let head = cx.head(0).expect("a device with an arm has a head");
                    let plan = self.plan.insert(Plan::new(head));
                    self.placer.choose(&mut self.free, arm, plan, want)
                }
            },
            None => self.placer.nominal.choose(&mut self.free, scattered),
        };
        chosen.expect("room is checked before blocks are placed")
    }

    /// Chooses a place for each block of a piece and collects the commands that write them.
    /// Blocks of zeros are not stored.
    fn place_data(
        &mut self,
        at: BlockNr,
        data: &Data,
        want_after: u32,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Entries<Entry> {
        let count = data.blocks();
        let scattered = count < SHORT_RUN && at != self.sequential_at;
        self.sequential_at = at + u64::from(count);
        let mut entries = SmallVec::with_capacity(count as usize);
        for index in 0..count {
            let block = data.block(index);
            let entry = match is_zero(&block) {
                true => Entry::UNMAPPED,
                false => {
                    self.place_block(block, count - index + want_after, scattered, commands, cx)
                }
            };
            entries.push(entry);
        }
        entries
    }

    /// The same for all blocks that a transaction changes.
    fn place_group(
        &mut self,
        all: &Transaction,
        want_after: u32,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Install {
        let runs = runs_of(all);
        let mut left = all.blocks() as u32;
        let scattered = left < SHORT_RUN;
        let mut entries = SmallVec::with_capacity(left as usize);
        for (_, piece) in all.changes() {
            let entry = piece.map_or(Entry::UNMAPPED, |piece| {
                self.place_block(piece.clone(), left + want_after, scattered, commands, cx)
            });
            entries.push(entry);
            left -= 1;
        }
        Install { runs, entries }
    }

    /// Chooses a place for a block that is not zeros; `want` blocks are still to be placed.
    fn place_block(
        &mut self,
        block: Piece,
        want: u32,
        scattered: bool,
        commands: &mut Commands,
        cx: &Cx<'_>,
    ) -> Entry {
        let (block, escaped) = self.escape(block);
        let sum = self.sums.of(&block);
        let place = self.place(want, scattered, cx);
        commands.push(place, block, ());
        self.commits.data_written();
        Entry::new(place, escaped, sum)
    }

    /// Client data that looks like a map block of this very volume is stored inverted in its
    /// first byte.
    fn escape(&self, block: Piece) -> (Piece, bool) {
        let hides = match &block.body {
            Body::Zeros | Body::Stamp { .. } => false,
            Body::Bytes(bytes) => looks_like_map(self.id, bytes),
            Body::Sectors(sectors) => looks_like_map(self.id, &*sectors[0]),
            Body::Lazy(_) | Body::Parity(_) => looks_like_map(self.id, &block.to_bytes()),
        };
        let hides = Edge::VlogEscaped.blocks(hides);
        if hides { (invert_first(&block), true) } else { (block, false) }
    }

    /// Begins a write on a device with a volatile cache: data now, map later.
    pub(super) fn begin_write(
        &mut self,
        request: RequestNr,
        at: BlockNr,
        data: &Data,
        cx: &mut Cx<'_>,
    ) {
        self.counters.client_blocks += u64::from(data.blocks());
        let mut commands = Commands::default();
        let entries = self.place_data(at, data, 0, &mut commands, cx);
        let then = Install { runs: smallvec![(at, data.blocks())], entries };
        self.send_data(request, then, commands, cx);
    }

    /// Begins a transaction there: all of it is in the map at once, and so in one commit.
    pub(super) fn begin_group(&mut self, request: RequestNr, all: &Transaction, cx: &mut Cx<'_>) {
        self.counters.client_blocks += all.blocks();
        let mut commands = Commands::default();
        let mut then = self.place_group(all, 0, &mut commands, cx);
        if planted(PlantedBug::UnitSplit) {
            then = self.install_half(then, cx);
        }
        self.send_data(request, then, commands, cx);
    }

    /// A planted bug: the first runs of a transaction are in the map before their data is there.
    fn install_half(&mut self, all: Install, cx: &Cx<'_>) -> Install {
        let (first, rest) = all.runs.split_at(all.runs.len() / 2);
        let blocks = first.iter().map(|run| run.1 as usize).sum();
        all.each().take(blocks).for_each(|(block, entry)| {
            self.install(block, entry, cx);
        });
        Install { runs: rest.into(), entries: all.entries[blocks..].into() }
    }

    fn send_data(
        &mut self,
        request: RequestNr,
        then: Install,
        commands: Commands,
        cx: &mut Cx<'_>,
    ) {
        self.touching += then.slices();
        if let Some(part) = self.writes.begin(request, then, commands, cx, bare) {
            self.install_part(&part, cx);
        }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, part: usize, done: Done, cx: &mut Cx<'_>) {
        match self.writes.done(part, done, !self.headed, &mut self.requests, cx) {
            Answered::Waits => {}
            Answered::Ended(part) => self.install_part(&part, cx),
            Answered::Refused(refused) => self.put_elsewhere(refused, cx),
        }
    }

    /// All data of a part is on the device: the map may name it.
    pub(super) fn install_part(&mut self, part: &Writing<Install>, cx: &mut Cx<'_>) {
        self.touching -= part.then.slices();
        if !self.requests.has_failed(part.request) {
            for (block, entry) in part.then.each() {
                self.install(block, entry, cx);
            }
        } else if self.requests.failed().is_none() {
            let stored = part.then.entries.iter().filter(|entry| entry.is_mapped());
            stored.for_each(|entry| self.free.release(entry.place()));
        }
        self.write_done(part.request, cx);
    }

    /// Points the map at a new place; the old one waits until it may be reused.
    pub(super) fn install(&mut self, at: BlockNr, entry: Entry, cx: &Cx<'_>) -> Entry {
        let (old, first) = self.map.change(at, entry);
        if entry.is_mapped() {
            self.compactor.placed_data(entry.place(), at);
        }
        if old.is_mapped() {
            self.commits.supersede(old.place());
        }
        if first {
            self.dirty.push((at / SLICE_ENTRIES as u64) as SliceNr);
            self.commits.changed(cx.now);
        }
        old
    }

    /// A part of a write or trim is in the map. Answers the request, or lets it wait for
    /// durability if it asked for that.
    fn write_done(&mut self, request: RequestNr, cx: &mut Cx<'_>) {
        if let Some(request) = self.requests.part_written(request, cx) {
            self.commits.wait(request, &mut self.requests, cx);
        }
    }

    /// Unmaps a range, on a device with a volatile cache.
    pub(super) fn trim(&mut self, request: RequestNr, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        let end = at + u64::from(count);
        let mut from = at;
        while let Some(block) = self.map.next_mapped(from, end) {
            self.install(block, Entry::UNMAPPED, cx);
            from = block + 1;
        }
        self.write_done(request, cx);
    }

    /// Begins a read.
    pub(super) fn begin_read(
        &mut self,
        request: RequestNr,
        at: BlockNr,
        count: u32,
        cx: &mut Cx<'_>,
    ) {
        let entries = self.map.range(at, u64::from(count)).collect();
        self.reads.begin((request, at), entries, self.commits.open(), &mut self.requests, cx);
    }

    /// Begins a batch on a device that keeps what it has completed: one read, or all writes that
    /// wait up to the next read, data and map together.
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
        while !self.requests.next_is_read() && blocks < BATCH_BLOCKS && self.next_has_room() {
            match self.requests.pop() {
                Some(Work::Write { request, at, data, .. }) => {
                    blocks += data.blocks();
                    self.counters.client_blocks += u64::from(data.blocks());
                    let entries = self.place_data(at, &data, 1, &mut commands, cx);
                    for (block, &entry) in (at..).zip(&entries) {
                        let old = self.install(block, entry, cx);
                        batch.undo.push((block, old));
                    }
                    batch.requests.push(request);
                }
                Some(Work::Trim { request, at, count }) => {
                    let end = at + u64::from(count);
                    let mut from = at;
                    while let Some(block) = self.map.next_mapped(from, end) {
                        let old = self.install(block, Entry::UNMAPPED, cx);
                        batch.undo.push((block, old));
                        from = block + 1;
                    }
                    batch.requests.push(request);
                }
                Some(Work::Group { request, all }) => {
                    blocks += all.blocks() as u32;
                    self.counters.client_blocks += all.blocks();
                    let group = self.place_group(&all, 1, &mut commands, cx);
                    for (block, entry) in group.each() {
                        let old = self.install(block, entry, cx);
                        batch.undo.push((block, old));
                    }
                    batch.requests.push(request);
                }
                _ => {}
            }
        }
        if batch.requests.is_empty() {
            return;
        }
        if self.dirty.is_empty() {
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
            self.map.restore(block, old);
        }
    }
}
