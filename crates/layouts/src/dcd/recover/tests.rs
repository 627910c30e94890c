use super::*;
use crate::registry::{Kind, format, read_superblock};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;

/// An empty volume, and its areas and identity.
fn volume() -> (Cells, Areas, Identity) {
    let mut cells = Cells::new(1200);
    let mut disk = MediumDisk(&mut cells);
    format(&mut disk, &FormatOptions::new(Kind::DCD, 300, 9)).expect("it fits");
    let superblock = read_superblock(&mut disk).expect("it was just made");
    let areas = own_areas(&superblock).expect("it has its own log");
    (cells, areas, superblock.identity())
}

/// A record without content.
fn header(seq: u64, life: u32, offset: u32) -> Header {
    let (entries, before) = (Vec::new(), None);
    Header { seq, segment: 0, offset, durable: 0, tail: 1, life, clean: false, entries, before }
}

fn found(headers: impl IntoIterator<Item = Header>) -> Scan {
    let (records, unreadable, torn) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut scan = Scan { records, durable: 0, life: 0, unreadable, torn };
    headers.into_iter().for_each(|header| scan.take(header));
    scan
}

#[test]
fn of_two_records_with_one_number_that_of_the_later_life_counts() {
    for lives in [[1, 2], [2, 1]] {
        let scan = found(lives.map(|life| header(5, life, 3)));
        assert_eq!(scan.records[&5].life, 2, "{lives:?}");
    }
}

#[test]
fn a_record_of_an_earlier_life_does_not_follow_one_of_a_later() {
    let (mut cells, areas, _) = volume();
    let mut counts = |lives: [u32; 2]| {
        let mut scan = found([header(1, lives[0], 0), header(2, lives[1], 1)]);
        let steps = &mut RecoverySteps::new(None);
        scan.counts(2, &mut MediumDisk(&mut cells), &areas, &mut BTreeMap::new(), steps)
    };
    assert!(counts([1, 1]) && counts([1, 2]));
    assert!(!counts([2, 1]));
}

#[test]
fn each_mount_has_a_later_life_than_all_it_finds() {
    let (mut cells, areas, id) = volume();
    let life = found_by_scan(&mut cells, &areas, id).life;
    let options = MountOptions::default();
    let steps = &mut RecoverySteps::new(None);
    let recovered = recover(&mut MediumDisk(&mut cells), areas, id, &options, steps);
    assert_eq!(recovered.expect("it was just made").log.life, life + 1);
}

fn found_by_scan(cells: &mut Cells, areas: &Areas, id: Identity) -> Scan {
    scan(&mut MediumDisk(cells), areas, id, &mut RecoverySteps::new(None))
}

#[test]
fn a_header_counts_only_where_it_was_written() {
    let (mut cells, areas, id) = volume();
    let mut put = |at: u32, header: &Header| {
        let mut disk = MediumDisk(&mut cells);
        let block = Data::block_of(header.encode(id));
        disk.write(areas.log_first + u64::from(at), block).expect("memory");
    };
    put(1, &header(2, 1, 1));
    put(3, &header(3, 1, 2));
    let scan = found_by_scan(&mut cells, &areas, id);
    assert!(scan.records.contains_key(&2) && !scan.records.contains_key(&3));
    assert_eq!(scan.torn, [3]);
}
