//! Random transactions against a map of bytes: what they see, what an undo leaves, and what the
//! volume holds in the end.

use super::tx::CoreTx;
use super::{CallKey, Core, CoreOptions, Seals, Stats, WriteUnit, page::Shape};
use crate::block::plain::Plain;
use crate::policy::PolicyKind;
use crate::tx::{BlockNo, PageKind, Stop, Tx};
use proptest::prelude::*;
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::io::Io;
use seekless_engine::node::Node;
use seekless_engine::units::{SECONDS, Time};
use smallvec::SmallVec;
use std::slice::from_mut;
use std::sync::Arc;

const BLOCKS: u64 = 12;
const KEY: CallKey = 5;

/// The last byte of a sealed sector is the sum of the others and of its place.
#[derive(Debug)]
struct SumSeals;

fn sum(sector: u64, bytes: &[u8]) -> u8 {
    bytes[..511].iter().fold(sector as u8 ^ 0x55, |sum, byte| sum.wrapping_add(*byte))
}

impl Seals for SumSeals {
    fn is_right(&self, sector: u64, _kind: PageKind, bytes: &[u8]) -> bool {
        bytes[511] == sum(sector, bytes)
    }

    fn set(&self, sector: u64, _kind: PageKind, bytes: &mut [u8]) {
        bytes[511] = sum(sector, bytes);
    }
}

fn kind_of(block: BlockNo) -> PageKind {
    if block.is_multiple_of(2) { PageKind::Data } else { PageKind::Inodes }
}

#[derive(Clone, Debug)]
enum Edit {
    Set { block: BlockNo, at: usize, length: usize, value: u8 },
    Fresh { block: BlockNo, fragment: usize },
}

#[derive(Clone, Debug)]
enum Step {
    Run { edits: Vec<Edit>, succeeds: bool },
    Idle,
    Settle,
}

struct World {
    core: Core,
    node: Node,
    now: Time,
    model: Vec<Vec<u8>>,
}

impl World {
    fn new(cache_blocks: u64, volatile: bool) -> World {
        World::over(cache_blocks, volatile, CoreOptions::default(), true)
    }

    fn over(cache_blocks: u64, volatile: bool, options: CoreOptions, parts: bool) -> World {
        let cells = Box::new(Cells::new(BLOCKS * 2));
        let ram = if volatile { Ram::volatile(cells) } else { Ram::new(cells) };
        let ram = if parts { ram } else { ram.in_whole_blocks() };
        let mut node = Plain::node(Box::new(ram));
        let mut now = 0;
        for block in (1..BLOCKS).step_by(2) {
            let mut bytes = vec![0; 8192];
            for (index, sector) in bytes.chunks_exact_mut(512).enumerate() {
                SumSeals.set(block * 16 + index as u64, PageKind::Inodes, sector);
            }
            node.run(&mut now, Io::write(0, block * 2, Data::bytes(bytes.into()))).expect("fits");
        }
        let shape = Shape {
            block_bytes: 8192,
            fragment_bytes: 1024,
            mixed: true,
            engine_blocks: BLOCKS * 2,
        };
        let options = CoreOptions { cache_bytes: cache_blocks * 8192, ..options };
        let core = Core::new(shape, Arc::new(SumSeals), PolicyKind::Async.policy(), options);
        World { core, node, now, model: vec![vec![0; 8192]; BLOCKS as usize] }
    }

    /// Moves requests and answers until nothing is in flight.
    fn turn(&mut self) {
        let mut answers = Vec::new();
        loop {
            let mut below = Below::new(self.now, from_mut(&mut self.node));
            for done in answers.drain(..) {
                self.core.complete(0, done, &mut below);
            }
            self.core.pump(&mut below);
            self.node.settle(self.now, &mut answers);
            if answers.is_empty() {
                return;
            }
        }
    }

    fn edit(tx: &mut CoreTx<'_>, edit: &Edit) -> Result<(), Stop> {
        match *edit {
            Edit::Set { block, at, length, value } => {
                tx.part(block, at, length, kind_of(block))?;
                tx.set(block, at, &vec![value; length]);
            }
            Edit::Fresh { block, fragment } => {
                tx.fresh(block, kind_of(block), fragment * 1024, 1024);
            }
        }
        Ok(())
    }

    fn run(&mut self, edits: &[Edit], succeeds: bool) {
        let mut pins = SmallVec::new();
        loop {
            let mut tx = CoreTx::new(&mut self.core, 0);
            let stop = edits.iter().try_for_each(|edit| World::edit(&mut tx, edit)).err();
            match stop {
                None if succeeds => {
                    tx.commit(self.now);
                    edits.iter().for_each(|edit| self.apply(edit));
                    break;
                }
                None => {
                    tx.undo();
                    break;
                }
                Some(Stop::Miss(wanted)) => {
                    tx.undo();
                    let mut below = Below::new(self.now, from_mut(&mut self.node));
                    self.core.fetch(KEY, &wanted, &mut pins, &mut below);
                    self.turn();
                    assert_eq!(self.core.take_ready(), Some(KEY));
                    assert_eq!(self.core.ready.take_error(KEY), None);
                }
                Some(other) => panic!("{other:?}"),
            }
        }
        self.core.unpin(&mut pins);
    }

    fn apply(&mut self, edit: &Edit) {
        match *edit {
            Edit::Set { block, at, length, value } => {
                self.model[block as usize][at..at + length].fill(value);
            }
            Edit::Fresh { block, fragment } => {
                self.model[block as usize][fragment * 1024..(fragment + 1) * 1024].fill(0);
            }
        }
    }

    fn settle(&mut self) {
        self.core.settle(KEY, &mut Below::new(self.now, from_mut(&mut self.node)));
        self.turn();
        assert_eq!(self.core.take_settled(), Some((KEY, Ok(()))));
        assert!(self.core.is_quiet());
        self.compare();
    }

    /// The volume holds what the model says, seals aside.
    fn compare(&mut self) {
        for block in 0..BLOCKS {
            let found = self.node.run(&mut self.now, Io::read(0, block * 2, 2)).expect("readable");
            let found = found.to_bytes();
            for (index, sector) in found.chunks_exact(512).enumerate() {
                let expected = &self.model[block as usize][index * 512..(index + 1) * 512];
                assert_eq!(sector[..511], expected[..511], "block {block} sector {index}");
                let at = block * 16 + index as u64;
                assert!(kind_of(block) == PageKind::Data || sector[511] == sum(at, sector));
            }
        }
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let set = (0..BLOCKS, 0..16_usize, 0..400_usize, 1..100_usize, any::<u8>()).prop_map(
        |(block, sector, at, length, value)| Edit::Set {
            block,
            at: sector * 512 + at,
            length,
            value,
        },
    );
    let fresh =
        (0..BLOCKS, 0..8_usize).prop_map(|(block, fragment)| Edit::Fresh { block, fragment });
    prop_oneof![3 => set, 1 => fresh]
}

fn step() -> impl Strategy<Value = Step> {
    let run = (prop::collection::vec(edit(), 1..6), prop::bool::weighted(0.7))
        .prop_map(|(edits, succeeds)| Step::Run { edits, succeeds });
    prop_oneof![8 => run, 1 => Just(Step::Idle), 1 => Just(Step::Settle)]
}

proptest! {
    #[test]
    fn what_succeeds_reaches_the_volume_and_nothing_else(
        steps in prop::collection::vec(step(), 1..60),
        cache_blocks in 1..14_u64,
        volatile: bool,
        parts: bool,
        dirty_only: bool,
    ) {
        let write_unit = if dirty_only { WriteUnit::Dirty } else { WriteUnit::Fragments };
        let options = CoreOptions { write_unit, ..CoreOptions::default() };
        let mut world = World::over(cache_blocks, volatile, options, parts);
        for step in &steps {
            match step {
                Step::Run { edits, succeeds } => world.run(edits, *succeeds),
                Step::Idle => {
                    world.now += 7 * SECONDS;
                    world.turn();
                }
                Step::Settle => world.settle(),
            }
        }
        world.settle();
        prop_assert!(world.core.cache.bytes() <= cache_blocks * 8192 + 6 * 8192);
    }
}

#[test]
fn dirty_blocks_go_out_by_age() {
    let mut world = World::new(12, false);
    let set = |block| Edit::Set { block, at: 0, length: 4, value: 9 };
    world.run(&[set(0), set(1)], true);
    world.turn();
    assert_eq!(world.core.stats.writes, 0);
    assert_eq!(world.core.deadline(), Some(28 * SECONDS), "inodes");
    world.now = 28 * SECONDS;
    world.turn();
    assert_eq!((world.core.stats.writes, world.core.deadline()), (1, Some(30 * SECONDS)));
    world.now = 30 * SECONDS;
    world.turn();
    assert_eq!((world.core.stats.writes, world.core.deadline()), (2, None));
    world.compare();
}

#[test]
fn a_bad_seal_is_an_error_that_changes_nothing() {
    let mut world = World::new(12, false);
    let zeros = Data::zeros(2);
    world.node.run(&mut world.now, Io::write(0, 2, zeros)).expect("fits");
    let mut pins = SmallVec::new();
    let wanted = SmallVec::from_slice(&[(1, PageKind::Inodes)]);
    let mut below = Below::new(0, from_mut(&mut world.node));
    world.core.fetch(KEY, &wanted, &mut pins, &mut below);
    world.turn();
    let mut tx = CoreTx::new(&mut world.core, 0);
    let refused = tx.page(1, PageKind::Inodes).err();
    assert_eq!(refused, Some(Stop::Refused(crate::call::Errno::Io)));
    tx.undo();
    assert_eq!(world.core.cache.dirty(), 0);
}

#[test]
fn neighbours_go_out_in_one_write() {
    let mut world = World::new(64, false);
    let edits: Vec<Edit> = (2..6)
        .flat_map(|block| (0..8).map(move |fragment| Edit::Fresh { block, fragment }))
        .collect();
    world.run(&edits, true);
    world.settle();
    // Blocks 2 and 4 are data, 3 and 5 are inodes: two classes, no neighbours within one.
    assert_eq!(world.core.stats.writes, 4);
    assert_eq!(world.core.stats.reads, 0, "nothing of them was read");
}

/// Two fragments of block 2, which are no neighbours.
fn two_fragments(parts: bool, write_unit: WriteUnit) -> Stats {
    let options = CoreOptions { write_unit, ..CoreOptions::default() };
    let mut world = World::over(64, false, options, parts);
    let edits = [1, 6].map(|fragment| Edit::Fresh { block: 2, fragment });
    world.run(&edits, true);
    world.settle();
    let set = Edit::Set { block: 2, at: 1024, length: 4, value: 9 };
    world.run(&[set], true);
    world.settle();
    world.core.stats
}

#[test]
fn a_fragment_is_written_without_the_rest_of_its_block() {
    let stats = two_fragments(true, WriteUnit::Fragments);
    assert_eq!((stats.reads, stats.writes, stats.sectors_written), (0, 3, 6));
    let stats = two_fragments(true, WriteUnit::Dirty);
    assert_eq!((stats.reads, stats.writes, stats.sectors_written), (0, 3, 5));
    let stats = two_fragments(false, WriteUnit::Fragments);
    assert_eq!((stats.hidden_reads, stats.writes, stats.sectors_written), (1, 2, 16 + 8));
}

#[test]
fn the_rest_of_an_unused_block_is_not_read() {
    for (unused, reads) in [(true, 0), (false, 1)] {
        let mut world = World::over(64, false, CoreOptions::default(), false);
        let mut tx = CoreTx::new(&mut world.core, 0);
        if unused {
            tx.unused(2);
        }
        tx.fresh(2, PageKind::Data, 1024, 1024);
        tx.commit(0);
        world.settle();
        assert_eq!((world.core.stats.hidden_reads, world.core.stats.writes), (reads, 1));
    }
}

#[test]
fn a_write_that_completes_during_a_flush_needs_another_one() {
    let mut world = World::new(12, true);
    let first = [0, 4].map(|block| Edit::Set { block, at: 0, length: 4, value: 9 });
    world.run(&first, true);
    world.settle();
    assert_eq!(world.core.stats.flushes, 1);
    world.settle();
    assert_eq!(world.core.stats.flushes, 1, "nothing was written in between");
    // Block 0 and then block 4 are written; the flush for block 0 goes out before the answer for
    // block 4 is heard.
    let set = |block| [Edit::Set { block, at: 0, length: 4, value: 8 }];
    world.run(&set(0), true);
    world.core.settle(7, &mut Below::new(world.now, from_mut(&mut world.node)));
    world.run(&set(4), true);
    let slot = world.core.cache.find(4).expect("it was changed");
    world.core.queue_write(slot);
    world.turn();
    assert_eq!(world.core.take_settled(), Some((7, Ok(()))));
    assert_eq!((world.core.stats.flushes, world.core.cache.dirty()), (2, 0));
    world.settle();
    assert_eq!(world.core.stats.flushes, 3, "the last flush did not cover block 4");
}
