//! `readdir`: entries from a cookie on.

use super::STEP_BLOCKS;
use crate::ffs::inodes;
use crate::ffs::names::dirs;
use crate::ffs::ondisk::entries::kind_of_type;
use crate::ffs::volume::Volume;
use bytes::Bytes;
use seekless_fs::call::{DirEntry, Errno, FileKind, Ino};
use seekless_fs::tx::{Stop, Tx};

/// Bytes of an entry in the kernel's reply, but for its name.
const ENTRY_BYTES: usize = 24;

/// Entries behind a cookie, `.` and `..` included, as many as fit; at least one if there is one.
/// A cookie is the offset of an entry in the directory plus 1. Entries do not move, so a cookie
/// stays valid whatever comes and goes.
///
/// # Errors
/// [`Errno::NotDir`], [`Errno::Stale`]; those of [`Tx::page`].
pub fn list(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    cookie: u64,
    most_bytes: u32,
) -> Result<Vec<DirEntry>, Stop> {
    let inode = inodes::get(tx, vol, ino)?;
    if inode.kind() != Some(FileKind::Directory) {
        return Err(Errno::NotDir.into());
    }
    let mut entries = Vec::new();
    if inode.links == 0 {
        return Ok(entries);
    }
    let mut room = most_bytes as usize;
    let block_bytes = vol.geometry.block_bytes() as u64;
    let mut from = cookie;
    while from < inode.size {
        let listed = dirs::list(tx, vol, (ino, &inode), from, STEP_BLOCKS, |found, name| {
            let bytes = (ENTRY_BYTES + name.len()).next_multiple_of(8);
            if bytes > room && !entries.is_empty() {
                room = 0;
                return false;
            }
            room = room.saturating_sub(bytes);
            entries.push(DirEntry {
                ino: found.ino,
                kind: kind_of_type(found.kind).unwrap_or(FileKind::File),
                name: Bytes::copy_from_slice(name),
                cookie: found.at + 1,
            });
            true
        });
        match listed {
            // What stands before a damaged chunk is listed; the next call begins there and fails.
            Err(Stop::Refused(_)) if !entries.is_empty() => return Ok(entries),
            listed => listed?,
        }
        if !entries.is_empty() {
            break;
        }
        // A long stretch of free entries: go on behind it.
        from = (from / block_bytes + STEP_BLOCKS) * block_bytes;
    }
    Ok(entries)
}
