//! Which directories lie above another one.
//!
//! `..` leads up. A crash under soft updates may leave a directory two names, of which `..` knows
//! one. Such a directory has a link more than its own two and those of the directories in it. Where
//! one lies above, what is to be moved is searched for it from above.

#[cfg(test)]
mod tests;

use crate::ffs::inodes;
use crate::ffs::names::dirs;
use crate::ffs::ondisk::entries::{is_dots, kind_of_type};
use crate::ffs::ondisk::inode::Inode;
use crate::ffs::volume::Volume;
use seekless_fs::call::{Errno, FileKind, Ino, ROOT};
use seekless_fs::tx::{Stop, Tx};
use std::collections::BTreeSet;

/// Directories above another one at most, as a guard against damage.
pub(super) const MOST_DEPTH: u32 = 1 << 20;
/// Directories that a search from above reads at most. Behind that a move is refused.
const MOST_SEARCHED: usize = 4096;

/// Refuses to move a directory into itself: `below` must not lie in it, by none of its names.
///
/// # Errors
/// [`Errno::Inval`] if it does, or may; those of [`dirs::find`].
pub(super) fn refuse_loop(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    moved: Ino,
    below: Ino,
) -> Result<(), Stop> {
    let (mut above, mut may_have_two) = (BTreeSet::new(), false);
    let mut at = below;
    for _ in 0..MOST_DEPTH {
        if at == moved {
            return Err(Errno::Inval.into());
        }
        if at == ROOT {
            return match may_have_two && reaches(tx, vol, moved, &above)? {
                true => Err(Errno::Inval.into()),
                false => Ok(()),
            };
        }
        if vol.may_have_two_names() {
            above.insert(at);
            may_have_two |= has_link_more(tx, vol, at)?;
        }
        at = parent_of(tx, vol, at)?;
    }
    Err(Errno::Io.into())
}

/// The directory above one.
///
/// # Errors
/// Those of [`dirs::find`].
pub(super) fn parent_of(tx: &mut dyn Tx, vol: &mut Volume, dir: Ino) -> Result<Ino, Stop> {
    match vol.parent(dir) {
        Some(parent) => Ok(parent),
        None => {
            let inode = inodes::directory(tx, vol, dir)?;
            dirs::parent(tx, vol, (dir, &inode))
        }
    }
}

/// The directories in one.
fn directories_in(
    tx: &mut dyn Tx,
    vol: &Volume,
    (dir, inode): (Ino, &Inode),
) -> Result<Vec<Ino>, Stop> {
    let mut all = Vec::new();
    dirs::list(tx, vol, (dir, inode), 0, u64::MAX, |found, name| {
        if !is_dots(name) && kind_of_type(found.kind) == Some(FileKind::Directory) {
            all.push(found.ino);
        }
        true
    })?;
    Ok(all)
}

/// True if a directory has a link that neither its own nor those of the directories in it explain:
/// it may have two names.
fn has_link_more(tx: &mut dyn Tx, vol: &Volume, dir: Ino) -> Result<bool, Stop> {
    let inode = inodes::directory(tx, vol, dir)?;
    let within = directories_in(tx, vol, (dir, &inode))?.len();
    Ok(usize::from(inode.links) > 2 + within)
}

/// True if one of some directories lies below another one, or may.
fn reaches(tx: &mut dyn Tx, vol: &Volume, from: Ino, to: &BTreeSet<Ino>) -> Result<bool, Stop> {
    let (mut todo, mut seen) = (vec![from], BTreeSet::from([from]));
    while let Some(dir) = todo.pop() {
        if seen.len() > MOST_SEARCHED {
            return Ok(true);
        }
        let inode = inodes::get(tx, vol, dir)?;
        for below in directories_in(tx, vol, (dir, &inode))? {
            if to.contains(&below) {
                return Ok(true);
            }
            if seen.insert(below) {
                todo.push(below);
            }
        }
    }
    Ok(false)
}
