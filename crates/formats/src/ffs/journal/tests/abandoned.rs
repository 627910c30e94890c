//! A log on another volume that is lost.

use super::bench::options;
use crate::error::FsError;
use crate::ffs::journal::abandon::abandon;
use crate::ffs::{self, check, load, mkfs, repair};
use crate::{MkfsOptions, MountOptions};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::{Disk as _, MediumDisk};
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::call::{New, ROOT, Request};
use seekless_fs::policy::PolicyKind;

/// Blocks of the volume of the file system, and of that of its log.
const SIZES: [u64; 2] = [2048, 256];

fn mount(medium: CutMedium, policy: PolicyKind) -> Result<Blocking<ffs::Ffs>, FsError> {
    let node = Plain::node(Box::new(Ram::new(Box::new(medium))));
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    Blocking::mount(node, |disk| ffs::mount(disk, &options))
}

fn mkdir(files: &mut Blocking<ffs::Ffs>, name: &str) {
    let name = name.as_bytes().to_vec().into();
    let what = New::Directory;
    files
        .run(Request::Make { dir: ROOT, name, what, mode: 0o755, open: false })
        .expect("there is space");
}

/// A crash of a file system in use, with the device of the log taken away.
fn without_log() -> Cells {
    let mut cells = Cells::new(SIZES[0] + SIZES[1]);
    mkfs(&mut MediumDisk(&mut cells), &options(PolicyKind::Wafs2Async)).expect("it fits");
    let medium = CutMedium::new(cells);
    let mut files = mount(medium.clone(), PolicyKind::Wafs2Async).expect("clean");
    mkdir(&mut files, "home");
    files.run(Request::Sync).expect("memory");
    (0..200).for_each(|number| mkdir(&mut files, &format!("d{number}")));
    files.run(Request::Sync).expect("memory");
    drop(files);
    alone(&medium.contents())
}

fn alone(all: &Cells) -> Cells {
    let mut all = all.clone();
    let mut own = Cells::new(SIZES[0]);
    for at in 0..SIZES[0] {
        let data = MediumDisk(&mut all).read(at, 1).expect("memory");
        own.write(at, &data).expect("memory");
    }
    own
}

#[test]
fn a_file_system_goes_on_without_a_log_that_is_lost() {
    let mut cells = without_log();
    let disk = &mut MediumDisk(&mut cells);
    assert!(matches!(check(disk), Err(FsError::LogMissing { .. })));
    assert!(matches!(repair(disk), Err(FsError::LogMissing { .. })));
    assert_eq!(abandon(disk), Ok(true));
    let found = check(disk).expect("there is no log to be read");
    assert!(!found.unmounted && found.journal.is_none(), "{found}");
    assert!(!found.to_string().contains("superblock"), "all copies say the same: {found}");
    let report = repair(disk).expect("it can be repaired");
    assert!(report.marked_clean, "{report:?}");
    assert!(check(disk).is_ok_and(|found| found.is_clean() && found.unmounted));
    assert_eq!(abandon(disk), Err(FsError::NoLog(PolicyKind::Wafs2Async)), "only once");
    let advice = load(disk).expect("it is there").superblock.policy.kind();
    assert_eq!(advice, PolicyKind::Async);
    let medium = CutMedium::new(cells);
    assert!(mount(medium.clone(), PolicyKind::Wafs2Async).is_err());
    let mut files = mount(medium, PolicyKind::Async).expect("repaired");
    mkdir(&mut files, "later");
    assert_eq!(files.unmount().1, Ok(()));
}

/// What was unmounted has everything in its place.
#[test]
fn nothing_is_lost_with_the_log_of_what_was_unmounted() {
    let mut cells = Cells::new(SIZES[0] + SIZES[1]);
    mkfs(&mut MediumDisk(&mut cells), &options(PolicyKind::Wafs2Sync)).expect("it fits");
    let medium = CutMedium::new(cells);
    let mut files = mount(medium.clone(), PolicyKind::Wafs2Sync).expect("clean");
    mkdir(&mut files, "home");
    assert_eq!(files.unmount().1, Ok(()));
    let mut cells = alone(&medium.contents());
    let disk = &mut MediumDisk(&mut cells);
    assert_eq!(abandon(disk), Ok(false));
    let found = check(disk).expect("whole");
    assert!(found.is_clean() && found.unmounted, "{found}");
    assert_eq!(found.directories, 2);
}

#[test]
fn a_log_on_the_same_volume_is_not_abandoned() {
    for policy in [PolicyKind::Wafs1Async, PolicyKind::Async] {
        let mut cells = Cells::new(SIZES[0]);
        let options = MkfsOptions { journal: None, ..options(policy) };
        mkfs(&mut MediumDisk(&mut cells), &options).expect("it fits");
        let before = cells.clone();
        let refused = abandon(&mut MediumDisk(&mut cells)).expect_err("it is there");
        assert_eq!(refused, FsError::NoLog(PolicyKind::Wafs2Async));
        assert_eq!(before.unlike(&cells).count(), 0);
    }
}
