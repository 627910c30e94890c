//! Inodes: allocation, initialisation of their table, and freeing.

use crate::ffs::calls::piece::Piece;
use crate::ffs::inodes;
use crate::ffs::ondisk::format::FIRST_INODE;
use crate::ffs::ondisk::group::offset;
use crate::ffs::ondisk::inode::{INODE_BYTES, Inode};
use crate::ffs::space::alloc::bits::Bits;
use crate::ffs::space::alloc::group;
use crate::ffs::volume::Volume;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Errno, FileKind, Ino};
use seekless_fs::tx::{BlockNo, Field, Freed, Need, PageKind, Role, SECTOR_CONTENT, Stop, Tx, Why};
use smallvec::SmallVec;

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
        let bits = Bits::inodes(&vol.geometry, group);
        bits.put(tx, index, 1, 1)?;
        if !planted(PlantedBug::InodeBeforeBitmap) {
            vol.need(Ino::from(ino), Need { field: bits.field(index), why: Why::Bits });
        }
        initialise(tx, vol, group, index)?;
        vol.change_group(group, |g| {
            g.free_inodes -= 1;
            g.inode_rotor = index;
            let directory = u32::from(kind == FileKind::Directory);
            g.directories += directory;
            g.recounted += if index < g.recounted_to { directory } else { 0 };
        });
        if kind == FileKind::Directory {
            group::note_directories(tx, vol, group)?;
        }
        let old = inodes::raw(tx, vol, ino)?;
        if !old.is_free() {
            tx.contradicts(vol.geometry.inode_bit(ino).block);
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
    tx.set(header.block, at, &until.to_le_bytes());
    // A check reads the table up to the mark. After a crash it may lie behind the table.
    let table =
        |number| Need { field: Field::new(first + u64::from(number), 0, bytes), why: Why::Content };
    let needs: SmallVec<[Need; 2]> = (done / per_block..until / per_block).map(table).collect();
    let mark = Field::new(header.block, at, 4);
    tx.guard(&[(mark, &done.to_le_bytes())], &needs, Role::Replaces);
    vol.change_group(group, |g| g.initialised = until);
    vol.paths.grown(group);
    Ok(())
}

/// After a crash: raises the mark of a group over blocks of its table that hold inodes.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn raise_mark(tx: &mut dyn Tx, vol: &mut Volume, group: u32) -> Result<(), Stop> {
    let per_block = vol.geometry.inodes_per_block();
    let table = vol.geometry.table_of(group);
    let old = vol.group(group).initialised;
    let (mut mark, mut needs) = (old, SmallVec::<[Need; 2]>::new());
    while mark < vol.geometry.sizes().inodes_per_group {
        let block = table + u64::from(mark / per_block);
        let Some(made) = holds_inodes(tx, block)? else { break };
        let sectors = made.into_iter().map(|at| Field::new(block, at, SECTOR_BYTES));
        needs.extend(sectors.map(|field| Need { field, why: Why::Content }));
        mark += per_block;
    }
    if mark > old {
        let header = vol.geometry.header_of(group);
        tx.page(header.block, PageKind::Bitmap)?;
        let at = header.at + offset::INITIALISED;
        tx.set(header.block, at, &mark.to_le_bytes());
        let field = Field::new(header.block, at, 4);
        tx.guard(&[(field, &old.to_le_bytes())], &needs, Role::Replaces);
        vol.change_group(group, |g| g.initialised = mark);
    }
    Ok(())
}

/// Offsets of sectors in a block.
type Sectors = SmallVec<[usize; 16]>;

/// Looks for inodes in use in a block of the table behind the mark; none if there are none. What
/// the first write of the block has not reached then becomes free inodes: its sectors, by offset.
fn holds_inodes(tx: &mut dyn Tx, block: BlockNo) -> Result<Option<Sectors>, Stop> {
    let (mut used, mut unwritten) = (false, Sectors::new());
    for at in (0..tx.block_bytes()).step_by(SECTOR_BYTES) {
        match tx.part(block, at, SECTOR_BYTES, PageKind::Inodes) {
            // No seal: no write has reached it.
            Err(Stop::Refused(_)) => unwritten.push(at),
            sector => {
                let mut inodes = sector?[..SECTOR_CONTENT].chunks_exact(INODE_BYTES);
                used |= inodes.any(|bytes| !Inode::decode(bytes).is_free());
            }
        }
    }
    if !used {
        return Ok(None);
    }
    unwritten.iter().for_each(|&at| tx.fresh(block, PageKind::Inodes, at, SECTOR_BYTES));
    Ok(Some(unwritten))
}

/// Frees an inode whose blocks are freed. Its generation stays. Where writes are ordered, its
/// number is free when the disk knows that.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn free(tx: &mut dyn Tx, vol: &mut Volume, ino: u32, inode: &Inode) -> Result<(), Stop> {
    let cleared = Inode { generation: inode.generation, ..Inode::default() };
    let directory = inode.kind() == Some(FileKind::Directory);
    vol.gives_up_inode(ino);
    inodes::init(tx, vol, Ino::from(ino), &cleared)?;
    tx.adopted(ino);
    let what = Piece::Inode { ino, directory }.into();
    let field = inodes::field(vol, ino);
    if tx.free_later(Freed { what, after: field, exact: true }, None) {
        vol.change_owed(|owed| owed.inodes += 1);
        if directory {
            vol.leaves_directory(ino);
        }
        return Ok(());
    }
    mark_free(tx, vol, ino, directory)
}

/// Frees the number of an inode of which the disk knows that it is free.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn release(tx: &mut dyn Tx, vol: &mut Volume, ino: u32, directory: bool) -> Result<(), Stop> {
    vol.change_owed(|owed| owed.inodes -= 1);
    if directory {
        vol.left_directory(ino);
    }
    mark_free(tx, vol, ino, directory)
}

fn mark_free(tx: &mut dyn Tx, vol: &mut Volume, ino: u32, directory: bool) -> Result<(), Stop> {
    let group = vol.geometry.group_of_inode(ino);
    if vol.is_closed(group) {
        return Ok(());
    }
    let index = ino % vol.geometry.sizes().inodes_per_group;
    let bits = Bits::inodes(&vol.geometry, group);
    if bits.get(tx, index, 1)? == 0 {
        tx.contradicts(vol.geometry.inode_bit(ino).block);
        return Err(Errno::Io.into());
    }
    bits.put(tx, index, 1, 0)?;
    vol.change_group(group, |g| {
        g.free_inodes += 1;
        g.directories -= u32::from(directory && g.directories > 0);
        let counted = directory && index < g.recounted_to;
        g.recounted -= u32::from(counted && g.recounted > 0);
        g.inode_rotor = g.inode_rotor.min(index);
    });
    if directory { group::note_directories(tx, vol, group) } else { Ok(()) }
}
