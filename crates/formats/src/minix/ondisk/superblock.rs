//! The superblock: 32 bytes at byte 1,024. It is written once, by mkfs.

use crate::error::FsError;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_fs::fields::{put, u16_at, u32_at};

/// Where the superblock begins, in bytes.
pub const SUPERBLOCK_AT: usize = 1024;
/// Bytes of the superblock.
pub const SUPERBLOCK_BYTES: usize = 32;
/// The magic number of version 3.
pub const MAGIC: u16 = 0x4d5a;
/// Bytes of a file at most, as `mkfs.minix` and this mkfs set it: 2 GiB - 1.
pub const MOST_FILE_BYTES: u32 = 0x7fff_ffff;
/// Sizes of a block that this program takes.
pub const BLOCK_SIZES: [u32; 3] = [1024, 2048, 4096];

/// Magic numbers of versions 1 and 2, at byte 16 of their superblocks, with the version and the
/// bytes of a name.
const OLDER: [(u16, u8, u8); 4] =
    [(0x137f, 1, 14), (0x138f, 1, 30), (0x2468, 2, 14), (0x2478, 2, 30)];

/// Offsets of the fields.
mod offset {
    pub const INODES: usize = 0;
    pub const IMAP_BLOCKS: usize = 6;
    pub const ZMAP_BLOCKS: usize = 8;
    pub const FIRST_DATA: usize = 10;
    pub const LOG_ZONE_SIZE: usize = 12;
    pub const MAX_SIZE: usize = 16;
    pub const ZONES: usize = 20;
    pub const MAGIC: usize = 24;
    pub const BLOCK_SIZE: usize = 28;
    pub const OLD_MAGIC: usize = 16;
}

/// The fields of a superblock, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Inodes; numbers begin with 1.
    pub inodes: u32,
    /// Zones of the map of inodes.
    pub imap_blocks: u16,
    /// Zones of the map of zones.
    pub zmap_blocks: u16,
    /// The first zone of data; 0 if it is to be computed.
    pub first_data: u16,
    /// Binary logarithm of the blocks in a zone.
    pub log_zone_size: u16,
    /// Bytes of a file at most.
    pub max_size: u32,
    /// Zones of the file system.
    pub zones: u32,
    /// Bytes of a block.
    pub block_bytes: u16,
}

impl Superblock {
    /// The fields of a superblock; none without the magic number of version 3.
    pub fn decode(bytes: &[u8]) -> Option<Superblock> {
        (u16_at(bytes, offset::MAGIC) == MAGIC).then(|| Superblock {
            inodes: u32_at(bytes, offset::INODES),
            imap_blocks: u16_at(bytes, offset::IMAP_BLOCKS),
            zmap_blocks: u16_at(bytes, offset::ZMAP_BLOCKS),
            first_data: u16_at(bytes, offset::FIRST_DATA),
            log_zone_size: u16_at(bytes, offset::LOG_ZONE_SIZE),
            max_size: u32_at(bytes, offset::MAX_SIZE),
            zones: u32_at(bytes, offset::ZONES),
            block_bytes: u16_at(bytes, offset::BLOCK_SIZE),
        })
    }

    /// The bytes of the superblock. The paddings and the version of the disk are 0.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        put(&mut bytes, offset::INODES, &self.inodes.to_le_bytes());
        put(&mut bytes, offset::IMAP_BLOCKS, &self.imap_blocks.to_le_bytes());
        put(&mut bytes, offset::ZMAP_BLOCKS, &self.zmap_blocks.to_le_bytes());
        put(&mut bytes, offset::FIRST_DATA, &self.first_data.to_le_bytes());
        put(&mut bytes, offset::LOG_ZONE_SIZE, &self.log_zone_size.to_le_bytes());
        put(&mut bytes, offset::MAX_SIZE, &self.max_size.to_le_bytes());
        put(&mut bytes, offset::ZONES, &self.zones.to_le_bytes());
        put(&mut bytes, offset::MAGIC, &MAGIC.to_le_bytes());
        put(&mut bytes, offset::BLOCK_SIZE, &self.block_bytes.to_le_bytes());
        bytes
    }
}

/// What lies where a superblock would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A superblock of version 3.
    Version3(Superblock),
    /// One of an older version, and the bytes of its names.
    Older {
        /// 1 or 2.
        version: u8,
        /// 14 or 30.
        names: u8,
    },
    /// None.
    Nothing,
}

/// Looks for a superblock in the first 4,096 bytes of a volume.
pub fn find(bytes: &[u8]) -> Found {
    let bytes = &bytes[SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_BYTES];
    if let Some(superblock) = Superblock::decode(bytes) {
        return Found::Version3(superblock);
    }
    let magic = u16_at(bytes, offset::OLD_MAGIC);
    // Two bytes are little evidence: there are maps, and zones of one block.
    let (imap, zmap, log) = (u16_at(bytes, 4), u16_at(bytes, 6), u16_at(bytes, 10));
    let is_possible = imap > 0 && zmap > 0 && log == 0;
    match OLDER.into_iter().find(|one| one.0 == magic && is_possible) {
        Some((_, version, names)) => Found::Older { version, names },
        None => Found::Nothing,
    }
}

/// Erases the superblock: the volume is to hold another format.
///
/// # Errors
/// Errors of the volume.
pub fn erase(disk: &mut dyn Disk) -> Result<(), FsError> {
    let mut block = disk.read(0, 1)?.to_bytes().to_vec();
    block[SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_BYTES].fill(0);
    disk.write(0, Data::bytes(block.into()))?;
    Ok(disk.flush_for(Edge::MkfsEmpty)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::units::BLOCK_BYTES;

    /// What `mkfs.minix -3` of util-linux writes for 4,096 blocks.
    const FOREIGN: [u8; SUPERBLOCK_BYTES] = [
        0x60, 0x05, 0, 0, 0, 0, 1, 0, 1, 0, 0x5a, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0, 0x10,
        0, 0, 0x5a, 0x4d, 0, 0, 0, 4, 0, 0,
    ];

    #[test]
    fn the_bytes_are_those_of_util_linux() {
        let superblock = Superblock {
            inodes: 1376,
            imap_blocks: 1,
            zmap_blocks: 1,
            first_data: 90,
            log_zone_size: 0,
            max_size: MOST_FILE_BYTES,
            zones: 4096,
            block_bytes: 1024,
        };
        assert_eq!(superblock.encode(), FOREIGN);
        assert_eq!(Superblock::decode(&FOREIGN), Some(superblock));
    }

    #[test]
    fn older_versions_are_known_by_their_names() {
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(find(&block), Found::Nothing);
        for (magic, version, names) in OLDER {
            put(&mut block, SUPERBLOCK_AT + offset::OLD_MAGIC, &magic.to_le_bytes());
            assert_eq!(find(&block), Found::Nothing, "it has no maps");
            put(&mut block, SUPERBLOCK_AT + 4, &[1, 0, 1, 0]);
            assert_eq!(find(&block), Found::Older { version, names });
            put(&mut block, SUPERBLOCK_AT + 4, &[0; 4]);
        }
    }
}
