//! The timing of a disk: requests for sectors go in, completions with their times come out.
//!
//! A drive holds no data. Recordings of real disks are replayed on it; [`crate::Disk`] adds a
//! medium and the semantics of a power cut. With FCFS a command is timed when it is submitted. With
//! any other discipline the next command is chosen when the one before is done.

mod buffered;
pub(crate) mod bus;
mod destage;
mod memory;
mod queue;
mod service;
mod shingle;
#[cfg(test)]
mod tests;
mod translate;
mod writeback;

use crate::motion::{Motion, Place};
use crate::spec::{Discipline, Spec, SpecError};
use queue::Waiting;
use seekless_engine::io::{Breakdown, Op};
use seekless_engine::units::{SECTOR_BYTES, Time};
use service::Service;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request for sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Returned with the completion.
    pub tag: u64,
    /// What to do.
    pub op: Op,
    /// First sector.
    pub lbn: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Complete only when on the platter.
    pub fua: bool,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Tag of the request.
    pub tag: u64,
    /// When it was complete.
    pub at: Time,
    /// When its first sector passed the head; for a write that was reported early, when it will.
    /// [`UNDECIDED`] for a write in the write-back cache.
    pub media_start: Time,
    /// When the last of its sectors had passed the head or will have; [`UNDECIDED`] as above.
    pub media_end: Time,
    /// Where the time went. The parts add up to the time since submission.
    pub spent: Breakdown,
}

/// A time that is not decided yet.
pub const UNDECIDED: Time = Time::MAX;

/// Sectors that went from the write-back cache to the platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destage {
    /// When they were chosen. Later writes to these sectors are a later extent.
    pub at: Time,
    /// First sector.
    pub lbn: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// When the first of them began to pass the head.
    pub media_start: Time,
    /// When the last of them had passed.
    pub media_end: Time,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The request leaves the disk.
    #[error("sectors {lbn}+{sectors} lie outside the disk, which has {capacity}")]
    OutOfRange {
        /// First sector asked for.
        lbn: u64,
        /// Number of sectors asked for.
        sectors: u32,
        /// Sectors of the disk.
        capacity: u64,
    },
    /// The request begins or ends within a sector as the host addresses them.
    #[error(
        "sectors {lbn}+{sectors} of 512 bytes are not whole sectors of {bytes} bytes, which the \
         disk is addressed by; ask for whole ones, or give the disk `sector_size.logical = 512`"
    )]
    Unaligned {
        /// First sector asked for.
        lbn: u64,
        /// Number of sectors asked for.
        sectors: u32,
        /// Bytes of a logical sector.
        bytes: u32,
    },
}

/// A disk as a state machine of time.
#[derive(Debug)]
pub struct Drive {
    service: Service,
    /// Completions to come, in order of time.
    done: VecDeque<Completion>,
    waiting: Waiting,
    /// Sectors of 512 bytes in a logical one, a power of two.
    granule: u32,
}

impl Drive {
    /// A drive with its head over cylinder 0 at time 0.
    ///
    /// # Errors
    /// A specification that fails its checks.
    pub fn new(spec: &Spec) -> Result<Drive, SpecError> {
        Ok(Drive {
            service: Service::new(spec)?,
            done: VecDeque::new(),
            waiting: Waiting::new(spec.queue, spec.host_queue),
            granule: spec.sector_size.logical_sectors() as u32,
        })
    }

    /// Sectors of 512 bytes that a request covers whole numbers of.
    pub fn granule(&self) -> u32 {
        self.granule
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.service.motion.geometry().sectors()
    }

    /// Layout and motion.
    pub fn motion(&self) -> &Arc<Motion> {
        &self.service.motion
    }

    /// Where and when the head is when all accepted work is done.
    pub fn head(&self) -> (Place, Time) {
        (self.service.place, self.service.mechanism_free.max(self.service.controller_free))
    }

    /// Where the head is when all accepted work is done, and when it can begin a write that comes
    /// at `now`. That time includes the costs that vary: the controller needs longer after a read,
    /// and the write element must move over the track.
    pub fn writer(&self, now: Time) -> (Place, Time) {
        let (place, at) = self.head();
        (place, at.max(now) + self.service.before_write(now))
    }

    /// Accepts a request.
    ///
    /// # Errors
    /// Sectors that the disk does not have, or parts of sectors. Nothing has happened then.
    pub fn submit(&mut self, now: Time, request: Request) -> Result<(), RequestError> {
        let capacity = self.sectors();
        let Request { lbn, sectors, .. } = request;
        if lbn.checked_add(u64::from(sectors)).is_none_or(|end| end > capacity) {
            return Err(RequestError::OutOfRange { lbn, sectors, capacity });
        }
        if (lbn | u64::from(sectors)) & u64::from(self.granule - 1) != 0 {
            let bytes = self.granule * SECTOR_BYTES as u32;
            return Err(RequestError::Unaligned { lbn, sectors, bytes });
        }
        if self.waiting.in_order() {
            let completion = self.service.serve(now, now, &request);
            self.done.push_back(completion);
            return Ok(());
        }
        self.run(now);
        self.waiting.push(&self.service.motion, now, request);
        self.run(now);
        Ok(())
    }

    /// Serves the requests that can begin before or at `now`.
    fn run(&mut self, now: Time) {
        while !self.waiting.is_empty() && self.service.controller_free <= now {
            let at = self.service.controller_free.max(self.waiting.earliest());
            if at > now {
                break;
            }
            self.service.catch_up(at);
            let Some((arrived, request)) = self.waiting.next(&self.service, at) else { break };
            let completion = self.service.serve(arrived, at, &request);
            self.done.push_back(completion);
        }
    }

    /// Serves one request while there is no other, and returns when it is complete.
    ///
    /// # Errors
    /// Sectors that the disk does not have, or parts of sectors.
    ///
    /// # Panics
    /// If other requests are in the drive.
    pub fn serve_alone(&mut self, now: Time, request: Request) -> Result<Time, RequestError> {
        assert_eq!(self.outstanding(), 0, "a request alone");
        self.submit(now, request)?;
        let mut done = Vec::with_capacity(1);
        loop {
            let next = self.next_event().expect("a request is served or waits for the controller");
            self.advance(next, &mut done);
            if let Some(completion) = done.first() {
                return Ok(completion.at);
            }
        }
    }

    /// When the next completion is due.
    pub fn next_event(&self) -> Option<Time> {
        self.done.front().map(|completion| completion.at)
    }

    /// Appends the completions that are due at `now`.
    pub fn advance(&mut self, now: Time, completions: &mut Vec<Completion>) {
        loop {
            while let Some(completion) = self.done.front().filter(|next| next.at <= now) {
                completions.push(*completion);
                self.done.pop_front();
            }
            if self.waiting.is_empty() || self.service.controller_free > now {
                return;
            }
            self.run(now);
        }
    }

    /// From this call on, the disk records what its write-back cache writes out, for
    /// [`Drive::destaged`]. The caller must fetch it, or the list grows without limit.
    pub fn log_destages(&mut self) {
        self.service.log.get_or_insert_default();
    }

    /// The next move from the write-back cache to the platter that was begun before `now`, in
    /// order of time.
    pub fn destaged(&mut self, now: Time) -> Option<Destage> {
        self.service.catch_up(now);
        let log = self.service.log.as_mut()?;
        log.pop_front_if(|next| next.at < now)
    }

    /// Completions to come of requests that are being served, in order of time.
    pub fn scheduled(&self) -> impl Iterator<Item = &Completion> {
        self.done.iter()
    }

    /// True if a write under way goes to the log of a shingled disk. It counts as a whole or not at
    /// all: the map names it when it is complete.
    pub fn logs(&self, lbn: u64, sectors: u32) -> bool {
        self.service.logs(lbn, sectors)
    }

    /// Requests accepted and not completed.
    pub fn outstanding(&self) -> usize {
        self.done.len() + self.waiting.len()
    }

    /// The discipline by which the disk chooses.
    pub fn discipline(&self) -> Discipline {
        self.waiting.discipline()
    }
}
