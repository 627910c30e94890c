//! Making a volume with a damaged log mountable again: what is certain in the log goes to its home
//! location, and a new record says that nothing before it counts.
//!
//! A home location has no checksum that could mark a block as lost. So lost blocks become zeros,
//! and only if the owner says so.

use super::super::format::{Areas, Header};
use super::salvage::{self, Salvage};
use super::scan;
use crate::salvage::{Finder as _, Located, Repaired, lost_blocks, not_marked, nothing_certain};
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{LayoutError, RecoverySteps};
use seekless_engine::superblock::Superblock;

/// Repairs a volume.
///
/// # Errors
/// If nothing is certain, blocks are lost that may not be given up, or what the medium reports.
pub(in crate::dcd) fn repair(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    give_up: bool,
) -> Result<Repaired, LayoutError> {
    let salvage = salvage::open(disk, superblock)?;
    let mut lost = lost_blocks(&salvage, superblock.blocks);
    if lost.len() as u64 == superblock.blocks {
        return nothing_certain();
    }
    let areas = super::own_areas(superblock)?;
    let homes = homes(&salvage, disk, superblock, &areas, &mut lost);
    if !lost.is_empty() && !give_up {
        return not_marked(lost.len(), "a home location has no mark for that");
    }
    for (home, data) in homes {
        disk.write(home, data)?;
    }
    for &block in &lost {
        disk.write(areas.origin_first + block, Data::zeros(1))?;
    }
    disk.flush_for(Edge::DcdRepairHomes)?;
    let steps = &mut RecoverySteps::new(None);
    let found = scan(disk, &areas, superblock.identity(), steps);
    let last = found.records.keys().next_back().copied().unwrap_or(0);
    let segment = found.records.values().map(|header| header.segment).max().unwrap_or(0) + 1;
    let header = Header {
        seq: last + 2,
        segment,
        offset: 0,
        durable: last + 1,
        tail: last + 2,
        life: found.life + 1,
        clean: true,
        entries: Vec::new(),
        before: None,
    };
    let at = areas.log_first + u64::from(header.place(&areas)) * u64::from(areas.segment);
    disk.write(at, Data::block_of(header.encode(superblock.identity())))?;
    disk.flush_for(Edge::DcdRepairRecord)?;
    // What cannot be read may not be taken for a younger record.
    for addr in found.unreadable.into_iter().chain(found.torn) {
        disk.write(areas.log_first + u64::from(addr), Data::zeros(1))?;
    }
    disk.flush_for(Edge::DcdRepairEnd)?;
    Ok(Repaired { lost, marked: false })
}

/// The blocks that go home, with their content; those whose content is damaged are lost as well.
fn homes(
    salvage: &Salvage,
    disk: &mut dyn Disk,
    superblock: &Superblock,
    areas: &Areas,
    lost: &mut Vec<u64>,
) -> Vec<(u64, Data)> {
    let mut homes = Vec::new();
    for block in salvage.in_log() {
        let Located::Stored(stored) = salvage.find(u64::from(block)) else { continue };
        let found = disk.read(stored.place, 1).ok().map(|data| data.block(0));
        let content = found.and_then(|piece| salvage.content(superblock.sums, stored, piece));
        match content {
            Some(piece) => {
                let mut data = Data::none();
                data.push(piece);
                homes.push((areas.origin_first + u64::from(block), data));
            }
            None => lost.push(u64::from(block)),
        }
    }
    lost.sort_unstable();
    homes
}
