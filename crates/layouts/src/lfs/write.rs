//! Writing: blocks go to the write buffer, and from there to the log.

use super::Lfs;
use super::format::{Entry, Mark};
use super::overwrite::Overwrites;
use super::pool::{self, Slot};
use super::read::escape;
use super::segments::SegmentNr;
use seekless_engine::data::{Body, Data, Piece, is_zero};
use seekless_engine::io::IoError;
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::request_table::Work;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, Time};

impl Lfs {
    /// Begins what waits, in order of arrival.
    pub(super) fn dispatch(&mut self, cx: &mut Cx<'_>) {
        self.starving = false;
        while self.next_has_room(cx) {
            match self.requests.pop() {
                Some(Work::Read { request, at, count }) => self.begin_read(request, at, count, cx),
                Some(Work::Write { request, at, data, .. }) => self.write(request, at, &data, cx),
                Some(Work::Trim { request, at, count }) => self.trim(request, at, count, cx),
                Some(Work::Group { request, all }) => self.write_group(request, &all, cx),
                None => {}
            }
        }
    }

    /// True if there is something to begin and room for it.
    fn next_has_room(&mut self, cx: &mut Cx<'_>) -> bool {
        let count = match self.requests.front() {
            None => return false,
            Some(Work::Read { .. }) => return true,
            Some(Work::Write { data, .. }) => u64::from(data.blocks()),
            Some(Work::Trim { .. }) => 1,
            Some(Work::Group { all, .. }) => all.blocks(),
        };
        if self.log.in_flight() > self.in_flight_limit {
            return false;
        }
        if !self.has_room(count) && !self.takes_no_room() {
            self.starving = true;
            return false;
        }
        if self.pool.is_long() {
            self.write_out(&[], cx);
        }
        true
    }

    /// True if what comes next is overwritten in place, all of it.
    fn takes_no_room(&self) -> bool {
        let Some(Work::Write { at, data, .. }) = self.requests.front() else { return false };
        (0..data.blocks()).zip(*at..).all(|(index, at)| {
            let block = data.block(index);
            self.policy.is_cold(at)
                && self.may_overwrite(self.map.get(at))
                && !is_zero(&block)
                && !escape(self.id, block).1
        })
    }

    /// True if what comes next will be overwritten in place, all of it, after a checkpoint.
    pub(super) fn waits_for_checkpoint(&self) -> bool {
        let Some(Work::Write { at, data, .. }) = self.requests.front() else { return false };
        self.policy.is_cold_all_over()
            && self
                .map
                .range(*at, u64::from(data.blocks()))
                .all(|entry| entry.is_mapped() && !entry.mark().escaped)
    }

    fn write(&mut self, request: usize, at: BlockNr, data: &Data, cx: &mut Cx<'_>) {
        let count = data.blocks();
        self.make_room(u64::from(count), cx);
        let mut overwrites = Overwrites::default();
        let mut logged = 0;
        for index in 0..count {
            let block = data.block(index);
            let at = at + u64::from(index);
            let cold = self.policy.is_cold_write(at, cx.now);
            if is_zero(&block) {
                logged += 1;
                self.forget(at, 1, cx.now);
                continue;
            }
            let (piece, escaped) = escape(self.id, block);
            let old = self.map.get(at);
            if cold && !escaped && self.may_overwrite(old) {
                overwrites.push(old.place(), piece);
                continue;
            }
            logged += 1;
            self.log_block(at, piece, Mark { escaped, unchecked: cold }, cx.now);
        }
        self.have_logged(logged, cx);
        self.overwrite(request, overwrites, cx);
    }

    /// All that a transaction changes goes to the buffer at once, and from there to the log with
    /// one commit. Nothing of it is overwritten in place: a crash could leave a part of that.
    fn write_group(&mut self, request: usize, all: &Transaction, cx: &mut Cx<'_>) {
        self.make_room(all.blocks(), cx);
        for (index, (at, piece)) in (0..).zip(all.changes()) {
            if index == 1 && planted(PlantedBug::UnitSplit) {
                self.write_out_clients(cx);
            }
            let cold = self.policy.is_cold_write(at, cx.now);
            let Some(piece) = piece else {
                self.forget(at, 1, cx.now);
                continue;
            };
            let (piece, escaped) = escape(self.id, piece.clone());
            self.log_block(at, piece, Mark { escaped, unchecked: cold }, cx.now);
        }
        self.have_logged(all.blocks() as u32, cx);
        self.written(request, cx);
    }

    /// So many blocks of a client come: what waits is written out if there would be too many.
    fn make_room(&mut self, count: u64, cx: &mut Cx<'_>) {
        self.counters.client_blocks += count;
        let capacity = self.capacity();
        if self.pool.has_changes() && self.pool.clients() + count > capacity {
            self.write_out_clients(cx);
            self.close_crowded();
        }
    }

    /// A block goes to the buffer.
    fn log_block(&mut self, at: BlockNr, piece: Piece, mark: Mark, now: Time) {
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.log_blocks += 1;
        }
        let checksum = self.sums.of(&piece);
        self.put(at, piece.body, mark, checksum, now);
    }

    /// So many blocks went to the buffer.
    fn have_logged(&mut self, logged: u32, cx: &mut Cx<'_>) {
        self.cleaner.earn(logged);
        if self.pool.clients() >= self.capacity() {
            self.write_out_clients(cx);
        }
    }

    /// Answers a request that has happened, or lets it wait for durability if it asked for that.
    pub(super) fn written(&mut self, request: usize, cx: &mut Cx<'_>) {
        if let Some(request) = self.requests.part_written(request, cx) {
            self.wait_durable(request, cx);
        }
    }

    fn trim(&mut self, request: usize, at: BlockNr, count: u32, cx: &mut Cx<'_>) {
        self.forget(at, count, cx.now);
        self.written(request, cx);
    }

    /// Puts a block into the buffer; what was there before is superseded by the commit that takes
    /// it.
    fn put(&mut self, at: BlockNr, body: Body, mark: Mark, checksum: u32, now: Time) {
        let old = self.map.get(at);
        let buffered = old.is_mapped() && pool::is_buffered(old.place());
        if buffered && !pool::is_moved(old.place()) {
            self.pool.replace(old.place(), body, now);
            self.map.replace(at, Entry::new(old.place(), mark, checksum));
            return;
        }
        let from = match buffered {
            true => self.pool.forget(old.place()),
            false => self.supersede(old),
        };
        let place = self.pool.add(Slot { block: at as u32, body, written: now, from }, now);
        self.map.replace(at, Entry::new(place, mark, checksum));
    }

    /// The open commit supersedes what lies on the device; returns where.
    pub(super) fn supersede(&mut self, old: Entry) -> Option<SegmentNr> {
        old.is_mapped().then(|| {
            self.segments.supersede(old.place(), self.log.open());
            self.segments.of(old.place())
        })
    }

    /// Blocks are not stored from here on.
    fn forget(&mut self, at: BlockNr, count: u32, now: Time) {
        let (mut any, mut from, end) = (false, at, at + u64::from(count));
        while let Some(block) = self.map.next_stored(from, end) {
            (any, from) = (true, block + 1);
            let old = self.map.replace(block, Entry::UNMAPPED);
            if pool::is_buffered(old.place()) {
                self.pool.forget(old.place());
            } else {
                self.supersede(old);
            }
        }
        if any {
            self.pool.add_zeros(at as u32, count, now);
        }
    }

    /// A block that the cleaner has read moves, if it still lies where it was read.
    pub(super) fn put_moved(&mut self, at: BlockNr, entry: Entry, body: Body, now: Time) {
        let checksum = match entry.mark().unchecked {
            true => self.checksum_of(&body),
            false => entry.checksum(),
        };
        let mark = Mark { unchecked: self.policy.is_cold(at), ..entry.mark() };
        // It is not younger for having been moved.
        let written = self.segments.get(self.segments.of(entry.place())).youngest;
        let from = self.supersede(entry);
        let slot = Slot { block: at as u32, body, written, from };
        let place = match self.tells_moved() {
            true => self.pool.add_moved(slot),
            false => self.pool.add(slot, now),
        };
        self.map.replace(at, Entry::new(place, mark, checksum));
    }

    /// What waits for space cannot get any: the first of it fails.
    pub(super) fn refuse_first(&mut self, cx: &mut Cx<'_>) {
        if let Some(work) = self.requests.pop() {
            debug_assert!(!matches!(work, Work::Read { .. }), "reads need no space");
            self.requests.fail(work.request(), IoError::NoSpace);
            self.requests.part_done(work.request(), cx);
        }
    }
}
