//! A file system, a log that leads to it, and disks on which parts of it are missing.

use crate::MkfsOptions;
use crate::ffs::journal::held::FRAGMENTS;
use crate::ffs::journal::patches::kind;
use crate::ffs::journal::recover::recover;
use crate::ffs::kit::dying;
use crate::ffs::ondisk::fields::put;
use crate::ffs::ondisk::format::{
    LOG_IN_USE, PolicyAdvice, Recovery, SUPERBLOCK_AT, SUPERBLOCK_BLOCK, State, Superblock,
};
use crate::ffs::ondisk::geometry::Bit;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode};
use crate::ffs::ondisk::seal::{SealKind, Sealer};
use crate::ffs::{load, mkfs};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::checksum::mix;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, SECONDS, SECTOR_BYTES};
use seekless_fs::call::{New, ROOT};
use seekless_fs::log::{GroupBuilder, LogWrite, Record, Ring, Space};
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::SECTOR_CONTENT;
use std::ops::Range;

/// Blocks of the volume: 9 MiB, of which the log has one.
const BLOCKS: u64 = 9 << 8;

/// The bench.
pub struct Bench {
    /// As `mkfs` made it, with the content of files.
    pub base: Cells,
    /// As real calls have left it, with one inode and one fragment that are to be freed.
    pub wanted: Cells,
    /// In use with a log.
    pub superblock: Superblock,
    /// Groups of the log.
    pub groups: u64,
    /// Fragments that are marked as used and have no owner.
    pub intent: Space,
    /// An inode without a name.
    pub orphan: u32,
    seed: u64,
}

pub fn options(policy: PolicyKind) -> MkfsOptions {
    MkfsOptions {
        block: 8192,
        fragment: 1024,
        bytes_per_inode: 8192,
        group: Some(2 << 20),
        id: 7,
        policy,
        journal_unit: 4096,
        journal: (!policy.has_own_log_volume()).then_some(1 << 20),
        journal_blocks: policy.has_own_log_volume().then_some(256),
        ..MkfsOptions::default()
    }
}

/// A group of these records.
pub fn group(records: &[Record<'_>]) -> GroupBuilder {
    let mut group = GroupBuilder::new(1, 0, 5);
    records.iter().for_each(|&record| assert!(group.push(record), "a short group"));
    group
}

/// All of a volume in front of its log but for the first superblock, without seals: these count
/// writes.
pub fn content(cells: &Cells, bench: &Bench) -> Vec<u8> {
    let mut cells = cells.clone();
    let sealer = bench.superblock.sealer();
    let disk = &mut MediumDisk(&mut cells);
    let mut all = disk.read(0, bench.log().start as u32).expect("memory").to_bytes().to_vec();
    for (address, sector) in (0..).zip(all.chunks_exact_mut(SECTOR_BYTES)) {
        if address == SUPERBLOCK_AT / SECTOR_BYTES as u64 {
            sector.fill(0);
        } else if kind_of(sector, address, &sealer).is_some() {
            sector[SECTOR_CONTENT + 2..].fill(0);
        }
    }
    all
}

/// The kind of a whole sector of metadata.
fn kind_of(sector: &[u8], address: u64, sealer: &Sealer) -> Option<SealKind> {
    let kind = kind(sector[SECTOR_CONTENT])?;
    sealer.is_whole(sector, address, kind).then_some(kind)
}

/// A sector of the log's file system that differs.
#[derive(Clone, Debug)]
struct Change {
    address: u64,
    kind: SealKind,
    /// The disk has no sector of this kind there.
    is_fresh: bool,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Bench {
    /// With calls and a log that depend on a seed.
    pub fn new(seed: u64) -> Bench {
        Bench::over(seed, true)
    }

    /// The same over a volume full of foreign bytes, with the log of an older file system.
    pub fn over(seed: u64, older: bool) -> Bench {
        let mut cells = Cells::new(BLOCKS);
        if older {
            let disk = &mut MediumDisk(&mut cells);
            let foreign = Data::bytes(vec![0xa5; BLOCK_BYTES * 256].into());
            disk.write(BLOCKS - 256, foreign).expect("memory");
            let old = MkfsOptions { now: 99, ..options(PolicyKind::Wafs1Sync) };
            let made = mkfs(disk, &old).expect("it fits").superblock;
            let mut ring = recover(disk, &made).expect("new").ring;
            let start = made.log_range().expect("possible").expect("made").start;
            for number in 0..600 {
                ring.append(group(&[Record::Orphan(number), Record::Orphan(9)])).expect("room");
            }
            write_log(disk, start, &mut ring);
        }
        let made = mkfs(&mut MediumDisk(&mut cells), &options(PolicyKind::Wafs1Async));
        let mut superblock = made.expect("it fits").superblock;
        let base = cells.clone();
        let mut wanted = used(cells, seed);
        let (intent, orphan) = leave_open(&mut wanted, &superblock);
        superblock.state = State::InUse;
        superblock.recovery = Recovery::Log;
        superblock.incompatible = LOG_IN_USE;
        superblock.mounted_with = Some(PolicyAdvice::WafsAsync1);
        let mut bench = Bench { base, wanted, superblock, groups: 0, intent, orphan, seed };
        bench.write_data();
        bench.groups = bench.log_groups().len() as u64;
        bench
    }

    /// The blocks of the log.
    pub fn log(&self) -> Range<BlockNr> {
        self.superblock.log_range().expect("possible").expect("made with one")
    }

    /// The superblock, changed.
    pub fn with(&self, change: impl FnOnce(&mut Superblock)) -> Superblock {
        let mut superblock = self.superblock.clone();
        change(&mut superblock);
        superblock
    }

    /// Writes the superblock, changed.
    pub fn set_superblock(&self, cells: &mut Cells, change: impl FnOnce(&mut Superblock)) {
        let block = self.with(change).encode(SUPERBLOCK_AT, 3);
        MediumDisk(cells).write(SUPERBLOCK_BLOCK, Data::bytes(block)).expect("memory");
    }

    fn changes(&self) -> Vec<Change> {
        let sealer = self.superblock.sealer();
        let mut changes = Vec::new();
        for block in self.base.unlike(&self.wanted).filter(|&block| block < self.log().start) {
            if block == SUPERBLOCK_BLOCK {
                continue;
            }
            let [before, after] = [&self.base, &self.wanted].map(|cells| {
                MediumDisk(&mut cells.clone()).read(block, 1).expect("memory").to_bytes()
            });
            for index in 0..BLOCK_SECTORS as usize {
                let part = index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES;
                let (before, after) = (before[part.clone()].to_vec(), after[part].to_vec());
                let address = block * BLOCK_SECTORS + index as u64;
                let Some(kind) = kind_of(&after, address, &sealer) else { continue };
                let is_fresh = !sealer.is_whole(&before, address, kind);
                if !is_fresh && before[..SECTOR_CONTENT] == after[..SECTOR_CONTENT] {
                    continue;
                }
                changes.push(Change { address, kind, is_fresh, before, after });
            }
        }
        changes
    }

    /// Content of files is in place before a group leads to it.
    fn write_data(&mut self) {
        let sealer = self.superblock.sealer();
        let end = self.log().start;
        let changed: Vec<BlockNr> = self.base.unlike(&self.wanted).collect();
        for block in changed.into_iter().filter(|&block| block < end) {
            let [mut base, wanted] = [&self.base, &self.wanted].map(|cells| {
                MediumDisk(&mut cells.clone()).read(block, 1).expect("memory").to_bytes().to_vec()
            });
            for (index, after) in wanted.chunks_exact(SECTOR_BYTES).enumerate() {
                let address = block * BLOCK_SECTORS + index as u64;
                let is_metadata = kind_of(after, address, &sealer).is_some()
                    || address == SUPERBLOCK_AT / SECTOR_BYTES as u64;
                if !is_metadata {
                    put(&mut base, index * SECTOR_BYTES, after);
                }
            }
            MediumDisk(&mut self.base).write(block, Data::bytes(base.into())).expect("memory");
        }
    }

    /// Groups that lead from the one file system to the other: each changed sector goes through
    /// one or two values that are overwritten, in an order that depends on the seed.
    fn log_groups(&self) -> Vec<GroupBuilder> {
        let mut changes = self.changes();
        assert!(changes.len() > 20, "{} sectors differ", changes.len());
        let chance = |number: u64| mix(self.seed << 20 ^ number);
        changes.sort_by_key(|change| chance(change.address));
        let per_block = u64::from(self.superblock.sizes.block_bytes) / SECTOR_BYTES as u64;
        let place = |address: u64| {
            ((address / per_block) as u32, (address % per_block) as u16 * SECTOR_BYTES as u16)
        };
        let mut groups = vec![group(&[Record::Orphan(self.orphan), Record::Orphan(5)])];
        for Change { address, kind, is_fresh, before, .. } in &changes {
            let ((block, at), seal) = (place(*address), *kind as u8);
            let garbage = [0x77; 40];
            let old = if *is_fresh { &[0; 40] } else { &before[100..140] };
            let mut records = vec![Record::Bytes { seal, at: at + 100, block, bytes: &garbage }];
            if *is_fresh {
                let length = SECTOR_BYTES as u16;
                records.insert(0, Record::Fresh { seal, at, block, length });
            }
            groups.push(group(&records));
            groups.push(group(&[Record::Bytes { seal, at: at + 100, block, bytes: old }]));
        }
        let (what, first, count) = self.intent;
        groups.push(group(&[Record::Free { what, first, count }, Record::Adopted(5)]));
        // Long groups: eight sectors each.
        for some in changes.chunks(8) {
            let mut records = Vec::new();
            for Change { address, kind, after, .. } in some {
                let (block, at) = place(*address);
                let bytes = &after[..SECTOR_CONTENT];
                records.push(Record::Bytes { seal: *kind as u8, at, block, bytes });
            }
            groups.push(group(&records));
        }
        groups
    }

    /// The disk after a crash: the log is whole, and of the changed sectors only some are in place.
    pub fn crashed(&self, is_home: impl Fn(u64) -> bool) -> Cells {
        let mut cells = self.base.clone();
        let disk = &mut MediumDisk(&mut cells);
        let clean = load(disk).expect("made").superblock;
        let mut ring = recover(disk, &clean).expect("a new log").ring;
        for group in self.log_groups() {
            ring.append(group).expect("the log is long enough");
            if mix(ring.end().0 ^ self.seed).is_multiple_of(3) {
                write_log(disk, self.log().start, &mut ring);
            }
        }
        write_log(disk, self.log().start, &mut ring);
        self.set_superblock(&mut cells, |_| {});
        for (number, change) in (0..).zip(self.changes()) {
            if is_home(number) {
                put_sector(&mut cells, change.address, &change.after);
            }
        }
        cells
    }
}

/// Makes all groups durable.
pub fn write_log(disk: &mut dyn Disk, at: BlockNr, ring: &mut Ring) {
    ring.force(ring.end());
    while let Some(LogWrite { number, sector, bytes }) = ring.next_write(None) {
        disk.write(at + sector / BLOCK_SECTORS, Data::bytes(bytes)).expect("memory");
        ring.written(number);
    }
}

pub fn put_sector(cells: &mut Cells, address: u64, sector: &[u8]) {
    let block = address / BLOCK_SECTORS;
    let disk = &mut MediumDisk(cells);
    let mut bytes = disk.read(block, 1).expect("memory").to_bytes().to_vec();
    put(&mut bytes, (address % BLOCK_SECTORS) as usize * SECTOR_BYTES, sector);
    disk.write(block, Data::bytes(bytes.into())).expect("memory");
}

/// A tree of directories and files, made by calls.
fn used(cells: Cells, seed: u64) -> Cells {
    let medium = CutMedium::new(cells);
    let device = Ram::new(Box::new(medium.clone()));
    let mut files = dying::mount_over(device, 1000 * SECONDS);
    for number in 0..12 + seed % 5 {
        let (dir, _) =
            dying::make(&mut files, ROOT, New::Directory, &format!("d{number}")).expect("space");
        for file in 0..3 {
            let bytes = (mix(seed ^ number ^ file << 8) % 40_000) as usize + 1;
            dying::file(&mut files, dir, &format!("f{file}"), bytes).expect("space");
        }
    }
    dying::file(&mut files, ROOT, "long", 600_000).expect("space");
    dying::unlink(&mut files, ROOT, "long").expect("it is there");
    assert_eq!(files.unmount().1, Ok(()));
    medium.contents()
}

/// Marks a fragment as used that no file has, and makes an inode that has no name.
fn leave_open(cells: &mut Cells, superblock: &Superblock) -> (Space, u32) {
    let geometry = superblock.geometry().expect("made");
    let last = geometry.fragments() - 5;
    let orphan = geometry.inodes_per_block() - 1;
    let bits = [geometry.fragment_bit(last), geometry.inode_bit(orphan)];
    for Bit { block, at, mask } in bits {
        edit(cells, superblock, (block, at, SealKind::Map), &|bytes| {
            assert_eq!(bytes[0] & mask, 0, "it is free");
            bytes[0] |= mask;
        });
    }
    let place = geometry.inode_place(orphan);
    let inode = Inode { mode: 0o100_644, generation: 4, ..Inode::default() };
    edit(cells, superblock, (place.block, place.at, SealKind::Inodes), &|bytes| {
        bytes[..INODE_BYTES].copy_from_slice(&inode.encode());
    });
    ((FRAGMENTS, last, 1), orphan)
}

/// Changes bytes of a sealed sector from an offset of a block on.
fn edit(
    cells: &mut Cells,
    superblock: &Superblock,
    (block, at, kind): (u64, usize, SealKind),
    change: &dyn Fn(&mut [u8]),
) {
    let per_block = u64::from(superblock.sizes.block_bytes) / SECTOR_BYTES as u64;
    let address = block * per_block + (at / SECTOR_BYTES) as u64;
    let (engine, index) = (address / BLOCK_SECTORS, (address % BLOCK_SECTORS) as usize);
    let bytes = MediumDisk(cells).read(engine, 1).expect("memory").to_bytes();
    let mut sector = bytes[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES].to_vec();
    assert!(superblock.sealer().is_whole(&sector, address, kind), "a whole sector");
    change(&mut sector[at % SECTOR_BYTES..]);
    superblock.sealer().set(&mut sector, address, kind, 9);
    put_sector(cells, address, &sector);
}
