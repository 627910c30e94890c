//! The volatile write-back cache: which sectors wait, since when, and which go out next.
//!
//! Extents never overlap. What is overwritten while it waits is never written out; what follows
//! something that waits joins it. The head sweeps upwards over the sectors and begins anew below.

use crate::spec::{WriteBack, ns};
use seekless_engine::units::Time;
use std::collections::BTreeMap;

/// Extents that join others grow no longer than this (1 MiB), so that no command waits for more.
const LONGEST: u64 = 2048;

/// Sectors that wait in one piece.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Behind the last one.
    end: u64,
    /// When the cache has all of them.
    ready: Time,
}

/// Sectors on their way to the platter.
#[derive(Clone, Copy, Debug, Default)]
struct Leaving {
    start: u64,
    end: u64,
    /// When the last of them has passed the head: until then they take room and can be read.
    until: Time,
}

/// What waits in the cache.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    rules: WriteBack,
    /// Waits this long without a command before writing out.
    pub(super) idle: Time,
    /// Writes that continue what waits join it.
    combine: bool,
    extents: BTreeMap<u64, Extent>,
    sectors: u64,
    leaving: Leaving,
    /// Where the sweep goes on.
    sweep: u64,
    /// Since when more than half of the room is taken.
    pressed: Option<Time>,
}

impl Dirty {
    pub(super) fn new(rules: WriteBack, combine: bool) -> Dirty {
        Dirty {
            rules,
            idle: ns(rules.idle_ms),
            combine,
            extents: BTreeMap::new(),
            sectors: 0,
            leaving: Leaving::default(),
            sweep: 0,
            pressed: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Since when more than half of the room is taken, if it is: the disk then no longer waits for
    /// idleness.
    pub(super) fn pressed(&self) -> Option<Time> {
        self.pressed
    }

    /// True if the cache can hold so many sectors at all.
    pub(super) fn fits(&self, sectors: u32) -> bool {
        sectors <= self.rules.sectors
    }

    /// True if a write can be taken at `at`.
    pub(super) fn has_room(&self, start: u64, end: u64, at: Time) -> bool {
        let held = self.held(start, end);
        let mut taken = self.sectors + (end - start) - held;
        let mut writes = self.extents.len() + usize::from(held < end - start);
        if self.leaving.until > at {
            taken += self.leaving.end - self.leaving.start;
            writes += 1;
        }
        taken <= u64::from(self.rules.sectors) && writes <= self.rules.writes as usize
    }

    /// When what is on its way to the platter has arrived.
    pub(super) fn leaving_until(&self) -> Time {
        self.leaving.until
    }

    /// Sectors of a range that wait.
    fn held(&self, start: u64, end: u64) -> u64 {
        let pieces = self.overlapping(start, end);
        pieces.map(|(at, extent)| extent.end.min(end) - at.max(start)).sum()
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Extent)> + '_ {
        let before = self.extents.range(..start).next_back();
        let before = before.filter(move |(_, extent)| extent.end > start);
        // An empty range has nothing in it, and `range` refuses one that runs backwards.
        let inside = self.extents.range(start..end.max(start));
        before.into_iter().chain(inside).map(|(&at, &extent)| (at, extent))
    }

    /// True if all sectors of a range can be read from here at `at`.
    pub(super) fn covers(&self, start: u64, end: u64, at: Time) -> bool {
        if self.leaving.until > at && self.leaving.start <= start && end <= self.leaving.end {
            return true;
        }
        self.held(start, end) == end - start
    }

    /// True if something that waits ends where a write begins.
    pub(super) fn ends_at(&self, start: u64) -> bool {
        let before = self.extents.range(..start).next_back();
        before.is_some_and(|(_, extent)| extent.end == start)
    }

    /// Sectors wait from now on; the cache has them at `ready`.
    pub(super) fn insert(&mut self, start: u64, end: u64, ready: Time) {
        self.remove(start, end);
        let (mut start, mut end, mut ready, added) = (start, end, ready, end - start);
        if self.combine {
            let before = self.extents.range(..start).next_back().map(|(&at, &extent)| (at, extent));
            if let Some((at, extent)) = before
                && extent.end == start
                && end - at <= LONGEST
            {
                self.extents.remove(&at);
                (start, ready) = (at, ready.max(extent.ready));
            }
            if let Some(&extent) = self.extents.get(&end)
                && extent.end - start <= LONGEST
            {
                self.extents.remove(&end);
                (end, ready) = (extent.end, ready.max(extent.ready));
            }
        }
        self.extents.insert(start, Extent { end, ready });
        self.sectors += added;
        self.press(ready);
    }

    /// Sectors no longer wait: they are overwritten or forgotten.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        let cut: Vec<(u64, Extent)> = self.overlapping(start, end).collect();
        for (at, extent) in cut {
            self.extents.remove(&at);
            self.sectors -= extent.end - at;
            for (from, to) in [(at, extent.end.min(start)), (at.max(end), extent.end)] {
                if from < to {
                    self.extents.insert(from, Extent { end: to, ready: extent.ready });
                    self.sectors += to - from;
                }
            }
        }
        self.press(0);
    }

    /// Takes note of whether more than half of the room is taken, as of `at`.
    fn press(&mut self, at: Time) {
        let full = self.sectors * 2 > u64::from(self.rules.sectors)
            || self.extents.len() * 2 > self.rules.writes as usize;
        self.pressed = full.then(|| self.pressed.unwrap_or(at));
    }

    /// Takes the sectors that go out next at `at`: those that the sweep comes to first.
    pub(super) fn take(&mut self, at: Time) -> Option<(u64, u64)> {
        let ready = |(_, extent): &(&u64, &Extent)| extent.ready <= at;
        let up = self.extents.range(self.sweep..).find(ready);
        let next = up.or_else(|| self.extents.range(..self.sweep).find(ready));
        let (&start, &Extent { end, .. }) = next?;
        self.extents.remove(&start);
        self.sectors -= end - start;
        self.sweep = end;
        self.press(at);
        Some((start, end))
    }

    /// When the first of the extents is ready.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.extents.values().map(|extent| extent.ready).min()
    }

    /// Sectors taken are on the platter at `until`.
    pub(super) fn leave(&mut self, start: u64, end: u64, until: Time) {
        self.leaving = Leaving { start, end, until };
    }
}
