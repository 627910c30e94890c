//! A node: one layer over its devices, with the only loop that moves effects between them.
//!
//! Both drivers, virtual and wall clock, own a node and differ only in where the time comes from.

use crate::account::Account;
use crate::device::Device;
use crate::io::Extent;
use crate::io::{Done, Io, Op, Outcome, Tag};
use crate::layer::{Cx, Layer, Port};
use crate::rng::Rng;
use crate::traffic::{Faults, Traffic};
use crate::transaction::{Transaction, TransactionError};
use crate::units::{BlockNr, Time};

#[cfg(test)]
mod tests;

/// How far a clean shutdown has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    No,
    /// The layer has been asked.
    Layer,
    /// The layer has come to its end, and the devices have been asked.
    Devices,
}

/// A layer over its devices.
#[derive(Debug)]
pub struct Node {
    /// The volume.
    pub layer: Box<dyn Layer>,
    /// The devices below it; a layer's port is the index.
    pub devices: Vec<Box<dyn Device>>,
    /// The node's own stream of randomness.
    pub rng: Rng,
    in_flight: usize,
    /// Something has happened since the layer was pumped.
    stirred: bool,
    idle_since: Option<Time>,
    stopping: Stopping,
    below: Vec<(Port, Io)>,
    above: Vec<Done>,
    reaped: Vec<Done>,
    /// What went to each device.
    traffic: Vec<Traffic>,
    /// What failed of it.
    faults: Vec<Faults>,
    /// Requests of clients that failed.
    answered_faults: Faults,
    /// Commands that each device has not answered.
    unanswered: Vec<usize>,
}

impl Node {
    /// A node at time zero.
    pub fn new(layer: Box<dyn Layer>, devices: Vec<Box<dyn Device>>, seed: u64) -> Node {
        Node {
            traffic: vec![Traffic::default(); devices.len()],
            faults: vec![Faults::default(); devices.len()],
            answered_faults: Faults::default(),
            unanswered: vec![0; devices.len()],
            layer,
            devices,
            rng: Rng::stream(seed, "node"),
            in_flight: 0,
            stirred: true,
            idle_since: Some(0),
            stopping: Stopping::No,
            below: Vec::new(),
            above: Vec::new(),
            reaped: Vec::new(),
        }
    }

    /// The same node with its layer inside another one, such as a layer that watches requests. Only
    /// before the first request: what is in flight belongs to the layer that took it.
    #[must_use]
    pub fn with_layer(self, wrap: impl FnOnce(Box<dyn Layer>) -> Box<dyn Layer>) -> Node {
        debug_assert_eq!(self.in_flight, 0, "requests are in flight");
        Node { layer: wrap(self.layer), ..self }
    }

    /// What lies at `at` and for how many blocks it stays the same, at least 1 and at most `limit`.
    pub fn extent(&mut self, at: BlockNr, limit: u64) -> (Extent, u64) {
        match self.layer.status().in_place() {
            Some(first) => self.devices[0].extent(first + at, limit),
            None => self.layer.status().extent(at, limit),
        }
    }

    /// Client requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Hands a request in. The edge has checked it; the same facts are asserted here.
    ///
    /// # Panics
    /// If the request leaves the volume or its payload does not fit its length.
    pub fn submit(&mut self, now: Time, io: Io) {
        assert!(io.at + u64::from(io.count) <= self.layer.blocks(), "{io:?} leaves the volume");
        match io.op {
            Op::Write => assert!(io.count > 0 && io.data.blocks() == io.count, "{io:?}"),
            Op::Read | Op::Trim => assert!(io.count > 0 && io.data.is_empty(), "{io:?}"),
            Op::Flush => assert!(io.count == 0 && io.data.is_empty(), "{io:?}"),
        }
        if io.part.is_some() {
            assert!(io.has_sound_part() && self.takes_parts(), "{io:?}");
        }
        self.in_flight += 1;
        self.idle_since = None;
        self.stirred = true;
        let (layer, mut cx) = self.split(now);
        layer.submit(io, &mut cx);
        self.check_layer();
    }

    /// True if writes may name single sectors: the layer hands them on, and each device takes them.
    /// Otherwise a write is of whole blocks.
    pub fn takes_parts(&self) -> bool {
        self.layer.status().takes_parts()
            && self.devices.iter().all(|device| device.status().takes_parts())
    }

    /// Most blocks of a transaction; 0 if the volume has none.
    pub fn transaction_blocks(&self) -> u64 {
        self.layer.status().transaction_blocks()
    }

    /// Bytes that a transaction may say, as [`Transaction::patch_bytes`] counts them; 0 if the
    /// volume takes no patches.
    pub fn patch_bytes(&self) -> u64 {
        let status = self.layer.status();
        if status.takes_patches() { status.patch_bytes() } else { 0 }
    }

    /// The first block at or after `at` that may hold something, on a volume of objects; `at` on
    /// others.
    pub fn next_data(&mut self, mut at: BlockNr) -> Option<BlockNr> {
        let end = self.layer.blocks();
        while at < end && self.patch_bytes() > 0 {
            match self.extent(at, end - at) {
                (Extent::Data, _) => break,
                (Extent::Hole, count) => at += count,
            }
        }
        (at < end).then_some(at)
    }

    /// Hands a transaction in: all that it changes takes hold together or not at all, whatever
    /// crash comes between. It is answered once, under `tag`, like a write; with `fua` only when
    /// it is durable. Reads and writes beside it see all of it or nothing.
    ///
    /// # Errors
    /// A volume without transactions, and a transaction that is empty, too large or leaves the
    /// volume. Nothing has happened then, and no answer comes.
    pub fn submit_transaction(
        &mut self,
        now: Time,
        tag: Tag,
        all: Transaction,
        fua: bool,
    ) -> Result<(), TransactionError> {
        let (most, blocks) = (self.transaction_blocks(), self.layer.blocks());
        if most == 0 {
            return Err(TransactionError::Unsupported);
        }
        if all.is_empty() {
            return Err(TransactionError::Empty);
        }
        if all.has_patches() && !self.layer.status().takes_patches() {
            return Err(TransactionError::Patches);
        }
        let most_bytes = self.layer.status().patch_bytes();
        if most_bytes < u64::MAX && all.patch_bytes() > most_bytes {
            let bytes = all.patch_bytes();
            return Err(TransactionError::TooManyPatches { bytes, most: most_bytes });
        }
        if all.end() > blocks {
            return Err(TransactionError::OutOfRange { end: all.end(), blocks });
        }
        if all.blocks() > most {
            return Err(TransactionError::TooLarge { blocks: all.blocks(), most });
        }
        self.in_flight += 1;
        self.idle_since = None;
        self.stirred = true;
        let (layer, mut cx) = self.split(now);
        // It has just said how large they may be.
        let transactions = layer.transactions().expect("a volume that has transactions");
        transactions.submit(tag, all, fua, &mut cx);
        self.check_layer();
        Ok(())
    }

    /// Asks the layer for a clean shutdown, and then the devices; see [`Layer::stop`].
    pub fn stop(&mut self, now: Time) {
        self.stirred = true;
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Layer;
        }
        let (layer, mut cx) = self.split(now);
        layer.stop(&mut cx);
    }

    /// True when a clean shutdown that was asked for is complete, down to the devices.
    pub fn stopped(&self) -> bool {
        self.stopping == Stopping::Devices && self.devices.iter().all(|device| device.stopped())
    }

    /// Counters of the layer and of the devices below it.
    pub fn stats(&self) -> Vec<(&'static str, f64)> {
        let below = self.devices.iter().flat_map(|device| device.status().stats());
        self.layer.status().stats().into_iter().chain(below).collect()
    }

    /// What went to each device since the start.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Requests that failed since the start: those to each device.
    pub fn faults(&self) -> &[Faults] {
        &self.faults
    }

    /// Requests of clients that failed since the start.
    pub fn answered_faults(&self) -> Faults {
        self.answered_faults
    }

    /// What the devices have been busy with, as far as they keep account.
    pub fn accounts(&self) -> Vec<Account> {
        let mut accounts = Vec::new();
        for device in &self.devices {
            device.status().accounts(&mut |account| accounts.push(*account));
        }
        accounts
    }

    /// Puts a device in the place of one that the layer asks nothing any longer.
    pub fn replace_device(&mut self, port: Port, device: Box<dyn Device>) {
        self.devices[port] = device;
        self.unanswered[port] = 0;
        self.stirred = true;
    }

    /// Moves requests and answers until nothing more can happen at `now`, and appends the answers
    /// to the clients' requests.
    pub fn settle(&mut self, now: Time, answers: &mut Vec<Done>) {
        self.stirred = self.stirred || self.layer.deadline().is_some_and(|at| at <= now);
        loop {
            if std::mem::take(&mut self.stirred) {
                let (layer, mut cx) = self.split(now);
                layer.pump(&mut cx);
                self.check_layer();
                // Above a plain device nothing else would notice.
                debug_assert!(
                    self.stopping != Stopping::Devices || self.below.is_empty(),
                    "a layer that has stopped sends requests: {:?}",
                    self.below
                );
                for (port, io) in self.below.drain(..) {
                    debug_assert!(is_sound(&io, self.devices[port].as_ref()), "{io:?} to {port}");
                    self.traffic[port].count(&io);
                    self.unanswered[port] += 1;
                    self.devices[port].submit(now, io);
                }
            }
            for port in 0..self.devices.len() {
                self.reap(port, now);
            }
            if !self.stirred && !self.stop_devices(now) {
                break;
            }
        }
        if !self.above.is_empty() {
            assert!(self.in_flight >= self.above.len(), "more answers than requests");
            self.in_flight -= self.above.len();
            if self.in_flight == 0 {
                self.idle_since = Some(now);
            }
            self.above.iter().for_each(|done| self.answered_faults.note(&done.outcome));
            answers.append(&mut self.above);
        }
    }

    /// Asks the devices for a clean shutdown once the layer has come to its own. True if they have
    /// just been asked. A layer that has failed is at its end at once, and what it had sent may
    /// still have a sequel: the devices are asked when everything is answered.
    fn stop_devices(&mut self, now: Time) -> bool {
        let answered = self.unanswered.iter().all(|&commands| commands == 0);
        if self.stopping != Stopping::Layer || !answered || !self.layer.stopped() {
            return false;
        }
        // A layer that says that it has come to its end has nothing left to ask its devices.
        debug_assert!(self.below.is_empty(), "a layer that has stopped sends requests");
        self.stopping = Stopping::Devices;
        self.devices.iter_mut().for_each(|device| device.stop(now));
        true
    }

    /// Hands the answers of a device to the layer.
    fn reap(&mut self, port: Port, now: Time) {
        // A device that knows when its next answer is due need not be asked before.
        let later = self.devices[port].next_event().is_some_and(|at| at > now);
        if later && !self.devices[port].is_sudden() {
            return;
        }
        self.devices[port].reap(now, &mut self.reaped);
        if self.reaped.is_empty() {
            return;
        }
        self.stirred = true;
        debug_assert!(self.reaped.len() <= self.unanswered[port], "more answers than commands");
        self.unanswered[port] -= self.reaped.len();
        let mut reaped = std::mem::take(&mut self.reaped);
        for done in reaped.drain(..) {
            self.faults[port].note(&done.outcome);
            let (layer, mut cx) = self.split(now);
            layer.complete(port, done, &mut cx);
            self.check_layer();
        }
        self.reaped = reaped;
    }

    /// Carries out one request while no other is in flight; time goes on from event to event.
    ///
    /// # Panics
    /// If the node comes to a halt without an answer, which is a defect of its layer.
    pub fn run(&mut self, now: &mut Time, io: Io) -> Outcome {
        assert_eq!(self.in_flight, 0, "a request alone");
        self.submit(*now, io);
        self.wait(now)
    }

    /// The same for a transaction, which is durable afterwards.
    ///
    /// # Errors
    /// As [`Node::submit_transaction`]; what became of it is in the outcome.
    ///
    /// # Panics
    /// As [`Node::run`].
    pub fn run_transaction(
        &mut self,
        now: &mut Time,
        all: Transaction,
    ) -> Result<Outcome, TransactionError> {
        assert_eq!(self.in_flight, 0, "a transaction alone");
        self.submit_transaction(*now, 0, all, true)?;
        Ok(self.wait(now))
    }

    fn wait(&mut self, now: &mut Time) -> Outcome {
        let mut answers = Vec::new();
        loop {
            self.settle(*now, &mut answers);
            debug_assert!(answers.len() <= 1, "one request, {} answers", answers.len());
            if let Some(done) = answers.pop() {
                return done.outcome;
            }
            *now = self.next_event().expect("a request is in flight").max(*now);
        }
    }

    /// Lets time pass while no request is in flight, for what waits for a pause.
    pub fn idle(&mut self, now: &mut Time, span: Time) {
        let end = *now + span;
        let mut none = Vec::new();
        self.settle(*now, &mut none);
        while let Some(due) = self.next_event().filter(|due| *due < end) {
            *now = due.max(*now);
            self.settle(*now, &mut none);
        }
        *now = end;
        self.settle(*now, &mut none);
    }

    /// Brings the layer to a clean shutdown while no request is in flight.
    ///
    /// # Panics
    /// If the end never comes, which is a defect of the layer.
    pub fn finish(&mut self, now: &mut Time) {
        self.stop(*now);
        let mut none = Vec::new();
        self.settle(*now, &mut none);
        while !self.stopped() {
            *now = self.next_event().expect("the end is under way").max(*now);
            self.settle(*now, &mut none);
        }
    }

    /// True if nothing is in flight: neither requests nor commands.
    pub fn is_quiet(&self) -> bool {
        self.in_flight == 0 && self.unanswered.iter().all(|&commands| commands == 0)
    }

    /// When to settle again though no request arrives: the next device event or deadline.
    pub fn next_event(&self) -> Option<Time> {
        let devices = self.devices.iter().filter_map(|device| device.next_event()).min();
        match (devices, self.layer.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What the layer promises between two events, after each one in debug builds.
    #[inline(always)]
    fn check_layer(&self) {
        if cfg!(debug_assertions) {
            self.layer.status().check();
        }
    }

    fn split(&mut self, now: Time) -> (&mut dyn Layer, Cx<'_>) {
        let cx = Cx {
            now,
            rng: &mut self.rng,
            idle_since: self.idle_since,
            below: &mut self.below,
            above: &mut self.above,
            devices: &self.devices,
        };
        (self.layer.as_mut(), cx)
    }
}

/// True if a device can carry a request out: it does not leave the device, and its payload has its
/// length. The seam is checked on this side too, for devices that trust their layer.
fn is_sound(io: &Io, device: &dyn Device) -> bool {
    let payload = match io.op {
        Op::Write => io.data.blocks() == io.count && io.count > 0,
        Op::Read | Op::Trim | Op::Flush => io.data.is_empty(),
    };
    let part = io.part.is_none() || io.has_sound_part() && device.status().takes_parts();
    let end = match &io.places {
        None => io.at + u64::from(io.count),
        Some(_) if u64::from(io.count) > device.status().transaction_blocks() => return false,
        Some(places) => places.last().map_or(0, |last| last + 1),
    };
    payload && part && end <= device.blocks()
}
