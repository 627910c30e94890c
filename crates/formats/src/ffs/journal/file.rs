//! The log as a file: inode 3, which has no name.
//!
//! The file lies in one piece in the data of a group, with its indirect blocks right behind it. So
//! the superblock says all of it: inode and indirect blocks are a function of the place of the log
//! ([`LogFile::of`]), and a check that finds others there writes them anew.

use crate::error::FsError;
use crate::ffs::offline::store::Store;
use crate::ffs::ondisk::fields::put;
use crate::ffs::ondisk::format::{LOG_INODE, LogPlace, Superblock, address_offset};
use crate::ffs::ondisk::geometry::{Fragment, Geometry};
use crate::ffs::ondisk::inode::{DIRECT, INODE_BYTES, Inode};
use crate::ffs::ondisk::seal::SealKind;
use seekless_engine::size::Size;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::tx::BlockNo;
use std::ops::Range;

/// What a file system with its log in a file has on the disk for that file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Fragments of the log and of its indirect blocks.
    pub fragments: Range<Fragment>,
    /// The inode.
    pub inode: Inode,
    /// Indirect blocks, without their seals.
    pub indirect: Vec<(BlockNo, Vec<u8>)>,
}

/// Where the addresses of a file of so many whole blocks stand, beside the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// Addresses in the single indirect block; there is none without.
    single: usize,
    /// Addresses below the double indirect block.
    double: usize,
    /// Addresses that an indirect block has.
    each: usize,
}

impl Shape {
    /// None for more blocks than two levels of addresses lead to.
    fn new(geometry: &Geometry, blocks: usize) -> Option<Shape> {
        let each = geometry.addresses_per_block();
        let behind = blocks.saturating_sub(DIRECT);
        let shape = Shape { single: behind.min(each), double: behind.saturating_sub(each), each };
        (behind <= each + each * each).then_some(shape)
    }

    /// Indirect blocks: single, double, and those below the latter.
    fn indirect_blocks(self) -> u32 {
        let below = self.double.div_ceil(self.each);
        u32::from(self.single > 0) + u32::from(below > 0) + below as u32
    }
}

impl LogFile {
    /// The file of the log; none if the log is no file.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if no such file can lie there.
    pub fn of(superblock: &Superblock) -> Result<Option<LogFile>, FsError> {
        if superblock.log.kind != LogPlace::IN_FILE {
            return Ok(None);
        }
        superblock.log_range()?;
        let geometry = superblock.geometry()?;
        let LogPlace { first, fragments, .. } = superblock.log;
        let per_block = geometry.fragments_per_block();
        let blocks = (fragments / per_block) as usize;
        let no_place = || FsError::Damaged("the file of the log has no place".to_owned());
        let shape = Shape::new(&geometry, blocks).ok_or_else(no_place)?;
        let all = first..first + fragments + shape.indirect_blocks() * per_block;
        if !geometry.is_data(first, all.len() as u32) {
            return Err(no_place());
        }
        let mut inode = Inode {
            mode: 0o100_600,
            links: 1,
            generation: 1,
            size: u64::from(fragments) * geometry.fragment_bytes() as u64,
            sectors: (all.len() * geometry.fragment_bytes() / SECTOR_BYTES) as u32,
            atime: superblock.made,
            mtime: superblock.made,
            ctime: superblock.made,
            btime: superblock.made,
            ..Inode::default()
        };
        let address = |block: usize| first + block as u32 * per_block;
        for (block, direct) in inode.direct.iter_mut().enumerate().take(blocks) {
            *direct = address(block);
        }
        let mut writer = Writer { geometry: &geometry, next: address(blocks), blocks: Vec::new() };
        let Shape { single, double, each } = shape;
        if single > 0 {
            inode.indirect[0] = writer.block((DIRECT..DIRECT + single).map(address));
        }
        if double > 0 {
            let from = DIRECT + each;
            let parts = (from..from + double).step_by(each);
            let below: Vec<Fragment> = parts
                .map(|part| writer.block((part..(from + double).min(part + each)).map(address)))
                .collect();
            inode.indirect[1] = writer.block(below.into_iter());
        }
        debug_assert_eq!(writer.next, all.end, "the indirect blocks fill their place");
        let indirect = writer.blocks;
        Ok(Some(LogFile { fragments: all, inode, indirect }))
    }

    /// Writes the indirect blocks. They are not durable yet.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn write_indirect(&self, store: &mut Store<'_>) -> Result<(), FsError> {
        for (block, bytes) in &self.indirect {
            let mut bytes = bytes.clone();
            let place = store.geometry.place_of(store.geometry.first_fragment(*block));
            let sector = store.geometry.sector_of(place);
            store.sealer.set_all(&mut bytes, sector, SealKind::Indirect, 0);
            store.write(*block, bytes)?;
        }
        Ok(())
    }

    /// Writes the inode into its sector of the table, which has its seal.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn write_inode(&self, store: &mut Store<'_>) -> Result<(), FsError> {
        let place = store.geometry.inode_place(LOG_INODE);
        store.edit(place, SealKind::Inodes, |sector, is_whole| {
            if !is_whole {
                sector.fill(0);
            }
            put(sector, place.at % SECTOR_BYTES, &self.inode.encode());
        })
    }

    /// True if the disk has this inode and these indirect blocks.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn is_written(&self, store: &mut Store<'_>) -> Result<bool, FsError> {
        let place = store.geometry.inode_place(LOG_INODE);
        let bytes = store.read(place.block, 1)?;
        let has_inode = store.is_whole(&bytes, place, SealKind::Inodes)
            && Inode::decode(&bytes[place.at..place.at + INODE_BYTES]) == self.inode;
        if !has_inode {
            return Ok(false);
        }
        for (block, right) in &self.indirect {
            let bytes = store.read(*block, 1)?;
            let mut place = store.geometry.place_of(store.geometry.first_fragment(*block));
            for (found, right) in
                bytes.chunks_exact(SECTOR_BYTES).zip(right.chunks_exact(SECTOR_BYTES))
            {
                let content = seekless_fs::tx::SECTOR_CONTENT;
                let is_whole = store.is_whole(&bytes, place, SealKind::Indirect);
                if !is_whole || found[..content] != right[..content] {
                    return Ok(false);
                }
                place.at += SECTOR_BYTES;
            }
        }
        Ok(true)
    }
}

/// Lays indirect blocks one behind the other.
struct Writer<'g> {
    geometry: &'g Geometry,
    /// The first fragment of the next one.
    next: Fragment,
    blocks: Vec<(BlockNo, Vec<u8>)>,
}

impl Writer<'_> {
    /// An indirect block with these addresses. Gives where it lies.
    fn block(&mut self, addresses: impl Iterator<Item = Fragment>) -> Fragment {
        let mut bytes = vec![0; self.geometry.block_bytes()];
        for (index, address) in addresses.enumerate() {
            put(&mut bytes, address_offset(index), &address.to_le_bytes());
        }
        let at = self.next;
        self.next += self.geometry.fragments_per_block();
        self.blocks.push((self.geometry.block_of(at), bytes));
        at
    }
}

/// Bytes of the largest log that fits with its indirect blocks into so many fragments of a group.
pub fn most_bytes(geometry: &Geometry, fragments: u32) -> u64 {
    let all = fragments / geometry.fragments_per_block();
    let fits = |blocks: &u32| {
        let shape = Shape::new(geometry, *blocks as usize);
        shape.is_some_and(|shape| blocks + shape.indirect_blocks() <= all)
    };
    // Indirect blocks are few: the first guesses fit, unless a group is larger than two levels.
    let blocks = (0..=all).rev().find(fits).unwrap_or(0);
    u64::from(blocks) * geometry.block_bytes() as u64
}

/// Places a log in an empty file system: in the middle of the volume, or as near to it as a group
/// has room, in front of the data of the group. Of a group with the root directory, the first block
/// is left out.
///
/// # Errors
/// [`FsError::BadOption`] if no group has the room.
pub fn place(
    geometry: &Geometry,
    (wanted, default): (Option<u64>, u64),
    id: u128,
) -> Result<LogPlace, FsError> {
    let block_bytes = geometry.block_bytes() as u64;
    let rooms = (0..geometry.groups()).map(|group| room(geometry, group));
    let most = rooms.map(|(_, bytes)| bytes).max().unwrap_or(0);
    let bytes = wanted.unwrap_or(default.min(most)) / block_bytes * block_bytes;
    let middle = geometry.groups() / 2;
    let fits = (0..geometry.groups()).filter(|&group| room(geometry, group).1 >= bytes);
    let Some(group) = fits.min_by_key(|group| group.abs_diff(middle)) else {
        let most = Size::from_blocks(most / BLOCK_BYTES as u64);
        return Err(FsError::BadOption(format!(
            "a log of {bytes} bytes does not fit in a group of the file system; use at most {most}"
        )));
    };
    let (first, _) = room(geometry, group);
    let fragments = (bytes / geometry.fragment_bytes() as u64) as u32;
    Ok(LogPlace { kind: LogPlace::IN_FILE, id, first, fragments })
}

/// Where a log can begin in an empty group, and its bytes at most.
fn room(geometry: &Geometry, group: u32) -> (Fragment, u64) {
    let per_block = geometry.fragments_per_block();
    let body = geometry.metadata_of(group).end;
    let first = if group == 0 { body + per_block } else { body };
    let end = geometry.group_start(group) + geometry.group_fragments(group);
    (first, most_bytes(geometry, end.saturating_sub(first) / per_block * per_block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MkfsOptions;
    use crate::ffs::offline::extents::extents;
    use crate::ffs::{check, load, mkfs};
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;
    use seekless_fs::policy::PolicyKind;

    /// None, one, and several levels; the check claims the space, and walks no address twice.
    #[test]
    fn a_log_in_a_file_is_one_extent_with_any_number_of_addresses() {
        const MIB: u64 = 1 << 20;
        for (block, fragment, mebibytes) in
            [(8192, 4096, 1), (8192, 4096, 15), (8192, 1024, 17), (4096, 4096, 4), (4096, 512, 9)]
        {
            let mut cells = Cells::new(128 * MIB / BLOCK_BYTES as u64);
            let disk = &mut MediumDisk(&mut cells);
            let options = MkfsOptions {
                block,
                fragment,
                group: Some(64 * MIB),
                policy: PolicyKind::LffsFile,
                journal: Some(mebibytes * MIB),
                id: 7,
                ..MkfsOptions::default()
            };
            mkfs(disk, &options).expect("it fits");
            let found = check(disk).expect("made");
            assert!(found.is_clean() && found.inodes == 2, "{block}, {mebibytes}: {found}");
            let all = extents(disk, LOG_INODE.into()).expect("made").expect("whole");
            assert_eq!(all.len(), 1, "{all:?}");
            assert_eq!(all[0].length, mebibytes * MIB);
            let superblock = load(disk).expect("made").superblock;
            let start = superblock.log_range().expect("possible").expect("a log").start;
            assert_eq!(all[0].volume, Some(start * BLOCK_BYTES as u64));
        }
    }

    /// Seals vouch for no sense: a superblock may name what no program makes.
    #[test]
    fn a_file_that_no_group_can_have_is_damage() {
        let mut cells = Cells::new(64 << 8);
        let disk = &mut MediumDisk(&mut cells);
        let policy = PolicyKind::LffsFile;
        mkfs(disk, &MkfsOptions { policy, ..MkfsOptions::default() }).expect("it fits");
        let made = load(disk).expect("made").superblock;
        let refused = |change: fn(&mut Superblock)| {
            let mut superblock = made.clone();
            change(&mut superblock);
            matches!(LogFile::of(&superblock), Err(FsError::Damaged(_)))
        };
        assert!(!refused(|_| {}));
        assert!(refused(|one| one.log.first = 0));
        assert!(refused(|one| one.log.fragments = u32::MAX));
        assert!(refused(|one| one.log.fragments -= 1));
        let end = made.sizes.fragments;
        assert!(end > made.log.first);
        assert!(refused(|one| one.log.fragments = (one.sizes.fragments - one.log.first) / 2 * 2));
        let large = |one: &mut Superblock| {
            one.sizes.block_bytes = 4096;
            one.sizes.fragments = 1 << 23;
            one.sizes.fragments_per_group = 1 << 22;
            (one.log.first, one.log.fragments) = ((1 << 22) + (1 << 18), (1 << 22) - (1 << 19));
        };
        assert!(refused(large), "more blocks than two levels lead to");
    }
}
