//! Inodes in their table: numbers, reading, storing, allocating.
//!
//! Calls name the root by 2, and the format by 1. So calls and the format exchange these two
//! numbers, as the bridge to FUSE does again: programs see the numbers that are on the disk.

use super::ondisk::geometry::{ADDRESS_BYTES, Geometry, Place};
use super::ondisk::inode::{INODE_BYTES, Inode, timestamp};
use super::space::bits;
use super::volume::{Volume, Which};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Attr, Errno, FileKind, Ino, ROOT};
use seekless_fs::tx::{Field, PageKind, Stop, Tx};

/// Offset of the addresses in an inode.
const ADDRESSES: usize = 24;

fn swap(number: u64) -> u64 {
    match number {
        1 => ROOT,
        ROOT => 1,
        other => other,
    }
}

/// The number by which calls know an inode.
pub fn outer(number: u32) -> Ino {
    swap(u64::from(number))
}

/// The number in the table of an inode that calls name; none if there is no such number.
pub fn number_of(geometry: &Geometry, ino: Ino) -> Option<u32> {
    u32::try_from(swap(ino)).ok().filter(|number| (1..=geometry.inodes()).contains(number))
}

/// The same for an operation.
///
/// # Errors
/// [`Errno::Stale`].
pub fn number(vol: &Volume, ino: Ino) -> Result<u32, Stop> {
    number_of(&vol.geometry, ino).ok_or(Errno::Stale.into())
}

/// Changes bytes of one page that may not have been read yet.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn edit(tx: &mut dyn Tx, place: Place, bytes: &[u8], kind: PageKind) -> Result<(), Stop> {
    let (first, length) = place.sectors(bytes.len());
    tx.part(place.page, first, length, kind)?;
    tx.set(place.page, place.at, bytes);
    Ok(())
}

/// The bytes of an address in an inode.
pub fn address_field(geometry: &Geometry, number: u32, slot: usize) -> Field {
    geometry.inode_place(number).plus(ADDRESSES + slot * ADDRESS_BYTES).field(ADDRESS_BYTES)
}

/// The inode of a number of the table, whatever it holds.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn raw(tx: &mut dyn Tx, vol: &Volume, number: u32) -> Result<Inode, Stop> {
    let place = vol.geometry.inode_place(number);
    let first = place.at / SECTOR_BYTES * SECTOR_BYTES;
    let sector = tx.part(place.page, first, SECTOR_BYTES, PageKind::Inodes)?;
    Ok(Inode::decode(&sector[place.at - first..place.at - first + INODE_BYTES]))
}

/// An inode that is in use, and its number in the table.
///
/// # Errors
/// [`Errno::Stale`] if it is free; those of [`Tx::page`].
pub fn get(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(u32, Inode), Stop> {
    let number = number(vol, ino)?;
    let inode = raw(tx, vol, number)?;
    match inode.kind() {
        Some(_) => Ok((number, inode)),
        None => Err(Errno::Stale.into()),
    }
}

/// The inode of a directory.
///
/// # Errors
/// [`Errno::NotDir`]; those of [`get`].
pub fn directory(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(u32, Inode), Stop> {
    let (number, inode) = get(tx, vol, ino)?;
    if inode.is_directory() { Ok((number, inode)) } else { Err(Errno::NotDir.into()) }
}

/// The inode of a file.
///
/// # Errors
/// [`Errno::IsDir`], [`Errno::Inval`]; those of [`get`].
pub fn file(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(u32, Inode), Stop> {
    let (number, inode) = get(tx, vol, ino)?;
    match inode.kind() {
        Some(FileKind::File) => Ok((number, inode)),
        Some(FileKind::Directory) => Err(Errno::IsDir.into()),
        _ => Err(Errno::Inval.into()),
    }
}

/// Stores an inode.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn put(tx: &mut dyn Tx, vol: &Volume, number: u32, inode: &Inode) -> Result<(), Stop> {
    let place = vol.geometry.inode_place(number);
    edit(tx, place, &inode.encode(), PageKind::Inodes)?;
    tx.belongs(place.page, outer(number));
    Ok(())
}

/// Allocates the next number that is free. Numbers come round late, because nothing on the disk
/// tells two objects apart that had the same one.
///
/// # Errors
/// [`Stop::NoRoom`] if there is none; those of [`Tx::page`].
pub fn allocate(tx: &mut dyn Tx, vol: &mut Volume) -> Result<u32, Stop> {
    let from = vol.rotor(Which::Inodes);
    let number = bits::find(tx, vol, Which::Inodes, from)?.ok_or(Stop::NoRoom)?;
    bits::set(tx, vol, Which::Inodes, number, true)?;
    bits::count(vol, Which::Inodes, number, -1);
    vol.set_rotor(Which::Inodes, number + 1);
    Ok(number)
}

/// Frees an inode that has no zones and no names.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free(tx: &mut dyn Tx, vol: &mut Volume, number: u32) -> Result<(), Stop> {
    put(tx, vol, number, &Inode::default())?;
    if bits::is_closed(vol, Which::Inodes, number) {
        return Ok(());
    }
    if bits::set(tx, vol, Which::Inodes, number, false)? {
        bits::count(vol, Which::Inodes, number, 1);
    } else {
        vol.meets(format!("inode {number} is in use and marked as free"));
    }
    Ok(())
}

/// The attributes of an object. The format has no time of creation, and no count of blocks: like
/// the kernel, it reports what the size takes without holes.
pub fn attr(geometry: &Geometry, number: u32, inode: &Inode) -> Attr {
    let zones = if inode.has_zones() { geometry.full_zones(u64::from(inode.size)) } else { 0 };
    Attr {
        ino: outer(number),
        generation: 1,
        kind: inode.kind().unwrap_or(FileKind::File),
        mode: inode.mode & 0o7777,
        links: u32::from(inode.links),
        uid: u32::from(inode.uid),
        gid: u32::from(inode.gid),
        size: u64::from(inode.size),
        sectors: zones * (geometry.zone_bytes() / SECTOR_BYTES) as u64,
        device: inode.device(),
        atime: timestamp(inode.atime),
        mtime: timestamp(inode.mtime),
        ctime: timestamp(inode.ctime),
        btime: 0,
    }
}
