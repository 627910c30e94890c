//! Attributes: `getattr`, `setattr` (but for the size), and texts of symbolic links.

use crate::minix::inodes;
use crate::minix::ondisk::inode::{Inode, KIND_MASK, seconds};
use crate::minix::space::map;
use crate::minix::volume::Volume;
use bytes::Bytes;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Attr, Credentials, Errno, FileKind, Ino, SetAttr};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// The set-user-id bit.
const SET_UID: u16 = 0o4000;
/// The set-group-id bit.
pub(super) const SET_GID: u16 = 0o2000;

/// The attributes of an object.
///
/// # Errors
/// [`Errno::Stale`]; those of [`Tx::page`].
pub fn get(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Attr, Stop> {
    let (number, inode) = inodes::get(tx, vol, ino)?;
    Ok(inodes::attr(&vol.geometry, number, &inode))
}

/// An owner or a group, of which the format has 16 bits.
///
/// # Errors
/// [`Errno::Inval`] for one that is larger.
pub(super) fn owner(id: u32) -> Result<u16, Errno> {
    u16::try_from(id).map_err(|_| Errno::Inval)
}

/// Changes attributes. The size is not among them: the caller runs
/// [`truncate`](super::truncate::truncate) first.
///
/// # Errors
/// [`Errno::Inval`] for an owner above 65,535; [`Errno::Stale`]; those of [`Tx::page`].
pub fn set(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino, set: &SetAttr) -> Result<Attr, Stop> {
    let (number, old) = inodes::get(tx, vol, ino)?;
    let mut new = old.clone();
    if set.uid.is_some() || set.gid.is_some() {
        // A change of the owner takes the rights away that a program has by its owner. In a
        // directory these bits only say what new entries inherit.
        if !old.is_directory() {
            drop_privileges(&mut new);
        }
        new.uid = set.uid.map_or(Ok(old.uid), owner)?;
        new.gid = set.gid.map_or(Ok(old.gid), owner)?;
    }
    if let Some(mode) = set.mode {
        new.mode = (old.mode & KIND_MASK) | (mode & 0o7777);
    }
    new.atime = set.atime.map_or(old.atime, seconds);
    new.mtime = set.mtime.map_or(old.mtime, seconds);
    new.ctime = seconds(tx.now());
    inodes::put(tx, vol, number, &new)?;
    Ok(inodes::attr(&vol.geometry, number, &new))
}

fn drop_privileges(inode: &mut Inode) {
    inode.mode &= !SET_UID;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !SET_GID;
    }
}

/// Content or names have changed: sets the times.
pub(super) fn changed(tx: &dyn Tx, inode: &mut Inode) {
    (inode.mtime, inode.ctime) = (seconds(tx.now()), seconds(tx.now()));
}

/// After a change of content: sets the times, and drops set-user-id and set-group-id unless root
/// made the change.
pub(super) fn content_changed(tx: &dyn Tx, inode: &mut Inode, who: Credentials) {
    changed(tx, inode);
    if who.uid != 0 {
        drop_privileges(inode);
    }
}

/// Notes a read of the object: the time of access follows if it is older than that of the last
/// change, or by a day.
///
/// # Errors
/// [`Errno::Stale`]; those of [`Tx::page`].
pub fn touch(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<(), Stop> {
    const DAY: u32 = 86_400;
    let (number, old) = inodes::get(tx, vol, ino)?;
    let now = seconds(tx.now());
    let is_old = old.atime <= old.mtime || old.atime <= old.ctime;
    if now == old.atime || (!is_old && now.saturating_sub(old.atime) < DAY) {
        return Ok(());
    }
    inodes::put(tx, vol, number, &Inode { atime: now, ..old })
}

/// The text of a symbolic link.
///
/// # Errors
/// [`Errno::Inval`] if the object is none; [`Errno::Io`] for an impossible text; those of
/// [`Tx::page`].
pub fn read_link(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Bytes, Stop> {
    let (_, inode) = inodes::get(tx, vol, ino)?;
    if inode.kind() != Some(FileKind::Symlink) {
        return Err(Errno::Inval.into());
    }
    let length = inode.size as usize;
    let zone = map::address(tx, vol, &inode, 0)?;
    if zone == 0 || length > vol.geometry.zone_bytes() {
        return Err(Errno::Io.into());
    }
    let place = vol.geometry.place_of(zone);
    let sectors = length.next_multiple_of(SECTOR_BYTES);
    let part = tx.part(place.page, place.at, sectors, PageKind::Data)?;
    Ok(Bytes::copy_from_slice(&part[..length]))
}

/// Refuses owners that the format cannot hold.
///
/// # Errors
/// [`Errno::Inval`].
pub fn check_owners(set: &SetAttr) -> Result<(), Errno> {
    [set.uid, set.gid].into_iter().flatten().try_for_each(|id| owner(id).map(drop))
}
