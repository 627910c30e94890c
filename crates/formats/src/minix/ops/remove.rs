//! `unlink`, `rmdir`, and freeing of what has no names.

use super::attr::changed;
use super::{Progress, Removed};
use crate::minix::inodes::{self, outer};
use crate::minix::names;
use crate::minix::ondisk::inode::{Inode, seconds};
use crate::minix::space::cut;
use crate::minix::volume::Volume;
use seekless_fs::call::{Errno, Ino};
use seekless_fs::tx::{Stop, Tx};

/// Removes a name of an object that is no directory.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::IsDir`], [`Errno::NotDir`]; those of [`names::find`].
pub fn unlink(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Removed, Stop> {
    let (above, mut new_dir) = inodes::directory(tx, vol, dir)?;
    let found = names::find(tx, vol, &new_dir, name)?.found.ok_or(Errno::NoEnt)?;
    let ino = outer(found.number);
    let (number, old) = inodes::get(tx, vol, ino)?;
    if old.is_directory() {
        return Err(Errno::IsDir.into());
    }
    names::set(tx, vol, (above, &new_dir), found.at, 0)?;
    let links = drop_links(tx, vol, (number, &old), 1)?;
    changed(tx, &mut new_dir);
    inodes::put(tx, vol, above, &new_dir)?;
    Ok(Removed { ino, last: links == 0 })
}

/// Lowers the count of names of an object. A count that is too low is damage; it stays at 0.
pub(super) fn drop_links(
    tx: &mut dyn Tx,
    vol: &Volume,
    (number, old): (u32, &Inode),
    by: u16,
) -> Result<u16, Stop> {
    let links = old.links.saturating_sub(by);
    let new = Inode { links, ctime: seconds(tx.now()), ..old.clone() };
    inodes::put(tx, vol, number, &new)?;
    Ok(links)
}

/// Removes an empty directory.
///
/// # Errors
/// [`Errno::NotEmpty`], [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::Inval`] for `.`; those of
/// [`names::find`].
pub fn rmdir(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Removed, Stop> {
    match name {
        b"." => return Err(Errno::Inval.into()),
        b".." => return Err(Errno::NotEmpty.into()),
        _ => {}
    }
    let (above, mut new_dir) = inodes::directory(tx, vol, dir)?;
    let found = names::find(tx, vol, &new_dir, name)?.found.ok_or(Errno::NoEnt)?;
    let ino = outer(found.number);
    let (number, old) = inodes::directory(tx, vol, ino)?;
    // Damage may give a directory a name in itself.
    if number == above || !names::is_empty(tx, vol, &old)? {
        return Err(Errno::NotEmpty.into());
    }
    names::set(tx, vol, (above, &new_dir), found.at, 0)?;
    drop_directory(tx, vol, (number, &old))?;
    new_dir.links = new_dir.links.saturating_sub(1);
    changed(tx, &mut new_dir);
    inodes::put(tx, vol, above, &new_dir)?;
    Ok(Removed { ino, last: true })
}

/// An empty directory loses its name: both of its links go.
pub(super) fn drop_directory(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, old): (u32, &Inode),
) -> Result<(), Stop> {
    drop_links(tx, vol, (number, old), u16::MAX)?;
    vol.set_parent(number, None);
    Ok(())
}

/// Frees an object that has no names, in steps: its zones from the end, then its inode.
///
/// # Errors
/// [`Errno::Inval`] if it has names; [`Errno::Stale`]; those of [`Tx::page`].
pub fn reap(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<Progress, Stop> {
    let (number, mut inode) = inodes::get(tx, vol, ino)?;
    if inode.links > 0 {
        return Err(Errno::Inval.into());
    }
    if inode.has_zones() {
        let step = cut::end(tx, vol, (number, &mut inode), 0)?;
        if step.reached > 0 {
            let left = step.reached.saturating_mul(vol.geometry.zone_bytes() as u64);
            inode.size = inode.size.min(u32::try_from(left).unwrap_or(u32::MAX));
            inodes::put(tx, vol, number, &inode)?;
            return Ok(Progress::More);
        }
    }
    inodes::free(tx, vol, number)?;
    Ok(Progress::Done)
}
