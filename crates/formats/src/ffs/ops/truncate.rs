//! `truncate`: another size.

use super::Progress;
use super::attr::content_changed;
use crate::ffs::inodes;
use crate::ffs::names::paths::Loser;
use crate::ffs::ondisk::inode::{DIRECT, Inode, PREALLOCATED, offset};
use crate::ffs::space::alloc::block::{self, Former};
use crate::ffs::space::tail::Growing;
use crate::ffs::space::{free, map};
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Changes the size of a file, in steps. A file that shrinks is shorter after each.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; [`Stop::NoRoom`] if the
/// tail must grow; those of [`Tx::page`].
pub fn truncate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    size: u64,
) -> Result<Progress, Stop> {
    let old = inodes::file(tx, vol, ino)?;
    if size > vol.geometry.most_file_bytes() {
        return Err(Errno::FBig.into());
    }
    let mut new = old.clone();
    let progress = if size > old.size {
        free::behind_end(tx, vol, (ino, &mut new))?;
        let kind = PageKind::Data;
        Growing { ino, inode: &mut new, who, kind }.grow_tail(tx, vol, size)?;
        new.size = size;
        Progress::Done
    } else {
        shrink(tx, vol, (ino, &mut new), size)?
    };
    content_changed(tx, &mut new, who);
    inodes::put(tx, vol, ino, &old, &new)?;
    if new.size != old.size || new.sectors < old.sectors {
        tx.writes_at_once(inodes::field(vol, vol.number(ino)?));
    }
    Ok(progress)
}

fn shrink(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
    size: u64,
) -> Result<Progress, Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let from = size.div_ceil(block_bytes);
    let reached = free::end(tx, vol, (ino, inode), from)?;
    if reached > from {
        inode.size = inode.size.min(reached * block_bytes);
        return Ok(Progress::More);
    }
    if !size.is_multiple_of(block_bytes) {
        cut_tail(tx, vol, (ino, inode), size)?;
    }
    inode.size = size;
    inode.flags &= !PREALLOCATED;
    Ok(Progress::Done)
}

/// Makes the last block what it must be at the new size: fewer fragments if it is a direct one,
/// and zeros behind the end.
fn cut_tail(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
    size: u64,
) -> Result<(), Stop> {
    let block_bytes = vol.geometry.block_bytes() as u64;
    let index = size / block_bytes;
    let at = map::address(tx, vol, inode, index)?;
    if at == 0 {
        return Ok(());
    }
    let had = inode.block_fragments(index, &vol.geometry);
    let after = Inode { size, flags: inode.flags & !PREALLOCATED, ..inode.clone() };
    let keeps = after.block_fragments(index, &vol.geometry);
    if keeps < had && index < DIRECT as u64 {
        let number = vol.number(ino)?;
        let size = inodes::part(vol, number, offset::SIZE, offset::SECTORS - offset::SIZE);
        let former = Former { field: size, exact: false };
        block::free(tx, vol, (at + keeps, had - keeps), former)?;
        vol.paths.freed(Loser { ino, deep: false }, at + keeps, had - keeps);
        let each = (vol.geometry.fragment_bytes() / SECTOR_BYTES) as u32;
        let counted = planted(PlantedBug::CutTailCounted);
        let sectors = if counted { 0 } else { (had - keeps) * each };
        inode.sectors = inode.sectors.saturating_sub(sectors);
    }
    let kept = keeps.min(had) as usize * vol.geometry.fragment_bytes();
    zero(tx, vol, (ino, at), ((size % block_bytes) as usize, kept))
}

/// Zeroes a range of the block of a file at an address.
pub(super) fn zero(
    tx: &mut dyn Tx,
    vol: &Volume,
    (ino, at): (Ino, u32),
    (from, to): (usize, usize),
) -> Result<(), Stop> {
    let place = vol.geometry.place_of(at);
    if from >= to {
        return Ok(());
    }
    if place.at + to > vol.geometry.block_bytes() {
        return Err(Errno::Io.into());
    }
    let first = from / SECTOR_BYTES * SECTOR_BYTES;
    let length = to.next_multiple_of(SECTOR_BYTES) - first;
    tx.part(place.block, place.at + first, length, PageKind::Data)?;
    tx.set(place.block, place.at + from, &vec![0; to - from]);
    tx.belongs(place.block, ino);
    Ok(())
}
