//! Free slots by rotational position: for each cylinder and position, which surfaces have a free
//! slot that begins there. The first one to pass is found with a few word operations per cylinder,
//! whatever the number of tracks. What the search needs of the mechanics is kept in tables beside
//! them: this is the innermost loop of eager writing.

use crate::arm::{Arm, Track};
use crate::units::Time;

/// Most surfaces that a column has bits for.
const MAX_SURFACES: u32 = 64;
/// Columns beyond which a disk is searched track by track: 64 MiB of memory.
const MAX_COLUMNS: u64 = 8 << 20;

/// A free slot, or the first of a run, and when it begins to pass the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its track.
    pub track: Track,
    /// The slot on that track.
    pub slot: u32,
    /// When it passes.
    pub start: Time,
}

/// Columns of one disk whose tracks are all alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    heads: u32,
    cylinders: u32,
    /// Positions on a track, and those from slot to slot.
    positions: u32,
    per_slot: u32,
    turn_ns: Time,
    /// When each position begins to pass after the index mark, and the end of the turn.
    passes_ns: Vec<u32>,
    /// Positions per nanosecond, in 1/2³²: a good guess.
    per_ns: u64,
    /// Head switch, then seeks by distance in cylinders.
    travel_ns: Vec<Time>,
    /// Position of the first slot of each track.
    first: Vec<u32>,
    words: usize,
    /// Free slots, and runs of two.
    singles: Starts,
    pairs: Starts,
}

/// Where something begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Starts {
    /// Bit per surface, by cylinder and position.
    surfaces: Vec<u64>,
    /// Bit per position that any surface has something at, by cylinder.
    occupied: Vec<u64>,
}

impl Starts {
    fn set(&mut self, column: usize, bit: u64, (word, mark): (usize, u64), begins: bool) {
        let surfaces = &mut self.surfaces[column];
        *surfaces = if begins { *surfaces | bit } else { *surfaces & !bit };
        let any = *surfaces != 0;
        let word = &mut self.occupied[word];
        *word = if any { *word | mark } else { *word & !mark };
    }
}

impl Columns {
    /// Columns without a free slot. `None` for disks that they do not suit: with a single surface
    /// or very many, with tracks of different lengths, with too many tracks.
    pub fn new(arm: &dyn Arm) -> Option<Columns> {
        let heads = arm.tracks_per_cylinder();
        let (positions, slots) = (arm.positions(0), arm.track_blocks(0).1);
        let cylinders = arm.tracks() / heads;
        let alike = (0..arm.tracks())
            .all(|track| arm.positions(track) == positions && arm.track_blocks(track).1 == slots);
        let suits = (2..=MAX_SURFACES).contains(&heads)
            && u64::from(cylinders) * u64::from(positions) <= MAX_COLUMNS;
        if !suits || !alike {
            return None;
        }
        let turn_ns = arm.turn_ns();
        let mut passes_ns: Vec<u32> =
            (0..positions).map(|position| arm.wait_ns(0, position, 0) as u32).collect();
        passes_ns.push(turn_ns as u32);
        let words = positions.div_ceil(64) as usize;
        let none = Starts {
            surfaces: vec![0; (cylinders * positions) as usize],
            occupied: vec![0; cylinders as usize * words],
        };
        Some(Columns {
            heads,
            cylinders,
            positions,
            per_slot: positions / slots,
            turn_ns,
            passes_ns,
            per_ns: (u64::from(positions) << 32) / turn_ns,
            travel_ns: (0..cylinders)
                .map(|distance| arm.travel_ns(0, (distance * heads).max(1)))
                .collect(),
            first: (0..arm.tracks()).map(|track| arm.position(track, 0)).collect(),
            words,
            singles: none.clone(),
            pairs: none,
        })
    }

    fn position(&self, track: Track, slot: u32) -> u32 {
        let position = self.first[track as usize] + slot * self.per_slot;
        if position >= self.positions { position - self.positions } else { position }
    }

    /// The first slot of a track that begins at or after a position.
    fn slot_from(&self, track: Track, position: u32) -> u32 {
        let first = self.first[track as usize];
        let turned = if position >= first { position } else { position + self.positions } - first;
        let slot = turned.div_ceil(self.per_slot);
        if slot * self.per_slot >= self.positions { 0 } else { slot }
    }

    /// Notes that a slot has become free or has been taken.
    pub fn set(&mut self, track: Track, slot: u32, free: bool) {
        let (cylinder, bit) = (track / self.heads, 1 << (track % self.heads));
        let (base, words) = ((cylinder * self.positions) as usize, cylinder as usize * self.words);
        let mark = |position: usize| (words + position / 64, 1 << (position % 64));
        let is_free = |position: usize| self.singles.surfaces[base + position] & bit != 0;
        let here = self.position(track, slot) as usize;
        let last = (slot + 1) * self.per_slot >= self.positions;
        let pair = free && !last && is_free(self.position(track, slot + 1) as usize);
        let before = slot.checked_sub(1).map(|slot| self.position(track, slot) as usize);
        let pair_before = before.map(|position| (position, free && is_free(position)));
        self.singles.set(base + here, bit, mark(here), free);
        self.pairs.set(base + here, bit, mark(here), pair);
        if let Some((position, begins)) = pair_before {
            self.pairs.set(base + position, bit, mark(position), begins);
        }
    }

    /// Rotational position after a span that may exceed the turn a little.
    fn turned(&self, angle: Time) -> Time {
        let mut angle = angle;
        while angle >= self.turn_ns {
            angle -= self.turn_ns;
        }
        angle
    }

    /// The first position that begins to pass at or after `angle`.
    fn next_position(&self, angle: Time) -> u32 {
        let mut position = ((angle * self.per_ns) >> 32) as usize;
        while Time::from(self.passes_ns[position]) < angle {
            position += 1;
        }
        while position > 0 && Time::from(self.passes_ns[position - 1]) >= angle {
            position -= 1;
        }
        if position as u32 == self.positions { 0 } else { position as u32 }
    }

    /// When a position begins to pass for someone who is over the cylinder at `at`, at `angle`.
    fn start(&self, at: Time, angle: Time, position: u32) -> Time {
        let passes = Time::from(self.passes_ns[position as usize]);
        at + passes + if passes >= angle { 0 } else { self.turn_ns } - angle
    }

    /// The free slot, or with `pairs` the first of two in a row, that passes the head first if it
    /// leaves track `from` at `at`: on another track of the cylinder or in a later one in sweep
    /// direction. Only what starts before `limit` counts.
    pub fn first(&self, from: Track, at: Time, pairs: bool, limit: Time) -> Option<Candidate> {
        let angle = at % self.turn_ns;
        let here = from / self.heads;
        let mut surfaces = !(1 << (from % self.heads));
        let (mut limit, mut found) = (limit, None);
        let starts = if pairs { &self.pairs } else { &self.singles };
        let mut cylinder = here;
        loop {
            let travel = self.travel_ns[cylinder.abs_diff(here) as usize];
            let arrival = at + travel;
            if arrival >= limit {
                break;
            }
            let angle = self.turned(angle + travel);
            let from = self.next_position(angle);
            // What passes later than `limit` need not be looked at.
            let span = ((limit - arrival).min(self.turn_ns) * self.per_ns) >> 32;
            let end = from + (span as u32 + 2).min(self.positions);
            if let Some((position, surface)) = self.cylinder(starts, cylinder, from, end, surfaces)
            {
                let start = self.start(arrival, angle, position);
                if start < limit {
                    limit = start;
                    found = Some((cylinder, position, surface));
                }
            }
            surfaces = u64::MAX;
            cylinder = if cylinder + 1 == self.cylinders { 0 } else { cylinder + 1 };
            if cylinder == here {
                break;
            }
        }
        let (cylinder, position, surface) = found?;
        let track = cylinder * self.heads + surface;
        Some(Candidate { track, slot: self.slot_from(track, position), start: limit })
    }

    /// The slot of `track` that is the first to pass a head that is over it at `at`.
    pub fn next_slot(&self, track: Track, at: Time) -> u32 {
        self.slot_from(track, self.next_position(at % self.turn_ns))
    }

    /// When a slot begins to pass for a head that is over its track at `at`.
    pub fn passes(&self, track: Track, slot: u32, at: Time) -> Time {
        self.start(at, at % self.turn_ns, self.position(track, slot))
    }

    /// The first position of a cylinder from `from` until before `end`, which may lie beyond the
    /// end of the turn, where something begins on one of `surfaces`; and the surface.
    #[inline]
    fn cylinder(
        &self,
        starts: &Starts,
        cylinder: u32,
        from: u32,
        end: u32,
        surfaces: u64,
    ) -> Option<(u32, u32)> {
        let cylinder = cylinder as usize;
        let words = &starts.occupied[cylinder * self.words..][..self.words];
        let columns = &starts.surfaces[cylinder * self.positions as usize..];
        let mut index = from as usize / 64;
        let mut bits = words[index] & (u64::MAX << (from % 64));
        // Positions are counted on beyond the end of the turn.
        let mut turns = 0;
        loop {
            while bits != 0 {
                let position = index as u32 * 64 + bits.trailing_zeros();
                if turns + position >= end {
                    return None;
                }
                let found = columns[position as usize] & surfaces;
                if found != 0 {
                    return Some((position, found.trailing_zeros()));
                }
                bits &= bits - 1;
            }
            index += 1;
            if index == words.len() {
                index = 0;
                turns += self.positions;
            }
            if turns + index as u32 * 64 >= end {
                return None;
            }
            bits = words[index];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::units::BlockNr;

    const HEADS: u32 = 3;
    const CYLINDERS: u32 = 5;
    const SLOTS: u32 = 37;
    const PER_SLOT: u32 = 4;
    const TURN: u32 = SLOTS * PER_SLOT;

    /// A small disk on which a position takes 10 ns.
    #[derive(Debug)]
    struct Small;

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

    /// What [`Columns::first`] must find, by looking at every slot.
    fn plainly(free: &[bool], from: Track, at: Time, pairs: bool, limit: Time) -> Option<Time> {
        let is_free = |track: Track, slot: u32| {
            let here = free[(track * SLOTS + slot) as usize];
            here && (!pairs || slot + 1 < SLOTS && free[(track * SLOTS + slot + 1) as usize])
        };
        let mut best = limit;
        for ahead in 0..CYLINDERS {
            let cylinder = (from / HEADS + ahead) % CYLINDERS;
            let tracks = (cylinder * HEADS..(cylinder + 1) * HEADS).filter(|&track| track != from);
            let soonest = tracks.clone().map(|track| at + Small.travel_ns(from, track)).min()?;
            if soonest >= best {
                break;
            }
            for track in tracks {
                let arrival = at + Small.travel_ns(from, track);
                for slot in (0..SLOTS).filter(|&slot| is_free(track, slot)) {
                    let angle = arrival % Small.turn_ns();
                    let wait = Small.wait_ns(track, Small.position(track, slot), angle);
                    best = best.min(arrival + wait);
                }
            }
        }
        (best < limit).then_some(best)
    }

    #[test]
    fn finds_what_a_look_at_every_slot_finds() {
        let mut columns = Columns::new(&Small).expect("suits");
        let mut free = vec![false; (HEADS * CYLINDERS * SLOTS) as usize];
        let mut rng = Rng::stream(4, "columns");
        for round in 0..30_000 {
            let block = rng.below(free.len() as u64) as u32;
            // From a full disk to one that is almost free, and back.
            let fuller = round % 2000 < 1000;
            free[block as usize] = rng.chance(if fuller { 0.1 } else { 0.9 });
            columns.set(block / SLOTS, block % SLOTS, free[block as usize]);
            let from = rng.below(u64::from(HEADS * CYLINDERS)) as Track;
            let at = rng.below(100_000);
            for pairs in [false, true] {
                let limit = if rng.chance(0.3) { Time::MAX } else { at + rng.below(2000) };
                let found = columns.first(from, at, pairs, limit);
                let expected = plainly(&free, from, at, pairs, limit);
                assert_eq!(found.map(|found| found.start), expected, "round {round}");
                if let Some(Candidate { track, slot, .. }) = found {
                    assert!(free[(track * SLOTS + slot) as usize]);
                    assert!(!pairs || free[(track * SLOTS + slot + 1) as usize]);
                }
            }
            let slot = columns.next_slot(from, at);
            assert_eq!(slot, Small.next_slot(from, at % Small.turn_ns()));
            let wait = Small.wait_ns(from, Small.position(from, slot), at % Small.turn_ns());
            assert_eq!(columns.passes(from, slot, at), at + wait);
        }
    }
}
