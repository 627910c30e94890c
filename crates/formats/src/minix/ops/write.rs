//! `write`: content of files, in steps; holes arise where nothing was written.

use super::STEP_ZONES;
use super::attr::content_changed;
use super::truncate::clear_end;
use crate::minix::inodes::{self, edit, outer};
use crate::minix::ondisk::inode::Inode;
use crate::minix::space::map;
use crate::minix::volume::{Volume, Which};
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{Field, PageKind, Stop, Tx};

/// What a step of a write has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it began: what `append` has led to.
    pub at: u64,
    /// Bytes written; the caller goes on behind them.
    pub bytes: usize,
}

/// Writes at a place, or behind the end, as much as one step may ([`STEP_ZONES`]). The caller goes
/// on with the rest, without `append`, at `at + bytes`.
///
/// # Errors
/// [`Errno::FBig`], [`Errno::IsDir`], [`Errno::Inval`], [`Errno::Stale`]; [`Stop::NoRoom`]; those
/// of [`map::address`].
pub fn write(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    (at, append): (u64, bool),
    data: &[u8],
) -> Result<Written, Stop> {
    let (number, mut inode) = inodes::file(tx, vol, ino)?;
    let at = if append { u64::from(inode.size) } else { at };
    if data.is_empty() {
        return Ok(Written { at, bytes: 0 });
    }
    let end = at.checked_add(data.len() as u64).ok_or(Errno::FBig)?;
    let most = vol.geometry.most_file_bytes();
    if at >= most {
        return Err(Errno::FBig.into());
    }
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let end = end.min(most).min((at / zone_bytes + step_zones(vol)) * zone_bytes);
    if end > u64::from(inode.size) {
        clear_end(tx, vol, (number, &inode))?;
    }
    let bytes = (end - at) as usize;
    for index in at / zone_bytes..end.div_ceil(zone_bytes) {
        let from = at.max(index * zone_bytes);
        let until = end.min((index + 1) * zone_bytes);
        let data = &data[(from - at) as usize..(until - at) as usize];
        one_zone(tx, vol, (number, &mut inode), from, data)?;
    }
    inode.size = inode.size.max(end as u32);
    content_changed(tx, &mut inode, who);
    inodes::put(tx, vol, number, &inode)?;
    Ok(Written { at, bytes })
}

/// Zones of a step: one where space is short, so that a write takes what there is.
fn step_zones(vol: &Volume) -> u64 {
    // Up to three indirect zones come on top of each way, and a step has two at most.
    if vol.free(Which::Zones) < STEP_ZONES + 6 { 1 } else { STEP_ZONES }
}

/// Writes bytes of one zone of a file.
fn one_zone(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    from: u64,
    data: &[u8],
) -> Result<(), Stop> {
    let zone_bytes = vol.geometry.zone_bytes();
    let kind = PageKind::Data;
    let index = from / zone_bytes as u64;
    let (zone, is_new) = map::ensure(tx, vol, (number, inode), index, kind)?;
    let whole = vol.geometry.place_of(zone);
    let place = whole.plus((from % zone_bytes as u64) as usize);
    if !is_new && data.len() == zone_bytes {
        // Nothing of what it held is read.
        tx.fresh(whole.page, kind, whole.at, zone_bytes);
    }
    edit(tx, place, data, kind)?;
    tx.belongs(place.page, outer(number));
    if is_new {
        tx.content(vol.geometry.field_of(zone), false);
    } else if from + data.len() as u64 > u64::from(inode.size) {
        // The size covers nothing that was not written.
        tx.content(Field::new(place.page, place.at, data.len()), false);
    }
    Ok(())
}
