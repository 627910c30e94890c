//! The log of a file system with any bytes in any of its sectors, under valid seals or not: read,
//! and continued where it can be.

use seekless_engine::Bytes;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::ffs::{SealKind, Sealer};
use seekless_fs::log::format::MOST_NUMBER;
use seekless_fs::log::{
    GroupBuilder, LogError, LogShape, LogSuperblock, Record, Ring, Scanned, scan,
};
use std::sync::OnceLock;

const SHAPE: LogShape = LogShape { blocks: 256, unit: 4096 };
pub const ID: u128 = 1;
const FILE_SYSTEM: u128 = 2;

fn store(range: &mut [u8], sector: u64, bytes: &[u8]) {
    let at = sector as usize * SECTOR_BYTES;
    range[at..at + bytes.len()].copy_from_slice(bytes);
}

fn store_superblocks(range: &mut [u8], superblocks: &[LogSuperblock]) {
    superblocks.iter().for_each(|one| store(range, one.block() * 8, &one.encode()));
}

fn read(range: &[u8]) -> Result<Scanned, LogError> {
    let mut source = |block: u64| {
        let at = block as usize * BLOCK_BYTES;
        Some(Bytes::copy_from_slice(&range[at..at + BLOCK_BYTES]))
    };
    scan(&mut source, SHAPE.blocks, FILE_SYSTEM)
}

/// Adds a group and makes it durable.
fn append(range: &mut [u8], ring: &mut Ring, mark: u32, content: usize) {
    let mut group = GroupBuilder::new(1, 0, 0);
    let block = mark;
    let bytes = vec![7; content];
    let records = [Record::Orphan(mark), Record::Bytes { seal: 3, at: 0, block, bytes: &bytes }];
    records.into_iter().for_each(|record| assert!(group.push(record), "a short group"));
    let placed = ring.append(group).expect("the ring has room");
    ring.force(placed.end);
    while let Some(write) = ring.next_write(None) {
        store(range, write.sector, &write.bytes);
        ring.written(write.number);
    }
}

/// A log of two epochs, the later one with groups of one sector and of several.
fn base() -> &'static Vec<u8> {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut range = vec![0; SHAPE.blocks as usize * BLOCK_BYTES];
        store_superblocks(&mut range, &Ring::format(SHAPE, ID, FILE_SYSTEM));
        for _ in 0..2 {
            let found = read(&range).expect("an undamaged log");
            let (mut ring, superblocks) = Ring::begin(&found.superblock, found.next, true);
            store_superblocks(&mut range, &superblocks);
            for mark in 0..6 {
                append(&mut range, &mut ring, mark, 80 * (mark as usize + 1));
            }
        }
        range
    })
}

/// Applies edits {sector 2, offset in it 2, whether it is sealed 1, length 1, bytes} to the range.
pub fn damage(range: &mut [u8], mut input: &[u8]) {
    let sectors = (range.len() / SECTOR_BYTES) as u64;
    while let Some((head, rest)) = input.split_first_chunk::<6>() {
        let sector = u64::from(u16::from_le_bytes([head[0], head[1]])) % sectors;
        let from = usize::from(u16::from_le_bytes([head[2], head[3]])) % SECTOR_BYTES;
        let length = usize::from(head[5]).min(rest.len()).min(SECTOR_BYTES - from);
        let at = sector as usize * SECTOR_BYTES;
        range[at + from..at + from + length].copy_from_slice(&rest[..length]);
        if head[4] & 1 == 1 {
            let bytes = &mut range[at..at + SECTOR_BYTES];
            Sealer::new(ID).set(bytes, sector, SealKind::Log, 1);
        }
        input = &rest[length..];
    }
}

/// The fuzz target.
pub fn run(input: &[u8]) {
    let mut range = base().clone();
    damage(&mut range, input);
    let Ok(found) = read(&range) else { return };
    let mut before = None;
    for group in found.groups() {
        // Malformed records are an answer; a panic is none.
        let _ = group.records();
        assert!(before.is_none_or(|lsn| lsn < group.lsn()), "positions grow");
        assert!(group.lsn() >= found.superblock.start && group.lsn() < found.end);
        before = Some(group.lsn());
    }
    assert!(found.end.number() <= found.next, "an epoch begins behind all groups");
    continues(range, &found);
}

/// The next epoch holds its own groups, whatever the ring holds.
fn continues(mut range: Vec<u8>, found: &Scanned) {
    let is_last = found.next + 2 * SHAPE.sectors() > MOST_NUMBER
        || found.superblock.epoch > u32::MAX - 3
        || found.superblock.sequence > u64::MAX / 4;
    if is_last {
        return;
    }
    let (mut ring, superblocks) = Ring::begin(&found.superblock, found.next, true);
    store_superblocks(&mut range, &superblocks);
    (0..3).for_each(|mark| append(&mut range, &mut ring, mark, 300));
    let again = read(&range).expect("the next epoch is whole");
    let marks = again.groups().map(|group| group.records().expect("this program wrote it")[0]);
    assert!(marks.eq((0..3).map(Record::Orphan)), "its groups and no others");
}
