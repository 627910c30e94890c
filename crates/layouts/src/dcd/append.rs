//! Writing the log: what is appended, when a record is on its way, and where it goes.
//!
//! On a device with a head a record goes to the first place of its track, or of the next one, that
//! the head reaches in time. What lies between is wasted until the ring comes round, but a
//! rotation is not.

use super::format::{self, Header};
use super::log::Writing;
use super::table::{DIRTY, ESCAPED};
use super::{Dcd, LOG, Report};
use seekless_engine::data::Data;
use seekless_engine::io::{Done, Io};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};

/// How far ahead of the head records are put. Predictions are for single blocks; what a larger
/// command needs beforehand (its data on a slow bus, say) is found out: a record that came a turn
/// too late moves the next ones on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aim {
    lead: Time,
    /// How long the platter should turn before the record on its way begins.
    expected: Option<Time>,
    hits: u32,
}

/// Records that came in time after which less of a lead is tried.
const STEADY: u32 = 256;

impl Aim {
    /// A record has come, after the platter had turned for so long.
    fn came(&mut self, rotation: Time, turn: Time) {
        let Some(expected) = self.expected.take() else { return };
        if rotation > expected + turn / 2 {
            self.lead = (self.lead + turn / 32).min(turn / 2);
            self.hits = 0;
            return;
        }
        self.hits += 1;
        if self.hits == STEADY {
            self.lead -= self.lead / 8;
            self.hits = 0;
        }
    }
}

impl Dcd {
    /// Appends a part of a write to the open buffer and acknowledges it, if that is the way.
    pub(super) fn append(&mut self, request: usize, at: BlockNr, data: &Data, cx: &mut Cx<'_>) {
        let index = self.log.open(data.blocks(), cx.now);
        for offset in 0..data.blocks() {
            let block = (at + u64::from(offset)) as u32;
            self.log.put(index, block, data.block(offset));
        }
        let early = self.caching.report == Report::Immediate || self.requests.is_forced(request);
        if early {
            self.part_done(request, false, cx);
        } else {
            self.log.buffers[index].waiting.push(request);
        }
    }

    /// Writes the oldest buffer, if none is on its way and there is a place for it.
    pub(super) fn begin_log_write(&mut self, cx: &mut Cx<'_>) {
        if !self.log.is_ready() || self.requests.failed().is_some() || self.destage.has_the_arm() {
            return;
        }
        self.log.retire();
        let length = 1 + self.log.buffers[0].data;
        let gap = if self.headed { 0 } else { self.gaps.begin(cx.now) };
        let Some((number, offset)) = self.choose_place(length, gap, cx) else { return };
        let Some(mut buffer) = self.log.buffers.pop_front() else { return };
        self.log.advance_to(number, buffer.seq);
        self.log.enter_progress(&mut buffer);
        let header_at = self.log.place(number) as u32 * self.areas.segment + offset;
        let first = header_at + 1;
        let dirty_before = self.log.dirty();
        let (pieces, entries) = self.log.settle_slots(&mut buffer, first);
        let own = (first..first + buffer.data).filter(|&addr| self.log.table.is(addr, DIRTY));
        let own = own.count() as u64;
        debug_assert!(self.log.dirty() <= dirty_before + own);
        let (tail, tail_seq) = self.log.tail_now(buffer.seq, own);
        let header = Header {
            seq: buffer.seq,
            segment: number,
            offset,
            durable: self.log.durable,
            tail: tail_seq,
            life: self.log.life,
            clean: buffer.clean,
            entries,
            before: self.log.listed.take(),
        };
        self.log.listed = Some(header.blocks());
        self.log.offset = offset + length;
        let mut data = Data::block_of(header.encode(self.id));
        for (piece, addr) in pieces.iter().zip(first..) {
            let escaped = self.log.table.is(addr, ESCAPED);
            data.push(if escaped { format::escape(piece) } else { piece.clone() });
        }
        self.counters.records += 1;
        self.counters.header_blocks += 1;
        self.counters.log_blocks += u64::from(buffer.data);
        self.log.writing = Some(Writing { buffer, first, tail, pieces });
        self.send_record(self.log.device_block(header_at), data, cx);
    }

    /// Sends a record, header and data in one command.
    fn send_record(&mut self, at: BlockNr, mut record: Data, cx: &mut Cx<'_>) {
        let length = record.blocks();
        if planted(PlantedBug::MapBeforeData) && length > 1 {
            // Only the header is waited for.
            let rest = Io::write(LOG | 1, at + 1, record.slice(1, length - 1));
            self.send(self.log_port(), rest, cx);
            record = record.slice(0, 1);
        }
        self.send(self.log_port(), Io::write(LOG, at, record), cx);
    }

    /// The record has been answered.
    pub(super) fn log_done(&mut self, done: Done, cx: &mut Cx<'_>) {
        if let Err(error) = done.outcome {
            // It stays in memory, where reads find it.
            self.fail_volume(error, cx);
            return;
        }
        if self.requests.failed().is_some() {
            return;
        }
        let Some(writing) = self.log.writing.take() else { return };
        let Writing { buffer, tail, .. } = writing;
        self.destage.record_written(cx.now);
        if let Some(arm) = cx.arm(self.log_port()) {
            self.aim.came(done.spent.rotation_ns, arm.turn_ns());
        }
        self.log.written = buffer.seq;
        self.log.note_tail(buffer.seq, tail);
        let exposed = cx.now - buffer.since;
        self.counters.exposed_ns = self.counters.exposed_ns.max(exposed);
        if !self.volatile {
            self.log.made_durable(buffer.seq);
            self.gaps.durable(cx.now);
        }
        for request in buffer.waiting {
            self.requests.spend(request, &done.spent);
            self.part_done(request, false, cx);
        }
        self.requests.spend_on(|needs| needs.seq == buffer.seq, &done.spent);
    }

    /// Where a record of `length` blocks goes: segment and block in it. Right behind the last one,
    /// or where the head of the disk will be, if blocks may be passed over for that: as far as it
    /// is known, or `gap` blocks on.
    fn choose_place(&mut self, length: u32, gap: u32, cx: &Cx<'_>) -> Option<(u64, u32)> {
        let log = &self.log;
        let here = (log.head, log.offset);
        let next = (log.offset + length > self.areas.segment).then_some((log.head + 1, 0));
        let dense = next.unwrap_or(here);
        if dense.0 > log.head && !log.may_begin(dense.0) {
            return None;
        }
        // Speed costs space, which is worth more when it has run out.
        let (free, all) = (log.free_segments(), u64::from(self.areas.segments));
        if free * 32 < all {
            return Some(dense);
        }
        if !self.headed {
            if free * 2 < all {
                return Some(dense);
            }
            let place = self.place_from(dense, u64::from(gap), length);
            return Some(if self.may_skip_to(dense, place) { place } else { dense });
        }
        let Some((expected, place)) = self.under_the_head(dense, length, cx) else {
            return Some(dense);
        };
        self.aim.expected = Some(expected);
        Some(place)
    }

    /// The place at or behind `dense` that the head reaches first, on its track or the next one,
    /// and how long the platter turns until then.
    fn under_the_head(
        &self,
        dense: (u64, u32),
        length: u32,
        cx: &Cx<'_>,
    ) -> Option<(Time, (u64, u32))> {
        let port = self.log_port();
        let (arm, head) = (cx.arm(port)?, cx.head(port)?);
        let log = &self.log;
        let from = log.device_block(log.place(dense.0) as u32 * self.areas.segment + dense.1);
        let start = cx.now.max(head.free_at) + arm.overhead_ns() + self.aim.lead;
        let track = arm.track_of(from);
        let mut best: Option<(Time, Time, (u64, u32))> = None;
        for track in [track, track + 1].into_iter().filter(|&track| track < arm.tracks()) {
            let (first, blocks) = arm.track_blocks(track);
            let arrival = start + arm.travel_ns(head.track, track);
            let angle = arm.angle_ns(arrival);
            let slot = u64::from(arm.next_slot(track, angle));
            let block = (first + slot).max(from);
            let place = self.place_from(dense, block - from, length);
            let at = log.device_block(log.place(place.0) as u32 * self.areas.segment + place.1);
            let fits = (first..first + u64::from(blocks)).contains(&at);
            if !fits || !self.may_skip_to(dense, place) {
                continue;
            }
            let position = arm.position(track, (at - first) as u32);
            let wait = arm.wait_ns(track, position, angle);
            if best.is_none_or(|(least, ..)| arrival + wait < least) {
                best = Some((arrival + wait, wait + self.aim.lead, place));
            }
        }
        best.map(|(_, wait, place)| (wait, place))
    }

    /// True if all that lies between two places is free, and one segment more.
    fn may_skip_to(&self, dense: (u64, u32), place: (u64, u32)) -> bool {
        let log = &self.log;
        let wraps = log.place(place.0) < log.place(dense.0);
        !wraps && (log.head + 1..=place.0 + 1).all(|one| log.may_begin(one))
    }

    /// The first place for `length` blocks that lies `skip` blocks or more behind another.
    fn place_from(&self, place: (u64, u32), skip: u64, length: u32) -> (u64, u32) {
        let segment = u64::from(self.areas.segment);
        let offset = u64::from(place.1) + skip;
        let (number, offset) = (place.0 + offset / segment, (offset % segment) as u32);
        match offset + length > self.areas.segment {
            true => (number + 1, 0),
            false => (number, offset),
        }
    }
}
