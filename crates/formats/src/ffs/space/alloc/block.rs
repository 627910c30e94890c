//! Whole blocks: for data in the midst of files, indirect blocks and directories.

use crate::ffs::calls::piece::Piece;
use crate::ffs::ondisk::geometry::Fragment;
use crate::ffs::space::alloc::bits::{Bits, ones};
use crate::ffs::space::alloc::{cluster, group};
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::Credentials;
use seekless_fs::tx::{Field, Freed, Need, PageKind, Stop, Tx, Why};

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
    let run = wish.blocks.min(vol.maxcontig);
    // A block that others follow goes where all of them fit, even if the wished place is free.
    if let Some(at) = wish.at
        && (run == 1 || !vol.may_have_run(vol.geometry.group_of_fragment(at), run))
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
        let mut found = cluster::find(tx, vol, group, from, run)?;
        if found.is_none() && run > 1 {
            if group == first
                && let Some(at) = wish.at
                && take_if_free(tx, vol, at)?
            {
                return Ok(at);
            }
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

/// Where the address of freed fragments was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Former {
    /// Bytes that the disk must have without it before the fragments are free.
    pub field: Field,
    /// These bytes were the address itself.
    pub exact: bool,
}

/// Frees fragments of one block, and forgets what the cache holds of them. Where writes are
/// ordered, the fragments are free when nothing on the disk leads to them.
///
/// # Errors
/// Those of [`Tx::page`]; [`seekless_fs::call::Errno::Io`] if they are not in use: the maps are
/// damaged.
pub fn free(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    extent: (Fragment, u32),
    former: Former,
) -> Result<(), Stop> {
    give_up(tx, vol, extent, former, |tx, freed, content| tx.free_later(freed, content))
}

/// Frees the fragments from which the end of a file has moved. Where moves are ordered, they are
/// free when the disk leads to the new place.
///
/// # Errors
/// Those of [`free`].
pub fn leave(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    extent: (Fragment, u32),
    former: Former,
) -> Result<(), Stop> {
    give_up(tx, vol, extent, former, |tx, freed, content| tx.free_moved(freed, content))
}

/// Hands fragments to the policy to free them later, or frees them if it does not take them.
fn give_up(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (at, count): (Fragment, u32),
    former: Former,
    hand_over: impl FnOnce(&mut dyn Tx, Freed, Option<Field>) -> bool,
) -> Result<(), Stop> {
    vol.gives_up(at, count);
    let what = Piece::Fragments { at, count }.into();
    let freed = Freed { what, after: former.field, exact: former.exact };
    // What the cache holds of them is forgotten when nothing waits for it.
    if hand_over(tx, freed, Some(content(vol, at, count))) {
        vol.change_owed(|owed| owed.fragments += u64::from(count));
        return Ok(());
    }
    mark(tx, vol, at, count, false)?;
    forget(tx, vol, at, count);
    Ok(())
}

fn forget(tx: &mut dyn Tx, vol: &Volume, at: Fragment, count: u32) {
    let place = vol.geometry.place_of(at);
    tx.forget(place.block, place.at, count as usize * vol.geometry.fragment_bytes());
}

/// Marks fragments as free to which nothing leads.
///
/// # Errors
/// Those of [`free`].
pub fn release(tx: &mut dyn Tx, vol: &mut Volume, at: Fragment, count: u32) -> Result<(), Stop> {
    vol.change_owed(|owed| owed.fragments -= u64::from(count));
    forget(tx, vol, at, count);
    mark(tx, vol, at, count, false)
}

/// The bytes of fragments of one block.
pub fn content(vol: &Volume, at: Fragment, count: u32) -> Field {
    let place = vol.geometry.place_of(at);
    Field::new(place.block, place.at, count as usize * vol.geometry.fragment_bytes())
}

/// What an address of new fragments of one block needs: their bits and their content.
pub fn needs(vol: &Volume, at: Fragment, count: u32, kind: PageKind) -> [Need; 2] {
    let group = vol.geometry.group_of_fragment(at);
    let bits = Bits::fragments(&vol.geometry, group);
    let bits = bits.field(at - vol.geometry.group_start(group));
    let content = content(vol, at, count);
    let why = if kind == PageKind::Data { Why::Data } else { Why::Content };
    let bits = if planted(PlantedBug::PointerBeforeBitmap) { content } else { bits };
    [Need { field: bits, why: Why::Bits }, Need { field: content, why }]
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
        return Err(seekless_fs::call::Errno::Io.into());
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
        tx.contradicts(vol.geometry.fragment_bit(at).block);
        return Err(seekless_fs::call::Errno::Io.into());
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
