//! Attributes: `getattr`, `setattr` (but for the size), and texts of symbolic links.

use crate::vlfs::inodes;
use crate::vlfs::ondisk::attributes::{Inode, mode_of};
use crate::vlfs::ondisk::block_of;
use crate::vlfs::volume::Volume;
use bytes::Bytes;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{
    Attr, Credentials, Errno, FileKind, Ino, MOST_SYMLINK, SetAttr, Timestamp,
};
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
    let (object, inode) = inodes::get(tx, vol, ino)?;
    Ok(inodes::attr(object, &inode))
}

/// Changes attributes. The size is not among them: the caller runs
/// [`truncate`](super::truncate::truncate) first.
///
/// # Errors
/// [`Errno::Stale`]; those of [`Tx::page`].
pub fn set(tx: &mut dyn Tx, vol: &Volume, ino: Ino, set: &SetAttr) -> Result<Attr, Stop> {
    let (object, old) = inodes::get(tx, vol, ino)?;
    let mut new = old;
    if set.uid.is_some() || set.gid.is_some() {
        // A change of the owner takes the rights away that a program has by its owner. In a
        // directory these bits only say what new entries inherit.
        if !old.is_directory() {
            drop_privileges(&mut new);
        }
        new.uid = set.uid.unwrap_or(old.uid);
        new.gid = set.gid.unwrap_or(old.gid);
    }
    if let (Some(mode), Some(kind)) = (set.mode, old.kind()) {
        new.mode = mode_of(kind, mode);
    }
    new.atime = set.atime.unwrap_or(old.atime);
    new.mtime = set.mtime.unwrap_or(old.mtime);
    new.ctime = tx.now();
    inodes::put(tx, object, &new)?;
    tx.writes_at_once(inodes::field(object));
    Ok(inodes::attr(object, &new))
}

fn drop_privileges(inode: &mut Inode) {
    inode.mode &= !SET_UID;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !SET_GID;
    }
}

/// Content or names have changed: sets the times.
pub(super) fn changed(tx: &dyn Tx, inode: &mut Inode) {
    (inode.mtime, inode.ctime) = (tx.now(), tx.now());
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
pub fn touch(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(), Stop> {
    const DAY: Timestamp = 86_400_000_000_000;
    let (object, old) = inodes::get(tx, vol, ino)?;
    let now = tx.now();
    let is_old = old.atime <= old.mtime || old.atime <= old.ctime;
    if now == old.atime || (!is_old && now.saturating_sub(old.atime) < DAY) {
        return Ok(());
    }
    inodes::put(tx, object, &Inode { atime: now, ..old })
}

/// The text of a symbolic link.
///
/// # Errors
/// [`Errno::Inval`] if the object is none; [`Errno::Io`] for an impossible text; those of
/// [`Tx::page`].
pub fn read_link(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Bytes, Stop> {
    let (object, inode) = inodes::get(tx, vol, ino)?;
    if inode.kind() != Some(FileKind::Symlink) {
        return Err(Errno::Inval.into());
    }
    let length = usize::try_from(inode.size).unwrap_or(usize::MAX);
    if length == 0 || length > MOST_SYMLINK {
        return Err(Errno::Io.into());
    }
    let sectors = length.next_multiple_of(SECTOR_BYTES);
    let part = tx.part(block_of(object, 0), 0, sectors, PageKind::Data)?;
    Ok(Bytes::copy_from_slice(&part[..length]))
}
