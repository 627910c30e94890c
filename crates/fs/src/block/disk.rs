//! A node as a disk in blocking style, for mkfs, mount, check and repair.

use seekless_engine::data::Data;
use seekless_engine::disk::{Disk, check_range};
use seekless_engine::io::{Io, IoError};
use seekless_engine::node::Node;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, Time};

/// A node with no request in flight, and its clock.
#[derive(Debug)]
pub struct NodeDisk<'n> {
    node: &'n mut Node,
    now: &'n mut Time,
}

impl<'n> NodeDisk<'n> {
    /// The node as a disk; its time goes on from `now`.
    pub fn new(node: &'n mut Node, now: &'n mut Time) -> NodeDisk<'n> {
        NodeDisk { node, now }
    }
}

impl Disk for NodeDisk<'_> {
    fn blocks(&self) -> u64 {
        self.node.layer.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        check_range(self.blocks(), at, count)?;
        self.node.run(self.now, Io::read(0, at, count))
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        check_range(self.blocks(), at, data.blocks())?;
        self.node.run(self.now, Io::write(0, at, data)).map(|_| ())
    }

    fn takes_parts(&self) -> bool {
        self.node.takes_parts()
    }

    fn transaction_blocks(&self) -> u64 {
        self.node.transaction_blocks()
    }

    fn patch_bytes(&self) -> u64 {
        self.node.patch_bytes()
    }

    fn transact(&mut self, all: Transaction) -> Result<(), IoError> {
        let outcome = self.node.run_transaction(self.now, all);
        outcome.expect("the caller keeps to what the volume takes").map(|_| ())
    }

    fn next_data(&mut self, at: BlockNr) -> Option<BlockNr> {
        self.node.next_data(at)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.node.run(self.now, Io::flush(0)).map(|_| ())
    }
}
