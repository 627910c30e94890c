//! A device that forgets: memory in virtual time with a volatile write cache, whose every legal
//! state after a power cut can be had.

use super::Device;
use super::medium::{Cells, Medium};
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
    number: u64,
}

impl Pending {
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
}

/// Most requests take between this and half a millisecond longer.
const LEAST: Time = 10 * MICROS;
const USUAL_SPREAD: Time = 500 * MICROS;
const RARE_SPREAD: Time = 10 * MILLIS;
/// One request in so many takes long.
const RARE: u64 = 16;

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
}

impl VolatileRam {
    /// A device over what `medium` holds. Without `volatile`, completed writes are durable.
    pub fn new(medium: Cells, volatile: bool, latency: Latency, rng: Rng) -> VolatileRam {
        VolatileRam {
            durable: medium.clone(),
            current: medium,
            volatile,
            latency,
            rng,
            running: Vec::new(),
            pending: Vec::new(),
            next_number: 0,
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

    /// Requests submitted and completed so far: changes whenever the set of legal states may have.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn due(&mut self, now: Time) -> Time {
        match self.latency {
            Latency::InOrder(each) => {
                let last = self.running.iter().map(|one| one.due).max();
                last.map_or(now, |last| last.max(now)) + each
            }
            Latency::Random => {
                let rare = self.rng.below(RARE) == 0;
                now + LEAST + self.rng.below(if rare { RARE_SPREAD } else { USUAL_SPREAD })
            }
        }
    }

    fn complete(&mut self, one: Running) -> Done {
        self.events += 1;
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
        let one = self.pending.remove(at);
        one.write_to(&mut self.current)?;
        if self.volatile {
            self.pending.push(Pending { completed: true, ..one });
        } else {
            one.write_to(&mut self.durable)?;
        }
        Ok(Data::none())
    }

    fn finish_flush(&mut self, covers: &[u64]) -> Result<Data, IoError> {
        let (done, left): (Vec<Pending>, Vec<Pending>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|one| covers.contains(&one.number));
        self.pending = left;
        for one in done {
            one.write_to(&mut self.durable)?;
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
        self.events += 1;
        let number = self.next_number;
        self.next_number += 1;
        if matches!(io.op, Op::Write | Op::Trim) {
            let data = if io.op == Op::Trim { Data::zeros(io.count) } else { io.data.clone() };
            let labels = io.labels.clone();
            self.pending.push(Pending { at: io.at, data, labels, completed: false, number });
        }
        let covers = match io.op {
            Op::Flush => self.pending.iter().filter(|p| p.completed).map(|p| p.number).collect(),
            _ => Vec::new(),
        };
        let due = self.due(now);
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
        let mut mixed = Piece::block(medium.get(at)).to_bytes().to_vec();
        let new = new.to_bytes();
        for (sector, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            mixed[range.clone()].copy_from_slice(&new[range]);
        }
        debug_assert_eq!(mixed.len(), BLOCK_BYTES);
        medium.set(at, Body::Bytes(mixed.into()));
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
        let write = Pending { at: 1, data, labels: None, completed: false, number: 0 };
        let marks = vec![true, false, false, false, false, false, false, true];
        apply(&mut medium, &write, &Fate::Torn(marks));
        let old = Data::stamp(1, 1, 1).to_bytes();
        let new = Data::stamp(1, 1, 2).to_bytes();
        let Body::Bytes(found) = medium.get(1) else { panic!("a mixture has bytes") };
        assert_eq!(found[..512], new[..512]);
        assert_eq!(found[512..3584], old[512..3584]);
        assert_eq!(found[3584..], new[3584..]);
    }
}
