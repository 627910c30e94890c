//! Writing data: choose places, write, and install the new places in the map.

use super::commit::Commit;
use super::format::{Entry, SLICE_ENTRIES, looks_like_map};
use super::tree::SliceNr;
use super::{DATA, Plan, RESERVE, Vlog};
use crate::checksum;
use crate::data::{Body, Data, Piece as DataPiece};
use crate::io::{Done, Io, Tag};
use crate::layer::Cx;
use crate::layout::desk::Work;
use crate::units::BlockNr;
use bytes::Bytes;
use smallvec::SmallVec;

/// Most blocks of data in one batch on a device that commits each batch at once.
const BATCH_BLOCKS: u32 = 1024;

/// A part of a write whose data is on its way to the device.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    request: usize,
    at: BlockNr,
    entries: SmallVec<[Entry; 1]>,
    commands_left: u32,
}

/// Fewer blocks than this are no run of their own.
pub(super) const SHORT_RUN: u32 = 8;

/// Commands collected for the device, neighbouring blocks joined into one.
#[derive(Debug, Default)]
pub(super) struct Commands {
    ready: SmallVec<[(u32, Data); 2]>,
    end: u32,
}

impl Commands {
    /// Adds a block. A block right behind the last one goes with it.
    pub fn push(&mut self, place: u32, piece: DataPiece) {
        match self.ready.last_mut() {
            Some((_, data)) if place == self.end => data.push(piece),
            _ => {
                let mut data = Data::none();
                data.push(piece);
                self.ready.push((place, data));
            }
        }
        self.end = place + 1;
    }

    /// Sends all commands with one tag; returns how many there were.
    pub fn send(self, tag: Tag, cx: &mut Cx<'_>) -> u32 {
        let count = self.ready.len() as u32;
        for (place, data) in self.ready {
            cx.send(0, Io::write(tag, BlockNr::from(place), data));
        }
        count
    }
}

impl Vlog {
    /// Slices that a range touches.
    fn slices_of(at: BlockNr, count: u32) -> std::ops::RangeInclusive<SliceNr> {
        let last = at + u64::from(count) - 1;
        (at / SLICE_ENTRIES as u64) as SliceNr..=(last / SLICE_ENTRIES as u64) as SliceNr
    }

    fn is_dirty(&self, slice: SliceNr) -> bool {
        self.changed[slice as usize].iter().any(|&word| word != 0)
    }

    /// Asks for a commit and remembers that something waits for space.
    fn starve(&mut self) -> bool {
        self.starving = true;
        false
    }

    /// True if there is something to dispatch and room for it.
    pub(super) fn next_has_room(&mut self) -> bool {
        match self.desk.front() {
            None => false,
            Some(Work::Read { .. }) => true,
            Some(&Work::Write { at, ref data, .. }) => {
                let count = data.blocks();
                self.has_room(at, count)
            }
            Some(&Work::Trim { at, count, .. }) => self.has_room_to_trim(at, count),
        }
    }

    /// True if a write can begin: its blocks, and a map block for every slice that then waits
    /// for a commit, find room.
    fn has_room(&mut self, at: BlockNr, count: u32) -> bool {
        let touched = Vlog::slices_of(at, count).count();
        // Writes in flight will dirty slices when they complete.
        let waiting = self.dirty.len() + touched + 2 * self.pieces.len();
        let needed = u64::from(count) + waiting as u64 + RESERVE;
        let room = waiting <= self.dirty_limit.max(touched) || self.dirty.is_empty();
        if self.free.free() < needed || !room {
            return self.starve();
        }
        true
    }

    /// True if a trim can be applied without crowding the next commit.
    fn has_room_to_trim(&mut self, at: BlockNr, count: u32) -> bool {
        let touched = Vlog::slices_of(at, count).filter(|&slice| self.tree.node(slice).place != 0);
        let waiting = self.dirty.len() + touched.count();
        let room = waiting <= self.dirty_limit || self.dirty.is_empty();
        if self.free.free() < waiting as u64 + RESERVE || !room {
            return self.starve();
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
        let chosen = match (cx.arm(0), cx.head(0)) {
            (Some(arm), Some(head)) if self.headed => {
                let plan = self.plan.get_or_insert_with(|| Plan::new(head.track, head.free_at));
                self.placer.choose(&mut self.free, arm, plan, want)
            }
            _ => self.placer.choose_nominal(&mut self.free, scattered),
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
    ) -> SmallVec<[Entry; 1]> {
        let count = data.blocks();
        let scattered = count < SHORT_RUN && at != self.sequential_at;
        self.sequential_at = at + u64::from(count);
        let mut entries = SmallVec::with_capacity(count as usize);
        for index in 0..count {
            let block = data.block(index);
            if checksum::is_zero(&block) {
                entries.push(Entry::UNMAPPED);
                continue;
            }
            let (block, escaped) = self.escape(block);
            let sum = checksum::of_block(&block);
            let place = self.place(count - index + want_after, scattered, cx);
            entries.push(Entry::new(place, escaped, sum));
            commands.push(place, block);
            self.counters.data_blocks += 1;
        }
        entries
    }

    /// Client data that looks like a map block of this very volume is stored inverted in its
    /// first byte.
    fn escape(&self, block: DataPiece) -> (DataPiece, bool) {
        let hides = match &block.body {
            Body::Zeros | Body::Stamp { .. } => false,
            Body::Bytes(bytes) => looks_like_map(self.id, bytes),
            Body::Sectors(sectors) => looks_like_map(self.id, &*sectors[0]),
        };
        if hides { (invert_first(&block), true) } else { (block, false) }
    }

    /// Begins a write on a device with a volatile cache: data now, map later.
    pub(super) fn begin_write(
        &mut self,
        request: usize,
        at: BlockNr,
        data: &Data,
        cx: &mut Cx<'_>,
    ) {
        self.counters.client_blocks += u64::from(data.blocks());
        let mut commands = Commands::default();
        let entries = self.place_data(at, data, 0, &mut commands, cx);
        let piece = self.pieces.insert(Piece { request, at, entries, commands_left: 0 });
        let sent = commands.send(DATA | piece as Tag, cx);
        self.pieces[piece].commands_left = sent;
        if sent == 0 || crate::planted::planted(crate::planted::PlantedBug::MapBeforeData) {
            self.install_piece(piece, cx);
        }
    }

    /// A data command has been answered.
    pub(super) fn data_done(&mut self, piece: usize, done: Done, cx: &mut Cx<'_>) {
        let Some(Piece { request, commands_left, .. }) = self.pieces.get_mut(piece) else {
            return; // Installed ahead of its data by a planted bug.
        };
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

    /// All data of a piece is on the device: the map may name it.
    fn install_piece(&mut self, piece: usize, cx: &mut Cx<'_>) {
        let piece = self.pieces.remove(piece);
        if !self.desk.has_failed(piece.request) {
            for (index, &entry) in piece.entries.iter().enumerate() {
                self.install(piece.at + index as u64, entry, cx);
            }
        }
        self.write_done(piece.request, cx);
    }

    /// Points the map at a new place; the old one waits until it may be reused.
    pub(super) fn install(&mut self, at: BlockNr, entry: Entry, cx: &Cx<'_>) -> Entry {
        let old = self.map.replace(at, entry);
        if entry.is_mapped() {
            self.compactor.placed_data(entry.place(), at);
        }
        if old.is_mapped() {
            self.history.supersede(old.place());
        }
        if old != entry {
            let slice = (at / SLICE_ENTRIES as u64) as SliceNr;
            if !self.is_dirty(slice) {
                self.dirty.push(slice);
                self.dirty_since.get_or_insert(cx.now);
            }
            let bit = at as usize % SLICE_ENTRIES;
            self.sums[slice as usize].change(bit, old, entry);
            self.changed[slice as usize][bit / 64] |= 1 << (bit % 64);
        }
        old
    }

    /// A part of a write or trim is in the map. Answers the request, or lets it wait for
    /// durability if it asked for that.
    fn write_done(&mut self, request: usize, cx: &mut Cx<'_>) {
        if let Some(request) = self.desk.part_written(request, cx) {
            self.wait_durable(request, cx);
        }
    }

    /// Unmaps a range, on a device with a volatile cache.
    pub(super) fn trim(&mut self, request: usize, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        for block in at..at + u64::from(count) {
            self.install(block, Entry::UNMAPPED, cx);
        }
        self.write_done(request, cx);
    }

    /// Begins a batch on a device that keeps what it has completed: one read, or all writes that
    /// wait up to the next read, data and map together.
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
                    self.counters.client_blocks += u64::from(data.blocks());
                    let entries = self.place_data(at, &data, 1, &mut commands, cx);
                    for (block, &entry) in (at..).zip(&entries) {
                        let old = self.install(block, entry, cx);
                        batch.undo.push((block, old));
                    }
                    batch.requests.push(request);
                }
                Some(Work::Trim { request, at, count }) => {
                    for block in at..at + u64::from(count) {
                        let old = self.install(block, Entry::UNMAPPED, cx);
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
                self.desk.part_done(request, cx);
            }
            return;
        }
        self.begin_commit(batch, commands, cx);
    }

    /// Takes back what a failed batch had installed, so that reads find the old blocks.
    pub(super) fn undo(&mut self, undo: &[(BlockNr, Entry)]) {
        for &(block, old) in undo.iter().rev() {
            self.map.replace(block, old);
        }
    }
}

/// A copy of a block with the first byte inverted.
pub(super) fn invert_first(block: &DataPiece) -> DataPiece {
    let mut copy = block.to_bytes().to_vec();
    copy[0] ^= 0xff;
    DataPiece::block(Body::Bytes(Bytes::from(copy)))
}
