use super::*;
use crate::oracle::Found;
use crate::workload::Bursts;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::carry_out;
use seekless_engine::device::{Device, DeviceStatus};
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::{Done, Io};
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::units::MICROS;
use seekless_layouts::Kind;
use std::collections::VecDeque;

pub(super) const SERVICE: Time = 100 * MICROS;

/// A device that serves one request after the other, each in the same time.
#[derive(Debug)]
struct Steady {
    medium: Box<dyn Medium>,
    queue: VecDeque<(Time, Done)>,
    free_at: Time,
}

impl Steady {
    fn new(medium: Box<dyn Medium>) -> Steady {
        Steady { medium, queue: VecDeque::new(), free_at: 0 }
    }
}

impl Device for Steady {
    fn blocks(&self) -> u64 {
        self.medium.blocks()
    }

    fn submit(&mut self, now: Time, io: Io) {
        let start = self.free_at.max(now);
        self.free_at = start + SERVICE;
        let outcome = carry_out(self.medium.as_mut(), &io);
        let spent = Breakdown {
            queue_ns: start - now,
            overhead_ns: SERVICE / 4,
            transfer_ns: SERVICE * 3 / 4,
            ..Breakdown::default()
        };
        self.queue.push_back((self.free_at, Done { tag: io.tag, outcome, spent }));
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Done>) {
        while self.queue.front().is_some_and(|&(at, _)| at <= now) {
            done.extend(self.queue.pop_front().map(|(_, answer)| answer));
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|&(at, _)| at)
    }

    fn volatile(&self) -> bool {
        false
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Steady {}

/// Returns an old version of one block.
#[derive(Debug)]
struct Liar {
    cells: Cells,
    block: BlockNr,
}

impl Medium for Liar {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        let mut data = Data::none();
        for block in at..at + u64::from(count) {
            let right = self.cells.read(block, 1)?;
            data.append(if block == self.block { Data::stamp(1, 0, 1) } else { right });
        }
        Ok(data)
    }

    fn write(&mut self, at: BlockNr, data: &Data) -> Result<(), IoError> {
        self.cells.write(at, data)
    }

    fn trim(&mut self, at: BlockNr, count: u32) -> Result<(), IoError> {
        self.cells.trim(at, count)
    }
}

pub(super) fn inplace(medium: impl FnOnce(Cells) -> Box<dyn Medium>) -> Driver {
    let mut cells = Cells::new(1002);
    let options = FormatOptions::new(Kind::INPLACE, 1000, 1);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).unwrap();
    let (layer, _, _) =
        seekless_layouts::mount(&mut MediumDisk(&mut cells), &MountOptions::default()).unwrap();
    let device = Box::new(Steady::new(medium(cells)));
    Driver::new(Node::new(layer, vec![device], 1), true)
}

fn run(driver: &mut Driver, workload: &Workload) -> Result<Vec<Completion>, DriveError> {
    workload.check(1000).unwrap();
    let mut seen = Vec::new();
    let mut generator = Generator::new(workload, 1000, 1, "test");
    driver.run(workload, &mut generator, workload.requests, |done| seen.push(*done))?;
    Ok(seen)
}

#[test]
fn depth_one_takes_one_service_time_each() {
    let mut driver = inplace(|cells| Box::new(cells));
    let workload = Workload { requests: 50, ..Workload::default() };
    let seen = run(&mut driver, &workload).unwrap();
    assert_eq!(seen.len(), 50);
    assert_eq!(driver.now(), 50 * SERVICE);
    for (index, done) in seen.iter().enumerate() {
        assert_eq!(done.submitted, index as u64 * SERVICE);
        assert_eq!(done.spent.total_ns(), SERVICE);
        assert_eq!((done.spent.queue_ns, done.spent.overhead_ns), (0, SERVICE / 4));
    }
}

#[test]
fn deeper_queues_wait_and_the_parts_still_add_up() {
    let mut driver = inplace(|cells| Box::new(cells));
    let workload = Workload {
        requests: 400,
        depth: 32,
        read_share: 0.5,
        request_blocks: 3,
        ..Workload::default()
    };
    let seen = run(&mut driver, &workload).unwrap();
    assert_eq!(driver.now(), 400 * SERVICE);
    for done in &seen[32..] {
        assert_eq!(done.spent.total_ns(), 32 * SERVICE);
        assert_eq!(done.spent.queue_ns, 31 * SERVICE);
    }
    driver.read_back(7).unwrap();
}

#[test]
fn think_time_and_bursts_leave_gaps() {
    let mut driver = inplace(|cells| Box::new(cells));
    let workload = Workload { requests: 10, think_ns: 7, ..Workload::default() };
    run(&mut driver, &workload).unwrap();
    assert_eq!(driver.now(), 10 * SERVICE + 9 * 7);

    let mut driver = inplace(|cells| Box::new(cells));
    let bursts = Some(Bursts { requests: 4, idle_ns: 1_000_000 });
    let workload = Workload { requests: 12, depth: 3, bursts, ..Workload::default() };
    let seen = run(&mut driver, &workload).unwrap();
    assert_eq!(driver.now(), 12 * SERVICE + 2 * 1_000_000);
    assert_eq!(seen[4].submitted, 4 * SERVICE + 1_000_000);
}

#[test]
fn flushes_come_on_top() {
    let mut driver = inplace(|cells| Box::new(cells));
    let workload =
        Workload { requests: 30, flush_every: Some(10), fua: true, ..Workload::default() };
    let seen = run(&mut driver, &workload).unwrap();
    assert_eq!(seen.iter().filter(|done| done.op == Op::Write).count(), 30);
    assert_eq!(seen.iter().filter(|done| done.op == Op::Flush).count(), 2);
}

#[test]
fn a_planted_wrong_block_is_reported() {
    let planted = 124;
    let mut driver =
        inplace(|cells| Box::new(Liar { cells, block: planted + 1 /* superblock */ }));
    let workload = Workload { requests: 1000, pattern: Pattern::Sequential, ..Workload::default() };
    run(&mut driver, &workload).unwrap();
    match driver.read_back(16) {
        Err(DriveError::WrongContent { wrong, .. }) => {
            assert_eq!(wrong.block, planted);
            assert_eq!((wrong.oldest, wrong.newest), (125, 125));
            assert_eq!(wrong.found, Found::Stamp { key: 0, version: 1 });
            assert_eq!(
                wrong.to_string(),
                "block 124 read back wrong: expected version 125, found version 1 of block 0"
            );
        }
        other => panic!("the wrong block went unnoticed: {other:?}"),
    }
}

#[test]
fn read_back_reaches_the_remainder() {
    // 1000 is not a multiple of 16: block 998 lies beyond the last whole request.
    let mut driver = inplace(|cells| Box::new(Liar { cells, block: 999 }));
    let workload = Workload { requests: 1000, pattern: Pattern::Sequential, ..Workload::default() };
    run(&mut driver, &workload).unwrap();
    assert!(matches!(driver.read_back(16), Err(DriveError::WrongContent { .. })));
}

/// Never answers.
#[derive(Debug)]
struct Silent;

impl Device for Silent {
    fn blocks(&self) -> u64 {
        1002
    }

    fn submit(&mut self, _now: Time, _io: Io) {}

    fn reap(&mut self, _now: Time, _done: &mut Vec<Done>) {}

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn volatile(&self) -> bool {
        false
    }

    fn status(&self) -> &dyn DeviceStatus {
        self
    }
}

impl DeviceStatus for Silent {}

#[test]
fn a_device_that_never_answers_is_an_error() {
    let mut driver = inplace(|cells| Box::new(cells));
    driver.time.node.devices[0] = Box::new(Silent);
    let error = run(&mut driver, &Workload::default()).unwrap_err();
    assert_eq!(error, DriveError::Stalled { in_flight: 1, now_ns: 0 });
}

#[test]
fn idle_time_passes_and_the_end_is_orderly() {
    let mut driver = inplace(|cells| Box::new(cells));
    driver.idle(12_345).unwrap();
    assert_eq!(driver.now(), 12_345);
    run(&mut driver, &Workload { requests: 3, ..Workload::default() }).unwrap();
    driver.stop().unwrap();
    assert!(driver.node().layer.stopped());
}
