//! `link`: another name for a file.

use super::attr::changed;
use super::make::place_for;
use crate::minix::inodes;
use crate::minix::names;
use crate::minix::ondisk::inode::{MOST_LINKS, seconds};
use crate::minix::volume::Volume;
use seekless_fs::call::{Attr, Errno, Ino};
use seekless_fs::tx::{Stop, Tx};

/// Gives an object that is no directory another name.
///
/// # Errors
/// [`Errno::Perm`] for a directory, [`Errno::Exist`], [`Errno::NoEnt`], [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn link(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    dir: Ino,
    name: &[u8],
) -> Result<Attr, Stop> {
    let (above, mut new_dir) = inodes::directory(tx, vol, dir)?;
    let room = place_for(tx, vol, &new_dir, name)?;
    let (number, mut new) = inodes::get(tx, vol, ino)?;
    match new.links {
        _ if new.is_directory() => return Err(Errno::Perm.into()),
        0 => return Err(Errno::NoEnt.into()),
        links if links >= MOST_LINKS => return Err(Errno::MLink.into()),
        links => new.links = links + 1,
    }
    new.ctime = seconds(tx.now());
    inodes::put(tx, vol, number, &new)?;
    names::add(tx, vol, (above, &mut new_dir), room, (name, number))?;
    changed(tx, &mut new_dir);
    inodes::put(tx, vol, above, &new_dir)?;
    Ok(inodes::attr(&vol.geometry, number, &new))
}
