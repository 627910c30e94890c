//! Goes through the addresses of an inode, in the order of the file.

use super::finding::{Outcome, Slot};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::{SECTOR_ADDRESSES, address_offset};
use crate::ffs::ondisk::geometry::{Fragment, Geometry, Place};
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode, PREALLOCATED};
use crate::ffs::ondisk::seal::SealKind;
use std::ops::Range;

/// An address that is not 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::ffs::offline) struct Pointer {
    /// Where it stands.
    pub slot: Slot,
    /// The block of the file, or the first one below an indirect block.
    pub index: u64,
    /// 0 for a block of the file, 1 to 3 for an indirect block.
    pub level: u32,
    /// The address.
    pub address: Fragment,
    /// Fragments there; 0 if it lies behind the end of the file.
    pub fragments: u32,
}

impl Pointer {
    /// True if such a block can lie there: in the data of a group and inside one block.
    pub fn is_possible(&self, geometry: &Geometry) -> bool {
        let in_block = self.address % geometry.fragments_per_block();
        geometry.is_data(self.address, self.fragments)
            && in_block + self.fragments <= geometry.fragments_per_block()
    }

    /// Its fragments.
    pub fn range(&self) -> std::ops::Range<Fragment> {
        self.address..self.address + self.fragments
    }
}

/// What is done with the addresses.
pub(in crate::ffs::offline) trait Visitor {
    /// Takes an address; false if nothing below it may be read.
    fn pointer(&mut self, pointer: &Pointer, geometry: &Geometry) -> bool;

    /// Takes the place of a sector of addresses with a bad seal, and the blocks of the file below
    /// it; they count as 0.
    fn damaged(&mut self, place: Place, blocks: Range<u64>, geometry: &Geometry);
}

/// Shows all addresses of an inode to the visitor.
pub(in crate::ffs::offline) fn walk(
    store: &mut Store<'_>,
    ino: u32,
    inode: &Inode,
    visitor: &mut dyn Visitor,
) -> Outcome {
    for (index, &address) in inode.direct.iter().enumerate() {
        if address != 0 {
            let fragments = inode.block_fragments(index as u64, &store.geometry);
            let (slot, index) = (Slot::Inode(ino, index), index as u64);
            let pointer = Pointer { slot, index, level: 0, address, fragments };
            visitor.pointer(&pointer, &store.geometry);
        }
    }
    let each = store.geometry.addresses_per_block() as u64;
    let mut index = DIRECT as u64;
    for level in 1..=INDIRECT as u32 {
        let slot = Slot::Inode(ino, DIRECT + level as usize - 1);
        let address = inode.indirect[level as usize - 1];
        if address != 0 {
            let mut tree = Tree { store, inode, visitor, each };
            tree.indirect(slot, index, level, address)?;
        }
        index += each.pow(level);
    }
    Ok(())
}

struct Tree<'t, 'd> {
    store: &'t mut Store<'d>,
    inode: &'t Inode,
    visitor: &'t mut dyn Visitor,
    each: u64,
}

impl Tree<'_, '_> {
    /// Visits an indirect block and what is below. The depth is at most three.
    fn indirect(&mut self, slot: Slot, index: u64, level: u32, address: Fragment) -> Outcome {
        let geometry = &self.store.geometry;
        let inside =
            self.inode.flags & PREALLOCATED != 0 || index < self.inode.size_blocks(geometry);
        let fragments = if inside { geometry.fragments_per_block() } else { 0 };
        let pointer = Pointer { slot, index, level, address, fragments };
        if !self.visitor.pointer(&pointer, geometry) {
            return Ok(());
        }
        let block = geometry.block_of(address);
        let bytes = self.store.read(block, 1)?;
        let span = self.each.pow(level - 1);
        let mut is_whole = true;
        for entry in 0..self.each as usize {
            let place = Place { block, at: address_offset(entry) };
            if entry % SECTOR_ADDRESSES == 0 {
                is_whole = self.store.is_whole(&bytes, place, SealKind::Indirect);
                if !is_whole {
                    let first = index + entry as u64 * span;
                    let blocks = first..first + SECTOR_ADDRESSES as u64 * span;
                    self.visitor.damaged(place, blocks, &self.store.geometry);
                }
            }
            let address = u32_at(&bytes, place.at);
            if address == 0 || !is_whole {
                continue;
            }
            let (slot, index) = (Slot::Indirect(place), index + entry as u64 * span);
            if level > 1 {
                self.indirect(slot, index, level - 1, address)?;
            } else {
                let fragments = self.inode.block_fragments(index, &self.store.geometry);
                let pointer = Pointer { slot, index, level: 0, address, fragments };
                self.visitor.pointer(&pointer, &self.store.geometry);
            }
        }
        Ok(())
    }
}
