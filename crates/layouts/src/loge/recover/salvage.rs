//! Reading a volume with damaged labels or tombstones: what is certain, and which blocks are lost.
//!
//! A damaged label states which block its place holds, and no other label tells whether that was
//! the newest version. After a clean shutdown the record has a digest of where all blocks lie, so
//! one lost label is found by trying. A damaged sector of the trim map leaves the blocks in doubt
//! that it has tombstones for and that are stored.

use super::super::format::{GROUP, SECTOR_TOMBS};
use super::super::table::{Entry, LabelArea, Table, TrimMap};
use super::{HEADERS, SCAN_BLOCKS, Scan, label_bytes};
use crate::eager::Mapped;
use crate::salvage::{Finder, Located, Stored};
use seekless_engine::disk::Disk;
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use std::collections::BTreeSet;

/// A volume of which only what is certain is read.
#[derive(Debug)]
pub struct Salvage {
    table: Table,
    trims: TrimMap,
    doubts_all: bool,
    doubtful: BTreeSet<BlockNr>,
    damage: Vec<String>,
}

/// What a scan could not read.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    /// Places whose labels are damaged.
    pub labels: Vec<u64>,
    /// Sectors of the trim map.
    pub trims: Vec<u64>,
    /// The block whose label was found again, and where it lies.
    pub found: Option<(BlockNr, Entry)>,
}

/// Finds out what is certain of a volume.
///
/// # Errors
/// If the labels are in sector headers that the device does not have.
pub(in crate::loge) fn open(
    disk: &mut dyn Disk,
    superblock: &Superblock,
) -> Result<Salvage, LayoutError> {
    let headers = superblock.options & HEADERS != 0;
    if headers && !disk.has_labels() {
        return super::damaged("its labels are in sector headers, which this device does not have");
    }
    let steps = &mut RecoverySteps::new(None);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mut scan = Scan::new(disk, superblock, &options, steps);
    Ok(scan.salvage().0)
}

impl Scan<'_> {
    pub(super) fn salvage(&mut self) -> (Salvage, Damaged) {
        let mut damage = Vec::new();
        if let Err(error) = self.read_record() {
            // Then all is judged as after a crash.
            damage.push(error.to_string());
        }
        let mut damaged = Damaged::default();
        // One label block is rebuilt as by a mount.
        if self.areas.headers || self.read_label_blocks().is_err() {
            self.forget_labels();
            self.salvage_labels(&mut damaged);
        }
        self.read_trims();
        self.find_rest();
        if self.rebuild_lost().is_err() {
            self.forget_labels();
            self.salvage_labels(&mut damaged);
        }
        damaged.trims.clone_from(&self.damaged_trims);
        damage.extend(damaged.sentences());
        let mut settled = self.settle_young();
        if damaged.labels.is_empty() && settled.is_ok() {
            settled = self.prove();
            damaged.trims.clone_from(&self.damaged_trims);
        }
        let (doubts_all, doubtful) = match (damaged.is_none(), settled) {
            (true, Ok(())) => (false, BTreeSet::new()),
            (true, Err(error)) => {
                damage.push(error.to_string());
                (true, BTreeSet::new())
            }
            (false, _) => self.doubts(&mut damaged),
        };
        let table = std::mem::replace(&mut self.volume.table, Table::new(0));
        let trims = self.volume.trims.clone();
        (Salvage { table, trims, doubts_all, doubtful, damage }, damaged)
    }

    /// Whether all blocks are in doubt, else which.
    fn doubts(&mut self, damaged: &mut Damaged) -> (bool, BTreeSet<BlockNr>) {
        if self.knows_digest && self.finds_digest(damaged) {
            return (false, BTreeSet::new());
        }
        // A transaction may have been dropped since a tombstone of it is lost.
        let judged = self.knows_digest || self.dropped.is_empty();
        if !damaged.labels.is_empty() || !judged {
            return (true, BTreeSet::new());
        }
        let per_sector = SECTOR_TOMBS as u64;
        let blocks = |sector: &u64| sector * per_sector..(sector + 1) * per_sector;
        let all = damaged.trims.iter().flat_map(blocks).filter(|&at| at < self.areas.blocks);
        (false, all.filter(|&at| self.volume.table.get(at).is_mapped()).collect())
    }

    /// True if the table is that of the clean shutdown, perhaps after one label was found again.
    fn finds_digest(&mut self, damaged: &mut Damaged) -> bool {
        let (count, found) = self.volume.table.digest();
        if self.agrees((count, found)) {
            return true;
        }
        let [place] = damaged.labels[..] else { return false };
        let Ok(data) = self.disk.read(place, 1) else { return false };
        let sum = self.superblock.sums.of(&data.block(0));
        let entry = Entry::new(place as u32, sum);
        for block in 0..self.areas.blocks {
            let before = self.volume.table.get(block);
            if self.agrees(Table::changed((count, found), block, before, entry)) {
                self.volume.table.replace(block, entry);
                damaged.found = Some((block, entry));
                return true;
            }
        }
        false
    }

    fn salvage_labels(&mut self, damaged: &mut Damaged) {
        if self.areas.headers {
            return self.salvage_headers(damaged);
        }
        for group in self.areas.groups() {
            let at = self.areas.label_block(group);
            if self.disk.next_data(at) != Some(at) {
                continue;
            }
            let places = group * GROUP..(group + 1) * GROUP;
            let Ok(data) = self.disk.read(at, 1) else {
                damaged.labels.extend(places.filter(|&place| self.areas.is_pool(place)));
                continue;
            };
            let (bytes, _) = self.mend_labels(group, data.to_bytes());
            if let Some(area) = &mut self.volume.labels {
                area.load(group, &bytes);
            }
            for (place, label) in places.zip(label_bytes(&bytes)) {
                if self.label(place, label).is_err() {
                    damaged.labels.push(place);
                }
            }
        }
    }

    /// Begins anew, after a scan that was given up.
    fn forget_labels(&mut self) {
        self.volume.table = Table::new(self.areas.blocks);
        self.volume.labels = (!self.areas.headers).then(|| LabelArea::new(self.areas));
        self.newest.fill(0);
        self.young.clear();
        self.lost = None;
    }

    fn salvage_headers(&mut self, damaged: &mut Damaged) {
        let (mut at, end) = (self.areas.start(), self.areas.end());
        while at < end {
            let count = SCAN_BLOCKS.min(end - at);
            let all = self.disk.labels(at, count as u32);
            let one = |disk: &mut dyn Disk, place| disk.labels(place, 1).ok().map(|all| all[0]);
            for index in 0..count {
                let place = at + index;
                let label = match &all {
                    Ok(all) => Some(all[index as usize]),
                    Err(_) => one(&mut *self.disk, place),
                };
                if label.is_none_or(|label| self.label(place, &label).is_err()) {
                    damaged.labels.push(place);
                }
            }
            at += count;
        }
    }
}

impl Damaged {
    fn is_none(&self) -> bool {
        self.labels.is_empty() && self.trims.is_empty()
    }

    fn sentences(&self) -> impl Iterator<Item = String> {
        let labels =
            self.labels.iter().map(|place| format!("the label of block {place} is damaged"));
        let sector = |number: &u64| format!("sector {number} of the trim map is damaged");
        labels.chain(self.trims.iter().map(sector))
    }
}

impl Salvage {
    /// The newest place that was found of each block.
    pub(super) fn into_table(self) -> Table {
        self.table
    }

    fn located(&self, block: BlockNr) -> Located {
        let entry = self.table.get(block);
        if !entry.is_mapped() {
            return Located::Zeros;
        }
        let (place, sum) = (u64::from(entry.place()), Some(entry.checksum()));
        Located::Stored(Stored { place, sum, escaped: false })
    }
}

impl Finder for Salvage {
    fn find(&self, block: BlockNr) -> Located {
        match self.doubts_all || self.doubtful.contains(&block) {
            true => Located::Lost,
            false => self.located(block),
        }
    }

    fn find_stale(&self, block: BlockNr) -> Located {
        // Where labels are missing, a block without one may have had one.
        let is_found = self.table.get(block).is_mapped() || self.trims.get(block).stamp > 0;
        if self.doubts_all && !is_found { Located::Lost } else { self.located(block) }
    }

    fn damage(&self) -> &[String] {
        &self.damage
    }
}
