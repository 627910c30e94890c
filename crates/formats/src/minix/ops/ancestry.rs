//! Which directories lie above another one: `..` leads up, and lookups have found most of it.

use crate::minix::inodes;
use crate::minix::names;
use crate::minix::ondisk::inode::ROOT_INODE;
use crate::minix::volume::Volume;
use seekless_fs::call::Errno;
use seekless_fs::tx::{Stop, Tx};

/// Directories above another one at most, as a guard against damage.
const MOST_DEPTH: u32 = 1 << 20;
/// Of them, those that no lookup has found, and that are read. A client finds the directories of a
/// path before it names them, so this is a guard against damage, too.
const MOST_READ: u32 = 16;

/// The directory above one.
fn parent_of(tx: &mut dyn Tx, vol: &Volume, dir: u32, read: &mut u32) -> Result<u32, Stop> {
    if let Some(parent) = vol.parent(dir) {
        return Ok(parent);
    }
    *read += 1;
    let inode = inodes::raw(tx, vol, dir)?;
    if *read > MOST_READ || !inode.is_directory() {
        return Err(Errno::Io.into());
    }
    names::parent(tx, vol, &inode)
}

/// Refuses to move a directory into itself: `below` must not lie in it.
///
/// # Errors
/// [`Errno::Inval`] if it does; [`Errno::Io`] if the way up is damaged; those of [`Tx::page`].
pub(super) fn refuse_loop(
    tx: &mut dyn Tx,
    vol: &Volume,
    moved: u32,
    below: u32,
) -> Result<(), Stop> {
    let (mut at, mut read) = (below, 0);
    for _ in 0..MOST_DEPTH {
        if at == moved {
            return Err(Errno::Inval.into());
        }
        if at == ROOT_INODE {
            return Ok(());
        }
        at = parent_of(tx, vol, at, &mut read)?;
    }
    Err(Errno::Io.into())
}
