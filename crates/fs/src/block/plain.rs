//! A volume without a layout: each block is the same block of its device. For files that hold
//! something of their own, and for crash states that are looked at.

use seekless_engine::device::Device;
use seekless_engine::io::{Done, Io, IoError, Tag};
use seekless_engine::layer::{Cx, Layer, Port, Status, Transactions};
use seekless_engine::node::Node;
use seekless_engine::transaction::Transaction;
use seekless_engine::units::{BlockNr, Time};

/// The layer that hands requests on. What fails, fails; nothing is failed, as on a plain disk.
#[derive(Clone, Debug)]
pub struct Plain {
    blocks: u64,
    transaction_blocks: u64,
    in_flight: u64,
    stopping: bool,
}

impl Plain {
    /// For a device of `blocks` blocks.
    pub fn new(blocks: u64) -> Plain {
        Plain { blocks, transaction_blocks: 0, in_flight: 0, stopping: false }
    }

    /// A node of this device alone. It has the transactions of the device.
    pub fn node(device: Box<dyn Device>) -> Node {
        let transaction_blocks = device.status().transaction_blocks();
        let plain = Plain { transaction_blocks, ..Plain::new(device.blocks()) };
        Node::new(Box::new(plain), vec![device], 1)
    }
}

impl Layer for Plain {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn submit(&mut self, io: Io, cx: &mut Cx<'_>) {
        self.in_flight += 1;
        cx.send(0, io);
    }

    fn complete(&mut self, _port: Port, done: Done, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        cx.answer(done);
    }

    fn pump(&mut self, _cx: &mut Cx<'_>) {}

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn stop(&mut self, _cx: &mut Cx<'_>) {
        self.stopping = true;
    }

    fn stopped(&self) -> bool {
        self.stopping && self.in_flight == 0
    }

    fn failed(&self) -> Option<IoError> {
        None
    }

    fn status(&self) -> &dyn Status {
        self
    }

    fn transactions(&mut self) -> Option<&mut dyn Transactions> {
        Some(self)
    }
}

impl Transactions for Plain {
    fn submit(&mut self, tag: Tag, all: Transaction, fua: bool, cx: &mut Cx<'_>) {
        let io = Io::write_all(tag, &all);
        Layer::submit(self, if fua { io.with_fua() } else { io }, cx);
    }
}

impl Status for Plain {
    fn in_place(&self) -> Option<BlockNr> {
        Some(0)
    }

    fn takes_parts(&self) -> bool {
        true
    }

    fn transaction_blocks(&self) -> u64 {
        self.transaction_blocks
    }
}
