//! Inodes: allocation, initialisation of their table, and freeing.

use crate::call::{Errno, FileKind, Ino};
use crate::ffs::alloc::bits::Bits;
use crate::ffs::alloc::group;
use crate::ffs::format::FIRST_INODE;
use crate::ffs::group::offset;
use crate::ffs::inode::Inode;
use crate::ffs::inodes;
use crate::ffs::volume::Volume;
use crate::tx::{Change, PageKind, Stop, Tx};

/// Allocates an inode for an object in a directory. Returns its number and what it held before.
///
/// # Errors
/// [`Stop::NoRoom`] if there is none; those of [`Tx::page`].
pub fn allocate(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    dir: Ino,
    kind: FileKind,
) -> Result<(u32, Inode), Stop> {
    let near = vol.geometry.group_of_inode(vol.number(dir)?);
    let wanted = match kind {
        FileKind::Directory => group::for_directory(vol, near),
        _ => near,
    };
    for group in group::order(wanted, vol.geometry.groups()) {
        if vol.group(group).free_inodes == 0 {
            continue;
        }
        let Some(index) = find(tx, vol, group)? else { continue };
        let ino = group * vol.geometry.sizes().inodes_per_group + index;
        Bits::inodes(&vol.geometry, group).put(tx, index, 1, 1)?;
        initialise(tx, vol, group, index)?;
        vol.change_group(group, |g| {
            g.free_inodes -= 1;
            g.inode_rotor = index;
            g.directories += u32::from(kind == FileKind::Directory);
        });
        let old = inodes::raw(tx, vol, ino)?;
        if !old.is_free() {
            return Err(Errno::Io.into());
        }
        return Ok((ino, old));
    }
    Err(Stop::NoRoom)
}

/// A free inode of a group: from the rotor on, then from the start.
fn find(tx: &mut dyn Tx, vol: &Volume, group: u32) -> Result<Option<u32>, Stop> {
    let first = if group == 0 { FIRST_INODE } else { 0 };
    let rotor = vol.group(group).inode_rotor.max(first);
    let bits = Bits::inodes(&vol.geometry, group);
    for (from, to) in [(rotor, u32::MAX), (first, rotor)] {
        let free = |base: u32, word: u64| (word != u64::MAX).then(|| base + word.trailing_ones());
        let found = bits.scan(tx, from, to, free)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Zeroes blocks of the inode table up to the one that holds an inode, if that is not done yet.
/// A search begins at the rotor, so usually this is one block.
fn initialise(tx: &mut dyn Tx, vol: &mut Volume, group: u32, index: u32) -> Result<(), Stop> {
    let per_block = vol.geometry.inodes_per_block();
    let done = vol.group(group).initialised;
    if index < done {
        return Ok(());
    }
    let until = (index / per_block + 1) * per_block;
    let bytes = vol.geometry.block_bytes();
    let first = vol.geometry.table_of(group);
    for number in done / per_block..until / per_block {
        tx.fresh(first + u64::from(number), PageKind::Inodes, 0, bytes);
    }
    let header = vol.geometry.header_of(group);
    tx.page(header.block, PageKind::Bitmap)?;
    let at = header.at + offset::INITIALISED;
    tx.set(header.block, at, &until.to_le_bytes(), Change::Plain);
    vol.change_group(group, |g| g.initialised = until);
    vol.paths.grown(group);
    Ok(())
}

/// Frees an inode whose blocks are freed. Its generation stays.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free(tx: &mut dyn Tx, vol: &mut Volume, ino: u32, inode: &Inode) -> Result<(), Stop> {
    let cleared = Inode { generation: inode.generation, ..Inode::default() };
    let is_directory = inode.kind() == Some(FileKind::Directory);
    inodes::init(tx, vol, Ino::from(ino), &cleared)?;
    let group = vol.geometry.group_of_inode(ino);
    if vol.is_closed(group) {
        return Ok(());
    }
    let index = ino % vol.geometry.sizes().inodes_per_group;
    let bits = Bits::inodes(&vol.geometry, group);
    if bits.get(tx, index, 1)? == 0 {
        return Err(Errno::Io.into());
    }
    bits.put(tx, index, 1, 0)?;
    vol.change_group(group, |g| {
        g.free_inodes += 1;
        g.directories -= u32::from(is_directory && g.directories > 0);
        g.inode_rotor = g.inode_rotor.min(index);
    });
    Ok(())
}
