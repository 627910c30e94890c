//! The track buffer of a disk without a segmented cache. Its content is computed from the time when
//! it is needed.

use crate::mechanics::Mechanics;
use crate::motion::Motion;
use crate::spec::ReadAhead;
use seekless_engine::units::{Sector, Time};
use std::ops::Range;

/// The properties of a platter that a track buffer needs.
pub(crate) trait Tracks {
    /// The sectors of the track that a sector lies on.
    fn track(&self, sector: Sector) -> Range<Sector>;
    /// Sectors in a whole turn of that track.
    fn turn_sectors(&self, sector: Sector) -> u64;
    /// Time that `count` sectors from this one on take to pass; they lie on its track.
    fn pass_ns(&self, sector: Sector, count: u32) -> Time;
    /// One revolution, in nanoseconds.
    fn rev_ns(&self) -> Time;
    /// The sector of a track whose beginning passes the head first at or after `at`, and when.
    fn first_to_pass(&self, track: &Range<Sector>, at: Time) -> (Sector, Time);
}

impl Tracks for Mechanics {
    fn track(&self, sector: Sector) -> Range<Sector> {
        let sectors = u64::from(self.sectors_per_track());
        let start = sector / sectors * sectors;
        start..start + sectors
    }

    fn turn_sectors(&self, _sector: Sector) -> u64 {
        u64::from(self.sectors_per_track())
    }

    fn pass_ns(&self, sector: Sector, count: u32) -> Time {
        self.pass_ns(self.place(sector), count)
    }

    fn rev_ns(&self) -> Time {
        self.rev_ns()
    }

    fn first_to_pass(&self, track: &Range<Sector>, at: Time) -> (Sector, Time) {
        let mut place = self.place(track.start);
        place.sector = self.next_sector(place.track, at % self.rev_ns());
        (track.start + u64::from(place.sector), at + self.rotation_ns(place, at))
    }
}

impl Tracks for Motion {
    fn track(&self, sector: Sector) -> Range<Sector> {
        let geometry = self.geometry();
        let before = u64::from(geometry.physical(sector).sector);
        sector.saturating_sub(before)..geometry.track_end(sector)
    }

    fn turn_sectors(&self, sector: Sector) -> u64 {
        u64::from(self.geometry().run(sector).track_sectors)
    }

    fn pass_ns(&self, sector: Sector, count: u32) -> Time {
        self.pass_ns(&self.geometry().run(sector), count)
    }

    fn rev_ns(&self) -> Time {
        self.rev_ns()
    }

    fn first_to_pass(&self, track: &Range<Sector>, at: Time) -> (Sector, Time) {
        let run = self.geometry().run(track.start);
        let turned = (self.rev_ns() - self.until(self.target_ns(&run), at)) % self.rev_ns();
        let guess = turned * u64::from(run.track_sectors) / self.rev_ns();
        let passes = |sector: u64| self.pass_ns(&run, sector as u32) >= turned;
        let sectors = track.end - track.start;
        // The first sector passes behind the last one, a turn later.
        let next = (guess.saturating_sub(1)..sectors).find(|&sector| passes(sector));
        let next = track.start + next.unwrap_or(0);
        (next, at + self.until(self.target_ns(&self.geometry().run(next)), at))
    }
}

/// A track buffer that holds part of one track. It is filled by the passing platter from `since`
/// on; its extent is computed from the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackBuffer {
    policy: ReadAhead,
    fence: u64,
    held: Option<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    track: Range<Sector>,
    /// First sector that is held.
    from: Sector,
    /// End of what a request has read.
    read: Sector,
    /// End of what may be read ahead.
    limit: Sector,
    /// When the sector at `read` began to pass (forward), or the first sector of all (whole track).
    since: Time,
    /// The sector under the head at `since` (whole track).
    first: Sector,
}

impl TrackBuffer {
    /// An empty buffer.
    pub fn new(policy: ReadAhead, fence_sectors: u32) -> TrackBuffer {
        TrackBuffer { policy, fence: u64::from(fence_sectors), held: None }
    }

    /// True if whole tracks are read, from the first sector under the head.
    pub fn reads_whole_tracks(&self) -> bool {
        self.policy == ReadAhead::WholeTrack
    }

    /// Empties the buffer, because the head leaves the track or a write goes to it.
    pub fn clear(&mut self) {
        self.held = None;
    }

    /// When all of the sectors are in the buffer, if that needs no movement of the head. `None` for
    /// a read that leaves the track: all of it comes from the platter.
    pub fn ready(&self, tracks: &impl Tracks, sector: Sector, count: u32) -> Option<Time> {
        let held = self.held.as_ref()?;
        let end = sector + u64::from(count);
        if sector < held.from || end > held.limit {
            return None;
        }
        let passed = match self.policy {
            ReadAhead::None => return None,
            ReadAhead::Forward if end <= held.read => 0,
            ReadAhead::Forward => tracks.pass_ns(held.read, (end - held.read) as u32),
            ReadAhead::WholeTrack => {
                let turn = tracks.turn_sectors(sector);
                // Sectors pass in order from `first` on, wrapping round.
                let wraps = sector < held.first && held.first < end;
                let last = if wraps { turn - 1 } else { (end - 1 + turn - held.first) % turn };
                (last + 1) * tracks.rev_ns() / turn
            }
        };
        Some(held.since + passed)
    }

    /// Records a read of these sectors from the platter that ended at `end`.
    pub fn after_read(&mut self, tracks: &impl Tracks, sector: Sector, count: u32, end: Time) {
        self.held = None;
        if self.policy == ReadAhead::Forward {
            let read = sector + u64::from(count);
            let track = tracks.track(read - 1);
            let from = sector.max(track.start);
            let limit = (read + self.fence).min(track.end);
            self.held = Some(Held { track, from, read, limit, since: end, first: 0 });
        }
    }

    /// A hit at `now` drops the sectors before the request. Reading ahead continues unless it has
    /// reached its limit: then the next sectors have passed the head.
    pub fn after_hit(&mut self, tracks: &impl Tracks, sector: Sector, count: u32, now: Time) {
        let Some(held) = self.held.as_mut().filter(|_| self.policy == ReadAhead::Forward) else {
            return;
        };
        held.from = sector;
        let ahead = held.limit.saturating_sub(held.read) as u32;
        let full = held.since + if ahead > 0 { tracks.pass_ns(held.read, ahead) } else { 0 };
        if now < full {
            let limit = (sector + u64::from(count) + self.fence).min(held.track.end);
            held.limit = held.limit.max(limit);
        }
    }

    /// The head has arrived at `at` over the track of a sector and reads all of it. Returns when
    /// the first sector of all began to pass.
    pub fn start_track(&mut self, tracks: &impl Tracks, sector: Sector, at: Time) -> Time {
        let track = tracks.track(sector);
        let (first, since) = tracks.first_to_pass(&track, at);
        let (from, limit) = (track.start, track.end);
        self.held = Some(Held { track, from, read: from, limit, since, first });
        since
    }
}
