//! Attributes of a file: 96 bytes, those of its object.

use super::kinds;
use seekless_engine::objects::{ATTRIBUTE_BYTES, ObjectNr};
use seekless_fs::call::{FileKind, Timestamp};
use seekless_fs::fields::{i64_at, put, u16_at, u32_at, u64_at};

/// Attributes. All bytes of the structure that are not here are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inode {
    /// Kind in the upper four bits, and permissions; 0 if there is no object.
    pub mode: u16,
    /// Names; of a directory 2, and one for each directory in it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Last access, in nanoseconds since 1970.
    pub atime: Timestamp,
    /// Last change of content.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Tells objects apart that had the same number one after the other.
    pub generation: u32,
    /// Number of a device.
    pub device: u32,
    /// Of a directory, the one above it; of the root, itself.
    pub parent: ObjectNr,
}

mod offset {
    pub const MODE: usize = 0;
    pub const LINKS: usize = 4;
    pub const UID: usize = 8;
    pub const GID: usize = 12;
    pub const SIZE: usize = 16;
    pub const ATIME: usize = 24;
    pub const MTIME: usize = 32;
    pub const CTIME: usize = 40;
    pub const BTIME: usize = 48;
    pub const GENERATION: usize = 56;
    pub const DEVICE: usize = 60;
    pub const PARENT: usize = 64;
    pub const END: usize = 68;
}

const _: () = assert!(offset::END <= ATTRIBUTE_BYTES);

impl Inode {
    /// The attributes of some bytes. All bytes make some.
    pub fn decode(bytes: &[u8]) -> Inode {
        Inode {
            mode: u16_at(bytes, offset::MODE),
            links: u32_at(bytes, offset::LINKS),
            uid: u32_at(bytes, offset::UID),
            gid: u32_at(bytes, offset::GID),
            size: u64_at(bytes, offset::SIZE),
            atime: i64_at(bytes, offset::ATIME),
            mtime: i64_at(bytes, offset::MTIME),
            ctime: i64_at(bytes, offset::CTIME),
            btime: i64_at(bytes, offset::BTIME),
            generation: u32_at(bytes, offset::GENERATION),
            device: u32_at(bytes, offset::DEVICE),
            parent: u32_at(bytes, offset::PARENT),
        }
    }

    /// The bytes of the attributes.
    pub fn encode(&self) -> [u8; ATTRIBUTE_BYTES] {
        let mut bytes = [0; ATTRIBUTE_BYTES];
        put(&mut bytes, offset::MODE, &self.mode.to_le_bytes());
        put(&mut bytes, offset::LINKS, &self.links.to_le_bytes());
        put(&mut bytes, offset::UID, &self.uid.to_le_bytes());
        put(&mut bytes, offset::GID, &self.gid.to_le_bytes());
        put(&mut bytes, offset::SIZE, &self.size.to_le_bytes());
        put(&mut bytes, offset::ATIME, &self.atime.to_le_bytes());
        put(&mut bytes, offset::MTIME, &self.mtime.to_le_bytes());
        put(&mut bytes, offset::CTIME, &self.ctime.to_le_bytes());
        put(&mut bytes, offset::BTIME, &self.btime.to_le_bytes());
        put(&mut bytes, offset::GENERATION, &self.generation.to_le_bytes());
        put(&mut bytes, offset::DEVICE, &self.device.to_le_bytes());
        put(&mut bytes, offset::PARENT, &self.parent.to_le_bytes());
        bytes
    }

    /// The kind; none if there is no object, or none of a possible kind.
    pub fn kind(&self) -> Option<FileKind> {
        kinds::kind_of((self.mode >> 12) as u8)
    }

    /// True if it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    /// True if it has bytes.
    pub fn has_content(&self) -> bool {
        matches!(self.kind(), Some(FileKind::File | FileKind::Directory | FileKind::Symlink))
    }
}

/// A mode of a kind, with these permissions.
pub fn mode_of(kind: FileKind, permissions: u16) -> u16 {
    u16::from(kinds::number(kind)) << 12 | permissions & 0o7777
}

/// What differs between two structures: ranges with so few equal bytes between them that one change
/// costs less than two.
pub fn differences<'a>(old: &'a [u8], new: &'a [u8]) -> Vec<(usize, &'a [u8])> {
    const APART: usize = 12;
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for at in (0..new.len()).filter(|&at| old[at] != new[at]) {
        match ranges.last_mut() {
            Some(last) if at - last.end < APART => last.end = at + 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ranges.into_iter().map(|range| (range.start, &new[range])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn attributes_come_back(mut bytes in prop::collection::vec(any::<u8>(), ATTRIBUTE_BYTES)) {
            bytes[2..4].fill(0);
            bytes[offset::END..].fill(0);
            prop_assert_eq!(&Inode::decode(&bytes).encode()[..], &bytes[..]);
        }

        #[test]
        fn differences_make_the_new_from_the_old(
            old in prop::collection::vec(0u8..3, 96),
            new in prop::collection::vec(0u8..3, 96),
        ) {
            let mut made = old.clone();
            for (at, bytes) in differences(&old, &new) {
                made[at..at + bytes.len()].copy_from_slice(bytes);
            }
            prop_assert_eq!(made, new);
        }
    }

    #[test]
    fn kinds_come_back() {
        for number in 0..16 {
            if let Some(kind) = kinds::kind_of(number) {
                let inode = Inode { mode: mode_of(kind, 0o644), ..Inode::default() };
                assert_eq!((inode.kind(), kinds::number(kind)), (Some(kind), number));
            }
        }
    }
}
