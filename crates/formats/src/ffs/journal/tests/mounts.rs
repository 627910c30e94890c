//! Which mounts a file system with a log takes, and the marks that they leave.

use super::bench::{Bench, options};
use crate::error::FsError;
use crate::ffs::ondisk::format::{LOG_IN_USE, Recovery, State};
use crate::ffs::{self, Superblock, check, load, mkfs};
use crate::{MkfsOptions, MountOptions};
use seekless_crash::device::cut::CutMedium;
use seekless_engine::device::medium::Cells;
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_fs::block::Blocking;
use seekless_fs::block::plain::Plain;
use seekless_fs::policy::PolicyKind;

fn mount(medium: &CutMedium, policy: PolicyKind) -> Result<Blocking<ffs::Ffs>, FsError> {
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    let node = Plain::node(Box::new(Ram::new(Box::new(medium.clone()))));
    Blocking::mount(node, |disk| ffs::mount(disk, &options))
}

fn superblock(medium: &CutMedium) -> Superblock {
    load(&mut MediumDisk(&mut medium.contents())).expect("it is there").superblock
}

fn refused(medium: &CutMedium, policy: PolicyKind) -> FsError {
    match mount(medium, policy) {
        Err(error) => error,
        Ok(_) => panic!("{} is taken", policy.name()),
    }
}

#[test]
fn a_mount_with_a_log_is_marked_until_its_clean_end() {
    let mut cells = Cells::new(2304);
    mkfs(&mut MediumDisk(&mut cells), &options(PolicyKind::Wafs1Async)).expect("it fits");
    let medium = CutMedium::new(cells);
    let files = mount(&medium, PolicyKind::Wafs1Sync).expect("clean");
    let Superblock { state, recovery, incompatible, .. } = superblock(&medium);
    assert_eq!((state, recovery, incompatible), (State::InUse, Recovery::Log, LOG_IN_USE));
    assert!(!files.fs().format().may_leak());
    assert_eq!(files.unmount().1, Ok(()));
    let Superblock { state, recovery, incompatible, .. } = superblock(&medium);
    assert_eq!((state, recovery, incompatible), (State::Clean, Recovery::None, 0));
    // A clean one takes any policy, and its log stays as it is.
    for policy in PolicyKind::UNLOGGED {
        let files = mount(&medium, policy).expect("clean");
        assert_eq!(superblock(&medium).incompatible, 0);
        assert_eq!(files.unmount().1, Ok(()));
    }
    let found = check(&mut MediumDisk(&mut medium.contents())).expect("whole");
    assert!(found.is_clean() && found.unmounted, "{found}");
}

#[test]
fn a_file_system_in_use_with_a_log_takes_policies_of_that_place() {
    let bench = Bench::new(12);
    let crashed = bench.crashed(|_| false);
    for policy in [PolicyKind::Wafs1Sync, PolicyKind::Wafs1Async] {
        let medium = CutMedium::new(crashed.clone());
        let files = mount(&medium, policy).expect("the log is whole");
        assert!(!files.fs().format().may_leak() && !files.fs().format().reclaims());
        drop(files);
    }
    let medium = CutMedium::new(crashed.clone());
    for policy in PolicyKind::UNLOGGED {
        let error = refused(&medium, policy);
        let left = PolicyKind::Wafs1Async;
        assert_eq!(error, FsError::OtherPolicy { left, asked: policy });
        assert!(error.to_string().contains("or mount with --policy wafs-1async"), "{error}");
    }
    let error = refused(&medium, PolicyKind::Wafs2Sync);
    assert_eq!(error, FsError::NoLog(PolicyKind::Wafs2Sync));
    assert_eq!(crashed.unlike(&medium.contents()).count(), 0, "nothing was written");
}

#[test]
fn a_file_system_without_a_log_takes_no_policy_that_needs_one() {
    let mut cells = Cells::new(2304);
    mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("it fits");
    let error = refused(&CutMedium::new(cells), PolicyKind::Wafs1Async);
    assert!(error.to_string().contains("has no log on its volume"), "{error}");
    assert!(error.to_string().contains("`seekless fs switch-policy` gives it one"), "{error}");
}
