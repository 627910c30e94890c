//! `rename`: moves a name, replaces what had the new name, or exchanges two names.
//!
//! All lookups come before the first change.

use super::Removed;
use super::ancestry::refuse_loop;
use super::attr::changed;
use super::remove::{drop_directory, drop_links};
use crate::minix::inodes::{self, outer};
use crate::minix::names::{self, Found};
use crate::minix::ondisk::entry::{NAME_BYTES, is_dots};
use crate::minix::ondisk::inode::{Inode, MOST_LINKS, seconds};
use crate::minix::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{Errno, Ino, RenameHow};
use seekless_fs::tx::{Stop, Tx};

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

/// An object at one end of a rename.
struct End {
    found: Found,
    inode: Inode,
}

impl End {
    fn number(&self) -> u32 {
        self.found.number
    }

    fn is_directory(&self) -> bool {
        self.inode.is_directory()
    }
}

/// The two directories, by their numbers.
#[derive(Clone, Copy)]
struct Dirs {
    from: u32,
    to: u32,
}

impl Dirs {
    fn differ(self) -> bool {
        self.from != self.to
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
    names: Rename<'_>,
) -> Result<Option<Removed>, Stop> {
    if is_dots(names.name) || is_dots(names.to_name) {
        return Err(Errno::Inval.into());
    }
    let (from, dir) = inodes::directory(tx, vol, names.dir)?;
    let (to, to_dir) = inodes::directory(tx, vol, names.to_dir)?;
    let dirs = Dirs { from, to };
    if names.to_name.len() > NAME_BYTES {
        return Err(Errno::NameTooLong.into());
    }
    let found = names::find(tx, vol, &dir, names.name)?.found.ok_or(Errno::NoEnt)?;
    let source = end(tx, vol, found)?;
    let search = names::find(tx, vol, &to_dir, names.to_name)?;
    let target = search.found.map(|found| end(tx, vol, found)).transpose()?;
    match (names.how, &target) {
        (RenameHow::NoReplace, Some(_)) => return Err(Errno::Exist.into()),
        (RenameHow::Exchange, None) => return Err(Errno::NoEnt.into()),
        _ => {}
    }
    if target.as_ref().is_some_and(|target| target.number() == source.number()) {
        return Ok(None);
    }
    if source.is_directory() {
        refuse_loop(tx, vol, source.number(), to)?;
    }
    if names.how == RenameHow::Exchange
        && let Some(target) = &target
        && target.is_directory()
    {
        refuse_loop(tx, vol, target.number(), from)?;
    }
    if to_dir.links == 0 {
        return Err(Errno::NoEnt.into());
    }
    match target {
        Some(target) if names.how == RenameHow::Exchange => {
            exchange(tx, vol, dirs, &source, &target)?;
            Ok(None)
        }
        Some(target) => replace(tx, vol, dirs, &source, &target).map(Some),
        None => {
            move_to_new(tx, vol, dirs, &source, (names.to_name, search.room))?;
            Ok(None)
        }
    }
}

fn end(tx: &mut dyn Tx, vol: &Volume, found: Found) -> Result<End, Stop> {
    let (_, inode) = inodes::get(tx, vol, outer(found.number))?;
    Ok(End { found, inode })
}

/// The object has a new place: its time of change moves, and `..` of a directory.
fn moved(tx: &mut dyn Tx, vol: &mut Volume, end: &End, to: Option<u32>) -> Result<(), Stop> {
    let number = end.number();
    let mut inode = inodes::raw(tx, vol, number)?;
    inode.ctime = seconds(tx.now());
    inodes::put(tx, vol, number, &inode)?;
    let stays = planted(PlantedBug::MovedKeepsParent);
    if let Some(to) = to.filter(|_| end.is_directory() && !stays) {
        names::set_parent(tx, vol, (number, &inode), to)?;
        vol.set_parent(number, Some(to));
    }
    Ok(())
}

/// The names of a directory have changed, and so many directories have come or gone.
fn directory_changed(tx: &mut dyn Tx, vol: &Volume, number: u32, comes: i16) -> Result<(), Stop> {
    let mut inode = inodes::raw(tx, vol, number)?;
    inode.links = inode.links.saturating_add_signed(comes);
    changed(tx, &mut inode);
    inodes::put(tx, vol, number, &inode)
}

/// Refuses a directory that has as many links as it may.
fn check_links(tx: &mut dyn Tx, vol: &Volume, number: u32) -> Result<(), Stop> {
    let inode = inodes::raw(tx, vol, number)?;
    if inode.links >= MOST_LINKS { Err(Errno::MLink.into()) } else { Ok(()) }
}

/// The old name goes.
fn leave(tx: &mut dyn Tx, vol: &Volume, dirs: Dirs, source: &End) -> Result<(), Stop> {
    let dir = inodes::raw(tx, vol, dirs.from)?;
    names::set(tx, vol, (dirs.from, &dir), source.found.at, 0)
}

fn move_to_new(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dirs: Dirs,
    source: &End,
    (name, room): (&[u8], Option<u64>),
) -> Result<(), Stop> {
    let comes = i16::from(source.is_directory() && dirs.differ());
    if comes > 0 {
        check_links(tx, vol, dirs.to)?;
    }
    let mut to_dir = inodes::raw(tx, vol, dirs.to)?;
    names::add(tx, vol, (dirs.to, &mut to_dir), room, (name, source.number()))?;
    inodes::put(tx, vol, dirs.to, &to_dir)?;
    leave(tx, vol, dirs, source)?;
    moved(tx, vol, source, dirs.differ().then_some(dirs.to))?;
    directory_changed(tx, vol, dirs.to, comes)?;
    directory_changed(tx, vol, dirs.from, -comes)
}

fn replace(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dirs: Dirs,
    source: &End,
    target: &End,
) -> Result<Removed, Stop> {
    match (source.is_directory(), target.is_directory()) {
        (true, false) => return Err(Errno::NotDir.into()),
        (false, true) => return Err(Errno::IsDir.into()),
        (true, true) if !names::is_empty(tx, vol, &target.inode)? => {
            return Err(Errno::NotEmpty.into());
        }
        _ => {}
    }
    let to_dir = inodes::raw(tx, vol, dirs.to)?;
    names::set(tx, vol, (dirs.to, &to_dir), target.found.at, source.number())?;
    leave(tx, vol, dirs, source)?;
    moved(tx, vol, source, dirs.differ().then_some(dirs.to))?;
    let gone = (target.number(), &target.inode);
    let links = match target.is_directory() {
        true => {
            drop_directory(tx, vol, gone)?;
            0
        }
        false => drop_links(tx, vol, gone, 1)?,
    };
    // Of two directories in one, one is left; one that moves takes the link of the other one.
    let leaves = i16::from(source.is_directory());
    directory_changed(tx, vol, dirs.to, 0)?;
    directory_changed(tx, vol, dirs.from, -leaves)?;
    Ok(Removed { ino: outer(target.number()), last: links == 0 })
}

fn exchange(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dirs: Dirs,
    source: &End,
    target: &End,
) -> Result<(), Stop> {
    let comes = match dirs.differ() {
        true => i16::from(source.is_directory()) - i16::from(target.is_directory()),
        false => 0,
    };
    if comes != 0 {
        check_links(tx, vol, if comes > 0 { dirs.to } else { dirs.from })?;
    }
    let to_dir = inodes::raw(tx, vol, dirs.to)?;
    names::set(tx, vol, (dirs.to, &to_dir), target.found.at, source.number())?;
    let dir = inodes::raw(tx, vol, dirs.from)?;
    names::set(tx, vol, (dirs.from, &dir), source.found.at, target.number())?;
    moved(tx, vol, source, dirs.differ().then_some(dirs.to))?;
    moved(tx, vol, target, dirs.differ().then_some(dirs.from))?;
    directory_changed(tx, vol, dirs.to, comes)?;
    directory_changed(tx, vol, dirs.from, -comes)
}
