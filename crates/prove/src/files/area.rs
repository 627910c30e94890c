//! What a write of an FFS is about: which group, and which part of it.

use seekless_crash::pending::BlockWrite;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::{BLOCK_SECTORS, SECTOR_BYTES};
use seekless_formats::ffs::{SealKind, Sealer, load};

/// A write in a few words; none if the medium has no superblock.
pub fn of(medium: &mut Cells, write: &BlockWrite) -> Option<String> {
    if seekless_layouts::read_superblock(&mut MediumDisk(medium)).is_ok() {
        // Which part of a drive a block is depends on what was written before.
        return Some("the drive".to_owned());
    }
    match seekless_formats::minix::load(&mut MediumDisk(medium)) {
        Ok(geometry) => Some(of_minix(&geometry, write.at)),
        Err(_) => of_ffs(medium, write),
    }
}

/// A block of Minix may hold the end of one part and the begin of the next: it has the name of the
/// part that begins last.
fn of_minix(geometry: &seekless_formats::minix::Geometry, block: u64) -> String {
    let page = |zone: u32| geometry.place_of(zone).page;
    if block >= page(geometry.first_data()) {
        return "data".to_owned();
    }
    if block < page(geometry.table()) {
        return "maps".to_owned();
    }
    let each = (seekless_engine::units::BLOCK_BYTES / 64) as u64;
    let first = (block - page(geometry.table())) * each;
    format!("inodes from about {} on", first + 1)
}

fn of_ffs(medium: &mut Cells, write: &BlockWrite) -> Option<String> {
    let superblock = load(&mut MediumDisk(medium)).ok()?.superblock;
    let geometry = superblock.geometry().ok()?;
    let block = write.at / u64::from(geometry.engine_blocks());
    let fragment = geometry.first_fragment(block);
    let log = superblock.log_range().ok().flatten();
    if log.is_some_and(|log| log.contains(&write.at)) {
        return Some("the log".to_owned());
    }
    if fragment >= geometry.fragments() {
        return None;
    }
    let group = geometry.group_of_fragment(fragment);
    let table = geometry.table_of(group);
    Some(if geometry.superblock_of(group) == Some(block) {
        format!("superblock of group {group}")
    } else if (geometry.maps_of(group)..table).contains(&block) {
        format!("maps of group {group}")
    } else if (table..table + u64::from(geometry.table_blocks())).contains(&block) {
        let index = (block - table) as u32 * geometry.inodes_per_block();
        let first = group * geometry.sizes().inodes_per_group + index;
        format!("inodes {first} to {}", first + geometry.inodes_per_block() - 1)
    } else {
        format!("{} of group {group}", content(&superblock.sealer(), write))
    })
}

/// What a block of data holds, by the seal of the first sector that is written.
fn content(sealer: &Sealer, write: &BlockWrite) -> &'static str {
    let first = write.part.map_or(0, |part| part.first as usize);
    let bytes = write.data.to_bytes();
    let sector = &bytes[first * SECTOR_BYTES..(first + 1) * SECTOR_BYTES];
    let address = write.at * BLOCK_SECTORS + first as u64;
    match [SealKind::Directory, SealKind::Indirect]
        .into_iter()
        .find(|kind| sealer.is_whole(sector, address, *kind))
    {
        Some(SealKind::Directory) => "names",
        Some(_) => "addresses",
        None => "data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_engine::data::Data;
    use seekless_formats::MkfsOptions;
    use seekless_formats::ffs::{Geometry, mkfs};

    #[test]
    fn writes_are_named_by_where_they_go() {
        let mut cells = Cells::new(512);
        let policy = seekless_fs::policy::PolicyKind::Wafs1Async;
        let options =
            MkfsOptions { fragment: 1024, policy, journal_unit: 4096, ..MkfsOptions::default() };
        let made = mkfs(&mut MediumDisk(&mut cells), &options).expect("possible");
        let geometry: Geometry = made.superblock.geometry().expect("made");
        let mut said = |block: u64, data: Data| {
            let at = block * u64::from(geometry.engine_blocks());
            of(&mut cells, &BlockWrite { at, data, labels: None, part: None, places: None })
                .expect("a medium")
        };
        let root = u64::from(geometry.metadata_of(0).end / geometry.fragments_per_block());
        assert_eq!(said(geometry.maps_of(0), Data::zeros(1)), "maps of group 0");
        assert!(said(geometry.table_of(0), Data::zeros(1)).starts_with("inodes 0 to "));
        assert_eq!(said(root, Data::zeros(1)), "data of group 0");
        assert_eq!(said(8, Data::zeros(1)), "superblock of group 0");
        assert_eq!(said(255, Data::zeros(1)), "the log");
    }
}
