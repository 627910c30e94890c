//! From blocks of a file to addresses: twelve direct ones, then up to three levels of indirect
//! blocks.

use crate::ffs::ondisk::fields::u32_at;
use crate::ffs::ondisk::format::address_offset;
use crate::ffs::ondisk::geometry::{Fragment, Geometry};
use crate::ffs::ondisk::inode::{DIRECT, INDIRECT, Inode};
use crate::ffs::space::alloc::block::{self, Wish};
use crate::ffs::space::alloc::group;
use crate::ffs::volume::Volume;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::{Credentials, Errno, Ino};
use seekless_fs::tx::{BlockNo, Field, Need, PageKind, Role, Stop, Tx, Why};
use smallvec::SmallVec;

/// Where the address of a block of a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// In the inode.
    Direct(usize),
    /// In an indirect block, at this offset.
    In(BlockNo, usize),
}

/// The way to an address: the level of its tree and the index at each level, top down.
struct Path {
    level: usize,
    indices: SmallVec<[usize; INDIRECT]>,
}

/// The first block of the file that the tree of a level maps, and how many it maps. Level 0 is the
/// direct addresses.
pub fn tree(geometry: &Geometry, level: usize) -> (u64, u64) {
    let each = geometry.addresses_per_block() as u64;
    let (mut base, mut span) = (0, DIRECT as u64);
    for below in 0..level {
        base += span;
        span = if below == 0 { each } else { span * each };
    }
    (base, span)
}

fn path(geometry: &Geometry, index: u64) -> Result<Path, Stop> {
    for level in 1..=INDIRECT {
        let (base, span) = tree(geometry, level);
        if index < base + span {
            let each = geometry.addresses_per_block() as u64;
            let mut rest = index - base;
            let mut indices: SmallVec<[usize; INDIRECT]> = SmallVec::new();
            for _ in 0..level {
                indices.push((rest % each) as usize);
                rest /= each;
            }
            indices.reverse();
            return Ok(Path { level, indices });
        }
    }
    Err(Errno::FBig.into())
}

/// The address at an offset of an indirect block.
fn pointer(tx: &mut dyn Tx, block: BlockNo, at: usize) -> Result<Fragment, Stop> {
    // Only this sector: a damaged one costs its own addresses.
    let first = at / SECTOR_BYTES * SECTOR_BYTES;
    Ok(u32_at(tx.part(block, first, SECTOR_BYTES, PageKind::Indirect)?, at - first))
}

/// The block of an address, if it can be one of an indirect block.
///
/// # Errors
/// [`Errno::Io`] if a damaged address leads out of the data.
pub fn block_at(geometry: &Geometry, at: Fragment) -> Result<BlockNo, Stop> {
    let per_block = geometry.fragments_per_block();
    if !at.is_multiple_of(per_block) || !geometry.is_data(at, per_block) {
        return Err(Errno::Io.into());
    }
    Ok(geometry.block_of(at))
}

/// The address of a block of a file; 0 for a hole.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn address(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, index: u64) -> Result<Fragment, Stop> {
    let geometry = &vol.geometry;
    if index < DIRECT as u64 {
        return checked(geometry, inode.direct[index as usize]);
    }
    let path = path(geometry, index)?;
    let mut at = inode.indirect[path.level - 1];
    for index in path.indices {
        if at == 0 {
            return Ok(0);
        }
        at = pointer(tx, block_at(geometry, at)?, address_offset(index))?;
    }
    checked(geometry, at)
}

/// Refuses an address that leads out of the data.
fn checked(geometry: &Geometry, at: Fragment) -> Result<Fragment, Stop> {
    if at != 0 && !geometry.is_data(at, 1) { Err(Errno::Io.into()) } else { Ok(at) }
}

/// Where the address of a block of a file stands; makes the indirect blocks on the way.
///
/// # Errors
/// [`Errno::FBig`]; [`Stop::NoRoom`]; those of [`Tx::page`].
pub fn slot(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    inode: &mut Inode,
    index: u64,
    wish: Wish,
) -> Result<Slot, Stop> {
    if index < DIRECT as u64 {
        return Ok(Slot::Direct(index as usize));
    }
    let path = path(&vol.geometry, index)?;
    let root = path.level - 1;
    if inode.indirect[root] == 0 {
        let at = new_indirect(tx, vol, (ino, inode), wish)?;
        inode.indirect[root] = at;
        let needs = block::needs(vol, at, vol.geometry.fragments_per_block(), PageKind::Indirect);
        needs.into_iter().for_each(|need| vol.need(ino, need));
    }
    let mut at = inode.indirect[root];
    let (last, upper) = path.indices.split_last().ok_or(Errno::Io)?;
    for &index in upper {
        let block = block_at(&vol.geometry, at)?;
        let offset = address_offset(index);
        at = pointer(tx, block, offset)?;
        if at == 0 {
            at = new_indirect(tx, vol, (ino, inode), wish)?;
            tx.set(block, offset, &at.to_le_bytes());
            tx.belongs(block, ino);
            let fragments = vol.geometry.fragments_per_block();
            let needs = block::needs(vol, at, fragments, PageKind::Indirect);
            guard_address(tx, vol, ino, (block, offset, 0), &needs);
        }
    }
    let (block, offset) = (block_at(&vol.geometry, at)?, address_offset(*last));
    // The caller may set the address without looking at it. A damaged sector must not get a seal.
    pointer(tx, block, offset)?;
    Ok(Slot::In(block, offset))
}

fn new_indirect(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    (ino, inode): (Ino, &mut Inode),
    wish: Wish,
) -> Result<Fragment, Stop> {
    let at = block::allocate(tx, vol, Wish { blocks: 1, ..wish })?;
    tx.fresh(vol.geometry.block_of(at), PageKind::Indirect, 0, vol.geometry.block_bytes());
    tx.writes_at_once(Field::new(vol.geometry.block_of(at), 0, vol.geometry.block_bytes()));
    tx.belongs(vol.geometry.block_of(at), ino);
    let per_block = vol.geometry.fragments_per_block();
    vol.paths.claimed(ino, at, per_block, per_block);
    let sectors = vol.geometry.sectors_per_block() as u32;
    inode.sectors = inode.sectors.saturating_add(sectors);
    Ok(at)
}

/// A new address in an indirect block, where there was `old`, waits for what it needs. The inode
/// waits for the address: the file has no size without it. Returns the place of the address.
pub(crate) fn guard_address(
    tx: &mut dyn Tx,
    vol: &mut Volume,
    ino: Ino,
    (block, offset, old): (BlockNo, usize, Fragment),
    needs: &[Need],
) -> Field {
    let field = Field::new(block, offset, 4);
    tx.guard(&[(field, &old.to_le_bytes())], needs, Role::Replaces);
    vol.need(ino, Need { field, why: Why::Address });
    field
}

/// The address in a slot.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn get(tx: &mut dyn Tx, vol: &Volume, inode: &Inode, slot: Slot) -> Result<Fragment, Stop> {
    let at = match slot {
        Slot::Direct(index) => inode.direct[index],
        Slot::In(block, offset) => pointer(tx, block, offset)?,
    };
    checked(&vol.geometry, at)
}

/// Sets the address in a slot that [`slot`] has given.
pub fn set(tx: &mut dyn Tx, ino: Ino, inode: &mut Inode, slot: Slot, at: Fragment) {
    match slot {
        Slot::Direct(index) => inode.direct[index] = at,
        Slot::In(block, offset) => {
            tx.set(block, offset, &at.to_le_bytes());
            tx.belongs(block, ino);
        }
    }
}

/// Where a new block of a file should go: behind its predecessor, or, where a section begins, in
/// the inode's group (the blocks of the first two sections) or a group with much room.
///
/// # Errors
/// Those of [`Tx::page`].
pub fn wish(
    tx: &mut dyn Tx,
    vol: &Volume,
    (ino, inode): (Ino, &Inode),
    index: u64,
    blocks: u32,
    who: Credentials,
) -> Result<Wish, Stop> {
    let home = vol.geometry.group_of_inode(vol.number(ino)?);
    let direct = DIRECT as u64;
    let begins =
        index == 0 || (index >= direct && (index - direct).is_multiple_of(u64::from(vol.maxbpg)));
    let before = match index {
        0 => 0,
        _ => address(tx, vol, inode, index - 1)?,
    };
    if before != 0 && !begins {
        let at = before.checked_add(vol.geometry.fragments_per_block());
        let group = vol.geometry.group_of_fragment(before);
        let at = at.filter(|&at| at < vol.geometry.fragments());
        return Ok(Wish { who, at, group, blocks });
    }
    let near = direct + vol.geometry.addresses_per_block() as u64;
    let group = match before {
        _ if index < near => home,
        0 => {
            let sections = (index / u64::from(vol.maxbpg)) as u32;
            group::for_section(vol, (home + sections) % vol.geometry.groups())
        }
        _ => {
            let after = vol.geometry.group_of_fragment(before) + 1;
            group::for_section(vol, after % vol.geometry.groups())
        }
    };
    Ok(Wish { who, at: None, group, blocks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::ondisk::geometry::Sizes;

    #[test]
    fn trees_follow_each_other_without_a_gap() {
        let geometry = Geometry::new(Sizes {
            block_bytes: 4096,
            fragment_bytes: 1024,
            fragments: 8192,
            fragments_per_group: 8192,
            inodes_per_group: 128,
            stagger: 0,
        })
        .expect("possible");
        let each = 1008;
        assert_eq!(tree(&geometry, 0), (0, 12));
        assert_eq!(tree(&geometry, 1), (12, each));
        assert_eq!(tree(&geometry, 2), (12 + each, each * each));
        assert_eq!(tree(&geometry, 3), (12 + each + each * each, each * each * each));
        let at = |index| path(&geometry, index).map(|p| (p.level, p.indices.to_vec()));
        assert_eq!(at(12), Ok((1, vec![0])));
        assert_eq!(at(12 + each - 1), Ok((1, vec![1007])));
        assert_eq!(at(12 + each), Ok((2, vec![0, 0])));
        assert_eq!(at(12 + each + each * each + 1), Ok((3, vec![0, 0, 1])));
        assert!(at(12 + each + each * each + each * each * each).is_err());
    }
}
