//! Replays the requests of a recording on a model, one at a time.

use super::{Op, Pace, Place, Recorded, RecordingError};
use seekless_engine::units::{SECONDS, Time};

/// Longest replay, in nanoseconds from its first request: 100 years. Times are 64-bit nanoseconds,
/// which hold nearly six times as much. A sum near their end would saturate, and responses would be
/// reported as zero.
pub const LONGEST_REPLAY: Time = 100 * 365 * 24 * 3600 * SECONDS;

/// Whether the pause that stands beside a request came before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// From the completion of the request before to this one.
    Before,
    /// From the completion of this request to the next.
    After,
}

/// The model that is validated: it serves one request after the other.
pub trait Subject {
    /// Its size in sectors of 512 bytes.
    fn sectors(&self) -> u64;

    /// Serves a request that is sent at time `at` and returns when it is complete. Requests come
    /// one after the other: `at` is never before the last completion.
    ///
    /// # Errors
    /// If it refuses the request.
    fn serve(&mut self, at: Time, op: Op, lbn: u64, sectors: u32) -> Result<Time, Refused>;
}

/// Why a subject does not serve a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The request, with what the drive took.
    pub request: Recorded,
    /// When the model got it, in nanoseconds from the begin of the replay.
    pub issued: Time,
    /// How long the model took, in nanoseconds.
    pub simulated_ns: Time,
}

/// Why a replay ends before the recording does.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A request goes beyond the end of the disk.
    #[error(
        "{place}: the request for {sectors} sectors from {lbn} ends beyond the {capacity} sectors \
         of the disk; is this a recording of that drive?"
    )]
    OutOfRange {
        /// Where the request is written.
        place: Place,
        /// Its first sector.
        lbn: u64,
        /// Its length.
        sectors: u32,
        /// Sectors of the disk.
        capacity: u64,
    },
    /// The model refuses a request.
    #[error("{place}: {refused}")]
    Refused {
        /// Where the request is written.
        place: Place,
        /// Its reason.
        refused: Refused,
    },
    /// The times of the recording add up to more than [`LONGEST_REPLAY`].
    #[error(
        "{place}: the times up to this request add up to more than 100 years; are they in \
         microseconds?"
    )]
    TooLong {
        /// The request that is sent later.
        place: Place,
    },
    /// A recording of very many drives.
    #[error("{place}: more than {MOST_DEVICES} drives in one recording; is the column right?")]
    Devices {
        /// Where the last one appears.
        place: Place,
    },
}

/// No recording has more drives than this.
const MOST_DEVICES: usize = 256;

/// A replay at depth one. Drives that share a recording have a model each; pauses count from the
/// completion before on the same drive.
#[derive(Debug)]
pub struct Replay<S, F> {
    gap: Gap,
    make: F,
    drives: Vec<Drive<S>>,
    /// The time of the first request, if the recording has times.
    origin: Option<Time>,
}

#[derive(Debug)]
struct Drive<S> {
    device: u32,
    subject: S,
    /// When the last request was complete, or zero.
    idle: Time,
    /// When the next request may be sent at the earliest.
    next: Time,
    /// The request before, if the recording has times.
    before: Option<Before>,
}

/// A request whose time is recorded.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// When it was sent, by the recording.
    at: Time,
    /// When it was complete, by the recording.
    done: Time,
    /// When the host of the model had it.
    arrived: Time,
}

impl Before {
    /// When the host of the model has a request that was sent at `at`; `idle` is when the model was
    /// done with this one. A pause stays as long as it was: the platter of the model turns to
    /// where that of the drive was. Requests that came before the drive was done keep their
    /// distance.
    fn next(self, at: Time, idle: Time) -> Time {
        match at.checked_sub(self.done) {
            Some(pause) => idle.saturating_add(pause),
            None => self.arrived.saturating_add(at.saturating_sub(self.at)),
        }
    }
}

impl<S: Subject, F: FnMut() -> S> Replay<S, F> {
    /// A replay that reads gaps as `gap` says; `make` gives a model in the state of a drive that
    /// has been idle.
    pub fn new(gap: Gap, make: F) -> Replay<S, F> {
        Replay { gap, make, drives: Vec::new(), origin: None }
    }

    /// Sends the next request.
    ///
    /// # Errors
    /// If it lies beyond the end of the disk, the model refuses it, or it is sent too late.
    pub fn step(&mut self, request: Recorded) -> Result<Outcome, ReplayError> {
        let origin = match request.pace {
            Pace::At(at) => *self.origin.get_or_insert(at),
            Pace::Gap(_) => 0,
        };
        let gap = self.gap;
        let drive = self.drive(&request)?;
        let place = request.place;
        let capacity = drive.subject.sectors();
        let (lbn, sectors) = (request.lbn, request.sectors);
        if lbn.checked_add(u64::from(sectors)).is_none_or(|end| end > capacity) {
            return Err(ReplayError::OutOfRange { place, lbn, sectors, capacity });
        }
        let arrived = match (request.pace, gap) {
            (Pace::Gap(pause), Gap::Before) => drive.idle.saturating_add(pause),
            (Pace::Gap(_), Gap::After) => drive.next,
            (Pace::At(at), _) => match drive.before {
                None => at.saturating_sub(origin),
                Some(before) => before.next(at, drive.idle),
            },
        };
        // The requests of the host queue up while the drive is busy.
        let issued = arrived.max(drive.idle);
        if let Pace::At(at) = request.pace {
            let done = at.saturating_add(request.response_ns);
            drive.before = Some(Before { at, done, arrived });
        }
        if issued > LONGEST_REPLAY {
            return Err(ReplayError::TooLong { place });
        }
        let done = drive
            .subject
            .serve(issued, request.op, lbn, sectors)
            .map_err(|refused| ReplayError::Refused { place, refused })?;
        drive.idle = done.max(issued);
        drive.next = match request.pace {
            Pace::Gap(pause) => drive.idle.saturating_add(pause),
            Pace::At(_) => drive.idle,
        };
        Ok(Outcome { request, issued, simulated_ns: drive.idle - issued })
    }

    fn drive(&mut self, request: &Recorded) -> Result<&mut Drive<S>, ReplayError> {
        let known = self.drives.iter().position(|drive| drive.device == request.device);
        let index = match known {
            Some(index) => index,
            None if self.drives.len() == MOST_DEVICES => {
                return Err(ReplayError::Devices { place: request.place });
            }
            None => {
                let subject = (self.make)();
                let device = request.device;
                self.drives.push(Drive { device, subject, idle: 0, next: 0, before: None });
                self.drives.len() - 1
            }
        };
        Ok(&mut self.drives[index])
    }

    /// Drives that have appeared so far.
    pub fn drives(&self) -> usize {
        self.drives.len()
    }
}
