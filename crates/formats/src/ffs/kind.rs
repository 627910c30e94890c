//! FFS as an entry of the registry of formats.

use super::calls::personality::Ffs;
use super::journal::abandon::abandon;
use super::journal::recover::bring_home;
use super::journal::switch::switch;
use super::offline::check::finding::{Finding, Findings};
use super::offline::repair::RepairReport;
use super::offline::superblocks::{erase_all, load};
use crate::error::FsError;
use crate::ffs::ondisk::format::{LogPlace, MOST_LINKS};
use crate::kind::{KindDescriptor, KindLimits, MountedFs};
use crate::options::MkfsOptions;
use crate::report::{self, Checked, Nature, Repaired, Severity};
use seekless_engine::disk::Disk;
use seekless_engine::planted::PlantedBug;
use seekless_engine::units::BlockNr;
use seekless_fs::call::MOST_NAME;
use seekless_fs::core::page::{Mask, Page};
use seekless_fs::policy::PolicyKind;
use seekless_fs::policy::planted::policies;
use seekless_fs::tx::BlockNo;

/// What FFS declares.
pub static KIND: KindDescriptor = KindDescriptor {
    name: "ffs",
    qualified: "seekless:ffs",
    title: "FFS",
    summary: "The fast file system of Berkeley",
    policies: &PolicyKind::ALL,
    limits: KindLimits {
        name_bytes: MOST_NAME,
        links: MOST_LINKS as u32,
        file_bytes: u64::MAX,
        owner: u32::MAX,
        allocates: true,
        generations: true,
        time_step: 1,
        marks_unmounts: true,
    },
    needs_objects: false,
    is_proved: true,
    planted: |bug| match PlantedBug::FILES.contains(&bug) || PlantedBug::JOURNAL.contains(&bug) {
        true => policies(bug),
        false => &[],
    },
    is_on,
    defaults: MkfsOptions::default,
    mkfs: |disk, options| super::mkfs(disk, options).map(|report| report.to_string()),
    erase: |disk| Ok(erase_all(disk)?),
    advice: |disk| Ok(load(disk)?.superblock.policy.kind()),
    journal_at,
    mount: |disk, options| Ok(Box::new(super::mount(disk, options)?)),
    check: |disk| super::check(disk).map(Checked::from),
    recover: bring_home,
    abandon_journal: abandon,
    switch_policy: |disk, options| switch(disk, options).map(|switched| switched.to_string()),
    repair: |disk| super::repair(disk).map(Repaired::from),
    extents: super::offline::extents::extents,
};

fn is_on(disk: &mut dyn Disk) -> Result<bool, FsError> {
    match load(disk) {
        Err(FsError::Foreign) => Ok(false),
        Err(FsError::Io(error)) => Err(error.into()),
        // One that is damaged, or that only a newer program knows, is one.
        Ok(_) | Err(_) => Ok(true),
    }
}

fn journal_at(disk: &mut dyn Disk) -> Result<Option<BlockNr>, FsError> {
    let superblock = load(disk)?.superblock;
    Ok(match superblock.log.kind {
        LogPlace::ELSEWHERE => superblock.log_range()?.map(|range| range.start),
        _ => None,
    })
}

impl MountedFs for Ffs {
    fn policy(&self) -> PolicyKind {
        Ffs::policy(self)
    }

    fn nvram_image(&self) -> Vec<(BlockNo, Mask, Page)> {
        self.core().nvram_image()
    }

    fn describe(&self) -> String {
        let sizes = self.format().superblock().sizes;
        format!(
            "a file system of {} groups, blocks of {} and fragments of {} bytes",
            sizes.groups(),
            sizes.block_bytes,
            sizes.fragment_bytes
        )
    }

    fn damage(&self) -> Option<String> {
        let closed = self.format().closed_groups();
        let Some(first) = closed.first() else {
            return self.format().log_damage().map(str::to_owned);
        };
        Some(format!(
            "the maps of {} groups are damaged, of group {first} first: their free space is not \
             used",
            closed.len()
        ))
    }

    fn recovered(&self) -> Option<String> {
        self.format().recovered().map(str::to_owned)
    }

    fn may_leak(&self) -> bool {
        self.format().may_leak()
    }

    fn reclaims(&self) -> bool {
        self.format().reclaims()
    }
}

impl report::Finding for Finding {
    fn severity(&self) -> Severity {
        Finding::severity(self)
    }

    fn phase(&self) -> u8 {
        Finding::phase(self)
    }

    fn invariant(&self) -> Option<u8> {
        Finding::invariant(self)
    }

    fn nature(&self) -> Nature {
        match self {
            Finding::WrongLinks { stored, right, .. } if stored > right => Nature::HighCount,
            Finding::DirectoryTwice { .. } | Finding::WrongParent { .. } => Nature::TwoParents,
            found if found.severity() == Severity::Harmless => Nature::Leak,
            Finding::WrongBits { .. } => Nature::Maps,
            _ => Nature::Other,
        }
    }
}

fn boxed(list: Vec<Finding>) -> Vec<Box<dyn report::Finding>> {
    list.into_iter().map(|one| Box::new(one) as Box<dyn report::Finding>).collect()
}

impl From<Findings> for Checked {
    fn from(findings: Findings) -> Checked {
        Checked {
            list: boxed(findings.list),
            cut: findings.cut,
            unmounted: findings.unmounted,
            recovers: findings.recovers,
            inodes: findings.inodes,
            directories: findings.directories,
            fragments: findings.fragments,
            superblocks: findings.superblocks,
            journal: findings.journal,
        }
    }
}

impl From<RepairReport> for Repaired {
    fn from(report: RepairReport) -> Repaired {
        Repaired {
            list: boxed(report.repaired),
            lost: report.lost,
            marked_clean: report.marked_clean,
            journal: report.journal,
        }
    }
}
