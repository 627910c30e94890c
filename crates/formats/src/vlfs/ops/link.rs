//! `link`: another name for a file.

use super::attr::changed;
use super::make::check_name;
use super::need_room;
use crate::vlfs::ondisk::MOST_LINKS;
use crate::vlfs::volume::Volume;
use crate::vlfs::{inodes, names};
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
    check_name(tx, vol, (above, &new_dir), name)?;
    let (object, mut new) = inodes::get(tx, vol, ino)?;
    match new.links {
        _ if new.is_directory() => return Err(Errno::Perm.into()),
        0 => return Err(Errno::NoEnt.into()),
        links if links >= MOST_LINKS => return Err(Errno::MLink.into()),
        links => new.links = links + 1,
    }
    need_room(tx, 1)?;
    new.ctime = tx.now();
    inodes::put(tx, object, &new)?;
    let kind = new.kind().ok_or(Errno::Io)?;
    let target = names::Target { object, kind };
    let entry = names::add(tx, vol, (above, &mut new_dir), name, target)?;
    changed(tx, &mut new_dir);
    inodes::put(tx, above, &new_dir)?;
    tx.writes_at_once(entry);
    Ok(inodes::attr(object, &new))
}
