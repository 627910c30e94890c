//! `readdir`: entries from a cookie on.

use super::STEP_ZONES;
use crate::minix::inodes::{self, outer};
use crate::minix::names::{self, Found};
use crate::minix::ondisk::entry::ENTRY_BYTES;
use crate::minix::volume::Volume;
use bytes::Bytes;
use seekless_fs::call::{DirEntry, Errno, FileKind, Ino};
use seekless_fs::tx::{PageKind, Stop, Tx};
use std::ops::ControlFlow;

/// Bytes of an entry in the kernel's reply, but for its name.
const REPLY_BYTES: usize = 24;
/// Entries of a reply at most: the inode of each is read.
const MOST: usize = 512;

/// Entries behind a cookie, `.` and `..` included, as many as fit; at least one if there is one.
/// A cookie is the offset behind an entry in the directory. Entries do not move, so a cookie stays
/// valid whatever comes and goes.
///
/// # Errors
/// [`Errno::NotDir`], [`Errno::Stale`]; those of [`names::scan`].
pub fn list(
    tx: &mut dyn Tx,
    vol: &Volume,
    ino: Ino,
    cookie: u64,
    most_bytes: u32,
) -> Result<Vec<DirEntry>, Stop> {
    let (_, inode) = inodes::directory(tx, vol, ino)?;
    if inode.links == 0 {
        return Ok(Vec::new());
    }
    let mut room = most_bytes as usize;
    let mut found: Vec<(Found, Bytes)> = Vec::new();
    let mut from = cookie.next_multiple_of(ENTRY_BYTES as u64);
    while from < u64::from(inode.size) {
        let behind = names::scan(tx, vol, &inode, from, STEP_ZONES, |entry, name| {
            if entry.number == 0 || entry.number > vol.geometry.inodes() || name.is_empty() {
                return ControlFlow::Continue(());
            }
            let bytes = (REPLY_BYTES + name.len()).next_multiple_of(8);
            if (bytes > room || found.len() == MOST) && !found.is_empty() {
                return ControlFlow::Break(());
            }
            room = room.saturating_sub(bytes);
            found.push((entry, Bytes::copy_from_slice(name)));
            ControlFlow::Continue(())
        });
        match behind {
            // What stands before a damaged zone is listed; the next call begins there and fails.
            Err(Stop::Refused(_)) if !found.is_empty() => break,
            Err(stop) => return Err(stop),
            // A long stretch of free entries: go on behind it.
            Ok(behind) if found.is_empty() && behind > from => from = behind,
            Ok(_) => break,
        }
    }
    with_kinds(tx, vol, found)
}

/// An entry has no kind: it is that of its inode.
fn with_kinds(
    tx: &mut dyn Tx,
    vol: &Volume,
    found: Vec<(Found, Bytes)>,
) -> Result<Vec<DirEntry>, Stop> {
    let mut entries = Vec::with_capacity(found.len());
    for (index, (entry, name)) in found.iter().enumerate() {
        let kind = match inodes::raw(tx, vol, entry.number) {
            Ok(inode) => inode.kind().unwrap_or(FileKind::File),
            Err(stop @ Stop::Miss(_)) => {
                let mut last = None;
                for (later, _) in &found[index + 1..] {
                    let page = vol.geometry.inode_place(later.number).page;
                    if last.replace(page) != Some(page) {
                        tx.expect(page, PageKind::Inodes);
                    }
                }
                return Err(stop);
            }
            // The name is there, and a lookup says that what it leads to cannot be read.
            Err(Stop::Refused(Errno::Io)) => FileKind::File,
            Err(stop) => return Err(stop),
        };
        entries.push(DirEntry {
            ino: outer(entry.number),
            kind,
            name: name.clone(),
            cookie: entry.at + ENTRY_BYTES as u64,
        });
    }
    Ok(entries)
}
