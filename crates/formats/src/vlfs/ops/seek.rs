//! `SEEK_DATA` and `SEEK_HOLE`. Only the drive knows where a file has holes, so all of a file is
//! data, with a hole at its end, as POSIX allows.

use crate::vlfs::inodes;
use crate::vlfs::volume::Volume;
use seekless_fs::call::{Errno, Ino, SeekWhat};
use seekless_fs::tx::{Stop, Tx};

/// Looks for data or a hole from a place on.
///
/// # Errors
/// [`Errno::NxIo`] behind the end; those of [`inodes::file`].
pub fn seek(tx: &mut dyn Tx, vol: &Volume, ino: Ino, at: u64, what: SeekWhat) -> Result<u64, Stop> {
    let (_, inode) = inodes::file(tx, vol, ino)?;
    if at >= inode.size {
        return Err(Errno::NxIo.into());
    }
    Ok(if what == SeekWhat::Data { at } else { inode.size })
}
