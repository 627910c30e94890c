//! Zones that are allocated and freed.
//!
//! A zone that is freed is free in the map at once. It is held, and nothing goes there, while the
//! disk may still lead to it. Where the policy writes transactions of the volume that is so for
//! every zone, because content goes to the disk outside of them. Without an order it is so for
//! zones of addresses and names: a check would take what comes there for addresses or names.

use super::bits;
use crate::minix::ondisk::geometry::Zone;
use crate::minix::volume::{Volume, Which};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::tx::{Deferred, Field, Freed, PageKind, Stop, Tx};

/// What a policy hands back: the number of a zone.
fn piece(zone: Zone) -> Deferred {
    Deferred([0, zone, 0, 0])
}

/// Allocates a zone, filled with zeros: the one that is wished for if it is free, else the next
/// free one.
///
/// # Errors
/// [`Stop::NoRoom`] if there is none; those of [`Tx::page`].
pub fn allocate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    wish: Option<Zone>,
    kind: PageKind,
) -> Result<Zone, Stop> {
    let wish = wish.filter(|&zone| vol.geometry.is_data(zone));
    let from = wish.map_or(vol.rotor(Which::Zones), |zone| vol.geometry.bit_of(zone));
    let bit = bits::find(tx, vol, Which::Zones, from)?.ok_or(Stop::NoRoom)?;
    let zone = vol.geometry.zone_of(bit);
    let is_alone = is_page_free(tx, vol, zone)?;
    if planted(PlantedBug::BitForgotten) {
        vol.hold(zone);
    } else {
        bits::set(tx, vol, Which::Zones, bit, true)?;
    }
    bits::count(vol, Which::Zones, bit, -1);
    vol.set_rotor(Which::Zones, bit + 1);
    let place = vol.geometry.place_of(zone);
    if is_alone {
        tx.unused(place.page);
    }
    tx.fresh(place.page, kind, place.at, vol.geometry.zone_bytes());
    Ok(zone)
}

/// True if all of the page of a zone is free: a write of the zone needs nothing of the rest.
fn is_page_free(tx: &mut dyn Tx, vol: &Volume, zone: Zone) -> Result<bool, Stop> {
    let each = vol.geometry.zones_per_page();
    let first = zone / each * each;
    for zone in first..first + each {
        if !bits::is_zone_free(tx, vol, zone)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A zone that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The zone.
    pub zone: Zone,
    /// It has addresses or names.
    pub is_metadata: bool,
    /// The bytes that have held its address, or the address that led there.
    pub former: Field,
}

/// Frees a zone. A zone outside the data, or one that is free, is
/// left alone: the file system is damaged, and the mount says so.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free(tx: &mut dyn Tx, vol: &mut Volume, given_up: GivenUp) -> Result<(), Stop> {
    let GivenUp { zone, is_metadata, former } = given_up;
    if !vol.geometry.is_data(zone) {
        vol.meets(format!("a file has the address {zone}, which lies outside the data"));
        return Ok(());
    }
    let bit = vol.geometry.bit_of(zone);
    if bits::is_closed(vol, Which::Zones, bit) {
        // It stays marked until a repair makes the maps anew.
        return Ok(());
    }
    if vol.is_held(zone) || !bits::set(tx, vol, Which::Zones, bit, false)? {
        vol.meets(format!("zone {zone} is marked as free, and a file has it"));
        return Ok(());
    }
    let field = vol.geometry.field_of(zone);
    let freed = Freed { what: piece(zone), after: former, exact: true };
    let is_held = match is_metadata {
        true => tx.free_moved(freed, Some(field)),
        false => tx.free_later(freed, Some(field)),
    };
    if is_held && !planted(PlantedBug::FreedAtOnce) {
        vol.hold(zone);
    } else {
        bits::count(vol, Which::Zones, bit, 1);
        tx.forget(field.block, usize::from(field.at), usize::from(field.length));
    }
    Ok(())
}

/// Nothing on the disk leads to these zones.
pub fn release(tx: &mut dyn Tx, vol: &mut Volume, pieces: &[Deferred]) {
    for &piece in pieces {
        let zone = piece.0[1];
        if vol.let_go(zone) {
            bits::count(vol, Which::Zones, vol.geometry.bit_of(zone), 1);
            let field = vol.geometry.field_of(zone);
            tx.forget(field.block, usize::from(field.at), usize::from(field.length));
        }
        tx.freed(piece);
    }
}
