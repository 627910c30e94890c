//! Walking what is on the device: from what a map block says down to every block that it leads to.

use super::address::{BLOCK_INODES, Child, ObjectNr, SLICE_OBJECTS, inode_child};
use super::format::{Content, Entry, INODE_BYTES, Inode, decode_indirect};
use crate::eager::Mapped as _;
use crate::eager::read::verify;
use bytes::Bytes;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::{Expected, IoError};
use seekless_engine::units::BlockNr;

/// A block that something leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Inodes of a slice: which of its blocks.
    Inodes(usize),
    /// An indirect block.
    Indirect(ObjectNr),
    /// Content.
    Content(ObjectNr),
}

/// What a walk meets.
pub trait Visitor {
    /// A block. False if what it leads to is not to be looked at.
    fn meets(&mut self, block: Block, entry: Entry) -> bool;

    /// A block that leads to others cannot be read, or is not what was written.
    fn lacks(&mut self, block: Block, entry: Entry, error: IoError);
}

/// Reads the device for a walk.
pub struct Walk<'d, V> {
    /// The device.
    pub disk: &'d mut dyn Disk,
    /// Identity of the volume.
    pub id: Identity,
    /// How checksums are made.
    pub sums: Sums,
    /// Whom to tell.
    pub visitor: V,
}

impl<V: Visitor> Walk<'_, V> {
    /// Meets all that a map block of a slice leads to: what its patches name, and what its inodes
    /// do, also where a patch says something else.
    pub fn slice(&mut self, slice: u32, content: &Content) {
        for (member, changes) in content.patches.objects() {
            let object = slice * SLICE_OBJECTS + u32::from(member);
            for one in changes.placed.values() {
                self.visitor.meets(Block::Content(object), one.entry);
            }
        }
        for (index, &entry) in content.groups.iter().enumerate() {
            let block = Block::Inodes(index);
            if !entry.is_mapped() || !self.visitor.meets(block, entry) {
                continue;
            }
            match self.read(entry) {
                Ok(bytes) => {
                    let first = slice * SLICE_OBJECTS + index as u32 * BLOCK_INODES;
                    for (object, bytes) in (first..).zip(bytes.chunks_exact(INODE_BYTES)) {
                        match Inode::decode(self.id, object, bytes) {
                            Some(inode) => self.inode(object, &inode),
                            None => {
                                let at = BlockNr::from(entry.place());
                                self.visitor.lacks(block, entry, IoError::Checksum { block: at });
                            }
                        }
                    }
                }
                Err(error) => self.visitor.lacks(block, entry, error),
            }
        }
    }

    fn inode(&mut self, object: ObjectNr, inode: &Inode) {
        for (index, &entry) in inode.pointers.iter().enumerate() {
            self.below(object, inode_child(index), entry);
        }
    }

    fn below(&mut self, object: ObjectNr, child: Child, entry: Entry) {
        if !entry.is_mapped() {
            return;
        }
        let one = match child {
            Child::Block(_) => {
                self.visitor.meets(Block::Content(object), entry);
                return;
            }
            Child::Indirect(one) => one,
        };
        let block = Block::Indirect(object);
        if !self.visitor.meets(block, entry) {
            return;
        }
        match self.read(entry) {
            Ok(bytes) => {
                for (index, entry) in decode_indirect(&bytes).enumerate() {
                    self.below(object, one.child(index), entry);
                }
            }
            Err(error) => self.visitor.lacks(block, entry, error),
        }
    }

    /// Reads a block.
    ///
    /// # Errors
    /// The device has none of that checksum there.
    pub fn read(&mut self, entry: Entry) -> Result<Bytes, IoError> {
        let at = BlockNr::from(entry.place());
        if at >= self.disk.blocks() {
            return Err(IoError::OutOfRange { at, count: 1 });
        }
        let expected = Expected::one(self.sums, entry.checksum());
        let data: Data = self.disk.read_expecting(at, expected)?;
        Ok(verify(self.sums, &[entry], data, at)?.to_bytes())
    }
}
