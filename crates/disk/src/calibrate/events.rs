//! The requests of a recording on the time of the real drive, and which of them the platter timed.

use super::CalibrateError;
use crate::drive::{Drive, Request, UNDECIDED};
use crate::recording::{Gap, LONGEST_REPLAY, Op, Pace, Recorded, ReplayError};
use crate::spec::{Spec, SpecError};
use seekless_engine::io;
use seekless_engine::units::Time;

/// A request with the times that the recording gives it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) request: Recorded,
    pub(super) issued: Time,
    pub(super) done: Time,
}

/// A request whose last sector passed the head at a time that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// When the last sector had passed, in nanoseconds.
    pub(super) at: f64,
    /// The angle behind the last sector by the layout alone, in turns.
    pub(super) angle: f64,
    pub(super) cylinder: u32,
    pub(super) head: u32,
    pub(super) track_sectors: u32,
}

/// The times of all requests, as the recording gives them.
pub(super) fn timed(requests: &[Recorded], gap: Gap) -> Result<Vec<Timed>, CalibrateError> {
    let mut out = Vec::with_capacity(requests.len());
    let (mut idle, mut next, mut origin): (Time, Time, Option<Time>) = (0, 0, None);
    for request in requests {
        let issued = match (request.pace, gap) {
            (Pace::At(at), _) => at.saturating_sub(*origin.get_or_insert(at)).max(idle),
            (Pace::Gap(pause), Gap::Before) => idle.saturating_add(pause),
            (Pace::Gap(_), Gap::After) => next,
        };
        if issued > LONGEST_REPLAY {
            return Err(ReplayError::TooLong { place: request.place }.into());
        }
        let done = issued + request.response_ns;
        out.push(Timed { request: *request, issued, done });
        idle = done;
        next = match request.pace {
            Pace::Gap(pause) => done + pause,
            Pace::At(_) => done,
        };
    }
    Ok(out)
}

/// The requests whose end the platter timed. The model says how long a request takes from its last
/// sector to its report; it is asked at the times of the recording. The angles leave out
/// [`Spec::phase`].
pub(super) fn passed(spec: &Spec, timed: &[Timed]) -> Result<Vec<Passed>, SpecError> {
    let mut drive = Drive::new(spec)?;
    let plain = crate::geometry::Geometry::new(&Spec { phase: None, ..spec.clone() })?;
    let (early, rev) = (spec.reports_early(), drive.motion().rev_ns());
    let hit = Hit::new(spec);
    let mut out = Vec::new();
    for one in timed {
        let (lbn, sectors) = (one.request.lbn, one.request.sectors);
        let write = one.request.op == Op::Write;
        let op = if write { io::Op::Write } else { io::Op::Read };
        let request = Request { tag: 0, op, lbn, sectors, fua: false };
        let Some(found) = ask(&mut drive, one.issued, request) else { continue };
        // A read that is served while the head reads ahead counts from its command on.
        let begun = one.issued + found.spent.overhead_ns + found.spent.queue_ns;
        // The one sector of a request begins and ends with the same time.
        let timed_by_platter = found.media_end != UNDECIDED
            && (found.media_end > found.media_start || sectors == 1)
            && (write || found.media_start > begun);
        if !timed_by_platter || (write && early) {
            continue;
        }
        let tail = found.at.saturating_sub(found.media_end);
        let run = plain.run(lbn + u64::from(sectors) - 1);
        let turn = f64::from(run.track_sectors);
        let sector = rev as f64 / turn;
        // A quicker answer than from the platter came from the cache.
        let took = one.request.response_ns as f64;
        if took < tail as f64 + 2.0 * sector || (!write && took < hit.at_most(sectors)) {
            continue;
        }
        let position = run.position as f64 / crate::geometry::PARTS as f64;
        out.push(Passed {
            at: one.done as f64 - tail as f64,
            angle: (position + 1.0) / turn,
            cylinder: run.cylinder,
            head: run.head,
            track_sectors: run.track_sectors,
        });
    }
    Ok(out)
}

/// How long a read from the cache takes, by the specification.
struct Hit {
    fixed: f64,
    sector: f64,
}

impl Hit {
    fn new(spec: &Spec) -> Hit {
        let o = &spec.overheads;
        let ms = spec.overhead_ms
            + o.read_hit_after_read_ms.max(o.read_hit_after_write_ms)
            + o.read_completion_ms
            + o.data_preparation_ms;
        let sector = spec.bus.map_or(0.0, |bus| bus.read_sector_ms);
        Hit { fixed: ms * 1e6, sector: sector * 1e6 }
    }

    /// A read that takes longer did not come from the cache, in nanoseconds: a third more and a
    /// quarter of a millisecond leave room for a wrong specification.
    fn at_most(&self, sectors: u32) -> f64 {
        (self.fixed + self.sector * f64::from(sectors)) * 1.3 + 250_000.0
    }
}

/// Serves a request alone; one that the disk does not have is passed over.
fn ask(drive: &mut Drive, at: Time, request: Request) -> Option<crate::drive::Completion> {
    drive.submit(at, request).ok()?;
    let mut done = Vec::with_capacity(1);
    while done.is_empty() {
        let next = drive.next_event()?.max(at);
        drive.advance(next, &mut done);
    }
    done.pop()
}
