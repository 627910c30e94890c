use super::*;
use crate::registry::{Kind, format, read_superblock};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;

/// An empty volume of 1000 blocks.
fn volume() -> (Cells, Superblock) {
    let mut cells = Cells::new(2000);
    let mut disk = MediumDisk(&mut cells);
    format(&mut disk, &FormatOptions::new(Kind::LOGE, 1000, 9)).expect("it fits");
    let superblock = read_superblock(&mut disk).expect("it was just made");
    (cells, superblock)
}

#[test]
fn a_transaction_whose_members_disagree_does_not_hold() {
    let (mut cells, superblock) = volume();
    let steps = &mut RecoverySteps::new(None);
    let options = MountOptions::default();
    let mut disk = MediumDisk(&mut cells);
    let mut scan = Scan::new(&mut disk, &superblock, &options, steps);
    let mut holds = |last: [u16; 2]| {
        let mut found = Found::default();
        for (block, index) in [(5, 0), (6, 1)] {
            found.add(block, index, last[usize::from(index)], Member::Buried);
        }
        scan.holds(7, &found)
    };
    assert!(holds([1, 1]));
    assert!(!holds([1, 2]));
}

/// The stamps of transactions that a crash has taken are not given out again.
#[test]
fn after_a_crash_time_stamps_go_on_behind_a_gap() {
    let next = |clean: bool| {
        let (mut cells, superblock) = volume();
        let mut disk = MediumDisk(&mut cells);
        let record = Record { number: 1, clean, durable: 5, ..Record::default() };
        let block = Data::bytes(record.encode(superblock.identity()));
        disk.write(RECORDS[1], block).expect("memory");
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let steps = &mut RecoverySteps::new(None);
        mount(&mut disk, &superblock, &options, steps).expect("it is whole").next_stamp
    };
    assert_eq!(next(true), 6);
    assert_eq!(next(false), 6 + LIFE_STAMPS);
}
