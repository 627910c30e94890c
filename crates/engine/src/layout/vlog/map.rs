//! The map in memory: where each logical block lies. It is kept in the very sectors that map blocks
//! consist of, shared with the map blocks that are on their way to the device (or rest on a
//! simulated one): a commit then copies the sectors that changed since the last one, no more.

use super::format::{Entry, SLICE_ENTRIES, SLICE_SECTORS};
use super::tree::SliceNr;
use crate::data::SectorBytes;
use crate::layout::eager::Mapped;
use crate::units::{BlockNr, SECTOR_BYTES};
use std::sync::Arc;

/// Entries in a sector.
const SECTOR_ENTRIES: usize = SECTOR_BYTES / 8;

const _: () = assert!(SLICE_SECTORS * SECTOR_ENTRIES == SLICE_ENTRIES);

/// The map.
#[derive(Clone)]
pub(super) struct Map {
    /// Those without mapped blocks are one and the same.
    sectors: Vec<Arc<SectorBytes>>,
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "map of {} sectors", self.sectors.len())
    }
}

/// Sector, and byte in it, of a block's entry.
fn locate(at: BlockNr) -> (usize, usize) {
    let at = at as usize;
    (at / SECTOR_ENTRIES, at % SECTOR_ENTRIES * 8)
}

impl Map {
    /// A map without mapped blocks.
    pub fn new(slices: u32) -> Map {
        let empty = Arc::new([0; SECTOR_BYTES]);
        Map { sectors: vec![empty; slices as usize * SLICE_SECTORS] }
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Entry {
        let (sector, byte) = locate(at);
        Entry::decode(&self.sectors[sector][byte..byte + 8])
    }

    /// Puts a block elsewhere; returns where it was.
    pub fn replace(&mut self, at: BlockNr, entry: Entry) -> Entry {
        let (sector, byte) = locate(at);
        let bytes = &self.sectors[sector][byte..byte + 8];
        let old = Entry::decode(bytes);
        if old != entry {
            let bytes = &mut Arc::make_mut(&mut self.sectors[sector])[byte..byte + 8];
            bytes.copy_from_slice(&entry.encode());
        }
        old
    }

    /// Where the blocks of a range lie.
    pub fn range(&self, at: BlockNr, count: u64) -> impl Iterator<Item = Entry> + '_ {
        (at..at + count).map(|block| self.get(block))
    }

    /// The sectors of a slice.
    pub fn slice(&self, slice: SliceNr) -> &[Arc<SectorBytes>] {
        &self.sectors[slice as usize * SLICE_SECTORS..][..SLICE_SECTORS]
    }

    /// Takes the sectors of a slice over from a map block.
    pub fn load(&mut self, slice: SliceNr, entries: &[u8]) {
        let own = &mut self.sectors[slice as usize * SLICE_SECTORS..][..SLICE_SECTORS];
        for (sector, bytes) in own.iter_mut().zip(entries.as_chunks::<SECTOR_BYTES>().0) {
            if **sector != *bytes {
                *sector = Arc::new(*bytes);
            }
        }
    }

    /// How many of at most `limit` blocks from `at` on are mapped like the first one: all or none.
    pub fn extent(&self, at: BlockNr, limit: u64) -> (bool, u64) {
        let mapped = self.get(at).is_mapped();
        let length = self.range(at, limit).position(|entry| entry.is_mapped() != mapped);
        (mapped, length.map_or(limit, |length| length as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stay_away_from_sectors_that_others_hold() {
        let mut map = Map::new(2);
        let entry = Entry::new(7, false, 9);
        assert_eq!(map.replace(450, entry), Entry::UNMAPPED);
        let held: Vec<Arc<SectorBytes>> = map.slice(1).to_vec();
        assert_eq!(map.replace(450, Entry::new(8, false, 9)), entry);
        assert_eq!(held[0][16..24], entry.encode());
        assert_eq!(map.get(450), Entry::new(8, false, 9));
        assert_eq!(map.get(2), Entry::UNMAPPED, "empty sectors are shared, changes are not");
        assert_eq!(map.extent(440, 20), (false, 10));
        assert_eq!(map.extent(450, 20), (true, 1));
        let mut copy = Map::new(2);
        let bytes: Vec<u8> = map.slice(1).iter().flat_map(|sector| sector.to_vec()).collect();
        copy.load(1, &bytes);
        assert_eq!(copy.get(450), Entry::new(8, false, 9));
    }
}
