//! `lookup`: the object of a name.

use crate::vlfs::inodes;
use crate::vlfs::names;
use crate::vlfs::volume::Volume;
use seekless_fs::call::{Attr, Errno, FileKind, Ino, MOST_NAME};
use seekless_fs::tx::{Stop, Tx};

/// The object of a name. The name `.` stands for the object itself, whatever its kind: so one finds
/// it again of which only the number is known.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::NameTooLong`]; [`Errno::Stale`] for `.` without an
/// object that has a name; those of [`names::find`].
pub fn lookup(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Attr, Stop> {
    if name == b"." {
        let attr = super::attr::get(tx, vol, dir)?;
        return if attr.links > 0 { Ok(attr) } else { Err(Errno::Stale.into()) };
    }
    let (above, inode) = inodes::directory(tx, vol, dir)?;
    if name == b".." {
        return super::attr::get(tx, vol, Ino::from(inode.parent));
    }
    if name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    let found = names::find(tx, vol, (above, &inode), name)?.ok_or(Errno::NoEnt)?;
    // A name that leads nowhere is damage.
    let attr = super::attr::get(tx, vol, Ino::from(found.object));
    let attr = attr.map_err(|stop| match stop {
        Stop::Refused(Errno::Stale) => Errno::Io.into(),
        stop => stop,
    })?;
    if attr.kind == FileKind::Directory {
        vol.set_parent(found.object, Some(above));
    }
    Ok(attr)
}
