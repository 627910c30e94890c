//! Numbers of objects: which are free, in bits that each slice has of its own.
//!
//! A new object goes to the slice of its directory while that has a free number: then what making
//! it changes is one block of the drive's map.

use super::inodes::{raw, store};
use super::ondisk::ObjectNr;
use super::ondisk::slice::{Bits, Slice};
use super::volume::Volume;
use seekless_engine::objects::{SLICE_OBJECTS, member_of, slice_of};
use seekless_fs::call::Errno;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Slices that a search looks at together.
const AHEAD: u32 = 16;

/// The object that a slice has of its own.
pub fn own_of(slice: u32) -> ObjectNr {
    slice * SLICE_OBJECTS
}

/// What a slice says of its objects.
///
/// # Errors
/// [`Errno::Io`] if it says nothing possible; those of [`Tx::page`].
pub fn slice(tx: &mut dyn Tx, vol: &mut Volume, slice: u32) -> Result<Slice, Stop> {
    let bytes = raw(tx, own_of(slice))?;
    Slice::decode(&bytes).ok_or_else(|| {
        vol.meets(format!("object {} says nothing possible of its slice", own_of(slice)));
        Errno::Io.into()
    })
}

fn bit(object: ObjectNr) -> Bits {
    1 << member_of(object)
}

/// Bits of numbers in a slice that no object can have.
fn beyond(vol: &Volume, slice: u32) -> Bits {
    let left = vol.objects() - u64::from(own_of(slice));
    if left >= u64::from(SLICE_OBJECTS) { 0 } else { Bits::MAX << left }
}

/// Takes a free number near a directory, and a generation for it.
///
/// # Errors
/// [`Stop::NoRoom`] if there is none; those of [`Tx::page`].
pub fn take(tx: &mut dyn Tx, vol: &mut Volume, near: ObjectNr) -> Result<(ObjectNr, u32), Stop> {
    let (first, slices) = (slice_of(near), vol.slices());
    if !vol.is_full(first)
        && let Some(found) = take_in(tx, vol, first)?
    {
        return Ok(found);
    }
    let rotor = vol.rotor();
    let order = (rotor..slices).chain(0..rotor).filter(|&slice| slice != first);
    let order: Vec<u32> = order.filter(|&slice| !vol.is_full(slice)).take(1 << 12).collect();
    for (index, &slice) in order.iter().enumerate() {
        let found = match take_in(tx, vol, slice) {
            Err(Stop::Refused(Errno::Io)) => continue,
            Err(stop) => {
                let ahead = order[index + 1..].iter().take(AHEAD as usize);
                ahead.for_each(|&slice| {
                    tx.expect(super::ondisk::attributes_of(own_of(slice)), PageKind::Inodes);
                });
                return Err(stop);
            }
            Ok(found) => found,
        };
        if let Some(found) = found {
            vol.set_rotor(slice);
            return Ok(found);
        }
    }
    Err(Stop::NoRoom)
}

fn take_in(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    number: u32,
) -> Result<Option<(ObjectNr, u32)>, Stop> {
    let mut own = slice(tx, vol, number)?;
    let unusable = beyond(vol, number) | if number == 0 { 0b11 } else { 0 };
    let seen = Slice { used: own.used | unusable, ..own };
    let Some(member) = seen.free_from(0) else {
        vol.set_full(number, true);
        return Ok(None);
    };
    let object = own_of(number) + u32::from(member);
    own.used |= bit(object) | 1;
    own.generation = own.generation.wrapping_add(1).max(1);
    store(tx, own_of(number), &own.encode())?;
    Ok(Some((object, own.generation)))
}

/// Gives a number back.
///
/// # Errors
/// Those of [`slice`].
pub fn give_back(tx: &mut dyn Tx, vol: &mut Volume, object: ObjectNr) -> Result<(), Stop> {
    let number = slice_of(object);
    let mut own = slice(tx, vol, number)?;
    if own.used & bit(object) == 0 {
        vol.meets(format!("object {object} is in use, and its number is free"));
    }
    own.used &= !bit(object);
    own.unnamed &= !bit(object);
    store(tx, own_of(number), &own.encode())?;
    vol.set_full(number, false);
    Ok(())
}

/// Notes that an object has lost its last name: a mount gives up what a crash leaves of such.
///
/// # Errors
/// Those of [`slice`].
pub fn note_unnamed(tx: &mut dyn Tx, vol: &mut Volume, object: ObjectNr) -> Result<(), Stop> {
    let number = slice_of(object);
    let mut own = slice(tx, vol, number)?;
    own.unnamed |= bit(object);
    store(tx, own_of(number), &own.encode())
}
