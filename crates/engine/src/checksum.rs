//! Checksums of blocks.

use crc_fast::{CrcAlgorithm, Digest};
use twox_hash::XxHash3_64;

/// CRC-32C (Castagnoli) of bytes, as on disk.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of some bytes followed by `bytes`, where `sum` is that of the first bytes; 0 for none.
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    digest.finalize() as u32
}

/// XXH3 with 64 bits and the seed 0.
pub fn xxh3_64(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The lower half of XXH3 with 64 bits and the seed 0.
pub fn xxh3(bytes: &[u8]) -> u32 {
    XxHash3_64::oneshot(bytes) as u32
}

/// A number each of whose bits depends on each bit of `x`, differently for every `x`: the finalizer
/// of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Algorithm of the checksums of blocks whose content a layout does not know: data of clients, and
/// all other blocks that the map of a volume names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// CRC-32C. It is linear: blocks that end with their own CRC all have the same one. After a
    /// torn write an older block of that kind could pass for a newer one.
    Crc,
    /// The CRC of the last eight bytes first, then that of the others. It distinguishes such
    /// blocks, except those of which a part, such as a sector, ends with its own CRC.
    TurnedCrc,
    /// The lower half of XXH3 with 64 bits and the seed 0: not linear, so that a client's own
    /// checksums cannot cancel it, and twice as fast.
    Xxh3,
    /// The same; the checksums of the metadata itself are mixed, see [`Identity::sum`].
    Mixed,
}

impl Sums {
    /// The algorithm of new volumes.
    pub const NEWEST: Sums = Sums::Mixed;
}

/// The volume that metadata belongs to, and the algorithm of its metadata checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    id: u128,
    mixed: bool,
}

impl Identity {
    /// The identity of a volume with such checksums.
    pub fn new(id: u128, sums: Sums) -> Identity {
        Identity { id, mixed: sums == Sums::Mixed }
    }

    /// The bytes that each block of metadata begins with, behind its magic number.
    pub fn to_le_bytes(self) -> [u8; 16] {
        self.id.to_le_bytes()
    }

    /// The checksum of metadata.
    pub fn sum(self, bytes: &[u8]) -> u32 {
        self.of_crc(crc32c(bytes))
    }

    /// The checksum of metadata with that CRC. A CRC is linear: a RAID-5 may compute a missing
    /// member from a half-written stripe, and get the exclusive or of three blocks of metadata,
    /// which has a valid CRC. So the CRC is mixed with the finalizer of MurmurHash3 (Appleby,
    /// public domain), a bijection that is not linear.
    pub fn of_crc(self, crc: u32) -> u32 {
        if !self.mixed {
            return crc;
        }
        let x = (crc ^ crc >> 16).wrapping_mul(0x85eb_ca6b);
        let x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
        x ^ x >> 16
    }
}

/// True if all bytes are zero. In strides, so that the compiler can look at many at once.
pub fn are_zeros(bytes: &[u8]) -> bool {
    let (strides, rest) = bytes.as_chunks::<64>();
    strides.iter().all(|stride| stride.iter().fold(0, |sum, byte| sum | byte) == 0)
        && rest.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Body, Piece};
    use crate::units::BLOCK_BYTES;
    use bytes::Bytes;
    use std::sync::Arc;

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
        assert_eq!(Sums::Crc.of(&one), Sums::Crc.of(&other), "that is what a CRC cannot");
        let turned = Sums::TurnedCrc;
        assert_eq!(turned.of(&one), turned.of(&other), "nor can it in another order");
        assert_ne!(Sums::Xxh3.of(&one), Sums::Xxh3.of(&other));
        assert_eq!(Sums::Xxh3.of(&one), 419_763_209, "as SPEC.md has it");
    }

    /// True if the exclusive or of three blocks that end with their checksum also does.
    fn adds_up(sums: Sums) -> bool {
        let id = Identity::new(7, sums);
        let sealed = |fill: u8| {
            let mut bytes = vec![fill; BLOCK_BYTES - 4];
            bytes.extend(id.sum(&bytes).to_le_bytes());
            bytes
        };
        let all = [sealed(1), sealed(9), sealed(77)];
        let sum: Vec<u8> =
            (0..BLOCK_BYTES).map(|at| all[0][at] ^ all[1][at] ^ all[2][at]).collect();
        let (head, tail) = sum.split_at(BLOCK_BYTES - 4);
        id.sum(head).to_le_bytes() == tail
    }

    #[test]
    fn what_parity_makes_of_metadata_is_no_metadata() {
        assert!(adds_up(Sums::Xxh3), "that is what a CRC cannot");
        assert!(!adds_up(Sums::Mixed));
        let mixed = Identity::new(7, Sums::Mixed).of_crc(0x1234_5678);
        assert_eq!(mixed, 0xe37c_d1bc, "as SPEC.md has it");
    }

    #[test]
    fn a_block_has_one_checksum_however_it_is_kept() {
        let whole = block([3, 4]);
        let bytes = whole.to_bytes();
        let sectors = std::array::from_fn(|index| Arc::new(bytes.as_chunks().0[index]));
        let sectors = Piece::block(Body::Sectors(Arc::new(sectors)));
        for sums in [Sums::Crc, Sums::TurnedCrc, Sums::Xxh3, Sums::Mixed] {
            assert_eq!(sums.of(&whole), sums.of(&sectors), "{sums:?}");
        }
    }
}
