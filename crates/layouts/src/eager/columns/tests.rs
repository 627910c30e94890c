//! The columns against a look at every slot.

use super::*;
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

pub(crate) const HEADS: u32 = 3;
pub(crate) const CYLINDERS: u32 = 5;
pub(crate) const SLOTS: u32 = 37;
const PER_SLOT: u32 = 4;
const TURN: u32 = SLOTS * PER_SLOT;

/// A small disk on which a position takes 10 ns.
#[derive(Debug)]
pub(crate) struct Small;

impl Arm for Small {
    fn tracks(&self) -> Track {
        HEADS * CYLINDERS
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
        5
    }
    fn travel_ns(&self, from: Track, to: Track) -> Time {
        match (from / HEADS).abs_diff(to / HEADS) {
            0 if from == to => 0,
            0 => 70,
            distance => 60 + 30 * u64::from(distance),
        }
    }
    fn turn_ns(&self) -> Time {
        u64::from(TURN) * 10
    }
    fn positions(&self, _track: Track) -> u32 {
        TURN
    }
    fn position(&self, track: Track, slot: u32) -> u32 {
        (slot * PER_SLOT + track * 7) % TURN
    }
    fn slot_at(&self, track: Track, position: u32) -> u32 {
        (position + TURN - track * 7 % TURN) % TURN / PER_SLOT
    }
    fn next_position(&self, _track: Track, angle: Time) -> u32 {
        angle.div_ceil(10) as u32 % TURN
    }
    fn next_slot(&self, track: Track, angle: Time) -> u32 {
        let wait = |&slot: &u32| self.wait_ns(track, self.position(track, slot), angle);
        (0..SLOTS).min_by_key(wait).expect("a track has slots")
    }
    fn wait_ns(&self, _track: Track, position: u32, angle: Time) -> Time {
        (u64::from(position) * 10 + self.turn_ns() - angle) % self.turn_ns()
    }
    fn transfer_ns(&self, _track: Track, count: u32) -> Time {
        u64::from(count * PER_SLOT) * 10
    }
}

/// When a slot passes a head that leaves `from` at `at`.
fn starts_at(from: Track, track: Track, slot: u32, at: Time) -> Time {
    let arrival = at + Small.travel_ns(from, track);
    let angle = arrival % Small.turn_ns();
    arrival + Small.wait_ns(track, Small.position(track, slot), angle)
}

/// What [`Columns::best`] must find, by looking at every slot.
fn plainly(free: &[bool], from: Track, at: Time, pairs: bool, limit: Time) -> Option<Time> {
    let is_free = |track: Track, slot: u32| {
        let here = free[(track * SLOTS + slot) as usize];
        here && (!pairs || slot + 1 < SLOTS && free[(track * SLOTS + slot + 1) as usize])
    };
    let mut best = limit;
    let mut look = |tracks: &mut dyn Iterator<Item = Track>| {
        for track in tracks {
            for slot in (0..SLOTS).filter(|&slot| is_free(track, slot)) {
                best = best.min(starts_at(from, track, slot, at));
            }
        }
        best
    };
    look(&mut std::iter::once(from));
    for ahead in 0..CYLINDERS {
        let cylinder = (from / HEADS + ahead) % CYLINDERS;
        let tracks = (cylinder * HEADS..(cylinder + 1) * HEADS).filter(|&track| track != from);
        let soonest = tracks.clone().map(|track| at + Small.travel_ns(from, track)).min()?;
        if soonest >= look(&mut std::iter::empty()) {
            break;
        }
        look(&mut { tracks });
    }
    (best < limit).then_some(best)
}

#[test]
fn finds_what_a_look_at_every_slot_finds() {
    let blocks = u64::from(HEADS * CYLINDERS * SLOTS);
    let mut map = FreeMap::new(blocks, Some(&Small));
    let mut free = vec![false; (HEADS * CYLINDERS * SLOTS) as usize];
    let mut rng = Rng::stream(4, "columns");
    for round in 0..30_000 {
        let block = rng.below(free.len() as u64) as u32;
        // From a full disk to one that is almost free, and back.
        let fuller = round % 2000 < 1000;
        let now = rng.chance(if fuller { 0.1 } else { 0.9 });
        match (std::mem::replace(&mut free[block as usize], now), now) {
            (false, true) => map.release(block),
            (true, false) => map.take(block),
            _ => {}
        }
        let columns = map.columns().expect("suits");
        let from = rng.below(u64::from(HEADS * CYLINDERS)) as Track;
        let at = rng.below(100_000);
        for run in [1, 2] {
            let limit = if rng.chance(0.3) { Time::MAX } else { at + rng.below(2000) };
            let holes_beside = rng.chance(0.3).then(|| rng.below(15) as Track);
            let found = columns.best(&map, &Wanted { from, at, run, limit, holes_beside });
            let allowed: Vec<bool> = (0..HEADS * CYLINDERS)
                .map(|track| holes_beside.is_none_or(|victim| map.is_hole(track, victim)))
                .collect();
            let usable: Vec<bool> = (0..free.len())
                .map(|block| free[block] && allowed[block / SLOTS as usize])
                .collect();
            let expected = plainly(&usable, from, at, run == 2, limit);
            assert_eq!(found.map(|found| found.start), expected, "round {round}");
            if let Some(Candidate { track, slot, .. }) = found {
                assert!(free[(track * SLOTS + slot) as usize]);
                let next = || slot + 1 < SLOTS && free[(track * SLOTS + slot + 1) as usize];
                assert!(run == 1 || next());
            }
        }
        let track = rng.below(u64::from(HEADS * CYLINDERS)) as Track;
        let wanted = Wanted::single(from, at);
        let found = columns.on_track(&map, track, &wanted);
        let starts = (0..SLOTS).filter(|slot| free[(track * SLOTS + slot) as usize]);
        let starts = starts.map(|slot| starts_at(from, track, slot, at));
        assert_eq!(found.map(|found| found.start), starts.min());
    }
}

#[test]
fn a_search_that_is_bound_to_some_cylinders_finds_the_first_one_there() {
    let blocks = u64::from(HEADS * CYLINDERS * SLOTS);
    let mut map = FreeMap::new(blocks, Some(&Small));
    let mut rng = Rng::stream(7, "bound");
    for round in 0..20_000 {
        let block = rng.below(blocks) as u32;
        match map.is_free(u64::from(block)) {
            true if rng.chance(0.9) => map.take(block),
            false if rng.chance(0.1) => map.release(block),
            _ => {}
        }
        let from = rng.below(u64::from(HEADS * CYLINDERS)) as Track;
        let at = rng.below(100_000);
        let low = rng.below(u64::from(CYLINDERS)) as u32;
        let high = low + rng.below(u64::from(CYLINDERS - low)) as u32;
        let columns = map.columns().expect("suits");
        let found = columns.around(&map, &Wanted::single(from, at), (low, high));
        let slots = (low * HEADS..(high + 1) * HEADS)
            .flat_map(|track| (0..SLOTS).map(move |slot| (track, slot)))
            .filter(|&(track, slot)| map.slot_is_free(track, slot));
        let starts = slots.map(|(track, slot)| starts_at(from, track, slot, at));
        assert_eq!(found.map(|found| found.start), starts.min(), "round {round}");
    }
}

/// A volume that leaves the last tracks of the disk alone, and part of one.
#[test]
fn blocks_that_the_volume_does_not_have_are_never_found() {
    for blocks in [u64::from(7 * SLOTS), u64::from(7 * SLOTS + 5)] {
        let mut map = FreeMap::new(blocks, Some(&Small));
        assert_eq!(u64::from(map.tracks()), blocks.div_ceil(u64::from(SLOTS)));
        (0..blocks as u32).for_each(|block| map.release(block));
        for left in (0..blocks).rev() {
            let wanted = Wanted::single((left % 15) as Track, left * 131);
            let columns = map.columns().expect("suits");
            let found = columns.best(&map, &wanted).expect("there is a free one");
            let block = map.block(found.track, found.slot);
            assert_eq!(map.locate(block), (found.track, found.slot));
            map.take(block);
            assert_eq!(map.free(), left);
        }
    }
}

#[test]
fn bits_are_found_in_rows_of_several_words() {
    let mut rng = Rng::stream(9, "rows");
    for round in 0..2000 {
        let words = 1 + round % 3;
        let row: Vec<u64> = (0..words).map(|_| 1 << rng.below(64) & rng.below(u64::MAX)).collect();
        let end = words as u64 * 64;
        let low = rng.below(end) as u32;
        let high = low + rng.below(end - u64::from(low)) as u32;
        let is_set = |&bit: &u32| row[bit as usize / 64] >> (bit % 64) & 1 != 0;
        assert_eq!(lowest(&row, low, high), (low..=high).find(is_set), "{row:?} {low} {high}");
        assert_eq!(highest(&row, low, high), (low..=high).rev().find(is_set), "{row:?}");
    }
}
