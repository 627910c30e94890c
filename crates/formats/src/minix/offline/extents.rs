//! Where the bytes of a file lie on the volume.

use super::store::Store;
use crate::error::FsError;
use crate::minix::inodes::number_of;
use crate::minix::ondisk::geometry::{ADDRESS_BYTES, Geometry, Zone, load};
use crate::minix::ondisk::inode::{DIRECT, LEVELS};
use crate::report::Extent;
use seekless_engine::disk::Disk;
use seekless_fs::call::Ino;
use seekless_fs::fields::u32_at;

/// The extents of a file up to its end, holes included; none if its inode is free or an address of
/// an indirect zone is impossible. An impossible address of data is a hole.
///
/// # Errors
/// Those of [`load`], and errors of the volume.
pub fn extents(disk: &mut dyn Disk, ino: Ino) -> Result<Option<Vec<Extent>>, FsError> {
    let geometry = load(disk)?;
    let Some(number) = number_of(&geometry, ino) else { return Ok(None) };
    let mut store = Store::new(disk, geometry);
    let inode = store.inode(number)?;
    if inode.kind().is_none() {
        return Ok(None);
    }
    let size = u64::from(inode.size).min(geometry.most_file_bytes());
    let zones = geometry.size_zones(size);
    let mut lister =
        Lister { store, geometry, zones, zone_list: Vec::new(), visits: 0, is_damaged: false };
    if inode.has_zones() {
        for (index, &zone) in (0..).zip(&inode.zones[..DIRECT]) {
            lister.data(index, zone);
        }
        let (mut first, each) = (DIRECT as u64, geometry.addresses() as u64);
        for level in 1..=LEVELS as u32 {
            lister.indirect(first, inode.zones[DIRECT + level as usize - 1], level)?;
            first += each.pow(level);
        }
    }
    let Lister { zone_list, is_damaged, .. } = lister;
    Ok((!is_damaged).then(|| joined(&geometry, &zone_list, size)))
}

struct Lister<'d> {
    store: Store<'d>,
    geometry: Geometry,
    /// Zones of the file up to its end.
    zones: u64,
    /// Zones in the order of the file: index and number.
    zone_list: Vec<(u64, Zone)>,
    /// Indirect zones that were read.
    visits: u32,
    is_damaged: bool,
}

impl Lister<'_> {
    fn data(&mut self, index: u64, zone: Zone) {
        if index < self.zones && self.geometry.is_data(zone) {
            self.zone_list.push((index, zone));
        }
    }

    fn indirect(&mut self, first: u64, zone: Zone, level: u32) -> Result<(), FsError> {
        if zone == 0 || first >= self.zones {
            return Ok(());
        }
        // Zones that lead to one another are read no more often than there are zones.
        self.visits += 1;
        if !self.geometry.is_data(zone) || self.visits > self.geometry.zones() {
            self.is_damaged = true;
            return Ok(());
        }
        let each = self.geometry.addresses();
        let span = (each as u64).pow(level - 1);
        let bytes = self.store.zone(zone)?.to_vec();
        for entry in 0..each {
            let index = first + entry as u64 * span;
            let zone = u32_at(&bytes, entry * ADDRESS_BYTES);
            if index >= self.zones {
                break;
            }
            match level {
                1 => self.data(index, zone),
                _ => self.indirect(index, zone, level - 1)?,
            }
        }
        Ok(())
    }
}

/// Joins neighbours, and fills the rest with holes.
fn joined(geometry: &Geometry, zones: &[(u64, Zone)], size: u64) -> Vec<Extent> {
    let each = geometry.zone_bytes() as u64;
    let mut extents: Vec<Extent> = Vec::new();
    let end = |extents: &[Extent]| extents.last().map_or(0, |last| last.file + last.length);
    for &(index, zone) in zones {
        let (file, volume) = (index * each, u64::from(zone) * each);
        let length = each.min(size - file);
        let hole = end(&extents);
        if hole < file {
            extents.push(Extent { file: hole, length: file - hole, volume: None });
        }
        match extents.last_mut() {
            Some(Extent { length: before, volume: Some(at), .. }) if *at + *before == volume => {
                *before += length;
            }
            _ => extents.push(Extent { file, length, volume: Some(volume) }),
        }
    }
    let hole = end(&extents);
    if hole < size {
        extents.push(Extent { file: hole, length: size - hole, volume: None });
    }
    extents
}
