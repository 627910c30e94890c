//! Requests from above: cut into parts, put together again, answered.

use super::broadcast::Then;
use super::heal::Heal;
use super::reconstruct::Reconstruct;
use super::{Array, Call, Job};
use crate::Level;
use crate::geometry::Place;
use seekless_engine::data::Data;
use seekless_engine::io::{Breakdown, Expected, Io, IoError, Op, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::request_table::RequestNr;
use seekless_engine::units::BlockNr;
use smallvec::{SmallVec, smallvec};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Whole stripes of a trim that are under way at once.
const TRIM_WINDOW: u64 = 64;

/// What the array knows of a request besides the table.
#[derive(Clone, Debug)]
pub(super) struct Request {
    op: Op,
    /// All members are to be flushed before the answer.
    to_flush: bool,
    pub(super) purpose: Purpose,
    /// Of a read: what its blocks must be like, from the first one on.
    at: BlockNr,
    expected: Option<Arc<Expected>>,
    /// Of a read: where each part comes from, and what came.
    slots: Vec<Slot>,
    /// Of a trim: whole stripes that are still to be begun.
    trim: std::ops::Range<u64>,
}

/// What the array knows of the requests in flight, by their number in the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Vec<Option<Request>>);

impl Requests {
    fn insert(&mut self, number: RequestNr, request: Request) {
        if self.0.len() <= number {
            self.0.resize_with(number + 1, || None);
        }
        debug_assert!(self.0[number].is_none(), "request {number} is known twice");
        self.0[number] = Some(request);
    }

    fn remove(&mut self, number: RequestNr) -> Request {
        self.0[number].take().expect("a request ends once")
    }

    /// True if no request has parts that are not done.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl Index<RequestNr> for Requests {
    type Output = Request;

    fn index(&self, number: RequestNr) -> &Request {
        self.0[number].as_ref().expect("a request that has parts")
    }
}

impl IndexMut<RequestNr> for Requests {
    fn index_mut(&mut self, number: RequestNr) -> &mut Request {
        self.0[number].as_mut().expect("a request that has parts")
    }
}

/// A part of a read: a run of blocks in one chunk.
#[derive(Clone, Debug)]
struct Slot {
    place: Place,
    at: BlockNr,
    count: u32,
    data: Data,
}

/// A part of a write: blocks in one stripe.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The request.
    pub request: usize,
    /// Block in the data of the stripe.
    pub at: u32,
    /// The blocks.
    pub data: Data,
    /// The stripe is forgotten as a whole.
    pub trim: bool,
}

/// Where a run of blocks is: it is the sum of what these members hold.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub members: SmallVec<[usize; 8]>,
    pub block: BlockNr,
    pub count: u32,
}

impl Array {
    /// Cuts a request up and begins with it, or refuses it.
    pub(super) fn take_on(&mut self, io: Io, cx: &mut Cx<'_>) {
        // One part for the cutting itself, so that nothing is finished before all of it has begun,
        // and one for the answer.
        let Some(request) = self.table.begin(&io, 2, cx) else { return };
        let Io { op, fua, purpose, at, count, data, expected, .. } = io;
        let (to_flush, slots, trim) = (fua && self.volatile, Vec::new(), 0..0);
        let one = Request { op, to_flush, purpose, at, expected, slots, trim };
        self.requests.insert(request, one);
        match op {
            Op::Read => self.cut_read(request, at, count),
            Op::Write => {
                self.counters.client_blocks_written += u64::from(count);
                self.cut_write(request, at, &data);
            }
            Op::Trim => self.cut_trim(request, at, count),
            Op::Flush => {
                self.table.add_parts(request, 1);
                self.flush_members(Then::Request(request));
            }
        }
        self.part_done(request, Ok(()));
    }

    /// Splits a range at chunks: place, first block and count of each run.
    fn runs(&self, at: BlockNr, count: u32) -> Vec<(Place, BlockNr, u32)> {
        let end = at + u64::from(count);
        let mut at = at;
        let mut runs = Vec::new();
        while at < end {
            let place = self.geometry.place(at);
            let here = u64::from(self.geometry.chunk - place.row).min(end - at) as u32;
            runs.push((place, at, here));
            at += u64::from(here);
        }
        debug_assert_eq!(runs.iter().map(|&(_, _, here)| here).sum::<u32>(), count);
        runs
    }

    fn cut_read(&mut self, request: usize, at: BlockNr, count: u32) {
        for (place, at, count) in self.runs(at, count) {
            let one = &mut self.requests[request];
            let slot = one.slots.len();
            one.slots.push(Slot { place, at, count, data: Data::none() });
            self.table.add_parts(request, 1);
            self.read_slot(request, slot);
        }
    }

    /// Asks a member for a part of a read, or has it computed where there is none to ask.
    fn read_slot(&mut self, request: usize, slot: usize) {
        let Slot { place: Place { stripe, index, row }, count, .. } =
            self.requests[request].slots[slot];
        let block = self.geometry.block(stripe, row);
        let Some(member) = self.reader(stripe, index, block) else {
            let member = self.geometry.member(stripe, index);
            return self.compute(request, slot, member);
        };
        debug_assert!(self.present(member, stripe), "member {member} has nothing to read");
        let (load, end) = &mut self.heads[member];
        *load += 1;
        *end = block + u64::from(count);
        let mut io = Io::read(0, block, count);
        io.purpose = self.requests[request].purpose;
        self.member_queue.push(member, io, Call::Read { request, slot });
    }

    /// Where the blocks of a read are, run by run: members whose sum they are (mostly one), their
    /// first block there, and how many. Nothing if something is under way, or cannot be told.
    pub(crate) fn sources(&self, at: BlockNr, count: u32) -> Option<Vec<Source>> {
        let source = |(Place { stripe, index, row }, _, count)| {
            let block = self.geometry.block(stripe, row);
            let members = match self.reader(stripe, index, block) {
                Some(member) => smallvec![member],
                None => self.others(stripe, self.geometry.member(stripe, index))?,
            };
            Some(Source { members, block, count })
        };
        self.is_at_rest().then(|| self.runs(at, count).into_iter().map(source).collect())?
    }

    /// All ways to have a block: each copy, or what its own member gives and what comes of the
    /// others; as members whose sum it is. None where members need not agree.
    pub(crate) fn ways(&self, at: BlockNr) -> Vec<Source> {
        let Place { stripe, index, row } = self.geometry.place(at);
        if !self.is_at_rest() || self.is_distrusted(stripe) {
            return Vec::new();
        }
        let member = self.geometry.member(stripe, index);
        let own = |one: usize| self.present(one, stripe).then(|| smallvec![one]);
        let ways: Vec<_> = match self.geometry.level {
            Level::Raid0 => Vec::new(),
            Level::Raid1 => (0..self.geometry.members).filter_map(own).collect(),
            Level::Raid5 => {
                [own(member), self.others(stripe, member)].into_iter().flatten().collect()
            }
        };
        let block = self.geometry.block(stripe, row);
        ways.into_iter().map(|members| Source { members, block, count: 1 }).collect()
    }

    /// True if the member that a block belongs to does not have it, and the others make up for it
    /// together.
    pub(crate) fn is_computed(&self, at: BlockNr) -> bool {
        let Place { stripe, index, .. } = self.geometry.place(at);
        let member = self.geometry.member(stripe, index);
        self.geometry.level == Level::Raid5 && !self.present(member, stripe)
    }

    /// True if what members have wrong, a block each, may be put right. Then it counts as done.
    pub(crate) fn puts_right(&mut self, members: impl Iterator<Item = usize>) -> bool {
        let writable = !self.table.is_read_only() && self.table.failed().is_none();
        if writable {
            members.for_each(|member| self.count_healed(member, 1));
        }
        writable
    }

    /// Counts blocks of a member that are put right.
    pub(super) fn count_healed(&mut self, member: usize, blocks: u64) {
        self.counters.healed += blocks;
        self.faults[member].healed += blocks;
    }

    /// The members that a missing one is computed from.
    fn others(&self, stripe: u64, missing: usize) -> Option<SmallVec<[usize; 8]>> {
        if self.geometry.level != Level::Raid5 || !self.can_compute(stripe) {
            return None;
        }
        let others = (0..self.geometry.members).filter(|&one| one != missing);
        others.map(|one| self.present(one, stripe).then_some(one)).collect()
    }

    /// The member to read a chunk from: of mirrors the one that is just there, else the least busy
    /// one, else the nearest.
    fn reader(&self, stripe: u64, index: usize, block: BlockNr) -> Option<usize> {
        if self.geometry.level != Level::Raid1 {
            let member = self.geometry.member(stripe, index);
            return self.present(member, stripe).then_some(member);
        }
        let mirrors = (0..self.geometry.members).filter(|&one| self.present(one, stripe));
        // Copies that may disagree must not take turns.
        if self.is_distrusted(stripe) {
            return mirrors.into_iter().next();
        }
        mirrors.min_by_key(|&one| {
            let (load, end) = self.heads[one];
            (end != block, load, end.abs_diff(block))
        })
    }

    /// A part of a read that its member does not give is computed from the others.
    fn compute(&mut self, request: usize, slot: usize, member: usize) {
        let Slot { place, at, count, .. } = self.requests[request].slots[slot];
        // Where members need not agree, a sum or another copy might be older than what was read.
        if !self.can_compute(place.stripe) {
            return self.slot_done(request, slot, Err(IoError::Media { block: at }));
        }
        let Place { stripe, row, .. } = place;
        self.enqueue(stripe, Job::Reconstruct(Reconstruct::new(request, slot, member, row, count)));
    }

    pub(super) fn read_answered(
        &mut self,
        request: usize,
        slot: usize,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        debug_assert!(self.heads[member].0 > 0, "member {member} was asked for nothing");
        self.heads[member].0 -= 1;
        let Slot { place: Place { stripe, row, .. }, at, count, .. } =
            self.requests[request].slots[slot];
        if matches!(outcome, Err(error) if error != IoError::PowerOff) {
            self.faults[member].unreadable += u64::from(count);
        }
        match outcome {
            Ok(data) => {
                let data = self.overlaid(member, self.geometry.block(stripe, row), data);
                match self.is_expected(request, slot, &data) {
                    true => self.slot_done(request, slot, Ok(data)),
                    false => self.heal(request, slot, member, data),
                }
            }
            Err(IoError::PowerOff) => self.slot_done(request, slot, Err(IoError::PowerOff)),
            Err(_) if self.can_compute(stripe) => self.compute(request, slot, member),
            Err(IoError::Media { .. }) => {
                self.slot_done(request, slot, Err(IoError::Media { block: at }));
            }
            Err(error) => self.slot_done(request, slot, Err(error)),
        }
    }

    /// What the blocks of a part of a read must be like, and the index of its first one there.
    pub(super) fn expected(&self, request: usize, slot: usize) -> Option<(Arc<Expected>, u32)> {
        let one = &self.requests[request];
        let expected = one.expected.clone()?;
        Some((expected, (one.slots[slot].at - one.at) as u32))
    }

    fn is_expected(&self, request: usize, slot: usize, data: &Data) -> bool {
        let Some((expected, from)) = self.expected(request, slot) else { return true };
        data.all(|index, block| expected.is_met(from + index, block))
    }

    /// A member gave something else than was written: the others are asked.
    fn heal(&mut self, request: usize, slot: usize, member: usize, found: Data) {
        let Place { stripe, row, .. } = self.requests[request].slots[slot].place;
        self.enqueue(stripe, Job::Heal(Heal::new(request, slot, member, row, found)));
    }

    /// The content of a part of a read has come.
    pub(super) fn slot_done(
        &mut self,
        request: usize,
        slot: usize,
        outcome: Result<Data, IoError>,
    ) {
        debug_assert!(
            outcome.iter().all(|data| data.blocks() == self.requests[request].slots[slot].count),
            "a part of a read has another length"
        );
        let outcome = outcome.map(|data| self.requests[request].slots[slot].data = data);
        self.part_done(request, outcome);
    }

    /// The first block of a part of a read, in the numbering of the array.
    pub(super) fn slot_block(&self, request: usize, slot: usize) -> BlockNr {
        self.requests[request].slots[slot].at
    }

    fn cut_write(&mut self, request: usize, at: BlockNr, data: &Data) {
        let mut from = 0;
        for (place, _, count) in self.runs(at, data.blocks()) {
            self.table.add_parts(request, 1);
            let data = data.slice(from, count);
            from += count;
            if self.geometry.level == Level::Raid0 {
                self.write_plain(request, place, data);
                continue;
            }
            let at = place.index as u32 * self.geometry.chunk + place.row;
            let part = Part { request, at, data, trim: false };
            self.enqueue(place.stripe, Job::Write(part));
        }
    }

    /// Whole stripes are trimmed on the members, the rest is written with zeros: what is left of
    /// the parity must fit.
    fn cut_trim(&mut self, request: usize, at: BlockNr, count: u32) {
        let each = self.geometry.stripe_blocks();
        let end = at + u64::from(count);
        let whole = at.div_ceil(each)..(end / each).max(at.div_ceil(each));
        let zeros = |from: BlockNr, to: BlockNr| Data::zeros((to - from) as u32);
        if whole.is_empty() {
            return self.cut_write(request, at, &zeros(at, end));
        }
        let (first, last) = (whole.start * each, whole.end * each);
        debug_assert!(at <= first && first < last && last <= end, "a trim stays in its range");
        self.cut_write(request, at, &zeros(at, first));
        self.cut_write(request, last, &zeros(last, end));
        self.requests[request].trim = whole;
        self.trim_on(request);
    }

    /// Begins with the next stripes of a trim.
    fn trim_on(&mut self, request: usize) {
        let one = &mut self.requests[request];
        let window = one.trim.start..(one.trim.start + TRIM_WINDOW).min(one.trim.end);
        debug_assert!(!window.is_empty(), "a trim goes on behind its end");
        one.trim.start = window.end;
        for stripe in window {
            if self.geometry.level == Level::Raid0 {
                self.trim_plain(request, stripe);
                continue;
            }
            self.table.add_parts(request, 1);
            let data = Data::zeros(self.geometry.stripe_blocks() as u32);
            let part = Part { request, at: 0, data, trim: true };
            self.enqueue(stripe, Job::Write(part));
        }
    }

    /// RAID-0 has nothing to keep in step.
    fn write_plain(&mut self, request: usize, place: Place, data: Data) {
        debug_assert_eq!(self.geometry.level, Level::Raid0, "parity and copies would be left out");
        let member = self.geometry.member(place.stripe, place.index);
        self.counters.data_writes += 1;
        self.counters.data_blocks += u64::from(data.blocks());
        let mut io = Io::write(0, self.geometry.block(place.stripe, place.row), data);
        io.purpose = self.requests[request].purpose;
        self.member_queue.push(member, io, Call::Plain { request });
    }

    fn trim_plain(&mut self, request: usize, stripe: u64) {
        for member in 0..self.geometry.members {
            self.table.add_parts(request, 1);
            let io = Io::trim(0, self.geometry.block(stripe, 0), self.geometry.chunk);
            self.member_queue.push(member, io, Call::Plain { request });
        }
    }

    pub(super) fn plain_answered(
        &mut self,
        request: usize,
        member: usize,
        outcome: Result<Data, IoError>,
    ) {
        if let Err(error) = outcome {
            self.member_failed(member, error);
        }
        self.part_done(request, outcome.map(|_| ()));
    }

    /// A part of a request is done.
    pub(super) fn part_done(&mut self, request: RequestNr, outcome: Result<(), IoError>) {
        if let Err(error) = outcome {
            self.table.fail(request, error);
        }
        if !self.table.end_part(request) {
            return;
        }
        let one = &mut self.requests[request];
        let failed = self.table.has_failed(request);
        if !one.trim.is_empty() && !failed {
            self.table.add_parts(request, 1);
            self.trim_on(request);
            return self.part_done(request, Ok(()));
        }
        let changes = matches!(one.op, Op::Write | Op::Trim) && !failed;
        if changes && std::mem::take(&mut one.to_flush) {
            self.table.add_parts(request, 1);
            return self.flush_members(Then::Request(request));
        }
        let Request { op, slots, trim, .. } = self.requests.remove(request);
        debug_assert!(failed || trim.is_empty(), "a trim ends with stripes left");
        debug_assert!(op == Op::Read || slots.is_empty(), "only reads have data to give");
        let mut data = Data::none();
        slots.into_iter().for_each(|slot| data.append(slot.data));
        self.table.found(request, data);
        self.table.wait(request, op);
    }

    /// Time that an operation spent for a request.
    pub(super) fn charge(&mut self, request: RequestNr, spent: &Breakdown) {
        self.table.spend(request, spent);
    }

    /// Answers what is finished, unless it is a change and a member has failed that others do not
    /// know of yet: after a crash that one would be taken for up to date.
    pub(super) fn answer_finished(&mut self, cx: &mut Cx<'_>) {
        let settled = self.is_settled();
        // A failed array counts as settled: it writes no superblock that could be waited for.
        self.table.answer_met(|op| *op == Op::Read || settled, cx);
    }
}
