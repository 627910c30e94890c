//! The superblock: the first and the last block of every volume's device.
//!
//! `SPEC.md`, section "Superblock", has the layout to the byte.

use crate::checksum::{Identity, Sums, crc32c};
use crate::data::{Data, Piece};
use crate::disk::Disk;
use crate::edge::Edge;
use crate::io::IoError;
use crate::planted::{PlantedBug, planted};
use crate::units::{BLOCK_BYTES, BlockNr};
use bytes::Bytes;

const MAGIC: [u8; 8] = *b"SEEKLESS";
/// Newest version of the on-disk format that this build reads and writes.
pub const FORMAT_VERSION: u32 = 5;
const CHECKED: usize = BLOCK_BYTES - 4;
const _: () = assert!(CHECKED == 4092);

/// The number of a layout in the superblock. The registry of layouts knows what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutNumber(pub u32);

/// What the superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Layout of the volume.
    pub layout: LayoutNumber,
    /// Version of the on-disk format that the volume needs.
    pub version: u32,
    /// Identity of the volume.
    pub id: u128,
    /// Size seen by clients, in blocks.
    pub blocks: u64,
    /// Size of the device when the volume was made, in blocks.
    pub device_blocks: u64,
    /// Options of the layout; only that layout interprets the bits.
    pub options: u32,
    /// Algorithm of the checksums of blocks.
    pub sums: Sums,
}

/// Why there is no usable superblock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Neither copy has the magic number.
    #[error("this is no Seekless volume; `seekless create` makes one")]
    Foreign,
    /// Both copies are damaged.
    #[error("both copies of the superblock are damaged")]
    Damaged,
    /// Written by a newer version.
    #[error(
        "the volume has format version {0}, this program knows versions up to \
         {FORMAT_VERSION}; use a newer one"
    )]
    Newer(u32),
    /// The layout number is unknown.
    #[error("the volume has the unknown layout number {0}; use a newer program")]
    UnknownLayout(u32),
    /// The image is shorter than the volume.
    #[error("the image is truncated: the volume needs {needed} blocks of 4 KiB, there are {found}")]
    Truncated {
        /// Blocks the volume was made for.
        needed: u64,
        /// Blocks of the image.
        found: u64,
    },
}

/// Refuses a superblock that no layout can have written, and fills in fields that only its layout
/// knows. The registry of layouts implements it.
pub type Known<'k> = &'k dyn Fn(Superblock) -> Result<Superblock, SuperblockError>;

impl Superblock {
    /// The identity that signs its metadata.
    pub fn identity(&self) -> Identity {
        Identity::new(self.id, self.sums)
    }

    /// The version that a volume needs: that of its checksums, or `least`, which is that of the
    /// options of its layout, 1 if they need none.
    pub fn version_for(sums: Sums, least: u32) -> u32 {
        match sums {
            Sums::Mixed => 5,
            Sums::Xxh3 => 4,
            Sums::Crc | Sums::TurnedCrc => least,
        }
    }

    /// The same, with this algorithm if the superblock names none.
    pub fn with_oldest_sums(self, oldest: Sums) -> Superblock {
        let sums = if self.sums == Sums::Crc { oldest } else { self.sums };
        Superblock { sums, ..self }
    }

    /// Its content in one line, given the name of its layout.
    pub fn to_text(&self, layout: &str) -> String {
        let Superblock { version, id, blocks, device_blocks, .. } = self;
        format!(
            "superblock: layout {layout}, format {version}, id {id:032x}, \
             {blocks} blocks of 4 KiB on a device of {device_blocks}"
        )
    }

    /// The block as it lies on disk.
    pub fn encode(&self) -> Bytes {
        debug_assert!((1..=FORMAT_VERSION).contains(&self.version), "version {}", self.version);
        debug_assert!(self.blocks > 0, "a volume without blocks");
        let mut out = vec![0; BLOCK_BYTES];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.layout.0.to_le_bytes());
        out[16..32].copy_from_slice(&self.id.to_le_bytes());
        out[32..40].copy_from_slice(&self.blocks.to_le_bytes());
        out[40..48].copy_from_slice(&self.device_blocks.to_le_bytes());
        out[48..52].copy_from_slice(&self.options.to_le_bytes());
        let sums = match self.sums {
            Sums::Crc | Sums::TurnedCrc => 0_u32,
            Sums::Xxh3 => 1,
            Sums::Mixed => 2,
        };
        out[52..56].copy_from_slice(&sums.to_le_bytes());
        let sum = crc32c(&out[..CHECKED]);
        out[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        Bytes::from(out)
    }

    /// Reads the block back. It does not check the layout number and the options.
    ///
    /// # Errors
    /// Foreign, newer or damaged content.
    pub fn decode(block: &[u8]) -> Result<Superblock, SuperblockError> {
        assert_eq!(block.len(), BLOCK_BYTES);
        if block[0..8] != MAGIC {
            return Err(SuperblockError::Foreign);
        }
        if !Edge::SuperblockSum.allows(crc32c(&block[..CHECKED]) == le32(block, CHECKED)) {
            return Err(SuperblockError::Damaged);
        }
        let version = le32(block, 8);
        if version == 0 {
            return Err(SuperblockError::Damaged);
        }
        if version > FORMAT_VERSION {
            return Err(SuperblockError::Newer(version));
        }
        let mut id = [0; 16];
        id.copy_from_slice(&block[16..32]);
        let superblock = Superblock {
            layout: LayoutNumber(le32(block, 12)),
            version,
            id: u128::from_le_bytes(id),
            blocks: le64(block, 32),
            device_blocks: le64(block, 40),
            options: le32(block, 48),
            sums: match le32(block, 52) {
                0 => Sums::Crc,
                1 => Sums::Xxh3,
                2 => Sums::Mixed,
                _ => return Err(SuperblockError::Damaged),
            },
        };
        if superblock.blocks == 0 {
            return Err(SuperblockError::Damaged);
        }
        Ok(superblock)
    }

    /// Writes both copies, when everything that was written before is durable: a power cut must
    /// not leave a superblock without what it describes.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn write(&self, disk: &mut dyn Disk) -> Result<(), IoError> {
        debug_assert!((2..=disk.blocks()).contains(&self.device_blocks), "no room for two copies");
        disk.flush_for(Edge::SuperblockLast)?;
        let block = self.encode();
        disk.write(self.device_blocks - 1, Data::bytes(block.clone()))?;
        disk.write(0, Data::bytes(block))
    }

    /// Removes the superblock of a volume that a new one replaces, and makes that durable: a power
    /// cut must not leave the old superblock with metadata of the new volume.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn erase(disk: &mut dyn Disk) -> Result<(), IoError> {
        let last = disk.blocks().saturating_sub(1);
        let mut erased = false;
        for at in [0, last] {
            let is_one = |block: &Data| block.to_bytes().starts_with(&MAGIC);
            if disk.read(at, 1).is_ok_and(|block| is_one(&block)) {
                disk.write(at, Data::zeros(1))?;
                erased = true;
            }
        }
        if erased { disk.flush_for(Edge::SuperblockErased) } else { Ok(()) }
    }

    /// Reads the first copy, or the second if the first is unusable.
    ///
    /// # Errors
    /// The reason why the first copy is unusable, unless the second one is whole.
    pub fn read(disk: &mut dyn Disk, known: Known<'_>) -> Result<Superblock, SuperblockError> {
        let superblock = Superblock::read_of_part(disk, known)?;
        let (needed, found) = (superblock.device_blocks, disk.blocks());
        if needed > found {
            return Err(SuperblockError::Truncated { needed, found });
        }
        Ok(superblock)
    }

    /// The same of a device that may be too short for the volume.
    ///
    /// # Errors
    /// As for [`Superblock::read`], but for [`SuperblockError::Truncated`].
    pub fn read_of_part(
        disk: &mut dyn Disk,
        known: Known<'_>,
    ) -> Result<Superblock, SuperblockError> {
        let found = disk.blocks();
        if found < 2 {
            return Err(SuperblockError::Foreign);
        }
        match read_copy(disk, 0, known) {
            Ok(superblock) => Ok(superblock),
            Err(reason) if planted(PlantedBug::SecondCopyIgnored) => Err(reason),
            Err(reason) => match read_copy(disk, found - 1, known) {
                Ok(superblock) if superblock.device_blocks == found => Ok(superblock),
                Ok(_) => Err(reason),
                // A damaged magic number in one copy must not hide that the other is ours.
                Err(second) if reason == SuperblockError::Foreign => Err(second),
                Err(_) => Err(reason),
            },
        }
    }

    /// The blocks that should hold a copy of this superblock and do not.
    pub fn lost_copies(&self, disk: &mut dyn Disk, known: Known<'_>) -> Vec<BlockNr> {
        let places = [0, self.device_blocks - 1];
        places.into_iter().filter(|&at| read_copy(disk, at, known) != Ok(*self)).collect()
    }

    /// Rewrites a lost copy from the whole one, and makes it durable; true if one was lost. The
    /// whole copy is not written to, so it survives a power cut.
    ///
    /// # Errors
    /// What the medium reports.
    pub fn mend(&self, disk: &mut dyn Disk, known: Known<'_>) -> Result<bool, IoError> {
        let [lost] = self.lost_copies(disk, known)[..] else { return Ok(false) };
        let whole = if lost == 0 { self.device_blocks - 1 } else { 0 };
        // Copy the bytes instead of encoding anew: an older program may have written them.
        let block = disk.read(whole, 1)?;
        disk.write(lost, block)?;
        disk.flush_for(Edge::SuperblockMended)?;
        Ok(true)
    }
}

/// An unreadable copy counts as a damaged one: the other may still be whole.
fn read_copy(
    disk: &mut dyn Disk,
    at: BlockNr,
    known: Known<'_>,
) -> Result<Superblock, SuperblockError> {
    let decode = |block: &[u8]| known(Superblock::decode(block)?);
    let is_whole = |_, block: &Piece| decode(&block.to_bytes()).is_ok();
    match disk.read_whole(at, 1, &is_whole) {
        Ok(data) => decode(&data.to_bytes()),
        Err(_) => Err(SuperblockError::Damaged),
    }
}

/// The little-endian 32-bit number at `at`.
pub fn le32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The little-endian 64-bit number at `at`.
pub fn le64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            layout: LayoutNumber(1),
            version: Superblock::version_for(Sums::NEWEST, 1),
            id: 42,
            blocks: 100,
            device_blocks: 1000,
            options: 7,
            sums: Sums::NEWEST,
        }
    }

    #[test]
    fn decodes_what_it_encodes() {
        assert_eq!(Superblock::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let good = sample().encode();
        for at in 0..BLOCK_BYTES {
            let mut bad = good.to_vec();
            bad[at] ^= 0x40;
            assert!(Superblock::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn newer_versions_are_named() {
        let mut newer = sample().encode().to_vec();
        newer[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        let sum = crc32c(&newer[..CHECKED]);
        newer[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::decode(&newer), Err(SuperblockError::Newer(FORMAT_VERSION + 1)));
    }
}
