//! Making a volume with damaged map blocks mountable again: what is certain becomes a new version
//! of every map block, in one commit, written to blocks that nothing certain names.
//!
//! A block that is lost gets an entry with a checksum that its place does not have, so reading it
//! is an error until a client writes it. The commit states no changes, so no recovery compares
//! these blocks. Nothing old is overwritten before the tail record that names the new map.

use super::FORM;
use super::find::{Recovery, damaged};
use super::salvage::{self, Salvage};
use crate::eager::Mapped;
use crate::salvage::{Finder as _, Located, Repaired, lost_blocks, not_marked, nothing_certain};
use crate::vlog::format::{Entry, Header, Pointer, SLICE_ENTRIES, Tail, live_mark};
use crate::vlog::format::{POOL_START, TAIL_BLOCK};
use crate::vlog::map::Map;
use crate::vlog::slices;
use crate::vlog::tree::SliceNr;
use seekless_engine::data::{Body, Data};
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::layout::{LayoutError, RecoverySteps};
use seekless_engine::superblock::Superblock;
use seekless_engine::units::BlockNr;
use std::collections::{BTreeSet, VecDeque};

/// Pointers of a map block, at most: the map blocks form a tree with so many branches.
const BRANCHES: usize = 24;

/// Numbers that are left out: what cannot be read may have used those that follow.
const GAP: u64 = 1 << 20;

/// Repairs a volume.
///
/// # Errors
/// If nothing is certain, there is no room, or what the medium reports.
pub fn repair(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    give_up: bool,
) -> Result<Repaired, LayoutError> {
    let salvage = salvage::open(disk, superblock)?;
    let lost = lost_blocks(&salvage, superblock.blocks);
    if lost.len() as u64 == superblock.blocks {
        return nothing_certain();
    }
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery::new(disk, superblock, steps, &FORM);
    let all = recovery.find_all()?;
    let mut used: BTreeSet<u32> = all.iter().map(|found| found.place).collect();
    used.extend(&recovery.unreadable);
    let mut map = Map::new(slices(superblock.blocks) as SliceNr);
    let named = load(&salvage, superblock, &mut map);
    used.extend(&named);
    let end = superblock.device_blocks - 1;
    let pool = (POOL_START..end).map(|place| place as u32);
    let mut free: VecDeque<u32> = pool.filter(|place| !used.contains(place)).collect();
    if !give_up {
        mark(recovery.disk, superblock, &lost, &mut map, &mut free)?;
    }
    let sequence = all.iter().map(|found| found.header.sequence).max().unwrap_or(0) + GAP;
    let commit = all.iter().map(|found| found.header.commit).max().unwrap_or(0) + GAP;
    let found = all.iter().map(|found| found.header.slice).collect();
    write(recovery.disk, superblock, map, free, (sequence, commit), &found)?;
    // A scan after a crash would refuse the volume for them.
    for place in recovery.unreadable.iter().filter(|place| !named.contains(*place)) {
        recovery.disk.write(u64::from(*place), Data::zeros(1))?;
    }
    recovery.disk.flush_for(Edge::VlogRepairEnd)?;
    Ok(Repaired { lost, marked: !give_up })
}

/// Takes what is certain into a map; returns the places that it names.
fn load(salvage: &Salvage, superblock: &Superblock, map: &mut Map) -> BTreeSet<u32> {
    let mut named = BTreeSet::new();
    for block in 0..superblock.blocks {
        if let Located::Stored(stored) = salvage.find(block) {
            let (place, sum) = (stored.place as u32, stored.sum.unwrap_or_default());
            map.restore(block, Entry::new(place, stored.escaped, sum));
            named.insert(place);
        }
    }
    named
}

/// Gives lost blocks entries that no content fulfils.
fn mark(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    lost: &[BlockNr],
    map: &mut Map,
    free: &mut VecDeque<u32>,
) -> Result<(), LayoutError> {
    let needed = 2 * slices(superblock.blocks) as usize + lost.len() + 64;
    if needed > free.len() {
        return not_marked(lost.len(), "there is no room to mark them");
    }
    for &block in lost {
        let Some(place) = free.pop_back() else { break };
        let sum = disk.read(u64::from(place), 1);
        let sum = sum.map_or(0, |data| superblock.sums.of(&data.block(0)));
        map.restore(block, Entry::new(place, false, !sum));
    }
    Ok(())
}

/// Writes all map blocks, and the tail record that names them.
fn write(
    disk: &mut dyn Disk,
    superblock: &Superblock,
    mut map: Map,
    mut free: VecDeque<u32>,
    (sequence, commit): (u64, u64),
    found: &BTreeSet<SliceNr>,
) -> Result<(), LayoutError> {
    let is_needed = |slice: &SliceNr| {
        let first = u64::from(*slice) * SLICE_ENTRIES as u64;
        let count = (superblock.blocks - first).min(SLICE_ENTRIES as u64);
        // An old version must not be taken for the newest.
        found.contains(slice) || map.range(first, count).any(|entry| entry.is_mapped())
    };
    let live: Vec<SliceNr> = (0..slices(superblock.blocks) as SliceNr).filter(is_needed).collect();
    if free.len() < live.len() {
        return damaged("no block is free for a new map; `seekless salvage` copies the rest");
    }
    let pointers: Vec<Pointer> = (sequence..)
        .zip(free.drain(..live.len()))
        .map(|(sequence, place)| Pointer { place, sequence })
        .collect();
    let marks = live.iter().zip(&pointers).map(|(&slice, own)| live_mark(slice, own.sequence));
    let digest = marks.fold(0, |digest, mark| digest ^ mark);
    let last = live.len().wrapping_sub(1);
    for (index, (&slice, own)) in live.iter().zip(&pointers).enumerate() {
        // The youngest is the root; the branches of the block `n` before it are older.
        let first = (last - index) * BRANCHES + 1;
        let branches = (first..first + BRANCHES).filter_map(|n| last.checked_sub(n));
        let header = Header {
            sequence: own.sequence,
            commit,
            previous: commit - 1,
            durable: commit - 1,
            digest,
            slice,
            index: index as u32,
            members: live.len() as u32,
            changed: Default::default(),
            pointers: branches.map(|index| pointers[index]).collect(),
        };
        let block = map.block(superblock.identity(), own.place, header);
        disk.write(u64::from(own.place), Data::block_of(Body::Lazy(block)))?;
    }
    disk.flush_for(Edge::VlogRepairFlush)?;
    let tail = Tail {
        root: pointers.last().copied().unwrap_or(Pointer { place: 0, sequence: 0 }),
        next_sequence: sequence + live.len() as u64,
        commit,
        digest,
        live: live.len() as u32,
    };
    disk.write(TAIL_BLOCK, Data::bytes(tail.encode(superblock.identity())))?;
    disk.flush_for(Edge::VlogRepairEnd)?;
    Ok(())
}
