//! The first and the last stage: takes what is in use as candidates, and frees what is left.

use super::{Stage, of};
use crate::ffs::space::alloc::bits::Bits;
use crate::ffs::space::alloc::block;
use crate::ffs::volume::{Owed, Volume};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Blocks with fragments to be freed in a step at most.
const MOST_BLOCKS: usize = 64;

/// Takes the candidates of a group, once nothing that was freed is owed: so each of them is in use
/// or has leaked.
pub(super) fn take(tx: &mut dyn Tx, vol: &mut Volume) -> Result<(), Stop> {
    if vol.owed() != Owed::default() {
        return Ok(());
    }
    let group = of(vol).next;
    if !vol.is_closed(group) {
        let geometry = vol.geometry.clone();
        let first = geometry.maps_of(group);
        for block in first..first + u64::from(geometry.map_blocks()) {
            tx.expect(block, PageKind::Bitmap);
        }
        let per_group = geometry.sizes().inodes_per_group;
        let (start, reclaim) = (geometry.group_start(group), of(vol));
        used(tx, Bits::inodes(&geometry, group), |index| {
            reclaim.inodes.insert(group * per_group + index);
        })?;
        used(tx, Bits::fragments(&geometry, group), |index| {
            reclaim.fragments.insert(start + index);
        })?;
        reclaim.fragments.remove(geometry.metadata_of(group));
        reclaim.fragments.remove(reclaim.log.clone());
    }
    let reclaim = of(vol);
    match group + 1 < reclaim.part.end {
        true => reclaim.next = group + 1,
        false => reclaim.begin(Stage::Names, 0),
    }
    Ok(())
}

/// Offers the bits that are set.
fn used(tx: &mut dyn Tx, bits: Bits, mut each: impl FnMut(u32)) -> Result<(), Stop> {
    bits.scan(tx, 0, u32::MAX, |base, word| {
        let set = (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| base + bit);
        set.filter(|&bit| bit < bits.count).for_each(&mut each);
        None::<()>
    })?;
    Ok(())
}

/// Frees candidates of a group that no inode has.
pub(super) fn step(tx: &mut dyn Tx, vol: &mut Volume) -> Result<(), Stop> {
    let group = of(vol).next;
    let geometry = vol.geometry.clone();
    let start = geometry.group_start(group);
    let end = start + geometry.group_fragments(group);
    let per_block = geometry.fragments_per_block();
    let (mut runs, mut blocks, mut from) = (Vec::new(), 0, start);
    while blocks < MOST_BLOCKS
        && let Some(at) = of(vol).fragments.next(from, end)
    {
        // Runs of fragments that lie in one block.
        let until = (at / per_block + 1) * per_block;
        let mut behind = at + 1;
        while behind < until && of(vol).fragments.has(behind) {
            behind += 1;
        }
        runs.push((at, behind - at));
        (blocks, from) = (blocks + 1, behind);
    }
    let freed: u64 = runs.iter().map(|&(_, count)| u64::from(count)).sum();
    for &(at, count) in &runs {
        vol.change_owed(|owed| owed.fragments += u64::from(count));
        block::release(tx, vol, at, count)?;
    }
    if blocks < MOST_BLOCKS && !vol.is_closed(group) {
        vol.change_group(group, |g| {
            g.directories = g.recounted;
            (g.recounted, g.recounted_to) = (0, 0);
        });
    }
    let reclaim = of(vol);
    runs.into_iter().for_each(|(at, count)| reclaim.fragments.remove(at..at + count));
    reclaim.done.fragments += freed;
    if blocks == MOST_BLOCKS {
        return Ok(());
    }
    if group + 1 < reclaim.part.end {
        reclaim.next = group + 1;
    } else {
        reclaim.end_part(&geometry);
    }
    Ok(())
}
