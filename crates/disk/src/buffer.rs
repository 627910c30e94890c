//! The track buffer: what has been read ahead, computed when somebody asks.

use crate::mechanics::{Mechanics, Place};
use crate::spec::ReadAhead;
use seekless_engine::arm::Track;
use seekless_engine::units::{Sector, Time};

/// A track buffer that holds part of one track. It is filled by the passing platter from `since`
/// on; how far it has come is computed from the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackBuffer {
    policy: ReadAhead,
    fence: u32,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    track: Track,
    /// First sector of the track that is held.
    from: u32,
    /// End of what a request has read.
    read: u32,
    /// End of what may be read ahead.
    limit: u32,
    /// When the sector at `read` began to pass (forward), or the first sector of all (whole track).
    since: Time,
    /// The sector under the head at `since` (whole track).
    first: u32,
}

impl TrackBuffer {
    /// An empty buffer.
    pub fn new(policy: ReadAhead, fence: u32) -> TrackBuffer {
        TrackBuffer { policy, fence, held: None }
    }

    /// The policy.
    pub fn policy(&self) -> ReadAhead {
        self.policy
    }

    /// Forgets everything, as when the head leaves the track or a write goes to it.
    pub fn clear(&mut self) {
        self.held = None;
    }

    /// When all of the sectors are in the buffer, if they are or will be without moving the head.
    pub fn ready(&self, mechanics: &Mechanics, sector: Sector, count: u32) -> Option<Time> {
        let held = self.held?;
        let place = mechanics.place(sector);
        let end = place.sector + count;
        if place.track != held.track || end > mechanics.sectors_per_track() {
            return None;
        }
        match self.policy {
            ReadAhead::None => None,
            ReadAhead::Forward => {
                if place.sector < held.from {
                    return None;
                }
                if end <= held.read {
                    return Some(held.since);
                }
                if end > held.limit {
                    return None;
                }
                let from = Place { track: held.track, sector: held.read };
                Some(held.since + mechanics.pass_ns(from, end - held.read))
            }
            ReadAhead::WholeTrack => {
                let sectors = mechanics.sectors_per_track();
                // Sectors pass in order from `first` on, wrapping round.
                let position = |sector: u32| (sector + sectors - held.first) % sectors;
                let wraps = place.sector < held.first && held.first < end;
                let last = if wraps { sectors - 1 } else { position(end - 1) };
                let passed = u64::from(last + 1) * mechanics.rev_ns() / u64::from(sectors);
                Some(held.since + passed)
            }
        }
    }

    /// A read of these sectors has come from the platter, or from the buffer, and ended at `end`.
    pub fn after_read(&mut self, mechanics: &Mechanics, sector: Sector, count: u32, end: Time) {
        let place = mechanics.place(sector);
        let sectors = mechanics.sectors_per_track();
        match self.policy {
            ReadAhead::None => {}
            ReadAhead::Forward => {
                let (track, read) = match place.sector + count {
                    within if within <= sectors => (place.track, within),
                    _ => {
                        let last = mechanics.place(sector + u64::from(count) - 1);
                        (last.track, last.sector + 1)
                    }
                };
                let from = if track == place.track { place.sector } else { 0 };
                let limit = (read + self.fence).min(sectors);
                self.held = Some(Held { track, from, read, limit, since: end, first: 0 });
            }
            ReadAhead::WholeTrack => {}
        }
    }

    /// A hit at `now`: what lies before the request is dropped. Reading goes on further, unless it
    /// had come to its limit already: then the next sectors have passed the head.
    pub fn after_hit(&mut self, mechanics: &Mechanics, sector: Sector, count: u32, now: Time) {
        let sectors = mechanics.sectors_per_track();
        if let Some(held) = &mut self.held
            && self.policy == ReadAhead::Forward
        {
            let place = mechanics.place(sector);
            held.from = place.sector;
            let from = Place { track: held.track, sector: held.read.min(sectors - 1) };
            let full = held.since + mechanics.pass_ns(from, held.limit - held.read.min(held.limit));
            if now < full {
                held.limit = held.limit.max((place.sector + count + self.fence).min(sectors));
            }
        }
    }

    /// The head has arrived over a track with nothing held and reads all of it from `first` on.
    pub fn start_track(&mut self, track: Track, first: u32, since: Time) {
        self.held = Some(Held { track, from: 0, read: 0, limit: 0, since, first });
    }
}
