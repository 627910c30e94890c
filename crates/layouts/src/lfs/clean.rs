//! Cleaning: segments that hold little are read, what is live in them is appended to the log, and
//! they become free.
//!
//! Which segments: those with the best ratio of benefit to cost, (1 − u) · age / (1 + u), where *u*
//! is the share of live blocks (Rosenblum and Ousterhout, "The design and implementation of a
//! log-structured file system", 1992). When: while no client waits, if there are few free segments;
//! beside the clients if there are very few; and before the clients if nothing else helps. In
//! chunks of one segment, read with one command.

use super::checkpoint::Phase;
use super::format::Entry;
use super::map::MetaBlock;
use super::overwrite::service_ns;
use super::plug::{Homeless, Plugs};
use super::segments::{Owner, Segment, SegmentNr, State, Waiting};
use super::{CLEAN, Lfs};
use seekless_engine::data::{Data, Piece};
use seekless_engine::io::{Done, Expected, Io, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BLOCK_BYTES, BlockNr, MILLIS, Time};
use std::collections::VecDeque;

/// How long no client must have waited before cleaning begins unasked.
const REST: Time = 10 * MILLIS;
/// Most blocks that are read in one pass: 20 MB, as Sprite LFS did.
const PASS_BLOCKS: u64 = 20_000_000 / BLOCK_BYTES as u64;
/// Free segments that clients leave to the cleaner.
const SPARE: u64 = 2;
/// Segments that a commit or a checkpoint must bring, beyond those it takes, to be asked for.
const WORTH_WHILE: u64 = 2;
/// Blocks that may be moved for each block that a client writes, while no write waits for space.
const EARNED: u64 = 32;

/// How space is won back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// What is live goes to new segments.
    #[default]
    Copy,
    /// What is live goes to holes in other segments.
    Plug,
}

/// A segment that is being read.
#[derive(Clone, Copy, Debug)]
struct Victim {
    segment: SegmentNr,
    from: u32,
}

/// State of the cleaner.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleaner {
    /// What the present pass will still clean.
    victims: VecDeque<SegmentNr>,
    way: Way,
    /// The way that is preferred, and where either would do copying, is out of the question.
    pub otherwise: bool,
    reading: Option<Victim>,
    pub plugs: Plugs,
    /// Cleaning goes on until there are enough free segments.
    pressed: bool,
    /// Blocks that may be moved unasked: lest an idle volume be cleaned for ever.
    credit: u64,
    /// Blocks moved since a client could last write.
    in_vain: u64,
    due: Option<Time>,
    pub segments: u64,
    pub blocks_read: u64,
    pub blocks_moved: u64,
}

impl Cleaner {
    /// A client has written; so many blocks of it take room in the log.
    pub fn earn(&mut self, blocks: u32) {
        self.credit = (self.credit + EARNED * u64::from(blocks)).min(1 << 40);
        self.in_vain = 0;
    }

    /// When to look again whether no client waits.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// True if few segments are free.
    pub fn is_pressed(&self) -> bool {
        self.pressed
    }

    /// True if that segment is being cleaned.
    pub fn is_at(&self, segment: SegmentNr) -> bool {
        self.reading.is_some_and(|victim| victim.segment == segment) || self.plugs.is_at(segment)
    }

    /// True if a segment is being cleaned.
    pub fn is_busy(&self) -> bool {
        self.reading.is_some() || self.plugs.is_busy()
    }

    /// Blocks moved since a client could last write.
    pub fn moved_in_vain(&self) -> u64 {
        self.in_vain
    }

    /// True if two passes have not made room for a client that waits.
    pub fn is_in_vain(&self) -> bool {
        self.in_vain > 2 * PASS_BLOCKS
    }

    /// How the present pass cleans.
    pub fn way(&self) -> Way {
        self.way
    }

    /// A pass begins.
    pub fn begin_pass(&mut self, way: Way, victims: Vec<SegmentNr>) {
        self.way = way;
        self.victims = victims.into();
    }
}

impl Lfs {
    /// Fresh segments that commits of so many blocks in all take.
    fn fresh_for(&self, blocks: u64, commits: u64) -> u64 {
        // What is moved is a commit of its own, and so is what was plugged or freed.
        let commits =
            commits + u64::from(self.pool.moved() > 0) + u64::from(self.pool.has_ranges());
        let segment = u64::from(self.geometry.segment);
        let left = |head: &super::log::Head| segment - u64::from(head.offset);
        let left = self.log.heads.iter().map(left).min().unwrap_or(0);
        let left = if left < 2 { 0 } else { left };
        (blocks + commits).saturating_sub(left).div_ceil(segment - 1) + self.log.heads.len() as u64
            - 1
    }

    /// Blocks and commits of the next checkpoint, if `count` more blocks change before it.
    fn checkpoint_blocks(&self, count: u64) -> (u64, u64) {
        self.blocks_of_checkpoint(self.map.changed() + 2 * count)
    }

    /// Blocks and commits of the next checkpoint, if so many blocks of the map have changed.
    fn blocks_of_checkpoint(&self, changed: u64) -> (u64, u64) {
        let all = self.geometry.slices() + self.geometry.indices();
        let blocks = (changed + self.checkpoint.left()).min(2 * all);
        (blocks, 1 + blocks / u64::from(self.geometry.segment - 1))
    }

    /// Free segments that a client must find to write `count` blocks: for them, for the next
    /// checkpoint, and for the cleaner to move what may lie in a segment.
    fn needed_for(&self, count: u64) -> u64 {
        let moved = u64::from(self.geometry.segment) - 1;
        let (blocks, commits) = self.checkpoint_blocks(count + moved);
        self.fresh_for(self.pool.live() + count + moved + blocks, commits + 2) + SPARE
    }

    /// True if `count` blocks of a client find room, and after them whatever is needed to make
    /// more.
    pub(super) fn has_room(&self, count: u64) -> bool {
        self.segments.free() >= self.needed_for(count)
    }

    /// Free segments below which cleaning is pressing. Where the whole map is to be written, there
    /// is to be room for it; no write waits for that room.
    pub(super) fn low(&self) -> u64 {
        let all = self.geometry.slices() + self.geometry.indices();
        let unchanged = match self.policy.is_converting() {
            true => all.saturating_sub(self.map.changed()),
            false => 0,
        };
        let segment = u64::from(self.geometry.segment - 1);
        // Where segments are few, what is cleaned beside clients is for the next of them.
        let (next, spare) = if self.policy.cleans_all() { (1, 1) } else { (self.atomic_blocks, 3) };
        self.needed_for(next) + spare + unchanged.div_ceil(segment)
    }

    /// Segments of one pass.
    pub(super) fn pass(&self) -> u64 {
        let most = (self.geometry.segments() / 32).max(4);
        (PASS_BLOCKS / u64::from(self.geometry.segment)).clamp(1, most)
    }

    fn waits(&self) -> Waiting {
        self.segments.waits(self.log.durable(), self.log.completed(), self.checkpoint.start())
    }

    /// Finds out what keeps space from being free, when a write waits for it.
    pub(super) fn look_for_space(&mut self) {
        let free = self.segments.free() + self.segments.waiting();
        let low = self.low();
        self.cleaner.pressed = match self.cleaner.pressed {
            true => free < low + self.pass(),
            false => free < low,
        };
        self.short = super::Short::default();
        // The segment that was emptied is free once the log says where its blocks are.
        self.short.commit = (self.starving || self.cleaner.pressed) && self.plugs_wait();
        if self.starving {
            let waits = self.waits();
            // What has been moved is written out when it fills a segment, never before: half-filled
            // segments would take the space that cleaning brings.
            self.short.flush = u64::from(waits.commit) > WORTH_WHILE;
            let (blocks, commits) = self.checkpoint_blocks(0);
            let checkpoint = self.fresh_for(blocks, commits) + WORTH_WHILE;
            self.short.checkpoint = u64::from(waits.checkpoint) > checkpoint || self.settles();
            // Until the flush comes nothing is gained by cleaning more, which takes space first.
            self.short.enough = u64::from(waits.flush) >= low + self.pass();
        } else if self.cleaner.pressed && self.segments.free() < low {
            let waits = self.waits();
            self.short.checkpoint = u64::from(waits.checkpoint) > low / 2;
        }
    }

    /// Lets what waits be free though no write waits for it.
    pub(super) fn hasten_space(&mut self) {
        let waits = self.waits();
        self.short.flush |= waits.flush > 0;
        self.short.checkpoint |= waits.checkpoint > 0;
    }

    /// True if a checkpoint is to come before cleaning: where all is cold, it lets what waits be
    /// overwritten in place, which takes no room.
    fn settles(&self) -> bool {
        let something = self.log.since_checkpoint > 0
            || !self.pool.is_empty()
            || self.policy.is_converting()
            || self.checkpoint.phase() != Phase::Idle;
        something && self.waits_for_checkpoint() && self.has_room_for_map()
    }

    /// Cleans the next segment if that is wanted now. True if a request was refused instead.
    pub(super) fn advance_cleaning(&mut self, cx: &mut Cx<'_>) -> bool {
        self.cleaner.due = None;
        let allowed = self.requests.failed().is_none() && !self.requests.is_read_only();
        self.keep_plugging(allowed, cx);
        if !allowed || !self.requests.is_running() || self.cleaner.is_busy() {
            return false;
        }
        if self.starving {
            return !self.short.checkpoint && !self.short.enough && self.relieve(cx);
        }
        // Where all is cold, free segments serve no write for now.
        let serves = !self.cleaner.pressed || !self.policy.is_cold_all_over();
        if self.cleaner.credit > 0 && serves {
            self.clean_unasked(cx);
        }
        false
    }

    /// Goes on with what has been begun.
    fn keep_plugging(&mut self, allowed: bool, cx: &mut Cx<'_>) {
        if !allowed {
            self.cleaner.plugs.give_up();
        }
        self.advance_plugging(cx);
    }

    /// No write waits for space, but few segments are free.
    fn clean_unasked(&mut self, cx: &mut Cx<'_>) {
        if !self.cleaner.pressed {
            let usual = (self.geometry.segments() / 16).max(self.low() + self.pass());
            let target = if self.policy.cleans_all() { self.most_free() } else { usual };
            let enough = self.segments.free() + self.segments.waiting() >= target;
            let (Some(since), false) = (cx.idle_since, enough) else { return };
            if cx.now < since + REST {
                self.cleaner.due = Some(since + REST);
                return;
            }
        }
        if !self.clean_next(cx) {
            self.cleaner.credit = 0;
        }
    }

    /// A write waits for space: clean; where that is not possible make empty segments free, be it
    /// few; and where there are none let the request fail. True if it did.
    fn relieve(&mut self, cx: &mut Cx<'_>) -> bool {
        // Moving everything twice brings what there is to be had.
        let in_vain = self.cleaner.in_vain > 2 * self.geometry.device_blocks;
        let before = self.segments.free();
        if !in_vain && self.clean_next(cx) {
            return false;
        }
        if self.segments.free() > before {
            // The end of the last pass has brought some.
            return true;
        }
        let waits = self.waits();
        // Only where a flush alone brings nothing: parts that are written early take a summary
        // each, which on a full volume may be all that a segment brings.
        self.short.flush |= waits.flush > 0;
        self.short.commit = waits.commit > 0 && waits.flush == 0;
        self.short.checkpoint = waits.checkpoint > 0;
        if self.segments.waiting() > 0
            || !self.log.is_quiet()
            || self.checkpoint.phase() != Phase::Idle
            || self.punching.puncher.is_busy()
        {
            return false;
        }
        if !self.pool.is_empty() {
            self.write_out(&[], cx);
        } else if self.segments.iter().any(|(_, one)| one.drained) {
            self.begin_checkpoint(false, cx);
        } else if !in_vain && self.clean_otherwise(cx) {
            return false;
        } else if self.reads.is_empty() {
            self.refuse_first(cx);
            return true;
        }
        false
    }

    /// Where there is no room for copies there may still be holes, and the other way round.
    fn clean_otherwise(&mut self, cx: &mut Cx<'_>) -> bool {
        self.cleaner.otherwise = true;
        let cleans = self.clean_next(cx);
        self.cleaner.otherwise = false;
        cleans
    }

    /// Begins to clean the next segment; false if there is none that is worth it.
    fn clean_next(&mut self, cx: &mut Cx<'_>) -> bool {
        for chosen in [false, true] {
            if chosen {
                self.choose_victims(cx.now);
            }
            while let Some(victim) = self.cleaner.victims.pop_front() {
                if self.is_worth_cleaning(self.segments.get(victim))
                    && self.has_room_to_move(victim)
                {
                    self.read_victim(victim, cx);
                    return true;
                }
            }
        }
        false
    }

    /// True if what is live in a segment finds room, and the next checkpoint as well. Without room
    /// for that the segment must become free without it.
    fn has_room_to_move(&self, victim: SegmentNr) -> bool {
        let one = self.segments.get(victim);
        let live = match self.cleaner.way {
            Way::Copy => u64::from(one.live),
            // Its summary is all that goes to the log.
            Way::Plug => 1,
        };
        let fresh = self.fresh_for(self.pool.live() + live, 1);
        let changed = u64::from(one.live);
        let rest = fresh == 0 && self.leaves_room_for_map_on_its_way(live);
        self.has_room_for_moved(live, changed) || one.written <= self.checkpoint.start() && rest
    }

    /// True if a checkpoint that is writing the map can go on beside so many blocks that move.
    fn leaves_room_for_map_on_its_way(&self, live: u64) -> bool {
        let blocks = self.checkpoint.left() + self.geometry.indices();
        let commits = 3 + blocks / u64::from(self.geometry.segment - 1);
        let all = self.pool.live() + live + blocks;
        self.checkpoint.phase() != Phase::Map
            || self.segments.free() >= self.fresh_for(all, commits)
    }

    /// True if a checkpoint that begins now finds room for the map, with what the cleaner reads.
    pub(super) fn has_room_for_checkpoint(&self) -> bool {
        self.segments.free() >= self.needed_for_checkpoint()
    }

    /// Free segments that a checkpoint takes at most, with what the cleaner reads.
    pub(super) fn needed_for_checkpoint(&self) -> u64 {
        let moving = self.cleaner.reading.map_or(0, |it| self.segments.get(it.segment).live);
        let (blocks, commits) = self.checkpoint_blocks(u64::from(moving));
        let all = self.pool.live() + u64::from(moving) + blocks;
        self.fresh_for(all, commits + 2)
    }

    /// True if so many blocks that move to the log find room, and the next checkpoint as well if
    /// so many entries of the map change.
    pub(super) fn has_room_for_moved(&self, live: u64, changed: u64) -> bool {
        let (blocks, commits) = self.checkpoint_blocks(changed);
        let all = self.pool.live() + live + blocks;
        self.segments.free() > self.fresh_for(all, commits + 1)
    }

    /// True if all of the map finds room in the log.
    pub(super) fn has_room_for_map(&self) -> bool {
        let all = self.geometry.slices() + self.geometry.indices();
        let (blocks, commits) = self.blocks_of_checkpoint(all);
        self.segments.free() > self.fresh_for(self.pool.live() + blocks, commits + 1)
    }

    pub(super) fn is_worth_cleaning(&self, one: &Segment) -> bool {
        one.state == State::Closed
            && one.live > 0
            && one.live + 2 <= self.geometry.segment
            && !one.stuck
            && !one.drained
            && one.busy == 0
            // What is on its way there would be read as what was there before.
            && one.written <= self.log.completed_part()
    }

    /// Reads what lies between the first and the last live block of a segment.
    fn read_victim(&mut self, segment: SegmentNr, cx: &mut Cx<'_>) {
        let start = self.geometry.start_of(segment);
        let places = start..start + self.geometry.segment;
        let mut live = places.filter(|&place| self.live_at(place).is_some());
        let from = live.next().unwrap_or(start);
        let to = live.next_back().unwrap_or(from);
        self.segments.enter(segment);
        self.cleaner.reading = Some(Victim { segment, from });
        let count = to - from + 1;
        self.cleaner.blocks_read += u64::from(count);
        self.cleaner.in_vain += u64::from(count);
        self.cleaner.credit = self.cleaner.credit.saturating_sub(u64::from(count));
        let mut io = Io::read(CLEAN, BlockNr::from(from), count).for_purpose(Purpose::Cleaning);
        if cx.has_copies(0) {
            let known = |place| self.live_at(place).and_then(|(_, entry)| entry.known_sum());
            let each = (from..=to).map(known).collect();
            io = io.expecting(Expected { sums: self.sums, each });
        }
        cx.send(0, io);
    }

    /// What is live at a place.
    pub(super) fn live_at(&self, place: u32) -> Option<(Owner, Entry)> {
        let owner = self.segments.owner(place)?;
        let entry = match owner {
            Owner::Data(block) => self.map.get(BlockNr::from(block)),
            Owner::Slice(slice) => self.map.place_of(MetaBlock::Slice(slice)),
            Owner::Index(index) => self.map.place_of(MetaBlock::Index(index)),
        };
        (entry.is_mapped() && entry.place() == place).then_some((owner, entry))
    }

    /// A victim has been read: what is live in it moves.
    pub(super) fn victim_read(&mut self, done: Done, cx: &mut Cx<'_>) {
        let Some(Victim { segment, from }) = self.cleaner.reading.take() else {
            panic!("answer to a read that is not in flight");
        };
        self.segments.leave(segment);
        if self.requests.failed().is_some() {
            return;
        }
        if let Ok(data) = &done.outcome
            && data.blocks() * 4 >= self.geometry.segment * 3
        {
            self.service.segment(service_ns(&done.spent), data.blocks());
        }
        self.log_took(&done.spent);
        match done.outcome {
            Ok(data) => self.move_live(segment, from, &data, cx),
            // Its blocks can still be read one by one, those that can.
            Err(_) => self.segments.get_mut(segment).stuck = true,
        }
    }

    fn move_live(&mut self, segment: SegmentNr, from: u32, data: &Data, cx: &mut Cx<'_>) {
        self.cleaner.segments += 1;
        // All are looked up first: what is known of them lies all over the memory, and is fetched
        // side by side that way. Moving one changes nothing about the others.
        let live = |at| {
            self.live_at(at).inspect(|(owner, _)| match owner {
                Owner::Data(block) => self.policy.expect(u64::from(*block)),
                Owner::Slice(_) | Owner::Index(_) => {}
            })
        };
        let live: Vec<_> = (from..from + data.blocks()).map(live).collect();
        let mut live = live.into_iter();
        for piece in data.pieces() {
            for (index, live) in (0..piece.blocks).zip(&mut live) {
                match live {
                    Some((Owner::Data(block), entry)) => {
                        self.move_block(segment, block, entry, piece.slice(index, 1), cx);
                    }
                    Some((Owner::Slice(slice), _)) => self.drain(segment, MetaBlock::Slice(slice)),
                    Some((Owner::Index(index), _)) => self.drain(segment, MetaBlock::Index(index)),
                    None => {}
                }
            }
        }
        if planted(PlantedBug::CleanerFreesEarly) {
            self.segments.get_mut(segment).emptied = 0;
        }
        self.advance_plugging(cx);
    }

    fn move_block(
        &mut self,
        segment: SegmentNr,
        block: u32,
        entry: Entry,
        one: Piece,
        cx: &mut Cx<'_>,
    ) {
        if !self.sums.has(&one, entry.checksum()) && !entry.mark().unchecked {
            // Moved as it is it could not be told from what was written.
            self.segments.get_mut(segment).stuck = true;
            return;
        }
        if self.cleaner.way == Way::Plug {
            return self.cleaner.plugs.add(segment, Homeless { block, entry, body: one.body });
        }
        self.put_moved(BlockNr::from(block), entry, one.body, cx.now);
        self.cleaner.blocks_moved += 1;
        self.write_out_moved(cx);
    }

    /// A block of the map goes with the next checkpoint.
    fn drain(&mut self, segment: SegmentNr, meta: MetaBlock) {
        self.map.mark(meta);
        self.segments.get_mut(segment).drained = true;
    }
}
