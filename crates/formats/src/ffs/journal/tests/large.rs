//! What recovery of a full log takes on a large volume.

use super::bench::{group, write_log};
use crate::MkfsOptions;
use crate::ffs::journal::recover::recover;
use crate::ffs::mkfs;
use crate::ffs::ondisk::format::{LOG_IN_USE, Recovery, State, Superblock};
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::checksum::mix;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::io::IoError;
use seekless_engine::units::{BlockNr, SECTOR_BYTES};
use seekless_fs::log::{Record, Ring};
use seekless_fs::policy::PolicyKind;

/// Fills the log with groups of 112 bytes, each with changes of a bitmap and of an inode.
fn fill(disk: &mut dyn Disk, superblock: &Superblock, ring: &mut Ring) -> u64 {
    let geometry = superblock.geometry().expect("made");
    let start = superblock.log_range().expect("possible").expect("made").start;
    let (mut groups, mut begun) = (0_u64, vec![false; geometry.groups() as usize]);
    while ring.has_room(4096) {
        let chance = mix(groups);
        let number = (chance % u64::from(geometry.groups())) as u32;
        let (map, table) = (geometry.maps_of(number) as u32, geometry.table_of(number) as u32);
        let sector =
            |most: u64, shift: u32| ((chance >> shift) % most) as u16 * SECTOR_BYTES as u16;
        let (bit, inode) = (&[chance as u8; 8], &[chance as u8; 40]);
        let length = geometry.block_bytes() as u16;
        let mut records = vec![
            Record::Bytes {
                seal: SealKind::Map as u8,
                at: SECTOR_BYTES as u16 * 3 + 16 + sector(5, 20),
                block: map,
                bytes: bit,
            },
            Record::Bytes {
                seal: SealKind::Inodes as u8,
                at: sector(16, 30) + 126 * ((chance >> 40) % 4) as u16,
                block: table,
                bytes: inode,
            },
        ];
        let seal = SealKind::Inodes as u8;
        if number > 0 && !std::mem::replace(&mut begun[number as usize], true) {
            records.insert(0, Record::Fresh { seal, at: 0, block: table, length });
        }
        ring.append(group(&records)).expect("there is room");
        groups += 1;
        if groups.is_multiple_of(4096) {
            write_log(disk, start, ring);
        }
    }
    write_log(disk, start, ring);
    groups
}

/// A disk that counts the blocks that are read.
struct Counted<'d>(MediumDisk<'d>, u64);

impl Disk for Counted<'_> {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    fn read(&mut self, at: BlockNr, count: u32) -> Result<Data, IoError> {
        self.1 += u64::from(count);
        self.0.read(at, count)
    }

    fn write(&mut self, at: BlockNr, data: Data) -> Result<(), IoError> {
        self.0.write(at, data)
    }

    fn flush(&mut self) -> Result<(), IoError> {
        self.0.flush()
    }
}

/// Recovery reads the log once, and the blocks that it changes: it does not walk over the 8323
/// groups of the file system.
#[test]
#[ignore = "takes 10 seconds and a gigabyte; `cargo xtask ci fuzz` runs it"]
fn recovery_of_a_tebibyte_reads_the_log_and_what_it_names() {
    let mut cells = Cells::new((1 << 40) >> 12);
    let disk = &mut MediumDisk(&mut cells);
    let options = MkfsOptions { policy: PolicyKind::Wafs1Async, id: 7, ..MkfsOptions::default() };
    let mut superblock = mkfs(disk, &options).expect("it fits").superblock;
    let mut ring = recover(disk, &superblock).expect("new").ring;
    let groups = fill(disk, &superblock, &mut ring);
    superblock.state = State::InUse;
    superblock.recovery = Recovery::Log;
    superblock.incompatible = LOG_IN_USE;
    let before = cells.clone();
    let mut counted = Counted(MediumDisk(&mut cells), 0);
    let recovered = recover(&mut counted, &superblock).expect("whole");
    let read = counted.1;
    assert_eq!(recovered.groups, groups);
    let log = u64::from(ring.shape().blocks);
    let changed = before.unlike(&cells).filter(|&block| block < recovered.at).count() as u64;
    assert!(read <= log + changed + 64, "{read} blocks for {log} of the log and {changed} changed");
}
