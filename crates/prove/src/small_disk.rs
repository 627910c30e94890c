//! A head for devices that have none: the smallest mechanics on which an eager-writing layout does
//! everything it does on a disk.

use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::{BlockNr, MICROS, Time};

/// Slots on a track.
const SLOTS: u32 = 12;
/// Tracks in a cylinder.
const HEADS: u32 = 2;
/// Time for a slot to pass.
const SLOT: Time = 100 * MICROS;

/// Blocks that the size of a device with such a head must be a multiple of.
pub const CYLINDER_BLOCKS: u64 = (SLOTS * HEADS) as u64;

/// Mechanics without skew: a slot is a position.
#[derive(Debug)]
pub struct SmallArm {
    tracks: Track,
    /// Time to the next track.
    journey: Time,
}

impl SmallArm {
    /// The arm of a device of `blocks` blocks, whole cylinders of them. A journey to the next track
    /// takes as long as two slots, or if it is `far` as twenty.
    pub fn new(blocks: u64, far: bool) -> SmallArm {
        assert!(blocks.is_multiple_of(CYLINDER_BLOCKS), "{blocks} blocks are not whole cylinders");
        let journey = if far { 20 } else { 2 } * SLOT;
        SmallArm { tracks: (blocks / u64::from(SLOTS)) as Track, journey }
    }
}

impl Arm for SmallArm {
    fn tracks(&self) -> Track {
        self.tracks
    }

    fn tracks_per_cylinder(&self) -> u32 {
        HEADS
    }

    fn track_blocks(&self, track: Track) -> (BlockNr, u32) {
        (u64::from(track * SLOTS), SLOTS)
    }

    fn track_of(&self, block: BlockNr) -> Track {
        block as Track / SLOTS
    }

    fn overhead_ns(&self) -> Time {
        SLOT / 2
    }

    fn travel_ns(&self, from: Track, to: Track) -> Time {
        match (from / HEADS).abs_diff(to / HEADS) {
            0 if from == to => 0,
            0 => self.journey,
            distance => self.journey + Time::from(distance) * SLOT,
        }
    }

    fn turn_ns(&self) -> Time {
        Time::from(SLOTS) * SLOT
    }

    fn positions(&self, _track: Track) -> u32 {
        SLOTS
    }

    fn position(&self, _track: Track, slot: u32) -> u32 {
        slot
    }

    fn slot_at(&self, _track: Track, position: u32) -> u32 {
        position
    }

    fn next_position(&self, _track: Track, angle: Time) -> u32 {
        angle.div_ceil(SLOT) as u32 % SLOTS
    }

    fn next_slot(&self, track: Track, angle: Time) -> u32 {
        self.next_position(track, angle)
    }

    fn wait_ns(&self, _track: Track, position: u32, angle: Time) -> Time {
        (Time::from(position) * SLOT + self.turn_ns() - angle) % self.turn_ns()
    }

    fn transfer_ns(&self, _track: Track, count: u32) -> Time {
        Time::from(count) * SLOT
    }
}
