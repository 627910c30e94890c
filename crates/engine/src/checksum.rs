//! Checksums of blocks.

use crate::data::{BlockSectors, Body, Piece};
use crate::units::{BLOCK_BYTES, SECTOR_BYTES};

/// CRC-32C (Castagnoli) of bytes, as on disk.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of some bytes followed by `bytes`, where `sum` is that of the former; 0 for none.
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(sum, bytes)
}

/// A number each of whose bits depends on each bit of `x`, differently for every `x`: the finalizer
/// of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// CRC-32C of a block in sectors.
pub fn of_sectors(sectors: &BlockSectors) -> u32 {
    sectors.iter().fold(0, |sum, sector| crc32c::crc32c_append(sum, &**sector))
}

/// Checksum of a piece of one block. A stamp has the checksum of its description instead of that
/// of the 4 KiB it stands for: it tells contents apart as well, and is free.
///
/// # Panics
/// If the piece has more than one block.
pub fn of_block(piece: &Piece) -> u32 {
    assert_eq!(piece.blocks, 1);
    match &piece.body {
        Body::Zeros => 0,
        Body::Stamp { key, version } => mix(key.rotate_left(32) ^ mix(*version)) as u32,
        Body::Bytes(bytes) => crc32c::crc32c(bytes),
        Body::Sectors(sectors) => of_sectors(sectors),
        Body::Lazy(_) => crc32c::crc32c(&piece.to_bytes()),
        Body::Parity(parity) => parity.digest(),
    }
}

/// The same with the CRC of the last eight bytes first, then that of the others. Blocks that end
/// with a CRC of their own would all have the same one in the usual order, and where something was
/// torn an older block of that kind could pass for a newer one.
///
/// # Panics
/// If the piece has more than one block.
pub fn of_turned_block(piece: &Piece) -> u32 {
    match piece.body {
        Body::Zeros | Body::Stamp { .. } => of_block(piece),
        Body::Bytes(_) | Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => {
            assert_eq!(piece.blocks, 1);
            let bytes = piece.to_bytes();
            let (head, tail) = bytes.split_at(BLOCK_BYTES - 8);
            crc32c_append(crc32c(tail), head)
        }
    }
}

/// A checksum that is no CRC, for blocks of which nothing is known. CRCs are linear: where a part
/// of a block ends with a CRC of its own, another such part in its place changes the CRC of the
/// whole not at all, wherever it lies, and where something was torn an older block could pass for
/// a newer one. Four sums go through the words of 8 bytes, each through every fourth one, as
/// `SPEC.md` has it; one alone would wait for its own multiplications.
///
/// # Panics
/// If the piece has more than one block.
pub fn of_foreign_block(piece: &Piece) -> u32 {
    match piece.body {
        Body::Zeros | Body::Stamp { .. } => of_block(piece),
        Body::Bytes(_) | Body::Sectors(_) | Body::Lazy(_) | Body::Parity(_) => {
            assert_eq!(piece.blocks, 1);
            let mut sums = [1, 2, 3, 4];
            for words in piece.to_bytes().as_chunks::<32>().0 {
                for (sum, word) in sums.iter_mut().zip(words.as_chunks().0) {
                    *sum = mix(*sum ^ u64::from_le_bytes(*word));
                }
            }
            sums.into_iter().fold(0, |all, sum| mix(all ^ sum)) as u32
        }
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
        Body::Lazy(_) | Body::Parity(_) => piece.to_bytes().iter().all(|&byte| byte == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// A block of two halves, each of which ends with its CRC.
    fn block(halves: [u8; 2]) -> Piece {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        for fill in halves {
            let from = bytes.len();
            bytes.extend([fill; BLOCK_BYTES / 2 - 4]);
            let sum = crc32c(&bytes[from..]);
            bytes.extend(sum.to_le_bytes());
        }
        Piece::block(Body::Bytes(Bytes::from(bytes)))
    }

    #[test]
    fn parts_that_end_with_their_checksum_are_told_apart() {
        let (one, other) = (block([1, 9]), block([2, 9]));
        assert_eq!(of_block(&one), of_block(&other), "that is what a CRC cannot");
        assert_eq!(of_turned_block(&one), of_turned_block(&other), "nor can it in another order");
        assert_ne!(of_foreign_block(&one), of_foreign_block(&other));
        assert_eq!(of_foreign_block(&one), 1_624_373_781, "as SPEC.md has it");
    }
}
