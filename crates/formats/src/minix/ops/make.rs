//! `make`: new files, directories, symbolic links and special files.

use super::attr::{SET_GID, changed, owner};
use crate::minix::inodes::{self, edit, outer};
use crate::minix::names;
use crate::minix::ondisk::entry::{self, ENTRY_BYTES};
use crate::minix::ondisk::inode::{Inode, MOST_LINKS, kind_bits, seconds};
use crate::minix::space::map;
use crate::minix::volume::Volume;
use seekless_fs::call::{Attr, Credentials, Errno, Ino, New};
use seekless_fs::fields::put;
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Numbers of devices that the format holds: eight bits of each part, as the kernel writes them.
const MOST_DEVICE: u32 = 0xffff;

/// What is made.
#[derive(Clone, Copy, Debug)]
pub struct Make<'a> {
    /// In this directory.
    pub dir: Ino,
    /// With this name.
    pub name: &'a [u8],
    /// Its kind.
    pub what: &'a New,
    /// Its permissions; the umask has been applied.
    pub mode: u16,
}

/// The offset of a free entry for a new name, if the directory has one.
///
/// # Errors
/// [`Errno::NameTooLong`]; [`Errno::Exist`]; [`Errno::NoEnt`] in a directory that has been removed;
/// those of [`names::find`].
pub(super) fn place_for(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: &Inode,
    name: &[u8],
) -> Result<Option<u64>, Stop> {
    let search = names::find(tx, vol, dir, name)?;
    if dir.links == 0 {
        return Err(Errno::NoEnt.into());
    }
    if search.found.is_some() { Err(Errno::Exist.into()) } else { Ok(search.room) }
}

/// Makes an object.
///
/// # Errors
/// [`Errno::Exist`], [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Errno::Inval`] for an owner above 65,535 or a device with a number of
/// more than 16 bits; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn make(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    make: Make<'_>,
) -> Result<Attr, Stop> {
    let (above, mut new_dir) = inodes::directory(tx, vol, make.dir)?;
    let room = place_for(tx, vol, &new_dir, make.name)?;
    check(vol, &make, &new_dir)?;
    let mut inode = new_inode(seconds(tx.now()), who, &make, &new_dir)?;
    let number = inodes::allocate(tx, vol)?;
    fill(tx, vol, (number, &mut inode), above, make.what)?;
    inodes::put(tx, vol, number, &inode)?;
    names::add(tx, vol, (above, &mut new_dir), room, (make.name, number))?;
    changed(tx, &mut new_dir);
    if *make.what == New::Directory {
        new_dir.links += 1;
        vol.set_parent(number, Some(above));
    }
    inodes::put(tx, vol, above, &new_dir)?;
    Ok(inodes::attr(&vol.geometry, number, &inode))
}

fn check(vol: &Volume, make: &Make<'_>, dir: &Inode) -> Result<(), Errno> {
    // As in the kernel, the text of a symbolic link and a zero byte fit into a zone.
    let most_text = vol.geometry.zone_bytes() - 1;
    match make.what {
        New::Directory if dir.links >= MOST_LINKS => Err(Errno::MLink),
        New::Symlink(text) if text.is_empty() => Err(Errno::NoEnt),
        New::Symlink(text) if text.len() > most_text => Err(Errno::NameTooLong),
        New::CharDevice(device) | New::BlockDevice(device) if *device > MOST_DEVICE => {
            Err(Errno::Inval)
        }
        _ => Ok(()),
    }
}

fn new_inode(now: u32, who: Credentials, make: &Make<'_>, dir: &Inode) -> Result<Inode, Errno> {
    let kind = make.what.kind();
    let inherits = dir.mode & SET_GID != 0;
    let is_directory = *make.what == New::Directory;
    let mut mode = make.mode & 0o7777;
    if inherits && is_directory {
        mode |= SET_GID;
    }
    Ok(Inode {
        mode: kind_bits(kind) | mode,
        links: if is_directory { 2 } else { 1 },
        uid: owner(who.uid)?,
        gid: if inherits { dir.gid } else { owner(who.gid)? },
        atime: now,
        mtime: now,
        ctime: now,
        ..Inode::default()
    })
}

/// Gives the object the content it has from the start.
fn fill(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    parent: u32,
    what: &New,
) -> Result<(), Stop> {
    match what {
        New::Directory => {
            let mut dots = [0; 2 * ENTRY_BYTES];
            put(&mut dots, 0, &entry::encode(number, b"."));
            put(&mut dots, ENTRY_BYTES, &entry::encode(parent, b".."));
            inode.size = dots.len() as u32;
            first_zone(tx, vol, (number, inode), &dots, PageKind::Directory)
        }
        New::Symlink(text) => {
            inode.size = text.len() as u32;
            first_zone(tx, vol, (number, inode), text, PageKind::Data)
        }
        New::CharDevice(device) | New::BlockDevice(device) => {
            inode.zones[0] = *device;
            Ok(())
        }
        New::File | New::Fifo | New::Socket => Ok(()),
    }
}

fn first_zone(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (number, inode): (u32, &mut Inode),
    bytes: &[u8],
    kind: PageKind,
) -> Result<(), Stop> {
    let (zone, _) = map::ensure(tx, vol, (number, inode), 0, kind)?;
    let place = vol.geometry.place_of(zone);
    edit(tx, place, bytes, kind)?;
    tx.belongs(place.page, outer(number));
    if kind == PageKind::Data {
        // The text is the object, not content that may come later.
        tx.content(vol.geometry.field_of(zone), true);
    }
    Ok(())
}
