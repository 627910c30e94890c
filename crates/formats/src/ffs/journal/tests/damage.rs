//! Logs that are damaged, missing, or those of another file system.

use super::bench::{self, Bench, options};
use crate::error::FsError;
use crate::ffs::journal::held;
use crate::ffs::journal::recover::recover;
use crate::ffs::kit::dying;
use crate::ffs::{self, check, load, mkfs, repair};
use crate::{MkfsOptions, MountOptions, Severity};
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk, MediumDisk};
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::core::CoreOptions;
use seekless_fs::log::{LogError, Record};
use seekless_fs::policy::PolicyKind;

/// Flips a byte of a block of the log.
pub(super) fn flip(cells: &mut Cells, bench: &Bench, block: u64, at: usize) {
    let disk = &mut MediumDisk(cells);
    let block = bench.log().start + block;
    let mut bytes = disk.read(block, 1).expect("memory").to_bytes().to_vec();
    bytes[at] ^= 4;
    disk.write(block, Data::bytes(bytes.into())).expect("memory");
}

/// Blocks of the ring that the log has, from its start on.
pub(super) fn used(bench: &Bench, cells: &Cells) -> std::ops::Range<u64> {
    let mut cells = cells.clone();
    let disk = &mut MediumDisk(&mut cells);
    let held = held::read(disk, &bench.superblock, true).expect("whole");
    let first = held.superblock.shape.place(held.superblock.start.number()) / 8;
    first..first + (held.newest.0 - held.superblock.start.number()) / 8
}

#[test]
fn damage_of_a_log_is_refused_seen_and_repaired() {
    let bench = Bench::new(7);
    let whole = bench.crashed(|_| false);
    let used = used(&bench, &whole);
    assert!(used.end - used.start > 10, "{used:?}");
    let places = [used.start, (used.start + used.end) / 2, used.end - 3];
    let mut groups = Vec::new();
    for (block, at) in places.into_iter().zip([100, 20, 4000]) {
        let mut cells = whole.clone();
        flip(&mut cells, &bench, block, at);
        let before = cells.clone();
        let disk = &mut MediumDisk(&mut cells);
        let refused = recover(disk, &bench.superblock).expect_err("groups are lost");
        assert!(matches!(refused, FsError::LogDamaged(LogError::Damaged { .. })), "{refused}");
        assert!(refused.to_string().contains("run `seekless fsck --repair`"), "{refused}");
        let found = check(disk).expect("it can be read");
        let journal = found.journal.clone().expect("there is a log");
        assert_eq!(found.worst(), Some(Severity::Fatal), "{found}");
        assert!(found.to_string().contains(&format!("at most {} operations", journal.lost)));
        assert!(journal.lost + journal.groups >= bench.groups, "{journal}");
        read_only(cells.clone(), Some("operations behind it are lost"));
        assert_eq!(before.unlike(&cells).count(), 0, "nothing was written");
        let report = repair(&mut MediumDisk(&mut cells)).expect("possible");
        assert!(report.lost[0].starts_with("at most ") && report.journal == Some(journal.clone()));
        let found = check(&mut MediumDisk(&mut cells)).expect("repaired");
        assert!(found.is_clean() && found.unmounted && found.journal.is_none(), "{found}");
        groups.push(journal.groups);
        let clean = load(&mut MediumDisk(&mut cells)).expect("repaired").superblock;
        let again = recover(&mut MediumDisk(&mut cells), &clean).expect("an empty log");
        assert_eq!((again.groups, again.sectors), (0, 0));
    }
    assert!(groups[0] < groups[1] && groups[1] < groups[2], "{groups:?}");
    assert!(groups[2] < bench.groups);
}

/// Mounts without a write; says what the mount says of damage.
fn read_only(cells: Cells, damage: Option<&str>) {
    let core = CoreOptions { read_only: true, ..CoreOptions::default() };
    let options = MountOptions { core, ..MountOptions::default() };
    let node = Plain::node(Box::new(Ram::new(Box::new(cells))));
    let mut files = Blocking::mount(node, |disk| ffs::mount(disk, &options)).expect("readable");
    let said = files.fs().format().log_damage().map(str::to_owned);
    match damage {
        Some(damage) => assert!(said.is_some_and(|said| said.contains(damage))),
        None => {
            assert_eq!(said, None);
            let dir = dying::find(&mut files, seekless_fs::call::ROOT, "d3").expect("in the log");
            dying::find(&mut files, dir, "f1").expect("in the log, too");
        }
    }
}

#[test]
fn a_mount_that_only_reads_sees_what_the_log_holds() {
    let bench = Bench::new(8);
    read_only(bench.crashed(|number| number.is_multiple_of(2)), None);
}

#[test]
fn one_damaged_superblock_of_the_log_does_no_harm_and_two_are_damage() {
    let bench = Bench::new(9);
    let whole = bench.crashed(|_| false);
    for block in 0..2 {
        let mut cells = whole.clone();
        flip(&mut cells, &bench, block, 20);
        let recovered = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
        assert!(recovered.lacks_copy && recovered.groups == bench.groups);
        let again = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect("whole");
        assert!(!again.lacks_copy, "both are written");
    }
    let mut cells = whole;
    (0..2).for_each(|block| flip(&mut cells, &bench, block, 20));
    let refused = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect_err("lost");
    assert_eq!(refused, FsError::LogDamaged(LogError::NoLog));
    repair(&mut MediumDisk(&mut cells)).expect("the file system is whole");
    let clean = load(&mut MediumDisk(&mut cells)).expect("repaired").superblock;
    let recovered = recover(&mut MediumDisk(&mut cells), &clean).expect("an empty log");
    assert_eq!(recovered.groups, 0, "the old groups stay dead");
}

/// The log says more of a lost superblock than its copies do.
#[test]
fn a_lost_first_superblock_takes_no_group_with_it() {
    let bench = Bench::new(10);
    let mut cells = bench.crashed(|_| false);
    let disk = &mut MediumDisk(&mut cells);
    disk.write(crate::ffs::ondisk::format::SUPERBLOCK_BLOCK, Data::zeros(1)).expect("memory");
    let found = check(disk).expect("a copy");
    assert_eq!(found.list.len(), 1, "{found}");
    assert_eq!(found.journal.map(|journal| journal.groups), Some(bench.groups));
    read_only(cells.clone(), None);
    repair(&mut MediumDisk(&mut cells)).expect("possible");
    let found = check(&mut MediumDisk(&mut cells)).expect("repaired");
    assert!(found.is_clean() && found.unmounted, "{found}");
    read_only(cells, None);
}

/// A file system whose log lies on another device, and that device's blocks.
fn apart() -> Cells {
    let mut cells = Cells::new(2304);
    let disk = &mut MediumDisk(&mut cells);
    let made = mkfs(disk, &options(PolicyKind::Wafs2Async)).expect("it fits").superblock;
    let mut ring = recover(disk, &made).expect("new").ring;
    ring.append(bench::group(&[Record::Orphan(9)])).expect("room");
    let start = made.log_range().expect("possible").expect("made").start;
    assert_eq!(start, 2048);
    bench::write_log(disk, start, &mut ring);
    let mut superblock = made;
    superblock.state = crate::ffs::ondisk::format::State::InUse;
    superblock.incompatible = crate::ffs::ondisk::format::LOG_IN_USE;
    let block = superblock.encode(crate::ffs::ondisk::format::SUPERBLOCK_AT, 1);
    let at = crate::ffs::ondisk::format::SUPERBLOCK_BLOCK;
    disk.write(at, Data::bytes(block)).expect("memory");
    cells
}

fn copy(from: &mut Cells, blocks: u64) -> Cells {
    let mut to = Cells::new(blocks);
    let count = blocks.min(2304) as u32;
    let data = MediumDisk(from).read(0, count).expect("memory");
    MediumDisk(&mut to).write(0, data).expect("memory");
    to
}

#[test]
fn a_missing_short_or_wrong_device_of_the_log_is_named() {
    let mut whole = apart();
    let superblock = load(&mut MediumDisk(&mut whole)).expect("made").superblock;
    let refusal = |cells: &mut Cells| {
        let disk = &mut MediumDisk(cells);
        let said = recover(disk, &superblock).expect_err("no such log");
        assert_eq!(repair(disk).expect_err("not without the log"), said);
        said
    };
    let missing = refusal(&mut copy(&mut whole, 2048));
    assert_eq!(missing, FsError::LogMissing { needed: 1 << 20, found: 0 });
    assert!(missing.to_string().contains("name that volume with --journal"), "{missing}");
    let short = refusal(&mut copy(&mut whole, 2248));
    assert_eq!(short, FsError::LogMissing { needed: 1 << 20, found: 200 * 4096 });
    let mut blank = copy(&mut whole, 2304);
    MediumDisk(&mut blank).write(2048, Data::zeros(256)).expect("memory");
    assert_eq!(refusal(&mut blank), FsError::LogForeign(LogError::NoLog));
    let mut swapped = copy(&mut whole, 2304);
    let mut other = Cells::new(2304);
    let options = MkfsOptions { id: 8, ..options(PolicyKind::Wafs2Async) };
    mkfs(&mut MediumDisk(&mut other), &options).expect("it fits");
    let log = MediumDisk(&mut other).read(2048, 256).expect("memory");
    MediumDisk(&mut swapped).write(2048, log).expect("memory");
    let wrong = refusal(&mut swapped);
    assert!(matches!(wrong, FsError::LogForeign(LogError::Foreign { found: 8, wanted: 7 })));
    // Its own device with two damaged superblocks is not the wrong one.
    let mut damaged = copy(&mut whole, 2304);
    MediumDisk(&mut damaged).write(2048, Data::zeros(2)).expect("memory");
    let disk = &mut MediumDisk(&mut damaged);
    assert_eq!(recover(disk, &superblock).err(), Some(FsError::LogDamaged(LogError::NoLog)));
    assert!(repair(disk).expect("possible").marked_clean);
    let recovered = recover(&mut MediumDisk(&mut whole), &superblock).expect("whole");
    assert_eq!(recovered.orphans, [9]);
    assert_eq!(BLOCK_BYTES, 4096);
}

/// The log at the end of the volume is that of another file system: a repair makes a new one.
#[test]
fn a_foreign_log_at_the_end_of_the_volume_is_replaced() {
    let bench = Bench::new(11);
    let mut cells = bench.crashed(|_| true);
    let mut other = Cells::new(cells_of(&cells));
    let options = MkfsOptions { id: 8, ..options(PolicyKind::Wafs1Async) };
    mkfs(&mut MediumDisk(&mut other), &options).expect("it fits");
    let log = bench.log();
    let foreign = MediumDisk(&mut other).read(log.start, 256).expect("memory");
    MediumDisk(&mut cells).write(log.start, foreign).expect("memory");
    let refused = recover(&mut MediumDisk(&mut cells), &bench.superblock).expect_err("foreign");
    assert!(matches!(refused, FsError::LogDamaged(LogError::Foreign { .. })), "{refused}");
    repair(&mut MediumDisk(&mut cells)).expect("the file system is whole");
    let clean = load(&mut MediumDisk(&mut cells)).expect("repaired").superblock;
    assert_eq!(recover(&mut MediumDisk(&mut cells), &clean).expect("new").groups, 0);
}

fn cells_of(cells: &Cells) -> u64 {
    MediumDisk(&mut cells.clone()).blocks()
}
