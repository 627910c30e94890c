//! Transactions over a small log against a list of what each of them left: what recovery finds
//! after the program has died between two answers, and after many turns of the ring.

use super::*;
use crate::block::plain::Plain;
use crate::core::page::Shape;
use crate::core::tx::CoreTx;
use crate::core::{Core, CoreOptions};
use crate::log::{LogShape, Redo, scan};
use crate::seal::Sealer;
use crate::tx::{Field, Freed, PageKind, SECTOR_CONTENT, Stop, Tx};
use proptest::prelude::*;
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::io::{Done, Io};
use seekless_engine::node::Node;
use seekless_engine::units::BLOCK_BYTES;
use std::slice::from_mut;
use std::sync::Arc;

const ID: u128 = 9;
/// Blocks of metadata in front of the log.
const BLOCKS: u64 = 24;
const SHAPE: LogShape = LogShape { blocks: 256, unit: 4096 };
const KEY: usize = 5;

struct Disk {
    node: Node,
    now: Time,
    /// Answers that were not heard.
    answers: Vec<Done>,
}

struct World {
    core: Core,
    disk: Disk,
    /// What the blocks held after each transaction.
    states: Vec<Vec<u8>>,
    /// Transactions that recovery must have.
    acknowledged: usize,
    parts: bool,
}

fn write(disk: &mut Disk, at: u64, bytes: Vec<u8>) {
    disk.node.run(&mut disk.now, Io::write(0, at, Data::bytes(bytes.into()))).expect("it fits");
}

fn read(disk: &mut Disk, at: u64) -> Vec<u8> {
    let read = disk.node.run(&mut disk.now, Io::read(0, at, 1));
    read.expect("it is there").to_bytes().to_vec()
}

impl Disk {
    fn with(world: &mut World, run: impl FnOnce(&mut Core, &mut Below<'_>)) {
        let World { core, disk, .. } = world;
        run(core, &mut Below::new(disk.now, from_mut(&mut disk.node)));
    }
}

/// Scans the log, and applies it to the blocks in front of it.
fn recover(disk: &mut Disk) -> (crate::log::Scanned, Redo) {
    let mut source = |block: u64| Some(read(disk, BLOCKS + block).into());
    let scanned = scan(&mut source, SHAPE.blocks, ID).expect("the log is whole");
    let redo = Redo::read(scanned.groups(), |(_, first, count)| {
        let block = |n| Field::new(u64::from(first) + n, 0, BLOCK_BYTES);
        (0..u64::from(count)).map(block).collect()
    })
    .expect("this program wrote it");
    for ((block, index), sector) in redo.sectors() {
        let mut bytes = read(disk, block.into());
        let bytes_of = &mut bytes[usize::from(index) * 512..(usize::from(index) + 1) * 512];
        sector.apply(bytes_of);
        let at = u64::from(block) * 8 + u64::from(index);
        crate::core::Seals::set(&Sealer::new(ID), at, PageKind::Inodes, bytes_of);
        write(disk, block.into(), bytes);
    }
    (scanned, redo)
}

impl World {
    fn new(parts: bool, cache_blocks: u64) -> World {
        let cells = Box::new(Cells::new(BLOCKS + u64::from(SHAPE.blocks)));
        let ram = Ram::volatile(cells);
        let ram = if parts { ram } else { ram.in_whole_blocks() };
        let mut disk = Disk { node: Plain::node(Box::new(ram)), now: 0, answers: Vec::new() };
        for superblock in Ring::format(SHAPE, 3, ID) {
            write(&mut disk, BLOCKS + superblock.block(), superblock.encode());
        }
        let sealer = Sealer::new(ID);
        for block in 0..BLOCKS {
            let mut bytes = vec![0; BLOCK_BYTES];
            for (index, sector) in bytes.chunks_exact_mut(512).enumerate() {
                let at = block * 8 + index as u64;
                crate::core::Seals::set(&sealer, at, PageKind::Inodes, sector);
            }
            write(&mut disk, block, bytes);
        }
        let states = vec![vec![0; BLOCKS as usize * BLOCK_BYTES]];
        World::mount(disk, states, parts, cache_blocks)
    }

    fn mount(mut disk: Disk, states: Vec<Vec<u8>>, parts: bool, cache_blocks: u64) -> World {
        let (scanned, redo) = recover(&mut disk);
        let (ring, superblocks) = Ring::begin(&scanned.superblock, scanned.next, false);
        for superblock in superblocks {
            write(&mut disk, BLOCKS + superblock.block(), superblock.encode());
        }
        let log = OpenLog {
            ring,
            at: BLOCKS,
            intents: redo.intents().collect(),
            orphans: redo.orphans().collect(),
        };
        let options = JournalOptions::default();
        let policy = Box::new(Journal::new(PolicyKind::Wafs1Async, options, log));
        let shape = Shape {
            block_bytes: 4096,
            fragment_bytes: 4096,
            mixed: false,
            engine_blocks: BLOCKS + u64::from(SHAPE.blocks),
        };
        let options = CoreOptions { cache_bytes: cache_blocks * 4096, ..CoreOptions::default() };
        let core = Core::new(shape, Arc::new(Sealer::new(ID)), policy, options);
        World { core, disk, states, acknowledged: 0, parts }
    }

    /// Moves requests and answers, so many times at most.
    fn turn(&mut self, most: usize) {
        for _ in 0..most {
            let mut below = Below::new(self.disk.now, from_mut(&mut self.disk.node));
            for done in self.disk.answers.drain(..) {
                self.core.complete(0, done, &mut below);
            }
            self.core.pump(&mut below);
            while let Some((key, result)) = self.core.take_settled() {
                assert_eq!(result, Ok(()));
                self.acknowledged = self.acknowledged.max(key);
            }
            self.disk.node.settle(self.disk.now, &mut self.disk.answers);
            if self.disk.answers.is_empty() {
                return;
            }
        }
    }

    fn run(&mut self, edits: &[(u64, usize, usize, u8)]) {
        while self.core.lacks_log_room() {
            let used = self.core.policy.log_stats();
            self.turn(1000);
            assert!(!self.core.lacks_log_room() || used != self.core.policy.log_stats());
        }
        let mut pins = smallvec::SmallVec::new();
        loop {
            let mut tx = CoreTx::new(&mut self.core, 0);
            let mut stops = edits.iter().map(|&(block, sector, at, value)| {
                tx.page(block, PageKind::Inodes)?;
                tx.set(block, sector * 512 + at, &[value; 8]);
                Ok(())
            });
            match stops.find_map(Result::err) {
                None => {
                    tx.commit(self.disk.now);
                    break;
                }
                Some(Stop::Miss(wanted)) => {
                    tx.undo();
                    let mut below = Below::new(self.disk.now, from_mut(&mut self.disk.node));
                    self.core.fetch(KEY, &wanted, &mut pins, &mut below);
                    self.turn(1000);
                    assert_eq!(self.core.take_ready(), Some(KEY));
                }
                Some(other) => panic!("{other:?}"),
            }
        }
        self.core.unpin(&mut pins);
        let mut state = self.states.last().expect("there is a first one").clone();
        for &(block, sector, at, value) in edits {
            let from = block as usize * 4096 + sector * 512 + at;
            state[from..from + 8].fill(value);
        }
        self.states.push(state);
    }

    fn sync(&mut self) {
        let (key, to) = (self.states.len() - 1, self.core.policy.log_end());
        self.core.settle_log(
            key,
            to,
            &mut Below::new(self.disk.now, from_mut(&mut self.disk.node)),
        );
    }

    /// The blocks, seals aside.
    fn found(disk: &mut Disk) -> Vec<u8> {
        let blocks = (0..BLOCKS).flat_map(|block| read(disk, block));
        let mut all: Vec<u8> = blocks.collect();
        all.chunks_exact_mut(512).for_each(|sector| sector[SECTOR_CONTENT..].fill(0));
        all
    }

    /// The program dies: what the volume has taken stays.
    fn die(self, cache_blocks: u64) -> World {
        let World { mut disk, mut states, acknowledged, parts, .. } = self;
        disk.node.settle(disk.now, &mut Vec::new());
        disk.answers.clear();
        recover(&mut disk);
        let found = World::found(&mut disk);
        let place = states.iter().rposition(|state| *state == found);
        let place = place.expect("the blocks are as after one of the transactions");
        assert!(place >= acknowledged, "{acknowledged} were acknowledged, {place} are there");
        states.truncate(place + 1);
        World::mount(disk, states, parts, cache_blocks)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Run(Vec<(u64, usize, usize, u8)>),
    Sync,
    Turn(usize),
    Wait,
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    let edit = (0..BLOCKS, 0..8_usize, 0..SECTOR_CONTENT - 8, any::<u8>());
    prop_oneof![
        12 => prop::collection::vec(edit, 1..8).prop_map(Step::Run),
        2 => Just(Step::Sync),
        4 => (1..6_usize).prop_map(Step::Turn),
        1 => Just(Step::Wait),
        1 => Just(Step::Die),
    ]
}

proptest! {
    #[test]
    fn recovery_finds_what_one_of_the_transactions_left(
        steps in prop::collection::vec(step(), 1..120),
        parts: bool,
        cache_blocks in 4..40_u64,
    ) {
        let mut world = World::new(parts, cache_blocks);
        for step in steps {
            match step {
                Step::Run(edits) => world.run(&edits),
                Step::Sync => world.sync(),
                Step::Turn(most) => world.turn(most),
                Step::Wait => {
                    world.disk.now += 31 * SECONDS;
                    world.turn(1000);
                }
                Step::Die => world = world.die(cache_blocks),
            }
        }
        world.sync();
        world.turn(1000);
        prop_assert_eq!(world.acknowledged, world.states.len() - 1);
        world.die(cache_blocks);
    }
}

/// The ring has room for a thousand of these groups, and goes round several times.
#[test]
fn the_start_moves_while_the_ring_goes_round() {
    let mut world = World::new(true, 40);
    for n in 0..6_000_u64 {
        let edit = |k: u64| ((n * 7 + k) % BLOCKS, (n % 8) as usize, 8 * (k as usize), n as u8);
        world.run(&(0..20).map(edit).collect::<Vec<_>>());
        world.states = vec![world.states.pop().expect("the last one")];
        if n % 50 == 0 {
            world.turn(3);
        }
    }
    let stats = world.core.policy.log_stats();
    let of = |name| stats.iter().find(|one| one.0 == name).expect("it is counted").1;
    assert!(of("log start moved") > 3, "{stats:?}");
    assert!(of("log bytes") > 2 * 480 * of("log sectors"), "{stats:?}");
    world.acknowledged = 0;
    world.sync();
    world.turn(1000);
    world.die(40);
}

#[test]
fn space_is_free_when_its_group_is_durable_and_a_checkpoint_carries_it_on() {
    let mut world = World::new(true, 40);
    let piece = Deferred([0, 20, 1, 0]);
    world.run(&[(1, 0, 0, 7)]);
    let mut tx = CoreTx::new(&mut world.core, 0);
    tx.page(1, PageKind::Inodes).expect("it is cached");
    tx.set(1, 0, &[8; 8]);
    let freed = Freed { what: piece, after: Field::new(1, 0, 8), exact: true };
    assert!(tx.free_later(freed, Some(Field::new(20, 0, 4096))));
    tx.orphaned(77);
    tx.commit(0);
    assert_eq!(world.core.policy.take_free(), None, "the log does not have it");
    let to = world.core.policy.log_end();
    Disk::with(&mut world, |core, below| core.settle_log(0, to, below));
    world.turn(100);
    assert_eq!(world.core.policy.take_free(), Some(vec![piece]));
    // It is not freed for long: the start passes its group.
    for n in 0..12_000_u64 {
        world.run(&[(2 + n % 8, 0, 0, n as u8), (3, 1, 8 * (n as usize % 60), n as u8)]);
        world.states.truncate(1);
        if n % 20 == 0 {
            let to = world.core.policy.log_end();
            Disk::with(&mut world, |core, below| core.settle_log(0, to, below));
            world.turn(100);
        }
    }
    let moved = |world: &World| {
        world.core.policy.log_stats().iter().find(|one| one.0 == "log start moved").map(|one| one.1)
    };
    assert!(moved(&world) > Some(1), "{:?}", world.core.policy.log_stats());
    let (_, redo) = recover(&mut world.disk);
    assert_eq!(redo.intents().collect::<Vec<_>>(), [(0, 20, 1)]);
    assert_eq!(redo.orphans().collect::<Vec<_>>(), [77]);
    let mut tx = CoreTx::new(&mut world.core, 0);
    tx.freed(piece);
    tx.adopted(77);
    tx.commit(0);
    let to = world.core.policy.log_end();
    Disk::with(&mut world, |core, below| core.settle_log(0, to, below));
    world.turn(100);
    let (_, redo) = recover(&mut world.disk);
    assert_eq!((redo.intents().count(), redo.orphans().count()), (0, 0));
}

#[test]
fn a_log_that_has_ended_is_empty() {
    let mut world = World::new(false, 40);
    world.run(&[(1, 0, 0, 7), (5, 3, 100, 9)]);
    Disk::with(&mut world, |core, below| core.settle(0, below));
    world.turn(1000);
    assert!(!world.core.log_has_ended());
    Disk::with(&mut world, |core, below| core.end_log(below));
    world.turn(1000);
    assert!(world.core.log_has_ended());
    let (scanned, redo) = recover(&mut world.disk);
    assert!(scanned.superblock.clean && redo.sectors().count() == 0);
    let found = World::found(&mut world.disk);
    assert_eq!(found, *world.states.last().expect("the last one"));
}
