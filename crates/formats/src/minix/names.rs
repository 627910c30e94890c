//! Directories: entries of 64 bytes, one behind the other, in no order.
//!
//! A removed name leaves a free entry, which the next name takes. Directories do not shrink, and
//! entries do not move, so the offset of an entry is a cookie for lists. A zone that is missing
//! reads as free entries.

use super::inodes::{edit, outer};
use super::ondisk::entry::{self, ENTRY_BYTES, NAME_BYTES, NUMBER_BYTES};
use super::ondisk::geometry::Place;
use super::ondisk::inode::Inode;
use super::space::map;
use super::volume::Volume;
use seekless_fs::call::Errno;
use seekless_fs::tx::{PageKind, Stop, Tx};
use std::ops::ControlFlow;

/// Zones of a directory at most: a search reads them all, and must come to its end.
pub const MOST_ZONES: u64 = 1024;
/// Pages of a directory that are read together.
const AHEAD: u64 = 128;

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its offset in the directory.
    pub at: u64,
    /// The number in the table of what it leads to.
    pub number: u32,
}

/// What a search of a directory has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The entry of the name.
    pub found: Option<Found>,
    /// The offset of a free entry.
    pub room: Option<u64>,
}

/// Bytes of the entries of a directory.
fn bytes_of(inode: &Inode) -> u64 {
    u64::from(inode.size) / ENTRY_BYTES as u64 * ENTRY_BYTES as u64
}

/// Shows the entries from an offset on, free ones with number 0, until `visit` breaks off or so
/// many zones have been read. Gives the offset behind the last entry that was shown.
///
/// # Errors
/// [`Errno::FBig`] for a directory of more than [`MOST_ZONES`]; those of [`map::address`].
pub fn scan(
    tx: &mut dyn Tx,
    vol: &Volume,
    inode: &Inode,
    from: u64,
    most_zones: u64,
    mut visit: impl FnMut(Found, &[u8]) -> ControlFlow<()>,
) -> Result<u64, Stop> {
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let end = bytes_of(inode);
    if end > MOST_ZONES * zone_bytes {
        return Err(Errno::FBig.into());
    }
    let mut at = from;
    let last = (from / zone_bytes).saturating_add(most_zones).saturating_mul(zone_bytes);
    while at < end.min(last) {
        let index = at / zone_bytes;
        let until = ((index + 1) * zone_bytes).min(end);
        let zone = map::address(tx, vol, inode, index)?;
        if zone == 0 {
            at = until;
            continue;
        }
        let place = vol.geometry.place_of(zone);
        let bytes = match tx.part(place.page, place.at, zone_bytes as usize, PageKind::Directory) {
            Ok(bytes) => bytes,
            Err(stop) => {
                expect(tx, vol, inode, index + 1..end.min(last).div_ceil(zone_bytes));
                return Err(stop);
            }
        };
        let first = (at % zone_bytes) as usize / ENTRY_BYTES;
        let entries = bytes.chunks_exact(ENTRY_BYTES).skip(first);
        for (bytes, offset) in entries.zip((at..until).step_by(ENTRY_BYTES)) {
            let found = Found { at: offset, number: entry::number(bytes) };
            at = offset + ENTRY_BYTES as u64;
            if visit(found, entry::name(bytes)).is_break() {
                return Ok(at);
            }
        }
    }
    Ok(at)
}

/// Notes that zones of a directory will be wanted.
fn expect(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, zones: std::ops::Range<u64>) {
    let mut last = None;
    for index in zones.start..zones.end.min(zones.start + AHEAD) {
        let Ok(zone) = map::address(tx, vol, inode, index) else { return };
        let page = vol.geometry.place_of(zone).page;
        if zone != 0 && last != Some(page) {
            tx.expect(page, PageKind::Directory);
            last = Some(page);
        }
    }
}

/// Looks for a name, and for a free entry. The first two entries are `.` and `..`, whatever they
/// hold.
///
/// # Errors
/// [`Errno::NameTooLong`], as in the kernel; those of [`scan`].
pub fn find(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, name: &[u8]) -> Result<Search, Stop> {
    if name.len() > NAME_BYTES {
        return Err(Errno::NameTooLong.into());
    }
    let mut search = Search::default();
    scan(tx, vol, inode, 0, MOST_ZONES, |found, own| {
        if found.number == 0 {
            if found.at >= 2 * ENTRY_BYTES as u64 {
                search.room.get_or_insert(found.at);
            }
        } else if own == name {
            search.found = Some(found);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    search.found = search.found.filter(|found| found.number <= vol.geometry.inodes());
    Ok(search)
}

/// The number of the directory above one.
///
/// # Errors
/// [`Errno::Io`] if `..` leads nowhere; those of [`scan`].
pub fn parent(tx: &mut dyn Tx, vol: &Volume, inode: &Inode) -> Result<u32, Stop> {
    let mut parent = 0;
    scan(tx, vol, inode, ENTRY_BYTES as u64, 1, |found, name| {
        if name == b".." {
            parent = found.number;
        }
        ControlFlow::Break(())
    })?;
    match (1..=vol.geometry.inodes()).contains(&parent) {
        true => Ok(parent),
        false => Err(Errno::Io.into()),
    }
}

/// True if a directory has no entries but `.` and `..`.
///
/// # Errors
/// Those of [`scan`].
pub fn is_empty(tx: &mut dyn Tx, vol: &Volume, inode: &Inode) -> Result<bool, Stop> {
    let mut is_empty = true;
    scan(tx, vol, inode, 2 * ENTRY_BYTES as u64, MOST_ZONES, |found, _| {
        is_empty = found.number == 0;
        if is_empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(is_empty)
}

/// The place of an entry that exists.
fn place_of(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, at: u64) -> Result<Place, Stop> {
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    match map::address(tx, vol, inode, at / zone_bytes)? {
        0 => Err(Errno::Io.into()),
        zone => Ok(vol.geometry.place_of(zone).plus((at % zone_bytes) as usize)),
    }
}

/// Adds a name where a search has found room, or behind the last one. The inode of the directory
/// may grow; it is not stored.
///
/// # Errors
/// [`Errno::NoSpc`] if the directory is as long as it may be; [`Stop::NoRoom`]; those of
/// [`map::address`].
pub fn add(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, inode): (u32, &mut Inode),
    room: Option<u64>,
    (name, number): (&[u8], u32),
) -> Result<(), Stop> {
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let at = room.unwrap_or_else(|| bytes_of(inode).max(2 * ENTRY_BYTES as u64));
    let end = at + ENTRY_BYTES as u64;
    if end > (MOST_ZONES * zone_bytes).min(vol.geometry.most_file_bytes()) {
        return Err(Errno::NoSpc.into());
    }
    let kind = PageKind::Directory;
    let (zone, _) = map::ensure(tx, vol, (dir, inode), at / zone_bytes, kind)?;
    let place = vol.geometry.place_of(zone).plus((at % zone_bytes) as usize);
    edit(tx, place, &entry::encode(number, name), kind)?;
    tx.belongs(place.page, outer(dir));
    inode.size = inode.size.max(end as u32);
    Ok(())
}

/// Makes an entry lead to another object; 0 frees it.
///
/// # Errors
/// Those of [`map::address`].
pub fn set(
    tx: &mut dyn Tx,
    vol: &Volume,
    (dir, inode): (u32, &Inode),
    at: u64,
    number: u32,
) -> Result<(), Stop> {
    let place = place_of(tx, vol, inode, at)?;
    let bytes: [u8; NUMBER_BYTES] = number.to_le_bytes();
    edit(tx, place, &bytes, PageKind::Directory)?;
    tx.belongs(place.page, outer(dir));
    Ok(())
}

/// Makes `..` lead to another directory.
///
/// # Errors
/// Those of [`map::address`].
pub fn set_parent(
    tx: &mut dyn Tx,
    vol: &Volume,
    (dir, inode): (u32, &Inode),
    parent: u32,
) -> Result<(), Stop> {
    set(tx, vol, (dir, inode), ENTRY_BYTES as u64, parent)
}
