//! One zone: sectors per track, skews, spares and defects.
//!
//! Inside a zone, *places* count sectors of the platter in the order in which tracks are filled.
//! Data and places differ by empty space, spares and slips. Spares come in areas of equal size (a
//! track, a cylinder, a range of cylinders, the zone), so a division finds the area; slips are
//! found by binary search.

use super::{PARTS, Physical, Run};
use crate::spec::{Mapping, Sparing, Spec};

#[derive(Clone, Debug)]
pub(super) struct ZoneMap {
    /// Host's first sector and the one behind the last.
    first: u64,
    end: u64,
    first_cylinder: u32,
    cylinders: u32,
    heads: u32,
    /// Sectors on a track.
    sectors: u32,
    mapping: Mapping,
    /// Places in an area of spares, and those of them that hold data.
    area: u64,
    data: u64,
    /// Spares lie at the front of an area.
    front: bool,
    /// Places at the beginning of the zone without data.
    empty: u64,
    /// Slips in ascending order; a slip covers `slip_size` places.
    slips: Vec<Slip>,
    /// Slips act on the rest of the zone, not just on the rest of their area. They are then
    /// numbered among the places that could hold data, not among all.
    slips_to_end: bool,
    slip_size: u64,
    defects: Vec<(u64, u64)>,
    /// Slips shift the angle of the tracks behind them: those of earlier groups of so many tracks.
    slips_skew: Option<(u32, Vec<u64>)>,
    /// Positions in parts of a sector.
    offset: u64,
    track_skew: u64,
    cylinder_skew: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slip {
    /// The place that holds no data.
    at: u64,
    /// The first place counted from the beginning of the area (or zone), slips left out, that is
    /// moved by this slip.
    key: u64,
}

fn parts(sectors: f64) -> u64 {
    (sectors * PARTS as f64).round() as u64
}

impl ZoneMap {
    /// The zone of that number, its data beginning at the host's sector `first`.
    pub(super) fn new(spec: &Spec, index: usize, first: u64) -> ZoneMap {
        let zone = &spec.zones[index];
        let (low, high) = spec.zone_cylinders(index);
        let cylinders = high + 1 - low;
        let sectors = u64::from(zone.sectors);
        let cylinder = sectors * u64::from(spec.heads);
        let all = cylinder * u64::from(cylinders);
        let spares = u64::from(zone.spares);
        let (area, lost) = match spec.sparing {
            Sparing::Zone | Sparing::ZoneSlipToEnd => (all, spares),
            Sparing::Tracks => (all, spares * sectors),
            Sparing::End => (all, 0),
            Sparing::Track => (sectors, spares),
            Sparing::Cylinder
            | Sparing::CylinderSlipToEnd
            | Sparing::CylinderFront
            | Sparing::CylinderFrontSlipToEnd => (cylinder, spares),
            Sparing::Range { cylinders: range } => {
                (cylinder * u64::from(range.max(1).min(cylinders)), spares)
            }
        };
        let slips_to_end =
            matches!(spec.sparing, Sparing::CylinderSlipToEnd | Sparing::CylinderFrontSlipToEnd);
        let front =
            matches!(spec.sparing, Sparing::CylinderFront | Sparing::CylinderFrontSlipToEnd);
        let slip_size = if spec.sparing == Sparing::Tracks { sectors } else { 1 };
        let data = area - lost.min(area);
        let slips = match slips_to_end {
            true => slips(&data_numbers(&zone.slips, area, data, front), 1, u64::MAX),
            false => slips(&zone.slips, slip_size, area),
        };
        ZoneMap {
            first,
            end: first + spec.zone_sectors(index),
            first_cylinder: low,
            cylinders,
            heads: spec.heads,
            sectors: zone.sectors,
            mapping: spec.mapping,
            area,
            data,
            front,
            empty: u64::from(zone.empty),
            slips,
            slips_to_end,
            slip_size,
            defects: zone
                .defects
                .iter()
                .map(|defect| (defect.at * slip_size, defect.spare * slip_size))
                .collect(),
            slips_skew: match spec.sparing {
                _ if zone.slips.is_empty() => None,
                Sparing::Track => Some((1, zone.slips.clone())),
                _ if area == cylinder => Some((spec.heads, zone.slips.clone())),
                _ => None,
            },
            offset: parts(zone.offset),
            track_skew: parts(zone.track_skew),
            cylinder_skew: parts(zone.cylinder_skew),
        }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn holds(&self, cylinder: u32) -> bool {
        cylinder.wrapping_sub(self.first_cylinder) < self.cylinders
    }

    /// The place of a sector, and how many places from there on hold the sectors that follow.
    #[inline]
    fn place(&self, lbn: u64) -> (u64, u64) {
        let (place, room) = self.slipped(lbn);
        if self.defects.is_empty() {
            return (place, room);
        }
        let size = self.slip_size;
        let mut room = room;
        for &(at, spare) in &self.defects {
            if place >= at && place < at + size {
                return (spare + place - at, at + size - place);
            }
            if at > place {
                room = room.min(at - place);
            }
        }
        (place, room)
    }

    /// The same before defects are remapped.
    #[inline]
    fn slipped(&self, lbn: u64) -> (u64, u64) {
        let mut at = lbn - self.first + self.empty;
        let mut room = u64::MAX;
        if self.slips_to_end {
            let passed = self.slips.partition_point(|slip| slip.key <= at);
            room = self.slips.get(passed).map_or(u64::MAX, |slip| slip.key - at);
            at += passed as u64;
        }
        // Nearly all disks have one area in a zone: no division.
        let (area, within) = match at < self.data {
            true => (0, at),
            false => (at / self.data, at % self.data),
        };
        let base = area * self.area;
        room = room.min(self.data - within);
        if self.slips.is_empty() || self.slips_to_end {
            let front = if self.front { self.area - self.data } else { 0 };
            return (base + front + within, room);
        }
        let slips = self.slips_in(base);
        let within = within + self.skipped(slips);
        let passed = slips.partition_point(|slip| slip.key <= within);
        let next = slips.get(passed).map_or(u64::MAX, |slip| slip.key - within);
        (base + within + passed as u64 * self.slip_size, room.min(next))
    }

    /// The slips of the area that begins at `base`.
    fn slips_in(&self, base: u64) -> &[Slip] {
        let low = self.slips.partition_point(|slip| slip.at < base);
        let high = self.slips.partition_point(|slip| slip.at < base + self.area);
        &self.slips[low..high]
    }

    /// Good places at the front of an area with these slips that are spares.
    fn skipped(&self, slips: &[Slip]) -> u64 {
        let good = self.area - slips.len() as u64 * self.slip_size;
        if self.front { good.saturating_sub(self.data) } else { 0 }
    }

    /// Track (in filling order) and sector of a place.
    #[inline]
    fn split(&self, place: u64) -> (u32, u32) {
        let sectors = u64::from(self.sectors);
        ((place / sectors) as u32, (place % sectors) as u32)
    }

    /// Cylinder (from the zone's first) and head of a track in filling order.
    #[inline]
    fn cylinder_head(&self, track: u32) -> (u32, u32) {
        if let Mapping::Serpentine { band } = self.mapping {
            return self.serpentine(track, band);
        }
        let (cylinder, head) = (track / self.heads, track % self.heads);
        (cylinder, self.surface(cylinder, head))
    }

    fn serpentine(&self, track: u32, band: u32) -> (u32, u32) {
        let in_band = band * self.heads;
        let number = track / in_band;
        let from = number * band;
        let band = band.min(self.cylinders.saturating_sub(from)).max(1);
        let within = track - number * in_band;
        let (head, along) = ((within / band).min(self.heads - 1), within % band);
        let along = if head.is_multiple_of(2) { along } else { band - 1 - along };
        (from + along, head)
    }

    /// The head that is the `head`-th to be used in a cylinder, and the other way round.
    fn surface(&self, cylinder: u32, head: u32) -> u32 {
        let odd = match self.mapping {
            Mapping::AlternatingInZone => cylinder % 2 == 1,
            Mapping::Alternating => (cylinder + self.first_cylinder) % 2 == 1,
            _ => false,
        };
        if odd { self.heads - 1 - head } else { head }
    }

    /// Position of the first sector of a track, in parts of a sector.
    #[inline]
    fn start(&self, track: u32) -> u64 {
        let changes = match self.mapping {
            Mapping::Serpentine { band } => track / band,
            _ => track / self.heads,
        };
        let mut start = self.offset
            + u64::from(track - changes) * self.track_skew
            + u64::from(changes) * self.cylinder_skew;
        if let Some((tracks, slips)) = &self.slips_skew {
            let before = u64::from(track / tracks * tracks) * u64::from(self.sectors);
            start += slips.partition_point(|&slip| slip < before) as u64 * PARTS;
        }
        start
    }

    #[inline]
    pub(super) fn run(&self, lbn: u64) -> Run {
        let (place, room) = self.place(lbn);
        let (track, sector) = self.split(place);
        let (cylinder, head) = self.cylinder_head(track);
        let turn = u64::from(self.sectors) * PARTS;
        let position = (self.start(track) + u64::from(sector) * PARTS) % turn;
        let count = u64::from(self.sectors - sector).min(room).min(self.end - lbn);
        Run {
            cylinder: cylinder + self.first_cylinder,
            head,
            track_sectors: self.sectors,
            position,
            count: count as u32,
        }
    }

    pub(super) fn physical(&self, lbn: u64) -> Physical {
        let (track, sector) = self.split(self.place(lbn).0);
        let (cylinder, head) = self.cylinder_head(track);
        Physical { cylinder: cylinder + self.first_cylinder, head, sector }
    }

    /// Track in filling order.
    fn track(&self, cylinder: u32, head: u32) -> u32 {
        let Mapping::Serpentine { band } = self.mapping else {
            return cylinder * self.heads + self.surface(cylinder, head);
        };
        let from = cylinder / band * band;
        let width = band.min(self.cylinders - from);
        let along = cylinder - from;
        let along = if head.is_multiple_of(2) { along } else { width - 1 - along };
        from * self.heads + head * width + along
    }

    /// The same zone as if none of its sectors were remapped.
    pub(super) fn without_defects(self) -> ZoneMap {
        ZoneMap { defects: Vec::new(), ..self }
    }

    /// True if a sector of the host lies at a place, in the numbering of slips.
    pub(super) fn holds_data(&self, place: u64) -> bool {
        let place = place * self.slip_size;
        let (track, sector) = self.split(place);
        let (cylinder, head) = self.cylinder_head(track);
        let at = Physical { cylinder: cylinder + self.first_cylinder, head, sector };
        self.lbn(at).is_some()
    }

    pub(super) fn lbn(&self, at: Physical) -> Option<u64> {
        if at.sector >= self.sectors || at.head >= self.heads {
            return None;
        }
        let track = self.track(at.cylinder - self.first_cylinder, at.head);
        let mut place = u64::from(track) * u64::from(self.sectors) + u64::from(at.sector);
        let size = self.slip_size;
        let of = |from: u64| place >= from && place < from + size;
        if let Some(&(bad, spare)) = self.defects.iter().find(|&&(_, spare)| of(spare)) {
            place = bad + place - spare;
        } else if self.defects.iter().any(|&(bad, _)| of(bad)) {
            return None;
        }
        let base = place / self.area * self.area;
        let (mut at, front) = match self.slips_to_end {
            true => (place, if self.front { self.area - self.data } else { 0 }),
            false => {
                let slips = self.slips_in(base);
                let before = slips.partition_point(|slip| slip.at <= place);
                if before > 0 && place < slips[before - 1].at + size {
                    return None;
                }
                (place - before as u64 * size, self.skipped(slips))
            }
        };
        let within = (at - base).checked_sub(front)?;
        if within >= self.data {
            return None;
        }
        at = base / self.area * self.data + within;
        if self.slips_to_end {
            let before = self.slips.partition_point(|slip| slip.at <= at);
            if before > 0 && self.slips[before - 1].at == at {
                return None;
            }
            at -= before as u64;
        }
        let lbn = at.checked_sub(self.empty)? + self.first;
        (lbn < self.end).then_some(lbn)
    }
}

/// Slips with the keys by which they are searched.
fn slips(listed: &[u64], size: u64, area: u64) -> Vec<Slip> {
    let mut slips: Vec<Slip> = Vec::with_capacity(listed.len());
    let (mut number, mut index) = (u64::MAX, 0);
    for &slip in listed {
        let at = slip * size;
        if at / area != number {
            (number, index) = (at / area, 0);
        }
        slips.push(Slip { at, key: (at % area).saturating_sub(index * size) });
        index += 1;
    }
    slips
}

/// Numbers of slips among the places that are no spares.
fn data_numbers(listed: &[u64], area: u64, data: u64, front: bool) -> Vec<u64> {
    let front = if front { area - data } else { 0 };
    let number = |&slip: &u64| {
        let within = (slip % area).checked_sub(front).filter(|&within| within < data)?;
        Some(slip / area * data + within)
    };
    listed.iter().filter_map(number).collect()
}
