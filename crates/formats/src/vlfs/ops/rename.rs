//! `rename`: moves a name, replaces what had the new name, or exchanges two names.
//!
//! All lookups come before the first change.

use super::ancestry::refuse_loop;
use super::attr::changed;
use super::remove::{drop_links, object_of};
use super::{Removed, need_room};
use crate::vlfs::names::{self, Found, Target};
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::ondisk::{MOST_LINKS, ObjectNr};
use crate::vlfs::volume::Volume;
use crate::vlfs::{inodes, ops};
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{Errno, Ino, MOST_NAME, RenameHow};
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
    fn object(&self) -> ObjectNr {
        self.found.object
    }

    fn is_directory(&self) -> bool {
        self.inode.is_directory()
    }

    fn target(&self) -> Result<Target, Errno> {
        Ok(Target { object: self.object(), kind: self.inode.kind().ok_or(Errno::Io)? })
    }
}

/// The two directories, and the two names.
#[derive(Clone, Copy)]
struct Ways<'a> {
    from: ObjectNr,
    to: ObjectNr,
    name: &'a [u8],
    to_name: &'a [u8],
}

impl Ways<'_> {
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
    let is_dots = |name: &[u8]| matches!(name, b"." | b"..");
    if is_dots(names.name) || is_dots(names.to_name) {
        return Err(Errno::Inval.into());
    }
    let (from, dir) = inodes::directory(tx, vol, names.dir)?;
    let (to, to_dir) = inodes::directory(tx, vol, names.to_dir)?;
    let ways = Ways { from, to, name: names.name, to_name: names.to_name };
    if names.to_name.len() > MOST_NAME || names.name.len() > MOST_NAME {
        return Err(Errno::NameTooLong.into());
    }
    let found = names::find(tx, vol, (from, &dir), names.name)?.ok_or(Errno::NoEnt)?;
    let source = end(tx, vol, found)?;
    let target = names::find(tx, vol, (to, &to_dir), names.to_name)?;
    let target = target.map(|found| end(tx, vol, found)).transpose()?;
    match (names.how, &target) {
        (RenameHow::NoReplace, Some(_)) => return Err(Errno::Exist.into()),
        (RenameHow::Exchange, None) => return Err(Errno::NoEnt.into()),
        _ => {}
    }
    if target.as_ref().is_some_and(|target| target.object() == source.object()) {
        return Ok(None);
    }
    if source.is_directory() {
        refuse_loop(tx, vol, source.object(), to)?;
    }
    if names.how == RenameHow::Exchange
        && let Some(target) = &target
        && target.is_directory()
    {
        refuse_loop(tx, vol, target.object(), from)?;
    }
    if to_dir.links == 0 {
        return Err(Errno::NoEnt.into());
    }
    need_room(tx, 2)?;
    match target {
        Some(target) if names.how == RenameHow::Exchange => {
            exchange(tx, vol, ways, &source, &target)?;
            Ok(None)
        }
        Some(target) => replace(tx, vol, ways, &source, &target).map(Some),
        None => {
            move_to_new(tx, vol, ways, &source)?;
            Ok(None)
        }
    }
}

fn end(tx: &mut dyn Tx, vol: &Volume, found: Found) -> Result<End, Stop> {
    let (_, inode) = object_of(tx, vol, found)?;
    Ok(End { found, inode })
}

fn read(tx: &mut dyn Tx, object: ObjectNr) -> Result<Inode, Stop> {
    Ok(Inode::decode(&inodes::raw(tx, object)?))
}

/// The object has a new place: its time of change moves, and what is above a directory.
fn moved(tx: &mut dyn Tx, vol: &mut Volume, end: &End, to: Option<ObjectNr>) -> Result<(), Stop> {
    let mut inode = read(tx, end.object())?;
    inode.ctime = tx.now();
    let stays = planted(PlantedBug::MovedKeepsParent);
    if let Some(to) = to.filter(|_| end.is_directory() && !stays) {
        inode.parent = to;
        vol.set_parent(end.object(), Some(to));
    }
    inodes::put(tx, end.object(), &inode)
}

/// The names of a directory have changed, and so many directories have come or gone.
fn directory_changed(tx: &mut dyn Tx, dir: ObjectNr, comes: i32) -> Result<(), Stop> {
    let mut inode = read(tx, dir)?;
    inode.links = inode.links.saturating_add_signed(comes);
    changed(tx, &mut inode);
    inodes::put(tx, dir, &inode)
}

/// Refuses a directory that has as many links as it may.
fn check_links(tx: &mut dyn Tx, dir: ObjectNr) -> Result<(), Stop> {
    if read(tx, dir)?.links >= MOST_LINKS { Err(Errno::MLink.into()) } else { Ok(()) }
}

fn move_to_new(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ways: Ways<'_>,
    source: &End,
) -> Result<(), Stop> {
    let comes = i32::from(source.is_directory() && ways.differ());
    if comes > 0 {
        check_links(tx, ways.to)?;
    }
    let mut to_dir = read(tx, ways.to)?;
    let name = names::add(tx, vol, (ways.to, &mut to_dir), ways.to_name, source.target()?)?;
    inodes::put(tx, ways.to, &to_dir)?;
    names::remove(tx, vol, ways.from, ways.name, source.found)?;
    moved(tx, vol, source, ways.differ().then_some(ways.to))?;
    directory_changed(tx, ways.to, comes)?;
    directory_changed(tx, ways.from, -comes)?;
    tx.writes_at_once(name);
    Ok(())
}

fn replace(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ways: Ways<'_>,
    source: &End,
    target: &End,
) -> Result<Removed, Stop> {
    match (source.is_directory(), target.is_directory()) {
        (true, false) => return Err(Errno::NotDir.into()),
        (false, true) => return Err(Errno::IsDir.into()),
        (true, true) if !names::is_empty(tx, vol, (target.object(), &target.inode))? => {
            return Err(Errno::NotEmpty.into());
        }
        _ => {}
    }
    let by = if target.is_directory() { u32::MAX } else { 1 };
    let links = drop_links(tx, vol, (target.object(), &target.inode), by)?;
    let name = names::replace(tx, ways.to, target.found, source.target()?)?;
    names::remove(tx, vol, ways.from, ways.name, source.found)?;
    moved(tx, vol, source, ways.differ().then_some(ways.to))?;
    // Of two directories in one, one is left; one that moves takes the link of the other one.
    let leaves = i32::from(source.is_directory());
    directory_changed(tx, ways.to, 0)?;
    directory_changed(tx, ways.from, -leaves)?;
    tx.writes_at_once(name);
    Ok(ops::Removed { ino: Ino::from(target.object()), last: links == 0 })
}

fn exchange(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ways: Ways<'_>,
    source: &End,
    target: &End,
) -> Result<(), Stop> {
    let comes = match ways.differ() {
        true => i32::from(source.is_directory()) - i32::from(target.is_directory()),
        false => 0,
    };
    if comes != 0 {
        check_links(tx, if comes > 0 { ways.to } else { ways.from })?;
    }
    let name = names::replace(tx, ways.to, target.found, source.target()?)?;
    names::replace(tx, ways.from, source.found, target.target()?)?;
    moved(tx, vol, source, ways.differ().then_some(ways.to))?;
    moved(tx, vol, target, ways.differ().then_some(ways.from))?;
    directory_changed(tx, ways.to, comes)?;
    directory_changed(tx, ways.from, -comes)?;
    tx.writes_at_once(name);
    Ok(())
}
