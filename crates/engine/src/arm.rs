//! What an eager-writing layout may know of the device below: where the head is and when it can be
//! over a free block.

use crate::units::{BlockNr, Time};
use std::fmt::Debug;

/// Number of a track, counted along the arm: all tracks of cylinder 0, then of cylinder 1, …
pub type Track = u32;

/// Geometry and mechanics of a device with a head, seen in whole 4 KiB blocks ("slots"). All
/// functions are pure: they predict, they move nothing. The prediction is exact for a device that
/// serves commands one after the other, since the device computes with the same functions.
pub trait Arm: Debug + Send + Sync {
    /// Number of tracks.
    fn tracks(&self) -> Track;

    /// Tracks in each cylinder, at least 1.
    fn tracks_per_cylinder(&self) -> u32;

    /// First block of a track and the number of whole blocks on it. Blocks of a track are
    /// numbered in the order in which they pass the head.
    fn track_blocks(&self, track: Track) -> (BlockNr, u32);

    /// The track that holds a block.
    fn track_of(&self, block: BlockNr) -> Track;

    /// Fixed cost of a command before the arm starts to move, in nanoseconds.
    fn overhead_ns(&self) -> Time;

    /// Time until a write head over `from` can be over `to`, ready to write: seek and settle, or
    /// head switch, or nothing.
    fn travel_ns(&self, from: Track, to: Track) -> Time;

    /// One revolution, in nanoseconds.
    fn turn_ns(&self) -> Time;

    /// Time since the index mark last passed at `at`: the rotational position, below a turn.
    fn angle_ns(&self, at: Time) -> Time {
        at % self.turn_ns()
    }

    /// Number of rotational positions at which slots of a track may begin: its sectors.
    fn positions(&self, track: Track) -> u32;

    /// The rotational position at which a slot begins, with all skews.
    fn position(&self, track: Track, slot: u32) -> u32;

    /// The slot of a track that begins at a position.
    fn slot_at(&self, track: Track, position: u32) -> u32;

    /// The first position on a track whose beginning passes the head at or after `angle`.
    fn next_position(&self, track: Track, angle: Time) -> u32;

    /// The slot of `track` whose beginning passes the head first at or after `angle`.
    fn next_slot(&self, track: Track, angle: Time) -> u32;

    /// Time from `angle` until the beginning of `position` passes the head: less than a turn.
    fn wait_ns(&self, track: Track, position: u32, angle: Time) -> Time;

    /// Time that `count` consecutive slots of `track` take to pass, in nanoseconds.
    fn transfer_ns(&self, track: Track, count: u32) -> Time;

    /// True if the device carries out seeks ([`crate::io::Io::seek`]).
    fn seeks(&self) -> bool {
        false
    }
}

/// The state of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Track the head is over.
    pub track: Track,
    /// When the device is free to accept the next command: now or later.
    pub free_at: Time,
}
