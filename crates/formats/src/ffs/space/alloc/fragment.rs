//! Fragments: tails of small files.
//!
//! A tail lies in one block. It grows in place if the fragments behind it are free; otherwise it
//! moves. The caller copies the content.

use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::space::alloc::bits::{Bits, free_runs, ones};
use crate::ffs::space::alloc::block::{self, Wish};
use crate::ffs::space::alloc::group;
use crate::ffs::volume::Volume;
use seekless_fs::call::Errno;
use seekless_fs::tx::{Stop, Tx};

/// Allocates adjacent fragments of one block. With `roomy` they begin a free block, so that a tail
/// can grow in place; otherwise they go where least is wasted.
///
/// # Errors
/// [`Stop::NoRoom`] if there are none; those of [`Tx::page`].
pub fn allocate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    wish: Wish,
    count: u32,
    roomy: bool,
) -> Result<Fragment, Stop> {
    if count == vol.geometry.fragments_per_block() {
        return block::allocate(tx, vol, wish);
    }
    block::check_reserve(vol, wish.who, count)?;
    let first = wish.at.map_or(wish.group, |at| vol.geometry.group_of_fragment(at));
    for group in group::order(first, vol.geometry.groups()) {
        let found = if roomy && vol.group(group).free_blocks > 0 {
            split_block(tx, vol, group, count)?
        } else {
            allocate_in(tx, vol, group, count)?
        };
        if let Some(at) = found {
            return Ok(at);
        }
    }
    Err(Stop::NoRoom)
}

/// Allocates in one group: the smallest run that is large enough, or part of a free block.
fn allocate_in(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    group: u32,
    count: u32,
) -> Result<Option<Fragment>, Stop> {
    let summary = *vol.group(group);
    let per_block = vol.geometry.fragments_per_block();
    let start = vol.geometry.group_start(group);
    if let Some(run) = (count..per_block).find(|&n| summary.runs[n as usize] > 0) {
        let found = find_run(tx, vol, group, run)?.ok_or(Errno::Io)?;
        block::take(tx, vol, start + found, count)?;
        vol.change_group(group, |g| g.fragment_rotor = found);
        return Ok(Some(start + found));
    }
    split_block(tx, vol, group, count)
}

/// Allocates the first fragments of a free block.
fn split_block(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    group: u32,
    count: u32,
) -> Result<Option<Fragment>, Stop> {
    let start = vol.geometry.group_start(group);
    let rotor = vol.group(group).block_rotor;
    let Some(found) = super::cluster::find(tx, vol, group, rotor, 1)? else { return Ok(None) };
    block::take(tx, vol, start + found, count)?;
    tx.unused(vol.geometry.block_of(start + found));
    vol.change_group(group, |g| {
        g.block_rotor = found;
        g.fragment_rotor = found;
    });
    Ok(Some(start + found))
}

/// The first run of exactly `run` free fragments in a block of which others are in use.
fn find_run(tx: &mut dyn Tx, vol: &Volume, group: u32, run: u32) -> Result<Option<u32>, Stop> {
    let per_block = vol.geometry.fragments_per_block();
    let bits = Bits::fragments(&vol.geometry, group);
    let rotor = vol.group(group).fragment_rotor / 64 * 64;
    for (from, to) in [(rotor, u32::MAX), (0, rotor)] {
        let found = bits.scan(tx, from, to, |base, word| run_in(base, word, per_block, run))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn run_in(base: u32, word: u64, per_block: u32, run: u32) -> Option<u32> {
    if word == u64::MAX || word == 0 {
        return None;
    }
    let mut found = None;
    for first in (0..64).step_by(per_block as usize) {
        let mask = (word >> first) as u8 & ones(per_block);
        if mask == 0 || mask == ones(per_block) {
            continue;
        }
        free_runs(mask, per_block, |at, length| {
            if length == run && found.is_none() {
                found = Some(base + first + at);
            }
        });
        if found.is_some() {
            break;
        }
    }
    found
}

/// Grows a tail in place; false if the fragments behind it are in use.
///
/// # Errors
/// [`Stop::NoRoom`] if only root may; those of [`Tx::page`].
pub fn extend(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    wish: Wish,
    at: Fragment,
    (old, new): (u32, u32),
) -> Result<bool, Stop> {
    let per_block = vol.geometry.fragments_per_block();
    if at % per_block + new > per_block {
        return Ok(false);
    }
    let group = vol.geometry.group_of_fragment(at);
    if vol.is_closed(group) {
        return Ok(false);
    }
    let bit = at - vol.geometry.group_start(group) + old;
    if Bits::fragments(&vol.geometry, group).get(tx, bit, new - old)? != 0 {
        return Ok(false);
    }
    block::check_reserve(vol, wish.who, new - old)?;
    block::take(tx, vol, at + old, new - old)?;
    Ok(true)
}
