//! A volume with many versions of blocks, trimmed and never written ones, on a device with a
//! volatile cache.

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::rng::Rng;
use seekless_engine::units::{BlockNr, Time};
use seekless_layouts::Kind;

/// The volume, mounted, and what it holds.
pub struct Worked {
    node: Node,
    now: Time,
    medium: Shared,
    /// Content of each block.
    pub content: Vec<Data>,
}

impl Worked {
    /// An empty volume.
    pub fn new(kind: Kind, blocks: u64, device_blocks: u64) -> Worked {
        let mut cells = Cells::new(device_blocks);
        let format = FormatOptions::new(kind, blocks, 7);
        seekless_layouts::format(&mut MediumDisk(&mut cells), &format).unwrap();
        let medium = Shared::new(cells);
        let options = MountOptions { volatile: true, ..MountOptions::default() };
        let mounted = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options);
        let device = Box::new(Ram::volatile(Box::new(medium.clone())));
        let node = Node::new(mounted.unwrap().0, vec![device], 1);
        Worked { node, now: 0, medium, content: vec![Data::zeros(1); blocks as usize] }
    }

    /// Writes and trims so many blocks, and flushes now and then and at the end.
    pub fn work(&mut self, rng: &mut Rng, operations: u64) {
        for version in 1..operations {
            let at = rng.below(self.content.len() as u64);
            match rng.below(8) {
                0 => self.change(at, Data::zeros(1), Io::trim(0, at, 1)),
                _ => self.write(at, version),
            }
            if rng.below(6) == 0 {
                self.flush();
            }
        }
        self.flush();
    }

    /// Writes a version of a block.
    pub fn write(&mut self, at: BlockNr, version: u64) {
        let data = Data::stamp(1, at, version);
        self.change(at, data.clone(), Io::write(0, at, data));
    }

    fn change(&mut self, at: BlockNr, content: Data, io: Io) {
        self.node.run(&mut self.now, io).unwrap();
        self.content[at as usize] = content;
    }

    /// Makes all of it durable.
    pub fn flush(&mut self) {
        self.node.run(&mut self.now, Io::flush(0)).unwrap();
    }

    /// Leaves it alone for a while.
    pub fn rest(&mut self, span: Time) {
        self.node.idle(&mut self.now, span);
    }

    /// Shuts it down.
    pub fn finish(&mut self) {
        self.node.finish(&mut self.now);
    }

    /// What the device holds now.
    pub fn cells(&self) -> Cells {
        self.medium.with(|cells| cells.clone())
    }
}
