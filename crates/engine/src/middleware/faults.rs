//! Faults on purpose: a device that fails, forgets or lies as it is told, and counts how often it
//! has. For tests of what a layout makes of it; [`super::record`] tells what happened.

use crate::account::Account;
use crate::arm::{Arm, Head};
use crate::data::{Body, Data, Piece};
use crate::device::{Device, DeviceStatus, Mechanical};
use crate::io::{Done, Io, IoError, Op, Outcome, Tag};
use crate::rng::Rng;
use crate::units::{BLOCK_BYTES, BlockNr, Time};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What is to go wrong. Numbers of requests count from 1, over the life of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Blocks that cannot be read: [`IoError::Media`].
    pub unreadable: BTreeSet<BlockNr>,
    /// Blocks that read back with one bit wrong, the same one every time.
    pub rotten: BTreeSet<BlockNr>,
    /// The write or trim with this number fails with [`IoError::Media`] and changes nothing.
    pub failing_write: Option<u64>,
    /// From the write with this number on, writes fail with [`IoError::NoSpace`].
    pub full_from_write: Option<u64>,
    /// The flush with this number fails with [`IoError::Media`] and is not passed on.
    pub failing_flush: Option<u64>,
    /// Flushes are answered and not passed on: a device that breaks its word.
    pub lying_flush: bool,
    /// The write with this number is answered and not passed on.
    pub lost_write: Option<u64>,
}

/// How often each fault has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads failed.
    pub unreadable: u64,
    /// Reads that brought wrong bytes.
    pub rotten: u64,
    /// Writes failed.
    pub failed_writes: u64,
    /// Writes refused for want of room.
    pub full: u64,
    /// Flushes failed.
    pub failed_flushes: u64,
    /// Flushes answered and not done.
    pub lying_flushes: u64,
    /// Writes answered and not done.
    pub lost_writes: u64,
}

/// What is to go wrong and what has: shared between the device and whoever commands it. The plan
/// may be changed at any time, also to nothing, for a test of what works afterwards.
#[derive(Clone, Debug, Default)]
pub struct Control(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    counts: Counts,
    writes: u64,
    flushes: u64,
}

impl Control {
    /// Replaces the plan.
    pub fn set(&self, plan: Plan) {
        self.0.borrow_mut().plan = plan;
    }

    /// How often each fault has happened so far.
    pub fn counts(&self) -> Counts {
        self.0.borrow().counts
    }

    /// Writes and trims seen so far.
    pub fn writes(&self) -> u64 {
        self.0.borrow().writes
    }

    /// Flushes seen so far.
    pub fn flushes(&self) -> u64 {
        self.0.borrow().flushes
    }
}

/// The device.
#[derive(Debug)]
pub struct Faults {
    inner: Box<dyn Device>,
    control: Control,
    /// Reads in flight whose answer must be spoilt.
    reads: BTreeMap<Tag, BlockNr>,
    answers: Vec<Done>,
    answers_at: Time,
    seed: u64,
}

impl Faults {
    /// Wraps a device that works. `seed` decides which bits rot.
    pub fn new(inner: Box<dyn Device>, plan: Plan, seed: u64) -> (Faults, Control) {
        let control = Control::default();
        control.set(plan);
        let device = Faults {
            inner,
            control: control.clone(),
            reads: BTreeMap::new(),
            answers: Vec::new(),
            answers_at: 0,
            seed,
        };
        (device, control)
    }
}

impl State {
    /// The answer to a write that does not reach the device, if it is one of those.
    fn intercept_write(&mut self, at: BlockNr) -> Option<Outcome> {
        self.writes += 1;
        let State { plan, counts, writes, .. } = self;
        if plan.failing_write == Some(*writes) {
            counts.failed_writes += 1;
            return Some(Err(IoError::Media { block: at }));
        }
        if plan.full_from_write.is_some_and(|from| *writes >= from) {
            counts.full += 1;
            return Some(Err(IoError::NoSpace));
        }
        if plan.lost_write == Some(*writes) {
            counts.lost_writes += 1;
            return Some(Ok(Data::none()));
        }
        None
    }

    fn intercept_flush(&mut self) -> Option<Outcome> {
        self.flushes += 1;
        if self.plan.failing_flush == Some(self.flushes) {
            self.counts.failed_flushes += 1;
            return Some(Err(IoError::Media { block: 0 }));
        }
        if self.plan.lying_flush {
            self.counts.lying_flushes += 1;
            return Some(Ok(Data::none()));
        }
        None
    }

    /// What a read brings, given what the device has brought.
    fn spoil(&mut self, seed: u64, at: BlockNr, data: Data) -> Outcome {
        let range = at..at + u64::from(data.blocks());
        if let Some(&block) = self.plan.unreadable.range(range.clone()).next() {
            self.counts.unreadable += 1;
            return Err(IoError::Media { block });
        }
        if self.plan.rotten.range(range.clone()).next().is_none() {
            return Ok(data);
        }
        self.counts.rotten += 1;
        let mut spoilt = Data::none();
        for (index, block) in (0..).zip(range) {
            let piece = data.block(index);
            let rotten = self.plan.rotten.contains(&block);
            spoilt.push(if rotten { rot(&piece, seed, block) } else { piece });
        }
        Ok(spoilt)
    }
}

/// A block with one bit flipped; which one depends on the seed and the number of the block only.
pub fn rot(piece: &Piece, seed: u64, block: BlockNr) -> Piece {
    assert_eq!(piece.blocks, 1, "rot takes one block at a time");
    let mut bytes = piece.to_bytes().to_vec();
    let bit = Rng::stream(seed ^ block.rotate_left(32), "rot").below(8 * BLOCK_BYTES as u64);
    bytes[bit as usize / 8] ^= 1 << (bit % 8);
    Piece { blocks: 1, body: Body::Bytes(Bytes::from(bytes)) }
}

impl Device for Faults {
    fn blocks(&self) -> u64 {
        self.inner.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let intercepted = match io.op {
            Op::Write | Op::Trim => self.control.0.borrow_mut().intercept_write(io.at),
            Op::Flush => self.control.0.borrow_mut().intercept_flush(),
            Op::Read => {
                self.reads.insert(io.tag, io.at);
                None
            }
        };
        match intercepted {
            Some(outcome) => {
                self.answers.push(Done::new(io.tag, outcome));
                self.answers_at = now;
            }
            None => self.inner.submit(now, io),
        }
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        done.append(&mut self.answers);
        let before = done.len();
        self.inner.reap(now, done);
        for one in &mut done[before..] {
            let Some(at) = self.reads.remove(&one.tag) else { continue };
            if let Ok(data) = &mut one.outcome {
                let data = std::mem::take(data);
                one.outcome = self.control.0.borrow_mut().spoil(self.seed, at, data);
            }
        }
    }

    fn next_event(&self) -> Option<Time> {
        let own = (!self.answers.is_empty()).then_some(self.answers_at);
        match (own, self.inner.next_event()) {
            (Some(own), Some(inner)) => Some(own.min(inner)),
            (own, inner) => own.or(inner),
        }
    }

    fn volatile(&self) -> bool {
        self.inner.volatile()
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }

    fn mechanical(&self) -> Option<&dyn Mechanical> {
        Some(self)
    }
}

impl Mechanical for Faults {
    fn arm(&self) -> Option<&dyn Arm> {
        self.inner.arm()
    }

    fn head(&self, now: Time) -> Option<Head> {
        self.inner.head(now)
    }
}

impl DeviceStatus for Faults {
    fn has_copies(&self) -> bool {
        self.inner.status().has_copies()
    }

    fn accounts(&self, each: &mut dyn FnMut(&Account)) {
        self.inner.status().accounts(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::medium::Cells;
    use crate::device::ram::Ram;

    fn device(plan: Plan) -> (Faults, Control) {
        Faults::new(Box::new(Ram::new(Box::new(Cells::new(16)))), plan, 3)
    }

    fn one(device: &mut Faults, io: Io) -> Outcome {
        device.submit(0, io);
        assert_eq!(device.next_event(), Some(0), "the answer is due");
        let mut done = Vec::new();
        device.reap(0, &mut done);
        assert_eq!(done.len(), 1, "each request is answered once");
        done.remove(0).outcome
    }

    fn write(device: &mut Faults, at: BlockNr) -> Outcome {
        one(device, Io::write(1, at, Data::stamp(1, at, 1)))
    }

    #[test]
    fn writes_fail_when_their_turn_has_come() {
        let (mut device, control) =
            device(Plan { failing_write: Some(2), full_from_write: Some(4), ..Plan::default() });
        assert!(write(&mut device, 0).is_ok());
        assert_eq!(write(&mut device, 1), Err(IoError::Media { block: 1 }));
        assert!(write(&mut device, 2).is_ok());
        assert_eq!(write(&mut device, 3), Err(IoError::NoSpace));
        assert_eq!(write(&mut device, 4), Err(IoError::NoSpace));
        let mut expected = Data::stamp(1, 0, 1);
        expected.append(Data::zeros(1));
        expected.append(Data::stamp(1, 2, 1));
        expected.append(Data::zeros(2));
        assert_eq!(one(&mut device, Io::read(2, 0, 5)), Ok(expected));
        assert_eq!(control.counts(), Counts { failed_writes: 1, full: 2, ..Counts::default() });
        assert_eq!(control.writes(), 5);
        control.set(Plan::default());
        assert!(write(&mut device, 3).is_ok(), "healed");
    }

    #[test]
    fn reads_are_spoilt_where_the_plan_says() {
        let (mut device, control) = device(Plan {
            unreadable: BTreeSet::from([3]),
            rotten: BTreeSet::from([1]),
            ..Plan::default()
        });
        for at in 0..4 {
            write(&mut device, at).expect("writes work");
        }
        assert_eq!(one(&mut device, Io::read(2, 2, 2)), Err(IoError::Media { block: 3 }));
        let rotten = one(&mut device, Io::read(2, 0, 3)).expect("rot is silent");
        assert_eq!(rotten.slice(0, 1), Data::stamp(1, 0, 1));
        assert_eq!(rotten.slice(2, 1), Data::stamp(1, 2, 1));
        let Body::Bytes(found) = rotten.block(1).body else { panic!("rot has bytes") };
        let flipped: u32 = Data::stamp(1, 1, 1)
            .to_bytes()
            .iter()
            .zip(&found)
            .map(|(good, bad)| (good ^ bad).count_ones())
            .sum();
        assert_eq!(flipped, 1);
        assert_eq!(one(&mut device, Io::read(2, 0, 3)), Ok(rotten), "the same every time");
        assert_eq!(control.counts(), Counts { unreadable: 1, rotten: 2, ..Counts::default() });
    }

    #[test]
    fn flushes_fail_or_lie_and_writes_get_lost() {
        let (mut device, control) = device(Plan {
            failing_flush: Some(1),
            lying_flush: true,
            lost_write: Some(1),
            ..Plan::default()
        });
        assert_eq!(one(&mut device, Io::flush(1)), Err(IoError::Media { block: 0 }));
        assert_eq!(one(&mut device, Io::flush(1)), Ok(Data::none()));
        assert_eq!(write(&mut device, 0), Ok(Data::none()));
        assert_eq!(one(&mut device, Io::read(2, 0, 1)), Ok(Data::zeros(1)));
        let counts =
            Counts { failed_flushes: 1, lying_flushes: 1, lost_writes: 1, ..Counts::default() };
        assert_eq!(control.counts(), counts);
    }
}
