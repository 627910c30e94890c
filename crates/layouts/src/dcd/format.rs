//! Bytes on disk: where the log lies and what the header of a record says. `SPEC.md`, section
//! "Layout 4: `dcd`".

use super::options::Shape;
use crate::inplace::header_blocks;
use bytes::Bytes;
use seekless_engine::checksum::{Identity, Sums};
use seekless_engine::data::sealed::{CHECKED, Sealed};
use seekless_engine::data::{Body, Piece};
use seekless_engine::edge::Edge;
use seekless_engine::superblock::{Superblock, le32, le64};
use seekless_engine::units::BlockNr;

const MAGIC: [u8; 8] = *b"SKLSDCR2";
const ENTRIES_AT: usize = 72;
const ENTRY_BYTES: usize = 12;
/// Most entries of a record.
pub const MAX_ENTRIES: usize = (CHECKED - ENTRIES_AT) / ENTRY_BYTES;
const _: () = assert!(MAX_ENTRIES == 335 && CHECKED == 4092);
/// Blocks are numbered with 32 bits.
pub const MAX_DEVICE_BLOCKS: u64 = 1 << 32;
/// A log has at least so many segments.
pub const LEAST_SEGMENTS: u64 = 8;
/// The smallest log: the fewest of the smallest segments.
pub const LEAST_LOG_BLOCKS: u64 = LEAST_SEGMENTS * LEAST_SEGMENT as u64;
/// The largest log taken without being asked for: 1 GiB.
const MOST_LOG_BLOCKS: u64 = 1 << 18;
/// The smallest segment.
const LEAST_SEGMENT: u32 = 4;
/// The largest segment.
const MOST_SEGMENT: u32 = 256;
/// Most segments that the superblock can name.
const MOST_SEGMENTS: u64 = 1 << 24;
/// Blocks at the beginning of an origin whose home is on the log device while the two are bound, so
/// that no mount takes the origin alone for what it was: boot sectors, partition tables,
/// superblocks.
pub const BOUND_BLOCKS: u64 = 32;

/// Set in the options of a superblock if the log is on a device of its own.
pub const PHYSICAL: u32 = 1 << 4;
/// Set in the options of the superblock that binds an origin.
pub const BOUND: u32 = 1 << 5;
const ESCAPED: u64 = 1 << 63;
const GONE: u64 = 1 << 62;
const CLEAN: u8 = 1;

/// Where everything lies, and how it is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Blocks of the volume.
    pub blocks: u64,
    /// Blocks in a segment, header included.
    pub segment: u32,
    /// Segments of the log.
    pub segments: u32,
    /// First block of the log on its device.
    pub log_first: BlockNr,
    /// Home of block 0 on the origin.
    pub origin_first: BlockNr,
    /// The log has a device of its own.
    pub physical: bool,
    /// The first blocks of the volume, so many, have their home on the log device.
    pub moved: u64,
    /// How the checksums of blocks in the log are made.
    pub sums: Sums,
}

/// Cuts a log of `blocks` blocks: blocks in a segment and number of segments.
fn cut(shape: &Shape, blocks: u64) -> (u32, u32) {
    let mut segment = shape.segment_blocks.clamp(LEAST_SEGMENT, MOST_SEGMENT).next_power_of_two();
    while segment > LEAST_SEGMENT && blocks / u64::from(segment) < LEAST_SEGMENTS {
        segment /= 2;
    }
    (segment, (blocks / u64::from(segment)).min(MOST_SEGMENTS - 1) as u32)
}

impl Areas {
    /// The areas of a volume of `blocks` blocks whose log is on the same device of `device` blocks.
    pub fn logical(shape: &Shape, device: u64, blocks: u64) -> Areas {
        let header = header_blocks(device);
        let room = device.saturating_sub(header + 1 + blocks);
        let asked = shape.log_blocks.unwrap_or_else(|| default_log(device));
        let (segment, segments) = cut(shape, asked.min(room));
        Areas::of(blocks, segment, segments, header, false)
    }

    /// The areas of a log on a device of its own.
    pub fn physical(shape: &Shape, device: u64, blocks: u64) -> Areas {
        let header = header_blocks(device) + BOUND_BLOCKS;
        let room = device.saturating_sub(header + 1);
        let (segment, segments) = cut(shape, shape.log_blocks.unwrap_or(room).min(room));
        Areas::of(blocks, segment, segments, header, true)
    }

    fn of(blocks: u64, segment: u32, segments: u32, log_first: u64, physical: bool) -> Areas {
        let log = u64::from(segment) * u64::from(segments);
        let origin_first = if physical { 0 } else { log_first + log };
        let moved = if physical { BOUND_BLOCKS } else { 0 };
        let sums = Sums::NEWEST;
        Areas { blocks, segment, segments, log_first, origin_first, physical, moved, sums }
    }

    /// Reads the areas back from the superblock.
    pub fn from_superblock(superblock: &Superblock) -> Option<Areas> {
        let options = superblock.options;
        let physical = options & PHYSICAL != 0;
        let (segment, segments) = (1 << (options & 15), options >> 8);
        let header = header_blocks(superblock.device_blocks);
        let first = if physical { header + BOUND_BLOCKS } else { header };
        let sums = superblock.sums;
        let areas =
            Areas { sums, ..Areas::of(superblock.blocks, segment, segments, first, physical) };
        areas.fit(superblock.device_blocks).then_some(areas)
    }

    /// The areas as the superblock has them.
    pub fn options(&self) -> u32 {
        let physical = if self.physical { PHYSICAL } else { 0 };
        self.segment.trailing_zeros() | physical | self.segments << 8
    }

    /// True if they are whole and fit a device of `device` blocks.
    pub fn fit(&self, device: u64) -> bool {
        let volume = if self.physical { 0 } else { self.blocks };
        (LEAST_SEGMENT..=MOST_SEGMENT).contains(&self.segment)
            && u64::from(self.segments) >= LEAST_SEGMENTS
            && self.log_first + self.log_blocks() + volume < device
            && self.blocks <= MAX_DEVICE_BLOCKS
            && self.log_blocks() <= u64::from(u32::MAX / 2)
    }

    /// Blocks of the log.
    pub fn log_blocks(&self) -> u64 {
        u64::from(self.segment) * u64::from(self.segments)
    }

    /// Most blocks of data in a record.
    pub fn most_data(&self) -> u32 {
        self.segment - 1
    }
}

/// The size of the log if nothing is said.
pub fn default_log(device: u64) -> u64 {
    (device / 16).clamp(LEAST_LOG_BLOCKS, MOST_LOG_BLOCKS)
}

/// What a record says of a block of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Its content is in the next block of the record and has this checksum.
    Data {
        /// Block of the volume.
        block: u32,
        /// Checksum of its content.
        sum: u32,
        /// Its first byte is stored flipped, since it looks like the header of a record.
        escaped: bool,
    },
    /// What older records say of it does not count: its home has the content.
    Gone {
        /// Block of the volume.
        block: u32,
    },
}

/// The header of a record, the unit in which the log grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Records are numbered consecutively.
    pub seq: u64,
    /// Segments are numbered consecutively; the place of a segment is this modulo their count.
    pub segment: u64,
    /// Block of the segment in which the header lies.
    pub offset: u32,
    /// All records up to this one were durable when this one was written.
    pub durable: u64,
    /// Nothing of the records before this one counts.
    pub tail: u64,
    /// Which life, from mount to crash or end, wrote it.
    pub life: u32,
    /// It is the last record of a life that ended in order.
    pub clean: bool,
    /// What it says, in order.
    pub entries: Vec<Entry>,
    /// The blocks that the record before lists: if its header is lost, these are. Nothing if there
    /// is no room for them, and in records of older programs.
    pub before: Option<Vec<u32>>,
}

impl Header {
    /// Blocks of data that follow.
    pub fn data_blocks(&self) -> u32 {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Data { .. })).count() as u32
    }

    /// The blocks that it lists.
    pub fn blocks(&self) -> Vec<u32> {
        let block = |entry: &Entry| match *entry {
            Entry::Data { block, .. } | Entry::Gone { block } => block,
        };
        self.entries.iter().map(block).collect()
    }

    /// The block as it lies on disk.
    pub fn encode(&self, id: Identity) -> Body {
        let mut out = vec![0; ENTRIES_AT + self.entries.len() * ENTRY_BYTES];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..24].copy_from_slice(&id.to_le_bytes());
        out[24..32].copy_from_slice(&self.seq.to_le_bytes());
        out[32..40].copy_from_slice(&self.segment.to_le_bytes());
        out[40..48].copy_from_slice(&self.durable.to_le_bytes());
        out[48..56].copy_from_slice(&self.tail.to_le_bytes());
        out[56..60].copy_from_slice(&self.life.to_le_bytes());
        out[60..62].copy_from_slice(&(self.offset as u16).to_le_bytes());
        out[62..64].copy_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out[64] = if self.clean { CLEAN } else { 0 };
        let room = (CHECKED - out.len()) / 4;
        let before = self.before.as_ref().filter(|before| before.len() <= room);
        let listed = before.map_or(0, |before| 1 + before.len() as u16);
        out[66..68].copy_from_slice(&listed.to_le_bytes());
        let places = out[ENTRIES_AT..].chunks_exact_mut(ENTRY_BYTES);
        for (place, entry) in places.zip(&self.entries) {
            let (word, sum) = match *entry {
                Entry::Data { block, sum, escaped } => {
                    (u64::from(block) | if escaped { ESCAPED } else { 0 }, sum)
                }
                Entry::Gone { block } => (u64::from(block) | GONE, 0),
            };
            place[..8].copy_from_slice(&word.to_le_bytes());
            place[8..].copy_from_slice(&sum.to_le_bytes());
        }
        out.extend(before.into_iter().flatten().flat_map(|block| block.to_le_bytes()));
        Sealed::of_volume(id, out).into_body()
    }

    /// Reads a header of volume `id` back; `None` for anything else.
    pub fn decode(block: &[u8], id: Identity, areas: &Areas) -> Option<Header> {
        if block[0..8] != MAGIC || block[8..24] != id.to_le_bytes() {
            return None;
        }
        if !Edge::DcdHeaderSum.allows(id.sum(&block[..CHECKED]) == le32(block, CHECKED)) {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([block[62], block[63]]));
        let places = block[ENTRIES_AT..CHECKED].chunks_exact(ENTRY_BYTES);
        let entries = places.take(count).map(|place| {
            let word = le64(place, 0);
            let block = word as u32;
            match word & GONE {
                0 => Entry::Data { block, sum: le32(place, 8), escaped: word & ESCAPED != 0 },
                _ => Entry::Gone { block },
            }
        });
        let listed = u16::from_le_bytes([block[66], block[67]]);
        let before = listed.checked_sub(1).and_then(|listed| {
            let from = ENTRIES_AT + count * ENTRY_BYTES;
            let bytes = block.get(from..from + 4 * usize::from(listed))?;
            let fits = from + 4 * usize::from(listed) <= CHECKED;
            fits.then(|| bytes.chunks_exact(4).map(|block| le32(block, 0)).collect::<Vec<_>>())
        });
        let header = Header {
            before,
            entries: entries.collect(),
            seq: le64(block, 24),
            segment: le64(block, 32),
            durable: le64(block, 40),
            tail: le64(block, 48),
            life: le32(block, 56),
            offset: u32::from(u16::from_le_bytes([block[60], block[61]])),
            clean: block[64] & CLEAN != 0,
        };
        header.is_sane(count, areas).then_some(header)
    }

    /// A whole checksum over senseless values can only come from a forged image.
    fn is_sane(&self, count: usize, areas: &Areas) -> bool {
        let in_volume = |entry: &Entry| match *entry {
            Entry::Data { block, .. } | Entry::Gone { block } => u64::from(block) < areas.blocks,
        };
        let limit = u64::MAX / 4;
        count <= MAX_ENTRIES
            && self.entries.iter().all(in_volume)
            && self.before.iter().flatten().all(|&block| u64::from(block) < areas.blocks)
            && self.offset + 1 + self.data_blocks() <= areas.segment
            && self.seq > 0
            && self.durable < self.seq
            && self.tail <= self.seq
            && self.seq < limit
            && self.segment < limit
            && self.life < u32::MAX / 2
    }

    /// The place of the segment it names.
    pub fn place(&self, areas: &Areas) -> u32 {
        (self.segment % u64::from(areas.segments)) as u32
    }
}

/// True if a block begins like the header of a record.
pub fn looks_like_header(piece: &Piece) -> bool {
    match &piece.body {
        Body::Zeros => false,
        // The first word of a stamp has zeros in its upper bytes as long as blocks are numbered
        // with 32 bits.
        Body::Stamp { .. } => false,
        Body::Bytes(bytes) => bytes[0..8] == MAGIC,
        Body::Sectors(sectors) => sectors[0][0..8] == MAGIC,
        Body::Lazy(_) | Body::Parity(_) => piece.to_bytes()[0..8] == MAGIC,
    }
}

/// Flips the first byte of a block: makes of it something that looks like no header, and back.
pub fn escape(piece: &Piece) -> Piece {
    let mut bytes = piece.to_bytes().to_vec();
    bytes[0] ^= 0xff;
    Piece::block(Body::Bytes(Bytes::from(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Kind;
    use seekless_engine::units::BLOCK_BYTES;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    fn areas() -> Areas {
        Areas::logical(&Shape::default(), 10_000, 8_000)
    }

    fn sample() -> Header {
        Header {
            seq: 12,
            segment: 3,
            offset: 5,
            durable: 10,
            tail: 2,
            life: 4,
            clean: true,
            entries: vec![
                Entry::Data { block: 77, sum: 0xdead_beef, escaped: true },
                Entry::Gone { block: 12 },
                Entry::Data { block: 1, sum: 0, escaped: false },
            ],
            before: Some(vec![7, 9]),
        }
    }

    fn encoded() -> Bytes {
        Piece::block(sample().encode(id(9))).to_bytes()
    }

    #[test]
    fn decodes_what_it_encodes() {
        let found = Header::decode(&encoded(), id(9), &areas());
        assert_eq!(found, Some(sample()));
        assert_eq!(Header::decode(&encoded(), id(8), &areas()), None);
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let good = encoded();
        for at in 0..BLOCK_BYTES {
            let mut bad = good.to_vec();
            bad[at] ^= 0x40;
            assert_eq!(Header::decode(&bad, id(9), &areas()), None, "byte {at}");
        }
    }

    #[test]
    fn areas_are_what_the_superblock_says() {
        for (device, blocks) in [(200, 100), (5_000, 4_000), (1 << 20, 900_000)] {
            let areas = Areas::logical(&Shape::default(), device, blocks);
            let superblock = Superblock {
                layout: Kind::DCD.into(),
                version: 5,
                id: 1,
                blocks,
                device_blocks: device,
                options: areas.options(),
                sums: Sums::NEWEST,
            };
            assert_eq!(Areas::from_superblock(&superblock), Some(areas));
        }
    }

    #[test]
    fn what_looks_like_a_header_is_escaped_and_comes_back() {
        let piece = Piece::block(sample().encode(id(9)));
        assert!(looks_like_header(&piece));
        let stored = escape(&piece);
        assert!(!looks_like_header(&stored));
        assert_eq!(escape(&stored), piece);
    }
}
