//! `truncate`: another size.

use super::Progress;
use super::attr::content_changed;
use crate::minix::inodes::{self, edit, outer};
use crate::minix::ondisk::inode::Inode;
use crate::minix::space::{cut, map};
use crate::minix::volume::Volume;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Changes the size of a file, in steps. A file that shrinks is shorter after each. One that grows
/// gets a hole.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; those of [`Tx::page`].
pub fn truncate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    size: u64,
) -> Result<Progress, Stop> {
    let (number, mut inode) = inodes::file(tx, vol, ino)?;
    if size > vol.geometry.most_file_bytes() {
        return Err(Errno::FBig.into());
    }
    let progress = if size > u64::from(inode.size) {
        clear_end(tx, vol, (number, &inode))?;
        inode.size = size as u32;
        Progress::Done
    } else {
        shrink(tx, vol, (number, &mut inode), size)?
    };
    content_changed(tx, &mut inode, who);
    inodes::put(tx, vol, number, &inode)?;
    Ok(progress)
}

fn shrink(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    size: u64,
) -> Result<Progress, Stop> {
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let from = vol.geometry.size_zones(size);
    // Before a zone is freed: of a damaged file the last one that stays may be among them. A crash
    // between two steps leaves zeros behind the new size.
    let shorter = Inode { size: size as u32, ..inode.clone() };
    clear_end(tx, vol, (number, &shorter))?;
    let step = cut::end(tx, vol, (number, inode), from)?;
    if step.reached > from {
        let left = step.reached.saturating_mul(zone_bytes);
        inode.size = inode.size.min(u32::try_from(left).unwrap_or(u32::MAX));
        return Ok(Progress::More);
    }
    inode.size = size as u32;
    Ok(Progress::Done)
}

/// Makes the bytes behind the end of a file zeros, in the zone of its last byte. A file that grows
/// shows them, and other programs may have left something there.
///
/// # Errors
/// Those of [`map::address`].
pub(super) fn clear_end(
    tx: &mut dyn Tx,
    vol: &Volume,
    (number, inode): (u32, &Inode),
) -> Result<(), Stop> {
    let zone_bytes = vol.geometry.zone_bytes();
    let within = inode.size as usize % zone_bytes;
    if within == 0 {
        return Ok(());
    }
    let zone = map::address(tx, vol, inode, u64::from(inode.size) / zone_bytes as u64)?;
    if zone == 0 {
        return Ok(());
    }
    let place = vol.geometry.place_of(zone).plus(within);
    let (first, length) = place.sectors(zone_bytes - within);
    let part = tx.part(place.page, first, length, PageKind::Data)?;
    if part[place.at - first..].iter().any(|&byte| byte != 0) {
        edit(tx, place, &vec![0; zone_bytes - within], PageKind::Data)?;
        tx.belongs(place.page, outer(number));
    }
    Ok(())
}
