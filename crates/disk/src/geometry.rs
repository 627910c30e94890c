//! Where sectors are: from the host's sector numbers to cylinder, head and angle, and back.
//!
//! Everything is computed in closed form from a few numbers per zone; memory depends on zones and
//! listed defects, never on the capacity. Every look-up returns a [`Run`]: consecutive sectors that
//! pass the head one after the other. It ends where the track, a slipped defect, the spares or a
//! remapped defect interrupt it.

mod pattern;
#[cfg(test)]
mod tests;
mod zone;

use crate::spec::{Phase, Spec, SpecError};
use pattern::PatternMap;
use zone::ZoneMap;

/// Fixed-point unit of rotational positions: this many parts of a sector.
pub(crate) const PARTS: u64 = 1 << 16;

/// Consecutive sectors that lie one behind the other on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sectors in a whole turn of this track.
    pub track_sectors: u32,
    /// Rotational position of the first sector behind the index mark, in parts of a sector
    /// (65,536 make one).
    pub position: u64,
    /// Sectors in the run.
    pub count: u32,
}

/// A sector on the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sector on the track in the order of the track's own numbering, without skews.
    pub sector: u32,
}

/// The layout of a disk.
#[derive(Clone, Debug)]
pub struct Geometry {
    sectors: u64,
    layout: Layout,
    phase: Option<Box<Phase>>,
}

#[derive(Clone, Debug)]
enum Layout {
    Zones {
        zones: Vec<ZoneMap>,
        /// For each 2^shift sectors the zone in which they begin.
        guess: Vec<u16>,
        shift: u32,
    },
    Pattern(PatternMap),
}

impl Geometry {
    /// The layout of a specification.
    ///
    /// # Errors
    /// A specification that fails its checks.
    pub fn new(spec: &Spec) -> Result<Geometry, SpecError> {
        spec.validate()?;
        let sectors = spec.capacity_sectors();
        let phase = spec.phase.clone().map(Box::new);
        if let Some(pattern) = &spec.pattern {
            let layout = Layout::Pattern(PatternMap::new(pattern));
            return Ok(Geometry { sectors, layout, phase });
        }
        let mut zones = Vec::with_capacity(spec.zones.len());
        let mut first = 0;
        for index in 0..spec.zones.len() {
            let zone = ZoneMap::new(spec, index, first);
            first = zone.end();
            zones.push(zone);
        }
        // About four entries for each zone, so that a guess is rarely off by one zone.
        let wanted = (zones.len() as u64 * 4).next_power_of_two();
        let shift = (first.max(1) / wanted).max(1).ilog2();
        let guess = (0..=(first >> shift))
            .map(|at| zones.partition_point(|zone| zone.end() <= at << shift) as u16)
            .collect();
        Ok(Geometry { sectors, layout: Layout::Zones { zones, guess, shift }, phase })
    }

    /// Sectors that the disk offers.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// True if the sectors of a run are all equally long. Otherwise their lengths may be rounded.
    pub(crate) fn is_even(&self) -> bool {
        matches!(self.layout, Layout::Zones { .. })
    }

    /// The run that begins at a sector, not limited by a request.
    ///
    /// # Panics
    /// If the sector lies outside the disk.
    #[inline]
    pub fn run(&self, lbn: u64) -> Run {
        let mut run = match &self.layout {
            Layout::Zones { zones, guess, shift } => zone_of(zones, guess, *shift, lbn).run(lbn),
            Layout::Pattern(map) => map.run(lbn),
        };
        if let Some(phase) = &self.phase {
            let turns = phase.turns(run.cylinder, run.head);
            turn_by(&mut run, turns);
        }
        run
    }

    /// Where a sector is on the platter.
    pub fn physical(&self, lbn: u64) -> Physical {
        match &self.layout {
            Layout::Zones { zones, guess, shift } => {
                zone_of(zones, guess, *shift, lbn).physical(lbn)
            }
            Layout::Pattern(map) => map.physical(lbn),
        }
    }

    /// The host's sector at a place of the platter, if there is one.
    pub fn lbn(&self, at: Physical) -> Option<u64> {
        let found = match &self.layout {
            Layout::Zones { zones, .. } => {
                zones.iter().find(|zone| zone.holds(at.cylinder)).and_then(|zone| zone.lbn(at))
            }
            Layout::Pattern(map) => map.lbn(at, self.sectors),
        };
        found.filter(|&lbn| lbn < self.sectors)
    }

    /// The sector behind the last one on the track of `lbn`, as the host numbers them. Sectors of
    /// the track that are remapped count as being on it.
    pub fn track_end(&self, lbn: u64) -> u64 {
        self.end_of(lbn, |a, b| a.cylinder == b.cylinder && a.head == b.head)
    }

    /// The sector behind the last one on the cylinder of `lbn`.
    pub fn cylinder_end(&self, lbn: u64) -> u64 {
        self.end_of(lbn, |a, b| a.cylinder == b.cylinder)
    }

    fn end_of(&self, lbn: u64, same: impl Fn(&Run, &Run) -> bool) -> u64 {
        let first = self.run(lbn);
        let mut end = lbn + u64::from(first.count);
        while end < self.sectors {
            let next = self.run(end);
            if !same(&first, &next) {
                break;
            }
            end += u64::from(next.count);
        }
        end.min(self.sectors)
    }
}

/// Moves a run by an angle, in turns.
fn turn_by(run: &mut Run, turns: f64) {
    let turn = u64::from(run.track_sectors) * PARTS;
    let by = (turns.rem_euclid(1.0) * turn as f64).round() as u64;
    run.position = (run.position + by) % turn;
}

/// Which of these places of a zone, numbered as its slips are, hold sectors of the host before
/// defects are remapped. The zone has passed all other checks.
pub(crate) fn data_places(spec: &Spec, zone: usize, places: &[u64]) -> Vec<bool> {
    let map = ZoneMap::new(spec, zone, 0).without_defects();
    places.iter().map(|&place| map.holds_data(place)).collect()
}

#[inline]
fn zone_of<'a>(zones: &'a [ZoneMap], guess: &[u16], shift: u32, lbn: u64) -> &'a ZoneMap {
    let mut zone = &zones[guess[(lbn >> shift) as usize] as usize];
    let mut next = guess[(lbn >> shift) as usize] as usize + 1;
    while lbn >= zone.end() {
        zone = &zones[next];
        next += 1;
    }
    zone
}
