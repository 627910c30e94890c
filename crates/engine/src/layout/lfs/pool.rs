//! The write buffer: what clients have written and the log has not taken yet.
//!
//! The map points to the slots of the buffer as to places on the device, above the largest place
//! there is. A block that is written again while it waits is replaced in its slot.

use super::format::MAX_DEVICE_BLOCKS;
use crate::data::Body;
use crate::units::Time;

/// A block that waits.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Which block of the volume.
    pub block: u32,
    /// What it holds, as it will be stored.
    pub body: Body,
    /// When a client wrote it, or something that lay beside it.
    pub written: Time,
}

/// The buffer.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    slots: Vec<Slot>,
    /// Slots that the map points to.
    live: u64,
    /// Ranges that are not stored any more.
    zeros: Vec<(u32, u32)>,
    /// Blocks of the volume that have moved to holes, and the holes.
    plugs: Vec<(u32, u32)>,
    /// Since when something waits.
    since: Option<Time>,
}

/// The place that stands for the first slot.
const FIRST: u32 = MAX_DEVICE_BLOCKS as u32;

impl Pool {
    /// Blocks that wait.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.zeros.is_empty() && self.plugs.is_empty()
    }

    /// True if the buffer should not grow, whatever room there is on the device.
    pub fn is_long(&self) -> bool {
        self.slots.len() >= 1 << 16 || self.zeros.len() >= 256 || self.plugs.len() >= 1 << 12
    }

    /// Since when something waits.
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// Adds a block; returns the place that stands for its slot.
    pub fn add(&mut self, slot: Slot, now: Time) -> u32 {
        self.since.get_or_insert(now);
        self.slots.push(slot);
        self.live += 1;
        FIRST + (self.slots.len() - 1) as u32
    }

    /// Replaces the content of a slot.
    pub fn replace(&mut self, place: u32, body: Body, written: Time) {
        let slot = &mut self.slots[(place - FIRST) as usize];
        (slot.body, slot.written) = (body, written);
    }

    /// The map does not point to a slot any more.
    pub fn forget(&mut self) {
        self.live -= 1;
    }

    /// Blocks from `block` on are not stored any more.
    pub fn add_zeros(&mut self, block: u32, count: u32, now: Time) {
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
        &self.slots[(place - FIRST) as usize].body
    }

    /// Takes everything else out: slots with the places that stand for them, and ranges.
    pub fn take(&mut self) -> (Vec<Slot>, Vec<(u32, u32)>) {
        self.live = 0;
        self.since = None;
        (std::mem::take(&mut self.slots), std::mem::take(&mut self.zeros))
    }

    /// Gives back the room of what was taken.
    pub fn reuse(&mut self, mut slots: Vec<Slot>) {
        slots.clear();
        if self.slots.is_empty() {
            self.slots = slots;
        }
    }
}

/// True if a place stands for a slot of the buffer.
pub fn is_buffered(place: u32) -> bool {
    place >= FIRST
}

/// The place that stands for a slot.
pub fn place_of(index: usize) -> u32 {
    FIRST + index as u32
}
