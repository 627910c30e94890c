//! Where the bytes of a file lie on the volume.

use super::check::read_inode;
use super::check::walk::{Pointer, Visitor, walk};
use super::store::Store;
use super::superblocks::load;
use crate::error::FsError;
use crate::ffs::journal::held::held_by;
use crate::ffs::journal::overlay::Overlay;
use crate::ffs::ondisk::geometry::{Geometry, Place};
use crate::report::Extent;
use seekless_engine::disk::Disk;
use seekless_fs::call::Ino;
use std::ops::Range;

/// The extents of a file up to its end, holes included; none if its inode or a sector of its
/// addresses is damaged. The log counts. An impossible address is a hole, as for a check.
///
/// # Errors
/// Those of [`load`], and errors of the volume.
pub fn extents(disk: &mut dyn Disk, ino: Ino) -> Result<Option<Vec<Extent>>, FsError> {
    let held = held_by(disk)?;
    match &held {
        Some(held) => extents_of(&mut Overlay::new(disk, &held.patches), ino),
        None => extents_of(disk, ino),
    }
}

fn extents_of(disk: &mut dyn Disk, ino: Ino) -> Result<Option<Vec<Extent>>, FsError> {
    let superblock = load(disk)?.superblock;
    let geometry = superblock.geometry()?;
    let Some(number) = u32::try_from(ino).ok().filter(|&ino| ino < geometry.inodes()) else {
        return Ok(None);
    };
    let mut store = Store::new(disk, geometry, superblock.sealer());
    let Some(inode) = read_inode(&mut store, number)? else { return Ok(None) };
    let mut lister = Lister { size: inode.size, extents: Vec::new(), is_damaged: false };
    if inode.has_blocks() {
        walk(&mut store, number, &inode, &mut lister)?;
    }
    lister.hole_to(inode.size);
    Ok((!lister.is_damaged).then_some(lister.extents))
}

/// Joins the blocks of a file to extents, in the order of the file.
struct Lister {
    size: u64,
    extents: Vec<Extent>,
    is_damaged: bool,
}

impl Lister {
    /// Where the last extent ends.
    fn end(&self) -> u64 {
        self.extents.last().map_or(0, |last| last.file + last.length)
    }

    fn hole_to(&mut self, file: u64) {
        let end = self.end();
        if end < file {
            self.extents.push(Extent { file: end, length: file - end, volume: None });
        }
    }
}

impl Visitor for Lister {
    fn pointer(&mut self, pointer: &Pointer, geometry: &Geometry) -> bool {
        let is_possible = pointer.fragments > 0 && pointer.is_possible(geometry);
        let bytes = geometry.block_bytes() as u64;
        let file = pointer.index.saturating_mul(bytes);
        if pointer.level > 0 || !is_possible || file >= self.size {
            return is_possible;
        }
        self.hole_to(file);
        let length = bytes.min(self.size - file);
        let volume = u64::from(pointer.address) * geometry.fragment_bytes() as u64;
        match self.extents.last_mut() {
            Some(last) if last.volume.is_some_and(|at| at + last.length == volume) => {
                last.length += length;
            }
            _ => self.extents.push(Extent { file, length, volume: Some(volume) }),
        }
        true
    }

    fn damaged(&mut self, _place: Place, _blocks: Range<u64>, _geometry: &Geometry) {
        self.is_damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffs::kit::sample::{LARGE, SMALL, change_inode, geometry, sample};
    use seekless_engine::data::Data;
    use seekless_engine::device::medium::Cells;
    use seekless_engine::disk::MediumDisk;

    fn of(cells: &mut Cells, ino: u32) -> Option<Vec<Extent>> {
        extents(&mut MediumDisk(cells), Ino::from(ino)).expect("a superblock")
    }

    #[test]
    fn a_file_of_holes_takes_one_extent() {
        let geometry = geometry(8192, 4096);
        let mut cells = sample(8192, 4096);
        let all = of(&mut cells, LARGE).expect("whole");
        assert!(
            all.windows(2).all(|pair| pair[0].file + pair[0].length == pair[1].file),
            "{all:?}"
        );
        assert!(all.iter().any(|one| one.volume.is_some()));
        change_inode(&mut cells, &geometry, SMALL, |inode| {
            (inode.direct, inode.size) = ([0; 12], 1 << 40);
        });
        let hole = Extent { file: 0, length: 1 << 40, volume: None };
        assert_eq!(of(&mut cells, SMALL), Some(vec![hole]));
        assert_eq!(of(&mut cells, u32::MAX), None);
    }

    #[test]
    fn damaged_addresses_are_no_holes() {
        let geometry = geometry(8192, 4096);
        let mut cells = sample(8192, 4096);
        let mut indirect = 0;
        change_inode(&mut cells, &geometry, LARGE, |inode| indirect = inode.indirect[0]);
        let block = geometry.sector_of(geometry.place_of(indirect)) / 8;
        MediumDisk(&mut cells).write(block, Data::zeros(1)).expect("memory");
        assert_eq!(of(&mut cells, LARGE), None);
    }
}
