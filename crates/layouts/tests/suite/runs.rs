//! Whole runs with every fault of the model, each executed twice. The requests to the device, its
//! answers, the answers to the client, the final state and the next random number are the same. A
//! fault may cause an error or a refusal for the client. With checksums it never causes wrong
//! bytes.
#![allow(clippy::unwrap_used, missing_docs)]

use seekless_crash::device::faulty::{Control, Faults};
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_crash::faults::{Blocks, Counts, Plan};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Done, Io, IoError, Op};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::middleware::record::{Log, Record};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use std::collections::{BTreeMap, BTreeSet};

each_layout!(
    runs_without_faults_repeat,
    the_first_failed_write_or_flush_ends_writing,
    what_the_medium_refuses_goes_elsewhere,
    unreadable_blocks_are_errors_and_writing_goes_on,
    rotten_blocks_are_errors_and_writing_goes_on
);

const BLOCKS: u64 = 600;
const REQUESTS: u64 = 400;

struct Run {
    kind: Kind,
    node: Node,
    log: Log,
    control: Control,
    rng: Rng,
    now: u64,
    sent: BTreeMap<u64, Io>,
    heard: Vec<Done>,
    /// Tags of reads.
    reads: BTreeSet<u64>,
    /// Versions that a block may have: one, or several if requests overlap or have failed.
    model: Vec<Vec<u64>>,
}

impl Run {
    fn new(kind: Kind, plan: Plan, seed: u64) -> Run {
        let mut medium = Cells::new(kind.device_blocks(BLOCKS));
        let options = FormatOptions::new(kind, BLOCKS, 5);
        seekless_layouts::format(&mut MediumDisk(&mut medium), &options).unwrap();
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let (layer, _, _) =
            seekless_layouts::mount(&mut MediumDisk(&mut medium), &options).unwrap();
        let stream = Rng::stream(seed, "device");
        let ram = VolatileRam::new(medium, true, Latency::Random, stream);
        let (faults, control) = Faults::new(Box::new(ram), plan, seed);
        let (record, log) = Record::new(Box::new(faults));
        Run {
            kind,
            node: Node::new(layer, vec![Box::new(record)], seed),
            log,
            control,
            rng: Rng::stream(seed, "client"),
            now: 0,
            sent: BTreeMap::new(),
            heard: Vec::new(),
            reads: BTreeSet::new(),
            model: vec![vec![0]; BLOCKS as usize],
        }
    }

    /// Requests one at a time or up to eight at once, then a clean shutdown.
    fn run(&mut self) {
        let mut tag = 0;
        while tag < REQUESTS {
            for _ in 0..=self.rng.below(8) {
                tag += 1;
                let io = self.request(tag);
                self.sent.insert(tag, io.clone());
                if io.op == Op::Read {
                    self.reads.insert(tag);
                }
                self.node.submit(self.now, io);
            }
            self.settle();
        }
        self.node.stop(self.now);
        self.settle();
        assert!(self.node.layer.stopped());
    }

    fn request(&mut self, tag: u64) -> Io {
        let at = self.rng.below(BLOCKS - 20);
        let count = 1 + self.rng.below(20) as u32;
        match self.rng.below(10) {
            0 => Io::flush(tag),
            1..4 => Io::read(tag, at, count),
            4 => Io::trim(tag, at, count),
            _ => Io::write(tag, at, Data::stamp(count, at, tag)),
        }
    }

    fn settle(&mut self) {
        let mut done = Vec::new();
        loop {
            self.node.settle(self.now, &mut done);
            match self.node.next_event() {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
        }
        assert_eq!(done.len(), self.sent.len(), "every request is answered once");
        for one in &done {
            let io = self.sent.remove(&one.tag).unwrap();
            self.hear(&io, one, done.len() > 1);
        }
        self.heard.append(&mut done);
    }

    fn hear(&mut self, io: &Io, done: &Done, overlaps: bool) {
        for (index, at) in (0..io.count).zip(io.at..) {
            let allowed = &mut self.model[at as usize];
            match (io.op, &done.outcome) {
                (Op::Read, Ok(data)) if self.kind.promises().checked && !overlaps => {
                    let found = data.block(index).body;
                    let expect = |&version: &u64| match version {
                        0 => found == Data::zeros(1).block(0).body,
                        version => found == Data::stamp(1, at, version).block(0).body,
                    };
                    assert!(allowed.iter().any(expect), "block {at} reads {found:?}");
                }
                (Op::Write | Op::Trim, outcome) => {
                    if outcome.is_ok() && !overlaps {
                        allowed.clear();
                    }
                    allowed.push(if io.op == Op::Trim { 0 } else { io.tag });
                }
                _ => {}
            }
        }
    }

    fn errors(&self) -> Vec<(u64, IoError)> {
        let errors =
            self.heard.iter().filter_map(|done| Some((done.tag, done.outcome.clone().err()?)));
        errors.collect()
    }
}

/// Executes a run twice and compares everything.
fn twice(kind: Kind, plan: &Plan, seed: u64) -> (Run, Counts) {
    let [mut one, mut two] = [(); 2].map(|()| Run::new(kind, plan.clone(), seed));
    one.run();
    two.run();
    assert_eq!(*one.log.lend(), *two.log.lend(), "{kind} {plan:?} {seed}");
    assert_eq!(one.heard, two.heard, "{kind} {plan:?} {seed}");
    assert_eq!(one.now, two.now);
    assert_eq!(format!("{:?}", one.node), format!("{:?}", two.node));
    for (one, two) in [(&mut one.node.rng, &mut two.node.rng), (&mut one.rng, &mut two.rng)] {
        assert_eq!(one.next(), two.next());
    }
    let counts = one.control.counts();
    assert_eq!(counts, two.control.counts());
    (one, counts)
}

#[test]
fn another_seed_is_another_run() {
    let run = |seed| {
        let mut run = Run::new(Kind::VLOG, Plan::default(), seed);
        run.run();
        run.log.lend().clone()
    };
    assert_ne!(run(1), run(2));
}

fn runs_without_faults_repeat(kind: Kind) {
    for seed in 0..4 {
        let (run, counts) = twice(kind, &Plan::default(), seed);
        assert_eq!((run.errors(), counts), (Vec::new(), Counts::default()));
    }
}

fn the_first_failed_write_or_flush_ends_writing(kind: Kind) {
    let failing = match kind.promises().elsewhere {
        true => Plan { dead_after_writes: Some(40), ..Plan::default() },
        false => Plan { failing_write: Some(40), ..Plan::default() },
    };
    let plans = [
        failing,
        Plan { full_from_write: Some(60), ..Plan::default() },
        Plan { failing_flush: Some(5), ..Plan::default() },
    ];
    for (plan, seed) in plans.iter().zip(10..) {
        if kind == Kind::INPLACE && plan.full_from_write.is_some() {
            continue; // A write in place that finds no room has not happened: see below.
        }
        let (run, counts) = twice(kind, plan, seed);
        let happened = counts.failed_writes + counts.full + counts.failed_flushes;
        assert!(happened > 0, "{kind} {plan:?}: no fault has happened");
        assert!(run.node.layer.failed().is_some(), "{kind} {plan:?}");
        let errors = run.errors();
        let first = errors[0].0;
        // Requests of later rounds are refused: only reads succeed.
        for done in run.heard.iter().filter(|done| done.tag > first + 16) {
            let reads = run.reads.contains(&done.tag);
            assert!(reads || done.outcome.is_err(), "{kind} {plan:?}: {done:?}");
        }
        assert!(errors.iter().any(|(_, error)| *error == IoError::ReadOnly), "{errors:?}");
    }
}

#[test]
fn a_full_host_refuses_writes_in_place_one_by_one() {
    let plan = Plan { full_from_write: Some(60), ..Plan::default() };
    let (run, counts) = twice(Kind::INPLACE, &plan, 11);
    assert!(counts.full > 0 && run.node.layer.failed().is_none());
    assert!(run.errors().iter().all(|(_, error)| *error == IoError::NoSpace));
}

/// Blocks that cannot be written cost nothing but their room: those of data, and map blocks of the
/// virtual log, which lie among them.
fn what_the_medium_refuses_goes_elsewhere(kind: Kind) {
    if !kind.promises().elsewhere {
        return;
    }
    let refused = |run: &Run| {
        let stats = run.node.stats();
        stats.iter().find(|(name, _)| *name == "refused_blocks").map_or(0.0, |(_, count)| *count)
    };
    // Where data goes on a fresh volume: a wide range, a narrow one, and blocks here and there.
    let bad = |from, to| Plan { unwritable: vec![Blocks { from, to }], ..Plan::default() };
    // Labels of Loge have fixed places.
    let movable = |at: &u64| !at.is_multiple_of(128);
    let scattered = (300..1500).step_by(13).filter(movable).map(Blocks::one).collect();
    let plans = [bad(300, 380), bad(513, 514), Plan { unwritable: scattered, ..Plan::default() }];
    for (plan, seed) in plans.iter().zip(40..) {
        let (run, counts) = twice(kind, plan, seed);
        assert!(counts.failed_writes > 0, "{kind} {plan:?}: nothing was refused");
        assert_eq!(run.errors(), [], "{kind} {plan:?}");
        assert!(refused(&run) > 0.0, "{kind} {plan:?}");
    }
    let once = Plan { failing_write: Some(30), ..Plan::default() };
    let (run, counts) = twice(kind, &once, 50);
    assert_eq!((counts.failed_writes, run.errors()), (1, Vec::new()));
    assert!(refused(&run) == 0.0, "the same place takes it the second time");
}

fn unreadable_blocks_are_errors_and_writing_goes_on(kind: Kind) {
    // Unreadable blocks in the log of a disk caching disk cannot be destaged: when the ring reaches
    // them, writing ends. Home locations begin behind the log.
    let first = if kind == Kind::DCD { 200 } else { 20 };
    let blocks = vec![Blocks { from: first, to: 1500 }];
    let (run, counts) = twice(kind, &Plan { unreadable: blocks, ..Plan::default() }, 20);
    assert!(counts.unreadable > 0 && run.node.layer.failed().is_none(), "{kind}");
    assert!(run.errors().iter().all(|(_, e)| matches!(e, IoError::Media { .. })));
}

fn rotten_blocks_are_errors_and_writing_goes_on(kind: Kind) {
    if !kind.promises().checked {
        return;
    }
    let plan = Plan { rotten: vec![Blocks { from: 20, to: 1500 }], ..Plan::default() };
    let (run, counts) = twice(kind, &plan, 21);
    assert!(counts.rotten > 0 && run.node.layer.failed().is_none());
    let errors = run.errors();
    assert!(errors.iter().all(|(_, e)| matches!(e, IoError::Checksum { .. })), "{errors:?}");
    assert!(!errors.is_empty());
}

#[test]
fn what_a_device_loses_silently_is_never_read_as_something_else() {
    let mut lost = 0;
    let writes = [10, 20, 30, 40, 50];
    for (kind, write) in [Kind::VLOG, Kind::LOGE].into_iter().flat_map(|k| writes.map(|w| (k, w))) {
        let plan = Plan { lost_write: Some(write), lying_flush: true, ..Plan::default() };
        let (run, counts) = twice(kind, &plan, 30 + write);
        lost += counts.lost_writes;
        assert!(counts.lying_flushes > 0);
        let errors = run.errors();
        assert!(errors.iter().all(|(_, e)| matches!(e, IoError::Checksum { .. })), "{errors:?}");
    }
    assert_eq!(lost, 10);
}
