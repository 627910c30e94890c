//! Where things lie: boot block, superblock, map of inodes, map of zones, inodes, data.
//!
//! Zones are numbered from the start of the volume. The maps begin in zone 2. Bit 0 of each map is
//! reserved; bit `n` of the map of zones stands for zone `first data + n - 1`.

pub use super::inode::Zone;
use super::inode::{DIRECT, INODE_BYTES};
use super::superblock::{BLOCK_SIZES, Found, Superblock, find};
use crate::error::FsError;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_fs::tx::{BlockNo, Field};

/// The zone in which the maps begin.
const FIRST_MAP: u32 = 2;
/// Bytes of an address.
pub const ADDRESS_BYTES: usize = 4;

/// A place of bytes: the page, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The page of 4,096 bytes.
    pub page: BlockNo,
    /// The first byte.
    pub at: usize,
}

impl Place {
    /// The bytes from here on.
    pub fn field(self, length: usize) -> Field {
        Field::new(self.page, self.at, length)
    }

    /// The place so many bytes further on. It must lie in the same page.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Place {
        Place { at: self.at + bytes, ..self }
    }

    /// The sectors that some bytes from here on touch: the first byte, and how many.
    pub fn sectors(self, length: usize) -> (usize, usize) {
        let first = self.at / SECTOR_BYTES * SECTOR_BYTES;
        (first, (self.at + length).next_multiple_of(SECTOR_BYTES) - first)
    }
}

/// One of the two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// Its first zone.
    pub first: Zone,
    /// Bits that mean something, with bit 0.
    pub bits: u32,
    /// Bits of a zone.
    pub zone_bits: u32,
}

impl Map {
    /// Zones that have bits which mean something.
    pub fn zones(&self) -> u32 {
        self.bits.div_ceil(self.zone_bits)
    }
}

/// The sizes of a file system, which agree with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    zone_bytes: u32,
    inodes: u32,
    imap_zones: u32,
    zmap_zones: u32,
    first_data: Zone,
    zones: u32,
    max_size: u32,
}

/// The first zone of data, after maps and inodes of these sizes.
pub fn first_data_zone(zone_bytes: u32, inodes: u32, (imap, zmap): (u32, u32)) -> u64 {
    let each = zone_bytes / INODE_BYTES as u32;
    u64::from(FIRST_MAP) + u64::from(imap) + u64::from(zmap) + u64::from(inodes.div_ceil(each))
}

impl Geometry {
    /// That of a superblock.
    ///
    /// # Errors
    /// [`FsError::BadMinix`] for fields that contradict each other, or that this program does not
    /// take.
    pub fn new(superblock: &Superblock) -> Result<Geometry, FsError> {
        let bad = |why: String| Err(FsError::BadMinix(why));
        let zone_bytes = u32::from(superblock.block_bytes);
        if !BLOCK_SIZES.contains(&zone_bytes) {
            return bad(format!("its blocks have {zone_bytes} bytes; 1024, 2048 and 4096 work"));
        }
        if superblock.log_zone_size != 0 {
            let blocks = superblock.log_zone_size;
            return bad(format!("its zones have 2^{blocks} blocks; zones of one block work"));
        }
        let Superblock { inodes, zones, max_size, .. } = *superblock;
        let zone_bits = zone_bytes * 8;
        let (imap, zmap) = (u32::from(superblock.imap_blocks), u32::from(superblock.zmap_blocks));
        let holds = |zones: u32| u64::from(zones) * u64::from(zone_bits);
        if inodes == 0 || u64::from(inodes) + 1 > holds(imap) {
            return bad(format!("it has {inodes} inodes, and a map for {}", holds(imap)));
        }
        let computed = first_data_zone(zone_bytes, inodes, (imap, zmap));
        let first_data = match superblock.first_data {
            0 => computed,
            stored => u64::from(stored),
        };
        if first_data < computed || first_data >= u64::from(zones) {
            return bad(format!(
                "its data begin in zone {first_data} of {zones}, the inodes end in zone {computed}"
            ));
        }
        let first_data = first_data as u32;
        if u64::from(zones - first_data) + 1 > holds(zmap) {
            return bad(format!("it has {zones} zones, and a map for {}", holds(zmap)));
        }
        let (imap_zones, zmap_zones) = (imap, zmap);
        Ok(Geometry { zone_bytes, inodes, imap_zones, zmap_zones, first_data, zones, max_size })
    }

    /// Bytes of a zone.
    pub fn zone_bytes(&self) -> usize {
        self.zone_bytes as usize
    }

    /// Zones in a page.
    pub fn zones_per_page(&self) -> u32 {
        BLOCK_BYTES as u32 / self.zone_bytes
    }

    /// Inodes; numbers go from 1 to this one.
    pub fn inodes(&self) -> u32 {
        self.inodes
    }

    /// Zones of the file system.
    pub fn zones(&self) -> u32 {
        self.zones
    }

    /// The first zone of data.
    pub fn first_data(&self) -> Zone {
        self.first_data
    }

    /// Zones for data.
    pub fn data_zones(&self) -> u32 {
        self.zones - self.first_data
    }

    /// Bytes of the file system.
    pub fn bytes(&self) -> u64 {
        u64::from(self.zones) * u64::from(self.zone_bytes)
    }

    /// Addresses in an indirect zone.
    pub fn addresses(&self) -> usize {
        self.zone_bytes() / ADDRESS_BYTES
    }

    /// Bytes of a file at most: what the superblock allows, and what addresses reach.
    pub fn most_file_bytes(&self) -> u64 {
        let each = self.addresses() as u64;
        let blocks = DIRECT as u64 + each + each * each + each * each * each;
        u64::from(self.max_size).min(blocks * u64::from(self.zone_bytes))
    }

    /// The map of inodes.
    pub fn imap(&self) -> Map {
        let zone_bits = self.zone_bytes * 8;
        Map { first: FIRST_MAP, bits: self.inodes + 1, zone_bits }
    }

    /// The map of zones.
    pub fn zmap(&self) -> Map {
        let (first, zone_bits) = (FIRST_MAP + self.imap_zones, self.zone_bytes * 8);
        Map { first, bits: self.data_zones() + 1, zone_bits }
    }

    /// All zones of the map of inodes, and of that of zones, as the superblock has them.
    pub fn map_zones(&self) -> (u32, u32) {
        (self.imap_zones, self.zmap_zones)
    }

    /// The first zone of inodes.
    pub fn table(&self) -> Zone {
        FIRST_MAP + self.imap_zones + self.zmap_zones
    }

    /// True if a zone is one of data.
    pub fn is_data(&self, zone: Zone) -> bool {
        (self.first_data..self.zones).contains(&zone)
    }

    /// The bit of a zone of data in the map of zones.
    pub fn bit_of(&self, zone: Zone) -> u32 {
        zone - self.first_data + 1
    }

    /// The zone of a bit of the map of zones.
    pub fn zone_of(&self, bit: u32) -> Zone {
        self.first_data + bit - 1
    }

    /// Where a zone begins.
    pub fn place_of(&self, zone: Zone) -> Place {
        let each = self.zones_per_page();
        Place { page: BlockNo::from(zone / each), at: (zone % each) as usize * self.zone_bytes() }
    }

    /// The bytes of a zone.
    pub fn field_of(&self, zone: Zone) -> Field {
        self.place_of(zone).field(self.zone_bytes())
    }

    /// The place of an inode that exists.
    pub fn inode_place(&self, number: u32) -> Place {
        let each = self.zone_bytes / INODE_BYTES as u32;
        let index = number - 1;
        let place = self.place_of(self.table() + index / each);
        place.plus((index % each) as usize * INODE_BYTES)
    }

    /// Zones of a file of this size, holes included.
    pub fn size_zones(&self, size: u64) -> u64 {
        size.div_ceil(u64::from(self.zone_bytes))
    }

    /// Zones of data and of addresses that a file of this size takes without holes. The kernel
    /// reports this as the space of a file.
    pub fn full_zones(&self, size: u64) -> u64 {
        let data = self.size_zones(size);
        let each = self.addresses() as u64;
        let mut zones = data;
        let mut level = data.saturating_sub(DIRECT as u64);
        let mut span = 1;
        // Each level counts the zones that lead to what the levels before it do not reach.
        for _ in 0..3 {
            if level == 0 {
                break;
            }
            span *= each;
            let own = level.min(span);
            let mut below = own;
            let mut width = span;
            while width > 1 {
                width /= each;
                below = below.div_ceil(each);
                zones += below;
            }
            level -= own;
        }
        zones
    }
}

/// Where things lie in the file system on a volume.
///
/// # Errors
/// [`FsError::Foreign`] without a superblock, [`FsError::OlderMinix`],
/// [`FsError::BadMinix`] for fields that contradict each other, [`FsError::Truncated`], and errors
/// of the volume.
pub fn load(disk: &mut dyn Disk) -> Result<Geometry, FsError> {
    if disk.blocks() == 0 {
        return Err(FsError::Foreign);
    }
    match find(&disk.read(0, 1)?.to_bytes()) {
        Found::Nothing => Err(FsError::Foreign),
        Found::Older { version, names } => Err(FsError::OlderMinix { version, names }),
        Found::Version3(superblock) => {
            let geometry = Geometry::new(&superblock)?;
            let needed = geometry.bytes();
            let found = disk.blocks() * BLOCK_BYTES as u64;
            if found < needed {
                return Err(FsError::Truncated { needed, found });
            }
            Ok(geometry)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minix::ondisk::superblock::MOST_FILE_BYTES;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        Superblock {
            inodes: 1376,
            imap_blocks: 1,
            zmap_blocks: 1,
            first_data: 90,
            log_zone_size: 0,
            max_size: MOST_FILE_BYTES,
            zones: 4096,
            block_bytes: 1024,
        }
    }

    fn refused(change: impl FnOnce(&mut Superblock)) -> String {
        let mut superblock = superblock();
        change(&mut superblock);
        Geometry::new(&superblock).expect_err("it is impossible").to_string()
    }

    #[test]
    fn an_image_of_mkfs_minix_has_its_parts_where_linux_has_them() {
        let geometry = Geometry::new(&superblock()).expect("util-linux made it");
        assert_eq!((geometry.imap().first, geometry.zmap().first, geometry.table()), (2, 3, 4));
        assert_eq!(geometry.inode_place(1), Place { page: 1, at: 0 });
        assert_eq!(geometry.inode_place(17), Place { page: 1, at: 1024 });
        assert_eq!((geometry.bit_of(90), geometry.zone_of(4006)), (1, 4095));
        assert_eq!(geometry.most_file_bytes(), 0x7fff_ffff);
        let computed = Superblock { first_data: 0, ..superblock() };
        assert_eq!(Geometry::new(&computed), Ok(geometry));
    }

    #[test]
    fn impossible_fields_are_named() {
        assert!(refused(|s| s.block_bytes = 512).contains("blocks have 512 bytes"));
        assert!(refused(|s| s.log_zone_size = 1).contains("zones have 2^1 blocks"));
        assert!(refused(|s| s.inodes = 8192).contains("8192 inodes, and a map for 8192"));
        assert!(refused(|s| s.inodes = 0).contains("0 inodes"));
        assert!(refused(|s| s.inodes = u32::MAX).contains("4294967295 inodes"));
        assert!(refused(|s| s.first_data = 89).contains("data begin in zone 89 of 4096"));
        assert!(refused(|s| s.zones = 90).contains("data begin in zone 90 of 90"));
        assert!(refused(|s| s.zones = 20_000).contains("20000 zones, and a map for 8192"));
        assert!(refused(|s| s.imap_blocks = 0).contains("a map for 0"));
    }

    proptest! {
        /// Counted address by address.
        #[test]
        fn the_space_of_a_file_counts_its_addresses(zones in 0_u64..70_000) {
            let geometry = Geometry::new(&superblock()).expect("util-linux made it");
            let each = 256;
            let single = u64::from(zones > 7);
            let second = zones.saturating_sub(7 + each);
            let double = second.min(each * each).div_ceil(each) + u64::from(second > 0);
            let third = second.saturating_sub(each * each);
            let triple = match third {
                0 => 0,
                third => 1 + third.div_ceil(each) + third.div_ceil(each * each),
            };
            let all = zones + single + double + triple;
            prop_assert_eq!(geometry.full_zones(zones * 1024), all);
        }

        /// Whatever a superblock says, what it leads to lies in the file system.
        #[test]
        fn places_lie_in_the_file_system(bytes in proptest::collection::vec(any::<u8>(), 28)) {
            let mut all = bytes;
            all.extend([0, 4, 0, 0]);
            all[12] = 0;
            all[13] = 0;
            all[24..26].copy_from_slice(&0x4d5a_u16.to_le_bytes());
            let superblock = Superblock::decode(&all).expect("it has the number");
            if let Ok(geometry) = Geometry::new(&superblock) {
                let end = geometry.bytes();
                let last = geometry.inode_place(geometry.inodes());
                prop_assert!(last.page * 4096 + last.at as u64 + 64 <= end);
                prop_assert!(geometry.is_data(geometry.zone_of(geometry.zmap().bits - 1)));
                prop_assert!(geometry.zmap().zones() <= geometry.map_zones().1);
            }
        }
    }
}
