//! One world: a volume on a forgetful device, a client, and power cuts at every event.

use super::bench::{Bench, Moment};
use super::history::{History, Tick};
use super::judge::{cut_recovery, judge, mount, mount_with, node, one, read_all};
use super::states::{build, choose, describe};
use super::subject::Subject;
use super::toy::ToyArm;
use super::{ProveOptions, ProveReport, Violation};
use seekless_engine::Bytes;
use seekless_engine::arm::Arm;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::Device as _;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::medium::Medium as _;
use seekless_engine::device::volatile::{Fate, Latency, VolatileRam};
use seekless_engine::io::{Done, Io, Label, Tag};
use seekless_engine::layout::{Compaction, MountOptions, Tuning};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BLOCK_BYTES, MICROS, MILLIS, Time};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A client request in flight.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Read { at: u64, count: u32, sent: Tick },
    Change { number: usize, fua: bool },
    Flush { sent: Tick },
}

/// What the devices of a case are like.
#[derive(Clone, Copy, Debug)]
struct Make {
    /// They forget what has not been flushed.
    volatile: bool,
    /// They have heads.
    headed: bool,
}

/// The world of one case.
#[derive(Debug)]
pub struct World {
    subject: Subject,
    case: u64,
    rng: Rng,
    make: Make,
    node: Node,
    bench: Rc<RefCell<Bench>>,
    history: History,
    waiting: BTreeMap<Tag, Waiting>,
    now: Time,
    next_tag: Tag,
    version: u64,
    event: u64,
    wrong: Vec<(u64, Vec<String>)>,
}

impl World {
    /// A fresh volume of a size that the case decides.
    pub fn new(subject: Subject, case: u64, mut rng: Rng) -> World {
        let volatile = rng.chance(0.75);
        let headed = rng.chance(if volatile { 0.2 } else { 0.6 }) && subject.wants_heads();
        let make = Make { volatile, headed };
        let (media, blocks) = subject.create(headed, &mut rng);
        let mut history = History::new(subject.promises(), blocks, !volatile);
        let (node, bench) = World::power_on(subject, media, make, &mut rng);
        history.limit(node.layer.limits());
        World {
            subject,
            case,
            rng,
            make,
            node,
            bench,
            history,
            waiting: BTreeMap::new(),
            now: 0,
            next_tag: 0,
            version: 0,
            event: 0,
            wrong: Vec::new(),
        }
    }

    fn power_on(
        subject: Subject,
        mut media: Vec<Cells>,
        make: Make,
        rng: &mut Rng,
    ) -> (Node, Rc<RefCell<Bench>>) {
        let Make { volatile, headed } = make;
        let arm = |medium: &Cells| headed.then(|| ToyArm::new(medium.blocks(), rng.chance(0.5)));
        let arms: Vec<Option<ToyArm>> = media.iter().map(arm).collect();
        let compaction = Compaction::ALL[rng.below(Compaction::ALL.len() as u64) as usize];
        let options = MountOptions {
            arm: arms[0].as_ref().map(|arm| arm as &dyn Arm),
            volatile,
            tuning: Tuning {
                compaction: Some(compaction),
                caching: subject.caching(rng),
                ..Tuning::default()
            },
            ..MountOptions::default()
        };
        let mounted = mount_with(subject, &mut media, None, &options)
            .expect("only media that were found good are mounted here");
        let ram = |medium| {
            let latency = match rng.below(5) {
                0 => Latency::InOrder(100 * MICROS),
                _ => Latency::Random,
            };
            let stream = Rng::stream(rng.next(), "device");
            VolatileRam::new(medium, volatile, latency, stream)
        };
        let rams = media.into_iter().map(ram).collect();
        let (bench, probes) = Bench::new(rams, arms);
        (mounted.node(probes, rng.next()), bench)
    }

    /// Runs the world: a few lives, each ended in order or by a power cut.
    pub fn run(&mut self, report: &mut ProveReport, options: &ProveOptions) {
        for _ in 0..4 {
            for _ in 0..40 {
                self.step(report);
                if !self.wrong.is_empty() {
                    return self.tell(report, options);
                }
            }
            if self.rng.chance(0.5) {
                self.end_in_order(report)
            } else {
                self.crash(report)
            }
            if !self.wrong.is_empty() {
                return self.tell(report, options);
            }
        }
        if self.subject.promises().checked {
            self.rot(report);
        }
        self.tell(report, options);
    }

    fn tell(&mut self, report: &mut ProveReport, options: &ProveOptions) {
        for (event, story) in self.wrong.drain(..) {
            report.violations.push(Violation {
                case: self.case,
                event,
                story,
                replay: format!(
                    "seekless prove {} --seed {} --case {}",
                    self.subject.flags(),
                    options.seed,
                    self.case
                ),
            });
        }
    }

    /// The client does something, then time passes until the next event or a little longer.
    fn step(&mut self, report: &mut ProveReport) {
        for _ in 0..=self.rng.below(4) {
            self.request();
        }
        self.settle(report);
        let events = match self.rng.below(6) {
            0 => 0,
            1 => usize::MAX,
            n => n as usize,
        };
        for _ in 0..events {
            let due = match self.node.next_event() {
                Some(due) if self.waiting.is_empty() && due > self.now + MILLIS => break,
                Some(due) => due,
                None => break,
            };
            self.now = self.now.max(due);
            self.settle(report);
            if !self.wrong.is_empty() {
                return;
            }
        }
        if self.rng.below(8) == 0 {
            self.now += 250 * MILLIS;
            self.settle(report);
            self.rest(report);
        }
    }

    /// Leaves the volume alone for a while, if nothing is in flight: it may put things in order.
    fn rest(&mut self, report: &mut ProveReport) {
        for _ in 0..self.rng.below(60) {
            let Some(due) = self.node.next_event().filter(|_| self.waiting.is_empty()) else {
                return;
            };
            self.now = self.now.max(due);
            self.settle(report);
            if !self.wrong.is_empty() {
                return;
            }
        }
    }

    fn request(&mut self) {
        let blocks = self.node.layer.blocks();
        let hot = blocks.min(24);
        let range = if self.rng.chance(0.7) { hot } else { blocks };
        let at = self.rng.below(range);
        let count = (1 + self.rng.below(12)).min(blocks - at) as u32;
        let count = if self.rng.chance(0.5) { 1 } else { count };
        let tag = self.next_tag;
        self.next_tag += 1;
        match self.rng.below(12) {
            0 => {
                let sent = self.history.mark();
                self.send(Io::flush(tag), Waiting::Flush { sent });
            }
            1 | 2 => {
                let sent = self.history.mark();
                self.send(Io::read(tag, at, count), Waiting::Read { at, count, sent });
            }
            3 => {
                let number = self.history.submit(at, &Data::zeros(count), false);
                self.send(Io::trim(tag, at, count), Waiting::Change { number, fua: false });
            }
            choice => {
                let (data, distinct) = self.content(at, count);
                let number = self.history.submit(at, &data, distinct);
                let fua = choice == 4;
                let io = Io::write(tag, at, data);
                let io = if fua { io.with_fua() } else { io };
                self.send(io, Waiting::Change { number, fua });
            }
        }
    }

    fn send(&mut self, io: Io, waiting: Waiting) {
        self.waiting.insert(io.tag, waiting);
        self.node.submit(self.now, io);
    }

    /// What the client writes: mostly content never seen before; now and then zeros, or a block
    /// of the device itself, which must never be taken for what it is a copy of.
    fn content(&mut self, at: u64, count: u32) -> (Data, bool) {
        match self.rng.below(24) {
            0 => (Data::zeros(count), false),
            1 => {
                let bench = self.bench.borrow();
                let ram = bench.ram(self.rng.below(bench.devices() as u64) as usize);
                let mut copies = Data::none();
                for _ in 0..count {
                    let from = self.rng.below(ram.blocks());
                    copies.push(Piece { blocks: 1, body: ram.durable().get(from) });
                }
                (Data::bytes(copies.to_bytes()), false)
            }
            _ => {
                self.version += 1;
                (Data::stamp(count, at, self.version), true)
            }
        }
    }

    /// Lets everything happen that is due, cuts the power after each device event, then lets the
    /// client hear its answers.
    fn settle(&mut self, report: &mut ProveReport) {
        let mut done = Vec::new();
        self.node.settle(self.now, &mut done);
        let moments = self.bench.borrow_mut().take_moments();
        let last = moments.last().cloned();
        for moment in &moments {
            self.event += 1;
            report.events += 1;
            self.try_states(moment, report);
            if !self.wrong.is_empty() {
                return;
            }
        }
        report.requests += done.len() as u64;
        let heard = !done.is_empty();
        for one in done {
            self.hear(one);
        }
        // What the client has heard since may allow less.
        if heard && let Some(moment) = last {
            self.try_states(&moment, report);
        } else if heard {
            let moment = self.bench.borrow().moment();
            self.try_states(&moment, report);
        }
    }

    fn hear(&mut self, done: Done) {
        let waiting = self.waiting.remove(&done.tag).expect("each answer has its request");
        let data = match done.outcome {
            Ok(data) => data,
            Err(error) => {
                let story = vec![format!("{waiting:?} failed without a fault: {error}")];
                return self.wrong.push((self.event, story));
            }
        };
        match waiting {
            Waiting::Flush { sent } => self.history.flushed(sent),
            Waiting::Change { number, fua, .. } => self.history.acknowledge(number, fua),
            Waiting::Read { at, count, sent } => {
                for (block, index) in (at..).zip(0..count) {
                    let found = data.block(index).body;
                    if !self.history.may_read(block, &found, sent) {
                        let story = format!("block {block} reads {found:?}, which is wrong");
                        return self.wrong.push((self.event, vec![story]));
                    }
                }
            }
        }
    }

    fn try_states(&mut self, moment: &Moment, report: &mut ProveReport) {
        for fates in choose(&moment.pending, &mut self.rng) {
            let mut media = build(&moment.durable, &moment.pending, &fates, &mut report.faults);
            let (subject, volatile, rng) = (self.subject, self.make.volatile, &mut self.rng);
            if rng.below(6) == 0 {
                cut_recovery(subject, &mut media, volatile, rng, &mut report.faults);
            }
            report.states += 1;
            let wrong = judge(subject, media, volatile, &self.history, rng, report);
            if !wrong.is_empty() {
                return self.blame(moment, &fates, wrong);
            }
        }
    }

    fn blame(&mut self, moment: &Moment, fates: &[Fate], wrong: Vec<String>) {
        let mut story = describe(&moment.pending, fates);
        story.extend(wrong);
        self.wrong.push((self.event, story));
    }

    fn drain(&mut self, report: &mut ProveReport) {
        while !self.waiting.is_empty() && self.wrong.is_empty() {
            let Some(due) = self.node.next_event() else {
                let story =
                    format!("{} requests wait for ever: {:?}", self.waiting.len(), self.waiting);
                return self.wrong.push((self.event, vec![story]));
            };
            self.now = self.now.max(due);
            self.settle(report);
        }
    }

    fn end_in_order(&mut self, report: &mut ProveReport) {
        self.drain(report);
        self.node.stop(self.now);
        self.settle(report);
        while !self.node.layer.stopped() && self.wrong.is_empty() {
            let Some(due) = self.node.next_event() else { break };
            self.now = self.now.max(due);
            self.settle(report);
        }
        let media = self.bench.borrow().moment().durable;
        self.restart(media, report);
    }

    /// The power goes; the world goes on with one of the states that this may have left.
    fn crash(&mut self, report: &mut ProveReport) {
        let moment = self.bench.borrow().moment();
        let mut states = choose(&moment.pending, &mut self.rng);
        let state = self.rng.below(states.len() as u64) as usize;
        let fates = states.swap_remove(state);
        let media = build(&moment.durable, &moment.pending, &fates, &mut report.faults);
        self.restart(media, report);
    }

    fn restart(&mut self, media: Vec<Cells>, report: &mut ProveReport) {
        self.waiting.clear();
        let (subject, volatile) = (self.subject, self.make.volatile);
        let mut copy = media.clone();
        let content = mount(subject, &mut copy, None, volatile, report)
            .map_err(|e| e.to_string())
            .and_then(|mounted| read_all(&mut node(mounted, copy, None, volatile)));
        match content {
            Err(error) => self.wrong.push((self.event, vec![error])),
            Ok(data) => {
                let wrong = self.history.judge(data.pieces(), false);
                if !wrong.is_empty() {
                    return self.wrong.push((self.event, wrong));
                }
                let bodies: Vec<Body> =
                    (0..data.blocks()).map(|index| data.block(index).body).collect();
                self.history = History::restart(subject.promises(), &bodies, !volatile);
                (self.node, self.bench) = World::power_on(subject, media, self.make, &mut self.rng);
                self.history.limit(self.node.layer.limits());
            }
        }
    }

    /// Rot: each block of each device in turn reads back wrong. Right data or an error may come of
    /// it, never wrong data.
    fn rot(&mut self, report: &mut ProveReport) {
        self.end_in_order(report);
        let media = self.bench.borrow().moment().durable;
        let content: Vec<Body> =
            (0..self.node.layer.blocks()).map(|block| self.history.newest(block).clone()).collect();
        for device in 0..media.len() {
            for at in 0..media[device].blocks() {
                self.rot_block(&media, device, at, &content, report);
                if !self.wrong.is_empty() {
                    return;
                }
            }
        }
    }

    fn rot_block(
        &mut self,
        media: &[Cells],
        device: usize,
        at: u64,
        content: &[Body],
        report: &mut ProveReport,
    ) {
        let mut rotten = media.to_vec();
        let mut bytes = Piece::block(media[device].get(at)).to_bytes().to_vec();
        let byte = self.rng.below(BLOCK_BYTES as u64) as usize;
        bytes[byte] ^= 1 << self.rng.below(8);
        rotten[device].set(at, Body::Bytes(Bytes::from(bytes)));
        let place = format!("block {at} of device {device}");
        self.never_wrong(rotten, &place, content, report);
        let mut label = media[device].label(at);
        if label != Label::default() && self.wrong.is_empty() {
            label[self.rng.below(label.len() as u64) as usize] ^= 1 << self.rng.below(8);
            let mut rotten = media.to_vec();
            rotten[device].set_label(at, label);
            self.never_wrong(rotten, &place, content, report);
        }
    }

    /// What media with a rotten block hold is right or an error.
    fn never_wrong(
        &mut self,
        mut rotten: Vec<Cells>,
        place: &str,
        content: &[Body],
        report: &mut ProveReport,
    ) {
        report.faults.rotten += 1;
        report.states += 1;
        let (subject, volatile) = (self.subject, self.make.volatile);
        let Ok(mounted) = mount(subject, &mut rotten, None, volatile, report) else { return };
        let mut node = node(mounted, rotten, None, volatile);
        for (block, expected) in content.iter().enumerate() {
            let found = one(&mut node, Io::read(0, block as u64, 1));
            if let Ok(data) = found
                && data.block(0).body != *expected
            {
                let story = format!("{place} is rotten and block {block} reads wrong bytes");
                return self.wrong.push((self.event, vec![story]));
            }
        }
    }
}
