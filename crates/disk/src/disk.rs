//! A disk as a device: timing from a drive, data on a medium, and what a power cut leaves.

use crate::drive::{Completion, Drive, Request};
use crate::mechanics::Mechanics;
use crate::plain::{PlainDisk, write_passed};
use crate::spec::{FastWrite, ReadAhead, Spec, SpecError};
use crate::zoned::Zones;
use seekless_engine::arm::{Arm, Head};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::Medium;
use seekless_engine::device::ram::carry_out;
use seekless_engine::io::{Done, Io, IoError, Op};
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES, Time};
use std::collections::VecDeque;

/// A simulated disk.
///
/// A write is durable when its last sector has passed the head. A disk that reports writes
/// earlier is volatile: a flush waits for the platter, and a power cut loses what has not passed.
#[derive(Debug)]
pub struct Disk(Kind);

#[derive(Debug)]
enum Kind {
    /// One zone, no cache: what layouts can plan on.
    Plain(Box<PlainDisk>),
    Any(Box<AnyDisk>),
}

impl Disk {
    /// A disk with its head over track 0 at time 0.
    ///
    /// # Errors
    /// A medium larger than the disk, a specification that cannot be simulated.
    pub fn new(spec: &Spec, medium: Box<dyn Medium>) -> Result<Disk, SpecError> {
        let (disk, found) = (spec.capacity_blocks(), medium.blocks());
        if disk < found {
            let problem = format!(
                "the disk {} holds {disk} blocks of 4 KiB, the image has {found}; \
                 use a larger disk or a smaller image",
                spec.name
            );
            return Err(SpecError::field("zones", problem));
        }
        Ok(Disk(match spec.is_plain() {
            true => Kind::Plain(Box::new(PlainDisk::new(spec, medium)?)),
            false => Kind::Any(Box::new(AnyDisk::new(spec, medium)?)),
        }))
    }

    /// The same disk with another read-ahead policy of its track buffer. A disk with a segmented
    /// cache has its own.
    pub fn with_read_ahead(self, policy: ReadAhead, fence_sectors: u32) -> Disk {
        Disk(match self.0 {
            Kind::Plain(disk) => Kind::Plain(Box::new(disk.with_read_ahead(policy, fence_sectors))),
            other => other,
        })
    }

    /// The mechanics of a disk that layouts can plan on.
    ///
    /// # Panics
    /// For disks with zones or a cache; [`Device::arm`] says which have none.
    pub fn mechanics(&self) -> &Mechanics {
        match &self.0 {
            Kind::Plain(disk) => disk.mechanics(),
            Kind::Any(_) => panic!("a disk with zones or a cache lends no mechanics"),
        }
    }

    /// Cuts the power: commands in flight vanish, except that of writes in progress the sectors
    /// that have passed the head are on the medium. Returns the medium.
    pub fn power_cut(self, now: Time) -> Box<dyn Medium> {
        match self.0 {
            Kind::Plain(disk) => disk.power_cut(now),
            Kind::Any(disk) => disk.power_cut(now),
        }
    }

    fn device(&self) -> &dyn Device {
        match &self.0 {
            Kind::Plain(disk) => disk.as_ref(),
            Kind::Any(disk) => disk.as_ref(),
        }
    }

    fn device_mut(&mut self) -> &mut dyn Device {
        match &mut self.0 {
            Kind::Plain(disk) => disk.as_mut(),
            Kind::Any(disk) => disk.as_mut(),
        }
    }
}

impl Device for Disk {
    fn blocks(&self) -> u64 {
        self.device().blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        self.device_mut().submit(now, io);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        self.device_mut().reap(now, done);
    }

    fn next_event(&self) -> Option<Time> {
        self.device().next_event()
    }

    fn volatile(&self) -> bool {
        self.device().volatile()
    }

    fn arm(&self) -> Option<&dyn Arm> {
        self.device().arm()
    }

    fn head(&self, now: Time) -> Option<Head> {
        self.device().head(now)
    }
}

/// A write that was reported and is not yet on the platter.
#[derive(Debug)]
struct Unsettled {
    io: Io,
    /// What the medium held before.
    old: Data,
    media_start: Time,
    media_end: Time,
}

/// A disk of any layout, with caches and queues.
#[derive(Debug)]
struct AnyDisk {
    drive: Drive,
    medium: Box<dyn Medium>,
    volatile: bool,
    zones: Option<Zones>,
    /// Requests in the drive by their tag there.
    slots: Vec<Option<Io>>,
    free: Vec<usize>,
    /// Requests that were refused, with the time of their answer.
    refused: VecDeque<(Time, Done)>,
    unsettled: VecDeque<Unsettled>,
    completions: Vec<Completion>,
}

impl AnyDisk {
    fn new(spec: &Spec, medium: Box<dyn Medium>) -> Result<AnyDisk, SpecError> {
        let fast = spec.cache.is_some_and(|cache| cache.fast_write != FastWrite::None);
        Ok(AnyDisk {
            drive: Drive::new(spec)?,
            medium,
            volatile: fast,
            zones: spec.zoned.map(|rules| Zones::new(rules, spec.capacity_sectors())),
            slots: Vec::new(),
            free: Vec::new(),
            refused: VecDeque::new(),
            unsettled: VecDeque::new(),
            completions: Vec::new(),
        })
    }

    fn allowed(&mut self, io: &Io) -> Result<(), IoError> {
        if io.at + u64::from(io.count) > self.medium.blocks() {
            return Err(IoError::OutOfRange { at: io.at, count: io.count });
        }
        let Some(zones) = &mut self.zones else { return Ok(()) };
        let (lbn, sectors) = (io.at * BLOCK_SECTORS, u64::from(io.count) * BLOCK_SECTORS);
        let verdict = match io.op {
            Op::Write => zones.write(lbn, sectors),
            Op::Read => zones.read(lbn, sectors),
            Op::Trim | Op::Flush => Ok(()),
        };
        // Operating systems report the standard's sense codes as input/output errors.
        verdict.map_err(|_| IoError::Os { errno: 5 })
    }

    fn settle(&mut self, now: Time) {
        while self.unsettled.front().is_some_and(|write| write.media_end <= now) {
            self.unsettled.pop_front();
        }
    }

    fn finish(&mut self, completion: &Completion, done: &mut Vec<Done>) {
        let slot = completion.tag as usize;
        let Some(io) = self.slots[slot].take() else { return };
        self.free.push(slot);
        let early = io.op == Op::Write && completion.media_end > completion.at;
        if early && let Ok(old) = self.medium.read(io.at, io.count) {
            let (media_start, media_end) = (completion.media_start, completion.media_end);
            self.unsettled.push_back(Unsettled { io: io.clone(), old, media_start, media_end });
        }
        let outcome = carry_out(self.medium.as_mut(), &io);
        done.push(Done { tag: io.tag, outcome, spent: completion.spent });
    }

    fn power_cut(mut self: Box<Self>, now: Time) -> Box<dyn Medium> {
        let mut ignored = Vec::new();
        self.reap(now, &mut ignored);
        let unsettled = std::mem::take(&mut self.unsettled);
        for write in unsettled.iter().rev() {
            // The medium of a cut disk cannot fail: the range was written before.
            let _ = self.medium.write(write.io.at, &write.old);
        }
        for write in unsettled {
            self.tear(&write.io, write.media_start, write.media_end, now);
        }
        let running: Vec<Completion> = self.drive.scheduled().copied().collect();
        for completion in running {
            if let Some(io) = self.slots[completion.tag as usize].take()
                && io.op == Op::Write
            {
                self.tear(&io, completion.media_start, completion.media_end, now);
            }
        }
        self.medium
    }

    /// Writes the sectors that had passed the head at `now`.
    fn tear(&mut self, io: &Io, start: Time, end: Time, now: Time) {
        if start >= now {
            return;
        }
        let total = u64::from(io.count) * BLOCK_SECTORS;
        let share = u128::from(total) * u128::from(now - start) / u128::from((end - start).max(1));
        let sectors = (share as u64).min(total);
        let whole = (sectors / BLOCK_SECTORS) as u32;
        write_passed(self.medium.as_mut(), io, whole);
        let rest = (sectors % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        let at = io.at + u64::from(whole);
        if rest > 0
            && let Ok(old) = self.medium.read(at, 1)
        {
            let mut torn = old.to_bytes().to_vec();
            let new = io.data.slice(whole, 1).to_bytes();
            torn[..rest].copy_from_slice(&new[..rest]);
            let _ = self.medium.write(at, &Data::bytes(torn.into()));
        }
    }
}

impl Device for AnyDisk {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        if let Err(error) = self.allowed(&io) {
            self.refused.push_back((now, Done::new(io.tag, Err(error))));
            return;
        }
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let request = Request {
            tag: slot as u64,
            op: io.op,
            lbn: io.at * BLOCK_SECTORS,
            sectors: io.count * BLOCK_SECTORS as u32,
            fua: io.fua,
        };
        let tag = io.tag;
        self.slots[slot] = Some(io);
        if self.drive.submit(now, request).is_err() {
            self.slots[slot] = None;
            self.free.push(slot);
            let (at, count) = (request.lbn / BLOCK_SECTORS, request.sectors / 8);
            let error = IoError::OutOfRange { at, count };
            self.refused.push_back((now, Done::new(tag, Err(error))));
        }
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        while self.refused.front().is_some_and(|(at, _)| *at <= now) {
            done.extend(self.refused.pop_front().map(|(_, answer)| answer));
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.drive.advance(now, &mut completions);
        for completion in &completions {
            self.finish(completion, done);
        }
        completions.clear();
        self.completions = completions;
        self.settle(now);
    }

    fn next_event(&self) -> Option<Time> {
        let refused = self.refused.front().map(|(at, _)| *at);
        match (refused, self.drive.next_event()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn volatile(&self) -> bool {
        self.volatile
    }
}
