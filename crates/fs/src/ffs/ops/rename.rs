//! `rename`: moves a name, replaces what had the new name, or exchanges two names.
//!
//! The new name is set before the old one goes, and all lookups come before the first change.

use super::Removed;
use super::remove::{drop_directory, drop_link};
use crate::call::{Credentials, Errno, FileKind, Ino, MOST_NAME, ROOT, RenameHow};
use crate::ffs::dirs::{self, Found};
use crate::ffs::entries::{is_dots, type_byte};
use crate::ffs::format::MOST_LINKS;
use crate::ffs::inode::Inode;
use crate::ffs::inodes;
use crate::ffs::volume::Volume;
use crate::tx::{Stop, Tx};

/// What is renamed to what.
#[derive(Clone, Copy, Debug)]
pub struct Rename<'a> {
    /// The directory of the old name.
    pub dir: Ino,
    /// The old name.
    pub name: &'a [u8],
    /// The directory of the new name.
    pub to_dir: Ino,
    /// The new name.
    pub to_name: &'a [u8],
    /// What becomes of an object that has the new name.
    pub how: RenameHow,
}

/// Directories above another one at most, as a guard against damage.
const MOST_DEPTH: u32 = 1 << 20;

/// An object at one end of a rename.
struct End {
    found: Found,
    inode: Inode,
    kind: FileKind,
}

impl End {
    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    fn entry(&self) -> (Ino, u8) {
        (self.found.ino, type_byte(self.kind))
    }
}

/// Renames an object. Returns what has lost a name by being replaced.
///
/// # Errors
/// [`Errno::NoEnt`], [`Errno::Exist`], [`Errno::NotDir`], [`Errno::IsDir`], [`Errno::NotEmpty`],
/// [`Errno::Inval`] for a directory into its own subtree, [`Errno::MLink`],
/// [`Errno::NameTooLong`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn rename(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    names: Rename<'_>,
) -> Result<Option<Removed>, Stop> {
    if is_dots(names.name) || is_dots(names.to_name) {
        return Err(Errno::Inval.into());
    }
    if names.to_name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    let source = end(tx, vol, names.dir, names.name)?.ok_or(Errno::NoEnt)?;
    let target = end(tx, vol, names.to_dir, names.to_name)?;
    if source.is_directory() || target.as_ref().is_some_and(End::is_directory) {
        vol.paths.moved();
    }
    if source.is_directory() && names.dir != names.to_dir {
        refuse_loop(tx, vol, source.found.ino, names.to_dir)?;
    }
    match (names.how, target) {
        (RenameHow::NoReplace, Some(_)) => Err(Errno::Exist.into()),
        (RenameHow::Exchange, None) => Err(Errno::NoEnt.into()),
        (_, Some(target)) if target.found.ino == source.found.ino => Ok(None),
        (RenameHow::Exchange, Some(target)) => {
            if target.is_directory() && names.dir != names.to_dir {
                refuse_loop(tx, vol, target.found.ino, names.dir)?;
            }
            exchange(tx, vol, names, &source, &target).map(|()| None)
        }
        (_, Some(target)) => replace(tx, vol, names, &source, &target).map(Some),
        (_, None) => rename_to_new(tx, vol, who, names, &source).map(|()| None),
    }
}

/// The object of a name.
fn end(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino, name: &[u8]) -> Result<Option<End>, Stop> {
    let dir_inode = inodes::directory(tx, vol, dir)?;
    let Some(found) = dirs::find(tx, vol, (dir, &dir_inode), name)? else { return Ok(None) };
    let inode = inodes::get(tx, vol, found.ino)?;
    let kind = inode.kind().ok_or(Errno::Io)?;
    Ok(Some(End { found, inode, kind }))
}

/// Refuses to move a directory into itself: `below` must not lie in it.
fn refuse_loop(tx: &mut dyn Tx, vol: &mut Volume, moved: Ino, below: Ino) -> Result<(), Stop> {
    let mut at = below;
    for _ in 0..MOST_DEPTH {
        if at == moved {
            return Err(Errno::Inval.into());
        }
        if at == ROOT {
            return Ok(());
        }
        at = match vol.parent(at) {
            Some(parent) => parent,
            None => {
                let inode = inodes::directory(tx, vol, at)?;
                dirs::parent(tx, vol, (at, &inode))?
            }
        };
    }
    Err(Errno::Io.into())
}

/// Changes an inode that may have been changed before in this operation.
fn update(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    change: impl FnOnce(&mut Inode),
) -> Result<(), Stop> {
    let old = inodes::get(tx, vol, ino)?;
    let mut new = old.clone();
    change(&mut new);
    inodes::put(tx, vol, ino, &old, &new)
}

/// Both directories have changed: sets their times, and adds to their link counts.
fn directories_changed(
    tx: &mut dyn Tx,
    vol: &Volume,
    names: Rename<'_>,
    (from, to): (i32, i32),
) -> Result<(), Stop> {
    let now = tx.now();
    for (dir, by) in [(names.dir, from), (names.to_dir, to)] {
        update(tx, vol, dir, |inode| {
            inode.links = (i32::from(inode.links) + by).clamp(0, i32::from(u16::MAX)) as u16;
            inode.mtime = now;
            inode.ctime = now;
        })?;
    }
    Ok(())
}

fn touch(tx: &mut dyn Tx, vol: &Volume, ino: Ino) -> Result<(), Stop> {
    let now = tx.now();
    update(tx, vol, ino, |inode| inode.ctime = now)
}

/// A directory has another parent: sets its `..`.
fn set_parent(tx: &mut dyn Tx, vol: &mut Volume, moved: &End, parent: Ino) -> Result<(), Stop> {
    let dir = (moved.found.ino, &moved.inode);
    let up = dirs::parent_entry(tx, vol, dir)?;
    dirs::replace(tx, vol, dir, up, (parent, type_byte(FileKind::Directory)))?;
    vol.set_parent(moved.found.ino, Some(parent));
    Ok(())
}

/// The old name goes.
fn remove_old(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    names: Rename<'_>,
    source: &End,
) -> Result<(), Stop> {
    let dir = inodes::directory(tx, vol, names.dir)?;
    dirs::remove(tx, vol, (names.dir, &dir), names.name, source.found)
}

/// Refuses a directory that has as many links as it may.
fn check_links(tx: &mut dyn Tx, vol: &Volume, dir: Ino) -> Result<(), Stop> {
    let inode = inodes::directory(tx, vol, dir)?;
    if inode.links >= MOST_LINKS { Err(Errno::MLink.into()) } else { Ok(()) }
}

fn rename_to_new(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    who: Credentials,
    names: Rename<'_>,
    source: &End,
) -> Result<(), Stop> {
    let moves_directory = source.is_directory() && names.dir != names.to_dir;
    if moves_directory {
        check_links(tx, vol, names.to_dir)?;
    }
    let old = inodes::directory(tx, vol, names.to_dir)?;
    let mut new = old.clone();
    let (ino, kind) = source.entry();
    let entry = (vol.number(ino)?, kind);
    dirs::add(tx, vol, (names.to_dir, &mut new), names.to_name, entry, who)?;
    inodes::put(tx, vol, names.to_dir, &old, &new)?;
    remove_old(tx, vol, names, source)?;
    if moves_directory {
        set_parent(tx, vol, source, names.to_dir)?;
    }
    touch(tx, vol, ino)?;
    let by = i32::from(moves_directory);
    directories_changed(tx, vol, names, (-by, by))
}

fn replace(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    names: Rename<'_>,
    source: &End,
    target: &End,
) -> Result<Removed, Stop> {
    match (source.is_directory(), target.is_directory()) {
        (true, false) => return Err(Errno::NotDir.into()),
        (false, true) => return Err(Errno::IsDir.into()),
        (true, true) => {
            if !dirs::is_empty(tx, vol, (target.found.ino, &target.inode))? {
                return Err(Errno::NotEmpty.into());
            }
        }
        (false, false) => {}
    }
    let to_dir = inodes::directory(tx, vol, names.to_dir)?;
    dirs::replace(tx, vol, (names.to_dir, &to_dir), target.found, source.entry())?;
    vol.paths.named(source.found.ino, names.to_dir);
    remove_old(tx, vol, names, source)?;
    let links = if target.is_directory() {
        drop_directory(tx, vol, target.found.ino, &target.inode)?;
        0
    } else {
        drop_link(tx, vol, target.found.ino, &target.inode)?
    };
    // Of two directories in one, one is left; a directory that moves over another one takes its
    // link to the new parent over.
    let from = -i32::from(source.is_directory());
    if source.is_directory() && names.dir != names.to_dir {
        set_parent(tx, vol, source, names.to_dir)?;
    }
    touch(tx, vol, source.found.ino)?;
    directories_changed(tx, vol, names, (from, 0))?;
    Ok(Removed { ino: target.found.ino, last: links == 0 })
}

fn exchange(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    names: Rename<'_>,
    source: &End,
    target: &End,
) -> Result<(), Stop> {
    let comes = i32::from(source.is_directory()) - i32::from(target.is_directory());
    let other = names.dir != names.to_dir;
    if other && comes != 0 {
        check_links(tx, vol, if comes > 0 { names.to_dir } else { names.dir })?;
    }
    let to_dir = inodes::directory(tx, vol, names.to_dir)?;
    dirs::replace(tx, vol, (names.to_dir, &to_dir), target.found, source.entry())?;
    vol.paths.named(source.found.ino, names.to_dir);
    let dir = inodes::directory(tx, vol, names.dir)?;
    dirs::replace(tx, vol, (names.dir, &dir), source.found, target.entry())?;
    vol.paths.named(target.found.ino, names.dir);
    for (moved, parent) in [(source, names.to_dir), (target, names.dir)] {
        if other && moved.is_directory() {
            set_parent(tx, vol, moved, parent)?;
        }
        touch(tx, vol, moved.found.ino)?;
    }
    let by = if other { comes } else { 0 };
    directories_changed(tx, vol, names, (-by, by))
}
