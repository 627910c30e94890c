//! One run: a volume on forgetful devices, a client, and power cuts at every event.

mod epochs;
mod faults;

use super::bench::Bench;
use super::check::{Checker, Wrong};
use super::damage::{Damage, find};
use super::history::{History, Tick};
use super::names::{ZEROS, fresh};
use super::operation::{Content, Operation, Place};
use super::profile::Profile;
use super::subject::{Made, Subject};
use super::{ProveReport, Sort};
use epochs::power_on;
use seekless_crash::moment::Moment;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::device::Device as _;
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BLOCK_BYTES, MILLIS, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A client request in flight.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    Read { at: u64, sent: Tick },
    Change { number: usize, fua: bool, sent: Tick },
    Flush { sent: Tick },
}

/// What the devices of a case are like.
#[derive(Clone, Copy, Debug)]
struct Make {
    /// They forget what has not been flushed.
    volatile: bool,
    /// They have heads.
    headed: bool,
    /// Their flushes take long.
    slow_flushes: bool,
}

/// Something that broke a promise.
#[derive(Clone, Debug)]
pub struct Found {
    /// Number of the operation.
    pub operation: u32,
    /// Device event after which it showed.
    pub event: u64,
    /// What is wrong.
    pub wrong: Wrong,
    /// Operations whose changes the client knew to be durable, and of those only acknowledged.
    pub heard: (Vec<u32>, Vec<u32>),
}

/// Blocks of metadata struck in a volume that was stopped in order.
const STRIKES: usize = 64;
/// An epoch whose requests are not answered within so many device events is stuck.
const PATIENCE: u32 = 100_000;
/// What a device event costs, compared with a block recovered.
const EVENT_WORK: u64 = 16;

/// The run of one case.
#[derive(Debug)]
pub struct Run {
    subject: Subject,
    profile: Profile,
    script: Vec<Operation>,
    base: u64,
    make: Make,
    /// Blocks up to which a write is promised to be whole.
    whole: u64,
    epoch: u64,
    node: Node,
    bench: Rc<RefCell<Bench>>,
    /// Members of an array that did not have what they should when this epoch began.
    absent: BTreeSet<usize>,
    history: History,
    checker: Checker,
    waiting: BTreeMap<Tag, Waiting>,
    now: Time,
    next_tag: Tag,
    operation: u32,
    /// Events of earlier epochs.
    events_before: u64,
    /// When the client first heard that something cannot be written.
    refused: Option<Tick>,
    found: Option<Found>,
    search: Search,
}

/// Where in the epoch of a run states are tried, and how much that may cost.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// From the operation with this number on.
    watch: u32,
    /// The only promise that matters, if not all do.
    sort: Option<Sort>,
    /// Blocks recovered after which the run stops; see [`Checker::work`].
    most_work: u64,
}

impl Run {
    /// A fresh volume, and everything that is to happen to it; the case decides on both.
    pub fn new(subject: Subject, case: u64, seed: u64) -> Run {
        let mut rng = Rng::stream(seed, &format!("case {case}"));
        let mut profile = Profile::draw(case, &mut rng);
        if let Subject::Array { .. } = subject {
            profile = profile.of_arrays(&mut rng);
        }
        let volatile = profile.volatile.unwrap_or_else(|| rng.chance(0.65));
        // What goes on while nobody waits needs a head, and writes that last.
        let headed = rng.chance(if volatile { 0.2 } else { 0.9 });
        let headed = profile.headed.unwrap_or(headed) && subject.wants_heads();
        let make = Make { volatile, headed, slow_flushes: profile.slow_flushes };
        let Made { media, blocks, whole_blocks } = subject.create(profile.size, headed, &mut rng);
        let script = profile.script(subject, blocks, &mut rng);
        let mut history = History::new(subject.promises(), blocks, !volatile);
        let base = rng.next();
        let (node, bench, absent) = power_on(subject, media, Damage::None, make, base);
        history.limit(node.layer.status().limits());
        Run {
            subject,
            profile,
            script,
            base,
            make,
            whole: whole_blocks,
            epoch: 0,
            node,
            bench,
            absent,
            history,
            checker: Checker::new(subject, volatile),
            waiting: BTreeMap::new(),
            now: 0,
            next_tag: 0,
            operation: 0,
            events_before: 0,
            refused: None,
            found: None,
            search: Search { watch: 0, sort: None, most_work: u64::MAX },
        }
    }

    /// Everything that is to happen.
    pub fn script(&self) -> &[Operation] {
        &self.script
    }

    /// The run in a sentence.
    pub fn describe(&self) -> String {
        let bench = self.bench.borrow();
        let devices: Vec<String> =
            (0..bench.devices()).map(|port| bench.ram(port).blocks().to_string()).collect();
        let forget = if self.make.volatile {
            "forget what was not flushed"
        } else {
            "keep what they have acknowledged"
        };
        let head = if self.make.headed { ", with heads" } else { "" };
        format!(
            "workload \"{}\": a volume of {} blocks on devices of {} blocks that {forget}{head}",
            self.profile.name,
            self.node.layer.blocks(),
            devices.join(" and ")
        )
    }

    /// With more states for each moment, for scripts of which little is left.
    pub fn thorough(mut self) -> Run {
        self.checker.thorough = true;
        self
    }

    /// Trying states only from the operation `watch` on.
    pub fn watching(mut self, watch: u32) -> Run {
        self.search.watch = watch;
        self
    }

    /// Looking for one broken promise only, and not beyond so much work.
    pub fn searching(mut self, sort: Sort, most_work: u64) -> Run {
        self.search.sort = Some(sort);
        self.search.most_work = most_work;
        self
    }

    /// Blocks of devices recovered so far, and a few for each device event.
    pub fn work(&self) -> u64 {
        self.checker.work + EVENT_WORK * (self.events_before + self.bench.borrow().events())
    }

    /// Runs these operations; says what broke first.
    pub fn execute(
        &mut self,
        operations: &[(u32, Operation)],
        report: &mut ProveReport,
    ) -> Option<Found> {
        for &(number, operation) in operations {
            self.operation = number;
            let goes_on = self.carry_out(operation, report) && self.work() < self.search.most_work;
            if self.found.is_some() || !goes_on {
                self.close(report);
                return self.found.take();
            }
        }
        self.finish(report);
        self.close(report);
        self.found.take()
    }

    /// The end of the run: an orderly one, then damage to what it has left.
    fn finish(&mut self, report: &mut ProveReport) {
        self.settle(report);
        self.drain(report);
        self.stop(report);
        if self.found.is_some() || self.checker.damage != Damage::None || self.is_excused() {
            return;
        }
        let moment = self.bench.borrow().moment();
        let mut rng = self.rng_of(moment.event, "end");
        let found =
            self.checker.content_of(moment.durable.clone(), &self.history, &mut rng, report);
        match found {
            Err(wrong) => self.tell(moment.event, wrong),
            Ok(names) => {
                self.history.restart(&names);
                self.checker.begin();
                if self.search.sort.is_none_or(|sort| sort == Sort::Damage) {
                    self.strike(&moment.durable, report);
                }
            }
        }
    }

    /// Counts what the epoch that ends has seen.
    fn close(&mut self, report: &mut ProveReport) {
        let mut bench = self.bench.borrow_mut();
        for port in 0..bench.devices() {
            let counts = bench.ram_mut(port).faults_mut().take_counts();
            report.faults.failed_writes += counts.failed_writes + counts.full;
            report.faults.failed_flushes += counts.failed_flushes;
        }
        report.faults.failed += u64::from(self.node.layer.failed().is_some());
    }

    /// False if the run cannot go on.
    fn carry_out(&mut self, operation: Operation, report: &mut ProveReport) -> bool {
        match operation {
            Operation::Write { at, count, content, fua } => self.write(at, count, content, fua),
            Operation::Trim { at, count } => {
                let zeros = vec![0; count as usize];
                let number = self.history.submit(self.operation, at, &zeros, false);
                self.change(Io::trim(0, at, count), number, false);
            }
            Operation::Group { fua, .. } => self.group(operation, fua),
            Operation::Read { at, count } => {
                let sent = self.history.mark();
                self.send(Io::read(0, at, count), Waiting::Read { at, sent });
            }
            Operation::Flush => {
                let sent = self.history.mark();
                self.send(Io::flush(0), Waiting::Flush { sent });
            }
            Operation::Pass(events) => self.pass(events, report),
            Operation::Rest(events) => self.rest(events, report),
            Operation::Break(fault) => self.go_wrong(fault, report),
            Operation::Heal => self.heal(),
            Operation::End(orderly) => return self.end(orderly, report),
        }
        true
    }

    fn write(&mut self, at: u64, count: u32, content: Content, fua: bool) {
        let (data, distinct) = match content {
            Content::Fresh => {
                let whole = u64::from(count) <= self.whole;
                (fresh(at, count, self.operation), whole)
            }
            Content::Zeros => (Data::zeros(count), false),
            Content::Copies(choice) => (self.copies(count, choice), false),
        };
        let names = self.checker.names.of(at, &data);
        let number = self.history.submit(self.operation, at, &names, distinct);
        let io = Io::write(0, at, data);
        self.change(if fua { io.with_fua() } else { io }, number, fua);
    }

    /// A transaction of several requests, or its parts one by one where there are none.
    fn group(&mut self, operation: Operation, fua: bool) {
        let members = operation.members(self.node.layer.blocks());
        let operation_number = self.operation;
        let data = |at: u64| fresh(at, 1, operation_number);
        if self.node.transaction_blocks() < members.len() as u64 {
            for (at, written) in members {
                if written {
                    self.write(at, 1, Content::Fresh, fua);
                } else {
                    let number = self.history.submit(self.operation, at, &[ZEROS], false);
                    self.change(Io::trim(0, at, 1), number, false);
                }
            }
            return;
        }
        let mut all = Transaction::new();
        let mut names = Vec::new();
        for (at, written) in members {
            if written {
                all.write(at, &data(at));
                names.extend(self.checker.names.of(at, &data(at)).into_iter().map(|one| (at, one)));
            } else {
                all.trim(at, 1);
                names.push((at, ZEROS));
            }
        }
        let number = self.history.submit_all(self.operation, names, true);
        let waiting = Waiting::Change { number, fua, sent: self.history.mark() };
        let tag = self.next_tag;
        self.next_tag += 1;
        self.waiting.insert(tag, waiting);
        let taken = self.node.submit_transaction(self.now, tag, all, fua);
        taken.expect("it is no larger than the volume says, and within it");
    }

    fn copies(&self, count: u32, choice: u64) -> Data {
        let bench = self.bench.borrow();
        let mut rng = Rng::stream(choice, "copies");
        let mut copies = Data::none();
        for _ in 0..count {
            let ram = bench.ram(rng.below(bench.devices() as u64) as usize);
            let place = match rng.below(3) {
                0 => Place::Anywhere(rng.next()),
                _ => Place::Metadata(rng.next()),
            };
            let body = ram.durable().get(find(place, ram.durable()));
            // A stamp has another checksum than its bytes, so what is one stays one: whoever finds
            // the same bytes there may leave them as they are.
            let body = match body {
                Body::Stamp { .. } => body,
                body => {
                    let mut bytes = Piece::block(body).to_bytes().to_vec();
                    // Many blocks of file systems end with their CRC: all of those have one CRC.
                    if rng.chance(0.75) {
                        let (head, tail) = bytes.split_at_mut(BLOCK_BYTES - 4);
                        tail.copy_from_slice(&crc32c(head).to_le_bytes());
                    }
                    Body::Bytes(bytes.into())
                }
            };
            copies.push(Piece::block(body));
        }
        copies
    }

    fn change(&mut self, io: Io, number: usize, fua: bool) {
        let sent = self.history.mark();
        self.send(io, Waiting::Change { number, fua, sent });
    }

    fn send(&mut self, mut io: Io, waiting: Waiting) {
        io.tag = self.next_tag;
        self.next_tag += 1;
        self.waiting.insert(io.tag, waiting);
        self.node.submit(self.now, io);
    }

    fn pass(&mut self, events: u32, report: &mut ProveReport) {
        self.settle(report);
        for passed in 0..events {
            let due = match self.node.next_event() {
                Some(due) if self.waiting.is_empty() && due > self.now + MILLIS => break,
                Some(due) => due,
                None => break,
            };
            self.now = self.now.max(due);
            self.settle(report);
            if passed > PATIENCE {
                self.stuck("and goes on and on");
            }
            if self.found.is_some() {
                return;
            }
        }
    }

    /// Leaves the volume alone for a while, if nothing is in flight: it may put things in order.
    fn rest(&mut self, events: u32, report: &mut ProveReport) {
        self.now += 250 * MILLIS;
        self.settle(report);
        for _ in 0..events {
            let Some(due) = self.node.next_event().filter(|_| self.waiting.is_empty()) else {
                return;
            };
            self.now = self.now.max(due);
            self.settle(report);
            if self.found.is_some() {
                return;
            }
        }
    }

    /// Lets everything happen that is due, cuts the power after each device event, then lets the
    /// client hear its answers.
    fn settle(&mut self, report: &mut ProveReport) {
        let mut done = Vec::new();
        let before = self.bench.borrow().events();
        self.node.settle(self.now, &mut done);
        report.events += self.bench.borrow().events() - before;
        let moments = self.bench.borrow_mut().take_moments();
        let last = moments.last().cloned();
        for moment in &moments {
            self.try_states(moment, report);
            if self.found.is_some() {
                return;
            }
        }
        report.requests += done.len() as u64;
        let heard = !done.is_empty();
        for one in done {
            self.hear(one);
        }
        // What the client has heard since may allow less.
        if heard && self.found.is_none() {
            let moment = last.unwrap_or_else(|| self.bench.borrow().moment());
            self.try_states(&moment, report);
        }
    }

    fn hear(&mut self, done: Done) {
        let waiting = self.waiting.remove(&done.tag).expect("each answer has its request");
        match (waiting, done.outcome) {
            (Waiting::Read { at, sent }, Ok(data)) => self.hear_read(at, sent, &data),
            (Waiting::Read { at, .. }, Err(error)) => {
                if self.checker.damage != Damage::Open {
                    self.blame(Sort::Read, format!("a read at {at} fails without cause: {error}"));
                }
            }
            (Waiting::Change { number, fua, sent }, Ok(_)) => {
                self.history.acknowledge(number, fua);
                self.hear_success(sent, "write or trim");
            }
            (Waiting::Flush { sent }, Ok(_)) => {
                self.history.flushed(sent);
                self.hear_success(sent, "flush");
            }
            (Waiting::Change { .. }, Err(IoError::NoSpace))
                if self.node.layer.status().limits().may_be_full => {}
            (Waiting::Change { .. } | Waiting::Flush { .. }, Err(error)) => {
                let open = self.checker.damage == Damage::Open;
                let stopped = open && self.subject.stops_at_damage();
                if !self.is_excused() && !stopped {
                    let story = format!("a request fails without need: {error}");
                    return self.blame(Sort::Refusal, story);
                }
                if self.node.layer.failed().is_none() {
                    let story = format!("a request failed ({error}) and the volume goes on");
                    return self.blame(Sort::Refusal, story);
                }
                let now = self.history.mark();
                self.refused.get_or_insert(now);
            }
        }
    }

    /// After an error on the write path nothing may be taken any more.
    fn hear_success(&mut self, sent: Tick, what: &str) {
        if self.refused.is_some_and(|refused| sent > refused) {
            let story = format!("a {what} is acknowledged after an error on the write path");
            self.blame(Sort::Pretence, story);
        }
    }

    fn hear_read(&mut self, at: u64, sent: Tick, data: &Data) {
        let names = self.checker.names.of(at, data);
        let failed = self.is_excused();
        for (block, name) in (at..).zip(names) {
            let mixed = failed && self.history.may_be_mixed(block, name, &self.checker.names);
            if !mixed && !self.history.may_read(block, name, sent) {
                let found = self.checker.names.text(name);
                let story = format!("block {block} reads {found}, which is wrong");
                return self.blame(Sort::Read, story);
            }
        }
    }

    fn rng_of(&self, event: u64, name: &str) -> Rng {
        Rng::stream(self.base ^ (self.events_before + event).rotate_left(20), name)
    }

    fn try_states(&mut self, moment: &Moment, report: &mut ProveReport) {
        if self.operation < self.search.watch || self.work() >= self.search.most_work {
            return;
        }
        let mut rng = self.rng_of(moment.event, "states");
        self.checker.failing = self.failing();
        if let Some(wrong) = self.checker.moment(moment, &self.history, &mut rng, report) {
            self.tell(moment.event, wrong);
        }
    }

    fn blame(&mut self, sort: Sort, sentence: String) {
        let event = self.bench.borrow().events();
        self.tell(event, Wrong { sort, story: vec![sentence] });
    }

    fn tell(&mut self, event: u64, wrong: Wrong) {
        let event = self.events_before + event;
        let heard = self.history.heard();
        self.found.get_or_insert(Found { operation: self.operation, event, wrong, heard });
    }

    fn stuck(&mut self, how: &str) {
        let story = format!("{} requests are not answered, {how}", self.waiting.len());
        self.blame(Sort::Hang, story);
    }

    /// Waits for all answers.
    fn drain(&mut self, report: &mut ProveReport) {
        for _ in 0..PATIENCE {
            if self.waiting.is_empty() || self.found.is_some() {
                return;
            }
            let Some(due) = self.node.next_event() else {
                return self.stuck("and nothing is under way");
            };
            self.now = self.now.max(due);
            self.settle(report);
        }
        self.stuck("though devices are busy");
    }

    fn stop(&mut self, report: &mut ProveReport) {
        if self.found.is_some() {
            return;
        }
        self.node.stop(self.now);
        self.settle(report);
        for _ in 0..PATIENCE {
            if self.node.stopped() || self.found.is_some() {
                break;
            }
            let Some(due) = self.node.next_event() else { break };
            self.now = self.now.max(due);
            self.settle(report);
        }
        if self.found.is_none() && !self.node.stopped() && !self.is_excused() {
            self.blame(Sort::Hang, "an orderly end never comes".to_owned());
        }
    }
}
