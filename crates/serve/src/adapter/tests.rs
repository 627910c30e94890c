use super::*;
use proptest::prelude::*;
use rustix::io::Errno;
use seekless_engine::device::medium::Flat;
use seekless_engine::device::ram::carry_out;
use seekless_engine::io::Extent;
use seekless_engine::io::{Op, Outcome, Tag};
use seekless_engine::rng::Rng;
use seekless_engine::units::BlockNr;

const BLOCKS: u64 = 6;
const SIZE: usize = BLOCKS as usize * BLOCK_BYTES;

/// Of the volume even blocks are holes.
fn chequered(at: BlockNr, _limit: u64) -> (Extent, u64) {
    (if at.is_multiple_of(2) { Extent::Hole } else { Extent::Data }, 1)
}

/// An adapter over a medium whose requests are carried out in any order.
struct Rig {
    adapter: Adapter<usize>,
    medium: Flat,
}

impl Rig {
    fn new() -> Rig {
        Rig { adapter: Adapter::new(BLOCKS, false), medium: Flat::new(BLOCKS) }
    }

    fn ask(&mut self, who: usize, verb: Verb, offset: u64, length: u32) {
        let request = Request { who, verb, fua: false, offset, length };
        self.adapter.request(request, &mut chequered);
    }

    /// Carries out one of the block requests in flight.
    fn carry_out(&mut self, index: usize) {
        let io = self.adapter.outbox.remove(index);
        let outcome = carry_out(&mut self.medium, &io);
        self.finish(io.tag, outcome);
    }

    fn finish(&mut self, tag: Tag, outcome: Outcome) {
        self.adapter.done(Done::new(tag, outcome));
    }

    fn all(&mut self) -> Vec<(usize, Answer)> {
        while !self.adapter.outbox.is_empty() {
            self.carry_out(0);
        }
        std::mem::take(&mut self.adapter.answers)
    }

    fn one(&mut self, verb: Verb, offset: u64, length: u32) -> Answer {
        self.ask(0, verb, offset, length);
        let mut answers = self.all();
        assert_eq!(answers.len(), 1);
        answers.remove(0).1
    }

    fn bytes(&mut self) -> Vec<u8> {
        let answer = self.one(Verb::Read, 0, SIZE as u32);
        joined(answer)
    }
}

fn joined(answer: Answer) -> Vec<u8> {
    let Answer::Data(rope) = answer else { panic!("{answer:?}") };
    let mut out = Vec::new();
    rope.runs(|length, bytes| match bytes {
        Some(bytes) => {
            assert_eq!(bytes.len(), length);
            out.extend_from_slice(&bytes);
        }
        None => out.resize(out.len() + length, 0),
    });
    out
}

fn write(byte: u8, length: u32) -> Verb {
    Verb::Write(Bytes::from(vec![byte; length as usize]))
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut rig = Rig::new();
    let size = SIZE as u64;
    let fault = |answer: Answer| match answer {
        Answer::Error(fault, _) => Some(fault),
        _ => None,
    };
    assert_eq!(fault(rig.one(Verb::Read, size, 1)), Some(Fault::Invalid));
    assert_eq!(fault(rig.one(Verb::Read, u64::MAX, 2)), Some(Fault::Invalid));
    assert_eq!(fault(rig.one(write(1, 2), size - 1, 2)), Some(Fault::NoSpace));
    assert_eq!(fault(rig.one(write(1, 2), 0, 3)), Some(Fault::Invalid));
    assert_eq!(fault(rig.one(Verb::Status { one: false }, 0, 0)), Some(Fault::Invalid));
    rig.adapter.read_only = true;
    for verb in [write(1, 2), Verb::Trim, Verb::Zero { keep_space: false }] {
        assert_eq!(fault(rig.one(verb, 0, 2)), Some(Fault::ReadOnly));
    }
    assert_eq!(rig.one(Verb::Flush, 0, 0), Answer::Done);
}

#[test]
fn empty_requests_succeed() {
    let mut rig = Rig::new();
    assert_eq!(joined(rig.one(Verb::Read, 5, 0)), Vec::<u8>::new());
    for verb in [write(1, 0), Verb::Trim, Verb::Zero { keep_space: true }, Verb::Cache] {
        assert_eq!(rig.one(verb, SIZE as u64, 0), Answer::Done);
    }
}

#[test]
fn whole_blocks_are_passed_on_without_reading() {
    let mut rig = Rig::new();
    rig.ask(0, write(3, 8192), 4096, 8192);
    assert_eq!(rig.adapter.outbox.len(), 1);
    assert_eq!(
        (rig.adapter.outbox[0].op, rig.adapter.outbox[0].at, rig.adapter.outbox[0].count),
        (Op::Write, 1, 2)
    );
}

#[test]
fn a_trim_keeps_the_edges() {
    let mut rig = Rig::new();
    rig.one(write(7, SIZE as u32), 0, SIZE as u32);
    assert_eq!(rig.one(Verb::Trim, 100, 3 * 4096), Answer::Done);
    assert_eq!(rig.one(Verb::Trim, 4 * 4096 + 1, 4000), Answer::Done);
    let mut expected = vec![7; SIZE];
    expected[4096..3 * 4096].fill(0);
    assert_eq!(rig.bytes(), expected);
}

#[test]
fn zeros_trim_whole_blocks_and_write_the_edges_durably() {
    let mut rig = Rig::new();
    rig.one(write(7, SIZE as u32), 0, SIZE as u32);
    let verb = Verb::Zero { keep_space: false };
    let request = Request { who: 0, verb, fua: true, offset: 100, length: 3 * 4096 };
    rig.adapter.request(request, &mut chequered);
    assert!(
        rig.adapter.outbox.iter().all(|io| io.op == Op::Read && io.count == 1),
        "{:?}",
        rig.adapter.outbox
    );
    rig.carry_out(0);
    rig.carry_out(0);
    let ops: Vec<_> =
        rig.adapter.outbox.iter().map(|io| (io.op, io.at, io.count, io.fua)).collect();
    let expected = [(Op::Write, 0, 1, true), (Op::Trim, 1, 2, true), (Op::Write, 3, 1, true)];
    assert_eq!(ops, expected);
    assert_eq!(rig.all(), [(0, Answer::Done)]);
    let mut expected = vec![7; SIZE];
    expected[100..100 + 3 * 4096].fill(0);
    assert_eq!(rig.bytes(), expected);
}

#[test]
fn partial_writes_to_one_block_wait_for_each_other() {
    let mut rig = Rig::new();
    for who in 0..4 {
        rig.ask(who, write(who as u8 + 1, 512), 512 * who as u64, 512);
    }
    assert_eq!((rig.adapter.outbox.len(), rig.adapter.waits()), (1, 3));
    // Whole blocks elsewhere and reads go on.
    rig.ask(9, write(9, 4096), 4096, 4096);
    rig.ask(10, Verb::Read, 0, 10);
    assert_eq!((rig.adapter.outbox.len(), rig.adapter.waits()), (3, 3));
    // A whole block over the partial ones waits, too.
    rig.ask(11, write(5, 4096), 0, 4096);
    assert_eq!(rig.adapter.waits(), 4);
    let order: Vec<usize> = rig.all().into_iter().map(|(who, _)| who).collect();
    assert_eq!(order, [9, 10, 0, 1, 2, 3, 11]);
    assert!(rig.bytes()[..4096].iter().all(|&byte| byte == 5));
}

#[test]
fn a_partial_write_waits_for_a_whole_one_in_flight() {
    let mut rig = Rig::new();
    rig.ask(0, write(1, 4096), 0, 4096);
    rig.ask(1, write(2, 10), 0, 10);
    // Reading now would bring the old block back over the new one.
    assert_eq!((rig.adapter.outbox.len(), rig.adapter.waits()), (1, 1));
    rig.all();
    let bytes = rig.bytes();
    assert_eq!((bytes[9], bytes[10]), (2, 1));
}

#[test]
fn errors_reach_the_client_and_free_the_blocks() {
    let mut rig = Rig::new();
    rig.ask(0, write(1, 10), 0, 10);
    rig.ask(1, write(2, 10), 20, 10);
    let read = rig.adapter.outbox.remove(0);
    rig.finish(read.tag, Err(IoError::Media { block: 0 }));
    assert!(matches!(rig.adapter.answers[0], (0, Answer::Error(Fault::Io, _))));
    assert_eq!(rig.adapter.outbox.len(), 1);
    rig.carry_out(0);
    let full = rig.adapter.outbox.remove(0);
    rig.finish(full.tag, Err(IoError::NoSpace));
    assert!(matches!(rig.adapter.answers[1], (1, Answer::Error(Fault::NoSpace, _))));
    assert_eq!(super::answer::fault(crate::device::raw::sync_error(Errno::DQUOT)), Fault::NoSpace);
    assert_eq!(super::answer::fault(crate::device::raw::sync_error(Errno::IO)), Fault::Io);
    assert_eq!(rig.adapter.in_flight(), 0);
}

#[test]
fn a_failed_volume_says_why() {
    let mut rig = Rig::new();
    rig.adapter.fail_volume(IoError::Media { block: 77 });
    for verb in [write(1, 10), Verb::Flush, Verb::Trim] {
        let length = if verb == Verb::Flush { 0 } else { 10 };
        let Answer::Error(fault, message) = rig.one(verb, 0, length) else { panic!("accepted") };
        assert_eq!(fault, Fault::Io);
        assert!(message.contains("block 77") && message.contains("read-only"), "{message}");
    }
    assert_eq!(joined(rig.one(Verb::Read, 0, 3)), [0; 3]);
}

#[test]
fn status_is_cut_to_the_bytes_asked_for() {
    let mut rig = Rig::new();
    let Answer::Status(runs) = rig.one(Verb::Status { one: false }, 4000, 4200) else {
        panic!("no status")
    };
    assert_eq!(runs, [(96, Extent::Hole), (4096, Extent::Data), (8, Extent::Hole)]);
    let Answer::Status(runs) = rig.one(Verb::Status { one: true }, 4096, 20_000) else {
        panic!("no status")
    };
    assert_eq!(runs, [(4096, Extent::Data)]);
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize, u8),
    Zero(usize, usize, bool),
    Trim(usize, usize),
    Read(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // Near block boundaries as often as not.
    let at = prop_oneof![
        0..SIZE,
        (0..BLOCKS as usize, 0..3_usize)
            .prop_map(|(b, d)| { (b * BLOCK_BYTES + d).saturating_sub(1) })
    ];
    let range = (at, prop_oneof![0..600_usize, 0..SIZE, Just(4096), Just(8192)])
        .prop_map(|(at, length)| (at, length.min(SIZE - at)));
    (range, 0..4, any::<u8>()).prop_map(|((at, length), kind, byte)| match kind {
        0 => Step::Read(at, length),
        1 => Step::Trim(at, length),
        2 => Step::Zero(at, length, byte & 1 == 0),
        _ => Step::Write(at, length, byte),
    })
}

impl Step {
    fn apply(&self, model: &mut [u8]) {
        match *self {
            Step::Write(at, length, byte) => model[at..at + length].fill(byte),
            Step::Zero(at, length, _) => model[at..at + length].fill(0),
            Step::Trim(at, length) => {
                let first = at.next_multiple_of(BLOCK_BYTES);
                let end = (at + length) / BLOCK_BYTES * BLOCK_BYTES;
                if first < end {
                    model[first..end].fill(0);
                }
            }
            Step::Read(..) => {}
        }
    }

    fn ask(&self, rig: &mut Rig, who: usize) {
        match *self {
            Step::Write(at, length, byte) => {
                rig.ask(who, write(byte, length as u32), at as u64, length as u32);
            }
            Step::Zero(at, length, keep_space) => {
                rig.ask(who, Verb::Zero { keep_space }, at as u64, length as u32);
            }
            Step::Trim(at, length) => rig.ask(who, Verb::Trim, at as u64, length as u32),
            Step::Read(at, length) => rig.ask(who, Verb::Read, at as u64, length as u32),
        }
    }

    /// The bytes that the step changes, if it is run beside others.
    fn range(&self) -> (usize, usize) {
        match *self {
            Step::Read(..) => (0, 0),
            Step::Write(at, length, _) | Step::Zero(at, length, _) | Step::Trim(at, length) => {
                (at, at + length)
            }
        }
    }
}

proptest! {
    #[test]
    fn one_after_the_other_it_is_an_array_of_bytes(steps in prop::collection::vec(step(), 1..40)) {
        let mut rig = Rig::new();
        let mut model = vec![0; SIZE];
        for (who, step) in steps.iter().enumerate() {
            step.ask(&mut rig, who);
            let answers = rig.all();
            prop_assert_eq!(answers.len(), 1);
            if let Step::Read(at, length) = *step {
                let read = joined(answers.into_iter().next().expect("one answer").1);
                prop_assert_eq!(&read, &model[at..at + length]);
            }
            step.apply(&mut model);
        }
        prop_assert_eq!(rig.bytes(), model);
    }

    /// Requests on different bytes, all in flight at once, carried out in any order: no change is
    /// lost though they share blocks.
    #[test]
    fn neighbours_in_one_block_do_not_lose_each_others_changes(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut rig = Rig::new();
        let mut rng = Rng::stream(seed, "order");
        rig.one(write(0xee, SIZE as u32), 0, SIZE as u32);
        let mut model = vec![0xee; SIZE];
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let mut asked = 0;
        for (who, step) in steps.iter().enumerate() {
            let (from, to) = step.range();
            if taken.iter().any(|&(a, b)| from < b && a < to) {
                continue;
            }
            taken.push((from, to));
            step.ask(&mut rig, who);
            step.apply(&mut model);
            asked += 1;
            if rng.chance(0.3) && !rig.adapter.outbox.is_empty() {
                let index = rng.below(rig.adapter.outbox.len() as u64) as usize;
                rig.carry_out(index);
            }
        }
        while !rig.adapter.outbox.is_empty() {
            let index = rng.below(rig.adapter.outbox.len() as u64) as usize;
            rig.carry_out(index);
        }
        prop_assert_eq!(rig.adapter.answers.len(), asked);
        prop_assert_eq!(rig.adapter.in_flight(), 0);
        rig.adapter.answers.clear();
        prop_assert_eq!(rig.bytes(), model);
    }
}
