//! Geometry and motion as pure functions over precomputed tables.

use crate::spec::{Spec, SpecError};
use seekless_engine::arm::{Arm, Track};
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, Sector, Time};

/// Where the sectors of a disk are and how long it takes to get there. All times are integer
/// nanoseconds. The revolution is rounded once, so a run is exact and repeatable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanics {
    rev_ns: Time,
    heads: u32,
    cylinders: u32,
    /// Sectors on a track.
    sectors: u32,
    blocks_per_track: u32,
    track_skew: u32,
    cylinder_skew: u32,
    /// Seek time by distance in cylinders; 0 for distance 0.
    seek_ns: Vec<Time>,
    head_switch_ns: Time,
    overhead_ns: Time,
    /// Sectors per nanosecond, in units of 2⁻³².
    per_ns: u64,
    /// Beginning of each sector of a track as time from the index mark, and the full turn.
    sector_ns: Vec<u32>,
    /// Rotational position of sector 0 of each track, in sectors.
    skew: Vec<u32>,
}

/// A place under a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Track, counted along the arm.
    pub track: Track,
    /// Sector on the track.
    pub sector: u32,
}

impl Mechanics {
    /// Precomputes the tables of a specification.
    ///
    /// # Errors
    /// A disk with zones, a cache or another property that the tables do not cover.
    pub fn new(spec: &Spec) -> Result<Mechanics, SpecError> {
        let (Some(zone), true) = (spec.zones.first(), spec.is_plain()) else {
            let problem = "layouts plan on disks of one zone without cache, defects or queue only; \
                           this one is simulated without its arm being known";
            return Err(SpecError::field("zones", problem));
        };
        let rev_ns = (60e9 / spec.rpm).round() as Time;
        let tracks = spec.heads * spec.cylinders;
        let position = |track: u32| {
            let (cylinder, head) = (track / spec.heads, track % spec.heads);
            // A cylinder switch skews by the cylinder skew instead of the track skew.
            let within = u64::from(spec.heads - 1) * zone.track_skew as u64;
            let turned = u64::from(cylinder) * (within + zone.cylinder_skew as u64)
                + u64::from(head) * zone.track_skew as u64;
            (turned % u64::from(zone.sectors)) as u32
        };
        Ok(Mechanics {
            rev_ns,
            heads: spec.heads,
            cylinders: spec.cylinders,
            sectors: zone.sectors,
            blocks_per_track: zone.sectors / BLOCK_SECTORS as u32,
            track_skew: zone.track_skew as u32,
            cylinder_skew: zone.cylinder_skew as u32,
            seek_ns: (0..spec.cylinders)
                .map(|distance| spec.seek.ns(distance, spec.cylinders))
                .collect(),
            head_switch_ns: spec.head_switch_ns(),
            overhead_ns: spec.overhead_ns(),
            per_ns: (u64::from(zone.sectors) << 32) / rev_ns,
            sector_ns: (0..=zone.sectors)
                .map(|sector| (u64::from(sector) * rev_ns / u64::from(zone.sectors)) as u32)
                .collect(),
            skew: (0..tracks).map(position).collect(),
        })
    }

    /// One revolution, in nanoseconds.
    pub fn rev_ns(&self) -> Time {
        self.rev_ns
    }

    /// Sectors on a track.
    pub fn sectors_per_track(&self) -> u32 {
        self.sectors
    }

    /// Skews from track to track and from cylinder to cylinder, in sectors.
    pub fn skews(&self) -> (u32, u32) {
        (self.track_skew, self.cylinder_skew)
    }

    /// Where a sector lies.
    pub fn place(&self, sector: Sector) -> Place {
        let track = (sector / u64::from(self.sectors)) as Track;
        Place { track, sector: (sector % u64::from(self.sectors)) as u32 }
    }

    /// Seek and head switch from one track to another: at most one of them is not zero. Heads are
    /// switched while the arm moves.
    pub fn moves(&self, from: Track, to: Track) -> (Time, Time) {
        if from == to {
            return (0, 0);
        }
        let distance = (from / self.heads).abs_diff(to / self.heads);
        if distance == 0 {
            return (0, self.head_switch_ns);
        }
        let seek = self.seek_ns[distance as usize];
        let other = seek < self.head_switch_ns && from % self.heads != to % self.heads;
        (if other { self.head_switch_ns } else { seek }, 0)
    }

    /// Time from `at` until the beginning of a sector passes the head, below one revolution.
    pub fn rotation_ns(&self, place: Place, at: Time) -> Time {
        let target = self.target_ns(place);
        let angle = at % self.rev_ns;
        if target >= angle { target - angle } else { target + self.rev_ns - angle }
    }

    /// Sector of a track that lies `turned` sectors behind the index mark.
    fn sector_at(&self, track: Track, turned: u32) -> u32 {
        // `turned` is at most a full track, so one or two subtractions reduce it.
        let sector = turned + self.sectors - self.skew[track as usize];
        let sector = if sector >= self.sectors { sector - self.sectors } else { sector };
        if sector >= self.sectors { sector - self.sectors } else { sector }
    }

    /// Time from the index mark until a sector passes, in nanoseconds.
    fn target_ns(&self, place: Place) -> Time {
        let position = place.sector + self.skew[place.track as usize];
        let position = if position >= self.sectors { position - self.sectors } else { position };
        Time::from(self.sector_ns[position as usize])
    }

    /// The sector of a track whose beginning passes the head first at or after `angle`.
    pub fn next_sector(&self, track: Track, angle: Time) -> u32 {
        self.sector_at(track, self.next_position(track, angle))
    }

    /// Time that `count` sectors from `place` on take to pass; they stay on the track.
    #[inline(always)]
    pub fn pass_ns(&self, place: Place, count: u32) -> Time {
        debug_assert!(place.sector + count <= self.sectors);
        let mut first = place.sector + self.skew[place.track as usize];
        if first >= self.sectors {
            first -= self.sectors;
        }
        let end = first + count;
        let start = Time::from(self.sector_ns[first as usize]);
        if end <= self.sectors {
            Time::from(self.sector_ns[end as usize]) - start
        } else {
            self.rev_ns - start + Time::from(self.sector_ns[(end - self.sectors) as usize])
        }
    }
}

impl Arm for Mechanics {
    fn seeks(&self) -> bool {
        true
    }

    fn tracks(&self) -> Track {
        self.heads * self.cylinders
    }

    fn tracks_per_cylinder(&self) -> u32 {
        self.heads
    }

    fn track_blocks(&self, track: Track) -> (BlockNr, u32) {
        (u64::from(track) * u64::from(self.blocks_per_track), self.blocks_per_track)
    }

    fn track_of(&self, block: BlockNr) -> Track {
        (block / u64::from(self.blocks_per_track)) as Track
    }

    fn overhead_ns(&self) -> Time {
        self.overhead_ns
    }

    fn travel_ns(&self, from: Track, to: Track) -> Time {
        let (seek, switch) = self.moves(from, to);
        seek + switch
    }

    fn turn_ns(&self) -> Time {
        self.rev_ns
    }

    fn positions(&self, _track: Track) -> u32 {
        self.sectors
    }

    fn position(&self, track: Track, slot: u32) -> u32 {
        let position = slot * BLOCK_SECTORS as u32 + self.skew[track as usize];
        if position >= self.sectors { position - self.sectors } else { position }
    }

    fn slot_at(&self, track: Track, position: u32) -> u32 {
        self.sector_at(track, position) / BLOCK_SECTORS as u32
    }

    fn next_position(&self, _track: Track, angle: Time) -> u32 {
        // A good guess by multiplication, made exact by the table.
        let mut position = ((angle * self.per_ns) >> 32) as usize;
        while Time::from(self.sector_ns[position]) < angle {
            position += 1;
        }
        while position > 0 && Time::from(self.sector_ns[position - 1]) >= angle {
            position -= 1;
        }
        if position as u32 == self.sectors { 0 } else { position as u32 }
    }

    fn next_slot(&self, track: Track, angle: Time) -> u32 {
        let slot = self.next_sector(track, angle).div_ceil(BLOCK_SECTORS as u32);
        if slot == self.blocks_per_track { 0 } else { slot }
    }

    fn wait_ns(&self, _track: Track, position: u32, angle: Time) -> Time {
        let target = Time::from(self.sector_ns[position as usize]);
        let turn = if target >= angle { 0 } else { self.rev_ns };
        target + turn - angle
    }

    fn transfer_ns(&self, _track: Track, count: u32) -> Time {
        let sectors = (count * BLOCK_SECTORS as u32).min(self.sectors);
        // Rounded up, so that a plan never uses a slot that begins before the head is there.
        (u64::from(sectors) * self.rev_ns).div_ceil(u64::from(self.sectors))
    }
}
