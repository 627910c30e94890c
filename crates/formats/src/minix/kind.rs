//! Minix as an entry of the registry of formats.

use super::calls::mount::POLICIES;
use super::calls::personality::Minix;
use super::offline::extents::extents;
use super::offline::mkfs::defaults;
use super::ondisk::geometry::load;
use super::ondisk::superblock::{Found, erase, find};
use crate::error::FsError;
use crate::kind::{KindDescriptor, MountedFs};
use crate::report::Checked;
use seekless_engine::disk::Disk;
use seekless_engine::planted::PlantedBug;
use seekless_fs::core::page::{Mask, Page};
use seekless_fs::policy::PolicyKind;
use seekless_fs::tx::BlockNo;

/// What Minix declares.
pub static KIND: KindDescriptor = KindDescriptor {
    name: "minix",
    qualified: "seekless:minix",
    title: "Minix",
    summary: "Minix, version 3, as Linux has it",
    policies: &POLICIES,
    limits: super::ondisk::LIMITS,
    needs_objects: false,
    is_proved: true,
    planted,
    is_on,
    defaults,
    mkfs: |disk, options| super::mkfs(disk, options).map(|report| report.to_string()),
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
        let why = format!("Minix has no place for a policy; mount with --policy {policy}");
        Err(FsError::BadOption(why))
    },
    repair: super::repair,
    extents,
};

/// The policies in which a planted bug can show. Transactions need no guards, and where they carry
/// content a zone may be used again at once.
fn planted(bug: PlantedBug) -> &'static [PolicyKind] {
    match bug {
        PlantedBug::PointerBeforeContent | PlantedBug::FactAtCompletion => &[PolicyKind::Async],
        PlantedBug::FreedAtOnce => &[PolicyKind::Async, PolicyKind::Atomic],
        PlantedBug::TransactionSplit => &[PolicyKind::Atomic, PolicyKind::Unit],
        PlantedBug::UnitForgetsContent => &[PolicyKind::Unit],
        bug if PlantedBug::MINIX.contains(&bug) => &POLICIES,
        _ => &[],
    }
}

fn no_log() -> FsError {
    FsError::BadOption("Minix has no log; leave out --abandon-journal".to_owned())
}

/// One of an older version is on a volume, too: a check names it.
fn is_on(disk: &mut dyn Disk) -> Result<bool, FsError> {
    if disk.blocks() == 0 {
        return Ok(false);
    }
    Ok(find(&disk.read(0, 1)?.to_bytes()) != Found::Nothing)
}

impl MountedFs for Minix {
    fn policy(&self) -> PolicyKind {
        Minix::policy(self)
    }

    fn nvram_image(&self) -> Vec<(BlockNo, Mask, Page)> {
        self.core().nvram_image()
    }

    fn describe(&self) -> String {
        let geometry = self.format().volume.geometry;
        let (zones, bytes) = (geometry.zones(), geometry.zone_bytes());
        format!("a file system of {zones} blocks of {bytes} bytes, {} inodes", geometry.inodes())
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
