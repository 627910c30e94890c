//! The header of a cylinder group: one sealed sector.
//!
//! The counters repeat what bitmaps and inodes say. A clean unmount writes them; a mount of a file
//! system that is not clean recomputes them. Wrong ones are a harmless finding.

use crate::ffs::ondisk::fields::{array_at, i64_at, put, u32_at};
use seekless_fs::tx::SECTOR_CONTENT;

/// The first bytes of a header.
pub const MAGIC: [u8; 4] = *b"FFSG";

/// Offsets of the fields, for code that changes one of them in a block.
pub mod offset {
    /// Number of the group, 4 bytes.
    pub const NUMBER: usize = 4;
    /// Last write, 8 bytes.
    pub const WRITTEN: usize = 8;
    /// Rotor of blocks, 4 bytes.
    pub const BLOCK_ROTOR: usize = 16;
    /// Rotor of fragments, 4 bytes.
    pub const FRAGMENT_ROTOR: usize = 20;
    /// Rotor of inodes, 4 bytes.
    pub const INODE_ROTOR: usize = 24;
    /// Directories, 4 bytes.
    pub const DIRECTORIES: usize = 28;
    /// Free whole blocks, 4 bytes.
    pub const FREE_BLOCKS: usize = 32;
    /// Free fragments of other blocks, 4 bytes.
    pub const FREE_FRAGMENTS: usize = 36;
    /// Free inodes, 4 bytes.
    pub const FREE_INODES: usize = 40;
    /// Initialised inodes, 4 bytes.
    pub const INITIALISED: usize = 44;
}
const _: () = assert!(offset::INITIALISED + 4 <= SECTOR_CONTENT);

/// Counters of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Directories.
    pub directories: u32,
    /// Blocks of which all fragments are free.
    pub free_blocks: u32,
    /// Free fragments of blocks that are not wholly free.
    pub free_fragments: u32,
    /// Free inodes.
    pub free_inodes: u32,
}

/// The header of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupHeader {
    /// Number of the group.
    pub number: u32,
    /// Last write.
    pub written: i64,
    /// Where the search for a block begins: a fragment, counted from the start of the group.
    pub block_rotor: u32,
    /// Where the search for fragments begins, likewise.
    pub fragment_rotor: u32,
    /// Where the search for an inode begins: an index in the group.
    pub inode_rotor: u32,
    /// Counters.
    pub counters: Counters,
    /// Inodes of the table that are initialised, from its start: a multiple of those in a block.
    /// The sectors behind them have no seals, and their inodes are free.
    pub initialised: u32,
}

impl GroupHeader {
    /// Writes the header into the content of its sector.
    pub fn encode(&self, sector: &mut [u8]) {
        sector[..SECTOR_CONTENT].fill(0);
        put(sector, 0, &MAGIC);
        put(sector, offset::WRITTEN, &self.written.to_le_bytes());
        let numbers = [
            (offset::NUMBER, self.number),
            (offset::BLOCK_ROTOR, self.block_rotor),
            (offset::FRAGMENT_ROTOR, self.fragment_rotor),
            (offset::INODE_ROTOR, self.inode_rotor),
            (offset::DIRECTORIES, self.counters.directories),
            (offset::FREE_BLOCKS, self.counters.free_blocks),
            (offset::FREE_FRAGMENTS, self.counters.free_fragments),
            (offset::FREE_INODES, self.counters.free_inodes),
            (offset::INITIALISED, self.initialised),
        ];
        for (at, number) in numbers {
            put(sector, at, &number.to_le_bytes());
        }
    }

    /// Reads a header; none without the magic.
    pub fn decode(sector: &[u8]) -> Option<GroupHeader> {
        if array_at(sector, 0) != MAGIC {
            return None;
        }
        Some(GroupHeader {
            number: u32_at(sector, offset::NUMBER),
            written: i64_at(sector, offset::WRITTEN),
            block_rotor: u32_at(sector, offset::BLOCK_ROTOR),
            fragment_rotor: u32_at(sector, offset::FRAGMENT_ROTOR),
            inode_rotor: u32_at(sector, offset::INODE_ROTOR),
            counters: Counters {
                directories: u32_at(sector, offset::DIRECTORIES),
                free_blocks: u32_at(sector, offset::FREE_BLOCKS),
                free_fragments: u32_at(sector, offset::FREE_FRAGMENTS),
                free_inodes: u32_at(sector, offset::FREE_INODES),
            },
            initialised: u32_at(sector, offset::INITIALISED),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let counters =
            Counters { directories: 1, free_blocks: 2, free_fragments: 3, free_inodes: 4 };
        let header = GroupHeader {
            number: 5,
            written: -6,
            block_rotor: 7,
            fragment_rotor: 8,
            inode_rotor: 9,
            counters,
            initialised: 64,
        };
        let mut sector = [0; 512];
        header.encode(&mut sector);
        assert_eq!(GroupHeader::decode(&sector), Some(header));
        sector[0] = 0;
        assert_eq!(GroupHeader::decode(&sector), None);
    }
}
