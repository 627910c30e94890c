//! Clusters of a file: up to `maxcontig` blocks in a row that go out in one write.
//!
//! When the last block of a cluster is filled, the cluster is ready to be written. If its blocks do
//! not lie side by side and none of them was written yet, they first move to a run of free blocks
//! (`ffs_reallocblks` of 4.4BSD). A move is part of the write that filled the block, and is undone
//! with it. It reads nothing: where a bitmap is not in the cache, there is no run.
//!
//! A cluster lies in one section of its file, because a section may begin in another group.

use crate::ffs::inodes;
use crate::ffs::names::paths::Loser;
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::ondisk::inode::{DIRECT, Inode, offset};
use crate::ffs::space::alloc::block::{self, Former, Wish};
use crate::ffs::space::alloc::{cluster, group};
use crate::ffs::space::map::{self, Slot};
use crate::ffs::volume::Volume;
use seekless_fs::call::{Credentials, Ino};
use seekless_fs::tx::{BlockNo, Need, PageKind, Stop, Tx, Why};
use smallvec::SmallVec;
use std::ops::Range;

/// Groups that a search for a run tries at most.
const MOST_GROUPS: usize = 4;

/// Blocks of a cluster that moves at most: those of 64 KiB.
const MOST_MOVED: usize = 16;

/// The blocks of a file in the cluster of one of them.
pub fn of(vol: &Volume, index: u64) -> Range<u64> {
    let direct = DIRECT as u64;
    let (first, end) = if index < direct {
        (0, direct)
    } else {
        let first = index - (index - direct) % u64::from(vol.maxbpg);
        (first, first + u64::from(vol.maxbpg))
    };
    let most = u64::from(vol.maxcontig);
    let start = index - (index - first) % most;
    start..end.min(start + most)
}

/// A block of a file was filled to its end. If it is the last one of its cluster, the cluster goes
/// out; with `may_move` its blocks are made adjacent before. True if they have moved.
///
/// # Errors
/// Those of [`Tx::page`] for the bitmaps of blocks that move.
pub fn filled(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    index: u64,
    may_move: bool,
) -> Result<bool, Stop> {
    let blocks = of(vol, index);
    if index + 1 != blocks.end {
        return Ok(false);
    }
    let mut places: SmallVec<[Fragment; MOST_MOVED]> = SmallVec::new();
    for index in blocks.clone() {
        // This write does not depend on the other addresses: a damaged one is no reason to fail.
        match map::address(tx, vol, inode, index) {
            Ok(at) => places.push(at),
            Err(_) => return Ok(false),
        }
    }
    let mut moved = false;
    if may_move
        && can_move(tx, vol, &places)
        && let Some(first) = find(tx, vol, who, inode, (blocks.start, &places))
    {
        move_all(tx, vol, who, (ino, inode), blocks.start, (&places, first))?;
        let each = vol.geometry.fragments_per_block();
        (0..).zip(&mut places).for_each(|(n, at)| *at = first + n * each);
        moved = true;
    }
    let full: SmallVec<[BlockNo; MOST_MOVED]> =
        places.iter().filter(|&&at| at != 0).map(|&at| vol.geometry.block_of(at)).collect();
    tx.filled(&full);
    Ok(moved)
}

/// True if blocks are not adjacent and each of them is new.
fn can_move(tx: &dyn Tx, vol: &Volume, places: &[Fragment]) -> bool {
    let each = vol.geometry.fragments_per_block();
    let is_run = places.windows(2).all(|pair| pair[0].checked_add(each) == Some(pair[1]));
    let is_new = |&at: &Fragment| {
        at != 0
            && at.is_multiple_of(each)
            && vol.geometry.is_data(at, each)
            && tx.is_unwritten(vol.geometry.block_of(at))
    };
    !is_run && places.len() <= MOST_MOVED && places.iter().all(is_new)
}

/// The start of a run of free blocks for a cluster: behind the block before it if there is one,
/// otherwise in the group of its first block or near that.
fn find(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    inode: &Inode,
    (index, places): (u64, &[Fragment]),
) -> Option<Fragment> {
    let each = vol.geometry.fragments_per_block();
    let count = places.len() as u32;
    block::check_reserve(vol, who, count * each).ok()?;
    let home = vol.geometry.group_of_fragment(places[0]);
    let before = index.checked_sub(1).and_then(|index| map::address(tx, vol, inode, index).ok());
    // In another group the allocation has moved on; it is not forced back.
    let near = before.filter(|&at| at != 0 && vol.geometry.group_of_fragment(at) == home);
    for group in group::order(home, vol.geometry.groups()).take(MOST_GROUPS) {
        let start = vol.geometry.group_start(group);
        let from = match near {
            Some(at) if group == home => at + each - start,
            _ if group == home => places[0] - start,
            _ => vol.group(group).block_rotor,
        };
        if let Ok(Some(found)) = cluster::find(tx, vol, group, from, count) {
            return Some(start + found);
        }
    }
    None
}

/// Moves new blocks of a file to a run of free blocks.
fn move_all(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    index: u64,
    (places, first): (&[Fragment], Fragment),
) -> Result<(), Stop> {
    let each = vol.geometry.fragments_per_block();
    let length = vol.geometry.block_bytes();
    let wish = Wish { who, at: None, group: vol.geometry.group_of_fragment(first), blocks: 1 };
    for ((&from, to), index) in places.iter().zip((first..).step_by(each as usize)).zip(index..) {
        let slot = map::slot(tx, vol, ino, inode, index, wish)?;
        block::take(tx, vol, to, each)?;
        let (old, new) = (vol.geometry.block_of(from), vol.geometry.block_of(to));
        let content = tx.part(old, 0, length, PageKind::Data)?.to_vec();
        tx.fresh(new, PageKind::Data, 0, length);
        tx.began(new);
        tx.set(new, 0, &content);
        tx.belongs(new, ino);
        // The disk may have it at a former place.
        tx.content(block::content(vol, to, each), true);
        vol.paths.claimed(ino, to, each, each);
        map::set(tx, ino, inode, slot, to);
        let needs = block::needs(vol, to, each, PageKind::Data);
        let field = match slot {
            Slot::Direct(number) => {
                needs.into_iter().for_each(|need| vol.need(ino, need));
                let field = inodes::part(vol, vol.number(ino)?, offset::DIRECT + 4 * number, 4);
                if tx.is_guarded(field) {
                    // It may hold what the disk has at a former place.
                    let field = block::content(vol, to, each);
                    vol.need(ino, Need { field, why: Why::Moved });
                }
                field
            }
            Slot::In(block, at) => map::guard_address(tx, vol, ino, (block, at, from), &needs),
        };
        block::free(tx, vol, (from, each), Former { field, exact: true })?;
        vol.paths.freed(Loser { ino, deep: matches!(slot, Slot::In(..)) }, from, each);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
