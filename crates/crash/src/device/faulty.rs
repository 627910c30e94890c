//! A device around a device that fails, forgets or lies as a [`Plan`] says, and counts how often it
//! has. For tests of what a layout makes of it.

use crate::faults::{Counts, Injector, Plan};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::io::{Done, Io, Op, Tag};
use seekless_engine::middleware::DeviceAround;
use seekless_engine::shared::Shared;
use seekless_engine::units::{BlockNr, Time};
use std::collections::BTreeMap;

/// The plan of a device and its counters, shared with the test that commands it. The plan may be
/// changed at any time, also to nothing, for a test of what works afterwards.
#[derive(Clone, Debug, Default)]
pub struct Control(Shared<Injector>);

impl Control {
    /// Replaces the plan.
    pub fn set(&self, plan: Plan) {
        *self.0.lend().plan_mut() = plan;
    }

    /// How often each fault has happened so far.
    pub fn counts(&self) -> Counts {
        self.0.lend().counts()
    }

    /// Writes and trims seen so far.
    pub fn writes(&self) -> u64 {
        self.0.lend().writes()
    }

    /// Flushes seen so far.
    pub fn flushes(&self) -> u64 {
        self.0.lend().flushes()
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

impl DeviceAround for Faults {
    fn inner(&self) -> &dyn Device {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn Device {
        self.inner.as_mut()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let intercepted = match io.op {
            Op::Write | Op::Trim => self.control.0.lend().write(io.at, io.count),
            Op::Flush => self.control.0.lend().flush(),
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
            let outcome = std::mem::replace(&mut one.outcome, Ok(Data::none()));
            let mut faults = self.control.0.lend();
            one.outcome = outcome.and_then(|data| {
                faults.read(at, data.blocks())?;
                Ok(faults.spoil(self.seed, at, data))
            });
        }
    }

    fn next_event(&self) -> Option<Time> {
        let own = (!self.answers.is_empty()).then_some(self.answers_at);
        match (own, self.inner.next_event()) {
            (Some(own), Some(inner)) => Some(own.min(inner)),
            (own, inner) => own.or(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Blocks;
    use seekless_engine::data::Body;
    use seekless_engine::device::medium::Cells;
    use seekless_engine::device::ram::Ram;
    use seekless_engine::io::{IoError, Outcome};

    fn device(plan: Plan) -> (Faults, Control) {
        Faults::new(Box::new(Ram::new(Box::new(Cells::new(16)))), plan, 3)
    }

    fn one(device: &mut dyn Device, io: Io) -> Outcome {
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
            unreadable: vec![Blocks::one(3)],
            rotten: vec![Blocks::one(1)],
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
