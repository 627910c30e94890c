//! Bits of the two maps: one for each inode, and one for each zone of data.

use crate::minix::ondisk::geometry::{Geometry, Map, Place};
use crate::minix::volume::{Volume, Which};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// The map of this name.
fn map_of(geometry: &Geometry, which: Which) -> Map {
    match which {
        Which::Inodes => geometry.imap(),
        Which::Zones => geometry.zmap(),
    }
}

/// The byte of a bit, and the bit in it.
fn place_of(geometry: &Geometry, which: Which, bit: u32) -> (Place, u8) {
    let map = map_of(geometry, which);
    let within = bit % map.zone_bits;
    let place = geometry.place_of(map.first + bit / map.zone_bits);
    (place.plus(within as usize / 8), 1 << (within % 8))
}

/// The zone of a map that has a bit, as [`Volume::free_in`] counts them.
fn zone_of(geometry: &Geometry, which: Which, bit: u32) -> (Which, u32) {
    (which, bit / map_of(geometry, which).zone_bits)
}

/// True if the page that has a bit cannot be read: what it says is not known.
pub fn is_closed(vol: &Volume, which: Which, bit: u32) -> bool {
    vol.is_closed(place_of(&vol.geometry, which, bit).0.page)
}

/// Free bits of a zone of a map that was read.
pub fn count_free(map: &Map, index: u32, bytes: &[u8]) -> u32 {
    let first = index * map.zone_bits;
    let end = (map.bits - first).min(map.zone_bits);
    let is_free = |bit: &u32| (first > 0 || *bit > 0) && is_clear(bytes, *bit);
    (0..end).filter(is_free).count() as u32
}

fn is_clear(bytes: &[u8], bit: u32) -> bool {
    bytes[bit as usize / 8] >> (bit % 8) & 1 == 0
}

/// Marks what a bit stands for as in use or as free. False if that is what it says already: the
/// maps contradict what leads to it.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn set(
    tx: &mut dyn Tx,
    vol: &Volume,
    which: Which,
    bit: u32,
    used: bool,
) -> Result<bool, Stop> {
    let (place, mask) = place_of(&vol.geometry, which, bit);
    let (first, length) = place.sectors(1);
    let sector = tx.part(place.page, first, length, PageKind::Bitmap)?;
    let byte = sector[place.at - first];
    if (byte & mask != 0) == used {
        return Ok(false);
    }
    tx.set(place.page, place.at, &[byte ^ mask]);
    Ok(true)
}

/// The count of free bits beside a bit becomes larger or smaller by one.
pub fn count(vol: &mut Volume, which: Which, bit: u32, by: i32) {
    vol.change_free(zone_of(&vol.geometry, which, bit), by);
}

/// The first free bit from `from` on, then from the start of the map on; none if there is none.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn find(tx: &mut dyn Tx, vol: &Volume, which: Which, from: u32) -> Result<Option<u32>, Stop> {
    let map = map_of(&vol.geometry, which);
    let from = if from < map.bits { from } else { 0 };
    let (first, zones) = (from / map.zone_bits, map.zones());
    for step in 0..=zones {
        let index = (first + step) % zones;
        let place = vol.geometry.place_of(map.first + index);
        if vol.free_in((which, index)) == 0 || vol.is_closed(place.page) {
            continue;
        }
        let length = vol.geometry.zone_bytes();
        let bytes = tx.part(place.page, place.at, length, PageKind::Bitmap)?;
        let base = index * map.zone_bits;
        let end = (map.bits - base).min(map.zone_bits);
        let start = if step == 0 { from - base } else { 0 };
        if let Some(bit) = find_in(vol, (which, base), start..end, bytes) {
            return Ok(Some(bit));
        }
    }
    Ok(None)
}

/// The first free bit of some bits of a zone of a map.
fn find_in(
    vol: &Volume,
    (which, base): (Which, u32),
    bits: std::ops::Range<u32>,
    bytes: &[u8],
) -> Option<u32> {
    let mut bit = bits.start;
    while bit < bits.end {
        if bit.is_multiple_of(8) && bytes[bit as usize / 8] == 0xff {
            bit += 8;
            continue;
        }
        let number = base + bit;
        let is_held = || which == Which::Zones && vol.is_held(vol.geometry.zone_of(number));
        if number > 0 && is_clear(bytes, bit) && !is_held() {
            return Some(number);
        }
        bit += 1;
    }
    None
}

/// True if a zone of data is free for data.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn is_zone_free(tx: &mut dyn Tx, vol: &Volume, zone: u32) -> Result<bool, Stop> {
    if !vol.geometry.is_data(zone) || vol.is_held(zone) {
        return Ok(false);
    }
    let (place, mask) = place_of(&vol.geometry, Which::Zones, vol.geometry.bit_of(zone));
    if vol.is_closed(place.page) {
        return Ok(false);
    }
    let (first, length) = place.sectors(1);
    let sector = tx.part(place.page, first, length, PageKind::Bitmap)?;
    Ok(sector[place.at - first] & mask == 0)
}
