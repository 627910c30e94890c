//! Checkpoints on disk: which blocks are in use, and where the map block of each slice lies, as of
//! a commit. A mount that has one need not read inodes to find what is free.
//!
//! There are two areas behind the tail record. A checkpoint goes to the one that does not hold the
//! newest whole one: a header, the places of the map blocks, a bitmap, and the header again. All
//! its blocks carry its number, and a checksum of the header as well. It is whole if all of them
//! are there, in whatever order the device has written them. `SPEC.md` has the tables.

pub mod taking;

use super::slices;
use crate::vlog::format::{Pointer, TAIL_BLOCK};
use bytes::Bytes;
use seekless_engine::checksum::{Identity, crc32c_append};
use seekless_engine::data::{Data, Piece};
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::superblock::{Superblock, le32, le64};
use seekless_engine::units::{BLOCK_BYTES, BlockNr};

const MAGIC: [u8; 8] = *b"SKLSVCK1";
/// Bytes of a block that hold the map or the bitmap; then number, index and checksum.
const PAYLOAD: usize = 4080;
const NUMBER_AT: usize = PAYLOAD;
const INDEX_AT: usize = NUMBER_AT + 8;
const CRC_AT: usize = BLOCK_BYTES - 4;
/// Bytes of the place and the sequence number of a map block.
const POINTER_BYTES: usize = 12;
const POINTERS: usize = PAYLOAD / POINTER_BYTES;
const BITS: u64 = PAYLOAD as u64 * 8;
/// The header and its copy behind the rest.
const HEADERS: u64 = 2;
/// Blocks read at once.
const AT_ONCE: u64 = 256;

const _: () = assert!(INDEX_AT + 4 == CRC_AT && POINTERS * POINTER_BYTES == PAYLOAD);

/// Where checkpoints of a volume lie, and how large they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    slices: u32,
    device_blocks: u64,
}

impl Areas {
    /// Those of a volume.
    pub fn of(volume: &Superblock) -> Areas {
        Areas { slices: slices(volume.blocks), device_blocks: volume.device_blocks }
    }

    /// Those of a device with so many slices.
    pub fn new(slices: u32, device_blocks: u64) -> Areas {
        Areas { slices, device_blocks }
    }

    fn map_blocks(self) -> u64 {
        u64::from(self.slices).div_ceil(POINTERS as u64)
    }

    /// Blocks of an area.
    pub fn blocks(self) -> u64 {
        HEADERS + self.map_blocks() + self.device_blocks.div_ceil(BITS)
    }

    /// The first block of an area, 0 or 1.
    pub fn start(self, area: usize) -> BlockNr {
        TAIL_BLOCK + 1 + area as u64 * self.blocks()
    }

    /// The first block behind both: the pool begins there.
    pub fn end(self) -> BlockNr {
        self.start(2)
    }
}

/// What the header of a checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number, greater than those before.
    pub number: u64,
    /// The commit that it is of. It was durable when the checkpoint was begun.
    pub commit: u64,
    /// The sequence number of the next map block.
    pub next_sequence: u64,
    /// Digest of the live set.
    pub digest: u64,
    /// A commit that was durable when the checkpoint was written.
    pub durable: u64,
    /// Each block that counts as used is.
    pub is_exact: bool,
}

impl Head {
    /// The header of a volume with these areas, or its copy at the end.
    pub fn encode(&self, id: Identity, areas: Areas, is_end: bool) -> Vec<u8> {
        let mut out = vec![0; BLOCK_BYTES];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..24].copy_from_slice(&id.to_le_bytes());
        let numbers = [self.number, self.commit, self.next_sequence, self.digest, self.durable];
        for (number, at) in numbers.into_iter().chain([areas.device_blocks]).zip((24..).step_by(8))
        {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[72..76].copy_from_slice(&areas.slices.to_le_bytes());
        out[76] = u8::from(self.is_exact);
        out[77] = u8::from(is_end);
        let sum = id.sum(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads one; `None` if it is damaged, another volume's, or not at its end of an area.
    pub fn decode(id: Identity, areas: Areas, is_end: bool, block: &[u8]) -> Option<Head> {
        let is_whole = block[0..8] == MAGIC
            && block[8..24] == id.to_le_bytes()
            && id.sum(&block[..CRC_AT]) == le32(block, CRC_AT)
            && le64(block, 64) == areas.device_blocks
            && le32(block, 72) == areas.slices
            && block[77] == u8::from(is_end);
        is_whole.then(|| Head {
            number: le64(block, 24),
            commit: le64(block, 32),
            next_sequence: le64(block, 40),
            digest: le64(block, 48),
            durable: le64(block, 56),
            is_exact: block[76] == 1,
        })
    }

    /// The check of another block of the checkpoint. It covers what the header says of the volume
    /// and of the commit. A number may come twice, if a power cut left blocks of a checkpoint and
    /// not its headers: a block of the first one must not count as one of the second.
    fn sum(&self, id: Identity, block: &[u8]) -> u32 {
        let [number, commit, next, digest] =
            [self.number, self.commit, self.next_sequence, self.digest].map(u64::to_le_bytes);
        let all = [&id.to_le_bytes()[..], &number, &commit, &next, &digest, &block[..CRC_AT]];
        id.of_crc(all.into_iter().fold(0, crc32c_append))
    }

    /// True if this ends the checkpoint that the other one begins.
    fn ends(&self, begin: &Head) -> bool {
        (self.number, self.commit, self.next_sequence, self.digest)
            == (begin.number, begin.commit, begin.next_sequence, begin.digest)
    }
}

/// The block of a checkpoint that has this index in it: the places of map blocks, or bits that say
/// which blocks are in use.
///
/// # Panics
/// If that is a header.
pub fn encode_block(
    (id, areas, head): (Identity, Areas, &Head),
    index: u64,
    map: &[Pointer],
    is_used: impl Fn(BlockNr) -> bool,
) -> Vec<u8> {
    assert!((1..areas.blocks() - 1).contains(&index), "block {index} is a header");
    let mut out = vec![0; BLOCK_BYTES];
    match (index - 1).checked_sub(areas.map_blocks()) {
        None => {
            let part = map.iter().skip((index - 1) as usize * POINTERS).take(POINTERS);
            for (pointer, out) in part.zip(out.chunks_exact_mut(POINTER_BYTES)) {
                out[..4].copy_from_slice(&pointer.place.to_le_bytes());
                out[4..].copy_from_slice(&pointer.sequence.to_le_bytes());
            }
        }
        Some(part) => {
            let first = part * BITS;
            for at in (first..first + BITS).take_while(|&at| at < areas.device_blocks) {
                let bit = (at - first) as usize;
                out[bit / 8] |= u8::from(is_used(at)) << (bit % 8);
            }
        }
    }
    out[NUMBER_AT..INDEX_AT].copy_from_slice(&head.number.to_le_bytes());
    out[INDEX_AT..CRC_AT].copy_from_slice(&(index as u32).to_le_bytes());
    let sum = head.sum(id, &out);
    out[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// The payload of a block of a checkpoint; `None` if it is damaged or another one's.
fn decode_block<'b>(id: Identity, head: &Head, index: u64, block: &'b [u8]) -> Option<&'b [u8]> {
    let is_whole = head.sum(id, block) == le32(block, CRC_AT)
        && le64(block, NUMBER_AT) == head.number
        && u64::from(le32(block, INDEX_AT)) == index;
    is_whole.then_some(&block[..PAYLOAD])
}

/// A whole checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// What its end says.
    pub head: Head,
    /// The map block of each slice; place 0 if there is none.
    pub map: Vec<Pointer>,
    used: Vec<u8>,
}

impl Checkpoint {
    /// Blocks in use.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = |(at, &byte): (usize, &u8)| {
            let set = move |bit: &u32| byte & 1 << bit != 0;
            (0..8).filter(set).map(move |bit| at as u32 * 8 + bit)
        };
        self.used.iter().enumerate().filter(|(_, byte)| **byte != 0).flat_map(bits)
    }
}

/// What the areas of a volume hold.
#[derive(Debug, Default)]
pub struct Found {
    /// The newest whole checkpoint, and its area.
    pub newest: Option<(usize, Checkpoint)>,
    /// The greatest number that any header has.
    pub last_number: u64,
    /// Blocks that were read.
    pub blocks_read: u64,
}

/// Looks for checkpoints. What cannot be read is not whole.
///
/// # Errors
/// The power is off.
pub fn find(disk: &mut dyn Disk, volume: &Superblock) -> Result<Found, IoError> {
    let (id, areas) = (volume.identity(), Areas::of(volume));
    let mut found = Found::default();
    let mut whole = Vec::new();
    for area in [0, 1] {
        let start = areas.start(area);
        let mut head = |at, is_end| -> Result<Option<Head>, IoError> {
            found.blocks_read += 1;
            let is_head =
                |_, block: &Piece| Head::decode(id, areas, is_end, &block.to_bytes()).is_some();
            match disk.read_whole(at, 1, &is_head) {
                Ok(data) => Ok(Head::decode(id, areas, is_end, &data.to_bytes())),
                Err(IoError::PowerOff) => Err(IoError::PowerOff),
                Err(_) => Ok(None),
            }
        };
        let (begin, end) = (head(start, false)?, head(start + areas.blocks() - 1, true)?);
        let numbers = [begin, end].into_iter().flatten().map(|head| head.number);
        found.last_number = numbers.chain([found.last_number]).max().unwrap_or(0);
        if let (Some(begin), Some(end)) = (begin, end)
            && end.ends(&begin)
        {
            whole.push((area, end));
        }
    }
    whole.sort_unstable_by_key(|(_, head)| std::cmp::Reverse(head.number));
    for (area, head) in whole {
        if let Some(one) = read(disk, id, areas, area, head, &mut found.blocks_read)? {
            found.newest = Some((area, one));
            break;
        }
    }
    Ok(found)
}

/// Reads what lies between the headers; `None` if that is not whole.
fn read(
    disk: &mut dyn Disk,
    id: Identity,
    areas: Areas,
    area: usize,
    head: Head,
    blocks_read: &mut u64,
) -> Result<Option<Checkpoint>, IoError> {
    let (mut map, mut used) = (Vec::new(), Vec::new());
    let end = areas.blocks() - 1;
    let mut index = 1;
    while index < end {
        let count = AT_ONCE.min(end - index);
        *blocks_read += count;
        let first = index;
        let is_whole = |at: u32, block: &Piece| {
            decode_block(id, &head, first + u64::from(at), &block.to_bytes()).is_some()
        };
        let data = match disk.read_whole(areas.start(area) + index, count as u32, &is_whole) {
            Ok(data) => data.to_bytes(),
            Err(IoError::PowerOff) => return Err(IoError::PowerOff),
            Err(_) => return Ok(None),
        };
        for block in data.chunks_exact(BLOCK_BYTES) {
            let Some(payload) = decode_block(id, &head, index, block) else {
                return Ok(None);
            };
            match index <= areas.map_blocks() {
                true => map.extend(
                    payload
                        .chunks_exact(POINTER_BYTES)
                        .map(|bytes| Pointer { place: le32(bytes, 0), sequence: le64(bytes, 4) }),
                ),
                false => used.extend_from_slice(payload),
            }
            index += 1;
        }
    }
    map.truncate(areas.slices as usize);
    Ok(Some(Checkpoint { head, map, used }))
}

/// Blocks of a checkpoint as one write.
pub fn data(blocks: Vec<Vec<u8>>) -> Data {
    Data::bytes(Bytes::from(blocks.concat()))
}

#[cfg(test)]
mod tests;
