//! A device that forgets: memory in virtual time with a volatile write cache.
//!
//! It plays any [`Contract`]: what a power cut may leave of its [`PendingWrites`] is for
//! [`crate::enumerate`] to say. A write is pending from its submission until a flush covers it, or
//! until it completes if the contract keeps completed writes. On demand its requests fail.
//!
//! A forced write (FUA) is pending like any other, as on a device that ignores the flag: a layout
//! flushes after a write that it forces. A file system has a volume below that keeps forced writes:
//! [`VolatileRam::keeping_forced_writes`].

use crate::contract::{Contract, Order};
use crate::fate::Fate;
use crate::faults::Injector;
use crate::moment::{block_print, origin_after};
use crate::pending::{BlockWrite, Pending, PendingWrites};
use crate::tear::Unit;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::io::{Done, Io, IoError, Labels, Op};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BlockNr, MICROS, MILLIS, Time};
use std::any::Any;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
struct Running {
    due: Time,
    number: u64,
    io: Io,
}

/// How long requests take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// One after the other in order of arrival, each this long, in nanoseconds.
    InOrder(Time),
    /// Each on its own and at random, so that they complete in any order: mostly within half a
    /// millisecond, now and then within ten, which leaves time for whole commits in between.
    Random,
    /// The same, but flushes take up to a tenth of a second, as on a device with a large cache:
    /// many requests begin and end while one is under way.
    SlowFlushes,
}

/// Most requests take between this and half a millisecond longer.
const LEAST: Time = 10 * MICROS;
const USUAL_SPREAD: Time = 500 * MICROS;
const RARE_SPREAD: Time = 10 * MILLIS;
/// What a slow flush takes, at most.
const SLOW_SPREAD: Time = 100 * MILLIS;
/// One request in so many takes long.
const RARE: u64 = 16;

/// Blocks of a transaction at most: the 256 of an operation with its content on blocks of 8 KiB,
/// and little more.
pub const TRANSACTION_BLOCKS: u64 = 288;

/// The device.
#[derive(Clone, Debug)]
pub struct VolatileRam {
    /// What a power cut cannot take away.
    durable: Cells,
    /// What reads see: all completed writes.
    current: Cells,
    contract: Contract,
    /// Forced writes are durable when they complete.
    keeps_forced: bool,
    latency: Latency,
    rng: Rng,
    running: Vec<Running>,
    /// Of two completed writes to the same block the later one is what a flush leaves behind.
    pending: PendingWrites<BlockWrite>,
    /// Number of the next request, or of the next change of a block: the clock of the device.
    next_number: u64,
    events: u64,
    /// Which writes put there what is durable, block by block; 0 for what was there before.
    origins: Vec<u64>,
    /// Sum of all origins; see [`VolatileRam::print`].
    print: u128,
    faults: Injector,
}

impl VolatileRam {
    /// A disk over what `medium` holds. Without `volatile`, completed writes are durable.
    pub fn new(medium: Cells, volatile: bool, latency: Latency, rng: Rng) -> VolatileRam {
        let order = if volatile { Order::Unordered } else { Order::KeepsCompleted };
        VolatileRam::with_contract(medium, Contract { order, unit: Unit::Sector }, latency, rng)
    }

    /// A device over what `medium` holds that promises as much as a contract.
    pub fn with_contract(
        medium: Cells,
        contract: Contract,
        latency: Latency,
        rng: Rng,
    ) -> VolatileRam {
        let origins = vec![0; usize::try_from(medium.blocks()).expect("blocks fit memory")];
        VolatileRam {
            durable: medium.clone(),
            current: medium,
            origins,
            print: 0,
            faults: Injector::default(),
            contract,
            keeps_forced: false,
            latency,
            rng,
            running: Vec::new(),
            pending: PendingWrites::default(),
            next_number: 1,
            events: 0,
        }
    }

    /// The same device, on which forced writes are durable when they complete, and say nothing of
    /// others but what the contract says.
    #[must_use]
    pub fn keeping_forced_writes(mut self) -> VolatileRam {
        self.keeps_forced = true;
        self
    }

    /// The same device after these writes, which it has completed and not flushed.
    ///
    /// # Panics
    /// If it has been used, or if one of them leaves it.
    #[must_use]
    pub fn after(mut self, writes: impl IntoIterator<Item = BlockWrite>) -> VolatileRam {
        assert!(self.events == 0 && self.running.is_empty(), "the device has been used");
        for write in writes {
            let number = self.next_number;
            self.next_number += 1;
            write.write_to(&mut self.current).expect("the write is on the device");
            match self.volatile() {
                true => self.pending.admit(number, write),
                false => write.write_to(&mut self.durable).expect("it was written above"),
            }
        }
        self
    }

    /// What is certain to survive a power cut now.
    pub fn durable(&self) -> &Cells {
        &self.durable
    }

    /// What a power cut now may undo, wholly or in part. Where two writes of the same block have
    /// reached the medium, the later one in this list has the last word.
    pub fn pending(&self) -> &PendingWrites<BlockWrite> {
        &self.pending
    }

    /// What the device promises.
    pub fn contract(&self) -> Contract {
        self.contract
    }

    /// Writes and trims submitted, and writes, trims and flushes completed so far: changes whenever
    /// the set of legal states may have.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Tells durable contents apart: the sum of [`block_print`] over all blocks and their origins.
    pub fn print(&self) -> u128 {
        self.print
    }

    /// The write that put there what is durable in a block, or a sum of those that wrote parts of
    /// it; 0 for what was there before.
    pub fn origin(&self, at: BlockNr) -> u64 {
        self.origins[at as usize]
    }

    /// Which requests are to fail, and how many have. A failing write leaves some of its blocks
    /// behind; what a failing flush was to cover is never covered.
    pub fn faults(&self) -> &Injector {
        &self.faults
    }

    /// Which requests are to fail, to change it.
    pub fn faults_mut(&mut self) -> &mut Injector {
        &mut self.faults
    }

    /// Makes a block unreadable until it is written again.
    pub fn lose(&mut self, at: BlockNr) {
        self.durable.lose(at);
        self.current.lose(at);
        self.set_origin(at, None);
    }

    /// Replaces what a block holds without a write, as decay does.
    pub fn rot(&mut self, at: BlockNr, body: &Body) {
        self.durable.set(at, body.clone());
        self.current.set(at, body.clone());
        self.set_origin(at, None);
    }

    /// Notes which write put there what is durable in a block. Damage counts as a write of its own:
    /// it gets a new number.
    fn set_origin(&mut self, at: BlockNr, number: Option<u64>) {
        let number = number.unwrap_or_else(|| {
            self.next_number += 1;
            self.events += 1;
            self.next_number - 1
        });
        let origin = &mut self.origins[at as usize];
        self.print ^= block_print(at, *origin) ^ block_print(at, number);
        *origin = number;
    }

    fn make_durable(&mut self, one: &Pending<BlockWrite>) -> Result<(), IoError> {
        let write = &one.write;
        write.write_to(&mut self.durable)?;
        for (index, at) in write.places().enumerate() {
            let before = self.origin(at);
            let origin = origin_after(before, one.number, write.part, &Fate::Kept, index);
            self.set_origin(at, Some(origin));
        }
        Ok(())
    }

    fn due(&mut self, now: Time, op: Op) -> Time {
        match self.latency {
            Latency::InOrder(each) => {
                let last = self.running.iter().map(|one| one.due).max();
                last.map_or(now, |last| last.max(now)) + each
            }
            Latency::SlowFlushes if op == Op::Flush => now + LEAST + self.rng.below(SLOW_SPREAD),
            Latency::Random | Latency::SlowFlushes => {
                let rare = self.rng.below(RARE) == 0;
                now + LEAST + self.rng.below(if rare { RARE_SPREAD } else { USUAL_SPREAD })
            }
        }
    }

    fn complete(&mut self, one: Running) -> Done {
        self.events += u64::from(one.io.op != Op::Read);
        let Running { number, io, .. } = one;
        let outcome = match io.op {
            Op::Read => self.read(io.at, io.count),
            Op::Write | Op::Trim => self.finish_write(number, io.fua && self.keeps_forced),
            Op::Flush => self.finish_flush(number),
        };
        Done::new(io.tag, outcome)
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.faults.read(at, count)?;
        let data = self.current.read(at, count)?;
        Ok(self.faults.spoil(0, at, data))
    }

    fn finish_write(&mut self, number: u64, is_forced: bool) -> Result<Data, IoError> {
        let mut one = self.pending.remove(number).expect("a write is pending until it is durable");
        let answer = self.faults.write(one.write.at, one.write.blocks());
        match &answer {
            Some(Ok(_)) => return Ok(Data::none()),
            // Nothing of a transaction gets through.
            Some(Err(error)) if one.write.places.is_some() => return Err(*error),
            Some(Err(_)) => self.keep_some(&mut one),
            None => {}
        }
        one.write.write_to(&mut self.current)?;
        if self.volatile() {
            let kept = is_forced && answer.is_none();
            let places = kept.then(|| one.write.places().collect());
            self.pending.complete(one, self.next_number);
            if let Some(places) = places {
                self.keep_forced(&places)?;
            }
        } else {
            self.make_durable(&one)?;
        }
        answer.unwrap_or_else(|| Ok(Data::none()))
    }

    /// A forced write of these blocks has completed: it is durable, and with it what it has
    /// overwritten. Where a prefix survives, so is all that has completed before.
    fn keep_forced(&mut self, blocks: &BTreeSet<BlockNr>) -> Result<(), IoError> {
        let all = self.contract.order == Order::Prefix;
        let overlaps = |write: &BlockWrite| write.places().any(|at| blocks.contains(&at));
        for one in self.pending.flush(self.next_number, |write| all || overlaps(write)) {
            self.make_durable(&one)?;
        }
        Ok(())
    }

    /// Of a write that fails some blocks may have got through.
    fn keep_some(&mut self, one: &mut Pending<BlockWrite>) {
        let write = &mut one.write;
        let mut data = Data::none();
        let mut labels = write.labels.as_deref().cloned();
        for index in 0..write.blocks() {
            let at = write.at + u64::from(index);
            if self.rng.chance(0.5) {
                data.push(write.data.block(index));
            } else {
                data.push(Piece::block(self.current.get(at)));
                if let Some(labels) = &mut labels {
                    labels[index as usize] = self.current.label(at);
                }
            }
        }
        (write.data, write.labels) = (data, labels.map(Labels::new));
        // It is another write than the one that was seen in flight.
        one.number = self.next_number;
        self.next_number += 1;
    }

    /// A flush covers what had completed when it was submitted.
    fn finish_flush(&mut self, number: u64) -> Result<Data, IoError> {
        if let Some(answer) = self.faults.flush() {
            if answer.is_err() {
                self.pending.fail_flush(number);
            }
            return answer;
        }
        for one in self.pending.flush(number, |_| true) {
            self.make_durable(&one)?;
        }
        Ok(Data::none())
    }
}

impl Device for VolatileRam {
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn blocks(&self) -> u64 {
        self.durable.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let end = match &io.places {
            Some(places) => places.last().map_or(0, |last| last + 1),
            None => io.at + u64::from(io.count),
        };
        assert!(end <= self.blocks(), "{io:?} leaves the device");
        debug_assert!(io.has_sound_part(), "{io:?}");
        let number = self.next_number;
        self.next_number += 1;
        if matches!(io.op, Op::Write | Op::Trim) {
            self.events += 1;
            let data = if io.op == Op::Trim { Data::zeros(io.count) } else { io.data.clone() };
            let (at, labels, part) = (io.at, io.labels.clone(), io.part);
            let places = io.places.clone();
            self.pending.submit(number, BlockWrite { at, data, labels, part, places });
        }
        let due = self.due(now, io.op);
        self.running.push(Running { due, number, io });
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        // One at a time, so that an observer sees the state after each event.
        let next = self.running.iter().enumerate().filter(|(_, one)| one.due <= now);
        if let Some((index, _)) = next.min_by_key(|(_, one)| (one.due, one.number)) {
            let one = self.running.remove(index);
            let answer = self.complete(one);
            done.push(answer);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.running.iter().map(|one| one.due).min()
    }

    fn volatile(&self) -> bool {
        self.contract.order != Order::KeepsCompleted
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for VolatileRam {
    fn takes_parts(&self) -> bool {
        true
    }

    fn transaction_blocks(&self) -> u64 {
        TRANSACTION_BLOCKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::AtRisk;
    use seekless_engine::io::Part;
    use seekless_engine::transaction::Transaction;

    fn settle(device: &mut VolatileRam) {
        let mut done = Vec::new();
        while let Some(due) = device.next_event() {
            device.reap(due, &mut done);
        }
    }

    fn device(volatile: bool, latency: Latency) -> VolatileRam {
        VolatileRam::new(Cells::new(8), volatile, latency, Rng::stream(1, "volatile"))
    }

    #[test]
    fn only_a_flush_makes_durable() {
        let mut device = device(true, Latency::InOrder(5));
        device.submit(0, Io::write(1, 2, Data::stamp(1, 2, 1)));
        settle(&mut device);
        assert_eq!(device.durable().get(2), Body::Zeros);
        assert!(device.pending().iter().all(|one| one.completed.is_some()));
        device.submit(0, Io::flush(2));
        device.submit(0, Io::write(3, 3, Data::stamp(1, 3, 1)));
        settle(&mut device);
        assert_eq!(device.durable().get(2), Body::Stamp { key: 2, version: 1 });
        assert_eq!(device.pending().len(), 1, "the later write is not covered");
    }

    #[test]
    fn without_a_cache_completion_makes_durable() {
        let mut device = device(false, Latency::InOrder(5));
        device.submit(0, Io::write(1, 2, Data::stamp(1, 2, 1)));
        assert_eq!(device.pending().len(), 1, "in flight: it may be lost");
        settle(&mut device);
        assert!(device.pending().is_empty());
        assert_eq!(device.durable().get(2), Body::Stamp { key: 2, version: 1 });
    }

    /// Of two writes to parts of a block each may be there without the other: three states.
    #[test]
    fn parts_of_a_block_are_told_apart() {
        let part = |first, version| Io {
            part: Some(Part { first, sectors: 2 }),
            ..Io::write(1, 2, Data::stamp(1, 2, version))
        };
        let printed = |parts: &[u32]| {
            let mut device = device(false, Latency::InOrder(5));
            for &first in parts {
                device.submit(0, part(first, 1));
                settle(&mut device);
            }
            device.print()
        };
        let (first, second, both) = (printed(&[0]), printed(&[2]), printed(&[0, 2]));
        assert!(first != second && first != both && second != both);
        let mut whole = device(false, Latency::InOrder(5));
        whole.submit(0, Io::write(1, 2, Data::stamp(1, 2, 1)));
        settle(&mut whole);
        assert_ne!(whole.print(), first);
    }

    #[test]
    fn a_flush_keeps_what_reads_saw() {
        let mut seen_reordered = false;
        let mut device = device(true, Latency::Random);
        for version in 1..40 {
            device.submit(0, Io::write(1, 2, Data::stamp(1, 2, 2 * version)));
            device.submit(0, Io::write(2, 2, Data::stamp(1, 2, 2 * version + 1)));
            settle(&mut device);
            let seen = device.current.get(2);
            seen_reordered |= seen == Body::Stamp { key: 2, version: 2 * version };
            device.submit(0, Io::flush(3));
            settle(&mut device);
            assert_eq!(device.durable().get(2), seen);
        }
        assert!(seen_reordered, "random latencies let requests overtake each other");
    }

    #[test]
    fn what_a_failed_flush_was_to_cover_is_never_covered() {
        let mut device = device(true, Latency::InOrder(5));
        device.faults_mut().fail_flush_after(0);
        device.submit(0, Io::write(1, 2, Data::stamp(1, 2, 1)));
        settle(&mut device);
        for tag in 2..4 {
            device.submit(0, Io::flush(tag));
            settle(&mut device);
        }
        assert_eq!(device.faults().counts().failed_flushes, 1);
        assert_eq!((device.durable().get(2), device.pending().len()), (Body::Zeros, 1));
    }

    #[test]
    fn failing_writes_are_counted_and_leave_old_or_new_blocks() {
        let mut device = device(false, Latency::InOrder(5));
        device.faults_mut().fail_write_after(1, false);
        let mut done = Vec::new();
        for version in 1..4 {
            device.submit(0, Io::write(version, 0, Data::stamp(8, 0, version)));
            device.reap(1000, &mut done);
        }
        let failed: Vec<bool> = done.iter().map(|one| one.outcome.is_err()).collect();
        assert_eq!(
            (failed.as_slice(), device.faults().counts().failed_writes),
            (&[false, true, false][..], 1)
        );
        device.faults_mut().fill_after(0);
        device.submit(0, Io::write(9, 0, Data::stamp(8, 0, 9)));
        device.reap(1000, &mut done);
        assert_eq!(done[3].outcome, Err(IoError::NoSpace));
        for at in 0..8 {
            let Body::Stamp { key, version } = device.durable().get(at) else { panic!("zeros") };
            assert!(key == at && (version == 3 || version == 9), "block {at}: {key} v{version}");
        }
    }

    #[test]
    fn a_transaction_is_there_or_not() {
        let mut all = Transaction::new();
        [1, 4, 6].iter().for_each(|&at| all.write(at, &Data::stamp(1, at, 1)));
        let mut device = device(true, Latency::InOrder(5)).keeping_forced_writes();
        device.submit(0, Io::write_all(1, &all).with_fua());
        let risk = AtRisk::of_write(0, device.pending().iter().next().expect("in flight"));
        assert_eq!(risk.sectors, None, "it never tears");
        settle(&mut device);
        let found = |device: &VolatileRam| [1, 4, 5, 6].map(|at| device.durable().get(at));
        let [first, second, between, third] = found(&device);
        assert_eq!(between, Body::Zeros);
        let stamp = |key| Body::Stamp { key, version: 1 };
        assert_eq!([first, second, third], [1, 4, 6].map(stamp));

        all.write(5, &Data::stamp(1, 5, 2));
        let before = found(&device);
        device.faults_mut().fail_write_after(0, false);
        device.submit(9, Io::write_all(2, &all).with_fua());
        settle(&mut device);
        assert_eq!((found(&device), device.pending().len()), (before, 0), "nothing got through");
    }

    #[test]
    fn in_order_means_in_order() {
        let mut device = device(true, Latency::InOrder(7));
        for tag in 0..5 {
            device.submit(3, Io::write(tag, tag, Data::stamp(1, tag, 1)));
        }
        let mut done = Vec::new();
        for turn in 1..=5 {
            assert_eq!(device.next_event(), Some(3 + 7 * turn));
            device.reap(3 + 7 * turn, &mut done);
        }
        assert_eq!(done.iter().map(|one| one.tag).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
