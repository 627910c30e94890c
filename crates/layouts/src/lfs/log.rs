//! The log: parts are written to the device in order, and it is known how far they are durable.
//!
//! A *part* is a summary and the blocks it names, written with one command; a *commit* is one or
//! more parts that take hold together. Parts are numbered, each names the one before and the places
//! where the next one may begin, so a recovery follows the log without a scan.

use super::durability::Reached;
use super::format::{
    Entry, Geometry, ITEMS_ROOM, Item, Link, MOST_ITEMS, Mark, Position, Summary, WAYS,
};
use super::map::MetaBlock;
use super::overwrite::service_ns;
use super::pool::{self, Scope, Slot};
use super::repeat::Named;
use super::segments::{Owner, SegmentNr};
use super::{COMMIT_DELAY, Lfs, PART};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, Io, IoError, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BlockNr, Time};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A segment that is being filled, and the one that will be filled next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub segment: SegmentNr,
    /// Blocks of it that are written.
    pub offset: u32,
    pub next: SegmentNr,
}

/// A part on its way to the device.
#[derive(Clone, Debug)]
struct Flight {
    sequence: u64,
    commit: u64,
    ends: bool,
    /// What it says is durable.
    says: u64,
    /// First block behind the summary.
    first: u32,
    data: Data,
    blocks: u32,
    done: bool,
}

/// The state of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub heads: SmallVec<[Head; 2]>,
    /// The last part, and where the next one may begin.
    pub position: Position,
    pub mount: u32,
    /// The commit that collects changes.
    pub open: u64,
    flights: VecDeque<Flight>,
    /// Blocks on their way to the device.
    pub in_flight: u64,
    /// The last commit that is on the device with all before it, and its last part.
    pub completed: Reached,
    pub durable: Reached,
    /// What the flush under way covers.
    pub flush: Option<Reached>,
    /// The last part that has changed something.
    changed: u64,
    /// Blocks written since something became durable, and those of data since a checkpoint.
    pub unverified: u64,
    pub since_checkpoint: u64,
    /// What the last part names, if this mount has written it.
    named: Option<Named>,
}

/// A part that is being put together.
#[derive(Debug)]
pub(super) struct Draft {
    head: usize,
    place: u32,
    room: u32,
    items: Vec<Item>,
    item_bytes: usize,
    data: Data,
    blocks: u32,
    /// Of these so many are of the map, and so many are moved by the cleaner.
    map: u32,
    moved: u32,
}

impl Draft {
    /// What most of its blocks are written for.
    fn purpose(&self) -> Purpose {
        let Draft { blocks, map, moved, .. } = *self;
        match blocks - map - moved {
            data if data >= moved.max(map) => Purpose::Data,
            _ if moved >= map => Purpose::Cleaning,
            _ => Purpose::Map,
        }
    }
}

impl Log {
    /// After a mount: the log goes on behind `position`.
    pub fn restore(&mut self, position: Position, mount: u32) {
        let part = position.sequence;
        *self = Log {
            heads: std::mem::take(&mut self.heads),
            position,
            mount,
            open: 1,
            completed: Reached { part, witnessed: part, ..Reached::default() },
            durable: Reached { part, witnessed: part, ..Reached::default() },
            changed: part,
            since_checkpoint: self.since_checkpoint,
            ..Log::default()
        };
    }

    /// Number of the commit that collects changes.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// The last commit that is durable.
    pub fn durable(&self) -> u64 {
        self.durable.commit
    }

    /// True if no durable part says that what was changed last is durable.
    pub fn lacks_witness(&self) -> bool {
        self.durable.witnessed < self.changed
    }

    /// The last commit that is on the device with all before it.
    pub fn completed(&self) -> u64 {
        self.completed.commit
    }

    /// Blocks on their way to the device.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// True if all parts have been answered and no flush is under way.
    pub fn is_quiet(&self) -> bool {
        self.flights.is_empty() && self.flush.is_none()
    }

    /// True if all parts up to a commit are on the device.
    pub fn has_completed(&self, commit: u64) -> bool {
        commit <= self.completed.commit
    }

    /// The last part that is on the device with all before it.
    pub fn completed_part(&self) -> u64 {
        self.completed.part
    }

    /// The content of a place that is on its way to the device.
    pub fn body_in_flight(&self, place: u32) -> Option<Body> {
        // The youngest one: a place is written twice at most if no read comes in between.
        let flight = self.flights.iter().rev().find(|flight| {
            flight.first <= place && place < flight.first + flight.blocks && !flight.data.is_empty()
        })?;
        Some(flight.data.block(place - flight.first).body)
    }

    /// Ends a commit that has nothing to write.
    pub fn end_empty_commit(&mut self) {
        match self.flights.back_mut() {
            Some(last) => last.commit = self.open,
            None => self.completed.commit = self.open,
        }
        self.open += 1;
    }
}

impl Head {
    /// Blocks of data that fit the part that begins here.
    pub fn room(&self, geometry: &Geometry) -> u32 {
        let left = geometry.segment - self.offset;
        if left < 2 { geometry.segment - 1 } else { left - 1 }
    }
}

impl Lfs {
    /// Writes out everything that waits, and blocks of the map behind it, as one commit.
    pub(super) fn write_out(&mut self, meta: &[MetaBlock], cx: &mut Cx<'_>) {
        self.write_out_of(Scope::All, meta, cx);
    }

    /// Writes out what clients have changed.
    pub(super) fn write_out_clients(&mut self, cx: &mut Cx<'_>) {
        self.write_out_of(Scope::Clients, &[], cx);
    }

    /// Writes out what the cleaner moves once it fills a segment: exactly full ones, or cleaning
    /// would gain nothing, and without what clients write, or all segments would become alike.
    pub(super) fn write_out_moved(&mut self, cx: &mut Cx<'_>) {
        let full = match self.tells_moved() {
            true => self.pool.moved() >= u64::from(self.log.heads[0].room(&self.geometry)),
            false => self.pool.live() >= self.capacity(),
        };
        if !full {
            return;
        }
        // A flush waits for the commit that takes everything.
        let open = self.log.open;
        let alone = !self.pool.has_ranges() && !self.requests.any_waits(|&number| number == open);
        self.write_out_of(if alone { Scope::Moved } else { Scope::All }, &[], cx);
    }

    /// True if what the cleaner moves waits apart. Where cold blocks have a head of their own they
    /// are told apart by that.
    pub(super) fn tells_moved(&self) -> bool {
        !self.policy.is_mixed()
    }

    fn write_out_of(&mut self, scope: Scope, meta: &[MetaBlock], cx: &mut Cx<'_>) {
        let has_two_heads = self.fit_heads();
        let scope = if self.tells_moved() { scope } else { Scope::All };
        // Only beside something new: else a checkpoint would change the map that it writes.
        if scope != Scope::Moved && meta.is_empty() && self.pool.has_changes() {
            self.take_partial(cx.now);
        }
        let mut draft = None;
        if scope != Scope::Moved {
            self.add_ranges(&mut draft, cx);
            let slots = self.pool.take_clients();
            let slots = self.add_slots(&mut draft, slots, pool::place_of, has_two_heads, cx);
            self.pool.reuse(slots);
        }
        if scope != Scope::Clients {
            let slots = self.pool.take_moved();
            self.add_slots(&mut draft, slots, pool::moved_place_of, has_two_heads, cx);
        }
        for &one in meta {
            self.add_meta(&mut draft, one, cx);
        }
        if let Some(draft) = draft {
            self.send_part(draft, true, cx);
            self.keep_partial();
            self.log.open += 1;
            self.touched = false;
            self.keep_fallbacks();
        } else {
            self.end_empty_commit(cx);
        }
    }

    /// What still waits is in the commit that is open now: until that is durable a recovery falls
    /// back on what was there before.
    fn keep_fallbacks(&mut self) {
        for segment in self.pool.fallbacks() {
            let one = self.segments.get_mut(segment);
            one.emptied = one.emptied.max(self.log.open);
        }
    }

    /// Adds what is not stored, and what has moved to holes.
    fn add_ranges(&mut self, draft: &mut Option<Draft>, cx: &mut Cx<'_>) {
        for (block, count) in self.pool.take_zeros() {
            if !planted(PlantedBug::TombstoneLost) {
                self.add_item(draft, 0, Item::Zeros { block, count }, None, cx);
                self.log.since_checkpoint += 1;
            }
        }
        for (block, hole) in self.pool.take_plugs() {
            let entry = self.map.get(BlockNr::from(block));
            // What has changed since does not lie there.
            if entry.place() == hole {
                let (mark, checksum) = (entry.mark(), entry.checksum());
                let item = Item::Plug { block, mark, checksum, place: hole };
                self.add_item(draft, 0, item, None, cx);
                self.log.since_checkpoint += 1;
            }
        }
    }

    /// Adds the blocks of slots that the map points to, in the order of the policy.
    fn add_slots(
        &mut self,
        draft: &mut Option<Draft>,
        mut slots: Vec<Slot>,
        place_of: fn(usize) -> u32,
        has_two_heads: bool,
        cx: &mut Cx<'_>,
    ) -> Vec<Slot> {
        let moved = u32::from(pool::is_moved(place_of(0)));
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let live = |&(slot, index): &(&Slot, usize)| {
            self.map.get(BlockNr::from(slot.block)).place() == place_of(index)
        };
        order.extend(slots.iter().zip(0..).filter(live).map(|(_, index)| index as u32));
        let map = &self.map;
        let is_cold = |block: u32| map.get(BlockNr::from(block)).mark().unchecked;
        let hot = match self.starving || !has_two_heads && !self.policy.sorts() {
            // One part fills segments better than two.
            true => order.len(),
            false => self.policy.arrange(&slots, &mut order, is_cold),
        };
        for (position, &index) in order.iter().enumerate() {
            let slot = &mut slots[index as usize];
            let head = usize::from(position >= hot);
            let body = std::mem::replace(&mut slot.body, Body::Zeros);
            let place = self.add_block(draft, head, slot.block, body, cx);
            if let Some(draft) = draft {
                draft.moved += moved;
            }
            let one = self.segments.get_mut(self.segments.of(place));
            one.youngest = one.youngest.max(slot.written);
        }
        self.order = order;
        slots
    }

    fn end_empty_commit(&mut self, cx: &mut Cx<'_>) {
        self.touched = false;
        self.log.end_empty_commit();
        self.keep_fallbacks();
        self.completed(cx);
    }

    /// Adds a block of the volume to the part that is being put together; returns where it will
    /// lie.
    fn add_block(
        &mut self,
        draft: &mut Option<Draft>,
        head: usize,
        block: u32,
        body: Body,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let entry = self.map.get(BlockNr::from(block));
        let item = Item::Data { block, mark: entry.mark(), checksum: entry.checksum() };
        let copy = self.policy.keeps_partial().then(|| body.clone());
        let place = self.add_item(draft, head, item, Some(body), cx);
        if let Some(body) = copy {
            self.hold(block, place, body);
        }
        self.map.replace(BlockNr::from(block), entry.moved(place));
        self.segments.occupy(place, Owner::Data(block));
        self.counters.data_blocks += 1;
        self.log.since_checkpoint += 1;
        place
    }

    /// Adds a block of the map. What was there before is given up by the next checkpoint.
    fn add_meta(&mut self, draft: &mut Option<Draft>, meta: MetaBlock, cx: &mut Cx<'_>) {
        let entry = match self.map.encode(meta) {
            None => Entry::UNMAPPED,
            Some(bytes) => {
                let body = Body::Bytes(bytes);
                let checksum = self.checksum_of(&body);
                let (item, owner) = match meta {
                    MetaBlock::Slice(slice) => (Item::Map { slice, checksum }, Owner::Slice(slice)),
                    MetaBlock::Index(index) => {
                        (Item::Index { index, checksum }, Owner::Index(index))
                    }
                };
                let place = self.add_item(draft, 0, item, Some(body), cx);
                self.segments.occupy(place, owner);
                self.counters.map_blocks += 1;
                Entry::new(place, Mark::default(), checksum)
            }
        };
        let old = self.map.settle(meta, entry);
        if old.is_mapped() {
            self.checkpoint.give_up(old.place());
        }
        if entry.is_mapped() {
            let segment = self.segments.of(entry.place());
            self.segments.get_mut(segment).youngest = cx.now;
        }
    }

    /// Adds an item, and the block it stands for; returns where that block will lie.
    fn add_item(
        &mut self,
        draft: &mut Option<Draft>,
        head: usize,
        item: Item,
        body: Option<Body>,
        cx: &mut Cx<'_>,
    ) -> u32 {
        let full = draft.as_ref().is_some_and(|draft| {
            let no_room = body.is_some() && draft.room == draft.blocks;
            draft.head != head || no_room || draft.item_bytes + item.bytes() > ITEMS_ROOM
        });
        if full && let Some(draft) = draft.take() {
            self.send_part(draft, false, cx);
        }
        let draft = draft.get_or_insert_with(|| self.open_part(head));
        draft.map += u32::from(matches!(item, Item::Map { .. } | Item::Index { .. }));
        draft.items.push(item);
        draft.item_bytes += item.bytes();
        let Some(body) = body else { return 0 };
        draft.data.push(Piece::block(body));
        draft.blocks += 1;
        draft.place + draft.blocks
    }

    /// Gives cold blocks a head of their own if there are hot ones beside them and room for it, and
    /// takes it away. True if the part that comes next may use it: where a head begins, the part
    /// before must say.
    fn fit_heads(&mut self) -> bool {
        let mixed = self.policy.is_mixed();
        let heads = self.log.heads.len();
        if mixed && heads == 1 && self.segments.free() > self.low() + 2 {
            let (one, next) = (self.segments.allocate(), self.segments.allocate());
            let (Some(segment), Some(next)) = (one, next) else { return false };
            self.segments.get_mut(segment).cold = true;
            self.log.heads.push(Head { segment, offset: 0, next });
            return false;
        }
        if !mixed && let [_, Head { segment, next, .. }] = *self.log.heads {
            self.log.heads.truncate(1);
            self.segments.close(segment);
            self.segments.give_back(next);
        }
        let ways = &self.log.position.ways;
        let second = self.log.heads.get(1);
        second.is_some_and(|head| ways.contains(&self.geometry.start_of(head.next)))
    }

    pub(super) fn open_part(&mut self, index: usize) -> Draft {
        let head = &mut self.log.heads[index];
        if head.offset + 2 > self.geometry.segment {
            let full = std::mem::replace(&mut head.segment, head.next);
            head.offset = 0;
            self.segments.close(full);
            head.next = self.segments.allocate().expect("room is checked before parts are made");
            let segment = head.segment;
            self.segments.get_mut(segment).cold = index == 1;
        }
        let head = &self.log.heads[index];
        Draft {
            head: index,
            place: self.geometry.start_of(head.segment) + head.offset,
            room: self.geometry.segment - head.offset - 1,
            items: Vec::with_capacity(head.room(&self.geometry).min(MOST_ITEMS as u32) as usize),
            item_bytes: 0,
            data: Data::none(),
            blocks: 0,
            map: 0,
            moved: 0,
        }
    }

    /// Where the next part may begin.
    fn ways(&self) -> [u32; WAYS] {
        let mut ways = [0; WAYS];
        for (pair, head) in ways.chunks_exact_mut(2).zip(&self.log.heads) {
            if head.offset + 2 <= self.geometry.segment {
                pair[0] = self.geometry.start_of(head.segment) + head.offset;
            }
            pair[1] = self.geometry.start_of(head.next);
        }
        ways
    }

    pub(super) fn send_part(&mut self, draft: Draft, ends: bool, cx: &mut Cx<'_>) {
        let purpose = draft.purpose();
        let Draft { head, place, items, data, blocks, .. } = draft;
        let segment = self.log.heads[head].segment;
        self.log.heads[head].offset += 1 + blocks;
        let sequence = self.log.position.sequence + 1;
        for item in &items {
            let named = match *item {
                Item::Plug { place, .. } => self.segments.of(place),
                Item::Data { .. } => segment,
                Item::Zeros { .. } | Item::Map { .. } | Item::Index { .. } => continue,
            };
            let named = self.segments.get_mut(named);
            (named.written, named.checked) = (sequence, sequence);
        }
        let one = self.segments.get_mut(segment);
        one.written = sequence;
        let summary = Summary {
            sequence,
            link: self.log.position.link,
            durable: self.log.durable.part,
            mount: self.log.mount,
            ends,
            checkpoint: self.checkpoint.number(),
            ways: self.ways(),
            items,
            before: self.log.named.take(),
        };
        self.log.named = Some(summary.items.iter().filter_map(|item| item.named()).collect());
        if !summary.items.is_empty() {
            self.log.changed = sequence;
        }
        let (body, link): (_, Link) = summary.encode(self.id, place);
        self.log.position = Position { sequence, link, ways: summary.ways };
        self.counters.summaries += 1;
        let mut out = Data::block_of(body);
        out.append(data.clone());
        self.log.in_flight += u64::from(blocks) + 1;
        self.log.unverified += u64::from(blocks) + 1;
        self.log.flights.push_back(Flight {
            sequence,
            commit: self.log.open,
            ends,
            says: summary.durable,
            first: place + 1,
            data,
            blocks,
            done: false,
        });
        let tag = PART | (sequence & 0xffff_ffff) as Tag;
        cx.send(0, Io::write(tag, BlockNr::from(place), out).for_purpose(purpose));
    }

    /// A part has been answered.
    pub(super) fn part_done(&mut self, number: usize, done: Done, cx: &mut Cx<'_>) {
        self.requests.spend_on_waiters(&done.spent);
        self.log_took(&done.spent);
        if let Err(error) = done.outcome {
            // What is lost stays in memory, and can be read.
            return self.fail_volume(error, cx);
        }
        let Some(first) = self.log.flights.front() else {
            panic!("answer to part {number} which is not in flight");
        };
        let index = (number as u32).wrapping_sub(first.sequence as u32) as usize;
        self.log.flights[index].done = true;
        let blocks = self.log.flights[index].blocks + 1;
        if blocks * 4 >= self.geometry.segment * 3 {
            self.service.segment(service_ns(&done.spent), blocks);
        } else if let Some(hylog) = self.policy.hylog() {
            self.service.small(service_ns(&done.spent));
            let transfer = (self.service.block_ns() * f64::from(blocks)) as Time;
            hylog.meter.small_parts += 1;
            hylog.meter.append_ns += service_ns(&done.spent).saturating_sub(transfer);
        }
        debug_assert!(self.log.in_flight > u64::from(self.log.flights[index].blocks));
        self.log.in_flight -= u64::from(self.log.flights[index].blocks) + 1;
        while let Some(flight) = self.log.flights.front()
            && flight.done
        {
            if flight.ends {
                let Reached { commit, witnessed, .. } = self.log.completed;
                debug_assert!(commit < flight.commit, "commits complete in order");
                self.log.completed = Reached {
                    commit: flight.commit,
                    part: flight.sequence,
                    witnessed: witnessed.max(flight.says),
                };
            }
            self.log.flights.pop_front();
        }
        self.completed(cx);
    }

    /// Writes out and flushes what is wanted now.
    pub(super) fn advance_log(&mut self, cx: &mut Cx<'_>) {
        if self.requests.failed().is_some() {
            return;
        }
        let open = self.log.open;
        let due = self.pool.since().is_some_and(|since| since + COMMIT_DELAY <= cx.now);
        if !self.pool.is_empty()
            && (due || self.short.commit || self.requests.any_waits(|&n| n == open))
        {
            match self.short.commit || !self.pool.has_changes() {
                true => self.write_out(&[], cx),
                false => self.write_out_clients(cx),
            }
            self.close_crowded();
        }
        if self.touched && self.pool.is_empty() && self.requests.any_waits(|&n| n == self.log.open)
        {
            self.end_empty_commit(cx);
        }
        if self.volatile && self.log.flush.is_none() && self.wants_flush() {
            self.begin_flush(cx);
        }
    }

    /// A segment that is three quarters full when it has been written out is not continued: the
    /// rest would make a small write (Sprite LFS and the logical disk have the same threshold).
    pub(super) fn close_crowded(&mut self) {
        // Where space is scarce a small write costs less than the rest of a segment, and there the
        // cleaner and the next checkpoint count on that rest.
        let heads = self.log.heads.len() as u64;
        let scarce = self.segments.free() < self.needed_for_checkpoint() + heads;
        if self.cleaner.is_pressed() || scarce {
            return;
        }
        let segment = self.geometry.segment;
        let mut left_empty = 0;
        for head in &mut self.log.heads {
            if head.offset * 4 >= segment * 3 && head.offset < segment {
                left_empty += u64::from(segment - head.offset);
                head.offset = segment;
            }
        }
        if let Some(hylog) = self.policy.hylog() {
            hylog.meter.left_empty += left_empty;
        }
    }

    /// When what waits must be written out at the latest.
    pub(super) fn write_out_at(&self) -> Option<Time> {
        self.pool.since().map(|since| since + COMMIT_DELAY)
    }

    /// Checksum of a block as it is stored.
    pub(super) fn checksum_of(&self, body: &Body) -> u32 {
        self.sums.of(&Piece::block(body.clone()))
    }

    /// Refuses all further writes.
    pub(super) fn fail_volume(&mut self, error: IoError, cx: &mut Cx<'_>) {
        self.requests.fail_volume(error, cx);
    }
}
