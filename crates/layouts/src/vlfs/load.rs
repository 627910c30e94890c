//! Reading inodes, indirect blocks and edited blocks that something needs before it can begin.

use super::format::Entry;
use super::nodes::Nodes;
use crate::eager::Mapped as _;
use crate::eager::read::verify;
use seekless_engine::checksum::Sums;
use seekless_engine::io::{Done, Expected, Io, Tag};
use seekless_engine::layer::Cx;
use seekless_engine::units::BlockNr;
use slab::Slab;

/// Blocks on their way to memory.
#[derive(Clone, Debug)]
pub struct Loads {
    tag: Tag,
    sums: Sums,
    all: Slab<Entry>,
}

impl Loads {
    /// None. The lower 32 bits of `tag` are zeros.
    pub fn new(tag: Tag, sums: Sums) -> Loads {
        debug_assert_eq!(tag as u32, 0);
        Loads { tag, sums, all: Slab::new() }
    }

    /// True if none is on its way.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Reads a block, unless it is on its way. True if it has begun.
    pub fn begin(&mut self, entry: Entry, cx: &mut Cx<'_>) -> bool {
        if self.all.iter().any(|(_, one)| *one == entry) {
            return false;
        }
        let index = self.all.insert(entry);
        let mut io = Io::read(self.tag | index as Tag, BlockNr::from(entry.place()), 1);
        if cx.has_copies(0) {
            io = io.expecting(Expected::one(self.sums, entry.checksum()));
        }
        cx.send(0, io);
        true
    }

    /// A block has been read, or cannot be.
    pub fn done(&mut self, index: usize, done: Done, nodes: &mut Nodes) {
        let entry = self.all.remove(index);
        let at = BlockNr::from(entry.place());
        match done.outcome.and_then(|data| verify(self.sums, &[entry], data, at)) {
            Ok(data) => nodes.put(entry.place(), data.to_bytes()),
            Err(error) => nodes.failed(entry.place(), error),
        }
    }
}
