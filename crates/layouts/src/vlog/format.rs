//! Bytes of the virtual log on disk: map blocks and the tail record. `SPEC.md` has the tables.

use crate::eager::Mapped;
use bytes::Bytes;
use seekless_engine::checksum::{Identity, are_zeros, mix};
use seekless_engine::data::Piece;
use seekless_engine::edge::Edge;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use smallvec::SmallVec;
use std::fmt;

/// Map entries in a map block.
pub const SLICE_ENTRIES: usize = 448;
/// Log pointers that fit a map block.
pub const MAX_POINTERS: usize = 24;
/// First block of the pool that data and map blocks live in; the last block of the device is the
/// second superblock.
pub const POOL_START: u64 = 2;
/// Where the tail record lies.
pub const TAIL_BLOCK: u64 = 1;
/// Device blocks that are not in the pool: two superblocks and the tail record.
pub const FIXED_BLOCKS: u64 = 3;
/// Block numbers are 31 bits wide on disk, which bounds a device to 8 TiB.
pub const MAX_DEVICE_BLOCKS: u64 = 1 << 31;

/// What map blocks begin with.
pub const MAP_MAGIC: [u8; 8] = *b"SKLSMAP1";
const TAIL_MAGIC: [u8; 8] = *b"SKLSTAIL";
const CHANGED_AT: usize = 96;
const POINTERS_AT: usize = 152;
const ENTRIES_CRC_AT: usize = 84;
const MAP_CRC_AT: usize = 508;
const ENTRIES_AT: usize = 512;
const TAIL_CRC_AT: usize = BLOCK_BYTES - 4;

const _: () = assert!(CHANGED_AT + SLICE_ENTRIES / 8 == POINTERS_AT);
const _: () = assert!(POINTERS_AT + MAX_POINTERS * 12 <= MAP_CRC_AT);
const _: () = assert!(ENTRIES_AT + SLICE_ENTRIES * 8 == BLOCK_BYTES);
const _: () = assert!(ENTRIES_AT == SECTOR_BYTES);

/// Where a logical block lies and what it holds: device block in bits 0–30, the escape mark in
/// bit 31, the checksum of the content in bits 32–63. Zero is an unmapped block, which reads as
/// zeros (device block 0 holds the superblock, so it never is a place for data).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The block is not stored.
    pub const UNMAPPED: Entry = Entry(0);

    /// A stored block.
    pub fn new(place: u32, escaped: bool, checksum: u32) -> Entry {
        debug_assert!(place != 0 && u64::from(place) < MAX_DEVICE_BLOCKS);
        let bits = u64::from(checksum) << 32 | u64::from(escaped) << 31 | u64::from(place);
        Entry(bits)
    }

    /// The same block, stored elsewhere as it is.
    pub fn moved(self, place: u32) -> Entry {
        Entry::new(place, self.escaped(), self.checksum())
    }

    /// As it lies on disk.
    pub fn encode(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// From the eight bytes on disk.
    pub fn decode(bytes: &[u8]) -> Entry {
        Entry(le64(bytes, 0))
    }
}

impl Mapped for Entry {
    fn is_mapped(self) -> bool {
        self.place() != 0
    }

    fn place(self) -> u32 {
        self.0 as u32 & 0x7fff_ffff
    }

    fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// See [`looks_like_map`].
    fn escaped(self) -> bool {
        self.0 & (1 << 31) != 0
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:08x}", self.place(), self.checksum())
    }
}

/// One bit per entry of a slice.
pub type Changed = [u64; SLICE_ENTRIES / 64];

/// A pointer to an older map block: where it lies and which sequence number it must have. A
/// pointer whose target carries another number is dead: the block has been reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Device block.
    pub place: u32,
    /// Expected sequence number.
    pub sequence: u64,
}

/// Everything in a map block but its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of this map block in the log; unique and increasing.
    pub sequence: u64,
    /// Commit it belongs to.
    pub commit: u64,
    /// The commit before that one.
    pub previous: u64,
    /// All commits up to this one were durable when the block was written.
    pub durable: u64,
    /// Exclusive or of [`live_mark`] over all live map blocks once this commit holds.
    pub digest: u64,
    /// Slice of the map it holds: entries `slice * SLICE_ENTRIES ..`.
    pub slice: u32,
    /// Its place in the commit, from 0.
    pub index: u32,
    /// Map blocks in the commit.
    pub members: u32,
    /// Which entries this commit changed.
    pub changed: Changed,
    /// Older map blocks: the log tree.
    pub pointers: SmallVec<[Pointer; 4]>,
}

/// What a live map block adds to the digest of the live set (a fixed 64-bit mixing function).
pub fn live_mark(slice: u32, sequence: u64) -> u64 {
    mix(sequence ^ (u64::from(slice) << 40) ^ 0x9e37_79b9_7f4a_7c15)
}

/// Writes everything of a map block but its entries, which are there already.
pub fn seal_map(id: Identity, place: u32, header: &Header, out: &mut [u8]) {
    assert!(header.pointers.len() <= MAX_POINTERS && out.len() == BLOCK_BYTES);
    let sum = id.sum(&out[ENTRIES_AT..]);
    let out = &mut out[..ENTRIES_AT];
    out.fill(0);
    out[0..8].copy_from_slice(&MAP_MAGIC);
    out[8..24].copy_from_slice(&id.to_le_bytes());
    out[24..32].copy_from_slice(&header.sequence.to_le_bytes());
    out[32..40].copy_from_slice(&header.commit.to_le_bytes());
    out[40..48].copy_from_slice(&header.previous.to_le_bytes());
    out[48..56].copy_from_slice(&header.durable.to_le_bytes());
    out[56..64].copy_from_slice(&header.digest.to_le_bytes());
    out[64..68].copy_from_slice(&header.slice.to_le_bytes());
    out[68..72].copy_from_slice(&header.index.to_le_bytes());
    out[72..76].copy_from_slice(&header.members.to_le_bytes());
    out[76..80].copy_from_slice(&place.to_le_bytes());
    out[80..84].copy_from_slice(&(header.pointers.len() as u32).to_le_bytes());
    out[ENTRIES_CRC_AT..ENTRIES_CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
    for (word, at) in header.changed.iter().zip((CHANGED_AT..).step_by(8)) {
        out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    for (pointer, at) in header.pointers.iter().zip((POINTERS_AT..).step_by(12)) {
        out[at..at + 4].copy_from_slice(&pointer.place.to_le_bytes());
        out[at + 4..at + 12].copy_from_slice(&pointer.sequence.to_le_bytes());
    }
    let sum = id.sum(&out[..MAP_CRC_AT]);
    out[MAP_CRC_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// True if a block starts like a map block of this volume. Client data that does is stored with
/// its first byte inverted ("escaped"), so that a scan can never take it for a map block: a copy
/// of the image kept on the volume itself would otherwise corrupt it after a crash.
pub fn looks_like_map(id: Identity, block: &[u8]) -> bool {
    block[0..8] == MAP_MAGIC && Edge::VlogMapOwner.allows(block[8..24] == id.to_le_bytes())
}

/// Reads the header of a map block that lies at `place`; `None` if it is not a whole map block of
/// this volume written for that place.
pub fn decode_header(id: Identity, place: u32, block: &[u8]) -> Option<Header> {
    if !looks_like_map(id, block) || !Edge::VlogMapPlace.allows(le32(block, 76) == place) {
        return None;
    }
    let header = id.sum(&block[..MAP_CRC_AT]) == le32(block, MAP_CRC_AT);
    let entries = || id.sum(&block[ENTRIES_AT..]) == le32(block, ENTRIES_CRC_AT);
    if !Edge::VlogMapSum.allows(header) || !Edge::VlogEntriesSum.allows(entries()) {
        return None;
    }
    let pointers = le32(block, 80) as usize;
    if pointers > MAX_POINTERS {
        return None;
    }
    let mut changed = Changed::default();
    for (word, at) in changed.iter_mut().zip((CHANGED_AT..).step_by(8)) {
        *word = le64(block, at);
    }
    let pointer = |index: usize| {
        let at = POINTERS_AT + index * 12;
        Pointer { place: le32(block, at), sequence: le64(block, at + 4) }
    };
    Some(Header {
        sequence: le64(block, 24),
        commit: le64(block, 32),
        previous: le64(block, 40),
        durable: le64(block, 48),
        digest: le64(block, 56),
        slice: le32(block, 64),
        index: le32(block, 68),
        members: le32(block, 72),
        changed,
        pointers: (0..pointers).map(pointer).collect(),
    })
}

/// The entries of a map block.
pub fn entries(block: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    block[ENTRIES_AT..].chunks_exact(8).map(Entry::decode)
}

/// The entries of a map block as they lie in it.
pub fn entry_bytes(block: &mut [u8]) -> &mut [u8] {
    &mut block[ENTRIES_AT..]
}

/// What a clean shutdown leaves: where the log starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The youngest map block; place 0 if the map is empty.
    pub root: Pointer,
    /// Sequence number of the next map block.
    pub next_sequence: u64,
    /// The last commit.
    pub commit: u64,
    /// Digest of the live set, see [`Header::digest`].
    pub digest: u64,
    /// Number of live map blocks.
    pub live: u32,
}

impl Tail {
    /// The tail record as it lies on disk.
    pub fn encode(&self, id: Identity) -> Bytes {
        let mut out = vec![0; BLOCK_BYTES];
        out[0..8].copy_from_slice(&TAIL_MAGIC);
        out[8..24].copy_from_slice(&id.to_le_bytes());
        out[24..32].copy_from_slice(&self.root.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.next_sequence.to_le_bytes());
        out[40..48].copy_from_slice(&self.commit.to_le_bytes());
        out[48..56].copy_from_slice(&self.digest.to_le_bytes());
        out[56..60].copy_from_slice(&self.root.place.to_le_bytes());
        out[60..64].copy_from_slice(&self.live.to_le_bytes());
        let sum = id.sum(&out[..TAIL_CRC_AT]);
        out[TAIL_CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        Bytes::from(out)
    }

    /// Reads the record; `None` if it is absent, damaged or another volume's.
    pub fn decode(id: Identity, block: &[u8]) -> Option<Tail> {
        let ours = block[0..8] == TAIL_MAGIC && block[8..24] == id.to_le_bytes();
        let whole = ours && id.sum(&block[..TAIL_CRC_AT]) == le32(block, TAIL_CRC_AT);
        if !ours || !Edge::VlogTailSum.allows(whole) {
            return None;
        }
        Some(Tail {
            root: Pointer { place: le32(block, 56), sequence: le64(block, 24) },
            next_sequence: le64(block, 32),
            commit: le64(block, 40),
            digest: le64(block, 48),
            live: le32(block, 60),
        })
    }
}

/// True if a block may be where the tail record is: one, or zeros, which say that there is none. No
/// copy that holds one is to be believed rather than those.
pub fn may_be_tail(id: Identity, block: &Piece) -> bool {
    let bytes = block.to_bytes();
    are_zeros(&bytes) || Tail::decode(id, &bytes).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::checksum::Sums;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    fn sample() -> Header {
        Header {
            sequence: 77,
            commit: 12,
            previous: 10,
            durable: 9,
            digest: 0xdead_beef,
            slice: 3,
            index: 1,
            members: 2,
            changed: [1, 0, 0, 5, 0, 0, 1 << 63],
            pointers: (0..MAX_POINTERS as u32)
                .map(|place| Pointer { place, sequence: u64::from(place) * 7 })
                .collect(),
        }
    }

    /// The map block of volume 5 at place 99.
    fn block(header: &Header, entries: &[Entry]) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        for (out, entry) in entry_bytes(&mut block).chunks_exact_mut(8).zip(entries) {
            out.copy_from_slice(&entry.encode());
        }
        seal_map(id(5), 99, header, &mut block);
        block
    }

    #[test]
    fn map_blocks_come_back() {
        let written: Vec<Entry> =
            (1..=SLICE_ENTRIES as u32).map(|at| Entry::new(at, at % 3 == 0, at * 77)).collect();
        let block = block(&sample(), &written);
        assert_eq!(decode_header(id(5), 99, &block), Some(sample()));
        assert_eq!(entries(&block).collect::<Vec<_>>(), written);
        assert_eq!(decode_header(id(6), 99, &block), None, "another volume's");
        assert_eq!(decode_header(id(5), 98, &block), None, "a copy at another place");
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let block = block(&sample(), &[Entry::new(4, false, 4)]);
        let tail = Tail {
            root: Pointer { place: 3, sequence: 4 },
            next_sequence: 5,
            commit: 6,
            digest: 7,
            live: 8,
        };
        let record = tail.encode(id(5));
        assert_eq!(Tail::decode(id(5), &record), Some(tail));
        for at in 0..BLOCK_BYTES {
            let mut bad = block.clone();
            bad[at] ^= 1;
            assert_eq!(decode_header(id(5), 99, &bad), None, "map byte {at}");
            let mut bad = record.to_vec();
            bad[at] ^= 1;
            assert_eq!(Tail::decode(id(5), &bad), None, "tail byte {at}");
        }
    }
}
