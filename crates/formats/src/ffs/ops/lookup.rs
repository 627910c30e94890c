//! `lookup`: the object of a name.

use crate::ffs::inodes;
use crate::ffs::names::dirs;
use crate::ffs::ondisk::entries::is_dots;
use crate::ffs::volume::Volume;
use seekless_fs::call::{Attr, Errno, FileKind, Ino};
use seekless_fs::tx::{Stop, Tx};

/// The object of a name.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::NotDir`]; those of [`Tx::page`].
pub fn lookup(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Attr, Stop> {
    let inode = inodes::directory(tx, vol, dir)?;
    let found = dirs::find(tx, vol, (dir, &inode), name)?.ok_or(Errno::NoEnt)?;
    let attr = super::attr::get(tx, vol, found.ino)?;
    if attr.kind == FileKind::Directory && !is_dots(name) {
        vol.learn_parent(found.ino, dir);
    }
    Ok(attr)
}
