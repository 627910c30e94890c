//! Sectors of a file system as they are behind the last group of its log.
//!
//! A sector that the disk has already like that stays as it is, seal included. So recovery that is
//! cut off and starts over leaves the same bytes, and an overlay shows them before recovery runs.

use crate::error::{FsError, is_damage};
use crate::ffs::ondisk::format::Superblock;
use crate::ffs::ondisk::seal::{SealKind, Sealer, counter};
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::io::IoError;
use seekless_engine::units::{BLOCK_BYTES, BLOCK_SECTORS, BlockNr, SECTOR_BYTES};
use seekless_fs::log::redo::SectorRedo;
use seekless_fs::log::{Redo, Space};
use seekless_fs::tx::SECTOR_CONTENT;
use std::collections::BTreeSet;

/// Blocks in one read and one write at most.
const MOST_RUN: usize = 256;

/// What a log makes of the sectors of a file system.
#[derive(Clone, Debug)]
pub struct Patches {
    redo: Redo,
    sealer: Sealer,
    /// Blocks of the volume in a block of the file system.
    per_block: u64,
}

impl Patches {
    /// Those of the file system with this superblock.
    ///
    /// # Errors
    /// [`FsError::Damaged`] if the superblock is impossible.
    pub(super) fn new(superblock: &Superblock, redo: Redo) -> Result<Patches, FsError> {
        let per_block = superblock.geometry()?.engine_blocks().into();
        Ok(Patches { redo, sealer: superblock.sealer(), per_block })
    }

    /// Sectors.
    pub fn count(&self) -> u64 {
        self.redo.sectors().count() as u64
    }

    /// Space that is to be freed in the maps.
    pub fn intents(&self) -> impl Iterator<Item = Space> {
        self.redo.intents()
    }

    /// The blocks of the volume that have some, in order.
    fn blocks(&self) -> BTreeSet<BlockNr> {
        let sectors = self.redo.sectors().map(|(key, _)| key);
        let of =
            |(block, index)| u64::from(block) * self.per_block + u64::from(index) / BLOCK_SECTORS;
        sectors.map(of).collect()
    }

    /// The first block of the volume at or behind this one that has some.
    pub(super) fn next_block(&self, at: BlockNr) -> Option<BlockNr> {
        self.blocks().range(at..).next().copied()
    }

    /// Those of a block of the volume, by index in it.
    fn of(&self, block: BlockNr) -> impl Iterator<Item = (usize, &SectorRedo)> {
        let sectors = BLOCK_SECTORS as u8;
        let first = (block % self.per_block) as u8 * sectors;
        let own = u32::try_from(block / self.per_block).ok();
        let found =
            own.into_iter().flat_map(move |own| self.redo.sectors_of(own, first..first + sectors));
        found.map(move |(index, sector)| (usize::from(index - first), sector))
    }

    /// True if nothing of a block depends on what the disk holds.
    fn makes_whole(&self, block: BlockNr) -> bool {
        let alone = self.of(block).filter(|(_, sector)| !sector.needs_old());
        alone.count() == BLOCK_SECTORS as usize
    }

    /// Brings a block of the volume up to date. Returns how many sectors have changed. A sector of
    /// which the log has only a part, and that has a bad seal, is damaged and stays so.
    pub fn patch(&self, block: BlockNr, bytes: &mut [u8]) -> u64 {
        let mut changed = 0;
        for (index, redo) in self.of(block) {
            let sector = &mut bytes[index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES];
            let address = block * BLOCK_SECTORS + index as u64;
            let Some(kind) = kind(redo.seal) else { continue };
            let is_whole = self.sealer.is_whole(sector, address, kind);
            if redo.needs_old() && !is_whole {
                continue;
            }
            let mut new = [0; SECTOR_BYTES];
            new.copy_from_slice(sector);
            redo.apply(&mut new);
            if is_whole && new[..SECTOR_CONTENT] == sector[..SECTOR_CONTENT] {
                continue;
            }
            let next = if is_whole { counter(sector).wrapping_add(1) } else { 0 };
            self.sealer.set(&mut new, address, kind, next);
            sector.copy_from_slice(&new);
            changed += 1;
        }
        changed
    }

    /// Reads a block of the volume and brings it up to date.
    ///
    /// # Errors
    /// Errors of the volume, unless the log has the whole block.
    pub fn read(&self, disk: &mut dyn Disk, block: BlockNr) -> Result<Bytes, IoError> {
        let mut bytes = match disk.read(block, 1) {
            Ok(data) => data.to_bytes().to_vec(),
            Err(error) if is_damage(&error) && self.makes_whole(block) => vec![0; BLOCK_BYTES],
            Err(error) => return Err(error),
        };
        self.patch(block, &mut bytes);
        Ok(bytes.into())
    }

    /// Writes all sectors in place, in order of their addresses. They are not durable yet. Returns
    /// how many were not in place. A block that cannot be read stays as it is, unless the log has
    /// all of it.
    ///
    /// # Errors
    /// Errors of the volume other than such damage.
    pub(super) fn write(&self, disk: &mut dyn Disk) -> Result<u64, FsError> {
        let blocks: Vec<BlockNr> = self.blocks().into_iter().collect();
        let mut changed = 0;
        for run in runs(&blocks) {
            changed += self.write_run(disk, run)?;
        }
        Ok(changed)
    }

    fn write_run(&self, disk: &mut dyn Disk, run: &[BlockNr]) -> Result<u64, FsError> {
        let first = run[0];
        let mut bytes = match disk.read(first, run.len() as u32) {
            Ok(data) => data.to_bytes().to_vec(),
            Err(error) if is_damage(&error) => return self.write_singly(disk, run),
            Err(error) => return Err(error.into()),
        };
        let mut changed = 0;
        for (&block, part) in run.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
            changed += self.patch(block, part);
        }
        if changed > 0 {
            disk.write(first, Data::bytes(bytes.into()))?;
        }
        Ok(changed)
    }

    fn write_singly(&self, disk: &mut dyn Disk, run: &[BlockNr]) -> Result<u64, FsError> {
        let mut changed = 0;
        for &block in run {
            match self.read(disk, block) {
                Ok(bytes) => disk.write(block, Data::bytes(bytes))?,
                Err(error) if is_damage(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            changed += self.of(block).count() as u64;
        }
        Ok(changed)
    }
}

/// Neighbours among blocks that are in order.
fn runs(blocks: &[BlockNr]) -> impl Iterator<Item = &[BlockNr]> {
    blocks.chunk_by(|one, next| one + 1 == *next).flat_map(|run| run.chunks(MOST_RUN))
}

/// The kind of a seal of metadata that operations change.
pub(super) fn kind(seal: u8) -> Option<SealKind> {
    use SealKind as S;
    [S::Map, S::Inodes, S::Indirect, S::Directory].into_iter().find(|kind| *kind as u8 == seal)
}
