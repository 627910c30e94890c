//! Writer and reader of logs against a model, over a medium that a power cut leaves with any
//! mixture of the sectors in flight.

use super::*;
use crate::log::format::SectorHead;
use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use seekless_engine::checksum::mix;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};

const SHAPE: LogShape = LogShape { blocks: 256, unit: 4096 };
const FILE_SYSTEM: u128 = 77;

/// A group of the model.
#[derive(Clone, Copy, Debug)]
struct Written {
    placed: Placed,
    /// What its first record says.
    mark: u32,
}

/// A log, its medium, and what it must hold.
struct Bench {
    range: Vec<u8>,
    ring: Ring,
    /// Groups of the epoch.
    groups: Vec<Written>,
    in_flight: Vec<LogWrite>,
    superblock: Option<LogSuperblock>,
    /// First number of each write, and the number up to which the log was durable then.
    traces: Vec<(u64, u64)>,
    parts: bool,
    mark: u32,
    chance: u64,
}

fn store(range: &mut [u8], sector: u64, bytes: &[u8]) {
    let at = sector as usize * SECTOR_BYTES;
    range[at..at + bytes.len()].copy_from_slice(bytes);
}

fn scan_range(range: &[u8]) -> Result<Scanned, LogError> {
    let mut source = |block: u64| {
        let at = block as usize * BLOCK_BYTES;
        Some(Bytes::copy_from_slice(&range[at..at + BLOCK_BYTES]))
    };
    scan(&mut source, SHAPE.blocks, FILE_SYSTEM)
}

fn marks(scanned: &Scanned) -> Vec<u32> {
    let mark = |group: GroupView<'_>| match group.records().expect("a program wrote it")[0] {
        Record::Orphan(mark) => mark,
        ref other => panic!("{other:?}"),
    };
    scanned.groups().map(mark).collect()
}

impl Bench {
    fn new(parts: bool) -> Bench {
        let mut range = vec![0xa5; SHAPE.blocks as usize * BLOCK_BYTES];
        for superblock in Ring::format(SHAPE, 9, FILE_SYSTEM) {
            store(&mut range, superblock.block() * 8, &superblock.encode());
        }
        let found = scan_range(&range).expect("a new log");
        let (ring, superblocks) = Ring::begin(&found.superblock, found.next, parts);
        for superblock in superblocks {
            store(&mut range, superblock.block() * 8, &superblock.encode());
        }
        Bench {
            range,
            ring,
            groups: Vec::new(),
            in_flight: Vec::new(),
            superblock: None,
            traces: Vec::new(),
            parts,
            mark: 0,
            chance: 1,
        }
    }

    fn coin(&mut self) -> bool {
        self.chance += 1;
        mix(self.chance) & 1 == 1
    }

    fn append(&mut self, length: usize) -> bool {
        self.mark += 1;
        let mut group = GroupBuilder::new(1, 0, 5);
        assert!(group.push(Record::Orphan(self.mark)));
        while group.len() + 16 <= length {
            let most = (length - group.len() - 12).clamp(1, 504);
            let bytes = vec![self.mark as u8; most];
            assert!(group.push(Record::Bytes { seal: 3, at: 0, block: 1, bytes: &bytes }));
        }
        match self.ring.append(group) {
            Ok(placed) => self.groups.push(Written { placed, mark: self.mark }),
            Err(Full) => return false,
        }
        true
    }

    fn send(&mut self) {
        while let Some(write) = self.ring.next_write(None) {
            self.traces.push((write.number, self.ring.durable().number()));
            self.in_flight.push(write);
        }
    }

    fn complete(&mut self, pick: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let write = self.in_flight.remove(pick % self.in_flight.len());
        store(&mut self.range, write.sector, &write.bytes);
        self.ring.written(write.number);
    }

    fn complete_all(&mut self) {
        self.ring.force(self.ring.end());
        self.send();
        while !self.in_flight.is_empty() {
            self.complete(0);
        }
    }

    /// Moves the start to a durable group.
    fn release(&mut self, pick: usize) {
        let durable = self.ring.durable();
        let starts: Vec<Lsn> = self.groups.iter().map(|one| one.placed.lsn).collect();
        let starts: Vec<Lsn> = starts.into_iter().filter(|&lsn| lsn < durable).collect();
        if !starts.is_empty() {
            self.superblock = self.ring.release(starts[pick % starts.len()]).or(self.superblock);
        }
    }

    fn released(&mut self) {
        if let Some(superblock) = self.superblock.take() {
            store(&mut self.range, superblock.block() * 8, &superblock.encode());
            self.ring.superblock_written();
        }
    }

    /// What a power cut leaves: each sector in flight is old or new.
    fn cut(&mut self) -> Vec<u8> {
        let mut range = self.range.clone();
        for write in self.in_flight.clone() {
            for (index, sector) in write.bytes.chunks(SECTOR_BYTES).enumerate() {
                if self.coin() {
                    store(&mut range, write.sector + index as u64, sector);
                }
            }
        }
        if let Some(superblock) = self.superblock
            && self.coin()
        {
            store(&mut range, superblock.block() * 8, &superblock.encode());
        }
        range
    }

    /// The reader finds the groups from the start to some point behind what is durable.
    fn judge(&self, range: &[u8]) -> Scanned {
        let scanned = scan_range(range).unwrap_or_else(|error| panic!("{error}"));
        let start = scanned.superblock.start;
        let wanted: Vec<&Written> =
            self.groups.iter().filter(|one| one.placed.lsn >= start).collect();
        let durable = self.ring.durable();
        let must = wanted.iter().filter(|one| one.placed.end <= durable).count();
        let found = marks(&scanned);
        let all: Vec<u32> = wanted.iter().map(|one| one.mark).collect();
        assert!(found.len() >= must, "{} of {must} durable groups", found.len());
        assert_eq!(found, all[..found.len()], "no group is missing in between");
        if let Some(last) = found.len().checked_sub(1) {
            assert_eq!(scanned.end, wanted[last].placed.end);
        }
        scanned
    }

    /// The power is cut, and perhaps again while the next epoch begins.
    fn crash(&mut self) {
        let range = self.cut();
        let found = self.judge(&range);
        self.range = range;
        let (ring, superblocks) = Ring::begin(&found.superblock, found.next, self.parts);
        let kept = self.coin();
        let mut twice = self.range.clone();
        if kept {
            store(&mut twice, superblocks[0].block() * 8, &superblocks[0].encode());
        }
        let again = scan_range(&twice).unwrap_or_else(|error| panic!("again: {error}"));
        let wanted = if kept { Vec::new() } else { marks(&found) };
        assert_eq!(marks(&again), wanted, "recovery can start over");
        for superblock in superblocks {
            store(&mut self.range, superblock.block() * 8, &superblock.encode());
        }
        self.ring = ring;
        self.groups.clear();
        self.in_flight.clear();
        self.traces.clear();
        self.superblock = None;
    }

    /// True if something that is read says that this sector was durable.
    fn is_attested(&self, superblock: &LogSuperblock, number: u64) -> bool {
        superblock.durable.number() > number
            || self.traces.iter().any(|&(first, durable)| first > number && durable > number)
    }

    /// Changes a byte of each sector from the start to the end of the log.
    fn damage(&self, offset: usize) {
        let whole = self.judge(&self.range);
        let superblock = whole.superblock;
        let all = marks(&whole);
        for number in superblock.start.number()..self.ring.durable().number() {
            let mut range = self.range.clone();
            range[SHAPE.place(number) as usize * SECTOR_BYTES + offset] ^= 0x10;
            match (scan_range(&range), self.is_attested(&superblock, number)) {
                (Err(LogError::Damaged { number: found, .. }), true) => assert_eq!(found, number),
                (Ok(scanned), false) => {
                    let found = marks(&scanned);
                    assert_eq!(found, all[..found.len()], "a prefix");
                }
                (other, attested) => panic!("sector {number}, attested {attested}: {other:?}"),
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Force,
    Send,
    Complete(usize),
    Release(usize),
    Released,
    Look,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (52_usize..4000).prop_map(Step::Append),
        2 => (4000_usize..60_000).prop_map(Step::Append),
        3 => Just(Step::Force),
        4 => Just(Step::Send),
        6 => any::<usize>().prop_map(Step::Complete),
        3 => any::<usize>().prop_map(Step::Release),
        3 => Just(Step::Released),
        2 => Just(Step::Look),
        1 => Just(Step::Crash),
    ]
}

fn run(parts: bool, steps: Vec<Step>) -> Bench {
    let mut bench = Bench::new(parts);
    for step in steps {
        match step {
            Step::Append(length) => {
                bench.append(length);
            }
            Step::Force => bench.ring.force(bench.ring.end()),
            Step::Send => bench.send(),
            Step::Complete(pick) => bench.complete(pick),
            Step::Release(pick) => bench.release(pick),
            Step::Released => bench.released(),
            Step::Look => {
                let range = bench.cut();
                bench.judge(&range);
            }
            Step::Crash => bench.crash(),
        }
    }
    bench
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_leaves_all_durable_groups_and_then_some(
        parts: bool,
        steps in vec(step(), 1..120),
    ) {
        let mut bench = run(parts, steps);
        for _ in 0..4 {
            let range = bench.cut();
            bench.judge(&range);
        }
        bench.complete_all();
        let range = bench.range.clone();
        let found = bench.judge(&range);
        let start = found.superblock.start;
        let count = bench.groups.iter().filter(|one| one.placed.lsn >= start).count();
        prop_assert_eq!(found.groups().len(), count, "a force makes all groups durable");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_byte_is_damage_where_something_says_that_it_was_durable(
        parts: bool,
        steps in vec(step(), 1..60),
        offset in 0..SECTOR_BYTES,
    ) {
        let mut bench = run(parts, steps);
        bench.complete_all();
        bench.damage(offset);
    }
}

/// Fills the ring, moves the start, and so on for several laps.
fn fill(parts: bool, laps: u64) -> Bench {
    let mut bench = Bench::new(parts);
    let mut full = 0;
    while bench.ring.end().number() < laps * SHAPE.sectors() {
        let fits = bench.append(900);
        if bench.mark.is_multiple_of(7) {
            bench.complete_all();
        }
        if !fits {
            full += 1;
            bench.complete_all();
            bench.judge(&bench.range);
            bench.release(bench.groups.len() - 1);
            bench.released();
            assert!(bench.append(900), "the space is free");
        }
    }
    assert!(full >= laps - 1, "{full} times full");
    bench
}

#[test]
fn the_ring_wraps_and_refuses_what_does_not_fit() {
    for parts in [false, true] {
        let mut bench = fill(parts, 4);
        bench.complete_all();
        bench.judge(&bench.range);
    }
}

/// The cut comes behind each sector of the log in turn.
#[test]
fn the_log_ends_at_each_sector_at_which_it_is_cut() {
    let mut bench = Bench::new(true);
    (0..40).for_each(|number| assert!(bench.append(60 + 97 * number)));
    bench.ring.force(bench.ring.end());
    bench.send();
    let writes = std::mem::take(&mut bench.in_flight);
    let first = writes[0].number;
    let sectors: Vec<(u64, Bytes)> = writes
        .iter()
        .flat_map(|write| {
            let split = write.bytes.chunks(SECTOR_BYTES).map(Bytes::copy_from_slice);
            (write.sector..).zip(split).collect::<Vec<_>>()
        })
        .collect();
    let mut range = bench.range.clone();
    for (written, (sector, bytes)) in (first..).zip(&sectors) {
        let found = marks(&bench.judge(&range)).len();
        let ends = bench.groups.iter().filter(|one| one.placed.end <= Lsn::new(written, 0));
        assert_eq!(found, ends.count(), "cut in front of sector {written}");
        store(&mut range, *sector, bytes);
    }
    assert_eq!(marks(&bench.judge(&range)).len(), 40);
}

/// A sector in flight at a cut must not continue the log of the next epoch.
#[test]
fn groups_behind_the_end_stay_dead_in_the_next_epoch() {
    let mut bench = Bench::new(true);
    for _ in 0..3 {
        assert!(bench.append(400));
        bench.ring.force(bench.ring.end());
        bench.send();
    }
    // The second write is lost, the first and the third are not.
    bench.in_flight.remove(1);
    let kept = std::mem::take(&mut bench.in_flight);
    kept.iter().for_each(|write| store(&mut bench.range, write.sector, &write.bytes));
    bench.crash();
    assert!(bench.append(400));
    bench.complete_all();
    let found = scan_range(&bench.range).expect("a whole log");
    assert_eq!(marks(&found), [4]);
    let third = kept[1].number;
    assert!(found.superblock.start.number() > third, "no number is given twice");
}

#[test]
fn foreign_and_missing_logs_are_refused_by_name() {
    let mut bench = fill(false, 2);
    bench.complete_all();
    let range = bench.range.clone();
    let read = |range: &[u8], blocks: u32, file_system: u128| {
        let mut source = |block: u64| {
            let at = block as usize * BLOCK_BYTES;
            range.get(at..at + BLOCK_BYTES).map(Bytes::copy_from_slice)
        };
        scan(&mut source, blocks, file_system).map(|found| found.groups().len())
    };
    assert!(read(&range, 256, FILE_SYSTEM).is_ok_and(|groups| groups > 0));
    let foreign = LogError::Foreign { found: FILE_SYSTEM, wanted: 5 };
    assert_eq!(read(&range, 256, 5), Err(foreign));
    assert_eq!(read(&range, 255, FILE_SYSTEM), Err(LogError::Size { stated: 256, blocks: 255 }));
    assert_eq!(read(&[], 256, FILE_SYSTEM), Err(LogError::NoLog));
    let noise: Vec<u8> = (0..range.len() as u64).map(|at| mix(at) as u8).collect();
    assert_eq!(read(&noise, 256, FILE_SYSTEM), Err(LogError::NoLog));
    let short = read(&range[..128 * BLOCK_BYTES], 256, FILE_SYSTEM);
    assert!(matches!(short, Err(LogError::Damaged { .. })), "{short:?}");
    let mut foreign_ring = noise;
    foreign_ring[..2 * BLOCK_BYTES].copy_from_slice(&range[..2 * BLOCK_BYTES]);
    let lost = read(&foreign_ring, 256, FILE_SYSTEM);
    assert!(matches!(lost, Err(LogError::Damaged { .. })), "{lost:?}");
}

/// The superblock of the epoch before leads to groups that are long in place.
#[test]
fn a_superblock_of_an_older_epoch_does_not_revive_its_groups() {
    let mut bench = Bench::new(true);
    assert!(bench.append(100));
    bench.complete_all();
    let old = scan_range(&bench.range).expect("a whole log").superblock;
    bench.crash();
    assert!(bench.append(100));
    bench.complete_all();
    let older = LogSuperblock { sequence: old.sequence + 4, ..old };
    for sequence in [older.sequence, older.sequence + 1] {
        let one = LogSuperblock { sequence, ..older };
        store(&mut bench.range, one.block() * 8, &one.encode());
    }
    let stale = LogError::Stale { epoch: old.epoch, found: old.epoch + 1 };
    assert_eq!(scan_range(&bench.range).map(|_| ()), Err(stale));
}

#[test]
fn one_damaged_superblock_is_made_up_for_by_the_other() {
    let mut bench = Bench::new(false);
    for _ in 0..9 {
        assert!(bench.append(700));
        bench.complete_all();
    }
    bench.release(4);
    bench.released();
    let newest = scan_range(&bench.range).expect("a whole log");
    assert!(!newest.lacks_copy && newest.groups().len() == 5);
    bench.range[newest.superblock.block() as usize * BLOCK_BYTES + 3] ^= 1;
    let older = scan_range(&bench.range).expect("the older start is still there");
    assert!(older.lacks_copy);
    assert_eq!(older.groups().len(), 9, "groups that are in place are there as well");
}

#[test]
fn a_clean_log_holds_nothing() {
    let mut bench = Bench::new(false);
    assert!(bench.append(700));
    bench.complete_all();
    let last = bench.ring.clone().finish();
    store(&mut bench.range, last.block() * 8, &last.encode());
    let found = scan_range(&bench.range).expect("a clean log");
    assert!(found.superblock.clean && found.groups().len() == 0);
    assert!(found.next >= last.start.number());
}

/// Whole sectors whose groups make no sense: no cut leaves that, so it is not the end of the log.
#[test]
fn a_malformed_group_under_whole_sectors_is_named() {
    let mut bench = Bench::new(true);
    assert!(bench.append(2000));
    bench.complete_all();
    let start = bench.groups[0].placed.lsn;
    let number = start.number() + 1;
    let place = SHAPE.place(number);
    let at = place as usize * SECTOR_BYTES;
    let sealer = crate::seal::Sealer::new(9);
    let mut sector = bench.range[at..at + SECTOR_BYTES].to_vec();
    let head = SectorHead::read(&sector, &sealer, SHAPE, place).expect("it is whole");
    sector[100] ^= 1;
    head.seal(&mut sector, &sealer, place);
    store(&mut bench.range, place, &sector);
    let wanted = LogError::Group { number: start.number(), offset: start.offset() };
    assert_eq!(scan_range(&bench.range).map(|_| ()), Err(wanted));
}

/// Thirteen groups of one sector each, of which a cut has lost those at numbers 5 to 8.
fn with_a_gap() -> (Bench, u64) {
    let mut bench = Bench::new(true);
    for _ in 0..13 {
        assert!(bench.append(400));
        bench.ring.force(bench.ring.end());
        bench.send();
    }
    let first = bench.in_flight[0].number;
    for write in std::mem::take(&mut bench.in_flight) {
        if !(first + 5..first + 9).contains(&write.number) {
            store(&mut bench.range, write.sector, &write.bytes);
        }
    }
    (bench, first)
}

#[test]
fn an_epoch_begins_behind_all_whole_sectors() {
    let (bench, first) = with_a_gap();
    let found = scan_range(&bench.range).expect("the power was cut");
    assert_eq!((found.groups().len(), found.next), (5, first + 13));
}

/// Even where an epoch begins in front of sectors that a cut has left.
#[test]
fn a_sector_of_the_epoch_before_is_the_end() {
    let (mut bench, first) = with_a_gap();
    let found = scan_range(&bench.range).expect("the power was cut");
    let (ring, superblocks) = Ring::begin(&found.superblock, first + 5, true);
    for superblock in superblocks {
        store(&mut bench.range, superblock.block() * 8, &superblock.encode());
    }
    bench.ring = ring;
    assert!(bench.append(400));
    bench.complete_all();
    assert_eq!(bench.ring.durable().number(), first + 9, "an old sector follows");
    assert_eq!(marks(&scan_range(&bench.range).expect("a whole log")), [14]);
}

#[test]
fn space_is_free_when_the_superblock_is_durable_and_not_before() {
    let mut bench = Bench::new(false);
    while bench.append(900) {}
    bench.complete_all();
    bench.release(bench.groups.len() - 1);
    assert!(!bench.append(900), "a cut may leave the older start");
    bench.released();
    assert!(bench.append(900));
}

/// A group that does not follow the one in front of it: groups in between are missing.
#[test]
fn a_group_that_names_another_one_before_it_is_damage() {
    let mut bench = Bench::new(true);
    (0..2).for_each(|_| assert!(bench.append(100)));
    bench.complete_all();
    let lsn = bench.groups[1].placed.lsn;
    let group = GroupBuilder::new(1, 0, 5).finish(9, lsn, Lsn(lsn.0 - 4));
    let place = SHAPE.place(lsn.number());
    let at = place as usize * SECTOR_BYTES;
    let sealer = crate::seal::Sealer::new(9);
    let mut sector = bench.range[at..at + SECTOR_BYTES].to_vec();
    let head = SectorHead::read(&sector, &sealer, SHAPE, place).expect("it is whole");
    sector[lsn.offset()..lsn.offset() + group.len()].copy_from_slice(&group);
    let used = (lsn.offset() + group.len() - 24) as u16;
    SectorHead { used, ..head }.seal(&mut sector, &sealer, place);
    store(&mut bench.range, place, &sector);
    let wanted = LogError::Group { number: lsn.number(), offset: lsn.offset() };
    assert_eq!(scan_range(&bench.range).map(|_| ()), Err(wanted));
}

mod epochs;
