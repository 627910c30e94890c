//! Where things lie: all arithmetic of addresses.
//!
//! The file system is a row of groups of equal size; the last one may be shorter. The metadata of a
//! group is one run of whole blocks: the boot area (group 0 only), the superblock or a copy (groups
//! 0, 1, 3, 5, 7), the maps (header, inode bits, fragment bits) and the inode table. Everything
//! else in the group is data.
//!
//! The run begins some tracks into the group, as in FFS: group *g* adds *g* mod 8 staggers. So the
//! copies of the superblock do not all lie on one track, platter or member of an array.
//!
//! [`Geometry::new`] refuses sizes that contradict each other, so no method overflows.

use crate::ffs::ondisk::format::{COPY_GROUPS, SECTOR_ADDRESSES, SECTOR_BITS, SUPERBLOCK_AT};
use crate::ffs::ondisk::inode::{DIRECT, INODE_BYTES, SECTOR_INODES};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::tx::BlockNo;
use std::ops::Range;

/// Address of a fragment, counted from the start of the file system. 0 stands for a hole.
pub type Fragment = u32;

/// Bytes of a group are a multiple of this, so that a copy of the superblock can be found.
pub const GROUP_UNIT: u64 = 256 << 10;
/// Bytes of a group at most, for the same reason.
pub const MOST_GROUP: u64 = 1 << 30;
/// Values that the stagger may have, in bytes. They are few so that a copy can be found.
pub const STAGGERS: [u64; 4] = [0, 32 << 10, 64 << 10, 128 << 10];
// The search for a copy goes in steps of the least one.
const _: () = assert!(GROUP_UNIT.is_multiple_of(STAGGERS[1]) && STAGGERS[3] <= GROUP_UNIT);
/// Groups after which the stagger begins again.
pub const STAGGER_GROUPS: u32 = 8;
/// Fragments of a group at most.
pub const MOST_GROUP_FRAGMENTS: u32 = 1 << 22;
/// Inodes of a group at most.
pub const MOST_GROUP_INODES: u32 = 1 << 20;
/// Bytes of a file at most.
pub const MOST_FILE_BYTES: u64 = 1 << 40;

/// The sizes in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a block: 4096 or 8192.
    pub block_bytes: u32,
    /// Bytes of a fragment: a block, or a half, quarter or eighth of one.
    pub fragment_bytes: u32,
    /// Fragments of the file system.
    pub fragments: u32,
    /// Fragments of each group but the last.
    pub fragments_per_group: u32,
    /// Inodes of each group.
    pub inodes_per_group: u32,
    /// Fragments by which the metadata of a group begins later than in the group before.
    pub stagger: u32,
}

impl Sizes {
    /// Number of groups; 0 if a group has no fragments.
    pub fn groups(&self) -> u32 {
        match self.fragments_per_group {
            0 => 0,
            most => self.fragments.div_ceil(most),
        }
    }
}

/// A byte of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The block.
    pub block: BlockNo,
    /// Offset in it.
    pub at: usize,
}

/// A bit of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bit {
    /// The block.
    pub block: BlockNo,
    /// Offset of the byte in it.
    pub at: usize,
    /// The bit in the byte.
    pub mask: u8,
}

/// Where things lie in one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    sizes: Sizes,
    groups: u32,
    fragments_per_block: u32,
    map_blocks: u32,
    table_blocks: u32,
}

impl Geometry {
    /// Computes the geometry.
    ///
    /// # Errors
    /// The contradiction, in words.
    pub fn new(sizes: Sizes) -> Result<Geometry, String> {
        check_units(&sizes)?;
        let per_block = sizes.block_bytes / sizes.fragment_bytes;
        let inodes_per_block = sizes.block_bytes / SECTOR_BYTES as u32 * SECTOR_INODES as u32;
        check_counts(&sizes, per_block, inodes_per_block)?;
        let map_sectors = 1
            + sizes.inodes_per_group.div_ceil(SECTOR_BITS)
            + sizes.fragments_per_group.div_ceil(SECTOR_BITS);
        let geometry = Geometry {
            sizes,
            groups: sizes.groups(),
            fragments_per_block: per_block,
            map_blocks: map_sectors.div_ceil(sizes.block_bytes / SECTOR_BYTES as u32),
            table_blocks: sizes.inodes_per_group / inodes_per_block,
        };
        if u64::from(geometry.groups) * u64::from(sizes.inodes_per_group) > u64::from(u32::MAX) {
            return Err("there are more inodes than numbers for them".to_string());
        }
        // Full groups differ by their place in the cycle of the stagger only.
        let last = geometry.groups - 1;
        for group in (0..last.min(STAGGER_GROUPS)).chain([last]) {
            // Not in fragments: of impossible sizes their numbers overflow.
            let start = geometry.block_of(geometry.group_start(group));
            let blocks = u64::from(geometry.group_fragments(group) / per_block);
            if start + blocks <= geometry.metadata_end(group) {
                return Err(format!("group {group} has no room behind its metadata"));
            }
        }
        Ok(geometry)
    }

    /// The sizes it was computed from.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.sizes.block_bytes as usize
    }

    /// Bytes of a fragment.
    pub fn fragment_bytes(&self) -> usize {
        self.sizes.fragment_bytes as usize
    }

    /// Fragments of a block.
    pub fn fragments_per_block(&self) -> u32 {
        self.fragments_per_block
    }

    /// Sectors of a block.
    pub fn sectors_per_block(&self) -> usize {
        self.block_bytes() / SECTOR_BYTES
    }

    /// Inodes of a block of the table.
    pub fn inodes_per_block(&self) -> u32 {
        (self.sectors_per_block() * SECTOR_INODES) as u32
    }

    /// Addresses of an indirect block.
    pub fn addresses_per_block(&self) -> usize {
        self.sectors_per_block() * SECTOR_ADDRESSES
    }

    /// Number of groups.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Fragments of the file system.
    pub fn fragments(&self) -> u32 {
        self.sizes.fragments
    }

    /// Inode numbers, used and free; numbers are below this.
    pub fn inodes(&self) -> u32 {
        self.groups * self.sizes.inodes_per_group
    }

    /// Blocks of the file system.
    pub fn blocks(&self) -> u64 {
        u64::from(self.sizes.fragments / self.fragments_per_block)
    }

    /// Bytes of the file system.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sizes.fragments) * u64::from(self.sizes.fragment_bytes)
    }

    /// Engine blocks (4096 bytes) of a block.
    pub fn engine_blocks(&self) -> u32 {
        self.sizes.block_bytes / BLOCK_BYTES as u32
    }

    /// Bytes of the largest file.
    pub fn most_file_bytes(&self) -> u64 {
        let each = self.addresses_per_block() as u64;
        let blocks = DIRECT as u64 + each + each * each + each * each * each;
        MOST_FILE_BYTES.min(blocks * u64::from(self.sizes.block_bytes))
    }

    /// The block that holds a fragment.
    pub fn block_of(&self, fragment: Fragment) -> BlockNo {
        u64::from(fragment / self.fragments_per_block)
    }

    /// Where a fragment lies.
    pub fn place_of(&self, fragment: Fragment) -> Place {
        let at = (fragment % self.fragments_per_block) as usize * self.fragment_bytes();
        Place { block: self.block_of(fragment), at }
    }

    /// The first fragment of a block.
    pub fn first_fragment(&self, block: BlockNo) -> Fragment {
        block as u32 * self.fragments_per_block
    }

    /// The address of a sector for its seal.
    pub fn sector_of(&self, place: Place) -> u64 {
        place.block * self.sectors_per_block() as u64 + (place.at / SECTOR_BYTES) as u64
    }

    /// The group of a fragment.
    pub fn group_of_fragment(&self, fragment: Fragment) -> u32 {
        fragment / self.sizes.fragments_per_group
    }

    /// The first fragment of a group.
    pub fn group_start(&self, group: u32) -> Fragment {
        group * self.sizes.fragments_per_group
    }

    /// Fragments of a group.
    pub fn group_fragments(&self, group: u32) -> u32 {
        self.sizes.fragments_per_group.min(self.sizes.fragments - self.group_start(group))
    }

    /// The superblock or its copy in a group.
    pub fn superblock_of(&self, group: u32) -> Option<BlockNo> {
        let boot = SUPERBLOCK_AT / u64::from(self.sizes.block_bytes);
        match group {
            0 => Some(boot),
            _ if COPY_GROUPS.contains(&group) => Some(self.metadata_block(group)),
            _ => None,
        }
    }

    /// The first block of the maps of a group. The header is its first sector.
    pub fn maps_of(&self, group: u32) -> BlockNo {
        match self.superblock_of(group) {
            Some(block) => block + 1,
            None => self.metadata_block(group),
        }
    }

    /// Blocks of the maps of a group.
    pub fn map_blocks(&self) -> u32 {
        self.map_blocks
    }

    /// Where the header of a group lies.
    pub fn header_of(&self, group: u32) -> Place {
        Place { block: self.maps_of(group), at: 0 }
    }

    /// The first block of the inode table of a group.
    pub fn table_of(&self, group: u32) -> BlockNo {
        self.maps_of(group) + u64::from(self.map_blocks)
    }

    /// Blocks of the inode table of a group.
    pub fn table_blocks(&self) -> u32 {
        self.table_blocks
    }

    /// The metadata of a group, the boot area included.
    pub fn metadata_of(&self, group: u32) -> Range<Fragment> {
        let start = if group == 0 { 0 } else { self.metadata_block(group) };
        self.first_fragment(start)..self.first_fragment(self.metadata_end(group))
    }

    /// Fragments of a group that are data.
    pub fn data_fragments(&self, group: u32) -> u32 {
        self.group_fragments(group) - self.metadata_of(group).len() as u32
    }

    /// True if a file may own these fragments: they are data of one group.
    pub fn is_data(&self, first: Fragment, count: u32) -> bool {
        if first >= self.sizes.fragments {
            return false;
        }
        let group = self.group_of_fragment(first);
        let end = u64::from(self.group_start(group) + self.group_fragments(group));
        let metadata = self.metadata_of(group);
        let until = u64::from(first) + u64::from(count);
        let is_before = until <= u64::from(metadata.start);
        until <= end && (is_before || first >= metadata.end)
    }

    /// The bit of a fragment.
    pub fn fragment_bit(&self, fragment: Fragment) -> Bit {
        let group = self.group_of_fragment(fragment);
        let sectors = 1 + self.sizes.inodes_per_group.div_ceil(SECTOR_BITS);
        self.map_bit(group, sectors, fragment - self.group_start(group))
    }

    /// The group of an inode.
    pub fn group_of_inode(&self, ino: u32) -> u32 {
        ino / self.sizes.inodes_per_group
    }

    /// Where an inode lies.
    pub fn inode_place(&self, ino: u32) -> Place {
        let index = ino % self.sizes.inodes_per_group;
        let block = self.table_of(self.group_of_inode(ino)) + self.inode_block(index);
        let index = (index % self.inodes_per_block()) as usize;
        let at = index / SECTOR_INODES * SECTOR_BYTES + index % SECTOR_INODES * INODE_BYTES;
        Place { block, at }
    }

    /// The bit of an inode.
    pub fn inode_bit(&self, ino: u32) -> Bit {
        self.map_bit(self.group_of_inode(ino), 1, ino % self.sizes.inodes_per_group)
    }

    /// The first block of the metadata of a group; in group 0 it is that of the boot area.
    fn metadata_block(&self, group: u32) -> BlockNo {
        let steps = u64::from(group % STAGGER_GROUPS);
        let stagger = u64::from(self.sizes.stagger / self.fragments_per_block);
        self.block_of(self.group_start(group)) + steps * stagger
    }

    /// The block behind the metadata of a group.
    fn metadata_end(&self, group: u32) -> BlockNo {
        self.table_of(group) + u64::from(self.table_blocks)
    }

    fn inode_block(&self, index: u32) -> u64 {
        u64::from(index / self.inodes_per_block())
    }

    /// Bit `index` of a bitmap that begins at sector `first` of the maps of a group.
    fn map_bit(&self, group: u32, first: u32, index: u32) -> Bit {
        let sector = (first + index / SECTOR_BITS) as usize;
        let index = index % SECTOR_BITS;
        let block = self.maps_of(group) + (sector / self.sectors_per_block()) as u64;
        let at = sector % self.sectors_per_block() * SECTOR_BYTES + index as usize / 8;
        Bit { block, at, mask: 1 << (index % 8) }
    }
}

pub(crate) fn check_units(sizes: &Sizes) -> Result<(), String> {
    let Sizes { block_bytes, fragment_bytes, .. } = *sizes;
    if ![4096, 8192].contains(&block_bytes) {
        return Err(format!("a block has {block_bytes} bytes; 4096 and 8192 are possible"));
    }
    let possible = [1, 2, 4, 8].map(|part| block_bytes / part);
    if !possible.contains(&fragment_bytes) {
        let [whole, half, quarter, eighth] = possible;
        return Err(format!(
            "a fragment has {fragment_bytes} bytes; {whole}, {half}, {quarter} and {eighth} are \
             possible"
        ));
    }
    Ok(())
}

fn check_counts(sizes: &Sizes, per_block: u32, inodes_per_block: u32) -> Result<(), String> {
    let Sizes { fragments, fragments_per_group: group, inodes_per_group: inodes, .. } = *sizes;
    if fragments == 0 || fragments % per_block != 0 {
        return Err(format!("{fragments} fragments are no whole number of blocks"));
    }
    if group == 0 || group % per_block != 0 || group > MOST_GROUP_FRAGMENTS {
        return Err(format!("a group cannot have {group} fragments"));
    }
    if inodes == 0 || inodes % inodes_per_block != 0 || inodes > MOST_GROUP_INODES {
        return Err(format!("a group cannot have {inodes} inodes"));
    }
    let stagger = u64::from(sizes.stagger) * u64::from(sizes.fragment_bytes);
    if !STAGGERS.contains(&stagger) {
        return Err(format!("a stagger of {stagger} bytes is not possible"));
    }
    if stagger * u64::from(STAGGER_GROUPS) > u64::from(group) * u64::from(sizes.fragment_bytes) {
        return Err(format!("a stagger of {stagger} bytes reaches over a group"));
    }
    // The metadata of group 0, computed with 64 bits: the table, the maps, the boot area.
    let table = u64::from(inodes / inodes_per_block) * u64::from(per_block);
    if table >= u64::from(group) {
        return Err(format!("{inodes} inodes do not fit into a group of {group} fragments"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sizes(block: u32, fragment: u32, blocks: u32) -> Sizes {
        let per_block = block / fragment;
        Sizes {
            block_bytes: block,
            fragment_bytes: fragment,
            fragments: blocks * per_block,
            fragments_per_group: 100 * per_block,
            inodes_per_group: 256,
            stagger: 0,
        }
    }

    /// Each byte of metadata has one meaning, and data begins behind all of it.
    #[test]
    fn nothing_overlaps() {
        let units = [(8192, 4096), (8192, 1024), (4096, 1024), (4096, 4096)];
        for ((block, fragment), stagger) in units.into_iter().zip([0, 32, 32, 8]) {
            let sizes = Sizes { stagger, ..sizes(block, fragment, 950) };
            let geometry = Geometry::new(sizes).expect("possible");
            let mut uses = BTreeMap::new();
            let mut claim = |place: (u64, usize), what: String| {
                let old = uses.insert(place, what.clone());
                assert!(old.is_none(), "{what} and {old:?} at {place:?}");
            };
            for group in 0..geometry.groups() {
                if let Some(block) = geometry.superblock_of(group) {
                    claim((block, 0), format!("superblock {group}"));
                }
                let Place { block, at } = geometry.header_of(group);
                claim((block, at * 8), format!("header {group}"));
            }
            for ino in 0..geometry.inodes() {
                let Place { block, at } = geometry.inode_place(ino);
                claim((block, at * 8), format!("inode {ino}"));
                let Bit { block, at, mask } = geometry.inode_bit(ino);
                claim((block, at * 8 + mask.ilog2() as usize), format!("bit of inode {ino}"));
                assert!(at % SECTOR_BYTES < 504);
            }
            for fragment in 0..geometry.fragments() {
                let Bit { block, at, mask } = geometry.fragment_bit(fragment);
                claim((block, at * 8 + mask.ilog2() as usize), format!("bit of {fragment}"));
                let place = geometry.place_of(fragment);
                if geometry.is_data(fragment, 1) {
                    claim((place.block, place.at * 8 + 1), format!("data {fragment}"));
                }
            }
            for &(block, _) in uses.keys() {
                assert!(block < geometry.blocks());
            }
            let data = |block: u64| geometry.is_data(geometry.first_fragment(block), 1);
            for (&(block, _), what) in &uses {
                assert_eq!(data(block), what.starts_with("data"), "{what}");
            }
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let good = sizes(8192, 4096, 950);
        assert!(Geometry::new(good).is_ok());
        for bad in [
            Sizes { block_bytes: 2048, ..good },
            Sizes { fragment_bytes: 512, ..good },
            Sizes { fragments: 0, ..good },
            Sizes { fragments: 1901, ..good },
            Sizes { fragments_per_group: 0, ..good },
            Sizes { fragments_per_group: 8, ..good },
            Sizes { fragments_per_group: u32::MAX, ..good },
            Sizes { inodes_per_group: 0, ..good },
            Sizes { inodes_per_group: 65, ..good },
            Sizes { inodes_per_group: 64 * 100, ..good },
            Sizes { fragments: 902, fragments_per_group: 300, ..good },
            Sizes { fragments: u32::MAX - 1, fragments_per_group: 1_799_316, stagger: 32, ..good },
            Sizes { stagger: 1, ..good },
            Sizes { stagger: 24, ..good },
            Sizes { stagger: 32, ..good },
        ] {
            assert!(Geometry::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn data_does_not_cross_groups() {
        let geometry = Geometry::new(sizes(8192, 4096, 950)).expect("possible");
        let end = geometry.group_start(1);
        assert!(geometry.is_data(end - 2, 2));
        assert!(!geometry.is_data(end - 2, 3));
        assert!(!geometry.is_data(0, 1) && !geometry.is_data(u32::MAX, 8));
    }
}
