//! Checksums of blocks.

use crate::data::{BlockSectors, Body, Piece};
use crate::units::{BLOCK_BYTES, SECTOR_BYTES};

/// CRC-32C (Castagnoli) of bytes, as on disk.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of a block in sectors.
pub fn of_sectors(sectors: &BlockSectors) -> u32 {
    sectors.iter().fold(0, |sum, sector| crc32c::crc32c_append(sum, &**sector))
}

/// Checksum of a piece of one block. A stamp has the checksum of its description instead of that
/// of the 4 KiB it stands for: equal exactly when the content is equal, and free.
///
/// # Panics
/// If the piece has more than one block.
pub fn of_block(piece: &Piece) -> u32 {
    assert_eq!(piece.blocks, 1);
    match &piece.body {
        Body::Zeros => 0,
        Body::Stamp { key, version } => {
            let mut words = [0; 16];
            words[..8].copy_from_slice(&key.to_le_bytes());
            words[8..].copy_from_slice(&version.to_le_bytes());
            crc32c::crc32c(&words)
        }
        Body::Bytes(bytes) => crc32c::crc32c(bytes),
        Body::Sectors(sectors) => of_sectors(sectors),
    }
}

/// True if a piece of one block is all zeros.
pub fn is_zero(piece: &Piece) -> bool {
    match &piece.body {
        Body::Zeros => true,
        Body::Stamp { .. } => false,
        Body::Bytes(bytes) => {
            // Almost every block that is not all zeros shows it in its first bytes.
            debug_assert_eq!(bytes.len(), BLOCK_BYTES);
            bytes[..16] == [0; 16] && bytes.iter().all(|&byte| byte == 0)
        }
        Body::Sectors(sectors) => sectors.iter().all(|sector| **sector == [0; SECTOR_BYTES]),
    }
}
