//! Free slots by rotational position: for each position, which cylinders have a free slot that
//! begins there, and on which surfaces. The first one to pass is found by going through the
//! positions in the order in which they pass, a few word operations each, whatever the number of
//! tracks. What the search needs of the mechanics is kept in tables beside them: this is the
//! innermost loop of eager writing.
//!
//! Positions are counted in *cells*, the coarsest unit on which the slots of all tracks begin, and
//! on beyond the end of the turn: what has the smaller number passes the head first, so nothing is
//! converted to time before the winner is known.

use super::freemap::FreeMap;
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::Time;

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
    /// Cells on a track.
    cells: u32,
    /// Cells from slot to slot.
    per_slot: u32,
    /// By cells behind the first slot of a track: the slot that a cell belongs to, and the next one
    /// to begin.
    slot_of: Vec<u32>,
    slot_from: Vec<u32>,
    turn: Turn,
    /// Time for a slot to pass, rounded up.
    slot_ns: Time,
    /// When each cell begins to pass after the index mark, and the end of the turn.
    passes_ns: Vec<u32>,
    /// Cells per nanosecond, in 1/2⁶⁴.
    per_ns: u64,
    /// Head switch, then seeks by distance in cylinders; ascending.
    travel_ns: Vec<Time>,
    /// Where the tracks are.
    lanes: Vec<Lane>,
    /// Free slots, and runs of two.
    singles: Starts,
    pairs: Starts,
}

/// Where a track is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lane {
    cylinder: u32,
    surface: u32,
    /// Cell of its first slot.
    first: u32,
}

/// A turn of the platter in nanoseconds, ready to divide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    ns: Time,
    /// 2⁶⁴ over that, rounded down.
    inverse: u64,
}

impl Turn {
    fn new(ns: Time) -> Turn {
        Turn { ns, inverse: ((1_u128 << 64) / u128::from(ns.max(2))) as u64 }
    }

    /// Time since the turn began that is under way at `at`.
    fn since(&self, at: Time) -> Time {
        // The product is less than the quotient by less than two, since both are below 2⁶⁴.
        let turns = ((u128::from(at) * u128::from(self.inverse)) >> 64) as u64;
        let mut since = at - turns * self.ns;
        while since >= self.ns {
            since -= self.ns;
        }
        since
    }
}

/// Where something begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Starts {
    /// Bit per surface, by cylinder and cell.
    surfaces: Vec<u32>,
    /// Bit per cylinder that any surface of has something, by cell.
    cylinders: Vec<u64>,
    /// Words of the latter for each cell.
    words: usize,
}

impl Starts {
    /// Notes what begins at a cell of a cylinder, for one surface.
    #[inline]
    fn set(&mut self, cells: u32, lane: &Lane, cell: u32, begins: bool) {
        let cylinder = lane.cylinder as usize;
        let surfaces = &mut self.surfaces[cylinder * cells as usize + cell as usize];
        let before = *surfaces;
        let after = before & !(1 << lane.surface) | u32::from(begins) << lane.surface;
        if before == after {
            return;
        }
        *surfaces = after;
        if (before == 0) != (after == 0) {
            self.cylinders[cell as usize * self.words + cylinder / 64] ^= 1 << (cylinder % 64);
        }
    }

    /// The cylinders that have something at a cell.
    #[inline]
    fn row(&self, cell: u32) -> &[u64] {
        &self.cylinders[cell as usize * self.words..][..self.words]
    }
}

/// The lowest number in `low..=high` whose bit is set.
#[inline]
fn lowest(row: &[u64], low: u32, high: u32) -> Option<u32> {
    if let &[bits] = row {
        let bits = bits & (u64::MAX << low) & (u64::MAX >> (63 - high));
        return (bits != 0).then(|| bits.trailing_zeros());
    }
    let last = high as usize / 64;
    let mut word = low as usize / 64;
    let mut bits = row[word] & (u64::MAX << (low % 64));
    loop {
        if word == last {
            bits &= u64::MAX >> (63 - high % 64);
        }
        if bits != 0 {
            return Some(word as u32 * 64 + bits.trailing_zeros());
        }
        if word == last {
            return None;
        }
        word += 1;
        bits = row[word];
    }
}

/// The highest number in `low..=high` whose bit is set.
#[inline]
fn highest(row: &[u64], low: u32, high: u32) -> Option<u32> {
    let last = low as usize / 64;
    let mut word = high as usize / 64;
    let mut bits = row[word] & (u64::MAX >> (63 - high % 64));
    loop {
        if word == last {
            bits &= u64::MAX << (low % 64);
        }
        if bits != 0 {
            return Some(word as u32 * 64 + 63 - bits.leading_zeros());
        }
        if word == last {
            return None;
        }
        word -= 1;
        bits = row[word];
    }
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

/// Cylinders that the arm may go to, and which of several it takes.
struct Span {
    here: u32,
    low: u32,
    high: u32,
    /// The nearest one, the one below first; otherwise the lowest one.
    nearest: bool,
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
        let words = cylinders.div_ceil(64) as usize;
        let none = Starts {
            surfaces: vec![0; (cylinders * cells) as usize],
            cylinders: vec![0; cells as usize * words],
            words,
        };
        // The next track stands for all of the same cylinder; a disk of one track has none.
        let to = |distance: u32| (distance * heads).max(1).min(arm.tracks() - 1);
        let mut travel_ns: Vec<Time> =
            (0..cylinders).map(|distance| arm.travel_ns(0, to(distance))).collect();
        // A head switch may take longer than a short seek; no search goes there before it.
        for distance in 1..travel_ns.len() {
            travel_ns[distance] = travel_ns[distance].max(travel_ns[distance - 1]);
        }
        let lane = |(track, position): (u32, &u32)| Lane {
            cylinder: track / heads,
            surface: track % heads,
            first: position / per_cell,
        };
        Some(Columns {
            heads,
            cylinders,
            cells,
            per_slot: cells / slots,
            slot_of: (0..cells).map(|cell| cell / (cells / slots)).collect(),
            slot_from: (0..cells).map(|cell| cell.div_ceil(cells / slots) % slots).collect(),
            turn: Turn::new(turn_ns),
            slot_ns: arm.transfer_ns(0, 1),
            passes_ns,
            // Exact to less than a nanosecond: cells are longer.
            per_ns: ((u128::from(cells) << 64) / u128::from(turn_ns)) as u64,
            travel_ns,
            lanes: (0..).zip(&first).map(lane).collect(),
            singles: none.clone(),
            pairs: none,
        })
    }

    /// Time for a slot to pass, rounded up, in nanoseconds.
    pub fn slot_ns(&self) -> Time {
        self.slot_ns
    }

    #[inline]
    fn cell(&self, lane: &Lane, slot: u32) -> u32 {
        let cell = lane.first + slot * self.per_slot;
        if cell >= self.cells { cell - self.cells } else { cell }
    }

    /// Cells from the first slot of a track on to `cell`.
    fn behind_first(&self, lane: &Lane, cell: u32) -> u32 {
        if cell >= lane.first { cell - lane.first } else { cell + self.cells - lane.first }
    }

    /// Notes that a slot has become free or has been taken; `before` and `behind` say whether its
    /// neighbours on the track are free.
    #[inline(always)]
    pub fn set(&mut self, track: Track, slot: u32, free: bool, before: bool, behind: bool) {
        let lane = self.lanes[track as usize];
        let cell = self.cell(&lane, slot);
        self.singles.set(self.cells, &lane, cell, free);
        if behind {
            self.pairs.set(self.cells, &lane, cell, free);
        }
        if before {
            let cell = if cell >= self.per_slot { cell } else { cell + self.cells };
            self.pairs.set(self.cells, &lane, cell - self.per_slot, free);
        }
    }

    /// The first cell that begins to pass at or after a time since an index mark, counted on
    /// beyond the end of the turn.
    fn next_cell(&self, since: Time) -> u32 {
        // The beginning of each cell is rounded down to whole nanoseconds, so rounding the
        // quotient up makes the two agree.
        ((u128::from(since) * u128::from(self.per_ns) + u128::from(u64::MAX)) >> 64) as u32
    }

    /// A cell within the turn, from one that is counted on, and when that turn begins.
    fn within(&self, cell: u32) -> (u32, Time) {
        let (mut cell, mut turned_ns) = (cell, 0);
        while cell >= self.cells {
            cell -= self.cells;
            turned_ns += self.turn.ns;
        }
        (cell, turned_ns)
    }

    fn begin(&self, wanted: &Wanted) -> Search {
        let angle = self.turn.since(wanted.at);
        let origin = wanted.at - angle;
        // Nothing is further away than the longest way and a turn: a later limit is none.
        let end = match wanted.limit.saturating_sub(origin) {
            since if since >= 64 * self.turn.ns => u32::MAX,
            since => self.next_cell(since),
        };
        let Wanted { run, limit, holes_beside, .. } = *wanted;
        debug_assert!((1..=2).contains(&run));
        Search { origin, angle, pairs: run == 2, holes_beside, end, limit, found: None }
    }

    /// Something begins on a track at a cell, which is counted on; within the turn that begins
    /// after `turned_ns` it is `within`.
    #[inline]
    fn offer(
        &self,
        search: &mut Search,
        track: Track,
        cell: u32,
        (within, turned_ns): (u32, Time),
    ) {
        if cell < search.end {
            search.end = cell;
            search.limit = search.origin + turned_ns + Time::from(self.passes_ns[within as usize]);
            search.found = Some((track, within));
        }
    }

    fn result(&self, search: &Search) -> Option<Candidate> {
        let (track, cell) = search.found?;
        let behind = self.behind_first(&self.lanes[track as usize], cell);
        let slot = self.slot_of[behind as usize];
        Some(Candidate { track, slot, start: search.limit })
    }

    /// The best slot of one track only.
    pub fn on_track(&self, free: &FreeMap, track: Track, wanted: &Wanted) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        let cylinder = |track: Track| self.lanes[track as usize].cylinder;
        let travel = match track {
            track if track == wanted.from => 0,
            _ => self.travel_ns[cylinder(track).abs_diff(cylinder(wanted.from)) as usize],
        };
        self.track(&mut search, free, track, travel);
        self.result(&search)
    }

    /// The best slot: on the track where the head is, on another one of the cylinder, or in a
    /// later cylinder in sweep direction.
    pub fn best(&self, free: &FreeMap, wanted: &Wanted) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        self.track(&mut search, free, wanted.from, 0);
        let here = self.lanes[wanted.from as usize].cylinder;
        let last = self.cylinders - 1;
        let in_words = self.singles.words == 1 && wanted.holes_beside.is_none();
        match in_words {
            true => self.sweep_word(&mut search, here, true),
            false => {
                let span = Span { here, low: here, high: last, nearest: false };
                self.sweep(&mut search, free, &span);
            }
        }
        // Behind the last cylinder comes the first one, unless the arm would not get to the last
        // one in time.
        let swept = wanted.at + self.travel_ns[(last - here) as usize];
        let found = search.found.map(|(track, _)| self.lanes[track as usize].cylinder);
        let goes_on = swept < search.limit || swept == search.limit && found == Some(last);
        if here > 0 && goes_on && wanted.at + self.travel_ns[here as usize] < search.limit {
            match in_words {
                true => self.sweep_word(&mut search, here, false),
                false => {
                    let span = Span { here, low: 0, high: here - 1, nearest: false };
                    self.sweep(&mut search, free, &span);
                }
            }
        }
        self.result(&search)
    }

    /// The best slot whichever way the arm has to move, on cylinders from `low` to `high`.
    pub fn around(
        &self,
        free: &FreeMap,
        wanted: &Wanted,
        (low, high): (u32, u32),
    ) -> Option<Candidate> {
        let mut search = self.begin(wanted);
        let here = self.lanes[wanted.from as usize].cylinder;
        let high = high.min(self.cylinders - 1);
        if (low..=high).contains(&here) {
            self.track(&mut search, free, wanted.from, 0);
        }
        self.sweep(&mut search, free, &Span { here, low, high, nearest: true });
        self.result(&search)
    }

    /// Looks at one track, which its own bitmap shows slot by slot.
    #[inline(always)]
    fn track(&self, search: &mut Search, free: &FreeMap, track: Track, travel: Time) {
        let may = search.holes_beside.is_none_or(|victim| free.is_hole(track, victim));
        if !may || free.free_on(track) <= u32::from(search.pairs) {
            return;
        }
        let from = self.next_cell(search.angle + travel);
        let (angle, mut turned_ns) = self.within(from);
        let lane = &self.lanes[track as usize];
        let next = self.slot_from[self.behind_first(lane, angle) as usize];
        let slot =
            if search.pairs { free.next_pair(track, next) } else { free.next_free(track, next) };
        let Some(slot) = slot else { return };
        let within = self.cell(lane, slot);
        let mut cell = from - angle + within;
        if within < angle {
            cell += self.cells;
            turned_ns += self.turn.ns;
        }
        self.offer(search, track, cell, (within, turned_ns));
    }

    /// Looks at cylinders, cell by cell in the order of passing; at each at those that the arm has
    /// reached by then.
    fn sweep(&self, search: &mut Search, free: &FreeMap, span: &Span) {
        let Span { here, low, high, .. } = *span;
        let farthest = here.saturating_sub(low).max(high.saturating_sub(here));
        let mut distance = here.saturating_sub(high).max(low.saturating_sub(here));
        let travel_ns = &self.travel_ns[..=farthest as usize];
        let mut cell = self.next_cell(search.angle + travel_ns[distance as usize]);
        if cell >= search.end {
            return;
        }
        // A turn after the last one has been reached, everything has passed.
        let end = match search.end {
            u32::MAX => self.next_cell(search.angle + travel_ns[farthest as usize]) + self.cells,
            end => end,
        };
        let starts = if search.pairs { &self.pairs } else { &self.singles };
        let (mut within, mut turned_ns) = self.within(cell);
        while cell < end {
            // The time that the arm has had when the cell begins to pass.
            let away = turned_ns + Time::from(self.passes_ns[within as usize]) - search.angle;
            while distance < farthest && travel_ns[distance as usize + 1] <= away {
                distance += 1;
            }
            let reach = Span {
                low: here.saturating_sub(distance).max(low),
                high: (here + distance).min(high),
                ..*span
            };
            if let Some((cylinder, surfaces)) = self.pick(search, starts, free, within, &reach) {
                let track = cylinder * self.heads + surfaces.trailing_zeros();
                self.offer(search, track, cell, (within, turned_ns));
                return;
            }
            cell += 1;
            within += 1;
            if within == self.cells {
                within = 0;
                turned_ns += self.turn.ns;
            }
        }
    }

    /// The same where a word has a bit for each cylinder, as on most disks in the papers: `ahead`
    /// for this cylinder and those behind it in sweep direction, otherwise for those before it. A
    /// comparison for each cell, up to where the arm reaches the next cylinder.
    #[inline(always)]
    fn sweep_word(&self, search: &mut Search, here: u32, ahead: bool) {
        let (mut distance, farthest, mut reach) = match ahead {
            true => (0, self.cylinders - 1 - here, 1_u64 << here),
            false => (1, here, 1_u64 << here >> 1),
        };
        let travel_ns = &self.travel_ns[..=farthest as usize];
        let reached = |distance: u32| self.next_cell(search.angle + travel_ns[distance as usize]);
        let mut cell = reached(distance);
        // A turn after the last one has been reached, everything has passed.
        let end = match search.end {
            u32::MAX => reached(farthest) + self.cells,
            end => end,
        };
        let starts = if search.pairs { &self.pairs } else { &self.singles };
        let (mut within, mut turned_ns) = self.within(cell);
        while cell < end {
            let mut stop = end.min(cell + self.cells - within);
            while distance < farthest {
                let next = reached(distance + 1);
                if next > cell {
                    stop = stop.min(next);
                    break;
                }
                distance += 1;
                reach |= if ahead { reach << 1 } else { reach >> 1 };
            }
            let run = &starts.cylinders[within as usize..][..(stop - cell) as usize];
            if let Some(passed) = run.iter().position(|bits| bits & reach != 0) {
                let (cell, within) = (cell + passed as u32, within + passed as u32);
                let cylinder = (run[passed] & reach).trailing_zeros();
                let surfaces = starts.surfaces[(cylinder * self.cells + within) as usize];
                let track = cylinder * self.heads + surfaces.trailing_zeros();
                return self.offer(search, track, cell, (within, turned_ns));
            }
            within += stop - cell;
            cell = stop;
            if within == self.cells {
                within = 0;
                turned_ns += self.turn.ns;
            }
        }
    }

    /// Which cylinder of a span to go to for what begins at a cell, and the surfaces that have it.
    #[inline]
    fn pick(
        &self,
        search: &Search,
        starts: &Starts,
        free: &FreeMap,
        cell: u32,
        span: &Span,
    ) -> Option<(u32, u32)> {
        let &Span { here, high, nearest, .. } = span;
        let row = starts.row(cell);
        let surfaces = |cylinder: u32| {
            starts.surfaces[cylinder as usize * self.cells as usize + cell as usize]
        };
        if nearest {
            let (low, top) = (span.low, here.min(high));
            let below = if low <= top { highest(row, low, top) } else { None };
            let above = if here < high { lowest(row, low.max(here + 1), high) } else { None };
            let cylinder = match (below, above) {
                (Some(below), Some(above)) if here - below > above - here => above,
                (Some(below), _) => below,
                (None, above) => above?,
            };
            return Some((cylinder, surfaces(cylinder)));
        }
        let mut low = span.low;
        loop {
            let cylinder = lowest(row, low, high)?;
            let mut found = surfaces(cylinder);
            if let Some(victim) = search.holes_beside {
                found &= free.mixed_tracks(cylinder * self.heads, self.heads);
                let first = victim.wrapping_sub(cylinder * self.heads);
                found &= !1_u32.checked_shl(first).unwrap_or(0);
            }
            if found != 0 {
                return Some((cylinder, found));
            }
            if cylinder == high {
                return None;
            }
            low = cylinder + 1;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
