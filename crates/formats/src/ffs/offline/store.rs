//! Blocking access to the sectors of a file system, for `mkfs`, check, repair and dump.
//!
//! Reads return whole blocks. A part that the medium cannot read becomes zeros, whose seals are
//! bad, so check reports it as it reports damage. Writes replace single sealed sectors and keep the
//! rest of the engine block around them.

use super::spare;
use crate::error::{FsError, is_damage};
use crate::ffs::ondisk::format::{BOOT_COPY_AT, COPY_GROUPS, SUPERBLOCK_AT, Superblock};
use crate::ffs::ondisk::geometry::{GROUP_UNIT, Geometry, MOST_GROUP, Place, STAGGERS};
use crate::ffs::ondisk::seal::{SealKind, Sealer, counter};
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, SECTOR_BYTES};
use seekless_fs::tx::{BlockNo, SECTOR_CONTENT};

/// The superblock of a volume, and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The superblock.
    pub superblock: Superblock,
    /// Byte at which it lies; [`SUPERBLOCK_AT`] unless the first one is damaged.
    pub at: u64,
    /// Its write counter.
    pub counter: u16,
}

/// Reads the superblock, or a copy if it is damaged.
///
/// # Errors
/// [`FsError::Foreign`] if there is neither; [`FsError::Damaged`] if the first one has a valid seal
/// and impossible fields, and there is no copy; versions and features that are refused; a volume
/// shorter than the file system.
pub fn load(disk: &mut dyn Disk) -> Result<Found, FsError> {
    let first = SUPERBLOCK_AT / BLOCK_BYTES as u64;
    let mut found = superblock_in(disk, first);
    if matches!(found, Err(FsError::Foreign | FsError::Damaged(_))) {
        found = find_spare(disk).or_else(|_| find_copy(disk)).or(found);
    }
    let found = found?;
    let volume = disk.blocks() * BLOCK_BYTES as u64;
    let needed = found.superblock.geometry()?.bytes();
    if volume < needed {
        return Err(FsError::Truncated { needed, found: volume });
    }
    Ok(found)
}

fn superblock_in(disk: &mut dyn Disk, block: BlockNr) -> Result<Found, FsError> {
    if block >= disk.blocks() {
        return Err(FsError::Foreign);
    }
    let bytes = match disk.read(block, 1) {
        Ok(data) => data.to_bytes(),
        Err(error) if is_damage(&error) => return Err(FsError::Foreign),
        Err(error) => return Err(error.into()),
    };
    let at = block * BLOCK_BYTES as u64;
    let superblock = Superblock::decode(&bytes[..SECTOR_BYTES], at)?;
    Ok(Found { superblock, at, counter: counter(&bytes) })
}

/// Looks for a copy outside of the groups ([`super::spare`]).
fn find_spare(disk: &mut dyn Disk) -> Result<Found, FsError> {
    let last = disk.blocks().saturating_sub(1);
    let boot = superblock_in(disk, BOOT_COPY_AT / BLOCK_BYTES as u64);
    if matches!(boot, Ok(_) | Err(FsError::Io(_))) {
        return boot;
    }
    let found = superblock_in(disk, last)?;
    // A block of a file may hold a copy of another file system.
    let end = found.superblock.geometry()?.bytes();
    if last * BLOCK_BYTES as u64 >= end { Ok(found) } else { Err(FsError::Foreign) }
}

/// Looks for a copy at each multiple of the least stagger, up to behind the largest first group.
/// These are all places of the copy in group 1, and of the other copies in groups of usual sizes.
fn find_copy(disk: &mut dyn Disk) -> Result<Found, FsError> {
    let step = STAGGERS[1];
    let end = (disk.blocks() * BLOCK_BYTES as u64).min(MOST_GROUP + GROUP_UNIT + 1);
    for at in (GROUP_UNIT..end).step_by(step as usize) {
        let block = at / BLOCK_BYTES as u64;
        if disk.next_data(block) != Some(block) {
            continue;
        }
        // A copy of another file system may lie in a file. Only one that begins a group of the file
        // system that it describes counts.
        let found = match superblock_in(disk, block) {
            Err(error @ FsError::Io(_)) => return Err(error),
            found => found.ok(),
        };
        if let Some(found) = found {
            let geometry = found.superblock.geometry()?;
            let own = block / u64::from(geometry.engine_blocks());
            let has_it = |group| group < geometry.groups();
            let mut copies = COPY_GROUPS.into_iter().filter(|&group| has_it(group));
            if copies.any(|group| geometry.superblock_of(group) == Some(own)) {
                return Ok(found);
            }
        }
    }
    Err(FsError::Foreign)
}

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
    pub fn spares(
        &mut self,
        superblock: &Superblock,
    ) -> Result<Vec<(BlockNr, spare::Spare)>, FsError> {
        let places = spare::places(self.disk, self.geometry.bytes());
        places.map(|block| Ok((block, spare::look(self.disk, block, superblock)?))).collect()
    }

    /// Erases what is at the places of spare copies, and in the last block of the volume.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn erase_spares(&mut self) -> Result<(), FsError> {
        for block in spare::places(self.disk, 0) {
            self.disk.write(block, Data::zeros(1))?;
        }
        Ok(())
    }

    /// Writes the spare copies of the superblock that are not there, or damaged.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn complete_spares(&mut self, superblock: &Superblock) -> Result<(), FsError> {
        spare::complete(self.disk, superblock)
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn flush(&mut self) -> Result<(), FsError> {
        Ok(self.disk.flush()?)
    }
}
