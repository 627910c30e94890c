//! Filling a member that replaces another one: in order, a bounded chunk at a time, giving way to
//! clients.

use super::{Array, Call, broadcast::Then};
use crate::Level;
use crate::member::{MemberState, MemberSuperblock};
use seekless_engine::data::Data;
use seekless_engine::io::{self, Io, IoError, Purpose};
use seekless_engine::layer::Cx;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::{BLOCK_BYTES, MILLIS, SECONDS, Time};
use std::collections::VecDeque;

/// Blocks of each member that a step covers (1 MiB).
const STEP_BLOCKS: u64 = 256;
/// Steps under way at once while no client waits: the replacement must never wait for a read.
const STEPS_IDLE: usize = 6;
/// While clients are busy, the pause after a step is at least this long and as long as the step.
const LEAST_PAUSE: Time = 5 * MILLIS;
/// Progress is written down so many times.
const NOTES: u64 = 64;

/// Some stripes on their way.
#[derive(Clone, Debug)]
struct Step {
    number: u64,
    first: u64,
    count: u64,
    began: Time,
    waiting: u32,
    sum: Option<Data>,
    written: bool,
}

/// How far the rebuild has come.
#[derive(Clone, Debug)]
pub(super) struct Rebuild {
    member: Option<usize>,
    /// Stripes below are done.
    done: u64,
    /// Stripes below are done or under way.
    next: u64,
    steps: VecDeque<Step>,
    next_number: u64,
    not_before: Time,
    /// When steps were last begun, and how many: where members answer at once nothing else would
    /// get its turn before the last step.
    begun: (Time, usize),
    /// Steps wait for the next moment.
    waits: bool,
    outcome: Option<io::Rebuild>,
    /// A note of the progress is on its way.
    noting: bool,
    /// One step at a time, and a pause after it: clients are busy, or the pace is limited.
    pauses: bool,
    /// At most so many bytes of the new member are filled in a second.
    bytes_per_second: Option<u64>,
}

impl Rebuild {
    pub(super) fn new(superblock: &MemberSuperblock) -> Rebuild {
        let member = superblock.replacement();
        let done = if member.is_some() { superblock.rebuilt } else { 0 };
        Rebuild {
            member,
            done,
            next: done,
            steps: VecDeque::new(),
            next_number: 0,
            not_before: 0,
            begun: (0, 0),
            waits: false,
            outcome: None,
            noting: false,
            pauses: false,
            bytes_per_second: None,
        }
    }

    /// Limits its pace.
    pub(super) fn set_rate(&mut self, bytes_per_second: Option<u64>) {
        self.bytes_per_second = bytes_per_second.filter(|&rate| rate > 0);
    }

    /// The limit of its pace.
    pub(super) fn rate(&self) -> Option<u64> {
        self.bytes_per_second
    }

    /// How long a step of so many blocks takes at least.
    fn paced(&self, blocks: u64) -> Time {
        let bytes = u128::from(blocks * BLOCK_BYTES as u64);
        let paced = |rate| (bytes * u128::from(SECONDS) / u128::from(rate)) as Time;
        self.bytes_per_second.map_or(0, paced)
    }

    /// Stripes that are done.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// How it ended, if it did.
    pub(super) fn outcome(&self) -> Option<io::Rebuild> {
        self.outcome
    }

    /// True if nothing of it is under way.
    pub(super) fn is_resting(&self) -> bool {
        self.steps.is_empty() && !self.noting
    }

    /// When to go on though nothing happens.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.member?;
        if self.waits {
            return Some(self.begun.0 + 1);
        }
        (self.pauses && self.steps.is_empty()).then_some(self.not_before)
    }
}

impl Array {
    /// Begins with as many steps as are due.
    pub(super) fn advance_rebuild(&mut self, cx: &Cx<'_>) {
        let Some(member) = self.rebuild.member else { return };
        if self.superblock.states[member] != MemberState::Rebuilding {
            // The replacement has failed, too.
            return self.give_up_rebuild();
        }
        if self.table.is_read_only() || self.table.failed().is_some() || !self.table.is_running() {
            // There is nothing to be woken for.
            (self.rebuild.pauses, self.rebuild.waits) = (false, false);
            return;
        }
        self.rebuild.pauses = cx.idle_since.is_none() || self.rebuild.bytes_per_second.is_some();
        let most = if self.rebuild.pauses { 1 } else { STEPS_IDLE };
        let early = self.rebuild.pauses && cx.now < self.rebuild.not_before;
        if self.rebuild.begun.0 != cx.now {
            self.rebuild.begun = (cx.now, 0);
        }
        self.rebuild.waits = false;
        while self.rebuild.steps.len() < most && !early {
            if self.rebuild.begun.1 == STEPS_IDLE {
                self.rebuild.waits = true;
                break;
            }
            if !self.begin_step(member, cx.now) {
                break;
            }
            self.rebuild.begun.1 += 1;
        }
        if self.rebuild.pauses && !early && self.rebuild.steps.is_empty() {
            // Clients hold the stripes that come next, or only the note of the end is missing. A
            // deadline that has passed would be met over and over.
            self.rebuild.not_before = cx.now + LEAST_PAUSE;
        }
        self.note_progress();
    }

    fn begin_step(&mut self, member: usize, now: Time) -> bool {
        let first = self.rebuild.next;
        let each = u64::from(self.geometry.chunk);
        let count = (STEP_BLOCKS / each).max(1).min(self.geometry.stripes - first);
        // The stripes stay locked until they count as done: no operation must write past them.
        let taken = |stripe| self.locks.get(&stripe).is_some_and(|lock| lock.busy);
        if count == 0 || (first..first + count).any(taken) {
            return false;
        }
        for stripe in first..first + count {
            self.locks.entry(stripe).or_default().busy = true;
        }
        let mut sources: Vec<usize> = (0..self.geometry.members)
            .filter(|&one| self.superblock.states[one] == MemberState::Active)
            .collect();
        if self.geometry.level == Level::Raid1 {
            sources.truncate(1);
        }
        debug_assert!(!sources.is_empty(), "a member is filled from others");
        debug_assert!(first >= self.rebuild.done, "a stripe is filled twice");
        let number = self.rebuild.next_number;
        self.rebuild.next_number += 1;
        self.rebuild.next += count;
        let waiting = sources.len() as u32;
        self.rebuild.steps.push_back(Step {
            number,
            first,
            count,
            began: now,
            waiting,
            sum: None,
            written: false,
        });
        debug_assert!(!sources.contains(&member));
        for source in sources {
            let at = self.geometry.block(first, 0);
            let io = Io::read(0, at, (count * each) as u32).for_purpose(Purpose::Rebuild);
            self.member_queue.push(source, io, Call::Rebuild { step: number });
        }
        true
    }

    pub(super) fn rebuild_answered(
        &mut self,
        number: u64,
        member: usize,
        outcome: Result<Data, IoError>,
        now: Time,
    ) {
        // Steps of a rebuild that was given up are answered as well.
        let Some(index) = self.rebuild.steps.iter().position(|step| step.number == number) else {
            return;
        };
        let data = match outcome {
            Ok(data) => data,
            Err(error) => {
                // A source that cannot be read leaves the replacement with a hole: it is no
                // replacement then.
                self.member_failed(self.rebuild.member.unwrap_or(member), error);
                return self.give_up_rebuild();
            }
        };
        let step = &mut self.rebuild.steps[index];
        debug_assert!(step.waiting > 0, "step {number} waits for no answer");
        step.waiting -= 1;
        if step.written {
            let (began, blocks) = (step.began, step.count * u64::from(self.geometry.chunk));
            let paced = began + self.rebuild.paced(blocks);
            self.rebuild.not_before = paced.max(now + (now - began).max(LEAST_PAUSE));
            return self.steps_done();
        }
        let sum = match step.sum.take() {
            Some(sum) => sum.xor(&data),
            None => data,
        };
        if step.waiting > 0 {
            step.sum = Some(sum);
            return;
        }
        debug_assert_eq!(
            u64::from(sum.blocks()),
            step.count * u64::from(self.geometry.chunk),
            "a step fills whole chunks"
        );
        (step.waiting, step.written) = (1, true);
        let at = self.geometry.block(step.first, 0);
        let target = self.rebuild.member.expect("a rebuild that has steps has a replacement");
        self.member_queue.push(
            target,
            Io::write(0, at, sum).for_purpose(Purpose::Rebuild),
            Call::Rebuild { step: number },
        );
    }

    /// Steps count as done in order.
    fn steps_done(&mut self) {
        let finished = |step: &Step| step.written && step.waiting == 0;
        while self.rebuild.steps.front().is_some_and(finished) {
            let Some(Step { first, count, .. }) = self.rebuild.steps.pop_front() else { return };
            debug_assert_eq!(self.rebuild.done, first, "steps are done without gaps");
            self.rebuild.done = first + count;
            (first..first + count).for_each(|stripe| self.release(stripe));
        }
    }

    fn give_up_rebuild(&mut self) {
        self.rebuild.member = None;
        self.rebuild.outcome = Some(io::Rebuild::Failed);
        for step in std::mem::take(&mut self.rebuild.steps) {
            (step.first..step.first + step.count).for_each(|stripe| self.release(stripe));
        }
    }

    /// Writes the progress down now and then, and the end of it.
    fn note_progress(&mut self) {
        let Rebuild { done, noting, .. } = self.rebuild;
        let stripes = self.geometry.stripes;
        let noted = self.superblock.rebuilt;
        if !noting && done > noted && (done == stripes || done - noted > stripes / NOTES) {
            self.rebuild.noting = true;
            if planted(PlantedBug::RebuildNotFlushed) {
                return self.rebuilt_durably(done);
            }
            // What counts as done now had ended before this flush.
            self.flush_members(Then::Rebuilt(done));
        }
    }

    /// Stripes below `stripes` are durable on the replacement.
    pub(super) fn rebuilt_durably(&mut self, stripes: u64) {
        self.rebuild.noting = false;
        let Some(member) = self.rebuild.member else { return };
        if self.superblock.states[member] != MemberState::Rebuilding
            || self.table.failed().is_some()
        {
            return;
        }
        self.note(stripes);
        self.stale = self.stale.max(1);
    }

    /// Everything is durable, and the last superblocks are about to be written: they say how far
    /// the rebuild has come, and that it is over if it is.
    pub(super) fn end_rebuild(&mut self) {
        if self.rebuild.member.is_some() {
            self.note(self.rebuild.done);
        }
    }

    fn note(&mut self, stripes: u64) {
        debug_assert!(
            (self.superblock.rebuilt..=self.rebuild.done).contains(&stripes),
            "a rebuild of {} stripes is said to have done {stripes}",
            self.rebuild.done
        );
        self.superblock.rebuilt = stripes;
        self.superblock.end_rebuild();
        if self.superblock.replacement().is_none() {
            self.rebuild.member = None;
            self.rebuild.outcome = Some(io::Rebuild::Ended);
        }
    }
}
