//! Disks that report writes before they are on the platter, under power cuts at every event.
#![allow(
    clippy::disallowed_types,
    reason = "a medium can be sent, so what looks into it is locked"
)]

use proptest::prelude::*;
use seekless_disk::{Disk, Spec};
use seekless_engine::data::Data;
use seekless_engine::device::Device;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::io::{Done, Io, IoError, Op};
use seekless_engine::rng::Rng;
use seekless_engine::units::{BlockNr, MILLIS, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const BLOCKS: u64 = 64;

/// 10 ms a turn, two zones, four heads; `more` are further lines.
fn spec(more: &str) -> Spec {
    let text = format!(
        "name='t'\nsummary=''\nrpm=6000\nheads=4\ncylinders=20\nhead_switch_ms=1\n\
         overhead_ms=0.1\nseek={{stroke={{constant_ms=1,root_ms=9}}}}\n\
         bus={{read_sector_ms=0.01,write_sector_ms=0.01}}\n\
         zones=[{{sectors=20,track_skew=5,cylinder_skew=5,last_cylinder=9}},\
         {{sectors=12,track_skew=3,cylinder_skew=3}}]\n{more}"
    );
    Spec::parse(&text).expect("a sound specification")
}

const DISKS: [&str; 8] = [
    "[cache]\nsegments=2\nsegment_sectors=64\nwrite_back={sectors=128,writes=6}",
    "[cache]\nsegments=2\nsegment_sectors=64\ncombine_writes=true\n\
     write_back={sectors=64,writes=6,idle_ms=3}",
    "[cache]\nsegments=2\nsegment_sectors=64\nread_ahead='segment'\nzero_latency_writes=true\n\
     write_back={sectors=4096,writes=100,idle_ms=20}",
    "[cache]\nsegments=2\nsegment_sectors=64\nwrite_back={sectors=128,writes=8,idle_ms=1}\n\
     [queue]\ndepth=4\ndiscipline='sptf'",
    "[cache]\nsegments=4\nsegment_sectors=64\nfast_write='any'\nread_hits_on_writes=true",
    "[cache]\nsegments=4\nsegment_sectors=64\nfast_write='any'\ncombine_writes=true",
    "[cache]\nsegments=4\nsegment_sectors=64\nfast_write='any'\n[queue]\ndepth=3\n\
     discipline='look'",
    "[cache]\nsegments=4\nsegment_sectors=64",
];

fn disk(index: usize, medium: impl Medium + 'static) -> Disk {
    Disk::new(&spec(DISKS[index]), Box::new(medium)).expect("a disk")
}

/// Content of a block: a version, 0 for zeros.
type Version = u64;

fn content(block: BlockNr, version: Version) -> Vec<u8> {
    let data = if version == 0 { Data::zeros(1) } else { Data::stamp(1, block, version) };
    data.to_bytes().to_vec()
}

#[derive(Clone, Debug)]
struct Sent {
    io: Io,
    at: Time,
    version: Version,
    done: Option<Time>,
}

/// A run: a disk at work and its answers.
struct Run {
    disk: Disk,
    rng: Rng,
    now: Time,
    sent: Vec<Sent>,
    /// Tags of answered requests, in order.
    answered: Vec<usize>,
    /// The content that reads must return.
    current: BTreeMap<BlockNr, Version>,
    next: Time,
    flushes: bool,
}

impl Run {
    fn new(disk: Disk, seed: u64) -> Run {
        let rng = Rng::stream(seed, "power cuts");
        let (sent, answered) = (Vec::new(), Vec::new());
        let current = BTreeMap::new();
        Run {
            disk,
            rng,
            now: 0,
            sent,
            answered,
            current,
            next: 0,
            flushes: !seed.is_multiple_of(3),
        }
    }

    fn submit(&mut self) {
        let tag = self.sent.len() as u64;
        let count = 1 + self.rng.below(4) as u32;
        let at = match self.sent.last() {
            Some(last) if self.rng.below(3) == 0 => last.io.at + u64::from(last.io.count),
            _ => self.rng.below(BLOCKS),
        };
        let at = at.min(BLOCKS - u64::from(count));
        let io = match self.rng.below(12) {
            0 if self.flushes => Io::flush(tag),
            1 => Io::trim(tag, at, count),
            2 => Io::write(tag, at, Data::stamp(count, at, tag + 1)).with_fua(),
            3..=4 => Io::read(tag, at, count),
            _ => Io::write(tag, at, Data::stamp(count, at, tag + 1)),
        };
        let version = if io.op == Op::Write { tag + 1 } else { 0 };
        self.sent.push(Sent { io: io.clone(), at: self.now, version, done: None });
        self.disk.submit(self.now, io);
        let pause = [0, MILLIS, 30 * MILLIS][self.rng.below(3) as usize];
        self.next = self.now + self.rng.below(pause + 1);
    }

    fn answer(&mut self, done: &Done) {
        let tag = done.tag as usize;
        let sent = &mut self.sent[tag];
        assert_eq!(sent.done, None, "answered once");
        assert_eq!(sent.at + done.spent.total_ns(), self.now, "the parts add up: {sent:?}");
        sent.done = Some(self.now);
        self.answered.push(tag);
        let blocks = sent.io.at..sent.io.at + u64::from(sent.io.count);
        let data = done.outcome.as_ref().expect("nothing fails");
        for (index, block) in blocks.enumerate() {
            let expected = self.current.get(&block).copied().unwrap_or(0);
            match sent.io.op {
                Op::Read => {
                    let found = data.block(index as u32).to_bytes();
                    assert!(found[..] == content(block, expected)[..], "{sent:?} read old data");
                }
                Op::Write | Op::Trim => {
                    self.current.insert(block, sent.version);
                }
                Op::Flush => {}
            }
        }
    }

    /// Advances to the next event, at most to `until`; false when there is none.
    fn step(&mut self, requests: usize, until: Time) -> bool {
        let submits = (self.sent.len() < requests).then_some(self.next);
        let due = self.disk.next_event();
        let Some(next) = submits.into_iter().chain(due).min() else { return false };
        assert!(next >= self.now, "time runs back");
        if next > until {
            return false;
        }
        self.now = next;
        let mut done = Vec::new();
        self.disk.reap(self.now, &mut done);
        for answer in &done {
            self.answer(answer);
        }
        if submits == Some(next) {
            self.submit();
        }
        true
    }

    /// The versions of a block that may be on the platter after a power cut: the last durable one,
    /// and all later ones.
    fn possible(&self, block: BlockNr) -> Vec<Version> {
        let flushed =
            self.sent.iter().filter(|sent| sent.io.op == Op::Flush && sent.done.is_some());
        let covered = flushed.map(|sent| sent.at).max();
        let mut possible = vec![0];
        for &tag in &self.answered {
            let sent = &self.sent[tag];
            if !matches!(sent.io.op, Op::Write | Op::Trim) || !sent.io.overlaps(block, 1) {
                continue;
            }
            let durable = sent.io.fua
                || !self.disk.volatile()
                || covered.is_some_and(|at| sent.done.is_some_and(|done| done <= at));
            if durable {
                possible.clear();
            }
            possible.push(sent.version);
        }
        let open = self.sent.iter().filter(|sent| sent.done.is_none());
        let open = open.filter(|sent| matches!(sent.io.op, Op::Write | Op::Trim));
        possible.extend(open.filter(|sent| sent.io.overlaps(block, 1)).map(|sent| sent.version));
        possible
    }

    fn cut(self, at: Time) {
        let possible: Vec<Vec<Version>> = (0..BLOCKS).map(|block| self.possible(block)).collect();
        let mut medium = self.disk.power_cut(at);
        for (block, versions) in (0..).zip(possible) {
            let found = medium.read(block, 1).expect("memory").to_bytes();
            for (index, sector) in found.chunks(512).enumerate() {
                let range = index * 512..(index + 1) * 512;
                let known = |&version: &Version| content(block, version)[range.clone()] == *sector;
                assert!(versions.iter().any(known), "block {block}: none of {versions:?} at {at}");
            }
        }
    }
}

fn events(index: usize, seed: u64, requests: usize) -> Vec<Time> {
    let mut run = Run::new(disk(index, Cells::new(BLOCKS)), seed);
    let mut events = Vec::new();
    while run.step(requests, Time::MAX) {
        events.push(run.now);
    }
    assert!(run.sent.iter().all(|sent| sent.done.is_some()), "everything is answered");
    events
}

fn cut_at(index: usize, seed: u64, requests: usize, at: Time) {
    let mut run = Run::new(disk(index, Cells::new(BLOCKS)), seed);
    while run.step(requests, at) {}
    run.cut(at);
}

/// A medium that can be looked at when the disk is gone.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Cells>>);

impl Medium for Shared {
    fn blocks(&self) -> u64 {
        BLOCKS
    }
    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.0.lock().expect("one thread").read(at, count)
    }
    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.0.lock().expect("one thread").write(at, data)
    }
    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.0.lock().expect("one thread").trim(at, count)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_power_cut_takes_nothing_that_was_flushed(
        index in 0..DISKS.len(),
        seed in any::<u64>(),
        between in 0..5 * MILLIS,
    ) {
        let events = events(index, seed, 50);
        let last = *events.last().expect("events");
        for at in events {
            cut_at(index, seed, 50, at);
            cut_at(index, seed, 50, at + between);
        }
        cut_at(index, seed, 50, last + 1000 * MILLIS);
    }

    #[test]
    fn a_clean_shutdown_keeps_everything(index in 0..DISKS.len(), seed in any::<u64>()) {
        let shared = Shared(Arc::new(Mutex::new(Cells::new(BLOCKS))));
        let mut run = Run::new(disk(index, shared.clone()), seed);
        while run.step(50, Time::MAX) {}
        let Run { disk, current, .. } = run;
        drop(disk);
        for (block, version) in current {
            let found = shared.clone().read(block, 1).expect("memory").to_bytes();
            prop_assert!(found[..] == content(block, version)[..]);
        }
    }
}

/// Runs one request and returns when it completes.
fn one(disk: &mut Disk, now: Time, io: Io) -> Time {
    disk.submit(now, io);
    let at = disk.next_event().expect("an answer");
    let mut done = Vec::new();
    disk.reap(at, &mut done);
    assert_eq!(done.len(), 1);
    at
}

fn holds(medium: &mut dyn Medium, block: BlockNr, version: Version) -> bool {
    medium.read(block, 1).expect("memory").to_bytes()[..] == content(block, version)[..]
}

fn write(block: BlockNr, version: Version) -> Io {
    Io::write(version, block, Data::stamp(1, block, version))
}

#[test]
fn what_waits_is_lost_and_idle_time_saves_it() {
    for (wait, saved) in [(0, false), (MILLIS, false), (100 * MILLIS, true)] {
        let mut disk = disk(1, Cells::new(BLOCKS));
        assert!(disk.volatile());
        let at = one(&mut disk, 0, write(40, 1));
        assert_eq!(at, 180_000, "overhead and bus, nothing of the mechanics");
        let mut medium = disk.power_cut(at + wait);
        assert_eq!(holds(medium.as_mut(), 40, 1), saved, "after {wait} ns");
        assert_eq!(holds(medium.as_mut(), 40, 0), !saved);
    }
}

#[test]
fn flushes_and_forced_writes_wait_for_the_platter() {
    let mut disk = disk(2, Cells::new(BLOCKS));
    let at = one(&mut disk, 0, write(40, 1));
    let hit = one(&mut disk, at, Io::read(2, 40, 1));
    assert_eq!(hit - at, 180_000, "what waits is read from memory");
    let forced = one(&mut disk, hit, write(3, 3).with_fua());
    assert!(forced > hit + MILLIS);
    let flushed = one(&mut disk, forced, Io::flush(4));
    assert!(flushed > forced + MILLIS, "the first write has to be written out");
    assert_eq!(one(&mut disk, flushed, Io::flush(5)), flushed, "nothing is left to do");
    let mut medium = disk.power_cut(flushed);
    assert!(holds(medium.as_mut(), 40, 1) && holds(medium.as_mut(), 3, 3));
}

#[test]
fn a_full_cache_makes_writes_wait() {
    let mut disk = disk(0, Cells::new(BLOCKS));
    let (mut now, mut slow) = (0, 0);
    for version in 1..30 {
        let at = one(&mut disk, now, write(version * 37 % BLOCKS, version));
        slow += u32::from(at - now > MILLIS);
        assert!(version > 6 || at - now == 180_000, "six writes have room");
        now = at;
    }
    assert!(slow > 10, "{slow}");
}

#[test]
fn the_write_in_progress_is_torn_at_a_sector() {
    for index in [0, 4] {
        let mut torn = 0;
        for step in 0..200 {
            let mut disk = disk(index, Cells::new(BLOCKS));
            let data = Data::stamp(4, 8, 7);
            let at = one(&mut disk, 0, Io::write(1, 8, data.clone()));
            let mut medium = disk.power_cut(at + step * MILLIS / 4);
            let (found, new) = (medium.read(8, 4).expect("memory").to_bytes(), data.to_bytes());
            let passed = found.chunks(512).zip(new.chunks(512)).take_while(|(a, b)| a == b);
            let passed = passed.count() * 512;
            assert!(found[passed..].iter().all(|&byte| byte == 0), "sectors pass in order");
            torn += u32::from(passed > 0 && passed < new.len());
        }
        assert!(torn > 5, "{torn}");
    }
}

/// Of a write that the power interrupts, the blocks that have passed have their new labels and the
/// others their old ones; a torn block does not have the new one.
#[test]
fn labels_land_with_their_blocks() {
    use seekless_engine::io::Label;
    let mut seen = [false; 3];
    for step in 0..40 {
        let mut disk = disk(7, Cells::new(BLOCKS).with_labels());
        let (old, new): (Label, Label) = ([1; 32], [2; 32]);
        let write = |version, label: Label| {
            let labels = Arc::new([label; 2].into_iter().collect());
            Io::write(version, 0, Data::stamp(2, 0, version)).with_labels(labels)
        };
        disk.submit(0, write(1, old));
        let first = disk.next_event().expect("a write in flight");
        disk.reap(first, &mut Vec::new());
        disk.submit(first, write(2, new));
        let second = disk.next_event().expect("a write in flight");
        let cut = first + (second - first) * step / 40;
        let mut medium = disk.power_cut(cut);
        let labels = medium.labels(0, 2).expect("no faults");
        let whole = labels.iter().take_while(|&&label| label == new).count();
        for (block, label) in (0..).zip(&labels) {
            let found = medium.read(block, 1).expect("no faults").to_bytes().to_vec();
            let torn = found != content(block, 1) && found != content(block, 2);
            let expected = if found == content(block, 2) { new } else { old };
            assert!(torn && *label != new || *label == expected, "cut at {step}, block {block}");
        }
        seen[whole] = true;
    }
    assert!(seen[0] && seen[1], "cuts before and within the write were tried");
}
