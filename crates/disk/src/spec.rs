//! Disk specifications: the content of a data file.
//!
//! A specification is a TOML file. A missing field has the default without effect: one zone, no
//! skew, no cache, commands in order of arrival. [`geometry`] describes where sectors are, [`seek`]
//! the arm, [`electronics`] controller, bus and cache, [`queue`] the order of commands, and
//! [`zoned`] and [`shingled`] the rules of shingled disks.

mod check;
pub mod electronics;
pub mod geometry;
mod lines;
pub mod phase;
pub mod queue;
pub mod seek;
pub mod shingled;
pub mod zoned;

pub(crate) use check::{pattern, wrong_defects};
pub use electronics::{
    Buffer, Bus, Cache, ExtraDisconnect, FastWrite, Overheads, Prefetch, ReadAhead, WriteBack,
};
pub use geometry::{Defect, Mapping, Pattern, SectorSize, Sparing, Zone};
pub use phase::{Phase, PhaseZone};
pub use queue::{Discipline, Queue};
pub use seek::{Seek, SeekPiece};
pub use shingled::Shingled;
pub use zoned::Zoned;

use seekless_engine::units::{BLOCK_SECTORS, MILLIS, SECTOR_BYTES, Time};
use serde::{Deserialize, Serialize};

/// Why a specification cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not TOML of the right form.
    #[error("the disk specification cannot be read: {0}")]
    Syntax(String),
    /// A field has a value that no disk can have.
    #[error("the disk specification is wrong in `{field}`: {problem}")]
    Field {
        /// Name of the field.
        field: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The same, with its place in the text.
    #[error("line {line}: {error}")]
    At {
        /// Line, from one.
        line: u32,
        /// What is wrong.
        error: Box<SpecError>,
    },
}

impl SpecError {
    pub(crate) fn field(field: impl Into<String>, problem: impl Into<String>) -> SpecError {
        SpecError::Field { field: field.into(), problem: problem.into() }
    }

    /// The error of the TOML parser, with the line of `text` that it is about.
    fn syntax(error: &toml::de::Error, text: &str) -> SpecError {
        let said = error.message().trim().replace('\n', ", ");
        let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
            return SpecError::Syntax(said);
        };
        let line = before.matches('\n').count();
        let shown: String =
            text.lines().nth(line).unwrap_or_default().trim().chars().take(60).collect();
        // For a missing field, the line is the first one of the table that lacks it.
        let said = match shown.is_empty() || said.starts_with("missing") {
            true => said,
            false => format!("{said} in `{}`", shown.replace(char::is_control, "\u{fffd}")),
        };
        let line = u32::try_from(line + 1).unwrap_or(u32::MAX);
        SpecError::At { line, error: Box::new(SpecError::Syntax(said)) }
    }

    /// With the line of `text` that the field stands on, if it is there.
    fn at_its_line(self, text: &str) -> SpecError {
        let SpecError::Field { field, problem } = &self else { return self };
        match lines::line_of(text, field, problem) {
            Some(line) => SpecError::At { line, error: Box::new(self) },
            None => self,
        }
    }
}

/// A disk. Times are in milliseconds, as data sheets and papers give them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Short name.
    pub name: String,
    /// Description, one line.
    pub summary: String,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Surfaces.
    pub heads: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Time to switch to another head of the same cylinder. Where the arm moves as well, the longer
    /// of the two counts.
    pub head_switch_ms: f64,
    /// Fixed cost of a command, beside those of [`Overheads`].
    pub overhead_ms: f64,
    /// Added to every seek and head switch before a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_settle_ms: f64,
    /// Added to every seek and head switch before a write. Descriptions of drives have negative
    /// values if their seek times include the settling of writes. An import makes them zero:
    /// recordings show no write that settles faster than a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_settle_ms: f64,
    /// Reading and writing elements lie apart, as in all magnetoresistive heads: a change from one
    /// to the other on a track moves the arm by a track. By default true for disks of 7200 rpm or
    /// more that have a segmented cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub magnetoresistive: Option<bool>,
    /// Sectors that the disk offers, if fewer than its zones hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capacity_sectors: Option<u64>,
    /// Cylinders that belong to no zone are empty on purpose. Without this they are an error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unused_cylinders: bool,
    /// Order in which tracks are filled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mapping: Mapping,
    /// Where spare sectors are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sparing: Sparing,
    /// Sizes of a sector for the host and on the platter.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sector_size: SectorSize,
    /// Rotational position is not modelled: every access waits half a turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub average_rotation: bool,
    /// The three-parameter model in place of the mechanics.
    #[serde(default, skip_serializing_if = "is_default")]
    pub simple: Option<Simple>,
    /// Seek time over distance.
    pub seek: Seek,
    /// Seek time over distance before writes, if it was measured separately.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_seek: Option<Seek>,
    /// Simple track buffer, for a disk without `cache`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub buffer: Buffer,
    /// The way to the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bus: Option<Bus>,
    /// The way to the host that a recording was made on, where `bus` is the drive's own. Replays of
    /// recordings use it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recorded_bus: Option<Bus>,
    /// Costs of commands beyond [`Spec::overhead_ms`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub overheads: Overheads,
    /// Segmented cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: Option<Cache>,
    /// Commands waiting in the disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queue: Queue,
    /// Commands waiting in the host because the disk's queue is full.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_queue: Queue,
    /// Rules of a host-managed shingled disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zoned: Option<Zoned>,
    /// Rules of a drive-managed shingled disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shingled: Option<Shingled>,
    /// Zones from the outside in. With [`Spec::pattern`] they are empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Zone>,
    /// A layout that a list of zones cannot describe, as a tree of repeated patterns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pattern: Option<Pattern>,
    /// Angles of tracks beyond what the layout says, learnt from a recording.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phase: Option<Phase>,
}

/// HyLog's three-parameter disk: a positioning time for every request and a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simple {
    /// Seek and rotation of every request.
    pub positioning_ms: f64,
    /// Bandwidth of the transfer, in 10⁶ bytes per second.
    pub mb_per_s: f64,
}

/// Tracks of which [`crate::mechanics`] keeps a table: four megabytes.
const MOST_PLAIN_TRACKS: u64 = 1 << 20;

/// Skips a default value on output.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Milliseconds as nanoseconds; nothing is below zero.
pub(crate) fn ns(ms: f64) -> Time {
    (ms * MILLIS as f64).round() as Time
}

impl Spec {
    /// Reads a specification and checks every value.
    ///
    /// # Errors
    /// The first thing that is wrong, with the name of the field.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let spec: Spec = toml::from_str(text).map_err(|error| SpecError::syntax(&error, text))?;
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(error) => Err(error.at_its_line(text)),
        }
    }

    /// The specification as the text of a file.
    ///
    /// # Errors
    /// Values that TOML cannot express. A specification that was read or checked has none.
    pub fn to_toml(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|error| SpecError::Syntax(error.to_string()))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first thing that is wrong, with the name of the field.
    pub fn validate(&self) -> Result<(), SpecError> {
        check::all(self)
    }

    /// The disk on the host that its recordings were made on.
    #[must_use]
    pub fn as_recorded(&self) -> Spec {
        Spec { bus: self.recorded_bus.or(self.bus), ..self.clone() }
    }

    /// Sectors of 512 bytes that the disk offers.
    pub fn capacity_sectors(&self) -> u64 {
        let mapped = self.mapped_sectors();
        self.capacity_sectors.map_or(mapped, |sectors| sectors.min(mapped))
    }

    /// Size of the disk in 4 KiB blocks.
    pub fn capacity_blocks(&self) -> u64 {
        self.capacity_sectors() / BLOCK_SECTORS
    }

    /// True if writes are reported before they are on the platter: the sector headers they replace
    /// are then lost, too.
    pub fn reports_early(&self) -> bool {
        let early =
            |cache: Cache| cache.fast_write != FastWrite::None || cache.write_back.is_some();
        self.cache.is_some_and(early)
    }

    /// The same disk of which no more than `blocks` of 4 KiB are used, from its outer edge on. The
    /// conventional share of the zones of a shingled disk stays the same: its first zones alone
    /// would be another kind of disk.
    #[must_use]
    pub fn outer(&self, blocks: u64) -> Spec {
        let mut spec = self.clone();
        if blocks < spec.capacity_blocks() {
            spec.capacity_sectors = Some(blocks * BLOCK_SECTORS);
            let part = |zoned: Zoned| zoned.part(spec.zone_count(&zoned), self.zone_count(&zoned));
            spec.zoned = self.zoned.map(part);
        }
        spec
    }

    /// True for a disk of one zone without cache, defects, bus or queue: [`crate::mechanics`]
    /// describes it completely, so layouts can plan on it. That takes a table of all tracks. A disk
    /// with more than a million tracks is served like other disks, whose cost does not grow with
    /// unused capacity.
    pub fn is_plain(&self) -> bool {
        let [zone] = self.zones.as_slice() else { return false };
        if u64::from(self.heads) * u64::from(self.cylinders) > MOST_PLAIN_TRACKS {
            return false;
        }
        let whole = |sectors: f64| sectors.fract() == 0.0;
        let as_is = Zone {
            first_cylinder: None,
            last_cylinder: None,
            offset: 0.0,
            empty: 0,
            spares: 0,
            slips: Vec::new(),
            defects: Vec::new(),
            ..zone.clone()
        };
        *zone == as_is
            && u64::from(zone.sectors).is_multiple_of(BLOCK_SECTORS)
            && whole(zone.track_skew)
            && whole(zone.cylinder_skew)
            && self.mapping == Mapping::CylinderMajor
            && (self.read_settle_ms, self.write_settle_ms) == (0.0, 0.0)
            && self.sector_size == SectorSize::default()
            && self.overheads == Overheads::default()
            && (self.queue, self.host_queue) == Default::default()
            && self.capacity_sectors.is_none()
            && self.write_seek.is_none()
            && self.simple.is_none()
            && self.cache.is_none()
            && self.bus.is_none()
            && self.zoned.is_none()
            && self.shingled.is_none()
            && self.phase.is_none()
            && !self.average_rotation
    }

    /// [`Spec::magnetoresistive`], its default filled in.
    pub fn separate_elements(&self) -> bool {
        self.magnetoresistive.unwrap_or(self.rpm >= 7190.0 && self.cache.is_some())
    }

    /// [`Spec::head_switch_ms`] in nanoseconds.
    pub fn head_switch_ns(&self) -> Time {
        ns(self.head_switch_ms)
    }

    /// [`Spec::overhead_ms`] in nanoseconds.
    pub fn overhead_ns(&self) -> Time {
        ns(self.overhead_ms)
    }

    /// Time on the bus for a number of sectors read from the track buffer, in nanoseconds.
    pub fn bus_ns(&self, sectors: u64) -> Time {
        let bytes = (sectors * SECTOR_BYTES as u64) as f64;
        (bytes * 1e3 / self.buffer.bus_mb_per_s).round() as Time
    }
}
