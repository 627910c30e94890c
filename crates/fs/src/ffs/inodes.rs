//! Inodes in their table: read one, and write back what an operation changed of it.

use crate::call::{Attr, Errno, FileKind, Ino};
use crate::ffs::geometry::Place;
use crate::ffs::inode::{INODE_BYTES, Inode, offset};
use crate::ffs::volume::Volume;
use crate::tx::{Change, PageKind, Stop, Tx};
use seekless_engine::units::SECTOR_BYTES;

/// A range of an inode's bytes, and what a change of it means.
type Field = (usize, usize, fn(Ino) -> Change);

/// What each range of an inode's bytes means to the policy that orders writes.
const FIELDS: [Field; 5] = [
    (offset::MODE, offset::LINKS, Change::Inode),
    (offset::LINKS, offset::UID, Change::Links),
    (offset::UID, offset::GENERATION, |_| Change::Plain),
    (offset::GENERATION, offset::SIZE, Change::Inode),
    (offset::SIZE, offset::DIRECT, |_| Change::Plain),
];

/// The sector that holds an inode. A damaged one costs its own inodes, not those of the block.
fn sector(tx: &mut dyn Tx, place: Place) -> Result<&[u8], Stop> {
    let first = place.at / SECTOR_BYTES * SECTOR_BYTES;
    tx.part(place.block, first, SECTOR_BYTES, PageKind::Inodes)
}

/// An inode, used or free.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn raw(tx: &mut dyn Tx, vol: &Volume, ino: u32) -> Result<Inode, Stop> {
    let group = vol.geometry.group_of_inode(ino);
    if ino % vol.geometry.sizes().inodes_per_group >= vol.group(group).initialised {
        return Ok(Inode::default());
    }
    let place = vol.geometry.inode_place(ino);
    let at = place.at % SECTOR_BYTES;
    Ok(Inode::decode(&sector(tx, place)?[at..at + INODE_BYTES]))
}

/// The inode of an object.
///
/// # Errors
/// [`Errno::Stale`] if there is no such object, [`Errno::Io`] if it is damaged; those
/// of [`Tx::page`].
pub fn get(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Inode, Stop> {
    let inode = raw(tx, vol, vol.number(ino)?)?;
    if inode.kind().is_none() {
        return Err(Errno::Stale.into());
    }
    if inode.has_blocks() && inode.size > vol.geometry.most_file_bytes() {
        return Err(Errno::Io.into());
    }
    Ok(inode)
}

/// The inode of a directory that has names.
///
/// # Errors
/// [`Errno::NotDir`]; [`Errno::NoEnt`] if it was removed; those of [`get`].
pub fn directory(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Inode, Stop> {
    let inode = get(tx, vol, ino)?;
    match inode.kind() {
        Some(FileKind::Directory) if inode.links == 0 => Err(Errno::NoEnt.into()),
        Some(FileKind::Directory) => Ok(inode),
        _ => Err(Errno::NotDir.into()),
    }
}

/// The inode of a regular file.
///
/// # Errors
/// [`Errno::IsDir`], [`Errno::Inval`] for other kinds; those of [`get`].
pub fn file(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<Inode, Stop> {
    let inode = get(tx, vol, ino)?;
    match inode.kind() {
        Some(FileKind::File) => Ok(inode),
        Some(FileKind::Directory) => Err(Errno::IsDir.into()),
        _ => Err(Errno::Inval.into()),
    }
}

/// Writes back what differs from the inode as it was read, field by field.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn put(tx: &mut dyn Tx, vol: &Volume, ino: Ino, old: &Inode, new: &Inode) -> Result<(), Stop> {
    if old == new {
        return Ok(());
    }
    let place = vol.geometry.inode_place(vol.number(ino)?);
    sector(tx, place)?;
    let (was, is) = (old.encode(), new.encode());
    let addresses: fn(Ino) -> Change =
        if new.has_blocks() || old.has_blocks() { Change::Pointer } else { Change::Inode };
    let all = FIELDS.into_iter().chain([(offset::DIRECT, INODE_BYTES, addresses)]);
    for (from, to, change) in all {
        let differ = |n: &usize| was[*n] != is[*n];
        let Some(first) = (from..to).find(differ) else { continue };
        let end = (from..to).rev().find(differ).map_or(to, |last| last + 1);
        tx.set(place.block, place.at + first, &is[first..end], change(ino));
    }
    // What a sync without times needs of an inode.
    if old.size != new.size || old.direct != new.direct || old.indirect != new.indirect {
        tx.belongs(place.block, ino);
    }
    Ok(())
}

/// Writes an inode as a whole: it is new.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn init(tx: &mut dyn Tx, vol: &Volume, ino: Ino, inode: &Inode) -> Result<(), Stop> {
    let place = vol.geometry.inode_place(vol.number(ino)?);
    sector(tx, place)?;
    tx.set(place.block, place.at, &inode.encode(), Change::Inode(ino));
    Ok(())
}

/// The attributes of an object.
pub fn attr(ino: Ino, inode: &Inode) -> Attr {
    let kind = inode.kind().unwrap_or(FileKind::File);
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    Attr {
        ino,
        generation: inode.generation,
        kind,
        mode: inode.mode & 0o7777,
        links: u32::from(inode.links),
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        sectors: u64::from(inode.sectors),
        device: if is_device { inode.device() } else { 0 },
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
    }
}
