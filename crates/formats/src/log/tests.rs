//! The log over memory: what comes back, what is refused, what a crash or damage leaves.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::SECTOR_BYTES;

mod cached;
mod damage;

type Memory<'m> = MediumDisk<'m>;

/// The smallest log, in blocks.
const LEAST: u64 = 32;

fn options() -> LogOptions {
    LogOptions { id: 7, unit: None }
}

fn made(cells: &mut Cells) -> Log<Memory<'_>> {
    Log::create(MediumDisk(cells), &options()).expect("it is large enough")
}

fn opened(cells: &mut Cells) -> Log<Memory<'_>> {
    Log::open(MediumDisk(cells)).expect("a whole log")
}

fn all<D: Disk>(log: &mut Log<D>) -> Vec<(Lsn, Vec<u8>)> {
    log.records(Lsn(0)).collect::<Result<_, _>>().expect("whole records")
}

/// A record of any length up to `most`, which a number tells from others.
fn record(number: u64, most: u64) -> Vec<u8> {
    let length = seekless_engine::checksum::mix(number) % (most + 1);
    (0..length).map(|at| (at + number) as u8).collect()
}

#[test]
fn records_come_back_by_position_and_in_order() {
    let mut cells = Cells::new(256);
    let mut log = made(&mut cells);
    let mut wanted = Vec::new();
    for number in 0..200 {
        let record = record(number, 2000);
        wanted.push((log.append(&record).expect("there is space"), record));
        if number % 7 == 0 {
            log.sync().expect("memory");
        }
    }
    let last = wanted[199].0;
    assert_eq!(log.read(last), Err(Error::NoRecord(last)), "it is not durable");
    log.sync().expect("memory");
    assert_eq!(all(&mut log), wanted);
    for (at, record) in &wanted {
        assert_eq!(log.read(*at).as_ref(), Ok(record));
        assert_eq!(log.read(Lsn(at.0 + 1)), Err(Error::NoRecord(Lsn(at.0 + 1))));
    }
    let from = log.records(wanted[150].0).collect::<Result<Vec<_>, _>>();
    assert_eq!(from.as_deref(), Ok(&wanted[150..]));
    log.close().expect("memory");
    assert_eq!(all(&mut opened(&mut cells)), wanted);
}

#[test]
fn records_of_no_bytes_and_of_the_longest_length_are_records() {
    for blocks in [LEAST, 256, 2048] {
        let mut cells = Cells::new(blocks);
        let mut log = made(&mut cells);
        let most = log.stat().most_record;
        assert!(most >= 64 << 10, "{blocks} blocks take {most} bytes");
        let long = vec![5; most as usize];
        let too_long = log.append(&vec![5; most as usize + 1]);
        assert_eq!(too_long, Err(Error::TooLong { length: most + 1, most }));
        for round in 0..5 {
            log.append(&long).unwrap_or_else(|error| panic!("round {round}: {error}"));
            log.trim(log.stat().end).expect("memory");
        }
        let empty = log.append(b"").expect("there is space");
        log.sync().expect("memory");
        assert_eq!(all(&mut log), [(empty, Vec::new())]);
    }
}

#[test]
fn a_full_log_takes_records_again_after_a_trim() {
    let mut cells = Cells::new(LEAST);
    let mut log = made(&mut cells);
    let mut kept: Vec<(Lsn, Vec<u8>)> = Vec::new();
    let mut trims = 0;
    for number in 0..2000 {
        let record = record(number, 900);
        let appended = log.append(&record).or_else(|error| {
            assert_eq!(error, Error::Full);
            trims += 1;
            log.sync().expect("memory");
            assert_eq!(all(&mut log), kept);
            let to = kept[kept.len() / 2].0;
            log.trim(to).expect("memory");
            kept.retain(|(at, _)| *at >= to);
            assert_eq!(log.stat().start, to);
            log.append(&record)
        });
        kept.push((appended.expect("there is space"), record));
    }
    assert!(trims > 10, "{trims} trims");
    log.close().expect("memory");
    assert_eq!(all(&mut opened(&mut cells)), kept);
}

#[test]
fn a_trim_needs_a_record_or_the_end() {
    let mut cells = Cells::new(LEAST);
    let mut log = made(&mut cells);
    let first = log.append(b"one").expect("space");
    let second = log.append(b"two").expect("space");
    let within = Lsn(second.0 + 4);
    assert_eq!(log.trim(within), Err(Error::NoRecord(within)));
    log.trim(first).expect("it is the start already");
    assert_eq!(all(&mut log).len(), 2);
    log.trim(second).expect("memory");
    assert_eq!(all(&mut log), [(second, b"two".to_vec())]);
    assert_eq!(log.read(first), Err(Error::NoRecord(first)));
    log.trim(log.stat().end).expect("memory");
    assert_eq!((all(&mut log), log.stat().used), (vec![], 0));
    assert_eq!(all(&mut opened(&mut cells)), []);
}

/// An image of the log as it is, as if the process ended here.
fn copied(log: Log<Memory<'_>>) -> Cells {
    let mut copy = Cells::new(log.stat().size / 4096);
    let mut disk = log.disk;
    for at in 0..copy.blocks() {
        copy.write(at, &disk.read(at, 1).expect("memory")).expect("memory");
    }
    copy
}

/// Appends units that no sync waits for, and loses the first of these writes.
fn with_a_gap(cells: &mut Cells) -> (Vec<(Lsn, Vec<u8>)>, Cells) {
    let mut log = opened(cells);
    for number in 0..4 {
        log.append(&record(number, 300)).expect("space");
    }
    log.sync().expect("memory");
    let synced = all(&mut log);
    let lost = log.writer_next_block();
    let before = log.disk.read(lost, 1).expect("memory");
    for number in 0..40 {
        log.append(&record(number, 900)).expect("space");
    }
    let mut cut = copied(log);
    cut.write(lost, &before).expect("memory");
    (synced, cut)
}

impl Log<Memory<'_>> {
    /// The block of the next write.
    fn writer_next_block(&self) -> u64 {
        let shape = self.writer.view().shape;
        shape.place(self.stat().end.number().next_multiple_of(8)) / 8
    }
}

#[test]
fn an_epoch_begins_only_where_a_crash_has_left_something() {
    let mut cells = Cells::new(LEAST);
    let mut log = made(&mut cells);
    log.append(b"one").expect("space");
    log.sync().expect("memory");
    let epoch = log.stat().epoch;
    drop(log);
    assert_eq!(opened(&mut cells).stat().epoch, epoch, "nothing lies behind the end");
    let (synced, mut cut) = with_a_gap(&mut cells);
    let mut log = opened(&mut cut);
    assert!(log.stat().epoch > epoch);
    assert_eq!(all(&mut log), synced, "what lies behind the gap is lost");
}

#[test]
fn records_of_all_epochs_stay_until_they_are_trimmed() {
    let mut cells = Cells::new(256);
    drop(made(&mut cells));
    let mut wanted = Vec::new();
    for crash in 0..5 {
        let (synced, cut) = with_a_gap(&mut cells);
        cells = cut;
        assert!(synced.starts_with(&wanted), "crash {crash}");
        wanted = synced;
    }
    let mut log = opened(&mut cells);
    assert_eq!(all(&mut log), wanted);
    for cut in [2, 5, 11, 19] {
        log.trim(wanted[cut].0).expect("memory");
        assert_eq!(all(&mut log), wanted[cut..]);
        assert_eq!(log.read(wanted[cut].0).as_ref(), Ok(&wanted[cut].1));
    }
    drop(log);
    let mut log = opened(&mut cells);
    assert_eq!(all(&mut log), wanted[19..]);
    log.trim(log.stat().end).expect("memory");
    assert_eq!(all(&mut log), []);
}

/// Crash after crash, nothing trimmed: opening a full log needs the space that is left for it, and
/// no more.
#[test]
fn a_full_log_can_be_opened_after_any_number_of_crashes() {
    let mut cells = Cells::new(LEAST);
    let mut log = made(&mut cells);
    while log.append(&[3; 700]).is_ok() {}
    let mut cut = copied(log);
    // The last unit is there, the one in front of it is lost.
    let lost = opened_block_in_front_of_the_last(&mut cut);
    cut.write(lost, &Data::zeros(1)).expect("memory");
    let records = all(&mut opened(&mut cut));
    for _ in 0..6 {
        let mut log = opened(&mut cut);
        assert_eq!(all(&mut log), records);
        while log.append(&[4; 300]).is_ok() {}
        cut = copied(log);
    }
    let mut log = opened(&mut cut);
    log.trim(log.stat().end).expect("memory");
    log.append(&[1; 60_000]).expect("all space is free");
}

fn opened_block_in_front_of_the_last(cells: &mut Cells) -> u64 {
    let end = LogReader::open(MediumDisk(cells)).expect("a log").stat().end;
    (end.number() / 8 - 2) % 30 + 2
}

#[test]
fn volumes_without_a_log_are_refused_by_name() {
    let mut cells = Cells::new(LEAST);
    assert_eq!(Log::open(MediumDisk(&mut cells)).err(), Some(Error::NoLog));
    let mut small = Cells::new(LEAST - 1);
    let refused = Log::create(MediumDisk(&mut small), &options()).err();
    assert!(matches!(refused, Some(Error::BadOption(_))), "{refused:?}");
    for unit in [0, 1000, 16 << 10, 1 << 20] {
        let options = LogOptions { unit: Some(unit), ..options() };
        let refused = Log::create(MediumDisk(&mut cells), &options).err();
        assert!(matches!(refused, Some(Error::BadOption(_))), "{unit}: {refused:?}");
    }
    let mut cells = Cells::new(256);
    drop(made(&mut cells));
    let mut short = Cells::new(100);
    for at in 0..100 {
        short.write(at, &cells.read(at, 1).expect("memory")).expect("memory");
    }
    let truncated = Error::Truncated { needed: 256 << 12, found: 100 << 12 };
    assert_eq!(Log::open(MediumDisk(&mut short)).err(), Some(truncated));
    let mut grown = Cells::new(300);
    for at in 0..256 {
        grown.write(at, &cells.read(at, 1).expect("memory")).expect("memory");
    }
    assert_eq!(opened(&mut grown).stat().size, 256 << 12);
}

#[test]
fn the_log_of_a_file_system_is_refused() {
    let mut cells = Cells::new(1024);
    let shape = seekless_fs::log::LogShape { blocks: 1024, unit: 4096 };
    for superblock in seekless_fs::log::Ring::format(shape, 3, 4) {
        let data = Data::bytes(superblock.encode().into());
        cells.write(superblock.block(), &data).expect("memory");
    }
    assert_eq!(Log::open(MediumDisk(&mut cells)).err(), Some(Error::OfFileSystem));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Lengths, syncs, trims and reopenings in any order.
    #[test]
    fn a_log_holds_what_was_appended_and_not_trimmed(steps in vec((0..12_u8, 0..6000_u64), 1..80)) {
        let mut cells = Cells::new(64);
        drop(made(&mut cells));
        let mut kept: Vec<(Lsn, Vec<u8>)> = Vec::new();
        let mut log = opened(&mut cells);
        for (number, (kind, most)) in steps.into_iter().enumerate() {
            match kind {
                0 => log.sync().expect("memory"),
                1 if !kept.is_empty() => {
                    let to = kept[most as usize % kept.len()].0;
                    log.trim(to).expect("memory");
                    kept.retain(|(at, _)| *at >= to);
                }
                2 => {
                    log.sync().expect("memory");
                    drop(log);
                    log = opened(&mut cells);
                    prop_assert_eq!(&all(&mut log), &kept);
                }
                _ => match log.append(&record(number as u64, most)) {
                    Ok(at) => kept.push((at, record(number as u64, most))),
                    Err(error) => prop_assert_eq!(error, Error::Full),
                },
            }
        }
        log.sync().expect("memory");
        prop_assert_eq!(all(&mut log), kept);
    }
}

/// Copies of a superblock of FFS lie where the ring is to be: with them, commands would take the
/// log for a damaged file system.
#[test]
fn a_log_takes_the_place_of_a_file_system_and_the_other_way_round() {
    let mut cells = Cells::new(4096);
    let mkfs = |cells: &mut Cells| {
        let options = crate::MkfsOptions { group: Some(1 << 20), ..Default::default() };
        crate::ffs::mkfs(&mut MediumDisk(cells), &options).expect("it fits");
    };
    mkfs(&mut cells);
    let first = Log::create(MediumDisk(&mut cells), &options()).expect("it is large enough");
    drop(first);
    let found = crate::ffs::load(&mut MediumDisk(&mut cells));
    assert_eq!(found, Err(crate::FsError::Foreign), "no copy is left");
    mkfs(&mut cells);
    let refused = Log::open(MediumDisk(&mut cells)).map(drop).expect_err("a file system");
    assert_eq!(refused, Error::NoLog);
    assert!(crate::ffs::check(&mut MediumDisk(&mut cells)).is_ok_and(|found| found.is_clean()));
}
