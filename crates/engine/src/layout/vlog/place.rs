//! Eager allocation: which free block the head can write next.
//!
//! Fill mode: as long as there is an empty track, fill it in the order of passing until a quarter
//! of it is left, then go on to the nearest empty track in sweep direction. Greedy mode: where no
//! track is empty, take the free block that passes first, in this cylinder or in the next ones in
//! sweep direction; the arm never moves backwards but for the wrap at the last cylinder (section
//! 4.2 of the paper, claims V7 and V8). On a device without a head the track is a nominal run of
//! blocks, the head is where the last write ended, and writing goes on from there.

use super::freemap::FreeMap;
use crate::arm::{Arm, Track};
use crate::units::Time;

/// A track is left when no more than this share of it is free, in percent (claim V7).
const LEAVE_FREE_PERCENT: u32 = 25;

/// Where the head is going to be: the state of a plan for the commands of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    track: Track,
    /// Slot after the last one planned on `track`, if the plan has begun.
    follow: Option<u32>,
    at: Time,
}

impl Plan {
    /// A plan that starts with the head over `track`, ready for a command at `at`.
    pub fn new(track: Track, at: Time) -> Plan {
        Plan { track, follow: None, at }
    }
}

/// A block that could be written next.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    track: Track,
    slot: u32,
    start: Time,
}

/// Chooses blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placer {
    fill: Option<Track>,
    /// Next block on a device without a head.
    cursor: u32,
}

impl Placer {
    /// Takes the best free block for the next of `want` blocks to be written, on a device with a
    /// head. `None` if nothing is free.
    pub fn choose(
        &mut self,
        free: &mut FreeMap,
        arm: &dyn Arm,
        plan: &mut Plan,
        want: u32,
    ) -> Option<u32> {
        if free.free() == 0 {
            return None;
        }
        let next = self.continuation(free, plan).or_else(|| self.best(free, arm, plan, want))?;
        let (track, slot) = (next.track, next.slot);
        let start =
            if plan.follow == Some(slot) && plan.track == track { plan.at } else { next.start };
        *plan = Plan { track, follow: Some(slot + 1), at: start + arm.transfer_ns(track, 1) };
        let block = free.block(track, slot);
        free.take(block);
        Some(block)
    }

    /// The slot behind the last one, if it is free: it costs no new command.
    fn continuation(&self, free: &FreeMap, plan: &Plan) -> Option<Candidate> {
        let slot = plan.follow?;
        let may = match self.fill {
            Some(track) => track == plan.track && !self.leaves(free, track),
            None => true,
        };
        (may && free.slot_is_free(plan.track, slot)).then_some(Candidate {
            track: plan.track,
            slot,
            start: plan.at,
        })
    }

    fn leaves(&self, free: &FreeMap, track: Track) -> bool {
        free.free_on(track) * 100 <= free.slots(track) * LEAVE_FREE_PERCENT
    }

    fn best(
        &mut self,
        free: &mut FreeMap,
        arm: &dyn Arm,
        plan: &Plan,
        want: u32,
    ) -> Option<Candidate> {
        if self.fill.is_some_and(|track| self.leaves(free, track)) {
            self.fill = None;
        }
        if self.fill.is_none() {
            self.fill = free.next_empty_track(plan.track);
        }
        let at = plan.at + arm.overhead_ns();
        let single = self.find(free, arm, plan.track, at, 1)?;
        if want < 2 {
            return Some(single);
        }
        let Some(run) = self.find(free, arm, plan.track, at, want) else {
            return Some(single);
        };
        // A run saves the commands that scattered blocks would need. For two blocks the second
        // command is worth computing; beyond, its fixed cost is the yardstick.
        let slot = arm.transfer_ns(single.track, 1);
        let scattered = if want == 2 {
            self.second(free, arm, single)
        } else {
            single.start + u64::from(want - 1) * (arm.overhead_ns() + slot)
        };
        Some(if run.start + u64::from(want - 1) * slot <= scattered { run } else { single })
    }

    /// When a second block could start if the first one went to `first`.
    fn second(&self, free: &mut FreeMap, arm: &dyn Arm, first: Candidate) -> Time {
        let block = free.block(first.track, first.slot);
        free.take(block);
        let end = first.start + arm.transfer_ns(first.track, 1);
        let next = if free.slot_is_free(first.track, first.slot + 1) {
            end
        } else {
            self.find(free, arm, first.track, end + arm.overhead_ns(), 1)
                .map_or(Time::MAX, |second| second.start)
        };
        free.release(block);
        next
    }

    fn find(
        &self,
        free: &FreeMap,
        arm: &dyn Arm,
        from: Track,
        at: Time,
        run: u32,
    ) -> Option<Candidate> {
        match self.fill {
            Some(track) => {
                let arrival = arm.arrival(from, at, track);
                on_track(free, arm, track, arrival, run)
                    .or_else(|| greedy(free, arm, from, at, run))
            }
            None => greedy(free, arm, from, at, run),
        }
    }

    /// Takes the next free block on a device without a head. `None` if nothing is free.
    pub fn choose_nominal(&mut self, free: &mut FreeMap) -> Option<u32> {
        if free.free() == 0 {
            return None;
        }
        let (here, slot) = free.locate(self.cursor);
        let ahead = free.next_free_ahead(here, slot).map(|slot| (here, slot));
        // Whole tracks first, so that sequential writing stays sequential on the device.
        let (track, slot) = match (ahead, self.fill) {
            (Some(found), Some(track)) if track == here => found,
            _ => {
                self.fill = free.next_empty_track(here);
                match self.fill {
                    Some(track) => (track, 0),
                    None => match ahead {
                        Some(found) => found,
                        None => {
                            let track = free.next_open_track((here + 1) % free.tracks())?;
                            (track, free.next_free_ahead(track, 0)?)
                        }
                    },
                }
            }
        };
        let block = free.block(track, slot);
        free.take(block);
        let end = free.block(free.tracks() - 1, free.slots(free.tracks() - 1));
        self.cursor = if block + 1 == end { 0 } else { block + 1 };
        Some(block)
    }
}

fn on_track(
    free: &FreeMap,
    arm: &dyn Arm,
    track: Track,
    arrival: Time,
    run: u32,
) -> Option<Candidate> {
    let from = arm.next_slot(track, arrival);
    let slot =
        if run == 1 { free.next_free(track, from) } else { free.next_run(track, from, run) }?;
    Some(Candidate { track, slot, start: arm.slot_start(track, slot, arrival) })
}

/// The free slot that passes first, over all tracks in reach in sweep direction.
fn greedy(free: &FreeMap, arm: &dyn Arm, from: Track, at: Time, run: u32) -> Option<Candidate> {
    let heads = arm.tracks_per_cylinder();
    let cylinders = arm.tracks() / heads;
    let here = from / heads;
    let mut best: Option<Candidate> = None;
    for distance in 0..cylinders {
        let cylinder = (here + distance) % cylinders;
        let first = cylinder * heads;
        if let Some(best) = best
            && arm.arrival(from, at, first) >= best.start
        {
            break;
        }
        for track in first..first + heads {
            if free.free_on(track) < run {
                continue;
            }
            let arrival = arm.arrival(from, at, track);
            if best.is_some_and(|best| best.start <= arrival) {
                continue;
            }
            if let Some(found) = on_track(free, arm, track, arrival, run)
                && best.is_none_or(|best| found.start < best.start)
            {
                best = Some(found);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_head_writing_is_sequential_while_tracks_are_empty() {
        let mut free = FreeMap::new(1024, None);
        for block in 2..1023 {
            free.release(block);
        }
        let mut placer = Placer::default();
        let first: Vec<u32> = (0..512).filter_map(|_| placer.choose_nominal(&mut free)).collect();
        assert_eq!(first, (256..768).collect::<Vec<_>>());
        let rest: Vec<u32> = (0..509).filter_map(|_| placer.choose_nominal(&mut free)).collect();
        assert_eq!(rest.len(), 509);
        assert_eq!(placer.choose_nominal(&mut free), None);
    }
}
