//! Making a volume with damaged labels or tombstones mountable again. Damaged labels and sectors of
//! the trim map are erased; a label that was found again is written anew.
//!
//! A block that is lost gets a label with a checksum that its place does not have, so reading it is
//! an error until a client writes it. A record then says that all of this is durable.

use super::super::format::{GROUP, Label, RECORDS, Record, TRIMS_START, Tomb};
use super::salvage::Damaged;
use super::{HEADERS, Scan};
use crate::eager::Mapped;
use crate::salvage::{Repaired, lost_blocks, not_marked, nothing_certain};
use seekless_engine::data::{Body, Data};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::io::Label as LabelBytes;
use seekless_engine::layout::{LayoutError, MountOptions, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use std::collections::BTreeSet;

/// Repairs a volume.
///
/// # Errors
/// If nothing is certain, there is no room, or what the medium reports.
pub(in crate::loge) fn repair(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    give_up: bool,
) -> Result<Repaired, LayoutError> {
    if superblock.options & HEADERS != 0 {
        return super::damaged(
            "a volume with labels in sector headers is not repaired; `seekless salvage` copies it",
        );
    }
    let steps = &mut RecoverySteps::new(None);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mut scan = Scan::new(disk, superblock, &options, steps);
    let (salvage, damaged) = scan.salvage();
    let lost = lost_blocks(&salvage, superblock.blocks);
    if lost.len() as u64 == superblock.blocks {
        return nothing_certain();
    }
    scan.volume.table = salvage.into_table();
    scan.mend(&damaged, &lost, give_up)?;
    Ok(Repaired { lost, marked: !give_up })
}

impl Scan<'_> {
    fn mend(
        &mut self,
        damaged: &Damaged,
        lost: &[BlockNr],
        give_up: bool,
    ) -> Result<(), LayoutError> {
        let id = self.superblock.identity();
        let Some(mut area) = self.volume.labels.take() else { return Ok(()) };
        for &place in &damaged.labels {
            area.mark(place / GROUP);
            area.set(place, &LabelBytes::default());
        }
        for &number in &damaged.trims {
            self.volume.trims.erase(number as usize);
        }
        let stamp = self.greatest + 1;
        let label = |block: u32, sum: u32| Label {
            block,
            sum,
            stamp,
            durable: stamp - 1,
            index: 0,
            last: 0,
        };
        if let Some((block, entry)) = damaged.found {
            let place = u64::from(entry.place());
            area.set(place, &label(block as u32, entry.checksum()).encode(id, place));
        }
        let used: BTreeSet<u32> =
            self.volume.table.range(0, self.areas.blocks).map(|entry| entry.place()).collect();
        let pool = (self.areas.start()..self.areas.end()).filter(|&at| self.areas.is_pool(at));
        let mut free: Vec<u64> = pool.filter(|&at| !used.contains(&(at as u32))).collect();
        if !give_up && free.len() < lost.len() + 64 {
            return not_marked(lost.len(), "there is no room to mark them");
        }
        for &block in lost {
            // Either is younger than all versions that were found.
            if give_up {
                self.volume.trims.set(block, Tomb { stamp, before: stamp, index: 0, last: 0 });
            } else if let Some(place) = free.pop() {
                let sum = self.disk.read(place, 1);
                let sum = sum.map_or(0, |data| self.superblock.sums.of(&data.block(0)));
                area.set(place, &label(block as u32, !sum).encode(id, place));
            }
        }
        for (at, sectors) in area.take_dirty() {
            self.disk.write(at, Data::block_of(Body::Sectors(sectors)))?;
        }
        for (block, sectors) in self.volume.trims.take_dirty() {
            self.disk.write(TRIMS_START + block, Data::block_of(Body::Sectors(sectors)))?;
        }
        self.disk.flush_for(Edge::LogeRepairFlush)?;
        let number = self.record.number + 1;
        let record = Record { number, durable: stamp, ..Record::default() };
        let at = RECORDS[number as usize % RECORDS.len()];
        self.disk.write(at, Data::bytes(record.encode(id)))?;
        self.disk.flush_for(Edge::LogeRepairEnd)?;
        Ok(())
    }
}
