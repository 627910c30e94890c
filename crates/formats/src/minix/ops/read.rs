//! `read`: content of files; holes read as zeros.

use super::STEP_ZONES;
use crate::minix::inodes;
use crate::minix::ondisk::inode::Inode;
use crate::minix::space::map;
use crate::minix::volume::Volume;
use bytes::{Bytes, BytesMut};
use seekless_fs::call::Ino;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Reads from a place on, as much as one step may; short at the end of the file, where it returns
/// nothing, and after [`STEP_ZONES`], where the caller goes on.
///
/// # Errors
/// Those of [`inodes::file`] and [`map::address`].
pub fn read(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    at: u64,
    length: usize,
) -> Result<Bytes, Stop> {
    let (_, inode) = inodes::file(tx, vol, ino)?;
    let zone_bytes = vol.geometry.zone_bytes() as u64;
    let end = at.saturating_add(length as u64).min(u64::from(inode.size));
    if at >= end {
        return Ok(Bytes::new());
    }
    let end = end.min((at / zone_bytes + STEP_ZONES) * zone_bytes);
    let mut out = BytesMut::with_capacity((end - at) as usize);
    let mut from = at;
    while from < end {
        let index = from / zone_bytes;
        let within = (from % zone_bytes) as usize;
        let length = (zone_bytes - within as u64).min(end - from) as usize;
        let zone = map::address(tx, vol, &inode, index)?;
        if zone == 0 {
            out.resize(out.len() + length, 0);
        } else {
            let place = vol.geometry.place_of(zone).plus(within);
            let (first, sectors) = place.sectors(length);
            match tx.part(place.page, first, sectors, PageKind::Data) {
                Ok(part) => out.extend_from_slice(&part[place.at - first..][..length]),
                Err(stop) => {
                    expect(tx, vol, &inode, index + 1..end.div_ceil(zone_bytes));
                    return Err(stop);
                }
            }
        }
        from += length as u64;
    }
    Ok(out.freeze())
}

/// Notes that zones of a file will be wanted.
fn expect(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, zones: std::ops::Range<u64>) {
    for index in zones {
        let Ok(zone) = map::address(tx, vol, inode, index) else { return };
        if zone != 0 {
            tx.expect(vol.geometry.place_of(zone).page, PageKind::Data);
        }
    }
}
