//! `unlink`, `rmdir`, and giving up what has no names.

use super::Removed;
use super::attr::changed;
use crate::vlfs::ondisk::ObjectNr;
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::volume::Volume;
use crate::vlfs::{inodes, names, numbers};
use seekless_fs::call::{Errno, Ino, MOST_NAME};
use seekless_fs::tx::{Stop, Tx};

/// Removes a name of an object that is no directory.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::IsDir`], [`Errno::NotDir`]; those of [`names::find`].
pub fn unlink(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Removed, Stop> {
    let (above, mut new_dir) = inodes::directory(tx, vol, dir)?;
    let found = find(tx, vol, (above, &new_dir), name)?;
    let (object, old) = object_of(tx, vol, found)?;
    if old.is_directory() {
        return Err(Errno::IsDir.into());
    }
    let links = drop_links(tx, vol, (object, &old), 1)?;
    let entry = names::remove(tx, vol, above, name, found)?;
    changed(tx, &mut new_dir);
    inodes::put(tx, above, &new_dir)?;
    tx.writes_at_once(entry);
    Ok(Removed { ino: Ino::from(object), last: links == 0 })
}

fn find(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: names::Dir<'_>,
    name: &[u8],
) -> Result<names::Found, Stop> {
    if name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    Ok(names::find(tx, vol, dir, name)?.ok_or(Errno::NoEnt)?)
}

/// The object of a name. A name that leads nowhere is damage.
pub(super) fn object_of(
    tx: &mut dyn Tx,
    vol: &Volume,
    found: names::Found,
) -> Result<(ObjectNr, Inode), Stop> {
    inodes::get(tx, vol, Ino::from(found.object)).map_err(|stop| match stop {
        Stop::Refused(Errno::Stale) => Errno::Io.into(),
        stop => stop,
    })
}

/// Lowers the count of names of an object. A count that is too low is damage; it stays at 0. One
/// without names is noted as such: a crash may come before it is given up.
pub(super) fn drop_links(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (object, old): (ObjectNr, &Inode),
    by: u32,
) -> Result<u32, Stop> {
    let links = old.links.saturating_sub(by);
    if links == 0 {
        numbers::note_unnamed(tx, vol, object)?;
    }
    let new = Inode { links, ctime: tx.now(), ..*old };
    inodes::put(tx, object, &new)?;
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
    let found = find(tx, vol, (above, &new_dir), name)?;
    let (object, old) = object_of(tx, vol, found)?;
    if !old.is_directory() {
        return Err(Errno::NotDir.into());
    }
    // Damage may give a directory a name in itself.
    if object == above || !names::is_empty(tx, vol, (object, &old))? {
        return Err(Errno::NotEmpty.into());
    }
    drop_links(tx, vol, (object, &old), u32::MAX)?;
    let entry = names::remove(tx, vol, above, name, found)?;
    new_dir.links = new_dir.links.saturating_sub(1);
    changed(tx, &mut new_dir);
    inodes::put(tx, above, &new_dir)?;
    tx.writes_at_once(entry);
    Ok(Removed { ino: Ino::from(object), last: true })
}

/// Gives up an object that has no names: all of it in one step.
///
/// # Errors
/// [`Errno::Inval`] if it has names; [`Errno::Stale`]; those of [`Tx::page`].
pub fn reap(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<(), Stop> {
    let (object, inode) = inodes::get(tx, vol, ino)?;
    if inode.links > 0 {
        return Err(Errno::Inval.into());
    }
    numbers::give_back(tx, vol, object)?;
    inodes::give_up(tx, object);
    vol.forget(ino);
    vol.set_parent(object, None);
    Ok(())
}
