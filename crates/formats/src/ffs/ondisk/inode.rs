//! Inodes: 126 bytes, four to a sealed sector.
//!
//! An inode is free if its mode is 0; its generation stays. A file of at most twelve blocks may end
//! with a *tail*: a last block of fewer fragments than a whole one. How many follows from the size
//! ([`Inode::block_fragments`]); the disk does not hold it.

use crate::ffs::ondisk::fields::{i64_at, put, u16_at, u32_at, u64_at};
use crate::ffs::ondisk::geometry::{Fragment, Geometry};
use seekless_fs::call::{FileKind, Timestamp};
use seekless_fs::tx::SECTOR_CONTENT;

/// Bytes of an inode.
pub const INODE_BYTES: usize = 126;
/// Inodes in a sector.
pub const SECTOR_INODES: usize = 4;
const _: () = assert!(INODE_BYTES * SECTOR_INODES == SECTOR_CONTENT);

/// Direct addresses.
pub const DIRECT: usize = 12;
/// Indirect addresses: of the single, double and triple indirect block.
pub const INDIRECT: usize = 3;

/// Offsets of the fields, for code that changes one of them in a block.
pub mod offset {
    /// Type and permissions, 2 bytes.
    pub const MODE: usize = 0;
    /// Names, 2 bytes.
    pub const LINKS: usize = 2;
    /// Owner, 4 bytes.
    pub const UID: usize = 4;
    /// Group, 4 bytes.
    pub const GID: usize = 8;
    /// Flags, 4 bytes.
    pub const FLAGS: usize = 12;
    /// Generation, 4 bytes.
    pub const GENERATION: usize = 16;
    /// Size in bytes, 8 bytes.
    pub const SIZE: usize = 20;
    /// Sectors allocated, 4 bytes.
    pub const SECTORS: usize = 28;
    /// Last access, 8 bytes.
    pub const ATIME: usize = 32;
    /// Last change of content, 8 bytes.
    pub const MTIME: usize = 40;
    /// Last change of attributes, 8 bytes.
    pub const CTIME: usize = 48;
    /// Creation, 8 bytes.
    pub const BTIME: usize = 56;
    /// Twelve direct addresses, 4 bytes each.
    pub const DIRECT: usize = 64;
    /// Three indirect addresses, 4 bytes each.
    pub const INDIRECT: usize = 112;
}
const _: () = assert!(offset::DIRECT + 4 * DIRECT == offset::INDIRECT);
const _: () = assert!(offset::INDIRECT + 4 * INDIRECT + 2 == INODE_BYTES);

/// Bytes of the text of a symbolic link that the address area holds.
pub const SHORT_SYMLINK: usize = 4 * (DIRECT + INDIRECT);
const _: () = assert!(SHORT_SYMLINK == 60);

/// Flag: every block of the file is whole, and blocks may lie behind its end. `fallocate` with a
/// kept size sets it; a truncation clears it.
pub const PREALLOCATED: u32 = 1;

/// Mask of the type in a mode.
pub const TYPE_MASK: u16 = 0o170_000;

/// The type bits of a mode.
pub fn type_bits(kind: FileKind) -> u16 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::File => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
    }
}

/// The kind that a mode says; none if the inode is free or the bits mean nothing.
pub fn kind_of_mode(mode: u16) -> Option<FileKind> {
    match mode & TYPE_MASK {
        0o010_000 => Some(FileKind::Fifo),
        0o020_000 => Some(FileKind::CharDevice),
        0o040_000 => Some(FileKind::Directory),
        0o060_000 => Some(FileKind::BlockDevice),
        0o100_000 => Some(FileKind::File),
        0o120_000 => Some(FileKind::Symlink),
        0o140_000 => Some(FileKind::Socket),
        _ => None,
    }
}

/// An inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Type and permissions, as `st_mode`; 0 if the inode is free.
    pub mode: u16,
    /// Names.
    pub links: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// [`PREALLOCATED`] or nothing.
    pub flags: u32,
    /// Differs from one use of the number to the next.
    pub generation: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space in units of 512 bytes, indirect blocks included.
    pub sectors: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Address of the first fragment of each of the first twelve blocks; 0 for a hole.
    pub direct: [Fragment; DIRECT],
    /// Addresses of the single, double and triple indirect block.
    pub indirect: [Fragment; INDIRECT],
}

/// True if nothing uses the inode with these bytes; see [`Inode::is_free`].
pub fn is_free(bytes: &[u8]) -> bool {
    u16_at(bytes, offset::MODE) == 0
}

impl Inode {
    /// Reads an inode from its 126 bytes.
    pub fn decode(bytes: &[u8]) -> Inode {
        // With a length that is known, no field is checked against it.
        let bytes: &[u8; INODE_BYTES] = bytes.first_chunk().expect("an inode is 126 bytes");
        let addresses = |from: usize, index: usize| u32_at(bytes, from + 4 * index);
        Inode {
            mode: u16_at(bytes, offset::MODE),
            links: u16_at(bytes, offset::LINKS),
            uid: u32_at(bytes, offset::UID),
            gid: u32_at(bytes, offset::GID),
            flags: u32_at(bytes, offset::FLAGS),
            generation: u32_at(bytes, offset::GENERATION),
            size: u64_at(bytes, offset::SIZE),
            sectors: u32_at(bytes, offset::SECTORS),
            atime: i64_at(bytes, offset::ATIME),
            mtime: i64_at(bytes, offset::MTIME),
            ctime: i64_at(bytes, offset::CTIME),
            btime: i64_at(bytes, offset::BTIME),
            direct: std::array::from_fn(|index| addresses(offset::DIRECT, index)),
            indirect: std::array::from_fn(|index| addresses(offset::INDIRECT, index)),
        }
    }

    /// The inode as it lies on disk.
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let mut out = [0; INODE_BYTES];
        put(&mut out, offset::MODE, &self.mode.to_le_bytes());
        put(&mut out, offset::LINKS, &self.links.to_le_bytes());
        put(&mut out, offset::UID, &self.uid.to_le_bytes());
        put(&mut out, offset::GID, &self.gid.to_le_bytes());
        put(&mut out, offset::FLAGS, &self.flags.to_le_bytes());
        put(&mut out, offset::GENERATION, &self.generation.to_le_bytes());
        put(&mut out, offset::SIZE, &self.size.to_le_bytes());
        put(&mut out, offset::SECTORS, &self.sectors.to_le_bytes());
        put(&mut out, offset::ATIME, &self.atime.to_le_bytes());
        put(&mut out, offset::MTIME, &self.mtime.to_le_bytes());
        put(&mut out, offset::CTIME, &self.ctime.to_le_bytes());
        put(&mut out, offset::BTIME, &self.btime.to_le_bytes());
        for (index, address) in self.direct.iter().chain(&self.indirect).enumerate() {
            put(&mut out, offset::DIRECT + 4 * index, &address.to_le_bytes());
        }
        out
    }

    /// True if nothing uses the inode.
    pub fn is_free(&self) -> bool {
        self.mode == 0
    }

    /// The kind of the object; none if the inode is free or damaged.
    pub fn kind(&self) -> Option<FileKind> {
        kind_of_mode(self.mode)
    }

    /// True if the address area holds addresses of blocks, not the text of a short symbolic link or
    /// a device number.
    pub fn has_blocks(&self) -> bool {
        match self.kind() {
            Some(FileKind::File | FileKind::Directory) => true,
            Some(FileKind::Symlink) => self.size > SHORT_SYMLINK as u64,
            _ => false,
        }
    }

    /// The device number, of device files.
    pub fn device(&self) -> u32 {
        self.direct[0]
    }

    /// The address area as bytes: the text of a short symbolic link is its first `size` bytes.
    pub fn short_text(&self) -> Vec<u8> {
        let bytes = self.encode();
        let length = (self.size as usize).min(SHORT_SYMLINK);
        bytes[offset::DIRECT..offset::DIRECT + length].to_vec()
    }

    /// Blocks that the size covers, holes included.
    pub fn size_blocks(&self, geometry: &Geometry) -> u64 {
        self.size.div_ceil(geometry.block_bytes() as u64)
    }

    /// Fragments that block `index` of the file has if it is no hole: a whole block, the tail, or 0
    /// behind the end.
    pub fn block_fragments(&self, index: u64, geometry: &Geometry) -> u32 {
        let whole = geometry.fragments_per_block();
        let blocks = self.size_blocks(geometry);
        if self.flags & PREALLOCATED != 0 || index + 1 < blocks {
            return whole;
        }
        if index >= blocks {
            return 0;
        }
        if index >= DIRECT as u64 {
            return whole;
        }
        let tail = self.size - index * geometry.block_bytes() as u64;
        tail.div_ceil(geometry.fragment_bytes() as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::ondisk::geometry::Sizes;
    use proptest::prelude::*;

    fn geometry() -> Geometry {
        let sizes = Sizes {
            block_bytes: 8192,
            fragment_bytes: 1024,
            fragments: 8192,
            fragments_per_group: 8192,
            inodes_per_group: 128,
            stagger: 0,
        };
        Geometry::new(sizes).expect("possible")
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), INODE_BYTES - 2)) {
            let mut bytes = bytes;
            bytes.extend([0, 0]);
            let inode = Inode::decode(&bytes);
            prop_assert_eq!(&inode.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn the_tail_follows_from_the_size() {
        let geometry = geometry();
        let inode = |size| Inode { mode: 0o100_644, size, ..Inode::default() };
        assert_eq!(inode(0).block_fragments(0, &geometry), 0);
        assert_eq!(inode(1).block_fragments(0, &geometry), 1);
        assert_eq!(inode(1025).block_fragments(0, &geometry), 2);
        assert_eq!(inode(8192).block_fragments(0, &geometry), 8);
        assert_eq!(inode(8192).block_fragments(1, &geometry), 0);
        assert_eq!(inode(8193).block_fragments(0, &geometry), 8);
        assert_eq!(inode(12 * 8192 + 1).block_fragments(12, &geometry), 8, "no tail there");
        let preallocated = Inode { flags: PREALLOCATED, ..inode(1) };
        assert_eq!(preallocated.block_fragments(5, &geometry), 8);
    }

    #[test]
    fn kinds_and_modes_agree() {
        for kind in [
            FileKind::File,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::CharDevice,
            FileKind::BlockDevice,
        ] {
            assert_eq!(kind_of_mode(type_bits(kind) | 0o7777), Some(kind));
        }
        assert_eq!(kind_of_mode(0), None);
    }

    #[test]
    fn a_short_symlink_lies_in_the_address_area() {
        let mut inode = Inode { mode: 0o120_777, size: 5, ..Inode::default() };
        inode.direct[0] = u32::from_le_bytes(*b"hell");
        inode.direct[1] = u32::from(b'o');
        assert_eq!(inode.short_text(), b"hello");
        assert!(!inode.has_blocks());
    }
}
