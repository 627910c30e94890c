//! Disk specifications: what a data file says.

use seekless_engine::units::{BLOCK_SECTORS, MILLIS, SECTOR_BYTES, Time};
use serde::Deserialize;

/// Why a specification cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is no TOML of the right form.
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
}

/// A disk. Times are in milliseconds, as data sheets and papers give them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Short name.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Surfaces.
    pub heads: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Time to switch to another head of the same cylinder.
    pub head_switch_ms: f64,
    /// Fixed cost of a command.
    pub overhead_ms: f64,
    /// Zones from the outside in; one for now.
    pub zones: Vec<Zone>,
    /// Seek time over distance.
    pub seek: Seek,
    /// Track buffer.
    #[serde(default)]
    pub buffer: Buffer,
}

/// A range of cylinders with the same number of sectors on a track.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Sectors of 512 bytes on a track.
    pub sectors: u32,
    /// Skew from one track to the next in a cylinder, in sectors.
    pub track_skew: u32,
    /// Skew from the last track of a cylinder to the first of the next, in sectors.
    pub cylinder_skew: u32,
}

/// Seek time as a function of the distance in cylinders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Seek {
    /// Pieces of `constant_ms + root_ms·√d + linear_ms·d`, each for distances below its bound.
    Pieces(Vec<SeekPiece>),
    /// `constant_ms + root_ms·√(d / cylinders)`.
    Stroke {
        /// Fixed part.
        constant_ms: f64,
        /// Added for a full stroke.
        root_ms: f64,
    },
    /// Measured points (distance, milliseconds), straight lines between them.
    Points(Vec<(u32, f64)>),
}

/// See [`Seek::Pieces`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekPiece {
    /// The piece holds for distances below this; absent for the last one.
    pub below: Option<u32>,
    /// Fixed part.
    pub constant_ms: f64,
    /// Factor of the square root of the distance.
    #[serde(default)]
    pub root_ms: f64,
    /// Factor of the distance.
    #[serde(default)]
    pub linear_ms: f64,
}

/// How the disk reads ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    #[default]
    None,
    /// From the end of a read on, up to the fence or the end of the track. What lies before the
    /// current request is dropped.
    Forward,
    /// The whole track from the first sector under the head; kept until another track is needed.
    WholeTrack,
}

/// Track buffer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Policy.
    pub read_ahead: ReadAhead,
    /// How far ahead it reads, in sectors.
    pub fence_sectors: u32,
    /// Rate at which buffered data reaches the host, in 10⁶ bytes per second.
    pub bus_mb_per_s: f64,
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { read_ahead: ReadAhead::None, fence_sectors: 0, bus_mb_per_s: 10.0 }
    }
}

fn ns(ms: f64) -> Time {
    (ms * MILLIS as f64).round() as Time
}

impl Seek {
    /// Seek time over `distance` cylinders of a disk with `cylinders`, in nanoseconds.
    pub fn ns(&self, distance: u32, cylinders: u32) -> Time {
        if distance == 0 {
            return 0;
        }
        let d = f64::from(distance);
        match self {
            Seek::Pieces(pieces) => {
                let piece =
                    pieces.iter().find(|piece| piece.below.is_none_or(|end| distance < end));
                let piece = piece.or(pieces.last());
                piece.map_or(0, |p| ns(p.constant_ms + p.root_ms * d.sqrt() + p.linear_ms * d))
            }
            Seek::Stroke { constant_ms, root_ms } => {
                ns(constant_ms + root_ms * (d / f64::from(cylinders)).sqrt())
            }
            Seek::Points(points) => {
                let after = points.partition_point(|&(at, _)| at < distance);
                match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
                    (Some((a, x)), Some(&(b, y))) => {
                        ns(x + (y - x) * (d - f64::from(a)) / f64::from(b - a))
                    }
                    (_, Some(&(_, y))) => ns(y),
                    (Some((_, x)), None) => ns(x),
                    (None, None) => 0,
                }
            }
        }
    }
}

impl Spec {
    /// Reads a specification and checks every value.
    ///
    /// # Errors
    /// The first thing that is wrong, with the name of the field.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        let spec: Spec =
            toml::from_str(text).map_err(|error| SpecError::Syntax(error.to_string()))?;
        spec.validate()?;
        Ok(spec)
    }

    fn validate(&self) -> Result<(), SpecError> {
        let wrong =
            |field: &str, problem: String| Err(SpecError::Field { field: field.into(), problem });
        if !(60.0..=100_000.0).contains(&self.rpm) {
            return wrong("rpm", format!("{} lies outside 60 to 100000", self.rpm));
        }
        if self.heads == 0 || self.heads > 64 {
            return wrong("heads", format!("{} lies outside 1 to 64", self.heads));
        }
        if self.cylinders == 0 || self.cylinders > 1 << 22 {
            return wrong("cylinders", format!("{} lies outside 1 to 4194304", self.cylinders));
        }
        for (field, value) in
            [("head_switch_ms", self.head_switch_ms), ("overhead_ms", self.overhead_ms)]
        {
            if !(0.0..=1000.0).contains(&value) {
                return wrong(field, format!("{value} lies outside 0 to 1000 ms"));
            }
        }
        let [zone] = self.zones.as_slice() else {
            return wrong("zones", format!("{} zones: one is supported", self.zones.len()));
        };
        if zone.sectors == 0
            || zone.sectors > 1 << 16
            || !u64::from(zone.sectors).is_multiple_of(BLOCK_SECTORS)
        {
            return wrong(
                "zones.sectors",
                format!(
                    "{} is no multiple of 8 up to 65536; tracks hold whole 4 KiB blocks",
                    zone.sectors
                ),
            );
        }
        for (field, skew) in
            [("zones.track_skew", zone.track_skew), ("zones.cylinder_skew", zone.cylinder_skew)]
        {
            if skew >= zone.sectors {
                return wrong(
                    field,
                    format!("{skew} is not below the {} sectors of a track", zone.sectors),
                );
            }
        }
        if self.buffer.bus_mb_per_s.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
            return wrong("buffer.bus_mb_per_s", "must be above zero".into());
        }
        self.validate_seek()
    }

    fn validate_seek(&self) -> Result<(), SpecError> {
        let wrong = |problem: String| Err(SpecError::Field { field: "seek".into(), problem });
        let last = match &self.seek {
            Seek::Pieces(pieces) if pieces.is_empty() => return wrong("no pieces".into()),
            Seek::Points(points) if points.is_empty() => return wrong("no points".into()),
            Seek::Points(points) if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) => {
                return wrong("distances must increase".into());
            }
            Seek::Pieces(pieces) => {
                pieces.iter().all(|p| p.constant_ms.is_finite() && p.constant_ms >= 0.0)
            }
            Seek::Points(points) => points.iter().all(|&(_, ms)| ms.is_finite() && ms >= 0.0),
            Seek::Stroke { constant_ms, root_ms } => *constant_ms >= 0.0 && *root_ms >= 0.0,
        };
        if last { Ok(()) } else { wrong("times must be zero or above".into()) }
    }

    /// Size of the disk in 4 KiB blocks.
    pub fn capacity_blocks(&self) -> u64 {
        let sectors =
            u64::from(self.zones[0].sectors) * u64::from(self.heads) * u64::from(self.cylinders);
        sectors / BLOCK_SECTORS
    }

    /// [`Spec::head_switch_ms`] in nanoseconds.
    pub fn head_switch_ns(&self) -> Time {
        ns(self.head_switch_ms)
    }

    /// [`Spec::overhead_ms`] in nanoseconds.
    pub fn overhead_ns(&self) -> Time {
        ns(self.overhead_ms)
    }

    /// Time on the bus for a number of sectors, in nanoseconds.
    pub fn bus_ns(&self, sectors: u64) -> Time {
        let bytes = (sectors * SECTOR_BYTES as u64) as f64;
        (bytes * 1e3 / self.buffer.bus_mb_per_s).round() as Time
    }
}
