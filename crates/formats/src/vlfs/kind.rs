//! VLFS as an entry of the registry of formats.

use super::calls::mount::POLICIES;
use super::calls::personality::Vlfs;
use super::offline::mkfs::defaults;
use super::ondisk::superblock::{erase, has_objects, load};
use crate::error::FsError;
use crate::kind::{KindDescriptor, MountedFs};
use crate::report::Checked;
use seekless_engine::disk::Disk;
use seekless_engine::planted::PlantedBug;
use seekless_fs::core::page::{Mask, Page};
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::BlockNo;

/// What VLFS declares.
pub static KIND: KindDescriptor = KindDescriptor {
    name: "vlfs",
    qualified: "seekless:vlfs",
    title: "VLFS",
    summary: "VLFS: names and attributes above a drive that has objects",
    policies: &POLICIES,
    limits: super::ondisk::LIMITS,
    needs_objects: true,
    is_proved: true,
    planted,
    is_on,
    defaults,
    mkfs: |disk, options| super::mkfs(disk, options),
    erase,
    advice: |disk| load(disk).map(|_| PolicyKind::Async),
    journal_at: |disk| load(disk).map(|_| None),
    mount: |disk, options| Ok(Box::new(super::mount(disk, options)?)),
    check: |disk| super::check(disk).map(Checked::from),
    recover: |disk| load(disk).map(|_| ()),
    abandon_journal: |disk| load(disk).and_then(|_| Err(no_log())),
    switch_policy: |disk, options| {
        load(disk)?;
        let policy = options.policy.name();
        let why = format!("VLFS has no place for a policy; mount with --policy {policy}");
        Err(FsError::BadOption(why))
    },
    repair: super::repair,
    extents: |disk, _| load(disk).and_then(|_| Err(only_the_drive_knows())),
};

/// The policies in which a planted bug can show.
fn planted(bug: PlantedBug) -> &'static [PolicyKind] {
    match bug {
        PlantedBug::TransactionSplit
        | PlantedBug::UnitForgetsContent
        | PlantedBug::AckBeforeDurable
        | PlantedBug::MovedKeepsParent => &POLICIES,
        _ => &[],
    }
}

fn only_the_drive_knows() -> FsError {
    let why = "only the drive of a VLFS knows where its content lies; use `seekless dump`";
    FsError::BadOption(why.to_owned())
}

fn no_log() -> FsError {
    FsError::BadOption("VLFS has no log; leave out --abandon-journal".to_owned())
}

/// One with a superblock that is damaged is there, too: a check names it.
fn is_on(disk: &mut dyn Disk) -> Result<bool, FsError> {
    if !has_objects(disk) {
        return Ok(false);
    }
    Ok(!matches!(load(disk), Err(FsError::Foreign)))
}

impl MountedFs for Vlfs {
    fn policy(&self) -> PolicyKind {
        Vlfs::policy(self)
    }

    fn nvram_image(&self) -> Vec<(BlockNo, Mask, Page)> {
        self.core().nvram_image()
    }

    fn describe(&self) -> String {
        let objects = self.format().volume.objects();
        format!("a file system of up to {objects} objects")
    }

    fn damage(&self) -> Option<String> {
        self.format().volume.damage().map(str::to_owned)
    }

    fn recovered(&self) -> Option<String> {
        None
    }

    fn may_leak(&self) -> bool {
        false
    }

    fn reclaims(&self) -> bool {
        false
    }
}
