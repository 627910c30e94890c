//! A device that forgets: memory in virtual time with a volatile write cache, whose every legal
//! state after a power cut can be had; on demand its requests fail.

use super::medium::{Cells, Medium};
use super::{Device, DeviceStatus};
use crate::checksum::mix;
use crate::data::{Body, Data, Piece};
use crate::io::{Done, Io, IoError, Labels, Op};
use crate::rng::Rng;
use crate::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, MICROS, MILLIS, SECTOR_BYTES, Time};

/// A write that a power cut may still undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// First block.
    pub at: BlockNr,
    /// What was to be written.
    pub data: Data,
    /// And the labels, if it has some.
    pub labels: Option<Labels>,
    /// It has been acknowledged; only a flush was missing.
    pub completed: bool,
    /// Tells the writes of a device apart.
    pub number: u64,
    /// A flush that was to cover it failed: no later one makes it durable.
    stuck: bool,
}

impl Pending {
    /// A write for [`apply`] alone, no write of a device.
    pub fn new(at: BlockNr, data: Data, labels: Option<Labels>) -> Pending {
        Pending { at, data, labels, completed: false, number: 0, stuck: false }
    }

    fn write_to(&self, medium: &mut Cells) -> Result<(), IoError> {
        match &self.labels {
            None => medium.write(self.at, &self.data),
            Some(labels) => medium.write_labelled(self.at, &self.data, labels),
        }
    }
}

#[derive(Clone, Debug)]
struct Running {
    due: Time,
    number: u64,
    io: Io,
    /// For a flush: the writes that it makes durable.
    covers: Vec<u64>,
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

/// Which requests are to fail, and how many have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// So many writes complete before one fails with [`IoError::Media`].
    pub write_after: Option<u64>,
    /// So many writes complete before all fail with [`IoError::NoSpace`].
    pub full_after: Option<u64>,
    /// So many flushes complete before one fails with [`IoError::Media`]. What it was to cover is
    /// not covered by later ones either, as with an operating system that has dropped it.
    pub flush_after: Option<u64>,
    /// Writes that have failed.
    pub failed_writes: u64,
    /// Flushes that have failed.
    pub failed_flushes: u64,
}

/// Counts down; true when the count is used up.
fn is_due(after: &mut Option<u64>) -> bool {
    match after {
        Some(0) => true,
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    }
}

/// The device.
#[derive(Clone, Debug)]
pub struct VolatileRam {
    /// What a power cut cannot take away.
    durable: Cells,
    /// What reads see: all completed writes.
    current: Cells,
    volatile: bool,
    latency: Latency,
    rng: Rng,
    running: Vec<Running>,
    /// Completed writes stand in order of completion: of two to the same block the later one is
    /// what a flush leaves behind.
    pending: Vec<Pending>,
    next_number: u64,
    events: u64,
    /// Which write put there what is durable, block by block; 0 for what was there before.
    origins: Vec<u64>,
    /// Sum of all origins; see [`VolatileRam::print`].
    print: u128,
    trouble: Trouble,
}

impl VolatileRam {
    /// A device over what `medium` holds. Without `volatile`, completed writes are durable.
    pub fn new(medium: Cells, volatile: bool, latency: Latency, rng: Rng) -> VolatileRam {
        let origins = vec![0; usize::try_from(medium.blocks()).expect("blocks fit memory")];
        VolatileRam {
            durable: medium.clone(),
            current: medium,
            origins,
            print: 0,
            trouble: Trouble::default(),
            volatile,
            latency,
            rng,
            running: Vec::new(),
            pending: Vec::new(),
            next_number: 1,
            events: 0,
        }
    }

    /// What is certain to survive a power cut now.
    pub fn durable(&self) -> &Cells {
        &self.durable
    }

    /// What a power cut now may undo, wholly or in part. Where two writes of the same block have
    /// reached the medium, the later one in this list has the last word.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Writes and trims submitted, and writes, trims and flushes completed so far: changes whenever
    /// the set of legal states may have.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Tells durable contents apart: the sum of [`print_of`] over all blocks and their origins.
    pub fn print(&self) -> u128 {
        self.print
    }

    /// Number of the write that put there what is durable in a block; 0 for what was there before.
    pub fn origin(&self, at: BlockNr) -> u64 {
        self.origins[at as usize]
    }

    /// Which requests are to fail, and how many have.
    pub fn trouble(&mut self) -> &mut Trouble {
        &mut self.trouble
    }

    /// Makes a block unreadable until it is written again.
    pub fn lose(&mut self, at: BlockNr) {
        self.durable.lose(at);
        self.current.lose(at);
        self.set_origin(at, None);
    }

    /// Replaces what a block holds, behind everybody's back.
    pub fn rot(&mut self, at: BlockNr, body: &Body) {
        self.durable.set(at, body.clone());
        self.current.set(at, body.clone());
        self.set_origin(at, None);
    }

    /// Notes who wrote what is durable in a block; without a number somebody new.
    fn set_origin(&mut self, at: BlockNr, number: Option<u64>) {
        let number = number.unwrap_or_else(|| {
            self.next_number += 1;
            self.events += 1;
            self.next_number - 1
        });
        let origin = &mut self.origins[at as usize];
        self.print ^= print_of(at, *origin) ^ print_of(at, number);
        *origin = number;
    }

    fn make_durable(&mut self, one: &Pending) -> Result<(), IoError> {
        one.write_to(&mut self.durable)?;
        let end = one.at + u64::from(one.data.blocks());
        (one.at..end).for_each(|at| self.set_origin(at, Some(one.number)));
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
        let Running { number, io, covers, .. } = one;
        let outcome = match io.op {
            Op::Read => self.current.read(io.at, io.count),
            Op::Write | Op::Trim => self.finish_write(number),
            Op::Flush => self.finish_flush(&covers),
        };
        Done::new(io.tag, outcome)
    }

    fn finish_write(&mut self, number: u64) -> Result<Data, IoError> {
        let at = self.pending.iter().position(|one| one.number == number);
        let at = at.expect("a write is pending until it is durable");
        let mut one = self.pending.remove(at);
        let failed = self.fails();
        if failed.is_some() {
            self.keep_some(&mut one);
        }
        one.write_to(&mut self.current)?;
        if self.volatile {
            self.pending.push(Pending { completed: true, ..one });
        } else {
            self.make_durable(&one)?;
        }
        match failed {
            Some(full) if full => Err(IoError::NoSpace),
            Some(_) => Err(IoError::Media { block: one.at }),
            None => Ok(Data::none()),
        }
    }

    /// Whether the write that completes now fails, and if so whether for want of room.
    fn fails(&mut self) -> Option<bool> {
        let full = is_due(&mut self.trouble.full_after);
        let failed = full || is_due(&mut self.trouble.write_after);
        if failed && !full {
            self.trouble.write_after = None;
        }
        self.trouble.failed_writes += u64::from(failed);
        failed.then_some(full)
    }

    /// Of a write that fails some blocks may have got through.
    fn keep_some(&mut self, one: &mut Pending) {
        let mut data = Data::none();
        let mut labels = one.labels.as_deref().cloned();
        for index in 0..one.data.blocks() {
            let at = one.at + u64::from(index);
            if self.rng.chance(0.5) {
                data.push(one.data.block(index));
            } else {
                data.push(Piece::block(self.current.get(at)));
                if let Some(labels) = &mut labels {
                    labels[index as usize] = self.current.label(at);
                }
            }
        }
        // It is another write than the one that was seen in flight.
        one.number = self.next_number;
        self.next_number += 1;
        one.data = data;
        one.labels = labels.map(Labels::new);
    }

    fn finish_flush(&mut self, covers: &[u64]) -> Result<Data, IoError> {
        if is_due(&mut self.trouble.flush_after) {
            self.trouble.flush_after = None;
            self.trouble.failed_flushes += 1;
            for one in self.pending.iter_mut().filter(|one| covers.contains(&one.number)) {
                one.stuck = true;
            }
            return Err(IoError::Media { block: 0 });
        }
        let (done, left): (Vec<Pending>, Vec<Pending>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|one| !one.stuck && covers.contains(&one.number));
        self.pending = left;
        for one in done {
            self.make_durable(&one)?;
        }
        Ok(Data::none())
    }
}

impl Device for VolatileRam {
    fn blocks(&self) -> u64 {
        self.durable.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        assert!(io.at + u64::from(io.count) <= self.blocks(), "{io:?} leaves the device");
        let number = self.next_number;
        self.next_number += 1;
        if matches!(io.op, Op::Write | Op::Trim) {
            self.events += 1;
            let data = if io.op == Op::Trim { Data::zeros(io.count) } else { io.data.clone() };
            let (at, labels) = (io.at, io.labels.clone());
            let one = Pending { at, data, labels, completed: false, number, stuck: false };
            self.pending.push(one);
        }
        let covers = match io.op {
            Op::Flush => self.pending.iter().filter(|p| p.completed).map(|p| p.number).collect(),
            _ => Vec::new(),
        };
        let due = self.due(now, io.op);
        self.running.push(Running { due, number, io, covers });
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        // One at a time, so that whoever watches sees the state after each event.
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
        self.volatile
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for VolatileRam {}

/// What a block at `at` adds to a print if the write `origin` put there what it holds.
pub fn print_of(at: BlockNr, origin: u64) -> u128 {
    if origin == 0 {
        return 0;
    }
    let low = mix(origin ^ mix(at ^ 0x9e37_79b9_7f4a_7c15));
    let high = mix(low ^ mix(origin.rotate_left(32) ^ at));
    u128::from(high) << 64 | u128::from(low)
}

/// Which sectors of a pending write have reached the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// None.
    Lost,
    /// All.
    Whole,
    /// Those marked true, one flag per sector.
    Torn(Vec<bool>),
}

/// Puts what reached the medium of a pending write on it.
pub fn apply(medium: &mut Cells, write: &Pending, fate: &Fate) {
    match fate {
        Fate::Lost => {}
        Fate::Whole => {
            write.write_to(medium).expect("memory does not fail");
        }
        Fate::Torn(sectors) => {
            for index in 0..write.data.blocks() {
                let from = index as usize * BLOCK_SECTORS as usize;
                let marks = &sectors[from..from + BLOCK_SECTORS as usize];
                let at = write.at + u64::from(index);
                apply_block(medium, at, &write.data.block(index), marks);
                // The label is there if the beginning of its block is: harsher than a disk, which
                // would notice that the headers of the sectors differ.
                if let Some(labels) = &write.labels
                    && marks[0]
                {
                    medium.set_label(at, labels[index as usize]);
                }
            }
        }
    }
}

fn apply_block(medium: &mut Cells, at: BlockNr, new: &Piece, marks: &[bool]) {
    if marks.iter().all(|&mark| mark) {
        medium.set(at, new.body.clone());
    } else if marks.iter().any(|&mark| mark) {
        let old = medium.get(at);
        let before = Piece::block(old).to_bytes();
        let mut mixed = before.to_vec();
        let after = new.to_bytes();
        for (sector, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            mixed[range.clone()].copy_from_slice(&after[range]);
        }
        debug_assert_eq!(mixed.len(), BLOCK_BYTES);
        // A stamp has a checksum of its own: it must not come back as the bytes it stands for.
        if mixed == after {
            medium.set(at, new.body.clone());
        } else if mixed != before {
            medium.set(at, Body::Bytes(mixed.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(device.pending()[0].completed);
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
        device.trouble().flush_after = Some(0);
        device.submit(0, Io::write(1, 2, Data::stamp(1, 2, 1)));
        settle(&mut device);
        for tag in 2..4 {
            device.submit(0, Io::flush(tag));
            settle(&mut device);
        }
        assert_eq!(device.trouble().failed_flushes, 1);
        assert_eq!((device.durable().get(2), device.pending().len()), (Body::Zeros, 1));
    }

    #[test]
    fn failing_writes_are_counted_and_leave_old_or_new_blocks() {
        let mut device = device(false, Latency::InOrder(5));
        device.trouble().write_after = Some(1);
        let mut done = Vec::new();
        for version in 1..4 {
            device.submit(0, Io::write(version, 0, Data::stamp(8, 0, version)));
            device.reap(1000, &mut done);
        }
        let failed: Vec<bool> = done.iter().map(|one| one.outcome.is_err()).collect();
        assert_eq!(
            (failed.as_slice(), device.trouble().failed_writes),
            (&[false, true, false][..], 1)
        );
        device.trouble().full_after = Some(0);
        device.submit(0, Io::write(9, 0, Data::stamp(8, 0, 9)));
        device.reap(1000, &mut done);
        assert_eq!(done[3].outcome, Err(IoError::NoSpace));
        for at in 0..8 {
            let Body::Stamp { key, version } = device.durable().get(at) else { panic!("zeros") };
            assert!(key == at && (version == 3 || version == 9), "block {at}: {key} v{version}");
        }
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

    #[test]
    fn torn_writes_mix_at_sectors() {
        let mut medium = Cells::new(4);
        medium.set(1, Body::Stamp { key: 1, version: 1 });
        let data = Data::stamp(1, 1, 2);
        let write =
            Pending { at: 1, data, labels: None, completed: false, number: 1, stuck: false };
        let marks = vec![true, false, false, false, false, false, false, true];
        apply(&mut medium, &write, &Fate::Torn(marks));
        let old = Data::stamp(1, 1, 1).to_bytes();
        let new = Data::stamp(1, 1, 2).to_bytes();
        let Body::Bytes(found) = medium.get(1) else { panic!("a mixture has bytes") };
        assert_eq!(found[..512], new[..512]);
        assert_eq!(found[512..3584], old[512..3584]);
        assert_eq!(found[3584..], new[3584..]);
        // What is the same in the end is the same, however it came about.
        apply(&mut medium, &write, &Fate::Torn([[false; 1], [true; 1]].concat().repeat(4)));
        let rest = vec![false, true, true, true, true, true, true, false];
        apply(&mut medium, &write, &Fate::Torn(rest));
        assert!(matches!(medium.get(1), Body::Stamp { key: 1, version: 2 }));
    }
}
