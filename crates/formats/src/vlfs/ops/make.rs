//! `make`: new files, directories, symbolic links and special files.

use super::attr::{SET_GID, changed};
use super::need_room;
use crate::vlfs::ondisk::attributes::{Inode, mode_of};
use crate::vlfs::ondisk::{MOST_LINKS, ObjectNr, block_of};
use crate::vlfs::volume::Volume;
use crate::vlfs::{inodes, names, numbers};
use seekless_fs::call::{Attr, Credentials, Errno, Ino, MOST_NAME, MOST_SYMLINK, New};
use seekless_fs::tx::{PageKind, Stop, Tx};

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

/// Refuses a name that a directory cannot get.
///
/// # Errors
/// [`Errno::NameTooLong`]; [`Errno::Exist`]; [`Errno::NoEnt`] in a directory that has been removed;
/// those of [`names::find`].
pub(super) fn check_name(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: names::Dir<'_>,
    name: &[u8],
) -> Result<(), Stop> {
    if name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    if matches!(name, b"." | b"..") {
        return Err(Errno::Exist.into());
    }
    if dir.1.links == 0 {
        return Err(Errno::NoEnt.into());
    }
    match names::find(tx, vol, dir, name)? {
        Some(_) => Err(Errno::Exist.into()),
        None => Ok(()),
    }
}

/// Makes an object.
///
/// # Errors
/// [`Errno::Exist`], [`Errno::NoEnt`], [`Errno::NotDir`], [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn make(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    make: Make<'_>,
) -> Result<Attr, Stop> {
    let (above, mut dir) = inodes::directory(tx, vol, make.dir)?;
    check_name(tx, vol, (above, &dir), make.name)?;
    check(&make, &dir)?;
    need_room(tx, 2)?;
    let (object, generation) = numbers::take(tx, vol, above)?;
    let inode = Inode { generation, ..new_inode(tx, who, &make, (above, &dir)) };
    fill(tx, object, make.what)?;
    inodes::put_new(tx, object, &inode)?;
    let target = names::Target { object, kind: make.what.kind() };
    let name = names::add(tx, vol, (above, &mut dir), make.name, target)?;
    changed(tx, &mut dir);
    if *make.what == New::Directory {
        dir.links += 1;
        vol.set_parent(object, Some(above));
    }
    inodes::put(tx, above, &dir)?;
    tx.writes_at_once(name);
    Ok(inodes::attr(object, &inode))
}

fn check(make: &Make<'_>, dir: &Inode) -> Result<(), Errno> {
    match make.what {
        New::Directory if dir.links >= MOST_LINKS => Err(Errno::MLink),
        New::Symlink(text) if text.is_empty() => Err(Errno::NoEnt),
        New::Symlink(text) if text.len() > MOST_SYMLINK => Err(Errno::NameTooLong),
        _ => Ok(()),
    }
}

fn new_inode(
    tx: &dyn Tx,
    who: Credentials,
    make: &Make<'_>,
    (above, dir): (ObjectNr, &Inode),
) -> Inode {
    let now = tx.now();
    let inherits = dir.mode & SET_GID != 0;
    let is_directory = *make.what == New::Directory;
    let mode = make.mode | if inherits && is_directory { SET_GID } else { 0 };
    let device = match make.what {
        New::CharDevice(device) | New::BlockDevice(device) => *device,
        _ => 0,
    };
    let size = match make.what {
        New::Symlink(text) => text.len() as u64,
        _ => 0,
    };
    Inode {
        mode: mode_of(make.what.kind(), mode),
        links: if is_directory { 2 } else { 1 },
        uid: who.uid,
        gid: if inherits { dir.gid } else { who.gid },
        size,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        generation: 0,
        device,
        parent: if is_directory { above } else { 0 },
    }
}

/// Gives the object the content it has from the start.
fn fill(tx: &mut dyn Tx, object: ObjectNr, what: &New) -> Result<(), Stop> {
    if let New::Symlink(text) = what {
        let block = block_of(object, 0);
        tx.hole(block, PageKind::Data);
        tx.set(block, 0, text);
        tx.belongs(block, Ino::from(object));
    }
    Ok(())
}
