//! Hole-plugging: what is live in a segment goes, block by block, to holes in fuller segments.
//! (Wilkes and others, "The HP AutoRAID hierarchical storage system", SOSP 1995; Matthews and
//! others, "Improving the performance of log-structured file systems with adaptive methods", SOSP
//! 1997.)
//!
//! A hole is written first, and then the log says what lies there: an item of the next commit has
//! the place and the checksum, and a recovery compares it. So a hole must be one that no recovery
//! needs: what lay there is superseded durably, and all parts of its segment lie before
//! the point where a recovery begins to follow the log. From then on the segment waits for the
//! next checkpoint before another hole in it is written, or a block overwritten in place.

use super::clean::Way;
use super::format::{Entry, Mark};
use super::segments::{Owner, Segment, SegmentNr, State};
use super::{Lfs, PLUG};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::io::{Done, Io, Purpose, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::{BlockNr, Time};
use slab::Slab;
use std::collections::VecDeque;

/// Writes under way at once: so few that what clients ask for does not wait long behind them.
const DEPTH: usize = 4;

/// A block that is to move to a hole.
#[derive(Clone, Debug)]
pub(super) struct Homeless {
    pub block: u32,
    /// Where it lay when it was read.
    pub entry: Entry,
    pub body: Body,
}

/// A block on its way to a hole.
#[derive(Clone, Copy, Debug)]
struct Moving {
    block: u32,
    from: Entry,
    to: Entry,
    youngest: Time,
}

/// Holes of one kind of segments.
#[derive(Clone, Debug, Default)]
struct Holes {
    /// Segments that have some, the fullest first.
    segments: VecDeque<SegmentNr>,
    /// The one whose holes are written now: it is not freed meanwhile.
    pinned: Option<SegmentNr>,
    /// Its holes as they were when it was begun, in descending order. Only this pass writes there.
    places: Vec<u32>,
}

/// State of hole-plugging.
#[derive(Clone, Debug, Default)]
pub(super) struct Plugs {
    homeless: VecDeque<Homeless>,
    moving: Slab<Moving>,
    /// Where they come from.
    from: Option<SegmentNr>,
    /// Holes for hot blocks and for cold ones.
    holes: [Holes; 2],
    pub blocks: u64,
}

impl Plugs {
    /// True if blocks are on their way.
    pub fn is_busy(&self) -> bool {
        !self.homeless.is_empty() || !self.moving.is_empty()
    }

    /// True if blocks of that segment are on their way.
    pub fn is_at(&self, segment: SegmentNr) -> bool {
        self.is_busy() && self.from == Some(segment)
    }

    /// A block of a segment has been read and waits for a hole.
    pub fn add(&mut self, from: SegmentNr, homeless: Homeless) {
        self.from = Some(from);
        self.homeless.push_back(homeless);
    }

    /// What waits stays where it is.
    pub fn give_up(&mut self) {
        self.homeless.clear();
    }
}

impl Lfs {
    /// True if the holes of a segment may be written.
    pub(super) fn may_plug(&self, one: &Segment) -> bool {
        one.state == State::Closed
            && one.live > 0
            && one.live < self.geometry.segment
            && one.busy == 0
            && !one.stuck
            && !one.drained
            && one.written <= self.checkpoint.start()
            && one.emptied <= self.log.durable()
    }

    /// A pass begins: these segments have holes, the fullest first.
    pub(super) fn set_holes(&mut self, cold: bool, segments: Vec<SegmentNr>) {
        let holes = Holes { segments: segments.into(), ..Holes::default() };
        let old = std::mem::replace(&mut self.cleaner.plugs.holes[usize::from(cold)], holes);
        if let Some(segment) = old.pinned {
            self.segments.leave(segment);
        }
    }

    /// The next hole for a block.
    fn next_hole(&mut self, cold: bool) -> Option<u32> {
        let kind = usize::from(cold);
        loop {
            let holes = &mut self.cleaner.plugs.holes[kind];
            if let Some(place) = holes.places.pop() {
                return Some(place);
            }
            if let Some(segment) = holes.pinned.take() {
                self.segments.leave(segment);
            }
            let segment = self.cleaner.plugs.holes[kind].segments.pop_front()?;
            let usable = self.may_plug(self.segments.get(segment)) && !self.cleaner.is_at(segment);
            if !usable {
                continue;
            }
            let start = self.geometry.start_of(segment);
            let places = (start..start + self.geometry.segment).rev();
            let places = places.filter(|&place| !self.segments.is_live(place)).collect();
            self.segments.enter(segment);
            let holes = &mut self.cleaner.plugs.holes[kind];
            (holes.pinned, holes.places) = (Some(segment), places);
        }
    }

    /// Sends blocks to holes.
    pub(super) fn advance_plugging(&mut self, cx: &mut Cx<'_>) {
        while self.cleaner.plugs.moving.len() < DEPTH {
            let Some(homeless) = self.cleaner.plugs.homeless.pop_front() else { return };
            let Homeless { block, entry, body } = homeless;
            if self.map.get(BlockNr::from(block)) != entry {
                continue;
            }
            let cold = self.policy.is_cold(u64::from(block));
            match self.next_hole(cold).or_else(|| self.next_hole(!cold)) {
                Some(hole) => self.send_to(hole, cold, Homeless { block, entry, body }, cx),
                // There are no holes left: it stays where it is if there is no room in the log.
                None if !self.has_room_for_moved(1, 1) => {}
                None => {
                    self.put_moved(BlockNr::from(block), entry, body, cx.now);
                    self.cleaner.blocks_moved += 1;
                    self.write_out_moved(cx);
                }
            }
        }
    }

    fn send_to(&mut self, hole: u32, cold: bool, homeless: Homeless, cx: &mut Cx<'_>) {
        let Homeless { block, entry: from, body } = homeless;
        let checksum = match from.mark().unchecked {
            true => self.checksum_of(&body),
            false => from.checksum(),
        };
        let to = Entry::new(hole, Mark { unchecked: cold, ..from.mark() }, checksum);
        let youngest = self.segments.get(self.segments.of(from.place())).youngest;
        self.segments.enter(self.segments.of(hole));
        let index = self.cleaner.plugs.moving.insert(Moving { block, from, to, youngest });
        let mut data = Data::none();
        data.push(Piece::block(body));
        let io = Io::write(PLUG | index as Tag, BlockNr::from(hole), data);
        cx.send(0, io.for_purpose(Purpose::Cleaning));
    }

    /// A hole has been written: the block lies there now, unless it has changed meanwhile.
    pub(super) fn plugged(&mut self, index: usize, done: Done, cx: &mut Cx<'_>) {
        let Moving { block, from, to, youngest } = self.cleaner.plugs.moving.remove(index);
        let segment = self.segments.of(to.place());
        self.segments.leave(segment);
        self.service.hole(super::overwrite::service_ns(&done.spent));
        self.log_took(&done.spent);
        if let Err(error) = done.outcome {
            self.cleaner.plugs.give_up();
            return self.fail_volume(error, cx);
        }
        let closed = self.segments.get(segment).state == State::Closed;
        if self.requests.failed().is_some() || !closed || self.map.get(BlockNr::from(block)) != from
        {
            return;
        }
        self.segments.supersede(from.place(), self.log.open());
        self.map.replace(BlockNr::from(block), to);
        self.segments.occupy(to.place(), Owner::Data(block));
        let one = self.segments.get_mut(segment);
        // No sooner than by the next part; that one will say exactly.
        one.written = self.log.position.sequence + 1;
        one.checked = one.written;
        one.youngest = one.youngest.max(youngest);
        self.pool.add_plug(block, to.place(), cx.now);
        self.cleaner.plugs.blocks += 1;
    }

    /// True if blocks have moved to holes and their old places wait for a commit.
    pub(super) fn plugs_wait(&self) -> bool {
        self.cleaner.way() == Way::Plug && !self.cleaner.is_busy() && self.pool.has_plugs()
    }
}
