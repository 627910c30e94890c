//! The checksum of a block, whatever its content is made of.

use super::{Body, Piece};
use crate::checksum::{Sums, are_zeros, crc32c, crc32c_append, mix, xxh3};
use crate::planted::{PlantedBug, planted};
use crate::units::{BLOCK_BYTES, SECTOR_BYTES};

impl Sums {
    /// Checksum of a piece of one block. A stamp, and parity over stamps, has the checksum of its
    /// description instead of that of the 4 KiB it stands for: it tells contents apart as well, and
    /// is free.
    ///
    /// # Panics
    /// If the piece has more than one block.
    pub fn of(self, piece: &Piece) -> u32 {
        assert_eq!(piece.blocks, 1);
        let sums = if planted(PlantedBug::CrcSums) { Sums::Crc } else { self };
        match (&piece.body, sums) {
            (Body::Zeros, _) => 0,
            (Body::Stamp { key, version }, _) => mix(key.rotate_left(32) ^ mix(*version)) as u32,
            (Body::Parity(parity), _) => parity.digest(),
            (_, Sums::Xxh3 | Sums::Mixed) => xxh3(&piece.to_bytes()),
            (_, Sums::Crc) => crc32c(&piece.to_bytes()),
            (_, Sums::TurnedCrc) => {
                let bytes = piece.to_bytes();
                let (head, tail) = bytes.split_at(BLOCK_BYTES - 8);
                crc32c_append(crc32c(tail), head)
            }
        }
    }
}

impl Sums {
    /// True if a piece of one block has that checksum.
    pub fn has(self, piece: &Piece, sum: u32) -> bool {
        self.of(piece) == sum || planted(PlantedBug::ChecksumNotVerified)
    }

    /// True if that is the checksum of a stored piece of one block. A device may say of stored
    /// zeros that they are a hole.
    pub fn is_of(self, piece: &Piece, sum: u32) -> bool {
        let bytes = || Piece::block(Body::Bytes(piece.to_bytes()));
        self.has(piece, sum) || (matches!(piece.body, Body::Zeros) && self.of(&bytes()) == sum)
    }
}

/// True if a piece of one block is all zeros.
#[inline]
pub fn is_zero(piece: &Piece) -> bool {
    match &piece.body {
        Body::Zeros => true,
        Body::Stamp { .. } => false,
        Body::Bytes(bytes) => {
            // Almost every block that is not all zeros shows it in its first bytes.
            debug_assert_eq!(bytes.len(), BLOCK_BYTES);
            bytes[..16] == [0; 16] && are_zeros(bytes)
        }
        Body::Sectors(sectors) => sectors.iter().all(|sector| **sector == [0; SECTOR_BYTES]),
        Body::Lazy(_) | Body::Parity(_) => are_zeros(&piece.to_bytes()),
    }
}
