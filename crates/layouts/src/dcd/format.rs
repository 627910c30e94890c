//! Bytes on disk: where the log lies and what the header of a record says. `SPEC.md`, section
//! "Layout 4: `dcd`".

use super::options::Shape;
use crate::inplace::header_blocks;
use bytes::Bytes;
use seekless_engine::checksum::{Identity, Sums, crc32c};
use seekless_engine::data::sealed::{CHECKED, Sealed};
use seekless_engine::data::{Body, Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::layout::LayoutError;
use seekless_engine::superblock::{Superblock, SuperblockError, le32, le64};
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
/// Blocks at the beginning of an attached origin whose home is on the log device, so that no mount
/// takes the origin alone for what it was: boot sectors, partition tables, superblocks.
pub const BOUND_BLOCKS: u64 = 32;

/// Set in the options of a superblock if the log is on a device of its own.
pub const PHYSICAL: u32 = 1 << 4;
/// Set in the options of the superblock that binds an origin.
pub const BOUND: u32 = 1 << 5;
/// Where a binding has its generation, behind what every superblock has.
const GENERATION_AT: usize = 56;
/// Where a log says which generation it knows the binding of the origin to have.
const CONFIRMED_AT: usize = 60;
/// Where a binding says which record of the log was durable.
const SEEN_AT: usize = 64;
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
        Areas { blocks, segment, segments, log_first, origin_first, physical, sums: Sums::NEWEST }
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
}

impl Header {
    /// Blocks of data that follow.
    pub fn data_blocks(&self) -> u32 {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Data { .. })).count() as u32
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
        Sealed::of_volume(id, out).into_body()
    }

    /// Reads a header of volume `id` back; `None` for anything else.
    pub fn decode(block: &[u8], id: Identity, areas: &Areas) -> Option<Header> {
        if block[0..8] != MAGIC || block[8..24] != id.to_le_bytes() {
            return None;
        }
        if id.sum(&block[..CHECKED]) != le32(block, CHECKED) {
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
        let header = Header {
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

/// What lies in the place of block 0 of an origin while a log is attached to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Names the log, and the size of the origin.
    pub superblock: Superblock,
    /// How often log and origin have been mounted together.
    pub generation: u32,
    /// In a log: the last generation that the binding of the origin was known to have durably.
    /// Writes of a mount come only after that.
    pub confirmed: u32,
    /// In an origin: a record of the log that was durable when this was written.
    pub seen: u64,
}

impl Binding {
    /// A binding for the origin of the log that has this superblock.
    pub fn new(log: &Superblock, generation: u32) -> Binding {
        let superblock = Superblock { options: BOUND, device_blocks: log.blocks, ..*log };
        Binding { superblock, generation, confirmed: 0, seen: 0 }
    }

    /// The superblock of a log as it is written at a mount.
    pub fn for_log(log: &Superblock, generation: u32, confirmed: u32) -> Binding {
        Binding { superblock: *log, generation, confirmed, seen: 0 }
    }

    fn with_marks(superblock: Superblock, block: &[u8]) -> Binding {
        let (generation, confirmed) = (le32(block, GENERATION_AT), le32(block, CONFIRMED_AT));
        Binding { superblock, generation, confirmed, seen: le64(block, SEEN_AT) }
    }

    /// Reads the binding of an origin, if there is one. Of its two copies, in blocks 0 and 1, the
    /// later one counts.
    ///
    /// # Errors
    /// A damaged or newer one without a whole second copy, and what the medium reports.
    pub fn read(disk: &mut dyn Disk) -> Result<Option<Binding>, LayoutError> {
        let copies = [Binding::copy(disk, 0)?, Binding::copy(disk, 1)?];
        let whole = copies.iter().filter_map(|copy| copy.as_ref().ok());
        match (whole.max_by_key(|binding| (binding.generation, binding.seen)), &copies[0]) {
            (Some(binding), _) => Ok(Some(*binding)),
            (None, Ok(_) | Err(SuperblockError::Foreign)) => Ok(None),
            (None, Err(error)) => Err(error.clone().into()),
        }
    }

    /// The blocks of an origin in which a copy should be and none is that names this log.
    pub fn lost_copies(disk: &mut dyn Disk, log: &Superblock) -> Vec<BlockNr> {
        let whole =
            |copy| matches!(copy, Ok(Ok(Binding { superblock, .. })) if superblock.id == log.id);
        [0, 1].into_iter().filter(|&at| !whole(Binding::copy(disk, at))).collect()
    }

    /// One copy, or why it is none.
    fn copy(disk: &mut dyn Disk, at: BlockNr) -> Result<Result<Binding, SuperblockError>, IoError> {
        let block = disk.read(at, 1)?.to_bytes();
        Ok(match Superblock::decode(&block) {
            Ok(superblock) if superblock.options & BOUND != 0 => {
                Ok(Binding::with_marks(superblock, &block))
            }
            Ok(_) => Err(SuperblockError::Foreign),
            Err(error) => Err(error),
        })
    }

    /// Writes both copies, one after the other, the one that counts last: if this is cut off
    /// again and again, one of them is whole and not older than it was.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write(&self, disk: &mut dyn Disk) -> Result<(), IoError> {
        let generation = |copy: Result<Binding, _>| copy.ok().map(|binding| binding.generation);
        let first = generation(Binding::copy(disk, 0)?);
        let second = generation(Binding::copy(disk, 1)?);
        for at in if second > first { [0, 1] } else { [1, 0] } {
            self.write_at(disk, at)?;
            disk.flush()?;
        }
        Ok(())
    }

    /// The generation of a log, and which one it knows the origin to have: the greater one of what
    /// the copies of its superblock say.
    pub fn of_log(disk: &mut dyn Disk, superblock: &Superblock) -> Binding {
        let mut newest = Binding::for_log(superblock, 0, 0);
        for at in [0, superblock.device_blocks - 1] {
            if let Some((generation, confirmed)) = Binding::marks_of_log(disk, superblock, at) {
                newest.generation = newest.generation.max(generation);
                newest.confirmed = newest.confirmed.max(confirmed);
            }
        }
        newest
    }

    /// What one copy says of both, if it is whole.
    fn marks_of_log(
        disk: &mut dyn Disk,
        superblock: &Superblock,
        at: BlockNr,
    ) -> Option<(u32, u32)> {
        let block = disk.read(at, 1).ok()?.to_bytes();
        let whole = Superblock::decode(&block).is_ok_and(|found| found == *superblock);
        let copy = Binding::with_marks(*superblock, &block);
        whole.then_some((copy.generation, copy.confirmed))
    }

    /// Writes both copies of the superblock of a log, one after the other, the one that counts
    /// last: as in [`Binding::write`], one of them is whole whenever this is cut off.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_to_log(&self, disk: &mut dyn Disk) -> Result<(), IoError> {
        let end = self.superblock.device_blocks - 1;
        let first = Binding::marks_of_log(disk, &self.superblock, 0);
        let last = Binding::marks_of_log(disk, &self.superblock, end);
        for at in if last > first { [0, end] } else { [end, 0] } {
            self.write_at(disk, at)?;
            disk.flush()?;
        }
        Ok(())
    }

    /// Writes the superblock with the generation anywhere.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write_at(&self, disk: &mut dyn Disk, at: BlockNr) -> Result<(), IoError> {
        disk.write(at, self.encode())
    }

    /// The block as it lies on disk.
    pub fn encode(&self) -> Data {
        let mut block = self.superblock.encode().to_vec();
        block[GENERATION_AT..GENERATION_AT + 4].copy_from_slice(&self.generation.to_le_bytes());
        block[CONFIRMED_AT..CONFIRMED_AT + 4].copy_from_slice(&self.confirmed.to_le_bytes());
        block[SEEN_AT..SEEN_AT + 8].copy_from_slice(&self.seen.to_le_bytes());
        let sum = crc32c(&block[..CHECKED]);
        block[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        Data::bytes(Bytes::from(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Kind;
    use seekless_engine::device::medium::{Cells, Medium as _};
    use seekless_engine::disk::MediumDisk;
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

    /// A disk whose power fails in the first write.
    struct Cut(Cells);

    impl Disk for Cut {
        fn blocks(&self) -> u64 {
            self.0.blocks()
        }
        fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
            self.0.read(at, count)
        }
        fn write(&mut self, at: BlockNr, _data: Data) -> Result<(), IoError> {
            self.0.write(at, &Data::bytes(vec![7; BLOCK_BYTES].into()))?;
            Err(IoError::PowerOff)
        }
        fn flush(&mut self) -> Result<(), IoError> {
            Ok(())
        }
    }

    #[test]
    fn a_seal_that_is_torn_again_and_again_never_grows_older() {
        let log = Superblock {
            layout: Kind::DCD.into(),
            version: 5,
            id: 9,
            blocks: 100,
            device_blocks: 100,
            options: BOUND,
            sums: Sums::NEWEST,
        };
        for generations in [[4, 4], [4, 5], [5, 4]] {
            let mut origin = Cut(Cells::new(100));
            for (at, generation) in (0..).zip(generations) {
                let mut disk = MediumDisk(&mut origin.0);
                Binding::new(&log, generation).write_at(&mut disk, at).expect("it is in range");
            }
            let before = generations.into_iter().max();
            assert_eq!(Binding::new(&log, 6).write(&mut origin), Err(IoError::PowerOff));
            let left =
                Binding::read(&mut origin).expect("one is whole").map(|binding| binding.generation);
            assert_eq!(left, before, "{generations:?}");
        }
    }
}
