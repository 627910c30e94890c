//! What a kill costs of the work of writing home: what the last second did, at the most.
#![allow(clippy::unwrap_used, missing_docs)]

use crate::seen::Seen;
use crate::support::Shared;
use seekless_crash::device::volatile::{Latency, VolatileRam};
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::{Io, IoError};
use seekless_engine::layer::Layer;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::options::Options;
use seekless_engine::rng::Rng;
use seekless_engine::shared;
use seekless_engine::units::{MILLIS, SECONDS, Time};
use seekless_layouts::dcd::{Caching, Order, Shape};
use seekless_layouts::{Kind, dcd};
use std::cell::Cell;
use std::rc::Rc;

const BLOCKS: u64 = 20_000;
/// Blocks of the log.
const LOG: u64 = 4096;

fn volume() -> Cells {
    let shape = Shape { log_blocks: Some(LOG), ..Shape::default() }.onto(Options::default());
    let mut cells = Cells::new(Kind::DCD.device_blocks_with(BLOCKS, &shape));
    let options = FormatOptions::new(Kind::DCD, BLOCKS, 1).with(shape);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &options).unwrap();
    cells
}

fn mount(cells: &mut Cells, order: Order) -> Box<dyn Layer> {
    let options = Caching { order, ..Caching::default() }.onto(Options::default());
    let options = MountOptions { options, volatile: true, ..MountOptions::default() };
    seekless_layouts::mount(&mut MediumDisk(cells), &options).unwrap().0
}

fn dirty_in(stats: &[(&'static str, f64)]) -> u64 {
    stats.iter().find(|stat| stat.0 == "dirty_blocks").unwrap().1 as u64
}

/// Blocks that a mount finds in the log only.
fn dirty(cells: &Cells) -> u64 {
    dirty_in(&mount(&mut cells.clone(), Order::LastFirst).status().stats())
}

/// Where version 2 of block `index` goes: scattered, so that none has a neighbour.
fn place(index: u64) -> u64 {
    index * 7919 % BLOCKS
}

/// Writes blocks to the log and nowhere else.
fn fill(node: &mut Node, now: &mut Time, blocks: u64) {
    for index in 0..blocks {
        let at = place(index);
        let io = Io::write(0, at, Data::stamp(1, at, 2));
        node.run(now, if index + 1 == blocks { io.with_fua() } else { io }).unwrap();
    }
}

fn holds(cells: &Cells, blocks: u64) {
    let mut cells = cells.clone();
    let layer = mount(&mut cells, Order::LastFirst);
    let mut node = Node::new(layer, vec![Box::new(Ram::new(Box::new(cells)))], 1);
    for at in (0..blocks).map(place) {
        assert_eq!(node.run(&mut 0, Io::read(0, at, 1)), Ok(Data::stamp(1, at, 2)), "{at}");
    }
}

#[test]
fn what_came_home_while_idle_is_home_after_a_kill() {
    for &order in Order::ALL {
        let mut cells = volume();
        let layer = mount(&mut cells, order);
        let shared = Shared::new(cells);
        let mut node = Node::new(layer, vec![Box::new(Ram::volatile(Box::new(shared.clone())))], 1);
        let mut now = 0;
        fill(&mut node, &mut now, 1500);
        let left = || shared.with(|cells| cells.clone());
        assert_eq!(dirty(&left()), 1500, "{order}");
        node.idle(&mut now, 5 * SECONDS);
        assert_eq!(dirty(&left()), 0, "{order}");
        holds(&left(), 1500);
    }
}

/// Nothing that is not flushed survives: the hardest power cut for progress.
#[test]
fn a_power_cut_costs_what_came_home_in_the_last_second_at_most() {
    for &order in Order::ALL {
        let mut cells = volume();
        let layer = mount(&mut cells, order);
        let latency = Latency::InOrder(2 * MILLIS);
        let ram = VolatileRam::new(cells, true, latency, Rng::stream(1, "device"));
        let slow = Seen(shared::Shared::new(ram));
        let mut node = Node::new(layer, vec![Box::new(slow.clone())], 1);
        let mut now = 0;
        fill(&mut node, &mut now, 1500);
        let (mut before, step) = (Vec::new(), 100 * MILLIS);
        while before.last() != Some(&0) {
            node.idle(&mut now, step);
            before.push(dirty_in(&node.stats()));
            let found = dirty(slow.0.lend().durable());
            // A record is due after a second, and takes a while to become durable.
            let index = before.len().checked_sub(1 + 12);
            let most = index.map_or(1500, |index| before[index]);
            assert!(found <= most, "{order}: {found} of {most} at {} ms", now / MILLIS);
        }
        assert!(before.len() > 30, "{order}: {} steps are too few", before.len());
        node.idle(&mut now, step);
        assert_eq!(dirty(slow.0.lend().durable()), 0, "{order}");
        holds(slow.0.lend().durable(), 1500);
    }
}

/// A record of a client takes progress along before that is due, and what is due in vain must not
/// keep time from going on while the record of a clean shutdown is on its way.
#[test]
fn a_clean_shutdown_ends_on_a_device_that_is_slow() {
    let mut homes = 0;
    for steps in 0..400 {
        let mut cells = volume();
        let layer = mount(&mut cells, Order::LastFirst);
        let latency = Latency::InOrder(300 * MILLIS);
        let ram = VolatileRam::new(cells, true, latency, Rng::stream(steps, "device"));
        let mut node = Node::new(layer, vec![Box::new(ram)], 1);
        let mut now = 0;
        fill(&mut node, &mut now, 1500);
        node.idle(&mut now, 400 * steps * MILLIS);
        node.run(&mut now, Io::write(0, 1, Data::stamp(1, 1, 2)).with_fua()).unwrap();
        homes += u64::from(dirty_in(&node.stats()) < 1501);
        node.stop(now);
        node.settle(now, &mut Vec::new());
        let mut events = 0;
        while !node.stopped() {
            events += 1;
            assert!(events < 10_000, "time stands still after {steps} steps");
            now = node.next_event().expect("the end is under way").max(now);
            node.settle(now, &mut Vec::new());
        }
    }
    assert!(homes > 5, "{homes} volumes had begun to write home");
}

/// A disk whose power fails after so many writes and flushes. What is not flushed is lost.
struct Cut {
    cells: Cells,
    durable: Cells,
    steps: Rc<Cell<u64>>,
}

impl Cut {
    fn step(&mut self) -> Result<(), IoError> {
        let left = self.steps.get().checked_sub(1).ok_or(IoError::PowerOff)?;
        self.steps.set(left);
        Ok(())
    }
}

impl Disk for Cut {
    fn blocks(&self) -> u64 {
        self.cells.blocks()
    }
    fn read(&mut self, at: u64, count: u32) -> Result<Data, IoError> {
        self.cells.read(at, count)
    }
    fn write(&mut self, at: u64, data: Data) -> Result<(), IoError> {
        self.step()?;
        self.cells.write(at, &data)
    }
    fn flush(&mut self) -> Result<(), IoError> {
        self.step()?;
        self.durable = self.cells.clone();
        Ok(())
    }
}

fn drain_cut(cells: &Cells, steps: u64) -> (Cells, u64) {
    let (durable, cells) = (cells.clone(), cells.clone());
    let mut cut = Cut { cells, durable, steps: Rc::new(Cell::new(steps)) };
    let mut home = 0;
    let drained = dcd::drain(&mut [&mut cut], &mut |done, _| home = done);
    assert!(
        drained.is_ok() || matches!(&drained, Err(error) if error.to_string().contains("power"))
    );
    (cut.durable, home)
}

#[test]
fn a_drain_that_is_cut_off_goes_on_where_it_was() {
    let mut cells = volume();
    let layer = mount(&mut cells, Order::LastFirst);
    let shared = Shared::new(cells);
    let mut node = Node::new(layer, vec![Box::new(Ram::volatile(Box::new(shared.clone())))], 1);
    fill(&mut node, &mut 0, 1500);
    drop(node);
    let start = shared.with(|cells| cells.clone());
    assert_eq!(dirty(&start), 1500);
    let mut rng = Rng::stream(1, "cuts");
    for _ in 0..12 {
        let (left, home) = drain_cut(&start, rng.below(1600));
        let found = dirty(&left);
        // The record of the last step is not durable yet, nor is the step under way.
        assert!(found <= 1500 - home + 335, "{found} are left, {home} were home");
        holds(&left, 1500);
    }
    let (mut left, mut drains) = (start, 0);
    while dirty(&left) > 0 {
        left = drain_cut(&left, 750).0;
        drains += 1;
        assert!(drains < 8, "{} blocks are left", dirty(&left));
    }
    assert!(drains > 1);
    holds(&left, 1500);
}
