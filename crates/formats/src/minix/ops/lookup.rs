//! `lookup`: the object of a name.

use crate::minix::inodes::{self, outer};
use crate::minix::names;
use crate::minix::ondisk::entry::is_dots;
use crate::minix::volume::Volume;
use seekless_fs::call::{Attr, Errno, FileKind, Ino};
use seekless_fs::tx::{Stop, Tx};

/// The object of a name. The name `.` stands for the object itself, whatever its kind: so one finds
/// it again of which only the number is known.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::NotDir`]; [`Errno::Stale`] for `.` without an object that has a name;
/// those of [`names::find`].
pub fn lookup(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Attr, Stop> {
    if name == b"." {
        let attr = super::attr::get(tx, vol, dir)?;
        return if attr.links > 0 { Ok(attr) } else { Err(Errno::Stale.into()) };
    }
    let (above, inode) = inodes::directory(tx, vol, dir)?;
    let found = names::find(tx, vol, &inode, name)?.found.ok_or(Errno::NoEnt)?;
    let attr = super::attr::get(tx, vol, outer(found.number))?;
    if attr.kind == FileKind::Directory && !is_dots(name) {
        vol.set_parent(found.number, Some(above));
    }
    Ok(attr)
}
