//! `check`: a function from an image to findings. It writes nothing.
//!
//! Phases: 0 superblocks, 1 inodes and blocks, 1b owners of blocks claimed twice, 2 names, 3
//! connectivity, 4 link counts, 5 maps. Each phase regards what an earlier one rejected as absent:
//! an impossible address is a hole, a damaged inode is free. Repair makes that true.
//!
//! No image makes check panic or run without end: an indirect block is read only by its first
//! owner, ancestors are followed once, and findings are limited.

pub mod finding;
mod links;
mod maps;
pub(crate) mod names;
pub(crate) mod scan;
pub(crate) mod state;
pub(in crate::ffs::offline) mod walk;

pub(crate) use maps::write_group;

use crate::error::FsError;
use crate::ffs::journal::file::LogFile;
use crate::ffs::journal::held::{self, Held, may_hold_groups};
use crate::ffs::journal::overlay::Overlay;
use crate::ffs::offline::store::Store;
use crate::ffs::offline::superblocks::Spare;
use crate::ffs::offline::superblocks::{Found, load};
use crate::ffs::ondisk::format::{SUPERBLOCK_AT, Superblock};
use crate::ffs::ondisk::geometry::Geometry;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode};
use crate::ffs::ondisk::seal::SealKind;
use finding::{Collector, Finding, Findings, Outcome};
use seekless_engine::disk::Disk;
use seekless_engine::units::SECTOR_BYTES;
use state::{Known, Open};

/// What the phases share.
pub(crate) struct Examination<'d> {
    store: Store<'d>,
    known: Known,
    found: Collector,
    /// The file of the log, if the log is one.
    log: Option<LogFile>,
    /// Whole copies of the superblock, the first one included.
    superblocks: u32,
}

/// The result of an examination, for repair.
pub(crate) struct Examined {
    pub superblock: Superblock,
    pub findings: Findings,
    pub known: Known,
}

/// Checks a file system.
///
/// # Errors
/// No superblock, one that this program refuses, a volume that is too short or fails. Damage of
/// anything else is a finding.
pub fn check(disk: &mut dyn Disk) -> Result<Findings, FsError> {
    let Examined { superblock, mut findings, .. } = examine(disk)?;
    if superblock.counts_at_mount() {
        findings.list.retain(|one| !matches!(one, Finding::WrongCounters { .. }));
    }
    Ok(findings)
}

/// Checks a file system and keeps what was learnt. It is seen as the recovery of its log would
/// leave it.
pub(crate) fn examine(disk: &mut dyn Disk) -> Result<Examined, FsError> {
    let found = load(disk)?;
    if !may_hold_groups(&found) {
        return examine_seen(disk, &found, None);
    }
    let held = held::read(disk, &found.superblock, true)?;
    examine_seen(&mut Overlay::new(disk, &held.patches), &found, Some(&held))
}

fn examine_seen(
    disk: &mut dyn Disk,
    found: &Found,
    held: Option<&Held>,
) -> Result<Examined, FsError> {
    let Found { superblock, at, .. } = found.clone();
    let geometry = superblock.geometry()?;
    let mut known = Known::new(&geometry);
    known.open = held.map(Open::new);
    let metadata: u64 =
        (0..geometry.groups()).map(|group| geometry.metadata_of(group).len() as u64).sum();
    let store = Store::new(disk, geometry, superblock.sealer());
    let log = LogFile::of(&superblock)?;
    let found = Collector::default();
    let mut run = Examination { store, known, found, log, superblocks: 0 };
    if let Some(Held { damage: Some(damage), lost, .. }) = held {
        run.found.add(Finding::Log { damage: *damage, lost: *lost });
    }
    run.superblocks(&superblock, at)?;
    run.inodes()?;
    run.unless_cut(Examination::names)?;
    run.unless_cut(Examination::connectivity)?;
    run.unless_cut(Examination::counts)?;
    run.unless_cut(Examination::maps)?;
    let Examination { known, found, superblocks, .. } = run;
    let findings = Findings {
        list: found.list,
        cut: found.cut,
        unmounted: superblock.state == crate::ffs::ondisk::format::State::Clean,
        recovers: superblock.recovers_from_log() && held.is_some_and(|one| one.damage.is_none()),
        inodes: known.in_use().count() as u64,
        directories: known.folders.len() as u64,
        fragments: known.claimed() - metadata,
        superblocks,
        journal: held.map(Held::report),
    };
    Ok(Examined { superblock, findings, known })
}

impl Examination<'_> {
    /// Runs a phase unless there are too many findings already.
    fn unless_cut(&mut self, phase: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        if self.found.cut { Ok(()) } else { phase(self) }
    }

    /// Phase 0: the superblock was read, and its copies agree with it about sizes.
    fn superblocks(&mut self, superblock: &Superblock, at: u64) -> Outcome {
        let geometry = self.store.geometry.clone();
        let block_bytes = geometry.block_bytes() as u64;
        if at != SUPERBLOCK_AT {
            self.found.add(Finding::Superblock { at });
        }
        let mut whole = u32::from(at == SUPERBLOCK_AT);
        for (block, spare) in self.store.spares(superblock)? {
            match spare {
                Spare::Whole => whole += 1,
                Spare::Damaged => self.found.add(Finding::Spare { block }),
                Spare::Missing => {}
            }
        }
        for group in 1..geometry.groups() {
            let Some(block) = geometry.superblock_of(group) else { continue };
            let bytes = self.store.read(block, 1)?;
            let copy = Superblock::decode(&bytes[..SECTOR_BYTES], block * block_bytes);
            let agrees = copy.is_ok_and(|copy| copy.describes(superblock));
            if agrees {
                whole += 1;
            } else {
                self.found.add(Finding::Copy { group });
            }
        }
        self.superblocks = whole;
        Ok(())
    }
}

/// Reads an inode; none if its sector is damaged.
pub(crate) fn read_inode(store: &mut Store<'_>, ino: u32) -> Outcome<Option<Inode>> {
    let place = store.geometry.inode_place(ino);
    let bytes = store.read(place.block, 1)?;
    let is_whole = store.is_whole(&bytes, place, SealKind::Inodes);
    Ok(is_whole.then(|| Inode::decode(&bytes[place.at..place.at + INODE_BYTES])))
}

/// True if the table of a group can have so many initialised inodes.
fn is_mark(mark: u32, geometry: &Geometry) -> bool {
    mark <= geometry.sizes().inodes_per_group && mark.is_multiple_of(geometry.inodes_per_block())
}
