//! Eager allocation: which free block the head can write next.
//!
//! Fill mode: as long as there is an empty track, fill it in the order of passing until a quarter
//! of it is left, then go on to the nearest empty track in sweep direction. Greedy mode: where no
//! track is empty, take the free block that passes first, in this cylinder or in the next ones in
//! sweep direction; the arm never moves backwards but for the wrap at the last cylinder (section
//! 4.2 of the paper, claims V7 and V8). On disks with long tracks one is left earlier,
//! see [`Patch`]. On a device without a head the track is a nominal run of
//! blocks, the head is where the last write ended, and writing goes on from there.

use super::columns::{Candidate, Columns, Wanted};
use super::freemap::FreeMap;
use super::patch::Patch;
use crate::arm::{Arm, Track};
use crate::units::Time;

/// Longest run of blocks that is looked for as one.
const LONGEST_RUN: u32 = 16;

/// Where the head is going to be: the state of a plan for the commands of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    track: Track,
    /// Slot after the last one planned on `track`, if the plan has begun.
    follow: Option<u32>,
    at: Time,
    /// Where the block after the last one goes, if that has been found out with it.
    second: Option<Candidate>,
}

impl Plan {
    /// A plan that starts with the head over `track`, ready for a command at `at`.
    pub fn new(track: Track, at: Time) -> Plan {
        Plan { track, follow: None, at, second: None }
    }
}

/// Chooses blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placer {
    fill: Option<Track>,
    /// A track is left when no more than this share of it is free, in percent (claim V7).
    leave_percent: u32,
    /// Where blocks are taken from while no track is empty.
    patch: Option<Patch>,
    /// Next block on a device without a head, and the track that holes are filled on.
    cursor: u32,
    hole: Track,
}

impl Placer {
    /// Fills a track up to `fill_percent` percent before it goes on to the next empty one.
    pub fn new(fill_percent: u32, arm: Option<&dyn Arm>) -> Placer {
        let leave_percent = 100 - fill_percent.clamp(1, 100);
        Placer { fill: None, leave_percent, patch: arm.and_then(Patch::new), cursor: 0, hole: 0 }
    }

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
        let ahead = plan.second.take();
        let next = match self.continuation(free, plan).or(ahead) {
            Some(next) => next,
            None => self.best(free, arm, plan, want)?,
        };
        if let Some(patch) = &mut self.patch {
            patch.spent(next.start - plan.at);
        }
        Some(take(free, arm, plan, next))
    }

    /// Takes the first free block to pass that lies on a track with blocks in use, and not on
    /// `victim`. `None` if there is none in reach.
    pub fn choose_hole(
        &mut self,
        free: &mut FreeMap,
        arm: &dyn Arm,
        plan: &mut Plan,
        victim: Track,
    ) -> Option<u32> {
        plan.second = None;
        let may = |next: &Candidate| free.is_hole(next.track, victim);
        let next = match self.continuation(free, plan).filter(may) {
            Some(next) => next,
            None => {
                let at = plan.at + arm.overhead_ns();
                let holes_beside = Some(victim);
                self.first(free, arm, plan.track, at, 1, Time::MAX, holes_beside)?
            }
        };
        Some(take(free, arm, plan, next))
    }

    /// The track that is being filled.
    pub fn filling(&self) -> Option<Track> {
        self.fill
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
        free.free_on(track) * 100 <= free.slots(track) * self.leave_percent
    }

    fn best(
        &mut self,
        free: &mut FreeMap,
        arm: &dyn Arm,
        plan: &mut Plan,
        want: u32,
    ) -> Option<Candidate> {
        if self.fill.is_some_and(|track| self.leaves(free, track)) {
            self.fill = None;
        }
        if self.fill.is_none() {
            self.fill = free.next_empty_track(plan.track);
        }
        let patch = self.patch.as_mut().filter(|_| self.fill.is_none());
        let patch = patch.and_then(|patch| patch.track(free, arm, plan.track));
        let only = self.fill.or(patch);
        let at = plan.at + arm.overhead_ns();
        let single = self.find(free, arm, plan.track, at, 1, Time::MAX, only)?;
        if want < 2 || free.slot_is_free(single.track, single.slot + 1) {
            return Some(single);
        }
        // A run saves the commands that scattered blocks would need. For two blocks the second
        // command is worth computing; beyond, its fixed cost is the yardstick.
        let run = want.min(LONGEST_RUN);
        if want > 2 {
            let limit = single.start + u64::from(run - 1) * arm.overhead_ns();
            return self.find(free, arm, plan.track, at, run, limit, only).or(Some(single));
        }
        let transfer = slot_ns(free, arm, single.track);
        let after = single.start + transfer + arm.overhead_ns();
        let second = self.find(free, arm, single.track, after, 1, Time::MAX, only);
        // A turn later the first one passes again.
        let second = second.filter(|s| (s.track, s.slot) != (single.track, single.slot));
        let limit = second.map_or(Time::MAX, |second| second.start.saturating_sub(transfer));
        // Nothing passes before the single one does.
        if limit > single.start
            && let Some(pair) = self.find(free, arm, plan.track, at, run, limit, only)
        {
            return Some(pair);
        }
        plan.second = second;
        Some(single)
    }

    /// The first run of free slots that starts before `limit`, on track `only` if it has one.
    #[expect(clippy::too_many_arguments, reason = "a search has that many sides")]
    fn find(
        &self,
        free: &FreeMap,
        arm: &dyn Arm,
        from: Track,
        at: Time,
        run: u32,
        limit: Time,
        only: Option<Track>,
    ) -> Option<Candidate> {
        let Some(track) = only else {
            return self.first(free, arm, from, at, run, limit, None);
        };
        let found = match free.columns().filter(|_| run <= 2) {
            Some(columns) => {
                let pairs = run == 2;
                let wanted = Wanted { from, at, pairs, limit, holes_beside: None };
                columns.on_track(free, track, &wanted)
            }
            None => {
                let holes_beside = None;
                let mut search =
                    Search { free, arm, from, at, run, limit, holes_beside, found: None };
                search.track(track);
                search.found
            }
        };
        if found.is_some() || run > 1 {
            return found;
        }
        self.first(free, arm, from, at, run, limit, None)
    }

    /// The same wherever it is.
    #[expect(clippy::too_many_arguments, reason = "a search has that many sides")]
    fn first(
        &self,
        free: &FreeMap,
        arm: &dyn Arm,
        from: Track,
        at: Time,
        run: u32,
        limit: Time,
        holes_beside: Option<Track>,
    ) -> Option<Candidate> {
        if let Some(columns) = free.columns().filter(|_| run <= 2) {
            return columns.best(free, &Wanted { from, at, pairs: run == 2, limit, holes_beside });
        }
        let mut search = Search { free, arm, from, at, run, limit, holes_beside, found: None };
        search.track(from);
        search.greedy();
        search.found
    }

    /// Takes the next free block on a device without a head. `None` if nothing is free.
    ///
    /// What is written in runs goes to empty tracks, in order. What is `scattered` anyway goes to
    /// holes where there are any: it would only break up empty tracks, and on a sparse file each
    /// block written for the first time costs the file system a transaction.
    pub fn choose_nominal(&mut self, free: &mut FreeMap, scattered: bool) -> Option<u32> {
        if free.free() == 0 {
            return None;
        }
        if scattered && let Some(block) = self.hole(free) {
            free.take(block);
            return Some(block);
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

impl Placer {
    /// Takes a free block on a track that has blocks in use and is not `victim`, on a device
    /// without a head. `None` if there is none.
    pub fn choose_nominal_hole(&mut self, free: &mut FreeMap, victim: Track) -> Option<u32> {
        let first = free.next_mixed_track(self.hole)?;
        let track = match first == victim {
            true => free.next_mixed_track((first + 1) % free.tracks())?,
            false => first,
        };
        if track == victim {
            return None;
        }
        self.hole = track;
        let block = free.next_free_ahead(track, 0).map(|slot| free.block(track, slot))?;
        free.take(block);
        Some(block)
    }

    /// A free block on a track that is neither empty nor the one that runs are written to.
    fn hole(&mut self, free: &FreeMap) -> Option<u32> {
        let filling = |track: &Track| *track == free.locate(self.cursor).0;
        let mut track = free.next_mixed_track(self.hole)?;
        if filling(&track) {
            track = free.next_mixed_track((track + 1) % free.tracks())?;
        }
        if filling(&track) {
            return None;
        }
        self.hole = track;
        free.next_free_ahead(track, 0).map(|slot| free.block(track, slot))
    }
}

/// Takes a slot and goes on with the plan behind it.
fn take(free: &mut FreeMap, arm: &dyn Arm, plan: &mut Plan, next: Candidate) -> u32 {
    let Candidate { track, slot, start } = next;
    let second = plan.second;
    let at = start + slot_ns(free, arm, track);
    *plan = Plan { track, follow: Some(slot + 1), at, second };
    free.take_slot(track, slot);
    free.block(track, slot)
}

/// Time for a slot of a track to pass, in nanoseconds.
fn slot_ns(free: &FreeMap, arm: &dyn Arm, track: Track) -> Time {
    free.columns().map_or_else(|| arm.transfer_ns(track, 1), Columns::slot_ns)
}

/// A search for the run of free slots that passes the head first. Whatever is to replace the best
/// one so far must start before `limit`.
struct Search<'s> {
    free: &'s FreeMap,
    arm: &'s dyn Arm,
    from: Track,
    at: Time,
    run: u32,
    limit: Time,
    /// Only on tracks with blocks in use, and not on this one.
    holes_beside: Option<Track>,
    found: Option<Candidate>,
}

impl Search<'_> {
    /// Looks at one track.
    fn track(&mut self, track: Track) {
        let travel = if track == self.from { 0 } else { self.arm.travel_ns(self.from, track) };
        let at = self.at + travel;
        let may = self.holes_beside.is_none_or(|victim| self.free.is_hole(track, victim));
        if !may || self.free.free_on(track) < self.run || at >= self.limit {
            return;
        }
        let angle = self.arm.angle_ns(at);
        let first = self.arm.next_slot(track, angle);
        let slot = match self.run {
            1 => self.free.next_free(track, first),
            run => self.free.next_run(track, first, run),
        };
        let Some(slot) = slot else { return };
        let start = at + self.arm.wait_ns(track, self.arm.position(track, slot), angle);
        if start < self.limit {
            self.limit = start;
            self.found = Some(Candidate { track, slot, start });
        }
    }

    /// Looks at all other tracks in reach in sweep direction.
    fn greedy(&mut self) {
        let heads = self.arm.tracks_per_cylinder();
        let cylinders = self.arm.tracks() / heads;
        let here = self.from / heads;
        for distance in u32::from(heads == 1)..cylinders {
            let ahead = here + distance;
            let cylinder = if ahead < cylinders { ahead } else { ahead - cylinders };
            let first = cylinder * heads;
            // In the present cylinder any other track stands for the cost of a head switch.
            let probe = if first == self.from { first + 1 } else { first };
            let travel = self.arm.travel_ns(self.from, probe);
            if self.at + travel >= self.limit {
                break;
            }
            let from = self.from;
            for track in (first..first + heads).filter(|&track| track != from) {
                self.track(track);
            }
        }
    }
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
        let mut placer = Placer::new(75, None);
        let first: Vec<u32> =
            (0..512).filter_map(|_| placer.choose_nominal(&mut free, false)).collect();
        assert_eq!(first, (256..768).collect::<Vec<_>>());
        let hole = placer.choose_nominal(&mut free, true);
        assert_eq!(hole, Some(2), "the first track holds a superblock: it is not empty");
        free.release(2);
        free.release(300);
        placer.hole = 1;
        assert_eq!(placer.choose_nominal(&mut free, true), Some(300));
        assert_eq!(placer.choose_nominal(&mut free, true), Some(2));
        free.release(2);
        let rest: Vec<u32> =
            (0..509).filter_map(|_| placer.choose_nominal(&mut free, false)).collect();
        assert_eq!(rest.len(), 509);
        assert_eq!(placer.choose_nominal(&mut free, true), None);
    }
}
