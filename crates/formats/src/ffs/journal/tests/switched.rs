//! Another policy for a file system that is there.

use crate::error::FsError;
use crate::ffs::journal::file::LogFile;
use crate::ffs::journal::switch::{Switched, switch};
use crate::ffs::kit::dying::{file, make, name};
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::format::{LogPlace, State};
use crate::ffs::ondisk::inode::INODE_BYTES;
use crate::ffs::{Ffs, check, load, mkfs, mount, repair};
use crate::ffs::{Finding, SealKind};
use crate::report::Severity;
use crate::{MkfsOptions, MountOptions, SwitchOptions};
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, SECONDS, SECTOR_BYTES};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{Answer, New, ROOT, Request};
use seekless_fs::policy::PolicyKind;

const MIB: u64 = 1 << 20;
/// Blocks of the volume, and of the device of a log of its own.
const BLOCKS: u64 = 8 << 8;
const APART: u64 = 1 << 8;

fn mounted(medium: &CutMedium, policy: PolicyKind) -> Result<Blocking<Ffs>, FsError> {
    let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    Blocking::mount(node, |disk| mount(disk, &options))
}

/// A file system without a log, with some files; `behind` blocks of the volume lie behind it.
fn base(behind: u64) -> Cells {
    let mut cells = Cells::new(BLOCKS);
    let options = MkfsOptions {
        block: 8192,
        fragment: 1024,
        bytes_per_inode: 8192,
        group: Some(2 << 20),
        id: 7,
        ..MkfsOptions::default()
    };
    mkfs(&mut MediumDisk(&mut cells), &options).expect("it fits");
    let cells = grown(&cells, behind);
    let medium = CutMedium::new(cells);
    let mut files = mounted(&medium, PolicyKind::Async).expect("new");
    for number in 0..20 {
        let (dir, _) = make(&mut files, ROOT, New::Directory, &format!("d{number}")).expect("room");
        file(&mut files, dir, "short", 100).expect("room");
        file(&mut files, dir, "long", 30_000).expect("room");
    }
    assert_eq!(files.unmount().1, Ok(()));
    medium.contents()
}

/// The same content on a volume that is longer by so many blocks.
fn grown(cells: &Cells, by: u64) -> Cells {
    let mut from = cells.clone();
    let mut to = Cells::new(cells.blocks() + by);
    let data = MediumDisk(&mut from).read(0, cells.blocks() as u32).expect("memory");
    to.write(0, &data).expect("memory");
    to
}

fn options(policy: PolicyKind) -> SwitchOptions {
    let journal_blocks = policy.has_own_log_volume().then_some(APART);
    SwitchOptions { policy, journal: None, journal_blocks, journal_unit: 4096, now: 9 }
}

fn switched(cells: &mut Cells, policy: PolicyKind) -> Result<Switched, FsError> {
    switch(&mut MediumDisk(cells), &options(policy))
}

/// The files are there, and a new one can be made; then it is unmounted and sound.
fn assert_works(cells: &Cells, policy: PolicyKind) {
    let medium = CutMedium::new(cells.clone());
    let mut files = mounted(&medium, policy).unwrap_or_else(|error| panic!("{policy:?}: {error}"));
    for number in 0..20 {
        let request = Request::Lookup { dir: ROOT, name: name(&format!("d{number}")) };
        let Ok(Answer::Object(dir, _)) = files.run(request) else { panic!("d{number} is gone") };
        for (of, bytes) in [("short", 100), ("long", 30_000)] {
            let request = Request::Lookup { dir: dir.ino, name: name(of) };
            let Ok(Answer::Object(found, _)) = files.run(request) else { panic!("{of} is gone") };
            assert_eq!(found.size, bytes);
        }
    }
    file(&mut files, ROOT, "later", 5000).expect("room");
    assert_eq!(files.unmount().1, Ok(()));
    let mut cells = medium.contents();
    let found = check(&mut MediumDisk(&mut cells)).expect("whole");
    assert!(found.is_clean() && found.unmounted, "{policy:?}: {found}");
}

#[test]
fn every_policy_takes_over_from_every_other_one() {
    let policies = || PolicyKind::ALL.into_iter().filter(|policy| !policy.wants_transactions());
    for from in policies() {
        // Room for a log behind the file system, and for a device that is joined behind that.
        let mut cells = grown(&base(0), APART);
        switched(&mut cells, from).expect("clean");
        for to in policies() {
            let mut cells = cells.clone();
            let done = switched(&mut cells, to).unwrap_or_else(|error| panic!("{to:?}: {error}"));
            assert_eq!((done.from, done.to), (from, to));
            let superblock = load(&mut MediumDisk(&mut cells)).expect("whole").superblock;
            assert_eq!(superblock.policy.kind(), to);
            assert!(!to.is_logged() || superblock.log.serves(to));
            assert_works(&cells, to);
        }
    }
}

#[test]
fn a_log_lies_behind_the_file_system_if_there_is_room_and_else_in_a_file() {
    let place = |behind, policy| {
        let mut cells = base(behind);
        let made = switched(&mut cells, policy).expect("room").made.expect("a new log");
        assert_works(&cells, policy);
        (made.0.kind, made.1)
    };
    assert_eq!(place(0, PolicyKind::Wafs1Async), (LogPlace::IN_FILE, MIB));
    assert_eq!(place(600, PolicyKind::Wafs1Sync), (LogPlace::AT_END, 1_355_776));
    assert_eq!(place(600, PolicyKind::LffsFile).0, LogPlace::IN_FILE);
}

#[test]
fn a_file_of_a_log_that_was_left_is_used_again() {
    let mut cells = grown(&base(0), APART);
    let first = switched(&mut cells, PolicyKind::LffsFile).expect("room").made.expect("new");
    assert_eq!(switched(&mut cells, PolicyKind::Wafs1Sync).expect("clean").made, None);
    let apart = switched(&mut cells, PolicyKind::Wafs2Sync).expect("clean").made.expect("new");
    assert_eq!(apart.0.kind, LogPlace::ELSEWHERE);
    assert!(check(&mut MediumDisk(&mut cells)).is_ok_and(|found| found.is_clean()));
    let again = switched(&mut cells, PolicyKind::LffsFile).expect("clean").made.expect("again");
    assert_eq!((again.0.first, again.1), (first.0.first, first.1));
    assert_works(&cells, PolicyKind::LffsFile);
}

#[test]
fn what_is_not_clean_or_has_no_room_is_refused_and_stays() {
    let refused = |cells: &Cells, options: SwitchOptions| {
        let mut changed = cells.clone();
        let error = switch(&mut MediumDisk(&mut changed), &options).expect_err("impossible");
        assert_eq!(cells.unlike(&changed).count(), 0, "{error}");
        error
    };
    let clean = base(0);
    let lffs = options(PolicyKind::LffsFile);
    let long = refused(&clean, SwitchOptions { journal: Some(4 * MIB), ..lffs });
    assert!(matches!(long, FsError::NoLogRoom { .. }), "{long}");
    let short = refused(&clean, SwitchOptions { journal: Some(9000), ..lffs });
    assert!(short.to_string().contains("use 1M to"), "{short}");
    let apart = SwitchOptions { journal_blocks: None, ..options(PolicyKind::Wafs2Async) };
    let apart = refused(&clean, apart);
    assert!(apart.to_string().contains("name it with --journal"), "{apart}");

    let medium = CutMedium::new(clean.clone());
    drop(mounted(&medium, PolicyKind::Async).expect("clean"));
    assert_eq!(refused(&medium.contents(), lffs), FsError::NotClean);

    let mut damaged = clean;
    let superblock = load(&mut MediumDisk(&mut damaged)).expect("whole").superblock;
    let geometry = superblock.geometry().expect("possible");
    let maps = geometry.sector_of(geometry.header_of(1)) / BLOCK_SECTORS;
    MediumDisk(&mut damaged).write(maps, seekless_engine::data::Data::zeros(1)).expect("memory");
    assert!(matches!(refused(&damaged, lffs), FsError::NotSound { .. }));
}

/// After each write; of those that were not flushed all are there, none, one alone or all but one.
#[test]
fn a_switch_that_is_cut_off_loses_nothing() {
    for (behind, policy) in [
        (0, PolicyKind::LffsFile),
        (0, PolicyKind::Wafs1Async),
        (600, PolicyKind::Wafs1Async),
        (APART, PolicyKind::Wafs2Async),
        (0, PolicyKind::Soft),
    ] {
        let (mut states, mut cut_at) = (0, 0);
        loop {
            let medium = CutMedium::new(base(behind));
            medium.die_after(cut_at);
            let mut written = medium.clone();
            let ended = switch(&mut MediumDisk(&mut written), &options(policy)).is_ok();
            // Behind the last one: all of them are there, or none is.
            for one in (0..medium.pending()).chain([usize::MAX]) {
                for alone in [true, false] {
                    let fate = |index| match (index == one) == alone {
                        true => Fate::Kept,
                        false => Fate::Lost,
                    };
                    assert_whole(medium.cut(fate), policy, ended);
                    states += 1;
                }
            }
            if ended {
                break;
            }
            cut_at += 1;
        }
        assert!(states > cut_at, "{policy:?}: {states} states of {cut_at} writes");
    }
}

fn assert_whole(mut cells: Cells, policy: PolicyKind, ended: bool) {
    let disk = &mut MediumDisk(&mut cells);
    let superblock = load(disk).expect("there is a superblock").superblock;
    let found = check(disk).expect("it can be read");
    if superblock.state == State::Clean {
        let to = superblock.policy.kind();
        assert!(found.is_clean(), "{found}");
        assert!(!ended || to == policy, "what has ended is durable");
        return assert_works(&cells, to);
    }
    assert!(!ended, "what has ended is clean");
    assert!(found.worst().is_none_or(|worst| worst <= Severity::Repairable), "{found}");
    assert_works_after_repair(cells.clone());
    // It says that soft updates have left it: they take it at once.
    let medium = CutMedium::new(cells);
    let files = mounted(&medium, PolicyKind::Soft).expect("it only leaks");
    assert_eq!(files.unmount().1, Ok(()));
}

fn assert_works_after_repair(mut cells: Cells) {
    let disk = &mut MediumDisk(&mut cells);
    let report = repair(disk).expect("it can be repaired");
    assert!(report.lost.is_empty() && report.marked_clean, "{report:?}");
    let superblock = load(disk).expect("repaired").superblock;
    let policy = superblock.policy.kind();
    let policy = if policy.has_own_log_volume() { PolicyKind::Async } else { policy };
    assert_works(&cells, policy);
}

/// Soft updates free what no inode has, but not the log.
#[test]
fn a_log_keeps_its_space_when_its_inode_is_lost() {
    let mut cells = base(0);
    switched(&mut cells, PolicyKind::LffsFile).expect("room");
    let medium = CutMedium::new(cells);
    drop(mounted(&medium, PolicyKind::Soft).expect("clean"));
    let mut cells = medium.contents();
    let superblock = load(&mut MediumDisk(&mut cells)).expect("whole").superblock;
    let geometry = superblock.geometry().expect("possible");
    let place = geometry.inode_place(3);
    let disk = &mut MediumDisk(&mut cells);
    Store::new(disk, geometry, superblock.sealer())
        .edit(place, SealKind::Inodes, |sector, _| {
            let at = place.at % SECTOR_BYTES;
            sector[at..at + INODE_BYTES].fill(0);
        })
        .expect("memory");
    let medium = CutMedium::new(cells);
    let mut files = mounted(&medium, PolicyKind::Soft).expect("it may leak");
    while files.fs().format().reclaims() {
        files.idle(SECONDS);
    }
    assert_eq!(files.unmount().1, Ok(()));
    let mut cells = medium.contents();
    let disk = &mut MediumDisk(&mut cells);
    let found = check(disk).expect("it can be read");
    assert_eq!(found.list, [Finding::LogFile], "its space is still marked as used");
    repair(disk).expect("it can be repaired");
    assert_works(&cells, PolicyKind::LffsFile);
}

/// The superblock says all of inode 3, so what is damaged of it comes back.
#[test]
fn a_damaged_inode_of_a_log_is_written_anew() {
    let mut cells = base(0);
    switched(&mut cells, PolicyKind::LffsFile).expect("room");
    let superblock = load(&mut MediumDisk(&mut cells)).expect("whole").superblock;
    let geometry = superblock.geometry().expect("possible");
    let file = LogFile::of(&superblock).expect("possible").expect("a log in a file");
    let table = geometry.sector_of(geometry.inode_place(3)) / BLOCK_SECTORS;
    let (indirect, _) = file.indirect[0];
    let indirect = indirect * geometry.block_bytes() as u64 / BLOCK_BYTES as u64;
    for block in [table, indirect, indirect + 1] {
        let mut damaged = cells.clone();
        let disk = &mut MediumDisk(&mut damaged);
        let mut bytes = disk.read(block, 1).expect("memory").to_bytes().to_vec();
        bytes[300] ^= 1;
        disk.write(block, seekless_engine::data::Data::bytes(bytes.into())).expect("memory");
        let found = check(disk).expect("it can be read");
        assert!(found.to_string().contains("the inode of the log"), "{found}");
        repair(disk).expect("it can be repaired");
        let found = check(disk).expect("repaired");
        assert!(found.is_clean(), "{found}");
        let superblock = load(disk).expect("repaired").superblock;
        assert!(LogFile::of(&superblock).is_ok_and(|again| again.as_ref() == Some(&file)));
    }
}
