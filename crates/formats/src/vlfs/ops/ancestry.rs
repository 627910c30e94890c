//! Which directories lie above another one: lookups have found most of it, and the attributes of
//! each name the next.

use crate::vlfs::inodes;
use crate::vlfs::ondisk::attributes::Inode;
use crate::vlfs::ondisk::{ObjectNr, ROOT_OBJECT};
use crate::vlfs::volume::Volume;
use seekless_fs::call::{Errno, Ino};
use seekless_fs::tx::{Stop, Tx};

/// Directories above another one at most, as a guard against damage.
const MOST_DEPTH: u32 = 1 << 20;
/// Of them, those that no lookup has found, and that are read. A client finds the directories of a
/// path before it names them, so this is a guard against damage, too.
const MOST_READ: u32 = 16;

/// The directory above one.
fn parent_of(
    tx: &mut dyn Tx,
    vol: &Volume,
    dir: ObjectNr,
    read: &mut u32,
) -> Result<ObjectNr, Stop> {
    if let Some(parent) = vol.parent(dir) {
        return Ok(parent);
    }
    *read += 1;
    let object = vol.number(Ino::from(dir)).ok_or(Errno::Io)?;
    let inode = Inode::decode(&inodes::raw(tx, object)?);
    match *read > MOST_READ || !inode.is_directory() {
        true => Err(Errno::Io.into()),
        false => Ok(inode.parent),
    }
}

/// Refuses to move a directory into itself: `below` must not lie in it.
///
/// # Errors
/// [`Errno::Inval`] if it does; [`Errno::Io`] if the way up is damaged; those of [`Tx::page`].
pub(super) fn refuse_loop(
    tx: &mut dyn Tx,
    vol: &Volume,
    moved: ObjectNr,
    below: ObjectNr,
) -> Result<(), Stop> {
    let (mut at, mut read) = (below, 0);
    for _ in 0..MOST_DEPTH {
        if at == moved {
            return Err(Errno::Inval.into());
        }
        if at == ROOT_OBJECT {
            return Ok(());
        }
        at = parent_of(tx, vol, at, &mut read)?;
    }
    Err(Errno::Io.into())
}
