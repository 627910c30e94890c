//! Transactions of the core over a device that carries them out: what goes together, what goes
//! first, and when the next operation waits.

use super::*;
use crate::block::plain::Plain;
use crate::core::page::Shape;
use crate::core::tx::CoreTx;
use crate::core::{Core, CoreOptions};
use crate::seal::Sealer;
use crate::tx::{Freed, PageKind, Tx};
use seekless_engine::client::Below;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::io::{Done, Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::units::{BLOCK_BYTES, SECONDS};
use std::slice::from_mut;
use std::sync::Arc;

/// Blocks of a transaction: room for the longest operation and three blocks.
const MOST: u64 = MOST_BLOCKS + 3;
const BLOCKS: u64 = 2 * MOST;
/// Blocks of metadata that are there.
const MADE: u64 = MOST;
const KEY: usize = 5;

struct World {
    core: Core,
    node: Node,
    now: Time,
    /// Answers that were not heard.
    answers: Vec<Done>,
}

impl World {
    fn new(group_commit: bool) -> World {
        World::with(group_commit, Cells::new(BLOCKS))
    }

    /// Over what a medium holds behind the blocks that are made.
    fn with(group_commit: bool, cells: Cells) -> World {
        let ram = Ram::volatile(Box::new(cells));
        let ram = ram.in_whole_blocks().with_transactions(MOST);
        let mut node = Plain::node(Box::new(ram));
        let mut now = 0;
        for block in 0..MADE {
            let mut bytes = vec![0; BLOCK_BYTES];
            for (index, sector) in bytes.chunks_exact_mut(512).enumerate() {
                let at = block * 8 + index as u64;
                crate::core::Seals::set(&Sealer::new(9), at, PageKind::Inodes, sector);
            }
            let write = Io::write(0, block, Data::bytes(bytes.into()));
            node.run(&mut now, write).expect("it fits");
        }
        let shape =
            Shape { block_bytes: 4096, fragment_bytes: 1024, mixed: true, engine_blocks: BLOCKS };
        let policy = Box::new(Atomic::new(PolicyKind::Atomic, group_commit));
        let core = Core::new(shape, Arc::new(Sealer::new(9)), policy, CoreOptions::default());
        let mut world = World { core, node, now, answers: Vec::new() };
        world.turn(1);
        world
    }

    /// Moves requests and answers, so many times at most.
    fn turn(&mut self, most: usize) {
        for _ in 0..most {
            let mut below = Below::new(self.now, from_mut(&mut self.node));
            for done in self.answers.drain(..) {
                self.core.complete(0, done, &mut below);
            }
            self.core.pump(&mut below);
            self.node.settle(self.now, &mut self.answers);
        }
    }

    /// An operation: fresh metadata in some blocks, and content in others that goes with it.
    fn run(&mut self, blocks: &[u64], contents: &[Field]) -> Settle {
        let mut tx = CoreTx::new(&mut self.core, 0);
        for &block in blocks {
            tx.fresh(block, PageKind::Directory, 0, 1024);
        }
        for &field in contents {
            let (at, length) = (usize::from(field.at), usize::from(field.length));
            tx.fresh(field.block, PageKind::Data, at, length);
            tx.content(field, false);
        }
        tx.commit(self.now)
    }

    fn force(&mut self) {
        let to = self.core.policy.log_end();
        let mut below = Below::new(self.now, from_mut(&mut self.node));
        self.core.settle_log(KEY, to, &mut below);
    }

    fn stat(&self, name: &str) -> u64 {
        let stats = self.core.policy.log_stats();
        stats.iter().find(|one| one.0 == name).expect("it is counted").1
    }
}

#[test]
fn operations_share_a_transaction_after_a_second() {
    let mut world = World::new(true);
    world.run(&[3, 4], &[]);
    world.run(&[4, 5], &[]);
    world.turn(20);
    assert_eq!(world.stat("transactions"), 0, "nothing asks for it");
    world.now += 2 * SECONDS;
    world.turn(20);
    assert_eq!((world.stat("transactions"), world.stat("blocks in transactions")), (1, 3));
    assert_eq!(world.core.policy.log_durable(), world.core.policy.log_end());
    assert_eq!((world.core.dirty_buffers(), world.core.stats().writes), (0, 0), "all is in place");
}

#[test]
fn without_group_commit_each_operation_has_its_own() {
    let mut world = World::new(false);
    world.run(&[3, 4], &[]);
    assert!(world.core.lacks_log_room(), "the next operation waits");
    while world.stat("transactions") == 0 {
        world.turn(1);
    }
    assert!(!world.core.lacks_log_room(), "the transaction is under way");
    world.run(&[4, 5], &[]);
    assert!(world.core.lacks_log_room());
    world.turn(20);
    assert_eq!((world.stat("transactions"), world.stat("blocks in transactions")), (2, 4));
}

#[test]
fn content_goes_first_and_is_flushed() {
    let mut world = World::new(true);
    world.run(&[3], &[Field::new(9, 0, 4096)]);
    world.force();
    let counts = |world: &World| {
        let stats = world.core.stats();
        (stats.writes, stats.flushes, world.stat("transactions"))
    };
    assert_eq!(counts(&world), (1, 0, 0));
    assert!(world.core.lacks_log_room(), "more content would come");
    world.turn(20);
    assert_eq!(counts(&world), (1, 1, 1));
    assert_eq!(world.core.take_settled(), Some((KEY, Ok(()))));
}

/// Content in a block of the volume with names cannot be written alone: the volume writes blocks.
#[test]
fn content_beside_names_goes_with_them() {
    let mut world = World::new(true);
    world.run(&[3], &[Field::new(3, 1024, 1024)]);
    world.force();
    world.turn(20);
    assert_eq!((world.stat("transactions"), world.core.stats().writes), (1, 0));
    assert_eq!(world.core.dirty_buffers(), 0);
    world.run(&[4], &[]);
    world.force();
    world.turn(20);
    assert_eq!(world.stat("transactions"), 2, "nothing is waited for any longer");
}

#[test]
fn a_transaction_goes_out_before_it_is_full() {
    let mut world = World::new(true);
    world.run(&[1, 2, 3], &[]);
    assert!(!world.core.lacks_log_room(), "the longest operation has room");
    world.run(&[4], &[]);
    assert!(world.core.lacks_log_room());
    world.turn(20);
    assert!(!world.core.lacks_log_room());
    assert_eq!(world.stat("transactions"), 1);
}

/// The operation that a transaction cannot hold fails the file system. Reads go on.
#[test]
fn what_only_reads_is_answered_where_the_log_was_lost() {
    let mut world = World::new(true);
    let too_many: Vec<u64> = (0..MOST + 2).collect();
    assert!(too_many.len() as u64 > MOST);
    assert!(matches!(world.run(&too_many, &[]), Settle::Logged(Lsn(u64::MAX))));
    assert_eq!(world.core.failed(), Some(IoError::NoSpace));
    assert!(matches!(world.run(&[], &[]), Settle::Now));
}

/// The end of a file that has moved twice: what lies between is in no transaction.
#[test]
fn content_that_the_same_transaction_gives_up_is_not_waited_for() {
    let mut world = World::new(true);
    let field = Field::new(9, 0, 4096);
    world.run(&[3], &[field]);
    let mut tx = CoreTx::new(&mut world.core, 0);
    tx.fresh(3, PageKind::Directory, 0, 1024);
    let freed = Freed { what: Deferred([0, 9, 1, 0]), after: Field::new(3, 0, 8), exact: true };
    assert!(tx.free_later(freed, Some(field)), "it is free when the transaction is durable");
    tx.commit(world.now);
    world.force();
    world.turn(20);
    assert_eq!((world.stat("transactions"), world.core.stats().writes), (1, 0));
    assert_eq!(world.core.policy.take_free(), Some(vec![freed.what]));
}

/// A volume of whole blocks has to be read before a part of a block can be written.
#[test]
fn a_block_that_cannot_be_read_fails_the_file_system() {
    let mut cells = Cells::new(BLOCKS);
    cells.lose(MADE);
    let mut world = World::with(true, cells);
    world.run(&[3, MADE], &[]);
    world.force();
    world.turn(20);
    assert_eq!(world.core.failed(), Some(IoError::Media { block: MADE }));
    assert_eq!((world.stat("transactions"), world.node.in_flight()), (0, 0));
    let answer = world.core.take_settled().expect("the call is answered");
    assert!(answer.1.is_err(), "{answer:?}");
}
