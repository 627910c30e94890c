//! Blocking access to the pages of a file system, for check and repair.
//!
//! A page that the medium cannot read becomes zeros and is noted: the check reports it. Changes are
//! kept until [`Store::write_back`].

use crate::error::{FsError, is_damage};
use crate::minix::ondisk::geometry::{Geometry, Place, Zone};
use crate::minix::ondisk::inode::{INODE_BYTES, Inode};
use bytes::Bytes;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::units::BLOCK_BYTES;
use seekless_fs::tx::BlockNo;
use std::collections::{BTreeMap, BTreeSet};

/// Pages that are kept in memory at most: 16 MiB.
const MOST_KEPT: usize = 4096;

/// The pages of one file system.
pub struct Store<'d> {
    disk: &'d mut dyn Disk,
    /// Where things lie.
    pub geometry: Geometry,
    kept: BTreeMap<BlockNo, Bytes>,
    changed: BTreeMap<BlockNo, Vec<u8>>,
    unreadable: BTreeSet<BlockNo>,
}

impl std::fmt::Debug for Store<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl<'d> Store<'d> {
    /// Access to a file system of this geometry.
    pub fn new(disk: &'d mut dyn Disk, geometry: Geometry) -> Store<'d> {
        let (kept, changed, unreadable) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Store { disk, geometry, kept, changed, unreadable }
    }

    /// Pages that the medium could not read.
    pub fn unreadable(&self) -> impl Iterator<Item = BlockNo> {
        self.unreadable.iter().copied()
    }

    fn page(&mut self, page: BlockNo) -> Result<&[u8], FsError> {
        if self.changed.contains_key(&page) {
            return Ok(&self.changed[&page]);
        }
        if !self.kept.contains_key(&page) {
            let bytes = match self.disk.read(page, 1) {
                Ok(data) => data.to_bytes(),
                Err(error) if is_damage(&error) => {
                    self.unreadable.insert(page);
                    Bytes::from_static(&[0; BLOCK_BYTES])
                }
                Err(error) => return Err(error.into()),
            };
            if self.kept.len() >= MOST_KEPT {
                self.kept.clear();
            }
            self.kept.insert(page, bytes);
        }
        Ok(&self.kept[&page])
    }

    /// Some bytes from a place on, in one page.
    ///
    /// # Errors
    /// Errors of the volume other than damage of the medium.
    pub fn bytes(&mut self, place: Place, length: usize) -> Result<&[u8], FsError> {
        Ok(&self.page(place.page)?[place.at..place.at + length])
    }

    /// The bytes of a zone.
    ///
    /// # Errors
    /// As for [`Store::bytes`].
    pub fn zone(&mut self, zone: Zone) -> Result<&[u8], FsError> {
        let (place, length) = (self.geometry.place_of(zone), self.geometry.zone_bytes());
        self.bytes(place, length)
    }

    /// An inode that exists.
    ///
    /// # Errors
    /// As for [`Store::bytes`].
    pub fn inode(&mut self, number: u32) -> Result<Inode, FsError> {
        let place = self.geometry.inode_place(number);
        Ok(Inode::decode(self.bytes(place, INODE_BYTES)?))
    }

    /// Changes bytes from a place on, in one page.
    ///
    /// # Errors
    /// As for [`Store::bytes`].
    pub fn set(&mut self, place: Place, bytes: &[u8]) -> Result<(), FsError> {
        let mut page = match self.changed.remove(&place.page) {
            Some(page) => page,
            None => self.page(place.page)?.to_vec(),
        };
        page[place.at..place.at + bytes.len()].copy_from_slice(bytes);
        self.changed.insert(place.page, page);
        Ok(())
    }

    /// Changes an inode.
    ///
    /// # Errors
    /// As for [`Store::bytes`].
    pub fn set_inode(&mut self, number: u32, inode: &Inode) -> Result<(), FsError> {
        self.set(self.geometry.inode_place(number), &inode.encode())
    }

    /// Writes what has changed: names and addresses, then inodes, then maps, each of them durable
    /// before the next. So a cut leaves what is in use and has no name, and no name that leads to
    /// what is free. What comes next reads everything from the medium: a round of a repair depends
    /// on nothing that the one before it has kept.
    ///
    /// # Errors
    /// Errors of the volume.
    pub fn write_back(&mut self) -> Result<(), FsError> {
        self.kept.clear();
        let mut changed = std::mem::take(&mut self.changed);
        let geometry = self.geometry;
        // A page with two kinds goes with the later one.
        let first_page = |zone: Zone| u64::from(zone.div_ceil(geometry.zones_per_page()));
        let data = changed.split_off(&first_page(geometry.first_data()));
        let inodes = changed.split_off(&first_page(geometry.table()));
        self.write_part(data, Edge::RepairChunks)?;
        self.write_part(inodes, Edge::RepairTable)?;
        self.write_part(changed, Edge::RepairMarkEnd)
    }

    fn write_part(&mut self, part: BTreeMap<BlockNo, Vec<u8>>, edge: Edge) -> Result<(), FsError> {
        if part.is_empty() {
            return Ok(());
        }
        for (page, bytes) in part {
            self.disk.write(page, Data::bytes(bytes.into()))?;
        }
        Ok(self.disk.flush_for(edge)?)
    }
}
