//! Eager allocation: which free block the head can write next.
//!
//! Fill mode: as long as there is an empty track, fill it in the order of passing until a quarter
//! of it is left, then go on to the nearest empty track in sweep direction. Greedy mode: where no
//! track is empty, take the free block that passes first, in this cylinder or in the next ones in
//! sweep direction; the arm never moves backwards but for the wrap at the last cylinder (section
//! 4.2 of the paper, claims V7 and V8). On disks with long tracks one is left earlier,
//! see [`Patch`].

use super::patch::Patch;
use crate::eager::columns::{Candidate, Wanted};
use crate::eager::freemap::FreeMap;
use crate::eager::place::{Nominal, Plan, slot_ns};
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::Time;

/// Longest run of blocks that is looked for as one.
const LONGEST_RUN: u32 = 16;

/// Chooses blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placer {
    fill: Option<Track>,
    /// A track is left when no more than this share of it is free, in percent (claim V7).
    leave_percent: u32,
    /// Where blocks are taken from while no track is empty.
    patch: Option<Patch>,
    /// Where blocks go on a device without a head.
    pub nominal: Nominal,
}

impl Placer {
    /// Fills a track up to `fill_percent` percent before it goes on to the next empty one.
    pub fn new(fill_percent: u32, arm: Option<&dyn Arm>) -> Placer {
        let leave_percent = 100 - fill_percent.clamp(1, 100);
        Placer {
            fill: None,
            leave_percent,
            patch: arm.and_then(Patch::new),
            nominal: Nominal::default(),
        }
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
        let ahead = plan.expected();
        let next = match self.continuation(free, plan).or(ahead) {
            Some(next) => next,
            None => self.best(free, arm, plan, want)?,
        };
        if let Some(patch) = &mut self.patch {
            patch.spent(next.start - plan.at);
        }
        Some(plan.take(free, arm, next))
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
        plan.expect(None);
        let may = |next: &Candidate| free.is_hole(next.track, victim);
        let next = match self.continuation(free, plan).filter(may) {
            Some(next) => next,
            None => {
                let wanted = Wanted::single(plan.track, plan.at + arm.overhead_ns());
                first(free, arm, &Wanted { holes_beside: Some(victim), ..wanted })?
            }
        };
        Some(plan.take(free, arm, next))
    }

    /// The track that is being filled.
    pub fn filling(&self) -> Option<Track> {
        self.fill.or(self.nominal.filling())
    }

    /// The slot behind the last one, if it is free and its track is not to be left.
    fn continuation(&self, free: &FreeMap, plan: &Plan) -> Option<Candidate> {
        let stays = |track| track == plan.track && !self.leaves(free, track);
        plan.continuation(free).filter(|_| self.fill.is_none_or(stays))
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
        let wanted = Wanted::single(plan.track, plan.at + arm.overhead_ns());
        let single = find(free, arm, &wanted, only)?;
        if want < 2 || free.slot_is_free(single.track, single.slot + 1) {
            return Some(single);
        }
        // A run saves the commands that scattered blocks would need. For two blocks the second
        // command is worth computing; beyond, its fixed cost is the yardstick.
        let run = want.min(LONGEST_RUN);
        if want > 2 {
            let limit = single.start + u64::from(run - 1) * arm.overhead_ns();
            return find(free, arm, &Wanted { run, limit, ..wanted }, only).or(Some(single));
        }
        let transfer = slot_ns(free, arm, single.track);
        let after = single.start + transfer + arm.overhead_ns();
        let second = find(free, arm, &Wanted::single(single.track, after), only);
        // A turn later the first one passes again.
        let second = second.filter(|s| (s.track, s.slot) != (single.track, single.slot));
        let limit = second.map_or(Time::MAX, |second| second.start.saturating_sub(transfer));
        // Nothing passes before the single one does.
        if limit > single.start
            && let Some(pair) = find(free, arm, &Wanted { run, limit, ..wanted }, only)
        {
            return Some(pair);
        }
        plan.expect(second);
        Some(single)
    }
}

/// What is wanted, on track `only` if it has one; a single slot then wherever it is.
fn find(free: &FreeMap, arm: &dyn Arm, wanted: &Wanted, only: Option<Track>) -> Option<Candidate> {
    let Some(track) = only else { return first(free, arm, wanted) };
    let found = match free.columns().filter(|_| wanted.run <= 2) {
        Some(columns) => columns.on_track(free, track, wanted),
        None => {
            let mut search = Search { free, arm, wanted: *wanted, found: None };
            search.track(track);
            search.found
        }
    };
    if found.is_some() || wanted.run > 1 {
        return found;
    }
    first(free, arm, wanted)
}

/// What is wanted, wherever it is.
fn first(free: &FreeMap, arm: &dyn Arm, wanted: &Wanted) -> Option<Candidate> {
    if let Some(columns) = free.columns().filter(|_| wanted.run <= 2) {
        return columns.best(free, wanted);
    }
    track_by_track(free, arm, wanted)
}

/// The same without columns, or for a long run.
#[inline(never)]
fn track_by_track(free: &FreeMap, arm: &dyn Arm, wanted: &Wanted) -> Option<Candidate> {
    let mut search = Search { free, arm, wanted: *wanted, found: None };
    search.track(wanted.from);
    search.greedy();
    search.found
}

/// A search track by track. Whatever is to replace the best one so far must start before the limit
/// of what is wanted.
struct Search<'s> {
    free: &'s FreeMap,
    arm: &'s dyn Arm,
    wanted: Wanted,
    found: Option<Candidate>,
}

impl Search<'_> {
    /// Looks at one track.
    fn track(&mut self, track: Track) {
        let Wanted { from, run, limit, holes_beside, .. } = self.wanted;
        let travel = if track == from { 0 } else { self.arm.travel_ns(from, track) };
        let at = self.wanted.at + travel;
        let may = holes_beside.is_none_or(|victim| self.free.is_hole(track, victim));
        if !may || self.free.free_on(track) < run || at >= limit {
            return;
        }
        let angle = self.arm.angle_ns(at);
        let first = self.arm.next_slot(track, angle);
        let slot = match run {
            1 => self.free.next_free(track, first),
            run => self.free.next_run(track, first, run),
        };
        let Some(slot) = slot else { return };
        let start = at + self.arm.wait_ns(track, self.arm.position(track, slot), angle);
        if start < limit {
            self.wanted.limit = start;
            self.found = Some(Candidate { track, slot, start });
        }
    }

    /// Looks at all other tracks in reach in sweep direction.
    fn greedy(&mut self) {
        let heads = self.arm.tracks_per_cylinder();
        let cylinders = self.arm.tracks() / heads;
        let Wanted { from, at, .. } = self.wanted;
        let here = from / heads;
        for distance in u32::from(heads == 1)..cylinders {
            let ahead = here + distance;
            let cylinder = if ahead < cylinders { ahead } else { ahead - cylinders };
            let first = cylinder * heads;
            // In the present cylinder any other track stands for the cost of a head switch.
            let probe = if first == from { first + 1 } else { first };
            let travel = self.arm.travel_ns(from, probe);
            if at + travel >= self.wanted.limit {
                break;
            }
            for track in (first..first + heads).filter(|&track| track != from) {
                self.track(track);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eager::columns::tests::{CYLINDERS, HEADS, SLOTS, Small};
    use seekless_engine::arm::Head;
    use std::collections::BTreeMap;

    /// Blocks that each track gets before the head goes on, in the order of the tracks, until no
    /// track is empty.
    fn filled(fill_percent: u32) -> Vec<u32> {
        let tracks = HEADS * CYLINDERS;
        let mut free = FreeMap::new(u64::from(tracks * SLOTS), Some(&Small));
        (0..tracks * SLOTS).for_each(|block| free.release(block));
        let mut placer = Placer::new(fill_percent, Some(&Small));
        let (mut at, mut track, mut counts) = (0, 0, BTreeMap::new());
        while counts.len() < tracks as usize {
            let mut plan = Plan::new(Head { track, free_at: at });
            let block = placer.choose(&mut free, &Small, &mut plan, 1).expect("there is room");
            *counts.entry(block / SLOTS).or_insert(0) += 1;
            (at, track) = (plan.at, plan.track);
        }
        // The last one has got its first block only.
        counts.into_values().filter(|&count| count > 1).collect()
    }

    /// V7: a track is left as soon as no more than a quarter of it is free.
    #[test]
    fn a_track_is_left_when_three_quarters_are_full() {
        let three_quarters = (SLOTS * 3).div_ceil(4);
        assert!(filled(75).iter().all(|&count| count == three_quarters), "{:?}", filled(75));
        assert!(filled(50).iter().all(|&count| count == SLOTS.div_ceil(2)), "{:?}", filled(50));
    }
}
