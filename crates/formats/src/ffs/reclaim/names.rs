//! The second stage: counts the names of each inode, in all directories, whether a name leads to
//! the directory or not. Until a directory without a name is gone from the disk its names count.

use super::{Reclaim, STEP_PAGES, Stage, Visit, of};
use crate::ffs::names::dirs::{self, Found};
use crate::ffs::ondisk::entries::{is_dots, kind_of_type};
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode, is_free};
use crate::ffs::volume::Volume;
use seekless_fs::call::{FileKind, Ino, ROOT};
use seekless_fs::tx::{PageKind, Stop, Tx};

/// Blocks of the inode table that a step looks through at most.
const STEP_TABLES: u64 = 8;

/// Where the search for a directory has led.
enum Next {
    Directory(u32, Inode),
    /// None before this inode.
    Later(u32),
    End,
}

/// Reads some blocks of the directory that is next.
pub(super) fn step(tx: &mut dyn Tx, vol: &mut Volume) -> Result<(), Stop> {
    let from = of(vol).next;
    match search(tx, vol, from)? {
        Next::End => of(vol).begin(Stage::Inodes, 0),
        Next::Later(ino) => (of(vol).next, of(vol).visit) = (ino, Visit::default()),
        Next::Directory(ino, inode) => {
            if ino > from {
                // The one that a visit of several steps was at is gone.
                of(vol).visit = Visit::default();
            }
            read(tx, vol, ino, &inode)?;
        }
    }
    Ok(())
}

/// The first directory from an inode on.
fn search(tx: &mut dyn Tx, vol: &Volume, from: u32) -> Result<Next, Stop> {
    let geometry = &vol.geometry;
    let (per_group, per_block) = (geometry.sizes().inodes_per_group, geometry.inodes_per_block());
    let mut ino = from;
    for _ in 0..STEP_TABLES {
        if ino >= geometry.inodes() {
            return Ok(Next::End);
        }
        let group = geometry.group_of_inode(ino);
        let mark = vol.group(group).initialised;
        let index = ino % per_group;
        if index >= mark {
            ino = (group + 1) * per_group;
            continue;
        }
        let block = geometry.inode_place(ino).block;
        for ahead in 1..STEP_TABLES.min(u64::from((mark - index).div_ceil(per_block))) {
            tx.expect(block + ahead, PageKind::Inodes);
        }
        let page = tx.page(block, PageKind::Inodes)?;
        let end = group * per_group + (index / per_block + 1) * per_block;
        for ino in ino..end {
            let at = geometry.inode_place(ino).at;
            let bytes = &page[at..at + INODE_BYTES];
            if is_free(bytes) {
                continue;
            }
            let inode = Inode::decode(bytes);
            if inode.kind() == Some(FileKind::Directory) {
                return Ok(Next::Directory(ino, inode));
            }
        }
        ino = end;
    }
    Ok(Next::Later(ino))
}

/// Reads blocks of a directory, and counts what they name.
fn read(tx: &mut dyn Tx, vol: &mut Volume, number: u32, inode: &Inode) -> Result<(), Stop> {
    let dir = (Ino::from(number), inode);
    let Visit { at, count } = of(vol).visit;
    let blocks = inode.size_blocks(&vol.geometry);
    let end = blocks.min(at + STEP_PAGES as u64).max(at);
    let (mut named, mut children, mut up) = (Vec::new(), count, None);
    let from = at * vol.geometry.block_bytes() as u64;
    dirs::list(tx, vol, dir, from, end - at, |found, name| {
        if name == b".." {
            up = Some(found.ino as u32);
        }
        if !is_dots(name) {
            children += u64::from(is_directory(&found));
            named.push(found);
        }
        true
    })?;
    let reclaim = of(vol);
    if at == 0 {
        reclaim.watch(dir.0);
        note_up(reclaim, number, up);
    }
    for found in named {
        let ino = found.ino as u32;
        if !is_directory(&found) {
            reclaim.names.add(ino);
            continue;
        }
        reclaim.names.lies_in(ino, number);
        if reclaim.ups.get(&ino) == Some(&number) {
            reclaim.ups.remove(&ino);
        }
    }
    if end < blocks {
        (reclaim.next, reclaim.visit) = (number, Visit { at: end, count: children });
        return Ok(());
    }
    if !reclaim.undisturbed() {
        reclaim.again = true;
    } else if let Some(surplus) = u64::from(inode.links).checked_sub(2 + children)
        && surplus > 0
    {
        reclaim.surplus.insert(number, surplus as u32);
    }
    (reclaim.next, reclaim.visit) = (number + 1, Visit::default());
    Ok(())
}

fn is_directory(found: &Found) -> bool {
    kind_of_type(found.kind) == Some(FileKind::Directory)
}

/// Notes where `..` of a directory leads, unless that is where its name stands.
fn note_up(reclaim: &mut Reclaim, number: u32, up: Option<u32>) {
    let is_root = Ino::from(number) == ROOT;
    if let Some(up) = up.filter(|_| !is_root && reclaim.names.covers(number))
        && reclaim.names.parent(number) != Some(up)
    {
        reclaim.ups.insert(number, up);
    }
}
