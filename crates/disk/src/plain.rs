//! A disk of one zone without a cache: commands one after the other, each timed when it arrives.
//!
//! Layouts plan on such a disk with the same functions that compute its times, so their predictions
//! are exact.

use crate::buffer::TrackBuffer;
use crate::mechanics::{Mechanics, Place};
use crate::spec::{ReadAhead, Spec, SpecError};
use seekless_engine::account::Account;
use seekless_engine::arm::{Arm, Head, Track};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Medium;
use seekless_engine::device::ram::carry_out;
use seekless_engine::device::{Device, DeviceStatus, Mechanical};
use seekless_engine::io::{Breakdown, Done, Io, IoError, Op, Part};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, Sector, Time};
use std::collections::VecDeque;
use std::hint::cold_path;

/// A command with its times. Commands are served in order of arrival, so all times are known when
/// one is accepted.
#[derive(Debug)]
struct Accepted {
    io: Io,
    /// When its first sector passes the head.
    media_start: Time,
    end: Time,
    spent: Breakdown,
    refused: Option<IoError>,
}

/// A simulated disk without volatile write cache, first come first served.
///
/// A write is on the medium when it completes, a read returns what the medium holds then. A flush
/// only waits for its turn. A trim costs the command overhead.
#[derive(Debug)]
pub(crate) struct PlainDisk {
    mechanics: Mechanics,
    medium: Box<dyn Medium>,
    buffer: TrackBuffer,
    bus_sector_ns: Time,
    queue: VecDeque<Accepted>,
    /// Where and when the head is when all accepted work is done.
    track: Track,
    free_at: Time,
    account: Account,
}

/// Puts the first `whole` blocks of a write on the medium, with their labels: they have passed the
/// head. The medium of a cut disk cannot fail: the range was checked on acceptance.
fn write_passed(medium: &mut dyn Medium, io: &Io, whole: u32) {
    let passed = io.data.slice(0, whole);
    let _ = match &io.labels {
        None => medium.write(io.at, &passed),
        Some(labels) => medium.write_labelled(io.at, &passed, &labels[..whole as usize]),
    };
}

/// Puts those of the first `passed` sectors of a part on a medium that have passed the head.
pub(crate) fn write_part_passed(medium: &mut dyn Medium, io: &Io, part: Part, passed: u32) {
    let part = Part { sectors: passed, ..part };
    let blocks = part.end().div_ceil(BLOCK_SECTORS as u32);
    if passed > 0 {
        let _ = medium.write_part(io.at, &io.data.slice(0, blocks), part);
    }
}

/// Duration of an access to the platter.
#[derive(Clone, Copy, Debug)]
struct Access {
    media_start: Time,
    end: Time,
    track: Track,
}

impl PlainDisk {
    /// A disk with its head over track 0 at time 0.
    ///
    /// # Errors
    /// A medium of another size than the disk, a specification that cannot be simulated.
    pub fn new(spec: &Spec, medium: Box<dyn Medium>) -> Result<PlainDisk, SpecError> {
        Ok(PlainDisk {
            mechanics: Mechanics::new(spec)?,
            medium,
            buffer: TrackBuffer::new(spec.buffer.read_ahead, spec.buffer.fence_sectors),
            bus_sector_ns: spec.bus_ns(1),
            queue: VecDeque::new(),
            track: 0,
            free_at: 0,
            account: Account::default(),
        })
    }

    /// The same disk with another read-ahead policy.
    pub fn with_read_ahead(mut self, policy: ReadAhead, fence_sectors: u32) -> PlainDisk {
        self.buffer = TrackBuffer::new(policy, fence_sectors);
        self
    }

    /// The mechanics.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// Cuts the power: commands in flight vanish, except that of a write in progress the sectors
    /// that have passed the head are on the medium. Returns the medium.
    pub fn power_cut(mut self, now: Time) -> Box<dyn Medium> {
        let mut ignored = Vec::new();
        self.reap(now, &mut ignored);
        if let Some(Accepted { io, media_start, refused: None, .. }) = self.queue.pop_front()
            && io.op == Op::Write
            && media_start < now
        {
            let sectors = self.sectors_passed(&io, media_start, now);
            if let Some(part) = io.part {
                write_part_passed(self.medium.as_mut(), &io, part, sectors as u32);
                return self.medium;
            }
            let whole = (sectors / BLOCK_SECTORS) as u32;
            write_passed(self.medium.as_mut(), &io, whole);
            let rest = (sectors % BLOCK_SECTORS) as usize * SECTOR_BYTES;
            if rest > 0 {
                let at = io.at + u64::from(whole);
                if let Ok(old) = self.medium.read(at, 1) {
                    let mut torn = old.to_bytes().to_vec();
                    let new = io.data.slice(whole, 1).to_bytes();
                    torn[..rest].copy_from_slice(&new[..rest]);
                    debug_assert_eq!(torn.len(), BLOCK_BYTES);
                    let _ = self.medium.write(at, &Data::bytes(torn.into()));
                }
            }
        }
        self.medium
    }

    /// Sectors of a write that have passed the head completely at `now`.
    fn sectors_passed(&self, io: &Io, media_start: Time, now: Time) -> u64 {
        let first = io.first_sector();
        let total = u64::from(io.sectors());
        let (mut low, mut high) = (0, total);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let mut parts = Breakdown::default();
            let end = self.transfer(first, middle as u32, media_start, &mut parts).0;
            if end <= now { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// Moves the head from where it is at `at` to a range of sectors and over it.
    fn access(&self, first: Sector, count: u32, at: Time, parts: &mut Breakdown) -> Access {
        let place = self.mechanics.place(first);
        let (seek, switch) = self.mechanics.moves(self.track, place.track);
        parts.seek_ns += seek;
        parts.head_switch_ns += switch;
        let arrived = at + seek + switch;
        let wait = self.mechanics.rotation_ns(place, arrived);
        parts.rotation_ns += wait;
        let media_start = arrived + wait;
        let (end, track) = self.transfer(first, count, media_start, parts);
        Access { media_start, end, track }
    }

    /// Passes over a range of sectors whose first one begins to pass at `start`, one step a track.
    fn transfer(
        &self,
        first: Sector,
        count: u32,
        start: Time,
        parts: &mut Breakdown,
    ) -> (Time, Track) {
        let sectors = self.mechanics.sectors_per_track();
        let mut place = self.mechanics.place(first);
        let (mut at, mut left) = (start, count);
        loop {
            let here = left.min(sectors - place.sector);
            let pass = self.mechanics.pass_ns(place, here);
            parts.transfer_ns += pass;
            at += pass;
            left -= here;
            if left == 0 {
                return (at, place.track);
            }
            let next = Place { track: place.track + 1, sector: 0 };
            let (seek, switch) = self.mechanics.moves(place.track, next.track);
            parts.seek_ns += seek;
            parts.head_switch_ns += switch;
            at += seek + switch;
            let wait = self.mechanics.rotation_ns(next, at);
            parts.rotation_ns += wait;
            at += wait;
            place = next;
        }
    }

    /// Serves a read from the buffer, or from the platter.
    fn read(&mut self, io: &Io, at: Time, parts: &mut Breakdown) -> Access {
        let (first, count) = (io.at * BLOCK_SECTORS, io.count * BLOCK_SECTORS as u32);
        if let Some(ready) = self.buffer.ready(&self.mechanics, first, count) {
            // The bus runs while the platter turns; the rest of the time waits for the platter.
            let bus = self.bus_sector_ns * u64::from(count);
            let end = (at + bus).max(ready);
            parts.transfer_ns += bus;
            parts.rotation_ns += end - at - bus;
            self.buffer.after_hit(&self.mechanics, first, count, at);
            return Access { media_start: at, end, track: self.track };
        }
        let place = self.mechanics.place(first);
        let within = place.sector + count <= self.mechanics.sectors_per_track();
        if self.buffer.reads_whole_tracks() && within {
            return self.read_track(first, count, at, parts);
        }
        let access = self.access(first, count, at, parts);
        self.buffer.after_read(&self.mechanics, first, count, access.end);
        access
    }

    /// The whole-track rule: reads from the first sector under the head on, so that the track is
    /// in the buffer after one turn wherever the request lies on it.
    fn read_track(&mut self, first: Sector, count: u32, at: Time, parts: &mut Breakdown) -> Access {
        let place = self.mechanics.place(first);
        let (seek, switch) = self.mechanics.moves(self.track, place.track);
        parts.seek_ns += seek;
        parts.head_switch_ns += switch;
        let arrived = at + seek + switch;
        let since = self.buffer.start_track(&self.mechanics, first, arrived);
        let ready = self.buffer.ready(&self.mechanics, first, count);
        let end = ready.expect("the track has just been taken into the buffer");
        let pass = self.mechanics.pass_ns(place, count).min(end - arrived);
        parts.transfer_ns += pass;
        parts.rotation_ns += end - arrived - pass;
        Access { media_start: since, end, track: place.track }
    }

    fn course(&mut self, now: Time, io: &Io) -> (Access, Breakdown) {
        let start = now.max(self.free_at);
        let mut parts = Breakdown { queue_ns: start - now, ..Breakdown::default() };
        if io.op == Op::Flush {
            return (Access { media_start: start, end: start, track: self.track }, parts);
        }
        if io.op == Op::Read && io.count == 0 {
            // Time of the controller alone: no command, no transfer.
            let track = self.mechanics.place(io.at * BLOCK_SECTORS).track;
            (parts.seek_ns, parts.head_switch_ns) = self.mechanics.moves(self.track, track);
            let end = start + parts.seek_ns + parts.head_switch_ns;
            return (Access { media_start: end, end, track }, parts);
        }
        parts.overhead_ns = self.mechanics.overhead_ns();
        let at = start + parts.overhead_ns;
        let access = match io.op {
            Op::Read => self.read(io, at, &mut parts),
            Op::Write => {
                self.buffer.clear();
                self.access(io.first_sector(), io.sectors(), at, &mut parts)
            }
            Op::Trim | Op::Flush => Access { media_start: at, end: at, track: self.track },
        };
        (access, parts)
    }
}

impl Device for PlainDisk {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        if io.at + u64::from(io.count) > self.medium.blocks() {
            cold_path();
            let refused = Some(IoError::OutOfRange { at: io.at, count: io.count });
            let end = now.max(self.free_at);
            let spent = Breakdown { queue_ns: end - now, ..Breakdown::default() };
            self.queue.push_back(Accepted { io, media_start: end, end, spent, refused });
            return;
        }
        let (access, spent) = self.course(now, &io);
        debug_assert_eq!(now + spent.total_ns(), access.end);
        self.track = access.track;
        self.free_at = access.end;
        let Access { media_start, end, .. } = access;
        self.queue.push_back(Accepted { io, media_start, end, spent, refused: None });
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        while self.queue.front().is_some_and(|accepted| accepted.end <= now) {
            if let Some(Accepted { io, spent, refused, .. }) = self.queue.pop_front() {
                self.account.add(io.purpose, io.op, io.count, &spent);
                let outcome = match refused {
                    Some(error) => Err(error),
                    None if io.op == Op::Read && io.count == 0 => Ok(Data::none()),
                    None => carry_out(self.medium.as_mut(), &io),
                };
                done.push(Done { tag: io.tag, outcome, spent });
            }
        }
        if self.queue.is_empty() {
            // The next request takes the same place: a ring that goes round leaves the cache.
            self.queue.clear();
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|accepted| accepted.end)
    }

    fn volatile(&self) -> bool {
        false
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for PlainDisk {
    fn arm(&self) -> Option<&dyn Arm> {
        Some(&self.mechanics)
    }

    fn head(&self, now: Time) -> Option<Head> {
        Some(Head { track: self.track, free_at: now.max(self.free_at) })
    }
}

impl DeviceStatus for PlainDisk {
    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        each(&self.account);
    }

    fn takes_parts(&self) -> bool {
        true
    }
}
