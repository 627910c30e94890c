//! The write buffer: what clients have written and the log has not taken yet.
//!
//! The map points to the slots of the buffer as to places on the device, above the largest place
//! there is. A block that is written again while it waits is replaced in its slot. What the cleaner
//! moves waits apart, so that it fills segments of its own: it is older than what clients write,
//! and where old and young share a segment neither kind of segment ever becomes empty.

use super::format::MAX_DEVICE_BLOCKS;
use super::segments::SegmentNr;
use seekless_engine::data::Body;
use seekless_engine::units::Time;

/// A block that waits.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Which block of the volume.
    pub block: u32,
    /// What it holds, as it will be stored.
    pub body: Body,
    /// When a client wrote it, or something that lay beside it.
    pub written: Time,
    /// The segment that has what a recovery falls back on until the slot is written out.
    pub from: Option<SegmentNr>,
}

/// Who waits for being written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// What clients have changed, and blocks that have moved to holes.
    Clients,
    /// What the cleaner moves.
    Moved,
}

/// Slots of one kind.
#[derive(Clone, Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    /// Those that the map points to.
    live: u64,
    /// The segments that a recovery falls back on, of slots that follow one another once.
    fallbacks: Vec<SegmentNr>,
}

/// The buffer.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    clients: Slots,
    moved: Slots,
    /// Ranges that are not stored.
    zeros: Vec<(u32, u32)>,
    /// Blocks of the volume that have moved to holes, and the holes.
    plugs: Vec<(u32, u32)>,
    /// Since when something waits.
    since: Option<Time>,
}

/// The place that stands for the first slot, and for the first one of what the cleaner moves.
const FIRST: u32 = MAX_DEVICE_BLOCKS as u32;
const FIRST_MOVED: u32 = FIRST + (1 << 19);
/// Slots of either kind beyond which the buffer should not grow.
const MOST: usize = 1 << 16;

impl Pool {
    /// Blocks that wait.
    pub fn live(&self) -> u64 {
        self.clients.live + self.moved.live
    }

    /// Blocks of clients that wait.
    pub fn clients(&self) -> u64 {
        self.clients.live
    }

    /// Blocks that the cleaner moves.
    pub fn moved(&self) -> u64 {
        self.moved.live
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.moved.slots.is_empty() && !self.has_changes()
    }

    /// True if something waits that a recovery would miss.
    pub fn has_changes(&self) -> bool {
        !self.clients.slots.is_empty() || !self.zeros.is_empty() || !self.plugs.is_empty()
    }

    /// True if there is more than slots.
    pub fn has_ranges(&self) -> bool {
        !self.zeros.is_empty() || !self.plugs.is_empty()
    }

    /// True if the buffer should not grow, whatever room there is on the device.
    pub fn is_long(&self) -> bool {
        self.clients.slots.len() >= MOST
            || self.moved.slots.len() >= MOST
            || self.zeros.len() >= 256
            || self.plugs.len() >= 1 << 12
    }

    /// Since when changes wait.
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// Adds a block that a client has written; returns the place that stands for its slot.
    pub fn add(&mut self, slot: Slot, now: Time) -> u32 {
        self.since.get_or_insert(now);
        debug_assert!(self.clients.slots.len() < (FIRST_MOVED - FIRST) as usize, "too many slots");
        FIRST + self.clients.add(slot)
    }

    /// Adds a block that the cleaner moves; no client waits for it to be written out.
    pub fn add_moved(&mut self, slot: Slot) -> u32 {
        FIRST_MOVED + self.moved.add(slot)
    }

    fn slots(&mut self, place: u32) -> (&mut Slots, usize) {
        debug_assert!(is_buffered(place), "place {place} is on the device");
        match is_moved(place) {
            true => (&mut self.moved, (place - FIRST_MOVED) as usize),
            false => (&mut self.clients, (place - FIRST) as usize),
        }
    }

    /// Replaces the content of a slot.
    pub fn replace(&mut self, place: u32, body: Body, written: Time) {
        let (slots, index) = self.slots(place);
        let slot = &mut slots.slots[index];
        (slot.body, slot.written) = (body, written);
    }

    /// The map does not point to a slot. Returns the segment that a recovery falls back
    /// on.
    pub fn forget(&mut self, place: u32) -> Option<SegmentNr> {
        let (slots, index) = self.slots(place);
        debug_assert!(slots.live > 0, "a slot is forgotten twice");
        slots.live -= 1;
        slots.slots[index].from
    }

    /// Blocks from `block` on are not stored.
    pub fn add_zeros(&mut self, block: u32, count: u32, now: Time) {
        debug_assert!(count > 0, "no block is forgotten");
        self.since.get_or_insert(now);
        match self.zeros.last_mut() {
            Some((first, length)) if *first + *length == block => *length += count,
            _ => self.zeros.push((block, count)),
        }
    }

    /// A block has moved to a hole.
    pub fn add_plug(&mut self, block: u32, hole: u32, now: Time) {
        self.since.get_or_insert(now);
        self.plugs.push((block, hole));
    }

    /// True if some block has moved to a hole.
    pub fn has_plugs(&self) -> bool {
        !self.plugs.is_empty()
    }

    /// Takes the blocks that have moved to holes.
    pub fn take_plugs(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.plugs)
    }

    /// What a slot holds.
    pub fn body(&self, place: u32) -> &Body {
        debug_assert!(is_buffered(place), "place {place} is on the device");
        match is_moved(place) {
            true => &self.moved.slots[(place - FIRST_MOVED) as usize].body,
            false => &self.clients.slots[(place - FIRST) as usize].body,
        }
    }

    /// Takes the ranges that are not stored.
    pub fn take_zeros(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.zeros)
    }

    /// Takes the slots of clients out; with the rest taken, no client waits.
    pub fn take_clients(&mut self) -> Vec<Slot> {
        self.since = None;
        self.clients.take()
    }

    /// Takes out what the cleaner moves.
    pub fn take_moved(&mut self) -> Vec<Slot> {
        self.moved.take()
    }

    /// Segments that a recovery falls back on as long as a slot waits.
    pub fn fallbacks(&self) -> impl Iterator<Item = SegmentNr> {
        self.clients.fallbacks.iter().chain(&self.moved.fallbacks).copied()
    }

    /// Gives back the room of what was taken.
    pub fn reuse(&mut self, mut slots: Vec<Slot>) {
        slots.clear();
        if self.clients.slots.is_empty() {
            self.clients.slots = slots;
        }
    }
}

impl Slots {
    fn add(&mut self, slot: Slot) -> u32 {
        if let Some(from) = slot.from
            && self.fallbacks.last() != Some(&from)
        {
            self.fallbacks.push(from);
        }
        self.slots.push(slot);
        self.live += 1;
        (self.slots.len() - 1) as u32
    }

    fn take(&mut self) -> Vec<Slot> {
        debug_assert!(self.live <= self.slots.len() as u64, "more live slots than slots");
        self.live = 0;
        self.fallbacks.clear();
        std::mem::take(&mut self.slots)
    }
}

/// True if a place stands for a slot of the buffer.
pub fn is_buffered(place: u32) -> bool {
    place >= FIRST
}

/// True if a place stands for a slot of what the cleaner moves.
pub fn is_moved(place: u32) -> bool {
    place >= FIRST_MOVED
}

/// The place that stands for a slot of clients.
pub fn place_of(index: usize) -> u32 {
    FIRST + index as u32
}

/// The place that stands for a slot of what the cleaner moves.
pub fn moved_place_of(index: usize) -> u32 {
    FIRST_MOVED + index as u32
}
