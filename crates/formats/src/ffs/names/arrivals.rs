//! Names that the disk does not know yet, and removed ones that it may still show.
//!
//! A change that nothing keeps back any longer is not on the disk before the next write of its
//! block. So what waits for such a name waits until a write has carried it, not until its guard is
//! gone.

#[cfg(test)]
mod tests;

use crate::ffs::calls::piece::Piece;
use crate::ffs::volume::Volume;
use seekless_fs::call::Ino;
use seekless_fs::tx::{Field, Freed, Need, PageKind, Stop, Tx, Why};
use smallvec::SmallVec;

/// A directory has a new name: until the disk shows it, what the directory has cannot be reached
/// there, though nothing may keep the name back any longer.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode.
pub fn arrives(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: Field) -> Result<(), Stop> {
    let what = Piece::Arrival { dir: vol.number(dir)? }.into();
    if tx.tell_later(Freed { what, after: name, exact: false }) {
        vol.arrives(dir, name);
    }
    Ok(())
}

/// What shows the disk the name of a directory, if that may not be there yet.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn arrival(tx: &mut dyn Tx, vol: &Volume, dir: Ino) -> Result<Option<Need>, Stop> {
    vol.arriving(dir).map(|name| written_again(tx, name)).transpose()
}

/// A removed name goes from the disk with a later write, unless it was never there: until then it
/// is known.
///
/// # Errors
/// [`Errno::Stale`] if there is no such inode.
pub fn departs(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (dir, hash): (Ino, u32),
    name: Field,
) -> Result<(), Stop> {
    let departure = vol.leaves(dir, hash, name);
    let what = Piece::Departure { dir: vol.number(dir)?, hash, serial: departure.2 }.into();
    if !tx.tell_later(Freed { what, after: name, exact: true }) {
        vol.has_left(departure);
    }
    Ok(())
}

/// That the same name, by its hash, has gone from other places of a directory: the disk never shows
/// it twice.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn others_gone(
    tx: &mut dyn Tx,
    vol: &Volume,
    (dir, hash): (Ino, u32),
    own: Field,
) -> Result<SmallVec<[Need; 2]>, Stop> {
    let others = vol.leaving(dir, hash).filter(|other| !own.overlaps(*other));
    others.map(|other| written_again(tx, other)).collect()
}

/// What shows the disk some bytes of a directory as they are now, though they may be written and
/// not kept back any longer: a write that is under way may be the one, so there is another one.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn written_again(tx: &mut dyn Tx, field: Field) -> Result<Need, Stop> {
    let (at, length) = (usize::from(field.at), usize::from(field.length));
    let bytes = tx.part(field.block, at, length, PageKind::Directory)?;
    let bytes: SmallVec<[u8; 8]> = SmallVec::from_slice(bytes);
    tx.set(field.block, at, &bytes);
    Ok(Need { field, why: Why::Link })
}
