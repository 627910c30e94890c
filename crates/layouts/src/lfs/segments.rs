//! The usage table: which segments are free, what the others still hold, and when one that holds
//! nothing may be written again.
//!
//! A segment that has lost its last live block waits for three things. What superseded its blocks
//! must be durable, else a recovery would fall back on them. Its parts must lie before the point
//! where the last durable checkpoint lets the log go on, else a recovery would miss them when it
//! follows the log. And no read may be under way in it.

use super::format::Geometry;
use super::words::Words;
use crate::bits::Bits;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::Time;

/// Number of a segment.
pub type SegmentNr = u32;

/// What is done with a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It may be written from its start.
    #[default]
    Free,
    /// It is being filled, or will be next.
    Open,
    /// Nothing is appended to it.
    Closed,
    /// It is closed and holds nothing; it will be free.
    Waiting,
}

/// A segment.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub state: State,
    /// Blocks that the map points to.
    pub live: u32,
    /// Commands under way in it.
    pub busy: u32,
    /// A block in it cannot be read: it stays as it is.
    pub stuck: bool,
    /// The cleaner has moved what it could; blocks of the map go with the next checkpoint.
    pub drained: bool,
    /// It is filled with cold blocks.
    pub cold: bool,
    /// Last part of the log whose check needs what lies here.
    pub written: u64,
    /// The last of those that names data here, which a recovery may compare.
    pub checked: u64,
    /// Last commit that superseded a block here.
    pub emptied: u64,
    /// Checkpoint that says which blocks here became cold: none is overwritten in place before.
    pub settles: u64,
    /// When a block was last written here.
    pub youngest: Time,
    /// What is live in each block: one more than the number of an [`Owner`], or nothing.
    owners: Words,
}

/// Segments that take memory together.
const ROW: usize = 64;

/// What segments that hold nothing wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Those that wait for a commit to be durable.
    pub commit: u32,
    /// Those of them whose commit is on the device: a flush is all that is missing.
    pub flush: u32,
    /// Those that wait for a checkpoint.
    pub checkpoint: u32,
    /// Those that wait for commands only.
    pub busy: u32,
}

/// All segments, and the reverse map.
#[derive(Clone, Debug)]
pub struct Segments {
    geometry: Geometry,
    count: u32,
    /// In rows; `None` where no segment was ever used.
    rows: Vec<Option<Box<[Segment; ROW]>>>,
    /// What one of these is.
    unused: Segment,
    free: Bits,
    waiting: Vec<SegmentNr>,
    /// Segments that have become free since they were last asked for.
    released: Vec<SegmentNr>,
    /// Something has happened that may free a waiting segment.
    stirred: bool,
    cursor: SegmentNr,
}

/// What may lie in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A block of the volume.
    Data(u32),
    /// A map block.
    Slice(u32),
    /// An index block.
    Index(u32),
}

const SLICE: u32 = 1 << 30;
const INDEX: u32 = 1 << 31;

impl Owner {
    /// As a number that is not 0; what follows one another has numbers that do.
    fn word(self) -> u32 {
        1 + match self {
            Owner::Data(block) => block,
            Owner::Slice(slice) => slice | SLICE,
            Owner::Index(block) => block | INDEX,
        }
    }

    fn of(word: u32) -> Option<Owner> {
        Some(match word.checked_sub(1)? {
            owner if owner & INDEX != 0 => Owner::Index(owner & !INDEX),
            owner if owner & SLICE != 0 => Owner::Slice(owner & !SLICE),
            owner => Owner::Data(owner),
        })
    }
}

impl Segments {
    /// All of them free.
    pub fn new(geometry: Geometry) -> Segments {
        let count = geometry.segments() as u32;
        Segments {
            geometry,
            count,
            rows: (0..(count as usize).div_ceil(ROW)).map(|_| None).collect(),
            unused: Segment::default(),
            free: Bits::all(count),
            waiting: Vec::new(),
            released: Vec::new(),
            stirred: false,
            cursor: 0,
        }
    }

    /// Number of free segments.
    pub fn free(&self) -> u64 {
        self.free.len()
    }

    /// Number of segments that will be free.
    pub fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// A segment.
    pub fn get(&self, segment: SegmentNr) -> &Segment {
        debug_assert!(segment < self.count, "segment {segment} of {}", self.count);
        let row = self.rows[segment as usize / ROW].as_ref();
        row.map_or(&self.unused, |row| &row[segment as usize % ROW])
    }

    /// A segment, to note something about it.
    pub fn get_mut(&mut self, segment: SegmentNr) -> &mut Segment {
        debug_assert!(segment < self.count, "segment {segment} of {}", self.count);
        let row = &mut self.rows[segment as usize / ROW];
        let unused = || Box::new(std::array::from_fn(|_| Segment::default()));
        &mut row.get_or_insert_with(unused)[segment as usize % ROW]
    }

    /// All segments in order.
    pub fn iter(&self) -> impl Iterator<Item = (SegmentNr, &Segment)> {
        (0..self.count).map(|segment| (segment, self.get(segment)))
    }

    /// The segment of a place.
    pub fn of(&self, place: u32) -> SegmentNr {
        self.geometry.segment_of(place)
    }

    /// Segment, and index in it, of a place.
    fn locate(&self, place: u32) -> (SegmentNr, usize) {
        debug_assert!(self.geometry.holds(place, 1), "place {place} is in no segment");
        let segment = self.of(place);
        (segment, (place - self.geometry.start_of(segment)) as usize)
    }

    /// True if a place is needed: the map points there, or the last checkpoint does.
    pub fn is_live(&self, place: u32) -> bool {
        self.owner(place).is_some()
    }

    /// What lies at a place that is needed.
    pub fn owner(&self, place: u32) -> Option<Owner> {
        let (segment, index) = self.locate(place);
        Owner::of(self.get(segment).owners.get(index))
    }

    /// A live block lies at a place.
    pub fn occupy(&mut self, place: u32, owner: Owner) {
        debug_assert!(!self.is_live(place), "two live blocks at {place}");
        let ((segment, index), length) = (self.locate(place), self.geometry.segment as usize);
        let one = self.get_mut(segment);
        one.owners.set(index, owner.word(), length);
        one.live += 1;
    }

    /// A commit supersedes the block at a place.
    pub fn supersede(&mut self, place: u32, commit: u64) {
        let segment = self.of(place);
        debug_assert_ne!(self.get(segment).state, State::Free, "{place} is in a free segment");
        let one = self.get_mut(segment);
        one.emptied = one.emptied.max(commit);
        self.vacate(place);
    }

    /// The block at a place is not needed.
    pub fn vacate(&mut self, place: u32) {
        debug_assert!(self.is_live(place), "nothing lies at {place}");
        let ((segment, index), length) = (self.locate(place), self.geometry.segment as usize);
        let one = self.get_mut(segment);
        one.owners.set(index, 0, length);
        debug_assert!(one.live > 0, "segment {segment} has no live block");
        one.live = one.live.saturating_sub(1);
        if one.live == 0 && one.state == State::Closed {
            self.wait(segment);
        }
    }

    fn wait(&mut self, segment: SegmentNr) {
        debug_assert_eq!(self.get(segment).state, State::Closed, "segment {segment} waits");
        debug_assert_eq!(self.get(segment).live, 0, "segment {segment} is needed");
        self.get_mut(segment).state = State::Waiting;
        self.waiting.push(segment);
        self.stirred = true;
    }

    /// The next free segment behind the last one that was taken; it is open from now on. `None` if
    /// there is none.
    pub fn allocate(&mut self) -> Option<SegmentNr> {
        let next = self.free.next(self.cursor).or_else(|| self.free.next(0))?;
        self.take(next);
        Some(next)
    }

    /// Takes a certain free segment; false if it is not free.
    pub fn take(&mut self, segment: SegmentNr) -> bool {
        self.cursor = segment + 1;
        let was_free = self.free.remove(segment);
        if was_free {
            *self.get_mut(segment) = Segment { state: State::Open, ..Segment::default() };
        }
        was_free
    }

    /// The segments that have become free since this was last called.
    pub fn take_released(&mut self) -> Vec<SegmentNr> {
        std::mem::take(&mut self.released)
    }

    /// A segment that holds nothing, but is not free.
    pub fn last_waiting(&self) -> Option<SegmentNr> {
        self.waiting.last().copied()
    }

    /// Keeps a free segment from being taken until it is given back.
    pub fn hold(&mut self, segment: SegmentNr) {
        debug_assert_eq!(self.get(segment).state, State::Free, "segment {segment} is held");
        self.free.remove(segment);
        self.get_mut(segment).state = State::Open;
    }

    /// A segment that was taken and never written is free again.
    pub fn give_back(&mut self, segment: SegmentNr) {
        debug_assert_eq!(self.get(segment).state, State::Open, "segment {segment} is given back");
        debug_assert_eq!(self.get(segment).live, 0, "segment {segment} was written");
        self.get_mut(segment).state = State::Free;
        self.free.insert(segment);
    }

    /// Nothing is appended to a segment from here on.
    pub fn close(&mut self, segment: SegmentNr) {
        self.get_mut(segment).state = State::Closed;
        if self.get(segment).live == 0 {
            self.wait(segment);
        }
    }

    /// A command begins in a segment.
    pub fn enter(&mut self, segment: SegmentNr) {
        debug_assert_ne!(self.get(segment).state, State::Free, "a command in a free segment");
        self.get_mut(segment).busy += 1;
    }

    /// A command in a segment has been answered.
    pub fn leave(&mut self, segment: SegmentNr) {
        debug_assert!(self.get(segment).busy > 0, "no command is in segment {segment}");
        self.get_mut(segment).busy -= 1;
        self.stirred = true;
    }

    /// More is durable than before.
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// Frees the waiting segments that no read uses, when commits up to `durable` are durable and a
    /// recovery follows the log from behind part `start`.
    pub fn release(&mut self, durable: u64, start: u64) {
        if !std::mem::take(&mut self.stirred) {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&segment| {
            debug_assert_eq!(self.get(segment).state, State::Waiting, "segment {segment}");
            let one = self.get(segment);
            let committed = one.emptied <= durable || planted(PlantedBug::FreeBeforeCommit);
            let passed = one.written <= start || planted(PlantedBug::FreeBeforeCheckpoint);
            let keep = !committed || !passed || Edge::LfsBusySegment.blocks(one.busy > 0);
            if !keep {
                let one = self.get_mut(segment);
                (one.state, one.owners) = (State::Free, Words::default());
                self.free.insert(segment);
                self.released.push(segment);
            }
            keep
        });
        self.waiting = waiting;
    }

    /// What the waiting segments wait for, when commits up to `durable` are durable and those up to
    /// `completed` on the device.
    pub fn waits(&self, durable: u64, completed: u64, start: u64) -> Waiting {
        let mut waits = Waiting::default();
        for &segment in &self.waiting {
            let one = self.get(segment);
            if one.emptied > durable {
                waits.commit += 1;
                waits.flush += u32::from(one.emptied <= completed);
            } else if one.written > start {
                waits.checkpoint += 1;
            } else {
                waits.busy += 1;
            }
        }
        waits
    }

    /// After a recovery has noted all live blocks and all parts behind `start`: which segments are
    /// free.
    pub fn restore(&mut self, start: u64) {
        self.free = Bits::none(self.count);
        for segment in 0..self.count {
            let one = self.get(segment);
            if one.live == 0 && Edge::LfsFreeAtMount.allows(one.written <= start) {
                self.free.insert(segment);
            } else {
                self.close(segment);
            }
        }
    }
}

#[cfg(test)]
impl Segments {
    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let row = |row: &[Segment; ROW]| {
            size_of_val(row) + row.iter().map(|one| one.owners.bytes()).sum::<usize>()
        };
        size_of_val(&*self.rows) + self.rows.iter().flatten().map(|one| row(one)).sum::<usize>()
    }
}
