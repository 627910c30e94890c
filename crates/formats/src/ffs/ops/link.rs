//! `link`: another name for a file.

use super::make::added;
use crate::ffs::inodes;
use crate::ffs::names::dirs::{self, Entry};
use crate::ffs::ondisk::entries::type_byte;
use crate::ffs::ondisk::format::MOST_LINKS;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::volume::Volume;
use seekless_fs::call::{Attr, Credentials, Errno, FileKind, Ino, MOST_NAME};
use seekless_fs::tx::{Need, Stop, Tx, Why};

/// Gives an object that is no directory another name.
///
/// # Errors
/// [`Errno::Perm`] for a directory, [`Errno::Exist`], [`Errno::NoEnt`], [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn link(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    ino: Ino,
    dir: Ino,
    name: &[u8],
) -> Result<Attr, Stop> {
    let old_dir = inodes::directory(tx, vol, dir)?;
    if name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    if dirs::find(tx, vol, (dir, &old_dir), name)?.is_some() {
        return Err(Errno::Exist.into());
    }
    let old = inodes::get(tx, vol, ino)?;
    let kind = old.kind().ok_or(Errno::Stale)?;
    match kind {
        FileKind::Directory => return Err(Errno::Perm.into()),
        _ if old.links == 0 => return Err(Errno::NoEnt.into()),
        _ if old.links >= MOST_LINKS => return Err(Errno::MLink.into()),
        _ => {}
    }
    let new = Inode { links: old.links + 1, ctime: tx.now(), ..old.clone() };
    inodes::put(tx, vol, ino, &old, &new)?;
    let mut new_dir = Inode { mtime: tx.now(), ctime: tx.now(), ..old_dir.clone() };
    let needs = [Need { field: inodes::links_field(vol, ino)?, why: Why::Link }];
    let entry = Entry { ino: vol.number(ino)?, kind: type_byte(kind), needs: &needs };
    let entry = dirs::add(tx, vol, (dir, &mut new_dir), name, entry, who)?;
    inodes::put(tx, vol, dir, &old_dir, &new_dir)?;
    added(tx, vol, (dir, &old_dir, &new_dir), entry)?;
    Ok(inodes::attr(ino, &new))
}
