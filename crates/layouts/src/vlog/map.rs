//! The map in memory: where each logical block lies, slice by slice, and the map blocks made of it.
//!
//! A map block has all entries of its slice, and differs from the one before in few of them. So it
//! is not written out when it is made: it remembers what changed since the one before, and is put
//! together when its bytes are read. A device that stores bytes does at once; on a simulated
//! disk nearly all map blocks are superseded unread.

use super::format::{Changed, Entry, Header, SLICE_ENTRIES, entry_bytes, seal_map};
use super::tree::SliceNr;
use crate::eager::Mapped;
use seekless_engine::checksum::Identity;
use seekless_engine::data::Lazy;
use seekless_engine::units::BlockNr;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// Map blocks in a row that name the one before; then follows one with a copy of all entries. Few,
/// since superseded map blocks are kept as long as a later one names them.
const LONGEST_CHAIN: u8 = 14;
/// More changes than this are not listed: the map block has a copy of all entries.
const MOST_CHANGES: u32 = 16;

/// All entries of a slice.
type Entries = [Entry; SLICE_ENTRIES];

/// The map.
#[derive(Clone)]
pub(super) struct Map {
    /// `None` where no block was ever mapped.
    slices: Vec<Option<Box<Slice>>>,
}

#[derive(Clone)]
struct Slice {
    entries: Entries,
    /// What changed since the last map block.
    changed: Changed,
    /// The last map block, while a device keeps it as it is. One that stores bytes does not.
    last: Weak<MapBlock>,
}

/// A map block as it is on the device, or on its way there.
pub(super) struct MapBlock {
    id: Identity,
    place: u32,
    header: Header,
    basis: Basis,
    /// Entries that differ from the basis.
    changes: SmallVec<[(u16, Entry); 1]>,
    /// Map blocks down to one with a copy.
    chain: u8,
}

/// What the entries of a map block are compared with.
enum Basis {
    /// A copy of all of them.
    Copy(Box<Entries>),
    /// The map block of the slice before.
    Before(Arc<MapBlock>),
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "map of {} slices", self.slices.len())
    }
}

/// Slice, and index in it, of a block's entry.
fn locate(at: BlockNr) -> (usize, usize) {
    let at = at as usize;
    (at / SLICE_ENTRIES, at % SLICE_ENTRIES)
}

impl Slice {
    fn empty() -> Box<Slice> {
        Box::new(Slice {
            entries: [Entry::UNMAPPED; SLICE_ENTRIES],
            changed: Changed::default(),
            last: Weak::new(),
        })
    }
}

impl Map {
    /// A map without mapped blocks.
    pub fn new(slices: u32) -> Map {
        Map { slices: vec![None; slices as usize] }
    }

    /// Where a block lies.
    pub fn get(&self, at: BlockNr) -> Entry {
        let (slice, index) = locate(at);
        self.slices[slice].as_ref().map_or(Entry::UNMAPPED, |slice| slice.entries[index])
    }

    /// Puts a block elsewhere, for the next map block to say so. Returns where it was, and true
    /// if that is the first change of its slice since the last map block.
    pub fn change(&mut self, at: BlockNr, entry: Entry) -> (Entry, bool) {
        let (slice, index) = locate(at);
        if self.slices[slice].is_none() && !entry.is_mapped() {
            return (Entry::UNMAPPED, false);
        }
        let slice = self.slices[slice].get_or_insert_with(Slice::empty);
        let old = std::mem::replace(&mut slice.entries[index], entry);
        if old == entry {
            return (old, false);
        }
        let first = slice.changed.iter().all(|&word| word == 0);
        slice.changed[index / 64] |= 1 << (index % 64);
        (old, first)
    }

    /// The first block in `at..end` that may be mapped: slices without mapped blocks are passed
    /// over, each at once.
    pub fn next_mapped(&self, at: BlockNr, end: BlockNr) -> Option<BlockNr> {
        let mut at = at;
        while at < end {
            let (slice, index) = locate(at);
            let rest = (SLICE_ENTRIES - index).min((end - at) as usize);
            if let Some(slice) = &self.slices[slice] {
                let entries = &slice.entries[index..index + rest];
                if let Some(index) = entries.iter().position(|entry| entry.is_mapped()) {
                    return Some(at + index as BlockNr);
                }
            }
            at += rest as BlockNr;
        }
        None
    }

    /// Puts a block back to where it was, without a map block to say so: no more will be written.
    pub fn restore(&mut self, at: BlockNr, entry: Entry) {
        let (slice, index) = locate(at);
        self.slices[slice].get_or_insert_with(Slice::empty).entries[index] = entry;
    }

    /// Where the blocks of a range lie.
    pub fn range(&self, at: BlockNr, count: u64) -> impl Iterator<Item = Entry> + '_ {
        (at..at + count).map(|block| self.get(block))
    }

    /// What changed of a slice since its last map block; the next one is about to say so.
    pub fn take_changed(&mut self, slice: SliceNr) -> Changed {
        let slice = self.slices[slice as usize].as_mut();
        slice.map_or_else(Changed::default, |slice| std::mem::take(&mut slice.changed))
    }

    /// The map block with this header, of volume `id`, that is to lie at `place`. The header says
    /// what changed since the last one of its slice.
    #[inline(always)]
    pub fn block(&mut self, id: Identity, place: u32, header: Header) -> Arc<MapBlock> {
        debug_assert_ne!(place, 0, "block 0 is the superblock");
        let slice = self.slices[header.slice as usize].get_or_insert_with(Slice::empty);
        let count: u32 = header.changed.iter().map(|word| word.count_ones()).sum();
        let before = slice
            .last
            .upgrade()
            .filter(|before| before.chain < LONGEST_CHAIN && count <= MOST_CHANGES);
        let mut changes = SmallVec::new();
        let (basis, chain) = match before {
            Some(before) => {
                for (word, first) in header.changed.iter().zip((0..).step_by(64)) {
                    let mut left = *word;
                    while left != 0 {
                        let index = first + left.trailing_zeros() as usize;
                        changes.push((index as u16, slice.entries[index]));
                        left &= left - 1;
                    }
                }
                let chain = before.chain + 1;
                (Basis::Before(before), chain)
            }
            None => (Basis::Copy(Box::new(slice.entries)), 0),
        };
        let block = Arc::new(MapBlock { id, place, header, basis, changes, chain });
        slice.last = Arc::downgrade(&block);
        block
    }

    /// Takes the entries of a slice over from a map block on the device.
    pub fn load(&mut self, slice: SliceNr, entries: impl Iterator<Item = Entry>) {
        let slice = self.slices[slice as usize].get_or_insert_with(Slice::empty);
        for (own, entry) in slice.entries.iter_mut().zip(entries) {
            *own = entry;
        }
    }

    /// How many of at most `limit` blocks from `at` on are mapped like the first one: all or none.
    pub fn extent(&self, at: BlockNr, limit: u64) -> (bool, u64) {
        let mapped = self.get(at).is_mapped();
        debug_assert!(limit > 0, "an extent of nothing");
        if !mapped {
            return (false, self.next_mapped(at, at + limit).map_or(limit, |next| next - at));
        }
        let length = self.range(at, limit).position(|entry| entry.is_mapped() != mapped);
        (mapped, length.map_or(limit, |length| length as u64))
    }
}

impl MapBlock {
    /// Everything in it but its entries.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where it is to lie.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// The same map block at another place.
    pub fn moved(self: &Arc<MapBlock>, place: u32) -> Arc<MapBlock> {
        self.again(place, self.header.clone())
    }

    /// The same map block, with its pointer to map block `sequence` going to another place.
    pub fn pointing(self: &Arc<MapBlock>, sequence: u64, to: u32) -> Arc<MapBlock> {
        let mut header = self.header.clone();
        for pointer in header.pointers.iter_mut().filter(|one| one.sequence == sequence) {
            pointer.place = to;
        }
        self.again(self.place, header)
    }

    fn again(self: &Arc<MapBlock>, place: u32, header: Header) -> Arc<MapBlock> {
        let (basis, changes) = (Basis::Before(self.clone()), SmallVec::new());
        Arc::new(MapBlock { id: self.id, place, header, basis, changes, chain: self.chain + 1 })
    }

    fn render_entries(&self, out: &mut [u8]) {
        match &self.basis {
            Basis::Copy(all) => {
                for (out, entry) in out.as_chunks_mut().0.iter_mut().zip(all.iter()) {
                    *out = entry.encode();
                }
            }
            Basis::Before(before) => before.render_entries(out),
        }
        for &(index, entry) in &self.changes {
            out[usize::from(index) * 8..][..8].copy_from_slice(&entry.encode());
        }
    }
}

impl Lazy for MapBlock {
    fn render(&self, out: &mut [u8]) {
        self.render_entries(entry_bytes(out));
        seal_map(self.id, self.place, &self.header, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vlog::format::{decode_header, entries};
    use seekless_engine::checksum::Sums;
    use seekless_engine::data::{Body, Piece};
    use seekless_engine::rng::Rng;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    fn header(slice: SliceNr, sequence: u64, changed: Changed) -> Header {
        Header {
            sequence,
            commit: sequence,
            previous: sequence - 1,
            durable: 0,
            digest: 7,
            slice,
            index: 0,
            members: 1,
            changed,
            pointers: SmallVec::new(),
        }
    }

    /// Map blocks that were made long ago have the entries of then, whatever happened since.
    #[test]
    fn map_blocks_keep_what_they_said() {
        let mut rng = Rng::stream(3, "map blocks");
        let mut map = Map::new(2);
        let mut made = Vec::new();
        for sequence in 1..200 {
            let slice = rng.below(2) as SliceNr;
            let first = u64::from(slice) * SLICE_ENTRIES as u64;
            let changes = [0, 1, 1, 2, 9, 30][rng.below(6) as usize];
            for number in 0..changes {
                let at = first + rng.below(SLICE_ENTRIES as u64);
                let place = (sequence * 100 + number) as u32;
                let entry = match rng.below(5) {
                    0 => Entry::UNMAPPED,
                    _ => Entry::new(place, false, place * 3),
                };
                let before = map.get(at);
                assert_eq!(map.change(at, entry).0, before);
                assert_eq!(map.get(at), entry);
            }
            let changed = map.take_changed(slice);
            assert_eq!(map.take_changed(slice), Changed::default());
            let place = sequence as u32 + 50;
            let block = map.block(id(9), place, header(slice, sequence, changed));
            let then: Vec<Entry> = map.range(first, SLICE_ENTRIES as u64).collect();
            made.push((place, header(slice, sequence, changed), block, then));
        }
        for (place, header, block, then) in made {
            let bytes = Piece::block(Body::Lazy(block)).to_bytes();
            assert_eq!(decode_header(id(9), place, &bytes), Some(header));
            assert_eq!(entries(&bytes).collect::<Vec<_>>(), then);
        }
    }

    /// A trim of what was never written takes no memory.
    #[test]
    fn slices_without_blocks_stay_away() {
        let mut map = Map::new(1 << 20);
        let entries = SLICE_ENTRIES as u64;
        assert_eq!(map.change(700 * entries + 3, Entry::UNMAPPED), (Entry::UNMAPPED, false));
        assert!(map.slices[700].is_none());
        assert_eq!(map.next_mapped(0, entries << 20), None);
        map.change(700 * entries + 3, Entry::new(7, false, 9));
        assert_eq!(map.next_mapped(5, entries << 20), Some(700 * entries + 3));
        assert_eq!(map.next_mapped(700 * entries + 4, 702 * entries), None);
        assert_eq!(map.extent(0, entries << 20), (false, 700 * entries + 3));
    }

    #[test]
    fn the_first_change_of_a_slice_is_told() {
        let mut map = Map::new(2);
        let entry = Entry::new(7, false, 9);
        assert_eq!(map.change(450, Entry::UNMAPPED), (Entry::UNMAPPED, false));
        assert_eq!(map.change(450, entry), (Entry::UNMAPPED, true));
        assert_eq!(map.change(451, entry), (Entry::UNMAPPED, false));
        assert_eq!(map.extent(440, 20), (false, 10));
        assert_eq!(map.extent(450, 20), (true, 2));
        assert_eq!(map.take_changed(1)[0], 0b1100);
        assert_eq!(map.change(450, Entry::new(8, false, 9)), (entry, true));
        let mut copy = Map::new(2);
        copy.load(1, map.range(448, 448));
        assert_eq!(copy.get(450), Entry::new(8, false, 9));
        assert_eq!(copy.change(450, entry), (Entry::new(8, false, 9), true));
    }
}
