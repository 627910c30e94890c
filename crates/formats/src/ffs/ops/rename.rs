//! `rename`: moves a name, replaces what had the new name, or exchanges two names.
//!
//! The new name is set before the old one goes, and all lookups come before the first change. Where
//! writes are ordered, an object keeps a name throughout: the old one goes when the new one is on
//! the disk. An exchange cannot do that and is refused.

use super::Removed;
use super::ancestry::{MOST_DEPTH, parent_of, refuse_loop};
use super::make::added;
use super::remove::{drop_directory, drop_link, leaving};
use crate::ffs::calls::piece::Piece;
use crate::ffs::inodes;
use crate::ffs::names::arrivals;
use crate::ffs::names::dirs::{self, Entry, Found};
use crate::ffs::ondisk::entries::{is_dots, moved, moves_of, type_byte};
use crate::ffs::ondisk::format::MOST_LINKS;
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_fs::call::{Credentials, Errno, FileKind, Ino, MOST_NAME, ROOT, RenameHow};
use seekless_fs::tx::{Field, Freed, Need, Stop, Tx, Why};
use smallvec::{SmallVec, smallvec};

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
    kind: FileKind,
}

impl End {
    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    fn entry<'n>(&self, vol: &Volume, needs: &'n [Need]) -> Result<Entry<'n>, Stop> {
        Ok(Entry {
            ino: vol.number(self.found.ino)?,
            kind: moved(self.kind, moves_of(self.found.kind)),
            needs,
        })
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
    if names.how == RenameHow::Exchange && tx.guards() {
        // No order of two writes keeps both objects named.
        return Err(Errno::Inval.into());
    }
    if source.is_directory() || target.as_ref().is_some_and(End::is_directory) {
        vol.paths.moved();
    }
    if source.is_directory() && names.dir != names.to_dir {
        refuse_loop(tx, vol, source.found.ino, names.to_dir)?;
        wait_for_moves(tx, vol, names.to_dir)?;
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

/// Waits until the old names of the directories above have gone: with one of them on the disk, and
/// the new name of what moves, there could be a circle.
fn wait_for_moves(tx: &mut dyn Tx, vol: &mut Volume, below: Ino) -> Result<(), Stop> {
    let mut at = below;
    while at != ROOT && vol.are_moving() {
        if vol.is_moving(at) {
            return Err(Stop::NoRoom);
        }
        at = parent_of(tx, vol, at)?;
    }
    Ok(())
}

/// Changes an inode that may have been changed before in this operation.
fn update(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    change: impl FnOnce(&mut Inode),
) -> Result<(), Stop> {
    let old = inodes::get(tx, vol, ino)?;
    let mut new = old.clone();
    change(&mut new);
    inodes::put(tx, vol, ino, &old, &new)
}

/// Changes a link count. Returns what it was.
fn change_links(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino, by: i32) -> Result<u16, Stop> {
    let mut old = 0;
    update(tx, vol, ino, |inode| {
        old = inode.links;
        inode.links = (i32::from(old) + by).clamp(0, i32::from(u16::MAX)) as u16;
    })?;
    Ok(old)
}

/// Where writes are ordered, an object counts both of its names until the old one is gone.
fn raise(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<Need, Stop> {
    if tx.guards() {
        change_links(tx, vol, ino, 1)?;
    }
    Ok(Need { field: inodes::links_field(vol, ino)?, why: Why::Link })
}

/// The old name is going: the object counts one name again when it is gone.
fn lower(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino, old_name: (Ino, Field)) -> Result<(), Stop> {
    if tx.guards() {
        let old = change_links(tx, vol, ino, -1)?;
        inodes::lowered(tx, vol, (ino, old), old_name)?;
    }
    Ok(())
}

/// Both directories have changed: sets their times.
fn directories_changed(tx: &mut dyn Tx, vol: &mut Volume, names: Rename<'_>) -> Result<(), Stop> {
    let now = tx.now();
    for dir in [names.dir, names.to_dir] {
        update(tx, vol, dir, |inode| (inode.mtime, inode.ctime) = (now, now))?;
    }
    Ok(())
}

fn touch(tx: &mut dyn Tx, vol: &mut Volume, ino: Ino) -> Result<(), Stop> {
    let now = tx.now();
    update(tx, vol, ino, |inode| inode.ctime = now)
}

/// A directory has another parent: sets its `..`, once the new name is there.
fn set_parent(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    moved: &End,
    parent: Ino,
    name: Field,
) -> Result<Field, Stop> {
    let dir = (moved.found.ino, &moved.inode);
    let up = dirs::parent_entry(tx, vol, dir)?;
    let kind = type_byte(FileKind::Directory);
    let mut needs: SmallVec<[Need; 2]> = smallvec![Need { field: name, why: Why::Link }];
    needs.extend(inodes::body(tx, vol, parent)?);
    let above = if planted(PlantedBug::MovedKeepsParent) { up.ino } else { parent };
    let field =
        dirs::replace(tx, vol, dir, up, Entry { ino: vol.number(above)?, kind, needs: &needs })?;
    vol.set_parent(moved.found.ino, Some(parent));
    Ok(field)
}

/// The object has its new name. The old one goes, and what counted it: one link of the object, and
/// one of its old directory if it is a directory itself that has left it, or has replaced another.
fn leave(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    names: Rename<'_>,
    source: &End,
    (name, loses): (Field, bool),
) -> Result<(), Stop> {
    let mut needs: SmallVec<[Need; 2]> = smallvec![Need { field: name, why: Why::Link }];
    needs.extend(inodes::body(tx, vol, names.to_dir)?);
    if source.is_directory() && names.dir != names.to_dir {
        let field = set_parent(tx, vol, source, names.to_dir, name)?;
        needs.push(Need { field, why: Why::Link });
    }
    if tx.guards() {
        if source.is_directory() {
            arrivals::arrives(tx, vol, source.found.ino, name)?;
        }
        if names.dir != names.to_dir {
            way_down(tx, vol, names.to_dir, &mut needs)?;
        }
    }
    let dir = inodes::directory(tx, vol, names.dir)?;
    let from = (names.dir, &dir);
    let old = match tx.guards() && !planted(PlantedBug::RenameRemovesFirst) {
        true => dirs::remove_after(tx, vol, from, names.name, source.found, &needs)?,
        false => dirs::remove(tx, vol, from, names.name, source.found)?,
    };
    tx.writes_at_once(old);
    if source.is_directory() && names.dir != names.to_dir {
        let what = Piece::Name { dir: vol.number(source.found.ino)? }.into();
        if tx.tell_later(Freed { what, after: old, exact: true }) {
            vol.moves(source.found.ino);
        }
        if inodes::body(tx, vol, names.dir)?.is_some() {
            inodes::body_changes(tx, vol, names.dir)?;
        }
    }
    lower(tx, vol, source.found.ino, (names.dir, old))?;
    if loses {
        let links = change_links(tx, vol, names.dir, -1)?;
        inodes::lowered(tx, vol, (names.dir, links), (names.dir, old))?;
    }
    Ok(())
}

/// What must be on the disk before a directory can be reached there: new names of it, and of those
/// above it.
fn way_down(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Ino,
    needs: &mut SmallVec<[Need; 2]>,
) -> Result<(), Stop> {
    let mut at = dir;
    for _ in 0..MOST_DEPTH {
        if at == ROOT || vol.all_arrived() {
            return Ok(());
        }
        if let Some(need) = arrivals::arrival(tx, vol, at)? {
            needs.push(need);
            let parent = parent_of(tx, vol, at)?;
            needs.extend(inodes::body(tx, vol, parent)?);
        }
        at = parent_of(tx, vol, at)?;
    }
    Err(Errno::Io.into())
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
    let ino = source.found.ino;
    // In one directory the count rises and falls again: what counts the old name may not be there.
    let counts = source.is_directory() && (names.dir != names.to_dir || tx.guards());
    let mut needs: SmallVec<[Need; 2]> = smallvec![raise(tx, vol, ino)?];
    if source.is_directory() && names.dir != names.to_dir {
        check_links(tx, vol, names.to_dir)?;
    }
    if counts {
        change_links(tx, vol, names.to_dir, 1)?;
        needs.push(Need { field: inodes::links_field(vol, names.to_dir)?, why: Why::Link });
    }
    let old = inodes::directory(tx, vol, names.to_dir)?;
    let mut new = old.clone();
    let entry = source.entry(vol, &needs)?;
    let name = dirs::add(tx, vol, (names.to_dir, &mut new), names.to_name, entry, who)?;
    inodes::put(tx, vol, names.to_dir, &old, &new)?;
    added(tx, vol, (names.to_dir, &old, &new), name)?;
    leave(tx, vol, names, source, (name, counts))?;
    touch(tx, vol, ino)?;
    directories_changed(tx, vol, names)
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
    let ino = source.found.ino;
    let mut needs: SmallVec<[Need; 2]> = smallvec![raise(tx, vol, ino)?];
    let counts = source.is_directory() && tx.guards();
    if counts {
        // The name may not be on the disk, nor what counts it.
        change_links(tx, vol, names.to_dir, 1)?;
        needs.push(Need { field: inodes::links_field(vol, names.to_dir)?, why: Why::Link });
    }
    if target.is_directory() {
        needs.extend(leaving(tx, vol, target.found.ino)?);
    }
    let to_dir = inodes::directory(tx, vol, names.to_dir)?;
    let entry = source.entry(vol, &needs)?;
    let name = dirs::replace(tx, vol, (names.to_dir, &to_dir), target.found, entry)?;
    tx.writes_at_once(name);
    vol.names_change(ino, names.to_dir);
    // The target's inode may be used again before the volume has forgotten this name of it.
    vol.names_change(target.found.ino, names.to_dir);
    // Of two directories in one, one is left; a directory that moves over another one takes its
    // link to the new parent over.
    leave(tx, vol, names, source, (name, source.is_directory()))?;
    let gone = target.found.ino;
    let links = if target.is_directory() && target.inode.links > 2 {
        // A crash in a rename has left it another name.
        drop_link(tx, vol, (gone, &target.inode), (names.to_dir, name))?
    } else if target.is_directory() {
        drop_directory(tx, vol, (gone, &target.inode), (names.to_dir, name))?;
        if counts {
            let links = change_links(tx, vol, names.to_dir, -1)?;
            inodes::lowered(tx, vol, (names.to_dir, links), (names.to_dir, name))?;
        }
        0
    } else if planted(PlantedBug::ReplacedTargetFreed) {
        change_links(tx, vol, gone, -1)?.saturating_sub(1)
    } else {
        drop_link(tx, vol, (gone, &target.inode), (names.to_dir, name))?
    };
    touch(tx, vol, ino)?;
    directories_changed(tx, vol, names)?;
    Ok(Removed { ino: gone, last: links == 0 })
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
    let entry = source.entry(vol, &[])?;
    let to_name = dirs::replace(tx, vol, (names.to_dir, &to_dir), target.found, entry)?;
    vol.names_change(source.found.ino, names.to_dir);
    let dir = inodes::directory(tx, vol, names.dir)?;
    let entry = target.entry(vol, &[])?;
    let name = dirs::replace(tx, vol, (names.dir, &dir), source.found, entry)?;
    vol.names_change(target.found.ino, names.dir);
    for (moved, parent, name) in [(source, names.to_dir, to_name), (target, names.dir, name)] {
        if other && moved.is_directory() {
            set_parent(tx, vol, moved, parent, name)?;
        }
        touch(tx, vol, moved.found.ino)?;
        tx.writes_at_once(name);
    }
    if other {
        change_links(tx, vol, names.dir, -comes)?;
        change_links(tx, vol, names.to_dir, comes)?;
    }
    directories_changed(tx, vol, names)
}
