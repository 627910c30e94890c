//! Blocks with several owners. Nothing on the volume says which of them was durable first, so each
//! further owner gets a copy.
//!
//! The copy is a whole free block, by what the inodes claim. A block that is not copied, for lack
//! of space, stays with its first owner, and the report says who lost it.

use super::Repair;
use crate::error::FsError;
use crate::ffs::offline::check::finding::{Finding, Span};
use crate::ffs::ondisk::geometry::{Fragment, Place};
use crate::ffs::ondisk::seal::{SealKind, counter};
use seekless_engine::edge::Edge;
use seekless_engine::units::SECTOR_BYTES;
use seekless_fs::call::FileKind;

impl Repair<'_> {
    /// Copies what the addresses lead to that are claimed twice, and makes the copies durable.
    pub(super) fn copy_shared(&mut self, due: &[&Finding]) -> Result<(), FsError> {
        for finding in due {
            if let Finding::Duplicate { ino, address, span, slot, .. } = **finding
                && let Some(copy) = self.copy(ino, address, span)?
            {
                self.copies.insert(slot, copy);
            }
        }
        if self.copies.is_empty() { Ok(()) } else { self.store.flush(Edge::RepairCopies) }
    }

    /// The copy of a block; none if there is no space.
    fn copy(&mut self, ino: u32, from: Fragment, span: Span) -> Result<Option<Fragment>, FsError> {
        let Some(to) = self.free_block() else { return Ok(None) };
        let geometry = self.store.geometry.clone();
        let (old, new) = (geometry.place_of(from), geometry.place_of(to));
        let length = span.fragments as usize * geometry.fragment_bytes();
        let bytes = self.store.read(old.block, 1)?;
        let mut copy = vec![0; geometry.block_bytes()];
        copy[..length].copy_from_slice(&bytes[old.at..old.at + length]);
        if let Some(kind) = self.sealed_as(ino, span) {
            for (number, sector) in copy[..length].chunks_exact_mut(SECTOR_BYTES).enumerate() {
                let at = number * SECTOR_BYTES;
                if self.store.is_whole(&bytes, Place { at: old.at + at, ..old }, kind) {
                    let address = geometry.sector_of(Place { at, ..new });
                    let next = counter(sector);
                    self.store.sealer.set(sector, address, kind, next);
                }
            }
        }
        self.store.write(new.block, copy)?;
        Ok(Some(to))
    }

    /// The kind of the seals of a block, if it has some.
    fn sealed_as(&self, ino: u32, span: Span) -> Option<SealKind> {
        let is_directory = self.finder.known.kind(ino) == Some(FileKind::Directory);
        match span.level {
            0 => is_directory.then_some(SealKind::Directory),
            _ => Some(SealKind::Indirect),
        }
    }
}
