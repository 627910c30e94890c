//! `write`: content of files, in steps; holes arise where nothing was written.

use super::STEP_BLOCKS;
use super::attr::content_changed;
use crate::ffs::inodes;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::space::tail::Growing;
use crate::ffs::space::{cluster, free, map};
use crate::ffs::volume::Volume;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{Field, Need, PageKind, Stop, Tx, Why};

/// What a step of a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it began: what `append` has led to.
    pub at: u64,
    /// Bytes written; the caller goes on behind them.
    pub bytes: usize,
}

/// Writes at a place, or behind the end, as much as one step may ([`STEP_BLOCKS`] blocks). The
/// caller goes on with the rest, without `append`, at `at + bytes`.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; [`Stop::NoRoom`]; those
/// of [`Tx::page`].
pub fn write(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    (at, append): (u64, bool),
    data: &[u8],
) -> Result<Written, Stop> {
    let old = inodes::file(tx, vol, ino)?;
    let at = if append { old.size } else { at };
    if data.is_empty() {
        return Ok(Written { at, bytes: 0 });
    }
    let end = at.checked_add(data.len() as u64).ok_or(Errno::FBig)?;
    let most = vol.geometry.most_file_bytes();
    if at >= most {
        return Err(Errno::FBig.into());
    }
    let block_bytes = vol.geometry.block_bytes() as u64;
    let end = end.min(most).min((at / block_bytes + step_blocks(vol, who)) * block_bytes);
    let bytes = (end - at) as usize;
    let mut inode = old.clone();
    fill(tx, vol, who, (ino, &mut inode), (at, end), Some(&data[..bytes]))?;
    content_changed(tx, &mut inode, who);
    inodes::put(tx, vol, ino, &old, &inode)?;
    Ok(Written { at, bytes })
}

/// Blocks of a step: one where space is short, so that a write takes what there is.
fn step_blocks(vol: &Volume, who: Credentials) -> u64 {
    // Up to three indirect blocks come on top.
    let needs = (STEP_BLOCKS + 3) * u64::from(vol.geometry.fragments_per_block());
    if super::space::available(vol, who) < needs { 1 } else { STEP_BLOCKS }
}

/// Allocates the blocks of a range and fills them with data; without data they keep what they
/// have, and new ones are zeros. The file grows to the end of the range.
pub(super) fn fill(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    (at, end): (u64, u64),
    data: Option<&[u8]>,
) -> Result<(), Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let old_size = inode.size;
    let size = old_size.max(end);
    if size > old_size {
        free::behind_end(tx, vol, (ino, inode))?;
    }
    let old_blocks = inode.size_blocks(&vol.geometry);
    let kind = PageKind::Data;
    if at / block_bytes >= old_blocks {
        // The old tail is not in the range, but it is the last block no more.
        Growing { ino, inode, who, kind }.grow_tail(tx, vol, size)?;
    }
    // A step stays small: it moves one cluster at most.
    let mut may_move = true;
    for index in at / block_bytes..end.div_ceil(block_bytes) {
        let from = at.max(index * block_bytes);
        let until = end.min((index + 1) * block_bytes);
        let step = OneBlock { index, from, until, size, left: end.div_ceil(block_bytes) - index };
        let data = data.map(|d| &d[(from - at) as usize..(until - at) as usize]);
        one_block(tx, vol, who, (ino, inode), step, data)?;
        if data.is_some() && until == (index + 1) * block_bytes {
            let moved = cluster::filled(tx, vol, who, (ino, inode), index, may_move)?;
            may_move &= !moved;
        }
    }
    inode.size = size;
    Ok(())
}

/// A block of a range that is filled.
struct OneBlock {
    index: u64,
    from: u64,
    until: u64,
    /// Size of the file afterwards.
    size: u64,
    /// Blocks of the range from this one on.
    left: u64,
}

fn one_block(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    (ino, inode): (Ino, &mut Inode),
    step: OneBlock,
    data: Option<&[u8]>,
) -> Result<(), Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let index = step.index;
    let mut address = map::address(tx, vol, inode, index)?;
    let had = inode.block_fragments(index, &vol.geometry);
    let needs = Inode { size: step.size, ..inode.clone() }.block_fragments(index, &vol.geometry);
    let is_whole = step.until - step.from == block_bytes;
    let kind = PageKind::Data;
    let is_new = address == 0;
    if is_new {
        let blocks = step.left.min(cluster::of(vol, index).end - index) as u32;
        let wish = map::wish(tx, vol, (ino, inode), index, blocks, who)?;
        let slot = map::slot(tx, vol, ino, inode, index, wish)?;
        address = Growing { ino, inode, who, kind }.add(tx, vol, slot, needs, wish)?;
    } else if had < needs {
        address = Growing { ino, inode, who, kind }.extend(tx, vol, index, (had, needs))?;
    }
    let Some(data) = data else { return Ok(()) };
    let place = vol.geometry.place_of(address);
    let start = place.at + (step.from % block_bytes) as usize;
    let held = needs.max(had) as usize * vol.geometry.fragment_bytes();
    if place.at + held > block_bytes as usize {
        return Err(Errno::Io.into());
    }
    if is_whole && !is_new {
        tx.fresh(place.block, kind, 0, block_bytes as usize);
    } else if !is_new {
        tx.part(place.block, place.at, held, kind)?;
    }
    tx.set(place.block, start, data);
    tx.belongs(place.block, ino);
    if !is_new && step.until > inode.size {
        // The size covers nothing that was not written.
        let field = Field::new(place.block, start, data.len());
        tx.content(field, false);
        if tx.guards() {
            vol.need(ino, Need { field, why: Why::Data });
        }
    }
    Ok(())
}
