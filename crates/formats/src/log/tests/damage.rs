//! Damage of any sector: it is named, and nothing in front of it is lost.

use super::*;

/// A log of several epochs that was closed, and its records.
fn closed() -> (Cells, Vec<(Lsn, Vec<u8>)>) {
    let mut cells = Cells::new(64);
    drop(made(&mut cells));
    for _ in 0..3 {
        cells = with_a_gap(&mut cells).1;
    }
    let mut log = opened(&mut cells);
    for number in 0..9 {
        log.append(&record(number, 5000)).expect("space");
    }
    log.sync().expect("memory");
    let records = all(&mut log);
    log.close().expect("memory");
    (cells, records)
}

fn sector_is_in_use(cells: &mut Cells, place: u64) -> bool {
    let block = cells.read(place / 8, 1).expect("memory").to_bytes();
    let at = (place % 8) as usize * SECTOR_BYTES;
    block[at..at + SECTOR_BYTES].iter().any(|&byte| byte != 0)
}

fn flip(cells: &mut Cells, place: u64, at: usize) {
    let mut block = cells.read(place / 8, 1).expect("memory").to_bytes().to_vec();
    block[(place % 8) as usize * SECTOR_BYTES + at] ^= 0x20;
    cells.write(place / 8, &Data::bytes(block.into())).expect("memory");
}

/// The whole records in front of a sector.
fn in_front(records: &[(Lsn, Vec<u8>)], number: u64) -> &[(Lsn, Vec<u8>)] {
    let end = |(at, record): &(Lsn, Vec<u8>)| {
        // 480 bytes of payload in each sector, behind 24 of its head.
        let at = at.number() * 480 + at.offset() as u64 - 24;
        (at + 48 + (record.len() as u64).next_multiple_of(4)).div_ceil(480)
    };
    let count = records.iter().take_while(|one| end(one) <= number).count();
    &records[..count]
}

#[test]
fn damage_of_any_durable_sector_is_named_and_loses_nothing_in_front_of_it() {
    let (whole, records) = closed();
    let mut named = 0;
    for place in 16..64 * 8 {
        let mut cells = whole.clone();
        if !sector_is_in_use(&mut cells, place) {
            continue;
        }
        flip(&mut cells, place, place as usize % SECTOR_BYTES);
        let mut reader = LogReader::open(MediumDisk(&mut cells)).expect("superblocks are whole");
        let found: Vec<_> =
            reader.records(Lsn(0)).collect::<Result<_, _>>().expect("whole records");
        let Some(error) = reader.damage().cloned() else {
            assert_eq!(found, records, "a sector that a crash has left behind an end: {place}");
            continue;
        };
        named += 1;
        let number = error.damaged_sector().expect("a sector is named");
        let Error::Damaged { byte, .. } = error else { panic!("{error}") };
        assert_eq!(byte, place * SECTOR_BYTES as u64, "{error}");
        assert_eq!(found, in_front(&records, number), "{error}");
        let before = cells.clone();
        assert_eq!(Log::open(MediumDisk(&mut cells)).err(), Some(error));
        assert_eq!(cells.medium_print(), before.medium_print(), "nothing is written");
    }
    assert!(named > 40, "{named} sectors");
}

trait Print {
    fn medium_print(&self) -> Vec<u8>;
}

impl Print for Cells {
    fn medium_print(&self) -> Vec<u8> {
        let mut cells = self.clone();
        let blocks = cells.blocks() as u32;
        cells.read(0, blocks).expect("memory").to_bytes().to_vec()
    }
}

#[test]
fn damage_of_one_superblock_loses_nothing_and_is_mended() {
    let (whole, records) = closed();
    for block in 0..2 {
        let mut cells = whole.clone();
        flip(&mut cells, block * 8, 40);
        assert_eq!(all(&mut opened(&mut cells)), records);
        flip(&mut cells, (1 - block) * 8, 40);
        assert_eq!(all(&mut opened(&mut cells)), records, "the first one was written anew");
    }
    let mut cells = whole;
    flip(&mut cells, 0, 40);
    flip(&mut cells, 8, 40);
    assert_eq!(Log::open(MediumDisk(&mut cells)).err(), Some(Error::NoLog));
}

/// Damage under an open log is met by the next read.
#[test]
fn a_read_of_a_damaged_record_fails_and_others_do_not() {
    let (mut cells, records) = closed();
    let (number, _) = (records[2].0.number(), ());
    flip(&mut cells, 16 + number % (62 * 8), 30);
    let found = LogReader::open(MediumDisk(&mut cells)).expect("superblocks are whole");
    assert_eq!(found.damage().and_then(Error::damaged_sector), Some(number));
    let mut reader = found;
    assert_eq!(reader.read(records[2].0), Err(Error::NoRecord(records[2].0)));
    let last = in_front(&records, number).last().cloned();
    if let Some((at, record)) = last {
        assert_eq!(reader.read(at), Ok(record));
    }
}
