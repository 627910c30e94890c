//! Inodes in their table: read one, and write back what an operation changed of it.

#[cfg(test)]
mod tests;

use crate::ffs::calls::piece::Piece;
use crate::ffs::ondisk::fields::u64_at;
use crate::ffs::ondisk::geometry::Place;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, offset};
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Attr, Errno, FileKind, Ino};
use seekless_fs::tx::{Field, Freed, Need, PageKind, Role, Stop, Tx, Why};
use smallvec::SmallVec;

/// Bytes of an address.
const ADDRESS: usize = 4;

/// Ranges of an inode's bytes that change apart from each other: what an operation has changed in
/// another one since it read the inode stays.
const RANGES: [(usize, usize); 6] = [
    (offset::MODE, offset::LINKS),
    (offset::LINKS, offset::UID),
    (offset::UID, offset::GENERATION),
    (offset::GENERATION, offset::SIZE),
    (offset::SIZE, offset::DIRECT),
    (offset::DIRECT, INODE_BYTES),
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

/// The bytes of an inode.
pub fn field(vol: &Volume, ino: u32) -> Field {
    part(vol, ino, 0, INODE_BYTES)
}

/// Some bytes of an inode.
pub fn part(vol: &Volume, ino: u32, at: usize, length: usize) -> Field {
    let place = vol.geometry.inode_place(ino);
    Field::new(place.block, place.at + at, length)
}

/// The link count of an inode.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode.
pub fn links_field(vol: &Volume, ino: Ino) -> Result<Field, Stop> {
    Ok(part(vol, vol.number(ino)?, offset::LINKS, 2))
}

/// The link count has become lower: the disk may show `old` until a name of a directory is gone.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode; those of [`Tx::page`].
pub fn lowered(
    tx: &mut dyn Tx,
    vol: &Volume,
    (ino, old): (Ino, u16),
    (dir, name): (Ino, Field),
) -> Result<(), Stop> {
    if planted(PlantedBug::LinkDroppedAtOnce) {
        return Ok(());
    }
    let mut needs: SmallVec<[Need; 2]> = SmallVec::new();
    needs.push(Need { field: name, why: Why::Removal });
    needs.extend(body(tx, vol, dir)?);
    tx.guard(&[(links_field(vol, ino)?, &old.to_le_bytes())], &needs, Role::Removes);
    Ok(())
}

/// What leads the disk to the names of a directory, if that may not be there yet.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode; those of [`Tx::page`].
pub fn body(tx: &mut dyn Tx, vol: &Volume, dir: Ino) -> Result<Option<Need>, Stop> {
    if !vol.is_unsettled(dir) || planted(PlantedBug::BodyLate) {
        return Ok(None);
    }
    let number = vol.number(dir)?;
    let place = vol.geometry.inode_place(number);
    let at = place.at % SECTOR_BYTES + offset::SIZE;
    let size: SmallVec<[u8; 8]> = SmallVec::from_slice(&sector(tx, place)?[at..at + 8]);
    // A write that is under way may be the one: there is another one after it.
    tx.set(place.block, place.at + offset::SIZE, &size);
    Ok(Some(Need { field: space(vol, number), why: Why::Body }))
}

/// Size and addresses of an inode, and what lies between them.
fn space(vol: &Volume, ino: u32) -> Field {
    part(vol, ino, offset::SIZE, INODE_BYTES - offset::SIZE)
}

/// A directory has become longer, or its tail has moved: until the disk knows, it has other names
/// there. The caller has written the inode back, or does so in this operation.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode.
pub fn body_changes(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino) -> Result<(), Stop> {
    let number = vol.number(dir)?;
    let what = Piece::Body { dir: number }.into();
    if tx.tell_later(Freed { what, after: space(vol, number), exact: false }) {
        vol.unsettle(dir);
    }
    Ok(())
}

/// Writes back what differs from the inode as it was read, field by field.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn put(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    old: &Inode,
    new: &Inode,
) -> Result<(), Stop> {
    if old == new {
        return Ok(());
    }
    let place = vol.geometry.inode_place(vol.number(ino)?);
    sector(tx, place)?;
    if old.sectors != new.sectors {
        vol.space_changes(ino);
    }
    match (old.links, new.links) {
        (1.., 0) => tx.orphaned(vol.number(ino)?),
        (0, 1..) => tx.adopted(vol.number(ino)?),
        _ => {}
    }
    let (was, is) = (old.encode(), new.encode());
    for (from, to) in RANGES {
        // Most fields are as they were.
        if was[from..to] == is[from..to] {
            continue;
        }
        let differ = |n: &usize| was[*n] != is[*n];
        let Some(first) = (from..to).find(differ) else { continue };
        let end = (from..to).rev().find(differ).map_or(to, |last| last + 1);
        tx.set(place.block, place.at + first, &is[first..end]);
    }
    if is_guarded(tx, vol, ino)? && (old.has_blocks() || new.has_blocks()) {
        guard(tx, vol, ino, &was, &is)?;
    }
    // What a sync without times needs of an inode.
    if old.size != new.size || old.direct != new.direct || old.indirect != new.indirect {
        tx.belongs(place.block, ino);
    }
    Ok(())
}

/// True if the policy orders changes of the space of an inode: it orders all, or the end of the
/// file moves or has moved.
fn is_guarded(tx: &dyn Tx, vol: &Volume, ino: Ino) -> Result<bool, Stop> {
    let field = space(vol, vol.number(ino)?);
    let moves = || vol.needs_moved(ino) || tx.is_guarded(field);
    Ok(tx.guards() || tx.guards_moves() && moves())
}

/// Fields of an inode from which it follows what space it has: they change together.
const SPACE: [(usize, usize); 4] = [
    (offset::FLAGS, offset::GENERATION),
    (offset::SIZE, offset::SECTORS),
    (offset::SECTORS, offset::ATIME),
    (offset::DIRECT, INODE_BYTES),
];

/// Keeps a change of the space of an inode from the disk until what it needs is there.
fn guard(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    was: &[u8; INODE_BYTES],
    is: &[u8; INODE_BYTES],
) -> Result<(), Stop> {
    let number = vol.number(ino)?;
    let needs = vol.take_needs(ino);
    let mut changes: SmallVec<[(Field, &[u8]); 4]> = SmallVec::new();
    for (from, to) in SPACE {
        // Addresses one by one: a later change of one of them supersedes its guard.
        let step = if from == offset::DIRECT { ADDRESS } else { to - from };
        // A block that comes later does not go before a size that covers it and is kept back.
        let always = !needs.is_empty() && (from == offset::SIZE || from == offset::SECTORS);
        for at in (from..to).step_by(step) {
            let range = at..(at + step).min(to);
            if always || was[range.clone()] != is[range.clone()] {
                changes.push((part(vol, number, at, range.len()), &was[range]));
            }
        }
    }
    // Of what a file had before, an empty one needs nothing.
    let is_empty = u64_at(is, offset::SIZE) == 0;
    tx.guard_moved(&changes, &needs, if is_empty { Role::Replaces } else { Role::Grows });
    Ok(())
}

/// Keeps size and space of a file on the disk as they are, whatever changes, until the disk has
/// what is needed.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode.
pub fn keep_space(
    tx: &mut dyn Tx,
    vol: &Volume,
    (ino, inode): (Ino, &Inode),
    needs: &[Need],
) -> Result<(), Stop> {
    let (number, bytes) = (vol.number(ino)?, inode.encode());
    let kept = [(offset::SIZE, offset::SECTORS), (offset::SECTORS, offset::ATIME)];
    let olds = kept.map(|(from, to)| (part(vol, number, from, to - from), &bytes[from..to]));
    tx.guard(&olds, needs, Role::Grows);
    Ok(())
}

/// Writes an inode as a whole: it is new, or free.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn init(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino, inode: &Inode) -> Result<(), Stop> {
    let number = vol.number(ino)?;
    let place = vol.geometry.inode_place(number);
    let at = place.at % SECTOR_BYTES;
    let mut old = [0; INODE_BYTES];
    old.copy_from_slice(&sector(tx, place)?[at..at + INODE_BYTES]);
    tx.set(place.block, place.at, &inode.encode());
    if is_guarded(tx, vol, ino)? {
        let needs = vol.take_needs(ino);
        tx.guard_moved(&[(field(vol, number), &old)], &needs, Role::Replaces);
    }
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
