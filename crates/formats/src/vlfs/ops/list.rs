//! `readdir`: entries from a cookie on.

use super::STEP_BLOCKS;
use crate::vlfs::ondisk::kinds;
use crate::vlfs::volume::Volume;
use crate::vlfs::{inodes, names};
use bytes::Bytes;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::{DirEntry, FileKind, Ino};
use seekless_fs::tx::{Stop, Tx};

/// Bytes of an entry in the kernel's reply, but for its name.
const ENTRY_BYTES: usize = 24;
/// Cookies of `.` and `..`; those of stored entries are their offset and this much more.
const DOTS: u64 = 2;

/// What a step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Entries; none at the end.
    Entries(Vec<DirEntry>),
    /// None before this cookie: call again with it.
    From(u64),
}

/// Entries behind a cookie, `.` and `..` included, as many as fit; at least one if there is one. A
/// long stretch of free entries takes several steps. A cookie says where the next entry is looked
/// for. Entries do not move, so a cookie stays valid whatever comes and goes.
///
/// # Errors
/// [`Errno::NotDir`](seekless_fs::call::Errno::NotDir),
/// [`Errno::Stale`](seekless_fs::call::Errno::Stale); those of [`Tx::page`].
pub fn list(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    cookie: u64,
    most_bytes: u32,
) -> Result<Listed, Stop> {
    let (dir, inode) = inodes::directory(tx, vol, ino)?;
    let mut entries = Vec::new();
    if inode.links == 0 {
        return Ok(Listed::Entries(entries));
    }
    let mut room = most_bytes as usize;
    let mut take = |entry: DirEntry| {
        let bytes = (ENTRY_BYTES + entry.name.len()).next_multiple_of(8);
        if bytes > room && !entries.is_empty() {
            room = 0;
            return false;
        }
        room = room.saturating_sub(bytes);
        entries.push(entry);
        true
    };
    let dots = [(b".".as_slice(), ino), (b"..", Ino::from(inode.parent))];
    for (index, (name, ino)) in (0..).zip(dots).skip(cookie.min(DOTS) as usize) {
        let (kind, name) = (FileKind::Directory, Bytes::from_static(name));
        take(DirEntry { ino, kind, name, cookie: index + 1 });
    }
    let from = cookie.saturating_sub(DOTS);
    let listed = names::list(tx, (dir, &inode), from, STEP_BLOCKS, |found, name| {
        take(DirEntry {
            ino: Ino::from(found.object),
            kind: kinds::kind_of(found.kind).unwrap_or(FileKind::File),
            name: Bytes::copy_from_slice(name),
            cookie: found.at + 1 + DOTS,
        })
    });
    match listed {
        // What stands before a damaged chunk is listed; the next call begins there and fails.
        Err(Stop::Refused(_)) if !entries.is_empty() => return Ok(Listed::Entries(entries)),
        listed => listed?,
    }
    let block_bytes = BLOCK_BYTES as u64;
    let next = (from / block_bytes + STEP_BLOCKS) * block_bytes;
    Ok(match entries.is_empty() && next < inode.size {
        true => Listed::From(next + DOTS),
        false => Listed::Entries(entries),
    })
}
