//! How long to stay on a track where none is empty.
//!
//! The block that passes first is not the best one: who always takes it stays on a track until a
//! seek is shorter than the wait, comes to live off the leavings near the head, and pays a seek for
//! nearly every block. The best moment to leave is known from foraging (Charnov's marginal value
//! theorem, 1976): when what the next block is expected to cost here exceeds what a block has cost
//! on average, journeys included. The rule is used where a journey takes as long as many slots; on
//! old disks with their short tracks the other surfaces are the next best place at any moment.

use crate::eager::freemap::FreeMap;
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::Time;

/// Tracks ahead that are compared before the head moves on.
const TRACKS_COMPARED: Track = 32;
/// A journey to the next track takes at least so many slots where the rule is used.
const LEAST_JOURNEY: Time = 16;
/// A block counts for one in so many in the mean cost.
const MEMORY: Time = 128;

/// Which track is worked on, and what a block has cost lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    track: Option<Track>,
    /// Mean time from the end of one block to the beginning of the next, in nanoseconds.
    mean_ns: Time,
}

impl Patch {
    /// `None` for disks that the rule is not for.
    pub fn new(arm: &dyn Arm) -> Option<Patch> {
        let far = || arm.travel_ns(0, 1) >= LEAST_JOURNEY * arm.transfer_ns(0, 1);
        (arm.tracks() > 1 && far()).then_some(Patch { track: None, mean_ns: 0 })
    }

    /// Notes what a block has cost.
    pub fn spent(&mut self, cost_ns: Time) {
        self.mean_ns = match self.mean_ns {
            0 => cost_ns,
            mean => (mean * (MEMORY - 1) + cost_ns) / MEMORY,
        };
    }

    /// The track to take the next block from for a head over `here`: the present one, or the one
    /// ahead from which blocks come cheapest.
    pub fn track(&mut self, free: &FreeMap, arm: &dyn Arm, here: Track) -> Option<Track> {
        let enough = self.enough(free, arm, here);
        // A read may have taken the head away.
        if self.track == Some(here) && free.free_on(here) > enough {
            return self.track;
        }
        let tracks = free.tracks();
        let ahead = (0..TRACKS_COMPARED.min(tracks)).map(|step| (here + step) % tracks);
        let yields = |&track: &Track| free.free_on(track) > 0;
        self.track = ahead.filter(yields).min_by_key(|&track| {
            let (from, slots) = (free.free_on(track), free.slots(track));
            let gain = from.saturating_sub(enough).max(1);
            let block = cost_ns(arm, track, slots, from - gain / 2);
            arm.travel_ns(here, track) / Time::from(gain) + block
        });
        self.track
    }

    /// How many free blocks are left on a track when it is time to go.
    fn enough(&self, free: &FreeMap, arm: &dyn Arm, track: Track) -> u32 {
        let slots = free.slots(track);
        let bearable = self.mean_ns.saturating_sub(arm.overhead_ns());
        let slot = arm.transfer_ns(track, 1);
        // The inverse of `cost_ns`.
        let left = Time::from(slots + 1) * slot / (slot + bearable);
        (left as u32).saturating_sub(1)
    }
}

/// What a block costs on a track with so many free slots: the command, and the wait for the next
/// free one.
fn cost_ns(arm: &dyn Arm, track: Track, slots: u32, free: u32) -> Time {
    let taken = Time::from(slots - free);
    arm.overhead_ns() + taken * arm.transfer_ns(track, 1) / Time::from(free + 1)
}
