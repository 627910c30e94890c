//! The seal of a metadata sector: its last eight bytes. File systems and logs share it.
//!
//! A sector of 512 bytes holds 504 bytes of content, then kind (1), zero (1), the low bits of a
//! write counter (2) and a check (4). The check covers the id of the file system, the address of
//! the sector and the first 508 bytes. A sector is the unit in which writes tear, so a torn block
//! is a mixture of whole sectors. A sector of another place, kind or file system has a bad seal.
//!
//! The cache verifies seals when a block comes in and sets them when it goes out.

use crate::fields::{put, u16_at, u32_at};
use crate::tx::{PageKind, SECTOR_CONTENT};
use seekless_engine::checksum::{Identity, Sums, crc32c, crc32c_append};
use seekless_engine::units::SECTOR_BYTES;
use std::fmt::Debug;

const KIND: usize = SECTOR_CONTENT;
const ZERO: usize = KIND + 1;
const COUNTER: usize = ZERO + 1;
const CHECK: usize = COUNTER + 2;
const _: () = assert!(CHECK + 4 == SECTOR_BYTES);

/// The seals of metadata sectors, as the format of a file system defines them.
pub trait Seals: Debug + Send + Sync {
    /// True if the seal of this sector of 512 bytes is right. `sector` counts from the start of the
    /// volume.
    fn is_right(&self, sector: u64, kind: PageKind, bytes: &[u8]) -> bool;

    /// Sets the seal of a sector that goes to the volume.
    fn set(&self, sector: u64, kind: PageKind, bytes: &mut [u8]);

    /// Bytes of a sector of metadata that operations may change: those in front of the seal.
    fn content_bytes(&self) -> usize {
        SECTOR_CONTENT
    }
}

/// No seals: metadata fills its sectors, and a mixture of old and new ones is not noticed.
#[derive(Clone, Copy, Debug)]
pub struct Unsealed;

impl Seals for Unsealed {
    fn is_right(&self, _sector: u64, _kind: PageKind, _bytes: &[u8]) -> bool {
        true
    }

    fn set(&self, _sector: u64, _kind: PageKind, _bytes: &mut [u8]) {}

    fn content_bytes(&self) -> usize {
        SECTOR_BYTES
    }
}

/// What a sealed sector holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SealKind {
    /// The superblock or one of its copies.
    Superblock = 1,
    /// The header of a group, or bits of its inodes or fragments.
    Map = 2,
    /// Four inodes.
    Inodes = 3,
    /// Addresses of blocks.
    Indirect = 4,
    /// Entries of a directory.
    Directory = 5,
    /// Part of a log: see [`crate::log`].
    Log = 6,
}

impl SealKind {
    /// The kind of the sectors of such a block; none if they have no seals.
    pub fn of_page(kind: PageKind) -> Option<SealKind> {
        match kind {
            PageKind::Bitmap => Some(SealKind::Map),
            PageKind::Data => None,
            PageKind::Inodes => Some(SealKind::Inodes),
            PageKind::Indirect => Some(SealKind::Indirect),
            PageKind::Directory => Some(SealKind::Directory),
        }
    }

    /// The word for messages.
    pub fn name(self) -> &'static str {
        match self {
            SealKind::Superblock => "superblock",
            SealKind::Map => "map",
            SealKind::Inodes => "inode",
            SealKind::Indirect => "indirect",
            SealKind::Directory => "directory",
            SealKind::Log => "log",
        }
    }
}

/// Sets and verifies the seals of one file system.
#[derive(Clone, Copy, Debug)]
pub struct Sealer {
    /// CRC of the id, with which every check begins.
    prefix: u32,
    identity: Identity,
}

impl Sealer {
    /// The sealer of the file system with this id.
    pub fn new(id: u128) -> Sealer {
        let prefix = crc32c(&id.to_le_bytes());
        Sealer { prefix, identity: Identity::new(id, Sums::Mixed) }
    }

    /// Seals a sector. `address` counts sectors of 512 bytes from the start of the file system;
    /// `counter` differs from write to write.
    pub fn set(&self, sector: &mut [u8], address: u64, kind: SealKind, counter: u16) {
        debug_assert_eq!(sector.len(), SECTOR_BYTES, "a whole sector");
        sector[KIND] = kind as u8;
        sector[ZERO] = 0;
        put(sector, COUNTER, &counter.to_le_bytes());
        let check = self.check(sector, address);
        put(sector, CHECK, &check.to_le_bytes());
    }

    /// True if a sector has the seal of this place and kind.
    pub fn is_whole(&self, sector: &[u8], address: u64, kind: SealKind) -> bool {
        sector[KIND] == kind as u8
            && sector[ZERO] == 0
            && u32_at(sector, CHECK) == self.check(sector, address)
    }

    /// Seals all sectors of `bytes`, of which the first has the given address.
    pub fn set_all(&self, bytes: &mut [u8], first: u64, kind: SealKind, counter: u16) {
        for (sector, address) in bytes.chunks_exact_mut(SECTOR_BYTES).zip(first..) {
            self.set(sector, address, kind, counter);
        }
    }

    /// The address of the first sector of `bytes` whose seal is bad; none if all are whole.
    pub fn first_bad(&self, bytes: &[u8], first: u64, kind: SealKind) -> Option<u64> {
        let mut sectors = bytes.chunks_exact(SECTOR_BYTES).zip(first..);
        sectors.find(|&(sector, address)| !self.is_whole(sector, address, kind)).map(|(_, at)| at)
    }

    fn check(&self, sector: &[u8], address: u64) -> u32 {
        let crc = crc32c_append(self.prefix, &address.to_le_bytes());
        self.identity.of_crc(crc32c_append(crc, &sector[..CHECK]))
    }
}

impl Seals for Sealer {
    fn is_right(&self, sector: u64, kind: PageKind, bytes: &[u8]) -> bool {
        SealKind::of_page(kind).is_none_or(|kind| self.is_whole(bytes, sector, kind))
    }

    fn set(&self, sector: u64, kind: PageKind, bytes: &mut [u8]) {
        if let Some(kind) = SealKind::of_page(kind) {
            let next = counter(bytes).wrapping_add(1);
            Sealer::set(self, bytes, sector, kind, next);
        }
    }
}

/// The write counter of a sealed sector.
pub fn counter(sector: &[u8]) -> u16 {
    u16_at(sector, COUNTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> [u8; SECTOR_BYTES] {
        let mut sector = [7; SECTOR_BYTES];
        Sealer::new(9).set(&mut sector, 42, SealKind::Inodes, 3);
        sector
    }

    #[test]
    fn a_seal_holds_for_one_place_kind_and_file_system() {
        let sector = sealed();
        let sealer = Sealer::new(9);
        assert!(sealer.is_whole(&sector, 42, SealKind::Inodes));
        assert!(!sealer.is_whole(&sector, 43, SealKind::Inodes), "another place");
        assert!(!sealer.is_whole(&sector, 42, SealKind::Map), "another kind");
        assert!(!Sealer::new(8).is_whole(&sector, 42, SealKind::Inodes), "another file system");
        assert_eq!(counter(&sector), 3);
        assert_eq!(u32_at(&sector, CHECK), 0x96cc_1701, "as SPEC.md has it");
    }

    #[test]
    fn each_changed_bit_breaks_the_seal() {
        let sector = sealed();
        for bit in 0..SECTOR_BYTES * 8 {
            let mut changed = sector;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!Sealer::new(9).is_whole(&changed, 42, SealKind::Inodes), "bit {bit}");
        }
    }

    #[test]
    fn zeros_have_no_seal() {
        let zeros = [0; SECTOR_BYTES];
        assert!(!Sealer::new(0).is_whole(&zeros, 0, SealKind::Map));
    }

    #[test]
    fn a_torn_block_names_its_first_bad_sector() {
        let mut block = vec![1; 4096];
        let sealer = Sealer::new(5);
        sealer.set_all(&mut block, 800, SealKind::Directory, 1);
        assert_eq!(sealer.first_bad(&block, 800, SealKind::Directory), None);
        block[3 * SECTOR_BYTES] = 2;
        assert_eq!(sealer.first_bad(&block, 800, SealKind::Directory), Some(803));
    }
}
