use super::super::format::Mark;
use super::*;
use crate::registry::{Kind, format, read_superblock};
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_engine::units::BLOCK_BYTES;

/// Writes a block and returns an entry for it.
fn put(disk: &mut dyn Disk, sums: Sums, place: u32, entries: &[Entry]) -> Entry {
    let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.encode()).collect();
    bytes.resize(BLOCK_BYTES, 0);
    let data = Data::bytes(bytes.into());
    let sum = sums.of(&data.block(0));
    disk.write(BlockNr::from(place), data).expect("the place is on the device");
    Entry::new(place, Mark::default(), sum)
}

/// Mounts an empty volume whose map was made to say that its first two blocks lie at these places
/// of a segment.
fn mount_with_blocks_at(places: [u32; 2]) -> Result<(), LayoutError> {
    let mut cells = Cells::new(4096);
    let mut disk = MediumDisk(&mut cells);
    format(&mut disk, &FormatOptions::new(Kind::LFS, 1000, 9))?;
    let superblock = read_superblock(&mut disk)?;
    let (id, sums) = (superblock.identity(), superblock.sums);
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mut steps = RecoverySteps::new(None);
    let volume = mount(&mut disk, &superblock, &options, &mut steps)?;
    let geometry = volume.geometry;
    let start = geometry.start_of(3);
    let blocks = places.map(|place| put(&mut disk, sums, start + place, &[]));
    let slice = put(&mut disk, sums, start + 10, &blocks);
    let index = put(&mut disk, sums, start + 11, &[slice]);
    let mut recovery =
        Recovery { disk: &mut disk, id, sums, geometry, steps: &mut steps, lost: None };
    let record = Record { roots: vec![index], ..recovery.newest_record()? };
    for copy in 0..2 {
        let at = geometry.record_at(record.number, copy);
        disk.write(at, Data::bytes(record.encode(id))).expect("the record is on the device");
    }
    mount(&mut disk, &superblock, &options, &mut RecoverySteps::new(None)).map(|_| ())
}

/// What frees one of the two blocks would free the other.
#[test]
fn a_map_with_two_blocks_at_a_place_is_damaged() {
    assert_eq!(mount_with_blocks_at([5, 6]), Ok(()));
    let found = mount_with_blocks_at([5, 5]).expect_err("it is forged").to_string();
    assert!(found.contains("the map has two blocks at"), "{found}");
}
