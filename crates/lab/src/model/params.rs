//! The numbers of a disk that the models need.

use super::ModelError;
use seekless_disk::Spec;
use seekless_disk::spec::Seek;
use seekless_engine::units::MILLIS;

/// Numbers that replace those of a specification.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Sectors on a track.
    pub sectors: Option<u32>,
    /// Tracks in a cylinder.
    pub tracks: Option<u32>,
    /// Cylinders.
    pub cylinders: Option<u32>,
    /// Revolutions per minute.
    pub rpm: Option<f64>,
    /// Time of a head switch, in milliseconds.
    pub switch_ms: Option<f64>,
}

/// A disk as the models see it: one zone, all tracks alike. The unit of placement is the *slot*, a
/// fixed number of sectors; the papers' models are for slots of one sector and hold for any.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    name: String,
    sectors: u32,
    slot_sectors: u32,
    tracks: u32,
    cylinders: u32,
    turn_ms: f64,
    switch_ms: f64,
    overhead_ms: f64,
    seek: Seek,
}

fn within(
    what: &'static str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<(), ModelError> {
    let fits = (low..=high).contains(&value);
    if fits { Ok(()) } else { Err(ModelError::Range { what, value, range }) }
}

impl Params {
    /// The disk of a specification, with its first zone taken for all zones, with slots of
    /// `slot_sectors` sectors of 512 bytes. The only place where models read a specification.
    ///
    /// # Errors
    /// Slots that do not fill a track, and replaced numbers that no disk can have.
    pub fn new(
        spec: &Spec,
        slot_sectors: u32,
        overrides: &Overrides,
    ) -> Result<Params, ModelError> {
        let ms = |ns: u64| ns as f64 / MILLIS as f64;
        let params = Params {
            name: spec.name.clone(),
            sectors: overrides.sectors.unwrap_or(spec.zones[0].sectors),
            slot_sectors,
            tracks: overrides.tracks.unwrap_or(spec.heads),
            cylinders: overrides.cylinders.unwrap_or(spec.cylinders),
            turn_ms: 60_000.0 / overrides.rpm.unwrap_or(spec.rpm),
            switch_ms: overrides.switch_ms.unwrap_or_else(|| ms(spec.head_switch_ns())),
            overhead_ms: ms(spec.overhead_ns()),
            seek: spec.seek.clone(),
        };
        params.check()?;
        Ok(params)
    }

    fn check(&self) -> Result<(), ModelError> {
        within("sectors", f64::from(self.sectors), 2.0, 65536.0, "2 to 65536 on a track")?;
        within("heads", f64::from(self.tracks), 1.0, 64.0, "1 to 64")?;
        within("cylinders", f64::from(self.cylinders), 1.0, 4_194_304.0, "1 to 4194304")?;
        within("rpm", 60_000.0 / self.turn_ms, 60.0, 100_000.0, "60 to 100000")?;
        within("head switch", self.switch_ms, 0.0, 1000.0, "0 to 1000 ms")?;
        let (slot, sectors) = (self.slot_sectors, self.sectors);
        if slot == 0 || !sectors.is_multiple_of(slot) || sectors / slot < 2 {
            return Err(ModelError::Slots { slot, sectors });
        }
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sectors on a track.
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Sectors in a slot.
    pub fn slot_sectors(&self) -> u32 {
        self.slot_sectors
    }

    /// Slots on a track, the *n* of the models: 2 to 65536.
    pub fn slots(&self) -> u32 {
        self.sectors / self.slot_sectors
    }

    /// Tracks in a cylinder, the *t* of the models: 1 to 64.
    pub fn tracks(&self) -> u32 {
        self.tracks
    }

    /// Cylinders.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Time of a turn, in milliseconds (claims V1, V2: 14.9925 and 6).
    pub fn turn_ms(&self) -> f64 {
        self.turn_ms
    }

    /// Time in which a slot passes, the *r* of the models, in milliseconds.
    pub fn slot_ms(&self) -> f64 {
        self.turn_ms / f64::from(self.slots())
    }

    /// Time in which a sector passes, in milliseconds.
    pub fn sector_ms(&self) -> f64 {
        self.turn_ms / f64::from(self.sectors)
    }

    /// Time of a head switch, the *s* of the models, in milliseconds.
    pub fn switch_ms(&self) -> f64 {
        self.switch_ms
    }

    /// Time to get from one track to the next, in milliseconds: a head switch, or on a disk with
    /// one surface the shortest seek.
    pub fn track_switch_ms(&self) -> f64 {
        if self.tracks > 1 { self.switch_ms } else { self.seek_ms(1) }
    }

    /// Fixed time of a command, in milliseconds.
    pub fn overhead_ms(&self) -> f64 {
        self.overhead_ms
    }

    /// Time of a seek over `distance` cylinders, in milliseconds; 0 for none.
    pub fn seek_ms(&self, distance: u32) -> f64 {
        self.seek.ns(distance, self.cylinders.max(distance)) as f64 / MILLIS as f64
    }

    /// Least mean wait of a write in place: half a turn (claim V17: 3 and 7.5 ms).
    pub fn half_turn_ms(&self) -> f64 {
        self.turn_ms / 2.0
    }

    /// A span in slots, **rounded up**: a write that begins in the middle of a slot has missed it
    /// (claim V18: 13 sectors for the head switch of the HP97560, which takes 12.006 of them).
    pub fn whole_slots(&self, ms: f64) -> f64 {
        // A thousandth of a nanosecond must not count as a missed slot.
        (ms / self.slot_ms() - 1e-9).ceil().max(0.0)
    }

    /// The seek curve, for models that work with distances.
    pub(super) fn seek(&self) -> &Seek {
        &self.seek
    }
}
