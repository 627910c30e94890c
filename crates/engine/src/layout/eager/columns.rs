//! Free slots by rotational position: for each cylinder and position, which surfaces have a free
//! slot that begins there. The first one to pass is found with a few word operations per cylinder,
//! whatever the number of tracks. What the search needs of the mechanics is kept in tables beside
//! them: this is the innermost loop of eager writing.
//!
//! Positions are counted in *cells*, the coarsest unit on which the slots of all tracks begin, and
//! on beyond the end of the turn: what has the smaller number passes the head first, so nothing is
//! converted to time before the winner is known.

use super::freemap::FreeMap;
use crate::arm::{Arm, Track};
use crate::units::Time;

/// Most surfaces that a column has bits for.
const MAX_SURFACES: u32 = 32;
/// Columns beyond which a disk is searched track by track: 32 MiB of memory.
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
    shape: Shape,
    /// Cells from slot to slot, slots on a track.
    per_slot: u32,
    slots: u32,
    turn_ns: Time,
    /// Time for a slot to pass, rounded up.
    slot_ns: Time,
    /// When each cell begins to pass after the index mark, and the end of the turn.
    passes_ns: Vec<u32>,
    /// Cells per nanosecond, in 1/2⁶⁴.
    per_ns: u64,
    /// Head switch, then seeks by distance in cylinders.
    travel_ns: Vec<Time>,
    /// Cell of the first slot of each track.
    first: Vec<u32>,
    /// Free slots, and runs of two.
    singles: Starts,
    pairs: Starts,
}

/// Where something begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Starts {
    /// Bit per surface, by cylinder and cell.
    surfaces: Vec<u32>,
    /// Bit per cell that any surface has something at, by cylinder; beyond the end of the turn the
    /// cells of its beginning come again, so that 64 bits from any cell on lie in two words.
    occupied: Vec<u64>,
}

impl Starts {
    /// Notes what begins at a cell of a cylinder, for one surface.
    fn set(&mut self, shape: &Shape, cylinder: u32, cell: u32, surface: u32, begins: bool) {
        let surfaces = &mut self.surfaces[(cylinder * shape.cells + cell) as usize];
        let had = *surfaces != 0;
        *surfaces = *surfaces & !(1 << surface) | u32::from(begins) << surface;
        let flip = u64::from(had != (*surfaces != 0));
        let (first, mut at) = (cylinder as usize * shape.words, cell as usize);
        for _ in 0..shape.copies {
            self.occupied[first + at / 64] ^= flip << (at % 64);
            at += shape.cells as usize;
        }
    }

    /// Which of the 64 cells from `cell` on are occupied.
    fn window(&self, first_word: usize, cell: u32) -> u64 {
        let (word, bit) = (first_word + cell as usize / 64, cell % 64);
        self.occupied[word] >> bit | self.occupied[word + 1] << 1 << (63 - bit)
    }
}

/// The measures of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Cells on a track.
    cells: u32,
    /// How often they come in [`Starts::occupied`], and words for that, by cylinder.
    copies: u32,
    words: usize,
}

/// A search: the first of `run` free slots in a row that pass a head that leaves track `from` at
/// `at`. Only what starts before `limit` counts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Where the head is.
    pub from: Track,
    /// When it may leave.
    pub at: Time,
    /// Slots in a row, at least 1; columns know runs of one and two.
    pub run: u32,
    /// Before when the first one must start.
    pub limit: Time,
    /// Only on tracks with blocks in use, and not on this one.
    pub holes_beside: Option<Track>,
}

impl Wanted {
    /// A single slot, wherever and whenever it passes first.
    pub fn single(from: Track, at: Time) -> Wanted {
        Wanted { from, at, run: 1, limit: Time::MAX, holes_beside: None }
    }
}

/// What a search has found so far, counted in cells since the index mark before it began.
struct Search {
    /// When that index mark passed, and how long before the search.
    origin: Time,
    angle: Time,
    pairs: bool,
    holes_beside: Option<Track>,
    /// What is found from now on must pass before this cell and this time.
    end: u32,
    limit: Time,
    found: Option<(Track, u32)>,
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Columns {
    /// Columns without a free slot. `None` for disks that they do not suit: with very many
    /// surfaces, with tracks of different lengths, with too many tracks.
    pub fn new(arm: &dyn Arm) -> Option<Columns> {
        let heads = arm.tracks_per_cylinder();
        let (positions, slots) = (arm.positions(0), arm.track_blocks(0).1);
        let cylinders = arm.tracks() / heads;
        let alike = (0..arm.tracks())
            .all(|track| arm.positions(track) == positions && arm.track_blocks(track).1 == slots);
        let suits = heads <= MAX_SURFACES
            && positions.is_multiple_of(slots)
            && u64::from(cylinders) * u64::from(positions) <= MAX_COLUMNS;
        if !suits || !alike {
            return None;
        }
        let first: Vec<u32> = (0..arm.tracks()).map(|track| arm.position(track, 0)).collect();
        let per_cell = first.iter().fold(positions / slots, |unit, &first| gcd(unit, first));
        let (cells, turn_ns) = (positions / per_cell, arm.turn_ns());
        let mut passes_ns: Vec<u32> =
            (0..cells).map(|cell| arm.wait_ns(0, cell * per_cell, 0) as u32).collect();
        passes_ns.push(turn_ns as u32);
        let even = |cell: u32| u64::from(cell) * turn_ns / u64::from(cells);
        if (0..=cells).any(|cell| u64::from(passes_ns[cell as usize]) != even(cell)) {
            return None;
        }
        let copies = 1 + 64_u32.div_ceil(cells);
        let shape = Shape { cells, copies, words: (cells * copies).div_ceil(64) as usize + 1 };
        let none = Starts {
            surfaces: vec![0; (cylinders * cells) as usize],
            occupied: vec![0; cylinders as usize * shape.words],
        };
        Some(Columns {
            heads,
            cylinders,
            shape,
            per_slot: cells / slots,
            slots,
            turn_ns,
            slot_ns: arm.transfer_ns(0, 1),
            passes_ns,
            // Exact to less than a nanosecond: cells are longer.
            per_ns: ((u128::from(cells) << 64) / u128::from(turn_ns)) as u64,
            travel_ns: (0..cylinders)
                .map(|distance| arm.travel_ns(0, (distance * heads).max(1)))
                .collect(),
            first: first.iter().map(|position| position / per_cell).collect(),
            singles: none.clone(),
            pairs: none,
        })
    }

    /// Time for a slot to pass, rounded up, in nanoseconds.
    pub fn slot_ns(&self) -> Time {
        self.slot_ns
    }

    fn cell(&self, track: Track, slot: u32) -> u32 {
        let cell = self.first[track as usize] + slot * self.per_slot;
        if cell >= self.shape.cells { cell - self.shape.cells } else { cell }
    }

    /// Cells from the first slot of a track on to `cell`.
    fn behind_first(&self, track: Track, cell: u32) -> u32 {
        let first = self.first[track as usize];
        if cell >= first { cell - first } else { cell + self.shape.cells - first }
    }

    /// Notes that a slot has become free or has been taken; `before` and `behind` say whether its
    /// neighbours on the track are free.
    pub fn set(&mut self, track: Track, slot: u32, free: bool, before: bool, behind: bool) {
        let (cylinder, surface) = (track / self.heads, track % self.heads);
        let shape = &self.shape;
        let cell = self.cell(track, slot);
        self.singles.set(shape, cylinder, cell, surface, free);
        self.pairs.set(shape, cylinder, cell, surface, free && behind);
        // Before the first slot of a track there is the last one, where no run begins.
        let cell = if cell >= self.per_slot { cell } else { cell + shape.cells } - self.per_slot;
        self.pairs.set(shape, cylinder, cell, surface, free && before);
    }

    /// The first cell that begins to pass at or after a time since an index mark, counted on
    /// beyond the end of the turn.
    fn next_cell(&self, since: Time) -> u32 {
        // The beginning of each cell is rounded down to whole nanoseconds, so rounding the
        // quotient up makes the two agree.
        ((u128::from(since) * u128::from(self.per_ns) + u128::from(u64::MAX)) >> 64) as u32
    }

    /// A cell within the turn, from one that is counted on.
    fn within(&self, cell: u32) -> u32 {
        let mut cell = cell;
        while cell >= self.shape.cells {
            cell -= self.shape.cells;
        }
        cell
    }

    fn begin(&self, wanted: &Wanted) -> Search {
        let angle = wanted.at % self.turn_ns;
        let origin = wanted.at - angle;
        // Nothing is further away than the longest way and a turn: a later limit is none.
        let end = match wanted.limit.saturating_sub(origin) {
            since if since >= 64 * self.turn_ns => u32::MAX,
            since => self.next_cell(since),
        };
        let Wanted { run, limit, holes_beside, .. } = *wanted;
        debug_assert!((1..=2).contains(&run));
        Search { origin, angle, pairs: run == 2, holes_beside, end, limit, found: None }
    }

    /// Something begins on a track at a cell, which is counted on; `within` the turn it is that.
    fn offer(&self, search: &mut Search, track: Track, cell: u32, within: u32) {
        if cell < search.end {
            let turns = Time::from((cell - within) / self.shape.cells);
            search.end = cell;
            search.limit =
                search.origin + turns * self.turn_ns + Time::from(self.passes_ns[within as usize]);
            search.found = Some((track, within));
        }
    }

    fn result(&self, search: &Search) -> Option<Candidate> {
        let (track, cell) = search.found?;
        let slot = self.behind_first(track, cell) / self.per_slot;
        Some(Candidate { track, slot, start: search.limit })
    }

    /// The best slot of one track only.
    pub fn on_track(&self, free: &FreeMap, track: Track, wanted: &Wanted) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        let (here, there) = (wanted.from / self.heads, track / self.heads);
        let travel = match track {
            track if track == wanted.from => 0,
            _ => self.travel_ns[there.abs_diff(here) as usize],
        };
        self.track(&mut search, free, track, travel);
        self.result(&search)
    }

    /// The best slot: on the track where the head is, on another one of the cylinder, or in a
    /// later cylinder in sweep direction.
    pub fn best(&self, free: &FreeMap, wanted: &Wanted) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        self.track(&mut search, free, wanted.from, 0);
        let here = wanted.from / self.heads;
        let mut surfaces = !(1 << (wanted.from % self.heads));
        let mut cylinder = here;
        loop {
            let travel = self.travel_ns[cylinder.abs_diff(here) as usize];
            if wanted.at + travel >= search.limit {
                break;
            }
            if let Some(victim) = wanted.holes_beside {
                surfaces &= free.mixed_tracks(cylinder * self.heads, self.heads);
                let first = victim.wrapping_sub(cylinder * self.heads);
                surfaces &= !1_u32.checked_shl(first).unwrap_or(0);
            }
            self.cylinder(&mut search, cylinder, travel, surfaces);
            surfaces = u32::MAX;
            cylinder = if cylinder + 1 == self.cylinders { 0 } else { cylinder + 1 };
            if cylinder == here {
                break;
            }
        }
        self.result(&search)
    }

    /// The best slot whichever way the arm has to move.
    pub fn around(&self, free: &FreeMap, wanted: &Wanted) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        self.track(&mut search, free, wanted.from, 0);
        let here = wanted.from / self.heads;
        let others = !(1 << (wanted.from % self.heads));
        for (distance, &travel) in (0..self.cylinders).zip(&self.travel_ns) {
            if wanted.at + travel >= search.limit {
                break;
            }
            let surfaces = if distance == 0 { others } else { u32::MAX };
            if let Some(below) = here.checked_sub(distance) {
                self.cylinder(&mut search, below, travel, surfaces);
            }
            let above = here + distance;
            if distance > 0 && above < self.cylinders {
                self.cylinder(&mut search, above, travel, surfaces);
            }
        }
        self.result(&search)
    }

    /// Looks at one track, which its own bitmap shows slot by slot.
    fn track(&self, search: &mut Search, free: &FreeMap, track: Track, travel: Time) {
        let may = search.holes_beside.is_none_or(|victim| free.is_hole(track, victim));
        if !may || free.free_on(track) <= u32::from(search.pairs) {
            return;
        }
        let from = self.next_cell(search.angle + travel);
        let angle = self.within(from);
        let next = self.behind_first(track, angle).div_ceil(self.per_slot);
        let next = if next == self.slots { 0 } else { next };
        let slot =
            if search.pairs { free.next_pair(track, next) } else { free.next_free(track, next) };
        let Some(slot) = slot else { return };
        let within = self.cell(track, slot);
        let turned = if within < angle { self.shape.cells } else { 0 };
        self.offer(search, track, from - angle + turned + within, within);
    }

    /// Looks at `surfaces` of a cylinder, from the first cell on that passes after `travel`.
    fn cylinder(&self, search: &mut Search, cylinder: u32, travel: Time, surfaces: u32) {
        let mut from = self.next_cell(search.angle + travel);
        let mut left = search.end.saturating_sub(from).min(self.shape.cells);
        let starts = if search.pairs { &self.pairs } else { &self.singles };
        while left > 0 {
            let (angle, span) = (self.within(from), left.min(64));
            let window = starts.window(cylinder as usize * self.shape.words, angle);
            let mut bits = window & (u64::MAX >> (64 - span));
            while bits != 0 {
                let ahead = bits.trailing_zeros();
                let within = self.within(angle + ahead);
                let column = cylinder * self.shape.cells + within;
                let found = starts.surfaces[column as usize] & surfaces;
                if found != 0 {
                    let track = cylinder * self.heads + found.trailing_zeros();
                    self.offer(search, track, from + ahead, within);
                    return;
                }
                bits &= bits - 1;
            }
            from += span;
            left -= span;
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
}
