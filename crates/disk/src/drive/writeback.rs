//! The volatile write-back cache: which sectors wait, from when on, and which go out next.
//!
//! Extents never overlap. A waiting sector that is overwritten is never written out in its old
//! version. A write that continues a waiting extent joins it. The head sweeps upwards over the
//! sectors and restarts at the lowest.

use crate::spec::{WriteBack, ns};
use seekless_engine::units::Time;
use std::collections::BTreeMap;

/// Joined extents are at most so long (1 MiB), so that no command waits for more.
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
    /// When the last of them has passed the head. Until then they take space and can be read.
    until: Time,
}

/// The sectors that wait in the cache.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    rules: WriteBack,
    /// Waits this long without a command before writing out.
    pub(super) idle: Time,
    /// Writes that continue a waiting extent join it.
    combine: bool,
    extents: BTreeMap<u64, Extent>,
    sectors: u64,
    leaving: Leaving,
    /// Where the sweep continues.
    sweep: u64,
    /// From when on more than half of the space is taken.
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

    /// From when on more than half of the space is taken, if it is. The disk then does not wait for
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

    /// When the sectors on their way to the platter have arrived.
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
        // Return early: `BTreeMap::range` panics on a range that runs backwards.
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

    /// True if a waiting extent ends where a write begins.
    pub(super) fn ends_at(&self, start: u64) -> bool {
        let before = self.extents.range(..start).next_back();
        before.is_some_and(|(_, extent)| extent.end == start)
    }

    /// Adds waiting sectors; the cache has all of them at `ready`.
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

    /// Removes waiting sectors that are overwritten or trimmed.
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

    /// Updates, as of `at`, from when on more than half of the space is taken.
    fn press(&mut self, at: Time) {
        let full = self.sectors * 2 > u64::from(self.rules.sectors)
            || self.extents.len() * 2 > self.rules.writes as usize;
        self.pressed = full.then(|| self.pressed.unwrap_or(at));
    }

    /// Takes the sectors that go out next at `at`: the first ones in the direction of the sweep.
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

    /// Records that the taken sectors are on the platter at `until`.
    pub(super) fn leave(&mut self, start: u64, end: u64, until: Time) {
        self.leaving = Leaving { start, end, until };
    }
}
