//! An open structure on its device: carries out the steps of one operation after the other.

use super::{State, Step, Structure};
use crate::volume::{Mounted, Volume};
use seekless_engine::device::Device;
use seekless_engine::io::Io;
use seekless_engine::units::Time;
use std::collections::VecDeque;

/// A structure that was opened, without its device.
#[derive(Debug)]
pub struct Opened<S> {
    pub(super) structure: Structure<S>,
    pub(super) state: S,
}

impl<S: State> Mounted for Opened<S> {
    type Volume = OpenStructure<S>;

    fn blocks_read(&self) -> u64 {
        self.structure.blocks
    }

    fn join(self, mut devices: Vec<Box<dyn Device>>, _seed: u64) -> OpenStructure<S> {
        let device = devices.pop().expect("a structure has one device");
        let (queue, steps) = (VecDeque::new(), VecDeque::new());
        let Opened { structure, state } = self;
        OpenStructure {
            structure,
            state,
            device,
            queue,
            steps,
            under_way: 0,
            stopped: false,
            failed: false,
        }
    }
}

/// An open structure. While `queue` holds an operation, its first one is under way: `steps` are
/// left of it, and `under_way` requests are not answered.
#[derive(Debug)]
pub struct OpenStructure<S> {
    structure: Structure<S>,
    pub(super) state: S,
    device: Box<dyn Device>,
    queue: VecDeque<u64>,
    steps: VecDeque<Step>,
    under_way: usize,
    stopped: bool,
    failed: bool,
}

impl<S: State> OpenStructure<S> {
    /// Takes an operation, and begins it if no other is under way.
    pub(super) fn take(&mut self, number: u64, now: Time) {
        self.queue.push_back(number);
        if self.queue.len() == 1 {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: Time) {
        let Some(&number) = self.queue.front() else { return };
        self.steps = (self.structure.operate)(&mut self.state, number).0.into();
        if self.steps.is_empty() {
            // An operation ends with an answer of the device.
            self.steps.push_back(Step::Flush);
        }
        self.go_on(now);
    }

    /// Sends the writes up to the next flush, or that flush if everything before it is answered.
    fn go_on(&mut self, now: Time) {
        while let Some(Step::Write(..)) = self.steps.front() {
            if let Some(Step::Write(at, data)) = self.steps.pop_front() {
                self.under_way += 1;
                self.device.submit(now, Io::write(at, at, data));
            }
        }
        if self.under_way == 0 && self.steps.pop_front().is_some() {
            self.under_way = 1;
            self.device.submit(now, Io::flush(0));
        }
    }
}

impl<S: State> Volume for OpenStructure<S> {
    /// The number of an operation that is acknowledged.
    type Reply = u64;

    fn describe(&self) -> String {
        format!("the structure {}", self.structure.name)
    }

    fn next_event(&self) -> Option<Time> {
        self.device.next_event()
    }

    fn settle(&mut self, now: Time, replies: &mut Vec<u64>) {
        while self.device.next_event().is_some_and(|due| due <= now) {
            let mut done = Vec::new();
            self.device.reap(now, &mut done);
            for one in done {
                self.under_way -= 1;
                self.failed |= one.outcome.is_err();
                self.go_on(now);
                if self.under_way == 0 {
                    replies.extend(self.queue.pop_front());
                    self.begin(now);
                }
            }
        }
    }

    fn stop(&mut self, _now: Time) {
        self.stopped = true;
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn has_failed(&self) -> bool {
        self.failed
    }
}
