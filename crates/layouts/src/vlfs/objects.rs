//! The objects of a volume, as the newest map blocks have them: slices with their patches, and the
//! inodes below.

use super::address::{
    ATTRIBUTES, BLOCK_INODES, ObjectNr, SLICE_OBJECTS, Within, member_of, slice_of, split,
};
use super::format::{Content, Entry, INODE_BYTES, Inode};
use super::nodes::{Missing, Nodes};
use super::patch::{Edit, Look};
use super::pointers;
use crate::eager::Mapped as _;
use seekless_engine::checksum::Identity;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BlockNr};
use std::collections::BTreeMap;

/// A slice of the map: 128 objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// What its next map block says.
    pub content: Content,
    /// Inode blocks that the open commit has written.
    pub fresh_groups: u8,
}

/// Why something cannot be told of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// A block has to be read first.
    Missing(Entry),
    /// An inode is not what was written.
    Damaged(ObjectNr),
}

impl From<Missing> for Unknown {
    fn from(missing: Missing) -> Unknown {
        Unknown::Missing(missing.0)
    }
}

/// What is known of the content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It lies there, as it is to be read.
    At(Entry),
    /// It is this.
    Bytes(Vec<u8>),
    /// It holds nothing.
    Hole,
}

/// All objects.
#[derive(Clone, Debug)]
pub struct Objects {
    id: Identity,
    slices: Vec<Option<Box<Slice>>>,
    /// Inodes and indirect blocks in memory.
    pub nodes: Nodes,
    /// Objects that cannot be spilled, as what leads to their blocks cannot be read. They take few
    /// changes, so that their patches leave room to the others of their slice.
    pub lost: BTreeMap<ObjectNr, IoError>,
}

impl Objects {
    /// None yet, in so many slices.
    pub fn new(id: Identity, slices: u32) -> Objects {
        let nodes = Nodes::default();
        Objects { id, slices: vec![None; slices as usize], nodes, lost: BTreeMap::new() }
    }

    /// A slice, if it ever had an object.
    pub fn slice(&self, slice: u32) -> Option<&Slice> {
        self.slices[slice as usize].as_deref()
    }

    /// A slice that changes.
    pub fn slice_mut(&mut self, slice: u32) -> &mut Slice {
        self.slices[slice as usize].get_or_insert_with(Box::default)
    }

    /// Puts a slice back to what it was.
    pub fn restore(&mut self, slice: u32, old: Option<Slice>) {
        self.slices[slice as usize] = old.map(Box::new);
    }

    /// Slices that ever had an object.
    pub fn slices(&self) -> impl Iterator<Item = (u32, &Slice)> {
        let slices = (0..).zip(&self.slices);
        slices.filter_map(|(number, slice)| Some((number, slice.as_deref()?)))
    }

    /// Bytes of map blocks that patches take.
    pub fn patch_bytes(&self) -> usize {
        self.slices().map(|(_, slice)| slice.content.patches.encoded_bytes()).sum()
    }

    /// The inode of an object, without what patches change.
    ///
    /// # Errors
    /// Its block has to be read first, or is not that of this object.
    pub fn inode(&self, object: ObjectNr) -> Result<Inode, Unknown> {
        let Some(slice) = self.slice(slice_of(object)) else { return Ok(Inode::EMPTY) };
        let member = u32::from(member_of(object));
        let entry = slice.content.groups[(member / BLOCK_INODES) as usize];
        if !entry.is_mapped() {
            return Ok(Inode::EMPTY);
        }
        let at = (member % BLOCK_INODES) as usize * INODE_BYTES;
        let bytes = &self.nodes.get(entry)?[at..at + INODE_BYTES];
        Inode::decode(self.id, object, bytes).ok_or(Unknown::Damaged(object))
    }

    /// Where a block lies, patches considered but edits not; unmapped if it holds nothing.
    ///
    /// # Errors
    /// As [`Objects::inode`], and an indirect block may have to be read first.
    pub fn find(&self, object: ObjectNr, within: Within) -> Result<Entry, Unknown> {
        let slice = self.slice(slice_of(object));
        let look =
            slice.map_or(Look::Hole, |slice| slice.content.patches.look(member_of(object), within));
        match look {
            Look::At(entry) => Ok(entry),
            Look::Hole => Ok(Entry::UNMAPPED),
            Look::Inode => {
                let inode = self.inode(object)?;
                Ok(pointers::find(&self.nodes, &inode, within)?)
            }
        }
    }

    /// What a block holds.
    ///
    /// # Errors
    /// As [`Objects::find`]; an edited block may have to be read first, too.
    pub fn content(&self, at: BlockNr) -> Result<Held, Unknown> {
        let (object, within) = split(at);
        let Some(slice) = self.slice(slice_of(object)) else { return Ok(Held::Hole) };
        let patches = &slice.content.patches;
        let edits = patches.edits(member_of(object), within);
        if within == ATTRIBUTES {
            let mut bytes = match patches.look(member_of(object), within) {
                Look::Inode => self.inode(object)?.attributes.to_vec(),
                _ => Vec::new(),
            };
            bytes.resize(BLOCK_BYTES, 0);
            edits.iter().for_each(|edit| apply(edit, &mut bytes));
            return Ok(Held::Bytes(bytes));
        }
        if within >= super::address::MOST_BLOCKS {
            return Ok(Held::Hole);
        }
        let entry = self.find(object, within)?;
        if edits.is_empty() {
            return Ok(if entry.is_mapped() { Held::At(entry) } else { Held::Hole });
        }
        Ok(Held::Bytes(self.edited(entry, edits)?))
    }

    /// The bytes of a block with edits.
    ///
    /// # Errors
    /// The block has to be read first.
    pub fn edited(&self, entry: Entry, edits: &[Edit]) -> Result<Vec<u8>, Missing> {
        let mut bytes = match entry.is_mapped() {
            true => self.nodes.get(entry)?.to_vec(),
            false => vec![0; BLOCK_BYTES],
        };
        edits.iter().for_each(|edit| apply(edit, &mut bytes));
        Ok(bytes)
    }

    /// The objects of a slice.
    pub fn first_of(slice: u32) -> ObjectNr {
        slice * SLICE_OBJECTS
    }
}

/// Changes bytes of a block.
pub fn apply(edit: &Edit, bytes: &mut [u8]) {
    let at = usize::from(edit.at);
    bytes[at..at + edit.bytes.len()].copy_from_slice(&edit.bytes);
}
