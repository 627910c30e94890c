//! The superblock: the first block of object 0. It says what lies here, and never changes.

use crate::error::FsError;
use crate::vlfs::ondisk::block_of;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::call::Timestamp;
use seekless_fs::fields::{array_at, i64_at, put, u32_at};

/// Says what the block is.
const MAGIC: [u8; 8] = *b"SKLSVLFS";
/// The version of the format that this program writes.
pub const VERSION: u32 = 1;
/// Bytes of a label.
pub const LABEL_BYTES: usize = 32;

mod offset {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const FEATURES: usize = 12;
    pub const ID: usize = 16;
    pub const MADE: usize = 32;
    pub const LABEL: usize = 40;
    pub const CRC: usize = super::BLOCK_BYTES - 4;
}

/// The superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Random.
    pub id: u128,
    /// When it was made.
    pub made: Timestamp,
    /// A name for people, with zeros behind it.
    pub label: [u8; LABEL_BYTES],
}

impl Superblock {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        put(&mut bytes, offset::MAGIC, &MAGIC);
        put(&mut bytes, offset::VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, offset::ID, &self.id.to_le_bytes());
        put(&mut bytes, offset::MADE, &self.made.to_le_bytes());
        put(&mut bytes, offset::LABEL, &self.label);
        let crc = crc32c(&bytes[..offset::CRC]);
        put(&mut bytes, offset::CRC, &crc.to_le_bytes());
        bytes
    }

    /// The superblock of some bytes.
    ///
    /// # Errors
    /// [`FsError::Foreign`], [`FsError::Damaged`], [`FsError::Newer`],
    /// [`FsError::UnknownFeatures`].
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FsError> {
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(FsError::Foreign);
        }
        if crc32c(&bytes[..offset::CRC]) != u32_at(bytes, offset::CRC) {
            return Err(FsError::Damaged("its checksum is wrong".to_owned()));
        }
        match (u32_at(bytes, offset::VERSION), u32_at(bytes, offset::FEATURES)) {
            (VERSION, 0) => Ok(Superblock {
                id: u128::from_le_bytes(array_at(bytes, offset::ID)),
                made: i64_at(bytes, offset::MADE),
                label: array_at(bytes, offset::LABEL),
            }),
            (VERSION, features) => Err(FsError::UnknownFeatures(features)),
            (version, _) => Err(FsError::Newer(version)),
        }
    }
}

/// True if a volume holds objects.
pub fn has_objects(disk: &dyn Disk) -> bool {
    disk.patch_bytes() > 0
}

/// Reads the superblock.
///
/// # Errors
/// Those of [`Superblock::decode`]; [`FsError::Foreign`] on a volume without objects; errors of the
/// volume.
pub fn load(disk: &mut dyn Disk) -> Result<Superblock, FsError> {
    if !has_objects(disk) {
        return Err(FsError::Foreign);
    }
    Superblock::decode(&disk.read(block_of(0, 0), 1)?.to_bytes())
}

/// Erases the superblock.
///
/// # Errors
/// Errors of the volume.
pub fn erase(disk: &mut dyn Disk) -> Result<(), FsError> {
    disk.write(block_of(0, 0), Data::zeros(1))?;
    Ok(disk.flush_for(Edge::MkfsEmpty)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back_and_damage_shows() {
        let superblock = Superblock { id: 5 << 90, made: -3, label: [b'x'; LABEL_BYTES] };
        let mut bytes = superblock.encode();
        assert_eq!(Superblock::decode(&bytes), Ok(superblock));
        bytes[100] ^= 1;
        assert!(matches!(Superblock::decode(&bytes), Err(FsError::Damaged(_))));
        bytes[0] ^= 1;
        assert_eq!(Superblock::decode(&bytes), Err(FsError::Foreign));
        let mut newer = superblock.encode();
        newer[8] = 2;
        let crc = crc32c(&newer[..offset::CRC]);
        put(&mut newer, offset::CRC, &crc.to_le_bytes());
        assert_eq!(Superblock::decode(&newer), Err(FsError::Newer(2)));
    }
}
