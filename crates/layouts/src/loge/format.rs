//! Bytes of a Loge volume on disk: labels, the trim map, the records. `SPEC.md` has the tables.

use bytes::Bytes;
use seekless_engine::checksum::{Identity, crc32c, crc32c_append};
use seekless_engine::data::SectorBytes;
use seekless_engine::edge::Edge;
use seekless_engine::io::Label as LabelBytes;
use seekless_engine::superblock::{le32, le64};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};

/// Where the two records lie; they are written in turn.
pub const RECORDS: [u64; 2] = [1, 2];
/// First block of the trim map.
pub const TRIMS_START: u64 = 3;
/// Blocks before the trim map and behind the pool: superblocks and records.
pub const FIXED_BLOCKS: u64 = TRIMS_START + 1;
/// Blocks in a group: one of labels, and those that the labels are for.
pub const GROUP: u64 = 128;
/// Labels in a sector.
pub const SECTOR_LABELS: usize = 16;
/// Tombstones in a sector of the trim map, and in a block of it.
pub const SECTOR_TOMBS: usize = 25;
pub const TRIM_SLICE: u64 = SECTOR_TOMBS as u64 * BLOCK_SECTORS;
/// Block numbers are 31 bits wide, which bounds a device to 8 TiB.
pub const MAX_DEVICE_BLOCKS: u64 = 1 << 31;
/// Most members of a transaction.
pub const MAX_MEMBERS: u64 = 1 << 16;
/// Logical block in the label of a descriptor, see [`super::descriptor`].
pub const DESCRIPTOR: u32 = u32::MAX;
/// Index and last index of a block of a transaction that has a descriptor: its blocks do not
/// follow one another.
pub const SCATTERED: (u16, u16) = (u16::MAX, 0);
/// Time stamps stay below this: no volume lives to see it, and numbers counted up from below it
/// do not overflow. What says otherwise is forged.
pub const STAMP_LIMIT: u64 = 1 << 62;

const LABEL_BYTES: usize = size_of::<LabelBytes>();
const LABEL_CRC_AT: usize = 28;
const TOMB_BYTES: usize = 20;
const TRIM_CRC_AT: usize = SECTOR_BYTES - 4;
const RECORD_MAGIC: [u8; 8] = *b"SKLSLOGE";
const RECORD_CRC_AT: usize = BLOCK_BYTES - 4;
/// Byte of a record with flags: it has a parity, and nothing was on its way.
pub(super) const FLAGS_AT: usize = 60;
pub(super) const HAS_PARITY: u8 = 1;
const AT_REST: u8 = 2;

const _: () = assert!(LABEL_CRC_AT + 4 == LABEL_BYTES);
const _: () = assert!(SECTOR_LABELS * LABEL_BYTES == SECTOR_BYTES);
const _: () = assert!(SECTOR_LABELS as u64 * BLOCK_SECTORS == GROUP);
const _: () = assert!(SECTOR_TOMBS * TOMB_BYTES <= TRIM_CRC_AT);

/// What lies where on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// Size of the volume.
    pub blocks: u64,
    /// Size of the device.
    pub device_blocks: u64,
    /// Labels are kept in sector headers; else the first block of each group has them.
    pub headers: bool,
}

impl Areas {
    /// Blocks of the trim map.
    pub fn trim_blocks(&self) -> u64 {
        self.blocks.div_ceil(TRIM_SLICE)
    }

    /// First block behind the trim map.
    pub fn start(&self) -> u64 {
        TRIMS_START + self.trim_blocks()
    }

    /// The block behind the last one that data may lie in: the second superblock.
    pub fn end(&self) -> u64 {
        self.device_blocks - 1
    }

    /// The groups that have blocks between [`Areas::start`] and [`Areas::end`].
    pub fn groups(&self) -> std::ops::Range<u64> {
        if self.start() >= self.end() {
            return 0..0;
        }
        self.start() / GROUP..(self.end() - 1) / GROUP + 1
    }

    /// The block that has the labels of a group: its first one behind the trim map.
    pub fn label_block(&self, group: u64) -> u64 {
        (group * GROUP).max(self.start())
    }

    /// True if data may lie there.
    pub fn is_pool(&self, place: u64) -> bool {
        let inside = (self.start()..self.end()).contains(&place);
        inside && (self.headers || self.label_block(place / GROUP) != place)
    }

    /// The blocks that data may lie in, as runs.
    pub fn pool_runs(&self) -> impl Iterator<Item = std::ops::Range<u32>> {
        let areas = *self;
        let groups = areas.groups().map(move |group| {
            let end = ((group + 1) * GROUP).min(areas.end());
            let label = u64::from(!areas.headers);
            (areas.label_block(group) + label) as u32..end as u32
        });
        groups.filter(|run| !run.is_empty())
    }

    /// Number of blocks that data may lie in.
    pub fn pool(&self) -> u64 {
        let groups = if self.headers { 0 } else { self.groups().end - self.groups().start };
        self.end().saturating_sub(self.start()) - groups
    }
}

/// What is known of a block by its place alone: which version of which logical block it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Logical block.
    pub block: u32,
    /// Checksum of the content.
    pub sum: u32,
    /// Time stamp of the transaction that wrote it; of two versions the one with the later counts.
    pub stamp: u64,
    /// Every transaction up to this one was durable when the label was made.
    pub durable: u64,
    /// Which of the blocks of its transaction this is, from 0, and which the last one is. The
    /// blocks of a transaction follow one another in the volume, unless this is [`SCATTERED`].
    pub index: u16,
    pub last: u16,
}

/// Checksum of bytes that belong to one place of one volume.
pub(super) fn sum_at(id: Identity, place: u64, bytes: &[u8]) -> u32 {
    let mut seed = [0; 24];
    seed[..16].copy_from_slice(&id.to_le_bytes());
    seed[16..].copy_from_slice(&place.to_le_bytes());
    id.of_crc(crc32c_append(crc32c(&seed), bytes))
}

impl Label {
    /// The label as it lies on disk, for the block at `place`.
    pub fn encode(&self, id: Identity, place: u64) -> LabelBytes {
        let mut out = LabelBytes::default();
        out[0..4].copy_from_slice(&self.block.to_le_bytes());
        out[4..8].copy_from_slice(&self.sum.to_le_bytes());
        out[8..16].copy_from_slice(&self.stamp.to_le_bytes());
        out[16..24].copy_from_slice(&self.durable.to_le_bytes());
        out[24..26].copy_from_slice(&self.index.to_le_bytes());
        out[26..28].copy_from_slice(&self.last.to_le_bytes());
        // As `sum_at`, in one piece: a label is made for every block that is written.
        let mut summed = [0; 24 + LABEL_CRC_AT];
        summed[..16].copy_from_slice(&id.to_le_bytes());
        summed[16..24].copy_from_slice(&place.to_le_bytes());
        summed[24..].copy_from_slice(&out[..LABEL_CRC_AT]);
        out[LABEL_CRC_AT..].copy_from_slice(&id.sum(&summed).to_le_bytes());
        out
    }

    /// Reads the label of the block at `place`; `None` if it has none.
    ///
    /// # Errors
    /// A label that is damaged, or says what cannot be.
    pub fn decode(
        id: Identity,
        place: u64,
        bytes: &[u8],
        blocks: u64,
    ) -> Result<Option<Label>, Rot> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if sum_at(id, place, &bytes[..LABEL_CRC_AT]) != le32(bytes, LABEL_CRC_AT) {
            return Err(Rot);
        }
        let le16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let label = Label {
            block: le32(bytes, 0),
            sum: le32(bytes, 4),
            stamp: le64(bytes, 8),
            durable: le64(bytes, 16),
            index: le16(24),
            last: le16(26),
        };
        let Label { block, stamp, durable, index, last, .. } = label;
        let member = is_member(u64::from(block), index, last, blocks);
        let descriptor = block == DESCRIPTOR && (index, last) == (0, 0);
        let sound = (1..STAMP_LIMIT).contains(&stamp) && durable < stamp;
        let sound = sound && (member || descriptor);
        if sound { Ok(Some(label)) } else { Err(Rot) }
    }
}

/// True if `block` of a volume of `blocks` blocks can be a member of a transaction that way.
fn is_member(block: u64, index: u16, last: u16, blocks: u64) -> bool {
    if (index, last) == SCATTERED {
        return block < blocks;
    }
    let first = block.checked_sub(u64::from(index));
    index <= last && first.is_some_and(|first| first + u64::from(last) < blocks)
}

/// Something on disk that no crash explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot;

/// That a block was forgotten, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tomb {
    /// Time stamp of the transaction that forgot it; 0 if none did.
    pub stamp: u64,
    /// Time stamp of an earlier one that was durable when this one was made; 0 if there was none.
    pub before: u64,
    /// As in a [`Label`].
    pub index: u16,
    pub last: u16,
}

impl Tomb {
    /// Writes it to its place in a sector of the trim map.
    pub fn put(&self, sector: &mut SectorBytes, at: usize) {
        let out = &mut sector[at * TOMB_BYTES..][..TOMB_BYTES];
        out[0..8].copy_from_slice(&self.stamp.to_le_bytes());
        out[8..16].copy_from_slice(&self.before.to_le_bytes());
        out[16..18].copy_from_slice(&self.index.to_le_bytes());
        out[18..20].copy_from_slice(&self.last.to_le_bytes());
    }

    /// Reads it.
    pub fn get(sector: &SectorBytes, at: usize) -> Tomb {
        let bytes = &sector[at * TOMB_BYTES..][..TOMB_BYTES];
        let le16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Tomb { stamp: le64(bytes, 0), before: le64(bytes, 8), index: le16(16), last: le16(18) }
    }

    /// False for what no transaction can have left for `block`.
    pub fn is_sound(&self, block: u64, blocks: u64) -> bool {
        self.before <= self.stamp
            && self.stamp < STAMP_LIMIT
            && is_member(block, self.index, self.last, blocks)
    }
}

/// Makes the checksum of a sector of the trim map right; `number` counts them from 0.
pub fn seal_trims(id: Identity, number: u64, sector: &mut SectorBytes) {
    let sum = sum_at(id, number, &sector[..TRIM_CRC_AT]);
    sector[TRIM_CRC_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// True if a sector of the trim map is whole; one that was never written is.
pub fn trims_are_whole(id: Identity, number: u64, sector: &SectorBytes) -> bool {
    *sector == [0; SECTOR_BYTES]
        || sum_at(id, number, &sector[..TRIM_CRC_AT]) == le32(sector, TRIM_CRC_AT)
}

/// True if all that a sector of the trim map says is possible in a volume of `blocks` blocks with
/// time stamps up to `latest`; `number` counts them from 0.
pub fn trims_are_sound(number: u64, sector: &SectorBytes, blocks: u64, latest: u64) -> bool {
    let first = number * SECTOR_TOMBS as u64;
    let mut tombs =
        (first..).zip(0..SECTOR_TOMBS).map(|(at, index)| (at, Tomb::get(sector, index)));
    let sound = tombs.all(|(block, tomb)| match block < blocks {
        true => tomb.is_sound(block, blocks) && tomb.stamp <= latest,
        false => tomb == Tomb::default(),
    });
    sound && sector[SECTOR_TOMBS * TOMB_BYTES..TRIM_CRC_AT].iter().all(|&byte| byte == 0)
}

/// What a mount and a clean shutdown leave behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// One more for each record; of two the one with the higher number counts.
    pub number: u64,
    /// Every transaction up to this one is durable or has been erased.
    pub durable: u64,
    /// A clean shutdown: nothing was written since.
    pub clean: bool,
    /// Nothing was on its way: `stored` and `digest` are of the transactions up to `durable`.
    pub at_rest: bool,
    /// Number of stored blocks then, and the digest of where they lie.
    pub stored: u64,
    pub digest: u64,
}

impl Record {
    /// The record as it lies on disk.
    pub fn encode(&self, id: Identity) -> Bytes {
        self.encode_with(id, |_| ())
    }

    /// The same with what `more` adds behind byte 60.
    pub(super) fn encode_with(&self, id: Identity, more: impl FnOnce(&mut [u8])) -> Bytes {
        let mut out = vec![0; BLOCK_BYTES];
        out[0..8].copy_from_slice(&RECORD_MAGIC);
        out[8..24].copy_from_slice(&id.to_le_bytes());
        out[24..32].copy_from_slice(&self.number.to_le_bytes());
        out[32..40].copy_from_slice(&self.durable.to_le_bytes());
        out[40..48].copy_from_slice(&self.stored.to_le_bytes());
        out[48..56].copy_from_slice(&self.digest.to_le_bytes());
        out[56..60].copy_from_slice(&u32::from(self.clean).to_le_bytes());
        out[FLAGS_AT] = if self.at_rest { AT_REST } else { 0 };
        more(&mut out);
        let sum = id.sum(&out[..RECORD_CRC_AT]);
        out[RECORD_CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        Bytes::from(out)
    }

    /// Reads a record; `None` if it is absent, damaged or another volume's.
    pub fn decode(id: Identity, block: &[u8]) -> Option<Record> {
        let ours = block[0..8] == RECORD_MAGIC && block[8..24] == id.to_le_bytes();
        let whole = ours && id.sum(&block[..RECORD_CRC_AT]) == le32(block, RECORD_CRC_AT);
        if !ours || !Edge::LogeRecordSum.allows(whole) {
            return None;
        }
        let record = Record {
            number: le64(block, 24),
            durable: le64(block, 32),
            stored: le64(block, 40),
            digest: le64(block, 48),
            clean: le32(block, 56) != 0,
            at_rest: block[FLAGS_AT] & AT_REST != 0,
        };
        (record.number < STAMP_LIMIT && record.durable < STAMP_LIMIT).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::checksum::Sums;

    fn id(number: u128) -> Identity {
        Identity::new(number, Sums::NEWEST)
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let label = Label { block: 7, sum: 9, stamp: 12, durable: 11, index: 2, last: 5 };
        let bytes = label.encode(id(5), 99);
        assert_eq!(Label::decode(id(5), 99, &bytes, 20), Ok(Some(label)));
        assert_eq!(Label::decode(id(5), 98, &bytes, 20), Err(Rot), "a copy at another place");
        assert_eq!(Label::decode(id(6), 99, &bytes, 20), Err(Rot), "another volume's");
        assert_eq!(Label::decode(id(5), 99, &bytes, 10), Err(Rot), "it leaves the volume");
        assert_eq!(Label::decode(id(5), 99, &LabelBytes::default(), 20), Ok(None));
        let (index, last) = SCATTERED;
        for (block, index, last) in [(7, index, last), (DESCRIPTOR, 0, 0)] {
            let label = Label { block, index, last, ..label };
            assert_eq!(Label::decode(id(5), 99, &label.encode(id(5), 99), 20), Ok(Some(label)));
        }
        for at in 0..LABEL_BYTES {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Label::decode(id(5), 99, &bad, 20), Err(Rot), "label byte {at}");
        }
        let tomb = Tomb { stamp: 9, before: 8, index: 1, last: 2 };
        let mut sector = [0; SECTOR_BYTES];
        assert!(trims_are_whole(id(5), 3, &sector));
        tomb.put(&mut sector, 24);
        seal_trims(id(5), 3, &mut sector);
        assert_eq!(Tomb::get(&sector, 24), tomb);
        for at in 0..SECTOR_BYTES {
            let mut bad = sector;
            bad[at] ^= 1;
            assert!(!trims_are_whole(id(5), 3, &bad), "trim byte {at}");
        }
        let record =
            Record { number: 4, durable: 12, clean: true, at_rest: true, stored: 3, digest: 77 };
        let bytes = record.encode(id(5));
        assert_eq!(Record::decode(id(5), &bytes), Some(record));
        for at in 0..BLOCK_BYTES {
            let mut bad = bytes.to_vec();
            bad[at] ^= 1;
            assert_eq!(Record::decode(id(5), &bad), None, "record byte {at}");
        }
    }

    #[test]
    fn each_block_has_one_use() {
        for (blocks, device_blocks) in [(1, 300), (500, 700), (1000, 1153), (200, 257), (3, 10)] {
            for headers in [false, true] {
                let areas = Areas { blocks, device_blocks, headers };
                let pool = (0..device_blocks).filter(|&place| areas.is_pool(place)).count();
                assert_eq!(areas.pool(), pool as u64, "{areas:?}");
                for place in (0..device_blocks).filter(|&place| areas.is_pool(place)) {
                    assert!(areas.groups().contains(&(place / GROUP)), "{areas:?}");
                }
            }
        }
    }
}
