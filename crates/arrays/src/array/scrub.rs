//! A scrub while the array is used: stripe by stripe all members are read and compared, between
//! requests of clients and no faster than it was asked for.
//!
//! A block that a member cannot read is computed from the others and written back. Where members
//! disagree nothing is written: which of them is right only the layout's checksums tell, for the
//! block that a client reads, or for all of them in a scrub that runs alone
//! ([`scrub`](crate::scrub)).

use super::{Array, Call};
use crate::Level;
use crate::member::MemberState;
use seekless_engine::data::{Data, cancel};
use seekless_engine::io::{Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::units::{BLOCK_BYTES, MILLIS, SECONDS, Time};
use seekless_engine::upkeep::{self, ScrubState, UpkeepError};

/// Blocks of each member that a step covers (1 MiB).
const STEP_BLOCKS: u64 = 256;
/// While clients are busy, the pause after a step is at least this long and as long as the step.
const LEAST_PAUSE: Time = 5 * MILLIS;

/// Rows that are compared at once: whole stripes, or one row where a member cannot read them all.
#[derive(Clone, Debug)]
struct Step {
    first: u64,
    stripes: u64,
    row: u32,
    rows: u32,
    began: Time,
    waiting: u32,
    held: Vec<Result<Data, IoError>>,
    /// The member that gets a block back.
    repairing: Option<usize>,
}

/// A scrub, or what became of the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Scrub {
    report: Option<upkeep::Scrub>,
    bytes_per_second: Option<u64>,
    /// The row of the next stripe that is next.
    row: u32,
    /// Stripes below are read row by row: a member could not read one of them.
    careful: u64,
    step: Option<Step>,
    not_before: Time,
}

impl Scrub {
    /// How far it has come.
    pub(super) fn report(&self) -> Option<upkeep::Scrub> {
        self.report
    }

    fn is_running(&self) -> bool {
        self.report.is_some_and(|report| report.state == ScrubState::Running)
    }

    /// True if nothing of it is under way.
    pub(super) fn is_resting(&self) -> bool {
        self.step.is_none()
    }

    /// When to go on though nothing happens.
    pub(super) fn deadline(&self) -> Option<Time> {
        (self.is_running() && self.step.is_none()).then_some(self.not_before)
    }

    fn end(&mut self, state: ScrubState) {
        if let Some(report) = &mut self.report {
            report.state = state;
        }
    }
}

impl Array {
    /// Begins a scrub.
    pub(super) fn begin_scrub(&mut self, rate: Option<u64>, now: Time) -> Result<(), UpkeepError> {
        if self.geometry.level == Level::Raid0 {
            return Err(UpkeepError::NoRedundancy);
        }
        if self.table.is_read_only() || self.table.failed().is_some() || !self.table.is_running() {
            return Err(UpkeepError::ReadOnly);
        }
        if self.superblock.states.iter().any(|&state| state != MemberState::Active) {
            return Err(UpkeepError::Degraded);
        }
        // The last step of a scrub that was stopped may still be under way.
        if self.scrub.is_running() || self.scrub.step.is_some() {
            return Err(UpkeepError::UnderWay);
        }
        let stripes = self.geometry.stripes;
        let (state, done, mismatched, unreadable, repaired) = (ScrubState::Running, 0, 0, 0, 0);
        let report = Some(upkeep::Scrub { state, done, stripes, mismatched, unreadable, repaired });
        let (bytes_per_second, not_before) = (rate.filter(|&rate| rate > 0), now);
        self.scrub = Scrub { report, bytes_per_second, not_before, ..Scrub::default() };
        Ok(())
    }

    /// Gives the scrub up. What is under way is still answered.
    pub(super) fn stop_scrub(&mut self) -> Result<(), UpkeepError> {
        if !self.scrub.is_running() {
            return Err(UpkeepError::NoScrub);
        }
        self.scrub.end(ScrubState::Stopped);
        Ok(())
    }

    /// Begins with the next step if it is due.
    pub(super) fn advance_scrub(&mut self, cx: &Cx<'_>) {
        if !self.scrub.is_running() || self.scrub.step.is_some() {
            return;
        }
        let whole = self.superblock.states.iter().all(|&state| state == MemberState::Active);
        if !whole || self.table.failed().is_some() || !self.table.is_running() {
            return self.scrub.end(ScrubState::Stopped);
        }
        let Some(first) = self.scrub.report.map(|report| report.done) else { return };
        if first == self.geometry.stripes {
            return self.scrub.end(ScrubState::Ended);
        }
        if cx.now < self.scrub.not_before {
            return;
        }
        if !self.begin_scrub_step(first, cx.now) {
            // A deadline that has passed would be met over and over.
            self.scrub.not_before = cx.now + LEAST_PAUSE;
        }
    }

    fn begin_scrub_step(&mut self, first: u64, now: Time) -> bool {
        let chunk = self.geometry.chunk;
        let each = (STEP_BLOCKS / u64::from(chunk)).max(1);
        let careful = first < self.scrub.careful;
        let (stripes, row, rows) = match careful {
            true => (1, self.scrub.row, 1),
            false => (each.min(self.geometry.stripes - first), 0, chunk),
        };
        let end = first + stripes;
        let taken = |stripe| self.locks.get(&stripe).is_some_and(|lock| lock.busy);
        if (first..end).any(taken) {
            return false;
        }
        // No operation may write while members are compared.
        for stripe in first..end {
            self.locks.entry(stripe).or_default().busy = true;
        }
        let members = self.geometry.members;
        let (at, count) = (self.geometry.block(first, row), stripes as u32 * rows);
        let held = vec![Ok(Data::none()); members];
        let (waiting, repairing) = (members as u32, None);
        let step = Step { first, stripes, row, rows, began: now, waiting, held, repairing };
        self.scrub.step = Some(step);
        for member in 0..members {
            let io = Io::read(0, at, count).for_purpose(Purpose::Parity);
            self.member_queue.push(member, io, Call::Scrub);
        }
        true
    }

    pub(super) fn scrub_answered(
        &mut self,
        member: usize,
        outcome: Result<Data, IoError>,
        now: Time,
        idle: bool,
    ) {
        debug_assert!(self.scrub.step.is_some(), "an answer to no step");
        let Some(step) = &mut self.scrub.step else { return };
        step.waiting -= 1;
        if step.repairing.is_some() {
            match outcome {
                Ok(_) => self.scrub_report().repaired += 1,
                Err(error) => self.member_failed(member, error),
            }
            return self.end_scrub_step(now, idle);
        }
        step.held[member] = outcome;
        if step.waiting == 0 {
            self.compare_members(now, idle);
        }
    }

    fn scrub_report(&mut self) -> &mut upkeep::Scrub {
        self.scrub.report.as_mut().expect("a scrub that takes steps has a report")
    }

    /// All members have answered.
    fn compare_members(&mut self, now: Time, idle: bool) {
        let Some(mut step) = self.scrub.step.take() else { return };
        let held = std::mem::take(&mut step.held);
        let failed: Vec<usize> = (0..held.len()).filter(|&member| held[member].is_err()).collect();
        let single = step.stripes == 1 && step.rows == 1;
        let whole = self.superblock.states.iter().all(|&state| state == MemberState::Active);
        let dark = held.iter().any(|one| matches!(one, Err(IoError::PowerOff)));
        if !whole || dark {
            self.scrub.end(ScrubState::Stopped);
            return self.release_scrubbed(&step);
        }
        if !failed.is_empty() && !single {
            // Row by row it shows which block it is.
            self.scrub.careful = step.first + step.stripes;
            self.scrub.row = 0;
            self.release_scrubbed(&step);
            self.pause_scrub(&step, now, idle);
            return;
        }
        let cure = match failed.as_slice() {
            [] => {
                let contents: Vec<Data> = held.into_iter().flatten().collect();
                let mismatched = self.mismatched(&contents);
                self.scrub_report().mismatched += mismatched;
                None
            }
            bad => {
                self.scrub_report().unreadable += bad.len() as u64;
                bad.iter().for_each(|&member| self.faults[member].unreadable += 1);
                self.computed(bad, held)
            }
        };
        let member = failed.first().copied();
        let Some((member, data)) = member.zip(cure) else {
            self.scrub.step = Some(step);
            return self.end_scrub_step(now, idle);
        };
        let at = self.geometry.block(step.first, step.row);
        (step.waiting, step.repairing) = (1, Some(member));
        self.scrub.step = Some(step);
        self.count_healed(member, 1);
        let io = Io::write(0, at, data).for_purpose(Purpose::Parity);
        self.member_queue.push(member, io, Call::Scrub);
    }

    /// What the first of the members that could not read a block should hold.
    fn computed(&self, bad: &[usize], held: Vec<Result<Data, IoError>>) -> Option<Data> {
        let mut good = held.into_iter().flatten();
        match self.geometry.level {
            Level::Raid1 => good.next(),
            _ if bad.len() == 1 => good.reduce(|sum, data| sum.xor(&data)),
            _ => None,
        }
    }

    /// Rows in which the members disagree.
    fn mismatched(&self, contents: &[Data]) -> u64 {
        let agree = |held: &[Data]| match self.geometry.level {
            Level::Raid5 => cancel(&held.iter().collect::<Vec<_>>()),
            _ => held.iter().all(|it| *it == held[0] || it.to_bytes() == held[0].to_bytes()),
        };
        if agree(contents) {
            return 0;
        }
        let row = |row: u32| -> Vec<Data> { contents.iter().map(|it| it.slice(row, 1)).collect() };
        (0..contents[0].blocks()).filter(|&one| !agree(&row(one))).count() as u64
    }

    fn release_scrubbed(&mut self, step: &Step) {
        (step.first..step.first + step.stripes).for_each(|stripe| self.release(stripe));
    }

    fn end_scrub_step(&mut self, now: Time, idle: bool) {
        let Some(step) = self.scrub.step.take() else { return };
        self.release_scrubbed(&step);
        let careful = step.first < self.scrub.careful;
        self.scrub.row = if careful { step.row + 1 } else { 0 };
        if !careful || self.scrub.row == self.geometry.chunk {
            self.scrub.row = 0;
            self.scrub_report().done = step.first + step.stripes;
        }
        self.pause_scrub(&step, now, idle);
    }

    /// When the next step is due: the rate that was asked for counts, and clients come first.
    fn pause_scrub(&mut self, step: &Step, now: Time, idle: bool) {
        let bytes = step.stripes * u64::from(step.rows) * BLOCK_BYTES as u64;
        let paced = self.scrub.bytes_per_second.map_or(0, |rate| {
            step.began + (u128::from(bytes) * u128::from(SECONDS) / u128::from(rate)) as Time
        });
        let pause = if idle { 1 } else { (now - step.began).max(LEAST_PAUSE) };
        self.scrub.not_before = paced.max(now + pause);
    }
}
