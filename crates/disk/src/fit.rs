//! The parameters of a drive, estimated from outside: by measurement or from a recording.
//!
//! [`measure`] sends reads to a [`Probe`], a real drive or a simulated one, and finds rotation,
//! layout, seek curve, head switch, overhead and cache. It follows the interrogation of
//! Worthington, Ganger, Patt and Wilkes ("On-line extraction of SCSI disk drive parameters", 1995),
//! with two differences. It needs no SCSI command: the place of a sector on its track follows from
//! the *phase* of its completion, the time modulo a turn, which no seek changes. And the least time
//! between two completions (their MTBRC) is not searched for by trying sectors: each pair of reads
//! bounds the positioning time from both sides, a turn apart, and the next pair is sent so that it
//! halves the remaining interval.
//!
//! [`recorded`] estimates fewer parameters, from a recording. [`sample`] makes such a recording.
//!
//! This module has neither clock nor device: times come from the probe.

mod bench;
mod cache;
mod heads;
mod layout;
pub mod recorded;
mod rotation;
pub mod sample;
mod specification;
#[cfg(test)]
mod tests;
mod travel;
mod zones;

use crate::length::length;
use seekless_engine::units::Time;

pub use bench::Step;
pub use cache::{CacheFit, Reach};
pub use travel::SeekPoint;
pub use zones::ZoneFit;

/// A drive that reads sectors, one request at a time.
pub trait Probe {
    /// Size in sectors of 512 bytes.
    fn sectors(&self) -> u64;

    /// The smallest request, in sectors of 512 bytes; requests begin at multiples of it.
    fn granule(&self) -> u32 {
        1
    }

    /// The largest request, in sectors of 512 bytes.
    fn largest(&self) -> u32 {
        2048
    }

    /// Time from an arbitrary origin, in nanoseconds.
    fn now(&self) -> Time;

    /// Lets time pass with no request, in nanoseconds.
    fn pause(&mut self, ns: Time);

    /// Reads sectors and returns how long that took, in nanoseconds. Afterwards [`Probe::now`] is
    /// the time of completion.
    ///
    /// # Errors
    /// If the drive does not deliver, with the reason.
    fn read(&mut self, lbn: u64, sectors: u32) -> Result<Time, String>;
}

/// A number and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error, or half of the interval that the measurements leave.
    pub error: f64,
}

impl Estimate {
    pub(crate) fn new(value: f64, error: f64) -> Estimate {
        Estimate { value, error }
    }

    /// The same in a unit that is `factor` of the present one.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Estimate {
        Estimate::new(self.value * factor, self.error * factor.abs())
    }

    /// The difference of two independent estimates.
    #[must_use]
    pub fn less(self, other: Estimate) -> Estimate {
        Estimate::new(self.value - other.value, length(self.error, other.error))
    }
}

/// Why nothing could be estimated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// The drive refused a read.
    #[error("{0}")]
    Probe(String),
    /// The time ran out before anything was estimated.
    #[error("the time was up while measuring {0}; allow more with --budget")]
    TimeUp(&'static str),
    /// The measurements do not fit a mechanical disk.
    #[error("{0}")]
    NotMechanical(String),
    /// The estimated layout leads beyond the end of the drive.
    #[error(
        "the estimated layout leads to sector {lbn} of a drive of {sectors}; the drive may be too \
         small, or its layout is not supported: try another --seed, or write the specification by \
         hand"
    )]
    Lost {
        /// The sector.
        lbn: u64,
        /// Sectors of the drive.
        sectors: u64,
    },
    /// The times of a recording add up to more than [`LONGEST_REPLAY`] at this request.
    ///
    /// [`LONGEST_REPLAY`]: crate::recording::LONGEST_REPLAY
    #[error("{}", crate::recording::ReplayError::TooLong { place: *.0 })]
    TooLong(crate::recording::Place),
    /// The estimates make no valid specification.
    #[error("the estimates make no valid specification: {0}")]
    Specification(String),
}

/// Options of [`measure`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Measuring ends after so long by the probe's clock, in nanoseconds.
    pub budget: Option<Time>,
    /// Distances of which the seek curve consists, at most.
    pub seek_points: usize,
    /// Seed of the choice of sectors.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options { budget: None, seek_points: 48, seed: 1 }
    }
}

/// The estimated parameters of a drive. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// One revolution.
    pub revolution: Estimate,
    /// Standard deviation of completion times about the turns of the platter.
    pub noise: f64,
    /// Tracks in a cylinder, if they could be distinguished.
    pub heads: Option<u32>,
    /// Zones from the first sector on.
    pub zones: Vec<ZoneFit>,
    /// From the command to the start of positioning, the transfer to the host included.
    pub overhead: Option<Estimate>,
    /// Switching to another head of the same cylinder.
    pub head_switch: Option<Estimate>,
    /// Seek times by distance.
    pub seek: Vec<SeekPoint>,
    /// The cache.
    pub cache: CacheFit,
    /// Reads that were sent.
    pub reads: u64,
    /// Time that measuring took.
    pub took: Time,
    /// What could not be estimated, and why.
    pub missing: Vec<String>,
}

impl Fit {
    /// Revolutions per minute.
    pub fn rpm(&self) -> Estimate {
        let rpm = 60e9 / self.revolution.value;
        Estimate::new(rpm, rpm * self.revolution.error / self.revolution.value)
    }

    /// Cylinders in all zones.
    pub fn cylinders(&self) -> u64 {
        self.zones.iter().map(|zone| zone.cylinders).sum()
    }
}

/// Measures a drive.
///
/// # Errors
/// If the drive fails, is not a mechanical disk, or the time is too short even for its rotation and
/// first track. Other missing parameters are named in [`Fit::missing`].
pub fn measure(
    probe: &mut dyn Probe,
    options: &Options,
    progress: &mut dyn FnMut(Step),
) -> Result<Fit, FitError> {
    let mut bench = bench::Bench::new(probe, options, progress);
    let mut missing = Vec::new();
    bench.begin("the cache");
    let mut cache = cache::hits(&mut bench).map_err(|stop| stop.named("the cache"))?;
    bench.begin("the rotation");
    rotation::acquire(&mut bench).map_err(|stop| stop.named("the rotation"))?;
    bench.begin("the first tracks");
    let first = layout::zone_at(&mut bench, 0, None);
    let first = first.map_err(|stop| stop.named("the first tracks"))?;
    bench.begin("heads");
    let (first, heads) = match heads::tell(&mut bench, first.clone(), &mut missing) {
        Err(stop) => {
            bench.note(stop, "the number of heads", &mut missing)?;
            (first, None)
        }
        Ok(found) => found,
    };
    bench.begin("zones");
    let zones = zones::all(&mut bench, first, &mut missing)?;
    let mut fit = Fit {
        sectors: bench.sectors(),
        revolution: bench.revolution(),
        noise: bench.sigma(),
        heads,
        zones: Vec::new(),
        overhead: None,
        head_switch: None,
        seek: Vec::new(),
        cache: CacheFit::default(),
        reads: 0,
        took: 0,
        missing: Vec::new(),
    };
    bench.begin("overhead, head switch and seeks");
    if let Err(stop) = travel::all(&mut bench, &zones, options, &mut fit, &mut missing) {
        bench.note(stop, "the rest of the seek curve", &mut missing)?;
    }
    bench.begin("read-ahead");
    match cache::shape(&mut bench, &zones, &mut cache) {
        Ok(()) => missing.extend(cache.untold()),
        Err(stop) => {
            let what = "some of read-ahead, size of segments, bus and zero-latency reads";
            bench.note(stop, what, &mut missing)?;
        }
    }
    fit.revolution = bench.revolution();
    fit.zones = zones::told(&zones, bench.period());
    fit.cache = cache;
    (fit.reads, fit.took) = bench.spent();
    fit.missing = missing;
    Ok(fit)
}
