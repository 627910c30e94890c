//! Attributes: `getattr`, `setattr` (but for the size), and texts of symbolic links.

use crate::ffs::inodes;
use crate::ffs::ondisk::inode::{Inode, SHORT_SYMLINK, TYPE_MASK};
use crate::ffs::space::map;
use crate::ffs::volume::Volume;
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
    Ok(inodes::attr(ino, &inodes::get(tx, vol, ino)?))
}

/// Changes attributes. The size is not among them: the caller runs
/// [`truncate`](super::truncate::truncate) first.
///
/// # Errors
/// [`Errno::Stale`]; those of [`Tx::page`].
pub fn set(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino, set: &SetAttr) -> Result<Attr, Stop> {
    let old = inodes::get(tx, vol, ino)?;
    if *set == (SetAttr { handle: set.handle, ..SetAttr::default() }) {
        return Ok(inodes::attr(ino, &old));
    }
    let mut new = old.clone();
    if set.uid.is_some() || set.gid.is_some() {
        // A change of the owner takes the rights away that a program has by its owner. In a
        // directory these bits only say what new entries inherit.
        if old.kind() != Some(FileKind::Directory) {
            drop_privileges(&mut new);
        }
        new.uid = set.uid.unwrap_or(old.uid);
        new.gid = set.gid.unwrap_or(old.gid);
    }
    if let Some(mode) = set.mode {
        new.mode = (old.mode & TYPE_MASK) | (mode & 0o7777);
    }
    new.atime = set.atime.unwrap_or(old.atime);
    new.mtime = set.mtime.unwrap_or(old.mtime);
    new.ctime = tx.now();
    inodes::put(tx, vol, ino, &old, &new)?;
    if set.atime.or(set.mtime).is_some() {
        tx.writes_at_once(inodes::field(vol, vol.number(ino)?));
    }
    Ok(inodes::attr(ino, &new))
}

fn drop_privileges(inode: &mut Inode) {
    inode.mode &= !SET_UID;
    if inode.mode & 0o010 != 0 {
        inode.mode &= !SET_GID;
    }
}

/// After a change of content: sets the times, and drops set-user-id and set-group-id unless root
/// made the change.
pub(super) fn content_changed(tx: &dyn Tx, inode: &mut Inode, who: Credentials) {
    inode.mtime = tx.now();
    inode.ctime = tx.now();
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
    const DAY: i64 = 86_400_000_000_000;
    let old = inodes::get(tx, vol, ino)?;
    let now = tx.now();
    let is_old = old.atime <= old.mtime || old.atime <= old.ctime;
    if !is_old && now.saturating_sub(old.atime) < DAY {
        return Ok(());
    }
    let new = Inode { atime: now, ..old.clone() };
    inodes::put(tx, vol, ino, &old, &new)
}

/// The text of a symbolic link.
///
/// # Errors
/// [`Errno::Inval`] if the object is none; those of [`Tx::page`].
pub fn read_link(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Bytes, Stop> {
    let inode = inodes::get(tx, vol, ino)?;
    if inode.kind() != Some(FileKind::Symlink) {
        return Err(Errno::Inval.into());
    }
    if inode.size <= SHORT_SYMLINK as u64 {
        return Ok(Bytes::from(inode.short_text()));
    }
    let length = inode.size as usize;
    let at = map::address(tx, vol, &inode, 0)?;
    let place = vol.geometry.place_of(at);
    if at == 0 || place.at + length > vol.geometry.block_bytes() {
        return Err(Errno::Io.into());
    }
    let sectors = length.next_multiple_of(SECTOR_BYTES);
    let part = tx.part(place.block, place.at, sectors, PageKind::Data)?;
    Ok(Bytes::copy_from_slice(&part[..length]))
}
