//! An inode: 64 bytes. It has neither a count of blocks nor a generation nor a time of creation.

use seekless_fs::call::{FileKind, Timestamp};
use seekless_fs::fields::{put, u16_at, u32_at};

/// Number of a zone; 0 stands for a hole.
pub type Zone = u32;

/// Bytes of an inode.
pub const INODE_BYTES: usize = 64;
/// Addresses of data in an inode.
pub const DIRECT: usize = 7;
/// Addresses of indirect zones, one for each level.
pub const LEVELS: usize = 3;
/// Names of an object at most: `MINIX2_LINK_MAX` of Linux.
pub const MOST_LINKS: u16 = 65_530;
/// The root directory.
pub const ROOT_INODE: u32 = 1;
/// The bits of the kind in a mode.
pub const KIND_MASK: u16 = 0o170_000;

/// Nanoseconds of a second.
pub const SECOND: Timestamp = 1_000_000_000;

/// An inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Kind and permissions; 0 if the inode is free.
    pub mode: u16,
    /// Names.
    pub links: u16,
    /// Owner.
    pub uid: u16,
    /// Group.
    pub gid: u16,
    /// Bytes.
    pub size: u32,
    /// Time of the last access, in seconds.
    pub atime: u32,
    /// Time of the last change of content, in seconds.
    pub mtime: u32,
    /// Time of the last change of attributes, in seconds.
    pub ctime: u32,
    /// Addresses: seven of data, then one for each level. A device has its number in the first.
    pub zones: [Zone; DIRECT + LEVELS],
}

impl Inode {
    /// The inode of some bytes. All bytes make one.
    pub fn decode(bytes: &[u8]) -> Inode {
        let mut zones = [0; DIRECT + LEVELS];
        for (index, zone) in zones.iter_mut().enumerate() {
            *zone = u32_at(bytes, 24 + 4 * index);
        }
        Inode {
            mode: u16_at(bytes, 0),
            links: u16_at(bytes, 2),
            uid: u16_at(bytes, 4),
            gid: u16_at(bytes, 6),
            size: u32_at(bytes, 8),
            atime: u32_at(bytes, 12),
            mtime: u32_at(bytes, 16),
            ctime: u32_at(bytes, 20),
            zones,
        }
    }

    /// The bytes of the inode.
    pub fn encode(&self) -> [u8; INODE_BYTES] {
        let mut bytes = [0; INODE_BYTES];
        put(&mut bytes, 0, &self.mode.to_le_bytes());
        put(&mut bytes, 2, &self.links.to_le_bytes());
        put(&mut bytes, 4, &self.uid.to_le_bytes());
        put(&mut bytes, 6, &self.gid.to_le_bytes());
        put(&mut bytes, 8, &self.size.to_le_bytes());
        put(&mut bytes, 12, &self.atime.to_le_bytes());
        put(&mut bytes, 16, &self.mtime.to_le_bytes());
        put(&mut bytes, 20, &self.ctime.to_le_bytes());
        for (index, zone) in self.zones.iter().enumerate() {
            put(&mut bytes, 24 + 4 * index, &zone.to_le_bytes());
        }
        bytes
    }

    /// The kind of the object; none if the inode is free, or its mode is impossible.
    pub fn kind(&self) -> Option<FileKind> {
        Some(match self.mode & KIND_MASK {
            0o010_000 => FileKind::Fifo,
            0o020_000 => FileKind::CharDevice,
            0o040_000 => FileKind::Directory,
            0o060_000 => FileKind::BlockDevice,
            0o100_000 => FileKind::File,
            0o120_000 => FileKind::Symlink,
            0o140_000 => FileKind::Socket,
            _ => return None,
        })
    }

    /// True if the addresses lead to zones.
    pub fn has_zones(&self) -> bool {
        matches!(self.kind(), Some(FileKind::File | FileKind::Directory | FileKind::Symlink))
    }

    /// True if it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// The number of a device; 0 of other objects.
    pub fn device(&self) -> u32 {
        match self.kind() {
            Some(FileKind::CharDevice | FileKind::BlockDevice) => self.zones[0],
            _ => 0,
        }
    }
}

/// The bits of a kind in a mode.
pub fn kind_bits(kind: FileKind) -> u16 {
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

/// A time as the format holds it: whole seconds from 1970 to 2106. Others become the nearest one,
/// as in the kernel.
pub fn seconds(time: Timestamp) -> u32 {
    time.div_euclid(SECOND).clamp(0, Timestamp::from(u32::MAX)) as u32
}

/// A time of the format in nanoseconds.
pub fn timestamp(seconds: u32) -> Timestamp {
    Timestamp::from(seconds) * SECOND
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_inode_comes_back(bytes in proptest::collection::vec(any::<u8>(), INODE_BYTES)) {
            let inode = Inode::decode(&bytes);
            prop_assert_eq!(&inode.encode()[..], &bytes[..]);
        }
    }

    #[test]
    fn times_are_cut_to_what_the_format_holds() {
        assert_eq!(seconds(1_999_999_999), 1);
        assert_eq!(seconds(-1), 0);
        assert_eq!(seconds(Timestamp::MAX), u32::MAX);
        assert_eq!(timestamp(u32::MAX), 4_294_967_295_000_000_000);
    }

    #[test]
    fn kinds_come_back() {
        for bits in 0..16_u16 {
            let inode = Inode { mode: bits << 12 | 0o644, ..Inode::default() };
            if let Some(kind) = inode.kind() {
                assert_eq!(kind_bits(kind), bits << 12);
            }
        }
    }
}
