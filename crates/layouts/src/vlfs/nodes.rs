//! Inode blocks, indirect blocks and edited blocks that are kept in memory, by where they lie.
//!
//! What lies at a place stays until another block is written there, and the drive says when it
//! writes one, so nothing here is ever wrong. The oldest go when there are too many.

use super::format::Entry;
use crate::eager::Mapped as _;
use bytes::Bytes;
use seekless_engine::io::IoError;
use std::collections::{BTreeMap, HashMap};

/// Blocks in the younger half of the memory, 16 MiB: as many again are in the older one.
const HALF: usize = 4096;

/// A block that has to be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub Entry);

/// Blocks in memory.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    young: HashMap<u32, Bytes>,
    old: HashMap<u32, Bytes>,
    /// Places of blocks that could not be read, with the reason.
    unreadable: BTreeMap<u32, IoError>,
}

impl Nodes {
    /// The bytes of a block.
    ///
    /// # Errors
    /// It has to be read first.
    pub fn get(&self, entry: Entry) -> Result<&Bytes, Missing> {
        let place = entry.place();
        self.young.get(&place).or_else(|| self.old.get(&place)).ok_or(Missing(entry))
    }

    /// A block was read, or is being written.
    pub fn put(&mut self, place: u32, bytes: Bytes) {
        self.unreadable.remove(&place);
        self.old.remove(&place);
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(place, bytes);
    }

    /// Something else is written there.
    pub fn forget(&mut self, place: u32) {
        self.young.remove(&place);
        self.old.remove(&place);
        self.unreadable.remove(&place);
    }

    /// A block could not be read.
    pub fn failed(&mut self, place: u32, error: IoError) {
        self.unreadable.insert(place, error);
    }

    /// Why a block could not be read, if that is known.
    pub fn failure(&self, entry: Entry) -> Option<IoError> {
        self.unreadable.get(&entry.place()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: u32) -> Entry {
        Entry::new(place, false, 7)
    }

    #[test]
    fn a_block_is_there_until_it_is_written_over() {
        let mut nodes = Nodes::default();
        assert_eq!(nodes.get(at(5)), Err(Missing(at(5))));
        nodes.put(5, Bytes::from_static(b"five"));
        assert_eq!(nodes.get(at(5)).map(|bytes| &bytes[..]), Ok(&b"five"[..]));
        nodes.forget(5);
        assert!(nodes.get(at(5)).is_err());
    }

    #[test]
    fn the_oldest_go() {
        let mut nodes = Nodes::default();
        (1..=3 * HALF as u32).for_each(|place| nodes.put(place, Bytes::new()));
        assert!(nodes.get(at(1)).is_err() && nodes.get(at(3 * HALF as u32)).is_ok());
        assert!(nodes.young.len() + nodes.old.len() <= 2 * HALF);
    }

    #[test]
    fn what_cannot_be_read_is_known_until_it_is_written() {
        let mut nodes = Nodes::default();
        nodes.failed(9, IoError::Media { block: 9 });
        assert_eq!(nodes.failure(at(9)), Some(IoError::Media { block: 9 }));
        nodes.put(9, Bytes::new());
        assert_eq!(nodes.failure(at(9)), None);
    }
}
