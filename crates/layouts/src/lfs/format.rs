//! Bytes of the log-structured layouts on disk: summaries of parts, map blocks, checkpoint records.
//! `SPEC.md` has the tables.

use super::repeat::{self, Named};
use bytes::Bytes;
use seekless_engine::arm::Arm;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::Body;
use seekless_engine::data::sealed::Sealed;
use seekless_engine::edge::Edge;
use seekless_engine::io::Expected;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::{BLOCK_BYTES, BlockNr, Time};
use smallvec::smallvec;
use std::fmt;

/// Device blocks that are no fixed area and no segment: the two superblocks.
const SUPERBLOCKS: u64 = 2;
/// Places of blocks are below this: the numbers above it stand for slots of the write buffer. Four
/// TiB less 4 GiB.
pub const MAX_DEVICE_BLOCKS: u64 = (1 << 30) - (1 << 20);
/// Map entries in a map block, and map blocks named by an index block.
pub const MAP_ENTRIES: usize = BLOCK_BYTES / 8;
/// Smallest and largest segment, in blocks.
pub const SEGMENT_BLOCKS: std::ops::RangeInclusive<u32> = 8..=4096;
/// Where the next part may begin: at most so many places.
pub const WAYS: usize = 4;

const SUMMARY_MAGIC: [u8; 8] = *b"SKLSSEG1";
const RECORD_MAGIC: [u8; 8] = *b"SKLSCKPT";
const CRC_AT: usize = BLOCK_BYTES - 4;
/// One more than the words behind the items; 0 if there are none.
const REPEATED_AT: usize = 88;
const ITEMS_AT: usize = 96;
const ITEM_BYTES: usize = 9;
/// Room for items in a summary, in bytes.
pub const ITEMS_ROOM: usize = CRC_AT - ITEMS_AT;
/// Items that fit a summary, at most.
pub const MOST_ITEMS: usize = ITEMS_ROOM / ITEM_BYTES;
/// The bit of the superblock's options that says that holes may be plugged: version 2.
pub const PLUGGABLE: u32 = 1 << 8;
/// The bit that says that segments begin at multiples of their size: version 3.
pub const ALIGNED: u32 = 1 << 9;
const ROOTS_AT: usize = 96;
/// Index blocks named by a block of a checkpoint record.
pub const ROOTS: usize = (CRC_AT - ROOTS_AT) / 8;
const _: () = assert!(MAP_ENTRIES == 512 && MOST_ITEMS == 444 && ROOTS == 499);
/// Numbers that count up stay below this: no volume lives to see it. What says otherwise is forged.
pub const NUMBER_LIMIT: u64 = 1 << 62;

const UNCHECKED: u32 = 1 << 30;
const ESCAPED: u32 = 1 << 31;
const PLACE: u32 = UNCHECKED - 1;

/// Where a block lies and what it holds: device block in bits 0–29, bit 30 set if its content is
/// not checked, bit 31 if it is escaped, checksum of the stored bytes in bits 32–63. Zero is a
/// block that is not stored.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The block is not stored and reads as zeros.
    pub const UNMAPPED: Entry = Entry(0);

    /// A stored block.
    pub fn new(place: u32, mark: Mark, checksum: u32) -> Entry {
        debug_assert!(place != 0 && place <= PLACE);
        Entry(u64::from(checksum) << 32 | u64::from(mark.bits() | place))
    }

    /// From what it says beside the checksum, and the checksum.
    pub fn of(word: u32, checksum: u32) -> Entry {
        Entry(u64::from(checksum) << 32 | u64::from(word))
    }

    /// What it says beside the checksum; not 0 if the block is stored.
    pub fn word(self) -> u32 {
        self.0 as u32
    }

    /// The same content at another place.
    pub fn moved(self, place: u32) -> Entry {
        Entry::new(place, self.mark(), self.checksum())
    }

    /// Device block; 0 if not stored.
    pub fn place(self) -> u32 {
        self.0 as u32 & PLACE
    }

    /// How the content is kept.
    pub fn mark(self) -> Mark {
        Mark::of(self.0 as u32)
    }

    /// Checksum of the bytes as stored; means nothing if the mark says so.
    pub fn checksum(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The checksum, if it means anything.
    pub fn known_sum(self) -> Option<u32> {
        (!self.mark().unchecked).then(|| self.checksum())
    }

    /// What is known of the block, to read it from a device with copies.
    pub fn expected(self, sums: Sums) -> Expected {
        Expected { sums, each: smallvec![self.known_sum()] }
    }

    /// True if the block is stored.
    pub fn is_mapped(self) -> bool {
        self.0 != 0
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

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:08x}", self.place(), self.checksum())
    }
}

/// How the content of a stored block is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The first byte is stored inverted; see [`looks_like_ours`].
    pub escaped: bool,
    /// The block may have been overwritten where it lies: its checksum means nothing.
    pub unchecked: bool,
}

impl Mark {
    fn of(bits: u32) -> Mark {
        Mark { escaped: bits & ESCAPED != 0, unchecked: bits & UNCHECKED != 0 }
    }

    fn bits(self) -> u32 {
        (if self.escaped { ESCAPED } else { 0 }) | (if self.unchecked { UNCHECKED } else { 0 })
    }
}

/// What a summary says of a block of its part, or of a range of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The next block of the part holds this block of the volume.
    Data {
        /// Block of the volume.
        block: u32,
        /// How its content is kept.
        mark: Mark,
        /// Checksum of the bytes as stored.
        checksum: u32,
    },
    /// Blocks of the volume are not stored.
    Zeros {
        /// The first of them.
        block: u32,
        /// How many.
        count: u32,
    },
    /// The next block of the part is a map block.
    Map {
        /// Which slice of the map.
        slice: u32,
        /// Checksum of the block.
        checksum: u32,
    },
    /// The next block of the part is an index block.
    Index {
        /// Which.
        index: u32,
        /// Checksum of the block.
        checksum: u32,
    },
    /// A block of the volume has moved to a hole in another segment.
    Plug {
        /// Block of the volume.
        block: u32,
        /// How its content is kept.
        mark: Mark,
        /// Checksum of the bytes as stored.
        checksum: u32,
        /// Device block where it lies now.
        place: u32,
    },
}

impl Item {
    /// Bytes that it takes in a summary.
    pub fn bytes(self) -> usize {
        if let Item::Plug { .. } = self { ITEM_BYTES + 4 } else { ITEM_BYTES }
    }

    fn encode(self, out: &mut [u8]) {
        let (kind, first, second) = match self {
            Item::Data { block, mark, checksum } => (1, block | mark.bits(), checksum),
            Item::Zeros { block, count } => (2, block, count),
            Item::Map { slice, checksum } => (3, slice, checksum),
            Item::Index { index, checksum } => (4, index, checksum),
            Item::Plug { block, mark, checksum, place } => {
                out[9..13].copy_from_slice(&place.to_le_bytes());
                (5, block | mark.bits(), checksum)
            }
        };
        out[0] = kind;
        out[1..5].copy_from_slice(&first.to_le_bytes());
        out[5..9].copy_from_slice(&second.to_le_bytes());
    }

    /// The item at the beginning of `bytes`, of which there are at least as many as any item has.
    fn decode(bytes: &[u8]) -> Option<Item> {
        let (first, second) = (le32(bytes, 1), le32(bytes, 5));
        let (block, mark, checksum) = (first & PLACE, Mark::of(first), second);
        Some(match bytes[0] {
            1 => Item::Data { block, mark, checksum },
            2 => Item::Zeros { block: first, count: second },
            3 => Item::Map { slice: first, checksum },
            4 => Item::Index { index: first, checksum },
            5 => Item::Plug { block, mark, checksum, place: le32(bytes, 9) },
            _ => return None,
        })
    }

    /// The blocks of the volume that it names: the first one, and how many.
    pub fn named(self) -> Option<(u32, u32)> {
        match self {
            Item::Data { block, .. } | Item::Plug { block, .. } => Some((block, 1)),
            Item::Zeros { block, count } => Some((block, count)),
            Item::Map { .. } | Item::Index { .. } => None,
        }
    }

    /// The checksum of the block of the part that the item stands for, if it stands for one.
    pub fn in_part(self) -> Option<u32> {
        match self {
            Item::Data { checksum, .. }
            | Item::Map { checksum, .. }
            | Item::Index { checksum, .. } => Some(checksum),
            Item::Zeros { .. } | Item::Plug { .. } => None,
        }
    }
}

/// What names a part to its successor: the mount that wrote it and the checksum of its summary.
/// No part of an earlier mount can follow one of a later mount by accident.
pub type Link = u64;

/// The first block of a part: what the part holds and how the log goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of the part in the log.
    pub sequence: u64,
    /// The part before this one.
    pub link: Link,
    /// All parts up to this one were durable when this was written.
    pub durable: u64,
    /// Number of the mount that wrote it.
    pub mount: u32,
    /// The part ends a commit: it takes hold with all parts since the last one that does.
    pub ends: bool,
    /// Number of the last durable checkpoint.
    pub checkpoint: u64,
    /// Where the next part may begin; 0 where there is no such place.
    pub ways: [u32; WAYS],
    /// What it holds.
    pub items: Vec<Item>,
    /// What the part before names; nothing if there is no room for it, behind a checkpoint or a
    /// mount, and in parts of older programs.
    pub before: Option<Named>,
}

impl Summary {
    /// The block as it is to lie at `place`, and the link that the next part names it by.
    ///
    /// # Panics
    /// If there are more items than fit.
    pub fn encode(&self, id: Identity, place: u32) -> (Body, Link) {
        let items: usize = self.items.iter().map(|item| item.bytes()).sum();
        assert!(items <= ITEMS_ROOM);
        let before = self.before.as_ref().map(repeat::encode);
        let before = before.filter(|words| items + words.len() <= ITEMS_ROOM);
        let mut out = vec![0; ITEMS_AT + items];
        out[0..8].copy_from_slice(&SUMMARY_MAGIC);
        out[8..24].copy_from_slice(&id.to_le_bytes());
        out[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        out[32..40].copy_from_slice(&self.link.to_le_bytes());
        out[40..48].copy_from_slice(&self.durable.to_le_bytes());
        out[48..56].copy_from_slice(&self.checkpoint.to_le_bytes());
        out[56..60].copy_from_slice(&self.mount.to_le_bytes());
        out[60..64].copy_from_slice(&place.to_le_bytes());
        out[64..68].copy_from_slice(&(self.items.len() as u32).to_le_bytes());
        out[68..72].copy_from_slice(&u32::from(self.ends).to_le_bytes());
        for (way, at) in self.ways.iter().zip((72..).step_by(4)) {
            out[at..at + 4].copy_from_slice(&way.to_le_bytes());
        }
        let mut at = ITEMS_AT;
        for item in &self.items {
            item.encode(&mut out[at..at + item.bytes()]);
            at += item.bytes();
        }
        if let Some(words) = before {
            let count = 1 + (words.len() / 4) as u16;
            out[REPEATED_AT..REPEATED_AT + 2].copy_from_slice(&count.to_le_bytes());
            out.extend(words);
        }
        let block = Sealed::of_volume(id, out);
        let link = link(self.mount, block.sum());
        (block.into_body(), link)
    }

    /// Reads a summary that lies at `place` back, with its link; `None` if it is not a whole one of
    /// this volume written for that place.
    pub fn decode(id: Identity, place: u32, block: &[u8]) -> Option<(Summary, Link)> {
        let sum = le32(block, CRC_AT);
        let ours = block[0..8] == SUMMARY_MAGIC && block[8..24] == id.to_le_bytes();
        let placed = Edge::LfsSummaryPlace.allows(le32(block, 60) == place);
        if !ours || !placed || !Edge::LfsSummarySum.allows(id.sum(&block[..CRC_AT]) == sum) {
            return None;
        }
        let items = Summary::decode_items(le32(block, 64) as usize, block)?;
        let used: usize = items.iter().map(|item| item.bytes()).sum();
        let summary = Summary {
            sequence: le64(block, 24),
            link: le64(block, 32),
            durable: le64(block, 40),
            checkpoint: le64(block, 48),
            mount: le32(block, 56),
            ends: le32(block, 68) & 1 != 0,
            ways: std::array::from_fn(|way| le32(block, 72 + 4 * way)),
            items,
            before: Summary::decode_before(block, ITEMS_AT + used),
        };
        let sound = summary.sequence < NUMBER_LIMIT && summary.durable < summary.sequence;
        let link = link(summary.mount, sum);
        sound.then_some((summary, link))
    }

    /// What a block says of itself if it is a summary; its checksum is not compared.
    pub fn claims(block: &[u8]) -> Claims {
        Claims {
            sequence: le64(block, 24),
            link: le64(block, 32),
            durable: le64(block, 40),
            mount: le32(block, 56),
        }
    }

    fn decode_items(count: usize, block: &[u8]) -> Option<Vec<Item>> {
        if count > MOST_ITEMS {
            return None;
        }
        let mut items = Vec::with_capacity(count);
        let mut at = ITEMS_AT;
        for _ in 0..count {
            // The last four bytes of the block are no item's, but there to be looked at.
            if at + ITEM_BYTES > CRC_AT {
                return None;
            }
            let item = Item::decode(&block[at..BLOCK_BYTES.min(at + ITEM_BYTES + 4)])?;
            at += item.bytes();
            if at > CRC_AT {
                return None;
            }
            items.push(item);
        }
        Some(items)
    }

    fn decode_before(block: &[u8], from: usize) -> Option<Named> {
        let words = u16::from_le_bytes([block[REPEATED_AT], block[REPEATED_AT + 1]]);
        let end = from + 4 * usize::from(words.checked_sub(1)?);
        (end <= CRC_AT).then(|| repeat::decode(&block[from..end]))?
    }

    /// Blocks of the part behind its summary.
    pub fn blocks(&self) -> u32 {
        self.items.iter().filter(|item| item.in_part().is_some()).count() as u32
    }
}

/// What a block says of itself if it is a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Number of the part in the log.
    pub sequence: u64,
    /// The part before this one.
    pub link: Link,
    /// All parts up to this one were durable.
    pub durable: u64,
    /// Number of the mount that wrote it.
    pub mount: u32,
}

fn link(mount: u32, sum: u32) -> Link {
    u64::from(mount) << 32 | u64::from(sum)
}

/// True if a block starts like one of the log's own. Client data that does is stored with its
/// first byte inverted, so that a recovery never takes it for a summary.
pub fn looks_like_ours(id: Identity, block: &[u8]) -> bool {
    let magic = block[0..8] == SUMMARY_MAGIC || block[0..8] == RECORD_MAGIC;
    magic && block[8..24] == id.to_le_bytes()
}

/// Where the log goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the last part.
    pub sequence: u64,
    /// Its name to the next one.
    pub link: Link,
    /// Where the next one may begin; 0 where there is no such place.
    pub ways: [u32; WAYS],
}

/// How much of a log holds whatever is found later. Behind it only the last mount has written: what
/// an earlier one has left there was not taken by a recovery, and must not be by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Number of the last part that holds.
    pub sequence: u64,
    /// Its name to the next one.
    pub link: Link,
}

impl From<Position> for Judged {
    fn from(position: Position) -> Judged {
        Judged { sequence: position.sequence, link: position.link }
    }
}

/// A checkpoint: which index blocks name the map, and where the log goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number of the checkpoint.
    pub number: u64,
    /// Mounts for writing so far.
    pub mounts: u32,
    /// The volume was brought to a clean shutdown; nothing follows.
    pub clean: bool,
    /// Where the log goes on.
    pub start: Position,
    /// What of the log holds; nothing in records of older programs.
    pub judged: Option<Judged>,
    /// The index blocks; an entry without a place stands for one without map blocks.
    pub roots: Vec<Entry>,
}

impl Record {
    /// The blocks of the record.
    pub fn encode(&self, id: Identity) -> Bytes {
        let blocks = self.roots.len().div_ceil(ROOTS).max(1);
        let mut all = Vec::with_capacity(blocks * BLOCK_BYTES);
        for index in 0..blocks {
            let mut out = vec![0; BLOCK_BYTES];
            out[0..8].copy_from_slice(&RECORD_MAGIC);
            out[8..24].copy_from_slice(&id.to_le_bytes());
            out[24..32].copy_from_slice(&self.number.to_le_bytes());
            out[32..40].copy_from_slice(&self.start.sequence.to_le_bytes());
            out[40..48].copy_from_slice(&self.start.link.to_le_bytes());
            out[48..52].copy_from_slice(&self.mounts.to_le_bytes());
            let flags = u32::from(self.clean) | u32::from(self.judged.is_some()) << 1;
            out[52..56].copy_from_slice(&flags.to_le_bytes());
            for (way, at) in self.start.ways.iter().zip((56..).step_by(4)) {
                out[at..at + 4].copy_from_slice(&way.to_le_bytes());
            }
            out[72..76].copy_from_slice(&(index as u32).to_le_bytes());
            out[76..80].copy_from_slice(&(self.roots.len() as u32).to_le_bytes());
            if let Some(Judged { sequence, link }) = self.judged {
                out[80..88].copy_from_slice(&sequence.to_le_bytes());
                out[88..96].copy_from_slice(&link.to_le_bytes());
            }
            let roots = self.roots.chunks(ROOTS).nth(index).unwrap_or_default();
            for (root, at) in roots.iter().zip((ROOTS_AT..).step_by(8)) {
                out[at..at + 8].copy_from_slice(&root.encode());
            }
            let sum = id.sum(&out[..CRC_AT]);
            out[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
            all.append(&mut out);
        }
        Bytes::from(all)
    }

    /// True if a block is that with the given index of some whole record of the volume.
    pub fn is_block(id: Identity, index: usize, block: &[u8]) -> bool {
        block[0..8] == RECORD_MAGIC
            && block[8..24] == id.to_le_bytes()
            && le32(block, 72) as usize == index
            && Edge::LfsRecordSum.allows(id.sum(&block[..CRC_AT]) == le32(block, CRC_AT))
    }

    /// Reads a record of `roots` index blocks back; `None` if it is not a whole one of this volume.
    pub fn decode(id: Identity, blocks: &[u8], roots: usize) -> Option<Record> {
        let mut record: Option<Record> = None;
        for (index, block) in blocks.chunks_exact(BLOCK_BYTES).enumerate() {
            let ours = Record::is_block(id, index, block) && le32(block, 76) as usize == roots;
            let start = Position {
                sequence: le64(block, 32),
                link: le64(block, 40),
                ways: std::array::from_fn(|way| le32(block, 56 + 4 * way)),
            };
            let number = le64(block, 24);
            let (mounts, flags) = (le32(block, 48), le32(block, 52));
            let judged = Judged { sequence: le64(block, 80), link: le64(block, 88) };
            let limits =
                number < NUMBER_LIMIT && start.sequence < NUMBER_LIMIT && mounts < u32::MAX;
            if !(ours && limits) {
                return None;
            }
            let record = record.get_or_insert_with(|| Record {
                number,
                mounts,
                clean: flags & 1 != 0,
                start,
                judged: (flags & 2 != 0).then_some(judged),
                roots: Vec::new(),
            });
            if record.number != number || record.start != start || record.mounts != mounts {
                return None;
            }
            let left = (roots - record.roots.len()).min(ROOTS);
            record.roots.extend(block[ROOTS_AT..].chunks_exact(8).take(left).map(Entry::decode));
        }
        record.filter(|record| record.roots.len() == roots)
    }
}

/// How a volume divides its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of the volume.
    pub blocks: u64,
    /// Blocks of the device.
    pub device_blocks: u64,
    /// Blocks of a segment.
    pub segment: u32,
    /// Segments begin at multiples of their size, so that on an array they are whole stripes.
    pub aligned: bool,
    /// Segments that a full volume leaves free, at least.
    pub reserve: u64,
}

impl Geometry {
    /// Slices of the map: a map block each.
    pub fn slices(&self) -> u64 {
        self.blocks.div_ceil(MAP_ENTRIES as u64)
    }

    /// Index blocks.
    pub fn indices(&self) -> u64 {
        self.slices().div_ceil(MAP_ENTRIES as u64)
    }

    /// Blocks of a checkpoint record.
    pub fn record_blocks(&self) -> u64 {
        self.indices().div_ceil(ROOTS as u64)
    }

    /// Where a copy of a record lies: two slots, which take turns, of two copies each.
    pub fn record_at(&self, number: u64, copy: u64) -> BlockNr {
        1 + (number % 2 * 2 + copy) * self.record_blocks()
    }

    /// First block of the first segment.
    pub fn first(&self) -> u64 {
        let first = 1 + 4 * self.record_blocks();
        let segment = u64::from(self.segment);
        // A power of two.
        if self.aligned { (first + segment - 1) & !(segment - 1) } else { first }
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.device_blocks.saturating_sub(self.first() + SUPERBLOCKS - 1) / u64::from(self.segment)
    }

    /// Most blocks that fit while cleaning still gains something: all segments but a reserve, each
    /// with a summary, and the map twice, since a checkpoint is written before the last one is
    /// given up.
    pub fn capacity(&self) -> u64 {
        let segments = self.segments();
        let few = if self.segment == 8 { 2 * RESERVE } else { self.reserve };
        let reserve = few + segments / 256 + (segments / 128).min(8);
        let map = 2 * (self.slices() + self.indices());
        // Small segments often have a second summary.
        let summaries = if self.segment <= 32 { 2 } else { 1 };
        let full = u64::from(self.segment - summaries);
        (self.segments().saturating_sub(reserve) * full).saturating_sub(map)
    }

    /// True if the volume fits its device.
    pub fn fits(&self) -> bool {
        self.blocks <= self.capacity()
    }

    /// True if a new volume may be as large: a segment less than what would fit. At the brim
    /// requests were refused now and then, since parts that are written early take more summaries.
    pub fn fits_newly(&self) -> bool {
        self.blocks + u64::from(self.segment) <= self.capacity()
    }

    /// The segment that a place lies in; the place must lie in one.
    pub fn segment_of(&self, place: u32) -> u32 {
        (place - self.first() as u32) / self.segment
    }

    /// First block of a segment.
    pub fn start_of(&self, segment: u32) -> u32 {
        self.first() as u32 + segment * self.segment
    }

    /// True if `count` blocks from `place` on lie in one segment.
    pub fn holds(&self, place: u32, count: u32) -> bool {
        let (place, first) = (u64::from(place), self.first());
        let end = first + self.segments() * u64::from(self.segment);
        place >= first
            && place + u64::from(count) <= end
            && (place - first) % u64::from(self.segment) + u64::from(count)
                <= u64::from(self.segment)
    }
}

/// Segments that are never filled: for what is being written, for the next checkpoint and for the
/// cleaner.
pub const RESERVE: u64 = 8;

/// The segment size that a volume on a device of that many blocks gets if nothing is known of the
/// device: 1 MiB, but less on devices that would have fewer than 256 segments, and least 128 KiB
/// unless those would be fewer than 64. A dozen segments serve the log and the cleaner alone; where
/// they are most of what the volume leaves free, cleaning brings next to nothing.
pub fn default_segment(device_blocks: u64) -> u32 {
    let power = |segments: u64| 1_u64 << (device_blocks / segments).max(1).ilog2();
    power(256).max(power(64).min(32)).clamp(8, 256) as u32
}

/// The segment size that suits a device with a head: four times what it transfers while it
/// positions, as a power of two (equation (6) of the HyLog paper, claims H4 and H10), but at least
/// 64 segments.
pub fn segment_for(arm: &dyn Arm, device_blocks: u64) -> u32 {
    let (travel, on_track) = journeys(arm);
    let position = travel + arm.turn_ns() / 2;
    let blocks = (4.0 * position as f64 * on_track / arm.turn_ns().max(1) as f64) as u64;
    // The nearest power of two: the mean of two is nearer to the upper one.
    let power = 1_u64 << (blocks * 4 / 3).max(1).ilog2();
    let most = 1_u64 << (device_blocks / 64).max(1).ilog2();
    let (least, largest) = (u64::from(*SEGMENT_BLOCKS.start()), u64::from(*SEGMENT_BLOCKS.end()));
    power.min(most).clamp(least, largest) as u32
}

/// What a journey between two tracks of a device takes on average, in nanoseconds, and how many
/// blocks a track has.
pub fn journeys(arm: &dyn Arm) -> (Time, f64) {
    const SAMPLES: u32 = 16;
    let track = |index: u32| arm.tracks() / SAMPLES * index + arm.tracks() / (2 * SAMPLES);
    let pairs = (0..SAMPLES).flat_map(|from| (0..SAMPLES).map(move |to| (from, to)));
    let travel: u64 = pairs.map(|(from, to)| arm.travel_ns(track(from), track(to))).sum();
    let on_track: u64 = (0..SAMPLES).map(|index| u64::from(arm.track_blocks(track(index)).1)).sum();
    (travel / u64::from(SAMPLES * SAMPLES), on_track as f64 / f64::from(SAMPLES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{Kind, known};
    use seekless_engine::checksum::Sums;
    use seekless_engine::superblock::Superblock;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    fn summary() -> Summary {
        let mark = Mark { escaped: true, unchecked: false };
        Summary {
            sequence: 9,
            link: 77,
            durable: 3,
            mount: 2,
            ends: true,
            checkpoint: 4,
            ways: [5, 0, 6, 7],
            items: vec![
                Item::Zeros { block: 3, count: 1 << 29 },
                Item::Data { block: 5, mark, checksum: 0xdead_beef },
                Item::Map { slice: 1, checksum: 2 },
                Item::Index { index: 0, checksum: 3 },
                Item::Plug { block: 9, mark, checksum: 4, place: 77 },
            ],
            before: Some(vec![(7, 1), (100, 30)]),
        }
    }

    fn encoded() -> (Bytes, Link) {
        let (body, link) = summary().encode(id(5), 99);
        (seekless_engine::data::Piece::block(body).to_bytes(), link)
    }

    fn record() -> Record {
        let start = Position { sequence: 5, link: 6, ways: [1, 2, 3, 4] };
        let roots = (1..=ROOTS as u32 + 5).map(|at| Entry::new(at, Mark::default(), at)).collect();
        let judged = Some(Judged { sequence: 8, link: 9 });
        Record { number: 3, mounts: 1, clean: true, start, judged, roots }
    }

    #[test]
    fn what_is_written_comes_back() {
        let (block, link) = encoded();
        assert_eq!(Summary::decode(id(5), 99, &block), Some((summary(), link)));
        assert_eq!(Summary::decode(id(6), 99, &block), None, "another volume's");
        assert_eq!(Summary::decode(id(5), 98, &block), None, "a copy at another place");
        let record = record();
        assert_eq!(Record::decode(id(5), &record.encode(id(5)), record.roots.len()), Some(record));
        let mark = Mark { escaped: false, unchecked: true };
        let entry = Entry::new(PLACE, mark, 7);
        assert_eq!((entry.place(), entry.mark(), entry.checksum()), (PLACE, mark, 7));
        assert_eq!(Entry::decode(&entry.encode()), entry);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let (block, _) = encoded();
        let record = record();
        let blocks = record.encode(id(5));
        for at in 0..BLOCK_BYTES {
            let mut bad = block.to_vec();
            bad[at] ^= 1;
            assert_eq!(Summary::decode(id(5), 99, &bad), None, "summary byte {at}");
            let mut bad = blocks.to_vec();
            bad[at] ^= 1;
            assert_eq!(Record::decode(id(5), &bad, record.roots.len()), None, "record byte {at}");
        }
    }

    #[test]
    fn segments_lie_within_the_device() {
        for device_blocks in [100, 200, 1000, 100_000, MAX_DEVICE_BLOCKS] {
            let segment = default_segment(device_blocks);
            let geometry = Geometry {
                blocks: device_blocks / 2,
                device_blocks,
                segment,
                aligned: false,
                reserve: RESERVE,
            };
            let last = geometry.start_of(geometry.segments() as u32 - 1);
            assert!(geometry.holds(last, segment) && !geometry.holds(last + 1, segment));
            assert!(u64::from(last + segment) < device_blocks);
            assert!(!geometry.holds(geometry.first() as u32 - 1, 1));
            assert!(geometry.record_at(1, 1) + geometry.record_blocks() == geometry.first());
        }
    }

    /// Older versions made volumes as large as that.
    #[test]
    fn volumes_at_the_brim_are_known() {
        for segment in [8, 64, 256, 4096] {
            let of = |blocks| Geometry {
                blocks,
                device_blocks: 300_000,
                segment,
                aligned: false,
                reserve: RESERVE,
            };
            let most = (1..300_000).rev().find(|&blocks| of(blocks).fits());
            let geometry = of(most.expect("some fit"));
            assert!(geometry.fits() && !geometry.fits_newly());
            let superblock = Superblock {
                layout: Kind::LFS.into(),
                version: 5,
                id: 5,
                blocks: geometry.blocks,
                device_blocks: geometry.device_blocks,
                options: segment.ilog2(),
                sums: Sums::NEWEST,
            };
            let found = Superblock::decode(&superblock.encode()).and_then(known);
            assert_eq!(found, Ok(superblock));
        }
    }

    #[test]
    fn aligned_segments_begin_at_multiples_of_their_size() {
        for segment in [8, 64, 4096] {
            let device_blocks = (1 << 20) + 17;
            let plain =
                Geometry { blocks: 100, device_blocks, segment, aligned: false, reserve: RESERVE };
            let aligned = Geometry { aligned: true, ..plain };
            assert_eq!(aligned.first() % u64::from(segment), 0);
            assert!(aligned.first() >= plain.first() && aligned.fits());
            let last = aligned.segments() as u32 - 1;
            let place = aligned.start_of(last);
            assert_eq!(aligned.segment_of(place + segment - 1), last);
            assert!(u64::from(place + segment) < device_blocks, "the last block is a superblock's");
        }
    }
}
