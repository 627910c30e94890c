//! `unlink`, `rmdir`, and freeing of what has no names.

use super::{Progress, Removed};
use crate::ffs::calls::piece::Piece;
use crate::ffs::inodes;
use crate::ffs::names::dirs;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::space::alloc::{block, inode as inode_alloc};
use crate::ffs::space::free;
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{Errno, FileKind, Ino};
use seekless_fs::tx::{Deferred, Field, Need, Stop, Tx, Why};
use smallvec::SmallVec;

/// Removes a name of an object that is no directory.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::IsDir`], [`Errno::NotDir`]; those of [`Tx::page`].
pub fn unlink(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Removed, Stop> {
    let old_dir = inodes::directory(tx, vol, dir)?;
    let found = dirs::find(tx, vol, (dir, &old_dir), name)?.ok_or(Errno::NoEnt)?;
    let old = inodes::get(tx, vol, found.ino)?;
    if old.kind() == Some(FileKind::Directory) {
        return Err(Errno::IsDir.into());
    }
    let entry = dirs::remove(tx, vol, (dir, &old_dir), name, found)?;
    tx.writes_at_once(entry);
    let links = drop_link(tx, vol, (found.ino, &old), (dir, entry))?;
    let new_dir = Inode { mtime: tx.now(), ctime: tx.now(), ..old_dir.clone() };
    inodes::put(tx, vol, dir, &old_dir, &new_dir)?;
    Ok(Removed { ino: found.ino, last: links == 0 })
}

/// Lowers the link count of an object that is no directory, once its name is gone.
pub(super) fn drop_link(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, old): (Ino, &Inode),
    name: (Ino, Field),
) -> Result<u16, Stop> {
    // A count of 0 though there was a name is damage; it must not become 65,535.
    let links = old.links.saturating_sub(1);
    let new = Inode { links, ctime: tx.now(), ..old.clone() };
    inodes::put(tx, vol, ino, old, &new)?;
    inodes::lowered(tx, vol, (ino, old.links), name)?;
    Ok(links)
}

/// Removes an empty directory.
///
/// # Errors
/// [`Errno::NotEmpty`], [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::Inval`] for `.`; those of
/// [`Tx::page`].
pub fn rmdir(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Removed, Stop> {
    match name {
        b"." => return Err(Errno::Inval.into()),
        b".." => return Err(Errno::NotEmpty.into()),
        _ => {}
    }
    let old_dir = inodes::directory(tx, vol, dir)?;
    let found = dirs::find(tx, vol, (dir, &old_dir), name)?.ok_or(Errno::NoEnt)?;
    let old = inodes::directory(tx, vol, found.ino)?;
    if !dirs::is_empty(tx, vol, (found.ino, &old))? {
        return Err(Errno::NotEmpty.into());
    }
    // Names that are leaving it must have gone, or their objects would have no name.
    let needs = leaving(tx, vol, found.ino)?;
    let entry = match needs.is_empty() {
        true => dirs::remove(tx, vol, (dir, &old_dir), name, found)?,
        false => dirs::remove_after(tx, vol, (dir, &old_dir), name, found, &needs)?,
    };
    tx.writes_at_once(entry);
    let last = old.links <= 2;
    if last {
        drop_directory(tx, vol, (found.ino, &old), (dir, entry))?;
    } else {
        // A crash in a rename has left it another name.
        drop_link(tx, vol, (found.ino, &old), (dir, entry))?;
    }
    let links = old_dir.links.saturating_sub(1);
    let new_dir = Inode { links, mtime: tx.now(), ctime: tx.now(), ..old_dir.clone() };
    inodes::put(tx, vol, dir, &old_dir, &new_dir)?;
    inodes::lowered(tx, vol, (dir, old_dir.links), (dir, entry))?;
    Ok(Removed { ino: found.ino, last })
}

/// What must be on the disk before a directory can be removed: that names of it have gone which
/// wait for others.
///
/// # Errors
/// Those of [`Tx::page`].
pub(super) fn leaving(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: Ino,
) -> Result<SmallVec<[Need; 2]>, Stop> {
    if planted(PlantedBug::DirectoryBeforeLeavers) {
        return Ok(SmallVec::new());
    }
    let waits = vol.leaving_from(dir).filter(|&field| tx.is_guarded(field));
    let mut needs: SmallVec<[Need; 2]> =
        waits.map(|field| Need { field, why: Why::Link }).collect();
    if !needs.is_empty() {
        needs.extend(inodes::body(tx, vol, dir)?);
    }
    Ok(needs)
}

/// An empty directory loses its name: both of its links go.
pub(super) fn drop_directory(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, old): (Ino, &Inode),
    name: (Ino, Field),
) -> Result<(), Stop> {
    let new = Inode { links: 0, ctime: tx.now(), ..old.clone() };
    inodes::put(tx, vol, ino, old, &new)?;
    inodes::lowered(tx, vol, (ino, old.links), name)?;
    vol.set_parent(ino, None);
    Ok(())
}

/// Frees an object that has no names, in steps: its blocks from the end, then its inode.
///
/// # Errors
/// [`Errno::Inval`] if it has names; [`Errno::Stale`]; those of [`Tx::page`].
pub fn reap(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<Progress, Stop> {
    let old = inodes::get(tx, vol, ino)?;
    if old.links > 0 {
        return Err(Errno::Inval.into());
    }
    let number = vol.number(ino)?;
    if old.sectors > 0 || old.kind() == Some(FileKind::Directory) {
        tx.writes_at_once(inodes::field(vol, number));
    }
    let mut new = old.clone();
    if old.has_blocks() {
        let reached = free::end(tx, vol, (ino, &mut new), 0)?;
        if reached > 0 {
            let links = inodes::links_field(vol, ino)?;
            if tx.is_guarded(links) {
                // While the disk has its name, it has its content.
                vol.need(ino, Need { field: links, why: Why::Link });
            }
            new.size = new.size.min(reached * vol.geometry.block_bytes() as u64);
            inodes::put(tx, vol, ino, &old, &new)?;
            return Ok(Progress::More);
        }
    }
    if old.kind() == Some(FileKind::Directory) {
        vol.names().drop_index(ino);
    }
    inode_alloc::free(tx, vol, number, &old)?;
    Ok(Progress::Done)
}

/// Frees space to which nothing on the disk leads.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn release(tx: &mut dyn Tx, vol: &mut Volume, pieces: &[Deferred]) -> Result<(), Stop> {
    for &piece in pieces {
        match Piece::from(piece) {
            Piece::Fragments { at, count } => {
                block::release(tx, vol, at, count)?;
                tx.freed(piece);
            }
            Piece::Inode { ino, directory } => {
                inode_alloc::release(tx, vol, ino, directory)?;
                tx.freed(piece);
            }
            Piece::Body { dir } => vol.settle(Ino::from(dir)),
            Piece::Name { dir } => vol.has_moved(Ino::from(dir)),
            Piece::Departure { dir, hash, serial } => {
                vol.has_left((Ino::from(dir), hash, serial));
            }
            Piece::Arrival { dir } => vol.has_arrived(Ino::from(dir)),
        }
    }
    Ok(())
}
