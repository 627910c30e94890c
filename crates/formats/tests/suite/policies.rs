//! No policy takes over from another one after a crash: what one leaves is not what the other one
//! starts from. A repair comes between, or a clean unmount.
//!
//! These are the policies without a log. Those with one take over from each other, and
//! `crates/formats/src/ffs/journal/tests/mounts.rs` says where.

use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_formats::ffs::{self, load, mkfs, repair};
use seekless_formats::{FsError, MkfsOptions, MountOptions};
use seekless_fs::core::CoreOptions;
use seekless_fs::policy::PolicyKind;

const BLOCKS: u64 = 1024;

/// A new file system.
fn made() -> Cells {
    let mut cells = Cells::new(BLOCKS);
    mkfs(&mut MediumDisk(&mut cells), &MkfsOptions::default()).expect("fits");
    cells
}

/// Mounts for writing, and loses the power.
fn mounted(cells: &mut Cells, policy: PolicyKind) -> Result<(), FsError> {
    let options = MountOptions { policy, now: 1, ..MountOptions::default() };
    ffs::mount(&mut MediumDisk(cells), &options).map(|_| ())
}

#[test]
fn another_policy_is_refused_after_a_crash_until_a_repair() {
    for left in PolicyKind::UNLOGGED {
        for asked in PolicyKind::UNLOGGED {
            let mut cells = made();
            mounted(&mut cells, left).expect("clean");
            let refused = mounted(&mut cells, asked);
            match (left, left == asked) {
                (PolicyKind::Soft, true) => assert_eq!(refused, Ok(()), "it leaves no damage"),
                (_, true) => assert_eq!(refused, Err(FsError::NotClean)),
                (_, false) => assert_eq!(refused, Err(FsError::OtherPolicy { left, asked })),
            }
            repair(&mut MediumDisk(&mut cells)).expect("memory does not fail");
            assert_eq!(mounted(&mut cells, asked), Ok(()), "{left:?}, then {asked:?}");
        }
    }
}

/// A mount that only reads takes what there is, and is no mount of a policy.
#[test]
fn reading_is_allowed_under_any_policy() {
    let mut cells = made();
    mounted(&mut cells, PolicyKind::Sync).expect("clean");
    for policy in PolicyKind::UNLOGGED {
        let core = CoreOptions { read_only: true, ..CoreOptions::default() };
        let options = MountOptions { core, policy, now: 1, ..MountOptions::default() };
        assert!(ffs::mount(&mut MediumDisk(&mut cells), &options).is_ok(), "{policy:?}");
    }
    let superblock = load(&mut MediumDisk(&mut cells)).expect("it is whole").superblock;
    assert_eq!(superblock.mounted_with, Some(PolicyKind::Sync.into()));
}

/// A version that did not note the policy left no number: only soft updates are told apart.
#[test]
fn images_that_do_not_name_a_policy_ask_for_a_check() {
    let mut cells = made();
    mounted(&mut cells, PolicyKind::Async).expect("clean");
    let mut superblock = load(&mut MediumDisk(&mut cells)).expect("it is whole").superblock;
    superblock.mounted_with = None;
    let block = superblock.encode(seekless_formats::ffs::ondisk::format::SUPERBLOCK_AT, 9);
    let at = seekless_formats::ffs::ondisk::format::SUPERBLOCK_AT / 4096;
    use seekless_engine::disk::Disk as _;
    let written = MediumDisk(&mut cells).write(at, seekless_engine::data::Data::bytes(block));
    assert_eq!(written, Ok(()));
    for asked in PolicyKind::UNLOGGED {
        assert_eq!(mounted(&mut cells, asked), Err(FsError::NotClean), "{asked:?}");
    }
}
