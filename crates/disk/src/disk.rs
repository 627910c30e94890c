//! A disk as a device: timing from a drive, data on a medium, and the state after a power cut.

mod held;

use crate::arm::TrackArm;
use crate::drive::{Completion, Destage, Drive, Request, UNDECIDED};
use crate::mechanics::Mechanics;
use crate::plain::{PlainDisk, write_part_passed};
use crate::spec::{ReadAhead, Spec, SpecError};
use crate::zoned::Zones;
use held::Held;
use seekless_engine::account::{Account, Behind};
use seekless_engine::arm::{Arm, Head};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::carry_out;
use seekless_engine::device::{Device, DeviceStatus, Mechanical};
use seekless_engine::io::{Done, Io, IoError, Labels, Op, Part};
use seekless_engine::units::{BLOCK_SECTORS, BlockNr, SECTOR_BYTES, Time};
use std::collections::VecDeque;

/// A simulated disk.
///
/// A write is durable when its last sector has passed the head. A disk that reports writes
/// earlier is volatile: a flush waits for the platter, and a power cut loses what has not passed.
#[derive(Debug)]
pub struct Disk(Kind);

#[derive(Debug)]
enum Kind {
    /// One zone, no cache: layouts can plan on it.
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
}

/// Calls a method of either kind of disk without a second virtual call.
macro_rules! either {
    ($disk:expr, $name:ident ( $($argument:expr),* )) => {
        match $disk {
            Kind::Plain(disk) => disk.$name($($argument),*),
            Kind::Any(disk) => disk.$name($($argument),*),
        }
    };
}

impl Device for Disk {
    fn blocks(&self) -> u64 {
        either!(&self.0, blocks())
    }

    fn submit(&mut self, now: Time, io: Io) {
        either!(&mut self.0, submit(now, io));
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        either!(&mut self.0, reap(now, done));
    }

    fn next_event(&self) -> Option<Time> {
        either!(&self.0, next_event())
    }

    fn volatile(&self) -> bool {
        either!(&self.0, volatile())
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for Disk {
    fn arm(&self) -> Option<&dyn Arm> {
        either!(&self.0, arm())
    }

    fn head(&self, now: Time) -> Option<Head> {
        either!(&self.0, head(now))
    }
}

impl DeviceStatus for Disk {
    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        either!(&self.0, accounts(each));
    }

    fn takes_parts(&self) -> bool {
        either!(&self.0, takes_parts())
    }
}

/// A disk of any layout, with caches and queues.
#[derive(Debug)]
struct AnyDisk {
    drive: Drive,
    /// The arm that layouts may plan with.
    arm: Option<TrackArm>,
    /// The content of the platter.
    medium: Box<dyn Medium>,
    /// Blocks that were reported and are not on the platter.
    held: Held,
    volatile: bool,
    zones: Option<Zones>,
    /// Sectors of 512 bytes in a physical one, which is written atomically.
    physical: u64,
    /// Requests in the drive by their tag there.
    slots: Vec<Option<Io>>,
    free: Vec<usize>,
    /// Requests that were refused, with the time of their answer.
    refused: VecDeque<(Time, Done)>,
    completions: Vec<Completion>,
    /// The medium refused a write that was reported before: the next flush reports the error.
    lost: Option<IoError>,
    account: Account,
}

impl AnyDisk {
    fn new(spec: &Spec, medium: Box<dyn Medium>) -> Result<AnyDisk, SpecError> {
        let mut drive = Drive::new(spec)?;
        drive.log_destages();
        Ok(AnyDisk {
            arm: TrackArm::new(spec, drive.motion()),
            drive,
            medium,
            held: Held::default(),
            volatile: spec.reports_early(),
            zones: spec.zoned.map(|rules| Zones::new(rules, spec.capacity_sectors())),
            physical: u64::from(spec.sector_size.physical) / SECTOR_BYTES as u64,
            slots: Vec::new(),
            free: Vec::new(),
            refused: VecDeque::new(),
            completions: Vec::new(),
            lost: None,
            account: Account::default(),
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
            Op::Trim => zones.reset(lbn, sectors),
            Op::Flush => Ok(()),
        };
        verdict.map_err(|rule| IoError::Zone { block: io.at, rule })
    }

    /// Applies what the disk writes back by itself until `now`.
    fn follow(&mut self, now: Time) {
        while let Some(Destage { at, lbn, sectors, media_start, media_end }) =
            self.drive.destaged(now)
        {
            let count = sectors / BLOCK_SECTORS as u32;
            let behind = Behind::new(at, media_start, media_end);
            self.account.add_written_back(count, behind);
            self.held.leave(lbn / BLOCK_SECTORS, count, media_start, media_end);
        }
        self.arrive(now);
    }

    fn arrive(&mut self, now: Time) {
        if let Err(error) = self.held.arrive(now, self.medium.as_mut()) {
            self.lost = self.lost.or(Some(error));
        }
    }

    fn finish(&mut self, completion: &Completion, done: &mut Vec<Done>) {
        let slot = completion.tag as usize;
        let Some(io) = self.slots[slot].take() else { return };
        self.free.push(slot);
        self.account.add(io.purpose, io.op, io.count, &completion.spent);
        let outcome = self.outcome(completion, &io);
        done.push(Done { tag: io.tag, outcome, spent: completion.spent });
    }

    fn outcome(&mut self, completion: &Completion, io: &Io) -> Result<Data, IoError> {
        match io.op {
            Op::Read => return self.held.read(io.at, io.count, self.medium.as_mut()),
            Op::Write if completion.media_end > completion.at => {
                self.held.keep(io.at, &io.data);
                let Completion { media_start, media_end, .. } = *completion;
                if media_end != UNDECIDED {
                    let behind = Behind::new(completion.at, media_start, media_end);
                    self.account.add_behind(io.purpose, behind);
                    self.held.leave(io.at, io.count, media_start, media_end);
                }
                return Ok(Data::none());
            }
            Op::Write | Op::Trim => self.held.forget(io.at, io.count),
            Op::Flush => {
                if let Some(error) = self.lost.take() {
                    return Err(error);
                }
            }
        }
        carry_out(self.medium.as_mut(), io)
    }

    fn power_cut(mut self: Box<Self>, now: Time) -> Box<dyn Medium> {
        let mut ignored = Vec::new();
        self.reap(now, &mut ignored);
        for one in std::mem::take(&mut self.held).into_leaving() {
            self.tear(one.at, &one.data, None, (one.media_start, now));
        }
        let running: Vec<Completion> = self.drive.scheduled().copied().collect();
        for completion in running {
            if let Some(io) = self.slots[completion.tag as usize].take()
                && io.op == Op::Write
            {
                if let Some(part) = io.part {
                    self.tear_part(&io, part, (completion.media_start, now));
                    continue;
                }
                self.tear(io.at, &io.data, io.labels.as_ref(), (completion.media_start, now));
            }
        }
        std::mem::replace(&mut self.medium, Box::new(Cells::new(0)))
    }

    /// Does the same for a write of a part. The disk takes parts only if a sector is a unit.
    fn tear_part(&mut self, io: &Io, part: Part, (start, now): (Time, Time)) {
        if start < now {
            let motion = self.drive.motion();
            let passed = motion.written(io.first_sector(), io.sectors(), start, now);
            write_part_passed(self.medium.as_mut(), io, part, passed);
        }
    }

    /// Writes the sectors that had passed the head at the end of a span of time.
    fn tear(
        &mut self,
        at: BlockNr,
        data: &Data,
        labels: Option<&Labels>,
        (start, now): (Time, Time),
    ) {
        if start >= now {
            return;
        }
        let count = data.blocks() * BLOCK_SECTORS as u32;
        if self.drive.logs(at * BLOCK_SECTORS, count) {
            return;
        }
        let passed = self.drive.motion().written(at * BLOCK_SECTORS, count, start, now);
        let sectors = u64::from(passed) / self.physical * self.physical;
        let whole = (sectors / BLOCK_SECTORS) as u32;
        // The medium of a cut disk cannot fail: the range was checked on acceptance.
        let passed = data.slice(0, whole);
        let _ = match labels {
            None => self.medium.write(at, &passed),
            Some(labels) => self.medium.write_labelled(at, &passed, &labels[..whole as usize]),
        };
        let rest = (sectors % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        let at = at + u64::from(whole);
        if rest > 0
            && let Ok(old) = self.medium.read(at, 1)
        {
            let mut torn = old.to_bytes().to_vec();
            let new = data.slice(whole, 1).to_bytes();
            torn[..rest].copy_from_slice(&new[..rest]);
            let _ = self.medium.write(at, &Data::bytes(torn.into()));
        }
    }
}

impl Drop for AnyDisk {
    /// A disk that is switched off cleanly writes back its cache.
    fn drop(&mut self) {
        let _ = self.held.empty(self.medium.as_mut());
    }
}

impl Device for AnyDisk {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    #[inline(never)]
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
            lbn: io.first_sector(),
            sectors: io.sectors(),
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

    #[inline(never)]
    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        while self.refused.front().is_some_and(|(at, _)| *at <= now) {
            done.extend(self.refused.pop_front().map(|(_, answer)| answer));
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.drive.advance(now, &mut completions);
        for completion in &completions {
            // An extent that was chosen earlier lacks data reported after that.
            self.follow(completion.at);
            self.finish(completion, done);
        }
        completions.clear();
        self.completions = completions;
        self.follow(now);
    }

    #[inline(never)]
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

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for AnyDisk {
    fn arm(&self) -> Option<&dyn Arm> {
        self.arm.as_ref().map(|arm| arm as &dyn Arm)
    }

    #[inline(never)]
    fn head(&self, now: Time) -> Option<Head> {
        let arm = self.arm.as_ref()?;
        let (place, free_at) = self.drive.writer(now);
        Some(Head { track: arm.under(place), free_at })
    }
}

impl DeviceStatus for AnyDisk {
    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        each(&self.account);
    }

    /// Not with a cache that reports writes early, nor with zones or larger physical sectors: they
    /// count in blocks.
    fn takes_parts(&self) -> bool {
        !self.volatile && self.zones.is_none() && self.physical == 1
    }
}
