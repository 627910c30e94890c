//! Volumes of all layouts and shapes, filled and written over with requests of all sizes, some at
//! once, on devices with slow flushes: every write that fits succeeds and reads back.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::carry_out;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Done, Io, Op};
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::units::{MILLIS, Time};
use seekless_layouts::Kind;
use seekless_layouts::lfs::{CLEANING, Cleaning, INTERVAL};
use seekless_layouts::shared::SEGMENT;

const RUNS: u64 = 300;

/// Answers late and out of order.
#[derive(Debug)]
struct Late {
    medium: Shared,
    rng: Rng,
    ready: Vec<(Time, Done)>,
    /// Longest time of a command, and of a flush.
    most: Time,
    flush: Time,
}

impl Device for Late {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let outcome = carry_out(&mut self.medium, &io);
        let most = if io.op == Op::Flush { self.flush } else { self.most };
        self.ready.push((now + 1 + self.rng.below(most), Done::new(io.tag, outcome)));
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        let (due, later) =
            std::mem::take(&mut self.ready).into_iter().partition(|one| one.0 <= now);
        self.ready = later;
        let due: Vec<(Time, Done)> = due;
        done.extend(due.into_iter().map(|one| one.1));
    }

    fn next_event(&self) -> Option<Time> {
        self.ready.iter().map(|one| one.0).min()
    }

    fn volatile(&self) -> bool {
        true
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Late {}

struct Volume {
    node: Node,
    now: Time,
    rng: Rng,
    model: Vec<u64>,
    answers: Vec<Done>,
    version: u64,
    /// Requests in flight: first block and count. Of two requests at once to the same block either
    /// may be the last.
    under_way: Vec<(u64, u32)>,
}

impl Volume {
    /// Makes room for one more request, and lets some time pass.
    fn wait(&mut self, depth: usize) {
        loop {
            self.node.settle(self.now, &mut self.answers);
            for done in self.answers.drain(..) {
                assert!(done.outcome.is_ok(), "{:?}", done.outcome);
            }
            if self.node.in_flight() == 0 {
                self.under_way.clear();
            }
            if self.node.in_flight() < depth {
                return;
            }
            self.now = self.node.next_event().unwrap().max(self.now);
        }
    }

    fn write(&mut self, at: u64, count: u32, depth: usize) {
        self.version += 1;
        let trims = self.rng.chance(0.01);
        for block in at..at + u64::from(count) {
            self.model[block as usize] = if trims { 0 } else { self.version };
        }
        let meets = |&(first, blocks): &(u64, u32)| {
            at < first + u64::from(blocks) && first < at + u64::from(count)
        };
        self.wait(if self.under_way.iter().any(meets) { 1 } else { depth });
        self.under_way.push((at, count));
        let io = match trims {
            true => Io::trim(0, at, count),
            false => Io::write(0, at, Data::stamp(count, at, self.version)),
        };
        self.node.submit(self.now, io);
    }

    /// Writes in one pattern, about as much as the volume holds.
    fn phase(&mut self, fills: bool) {
        let blocks = self.model.len() as u64;
        let largest = [1, 3, 16, 64, 300][self.rng.below(5) as usize];
        let sized = self.rng.chance(0.5);
        let depth = 1 + self.rng.below(12) as usize;
        let flushes = [0.0, 0.01, 0.3][self.rng.below(3) as usize];
        let hot = [1, 1, 8][self.rng.below(3) as usize];
        let (mut left, mut next) = (blocks, 0);
        while left > 0 {
            let count = if sized { largest } else { 1 + self.rng.below(largest) }.min(left);
            let at = match fills {
                true => next,
                false => self.rng.below((blocks / hot).saturating_sub(count).max(1)),
            };
            next += count;
            left -= count;
            self.write(at, count as u32, depth);
            if self.rng.chance(flushes) {
                self.wait(depth);
                self.node.submit(self.now, Io::flush(0));
            }
            if self.rng.chance(0.001) {
                self.wait(1);
                let pause = self.rng.below(400 * MILLIS);
                self.node.idle(&mut self.now, pause);
            }
        }
        self.wait(1);
    }

    fn verify(&mut self) {
        for (at, &version) in (0..).zip(&self.model) {
            let expected = match version {
                0 => Data::zeros(1),
                version => Data::stamp(1, at, version),
            };
            assert_eq!(self.node.run(&mut self.now, Io::read(0, at, 1)), Ok(expected), "{at}");
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::stream(seed, "full volumes");
    let kind = Kind::ALL[seed as usize % Kind::ALL.len()];
    let is_log = kind.is_log_structured();
    let segment = [None, Some(8 << rng.below(6))][rng.below(2) as usize].filter(|_| is_log);
    let blocks = 500 << rng.below(6);
    let blocks = blocks + rng.below(blocks);
    let device = match rng.chance(0.5) {
        true => kind.device_blocks(blocks),
        // The fullest volume that is allowed.
        false => (blocks..).find(|&device| kind.largest_volume(device) >= blocks).unwrap(),
    };
    let mut medium = Shared::new(Cells::new(device));
    let options =
        FormatOptions::new(kind, blocks, 9).with(Options::default().with(&SEGMENT, segment));
    match seekless_layouts::format(&mut MediumDisk(&mut medium), &options) {
        Err(LayoutError::BadSize(_)) => return,
        done => done.unwrap(),
    };
    eprintln!("seed {seed}: {kind}, {blocks} of {device} blocks, segments of {segment:?}");
    let cleaning = Cleaning::ALL[rng.below(3) as usize];
    let chosen = Options::default().with(&INTERVAL, Some(50 * MILLIS)).with(&CLEANING, cleaning);
    let options = MountOptions { volatile: true, options: chosen, ..MountOptions::default() };
    let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(&mut medium), &options).unwrap();
    let most = [1, MILLIS / 10, 5 * MILLIS][rng.below(3) as usize];
    let flush = [most, 20 * MILLIS][rng.below(2) as usize];
    let late = Late { medium: medium.clone(), rng: rng.clone(), ready: Vec::new(), most, flush };
    let node = Node::new(layer, vec![Box::new(late)], seed);
    let (model, answers) = (vec![0; blocks as usize], Vec::new());
    let mut volume =
        Volume { node, now: 0, rng, model, answers, version: 0, under_way: Vec::new() };
    for phase in 0..4 {
        volume.phase(phase == 0);
    }
    volume.verify();
    volume.node.finish(&mut volume.now);
    let (_, _, found) = seekless_layouts::check(&mut MediumDisk(&mut medium)).unwrap();
    assert_eq!(found.problems, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn whatever_fits_finds_room() {
    // To replay one, let this be the range of its seed alone.
    (0..RUNS).for_each(run);
}
