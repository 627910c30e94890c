//! Overwriting in place: what the layout HyLog does with blocks that are seldom written.
//!
//! Blocks that become cold stay where they are: the next checkpoint marks them, so that their
//! checksums are not trusted. A cold block that has no such place yet goes to the log
//! once, with the same mark. When that checkpoint is durable, and no recovery compares the block
//! with the log, it is overwritten where it lies, without a word in the log. What is
//! overwritten in place has the promises of the layout `inplace`: the device may tear it, and
//! damage goes unseen.

use super::format::{Entry, Mark};
use super::segments::{SegmentNr, State};
use super::{Lfs, OVERWRITE, pool};
use seekless_engine::data::{Data, Piece};
use seekless_engine::edge::Edge;
use seekless_engine::io::{Breakdown, Done, Io, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, Time};
use smallvec::SmallVec;

/// Part of a request that overwrites blocks in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwriting {
    request: usize,
    left: u32,
}

/// A command of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    overwriting: usize,
    place: u32,
    blocks: u32,
}

/// Commands that are being collected: neighbours are joined.
#[derive(Debug, Default)]
pub(super) struct Overwrites {
    runs: SmallVec<[(u32, Data); 2]>,
    end: u32,
}

impl Overwrites {
    /// Adds a block.
    pub fn push(&mut self, place: u32, piece: Piece) {
        match self.runs.last_mut() {
            Some((_, data)) if place == self.end => data.push(piece),
            _ => {
                let mut data = Data::none();
                data.push(piece);
                self.runs.push((place, data));
            }
        }
        self.end = place + 1;
    }
}

/// How long the device was busy with a command.
pub(super) fn service_ns(spent: &Breakdown) -> Time {
    spent.total_ns() - spent.queue_ns
}

impl Lfs {
    /// True if a block that lies there may be overwritten there.
    pub(super) fn may_overwrite(&self, entry: Entry) -> bool {
        let mark = entry.mark();
        let marked = Edge::LfsOverwriteMark.allows(mark.unchecked);
        if !marked || mark.escaped || pool::is_buffered(entry.place()) {
            return false;
        }
        let segment = self.segments.of(entry.place());
        let one = self.segments.get(segment);
        matches!(one.state, State::Open | State::Closed)
            && Edge::LfsOverwriteChecked.allows(one.checked <= self.checkpoint.start())
            && Edge::LfsOverwriteSettled.allows(one.settles <= self.checkpoint.number())
            && !self.cleaner.is_at(segment)
    }

    /// Marks blocks that have become cold, where there is room for the map that says so; the
    /// checkpoint that begins now writes it.
    pub(super) fn convert(&mut self) {
        if !self.policy.is_converting() || !self.has_room_for_map() {
            return;
        }
        let settles = self.checkpoint.number() + 1;
        let mut from = 0;
        while let Some(block) = self.map.next_stored(from, self.geometry.blocks) {
            from = block + 1;
            let entry = self.map.get(block);
            let mark = entry.mark();
            let stays = mark.unchecked || mark.escaped;
            if stays || pool::is_buffered(entry.place()) || !self.policy.is_cold(block) {
                continue;
            }
            let mark = Mark { unchecked: true, ..mark };
            self.map.replace(block, Entry::new(entry.place(), mark, entry.checksum()));
            let segment = self.segments.of(entry.place());
            self.segments.get_mut(segment).settles = settles;
        }
        super::recover::separate(self);
        if let Some(hylog) = self.policy.hylog() {
            hylog.converting = false;
            hylog.settling = true;
        }
    }

    /// Sends what was collected; the part of the request is done when all is answered.
    pub(super) fn overwrite(&mut self, request: usize, writes: Overwrites, cx: &mut Cx<'_>) {
        if writes.runs.is_empty() {
            return self.written(request, cx);
        }
        let left = writes.runs.len() as u32;
        let overwriting = self.overwriting.insert(Overwriting { request, left });
        for (place, data) in writes.runs {
            let blocks = data.blocks();
            for segment in self.segments_of(place, blocks) {
                self.segments.enter(segment);
            }
            self.counters.overwritten += u64::from(blocks);
            let command = self.overwrites.insert(Command { overwriting, place, blocks });
            cx.send(0, Io::write(OVERWRITE | command as Tag, BlockNr::from(place), data));
        }
    }

    /// The segments of a run: it may go on in the next one.
    fn segments_of(&self, place: u32, blocks: u32) -> std::ops::RangeInclusive<SegmentNr> {
        self.segments.of(place)..=self.segments.of(place + blocks - 1)
    }

    /// A command has been answered.
    pub(super) fn overwrite_done(&mut self, command: usize, done: Done, cx: &mut Cx<'_>) {
        let Command { overwriting, place, blocks } = self.overwrites.remove(command);
        for segment in self.segments_of(place, blocks) {
            self.segments.leave(segment);
        }
        let one = &mut self.overwriting[overwriting];
        one.left -= 1;
        let Overwriting { request, left } = *one;
        self.requests.spend(request, &done.spent);
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.page_blocks += u64::from(blocks);
            hylog.meter.page_ns += service_ns(&done.spent);
        }
        if blocks == 1 {
            self.service.page(service_ns(&done.spent));
        }
        self.touched |= self.volatile;
        if let Err(error) = done.outcome {
            self.requests.fail(request, error);
            self.fail_volume(error, cx);
        }
        if left == 0 {
            self.overwriting.remove(overwriting);
            self.written(request, cx);
        }
    }
}
