//! Blocking access to the sectors of a file system, for `mkfs`, check, repair and dump.
//!
//! Reads return whole blocks. A part that the medium cannot read becomes zeros, whose seals are
//! bad, so check reports it as it reports damage. Writes replace single sealed sectors and keep the
//! rest of the engine block around them.

use super::superblocks::{self, Spare};
use crate::error::{FsError, is_damage};
use crate::ffs::ondisk::format::Superblock;
use crate::ffs::ondisk::geometry::{Geometry, Place};
use crate::ffs::ondisk::seal::{SealKind, Sealer, counter};
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, SECTOR_BYTES};
use seekless_fs::tx::{BlockNo, SECTOR_CONTENT};

/// The blocks and sectors of one file system.
pub struct Store<'d> {
    disk: &'d mut dyn Disk,
    /// Where things lie.
    pub geometry: Geometry,
    /// Sets and verifies seals.
    pub sealer: Sealer,
}

impl std::fmt::Debug for Store<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl<'d> Store<'d> {
    /// Access to a file system of this geometry.
    pub fn new(disk: &'d mut dyn Disk, geometry: Geometry, sealer: Sealer) -> Store<'d> {
        Store { disk, geometry, sealer }
    }

    /// The volume.
    pub fn disk(&mut self) -> &mut dyn Disk {
        self.disk
    }

    /// Reads blocks; parts that the medium cannot read are zeros.
    ///
    /// # Errors
    /// Errors other than damage of the medium.
    pub fn read(&mut self, block: BlockNo, count: u32) -> Result<Bytes, FsError> {
        let each = self.geometry.engine_blocks();
        let (first, count) = (block * u64::from(each), count * each);
        match self.disk.read(first, count) {
            Ok(data) => return Ok(data.to_bytes()),
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let mut out = Vec::with_capacity(count as usize * BLOCK_BYTES);
        for block in first..first + u64::from(count) {
            out.extend_from_slice(&self.read_engine_block(block)?);
        }
        Ok(Bytes::from(out))
    }

    fn read_engine_block(&mut self, block: BlockNr) -> Result<Bytes, FsError> {
        match self.disk.read(block, 1) {
            Ok(data) => Ok(data.to_bytes()),
            Err(error) if is_damage(&error) => Ok(Bytes::from_static(&[0; BLOCK_BYTES])),
            Err(error) => Err(error.into()),
        }
    }

    /// True if the sector at a place of a block that was read has its seal.
    pub fn is_whole(&self, block: &[u8], place: Place, kind: SealKind) -> bool {
        let start = place.at / SECTOR_BYTES * SECTOR_BYTES;
        let sector = &block[start..start + SECTOR_BYTES];
        self.sealer.is_whole(sector, self.geometry.sector_of(place), kind)
    }

    /// Changes the content of one sealed sector: `change` gets what it holds, and whether its seal
    /// is right.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn edit(
        &mut self,
        place: Place,
        kind: SealKind,
        change: impl FnOnce(&mut [u8], bool),
    ) -> Result<(), FsError> {
        let address = self.geometry.sector_of(place);
        let block = address / BLOCK_SECTORS;
        let mut bytes = self.read_engine_block(block)?.to_vec();
        let start = (address % BLOCK_SECTORS) as usize * SECTOR_BYTES;
        let sector = &mut bytes[start..start + SECTOR_BYTES];
        let is_whole = self.sealer.is_whole(sector, address, kind);
        change(&mut sector[..SECTOR_CONTENT], is_whole);
        let next = counter(sector).wrapping_add(1);
        self.sealer.set(sector, address, kind, next);
        self.disk.write(block, Data::bytes(Bytes::from(bytes)))?;
        Ok(())
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn write(&mut self, block: BlockNo, bytes: Vec<u8>) -> Result<(), FsError> {
        let first = block * u64::from(self.geometry.engine_blocks());
        self.disk.write(first, Data::bytes(Bytes::from(bytes)))?;
        Ok(())
    }

    /// Writes the superblock of a group.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn write_superblock(
        &mut self,
        superblock: &Superblock,
        block: BlockNo,
        counter: u16,
    ) -> Result<(), FsError> {
        let at = block * self.geometry.block_bytes() as u64;
        let bytes = superblock.encode(at, counter);
        self.disk.write(at / BLOCK_BYTES as u64, Data::bytes(bytes))?;
        Ok(())
    }

    /// What is at the places of spare copies of the superblock.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn spares(&mut self, superblock: &Superblock) -> Result<Vec<(BlockNr, Spare)>, FsError> {
        let places = superblocks::places(self.disk, superblock)?;
        places.map(|block| Ok((block, superblocks::look(self.disk, block, superblock)?))).collect()
    }

    /// Erases the spare copies of the superblock of an older file system.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn erase_spares(&mut self) -> Result<(), FsError> {
        Ok(superblocks::erase(self.disk, self.geometry.bytes())?)
    }

    /// Writes the spare copies of the superblock that are not there, or damaged.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn complete_spares(&mut self, superblock: &Superblock) -> Result<(), FsError> {
        superblocks::complete(self.disk, superblock)
    }

    /// Makes all writes durable, for this reason.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn flush(&mut self, edge: Edge) -> Result<(), FsError> {
        Ok(self.disk.flush_for(edge)?)
    }
}
