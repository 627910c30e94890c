//! Whole blocks: for data in the midst of files, indirect blocks and directories.

use crate::call::Credentials;
use crate::ffs::alloc::bits::{Bits, ones};
use crate::ffs::alloc::{cluster, group};
use crate::ffs::geometry::Fragment;
use crate::ffs::volume::Volume;
use crate::tx::{PageKind, Stop, Tx};

/// Where an allocation should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Who pays: root may use the last percents, too.
    pub who: Credentials,
    /// The address that would be best, if there is one.
    pub at: Option<Fragment>,
    /// The group to begin with otherwise.
    pub group: u32,
    /// Blocks that will follow soon; at least 1.
    pub blocks: u32,
}

/// Refuses what would use the space that is kept for root.
///
/// # Errors
/// [`Stop::NoRoom`].
pub fn check_reserve(vol: &Volume, who: Credentials, fragments: u32) -> Result<(), Stop> {
    let free = vol.free_fragments();
    let reserve = if who.uid == 0 { 0 } else { vol.reserve() };
    if free < u64::from(fragments) + reserve {
        return Err(Stop::NoRoom);
    }
    Ok(())
}

/// Allocates a block.
///
/// # Errors
/// [`Stop::NoRoom`] if there is none; those of [`Tx::page`].
pub fn allocate(tx: &mut dyn Tx, vol: &mut Volume, wish: Wish) -> Result<Fragment, Stop> {
    let per_block = vol.geometry.fragments_per_block();
    check_reserve(vol, wish.who, per_block)?;
    if let Some(at) = wish.at
        && take_if_free(tx, vol, at)?
    {
        return Ok(at);
    }
    let first = wish.at.map_or(wish.group, |at| vol.geometry.group_of_fragment(at));
    for group in group::order(first, vol.geometry.groups()) {
        if vol.group(group).free_blocks == 0 {
            continue;
        }
        let from = match wish.at {
            Some(at) if vol.geometry.group_of_fragment(at) == group => {
                at - vol.geometry.group_start(group)
            }
            _ => vol.group(group).block_rotor,
        };
        let run = wish.blocks.min(vol.maxcontig);
        let mut found = cluster::find(tx, vol, group, from, run)?;
        if found.is_none() && run > 1 {
            found = cluster::find(tx, vol, group, from, 1)?;
        }
        if let Some(found) = found {
            let at = vol.geometry.group_start(group) + found;
            take(tx, vol, at, per_block)?;
            vol.change_group(group, |g| g.block_rotor = found);
            return Ok(at);
        }
    }
    Err(Stop::NoRoom)
}

/// Allocates the block at an address if it is a free block for data.
fn take_if_free(tx: &mut dyn Tx, vol: &mut Volume, at: Fragment) -> Result<bool, Stop> {
    let per_block = vol.geometry.fragments_per_block();
    if !at.is_multiple_of(per_block) || !vol.geometry.is_data(at, per_block) {
        return Ok(false);
    }
    let group = vol.geometry.group_of_fragment(at);
    if vol.is_closed(group) {
        return Ok(false);
    }
    let bit = at - vol.geometry.group_start(group);
    if Bits::fragments(&vol.geometry, group).get(tx, bit, per_block)? != 0 {
        return Ok(false);
    }
    take(tx, vol, at, per_block)?;
    Ok(true)
}

/// Marks free fragments of one block as used.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn take(tx: &mut dyn Tx, vol: &mut Volume, at: Fragment, count: u32) -> Result<(), Stop> {
    mark(tx, vol, at, count, true)
}

/// Frees fragments of one block, and forgets what the cache holds of them.
///
/// # Errors
/// Those of [`Tx::page`]; [`crate::call::Errno::Io`] if they are not in use: the maps are damaged.
pub fn free(tx: &mut dyn Tx, vol: &mut Volume, at: Fragment, count: u32) -> Result<(), Stop> {
    mark(tx, vol, at, count, false)?;
    let place = vol.geometry.place_of(at);
    tx.forget(place.block, place.at, count as usize * vol.geometry.fragment_bytes());
    Ok(())
}

fn mark(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    at: Fragment,
    count: u32,
    used: bool,
) -> Result<(), Stop> {
    let per_block = vol.geometry.fragments_per_block();
    let within = at % per_block;
    // A damaged address must not lead outside of the data.
    if count == 0 || within + count > per_block || !vol.geometry.is_data(at, count) {
        return Err(crate::call::Errno::Io.into());
    }
    let group = vol.geometry.group_of_fragment(at);
    if vol.is_closed(group) {
        // They stay marked until a repair computes the maps anew.
        debug_assert!(!used, "nothing is allocated in a closed group");
        return Ok(());
    }
    let first = at - within - vol.geometry.group_start(group);
    let bits = Bits::fragments(&vol.geometry, group);
    let old = bits.get(tx, first, per_block)?;
    let these = ones(count) << within;
    if (old & these != 0) == used || (!used && old & these != these) {
        return Err(crate::call::Errno::Io.into());
    }
    let new = if used { old | these } else { old & !these };
    bits.put(tx, first, per_block, new)?;
    vol.change_group(group, |g| {
        g.count_block(old, per_block, false);
        g.count_block(new, per_block, true);
    });
    Ok(())
}

/// Notes that the maps of the group of an address will be wanted.
pub fn expect(tx: &mut dyn Tx, vol: &Volume, at: Fragment) {
    if !vol.is_closed(vol.geometry.group_of_fragment(at)) {
        tx.expect(vol.geometry.fragment_bit(at).block, PageKind::Bitmap);
    }
}
