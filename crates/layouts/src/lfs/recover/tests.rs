use super::super::format::{Judged, Mark};
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

/// Looks at an empty volume on which these parts were written, each to the first place of a
/// segment.
fn with_parts<R>(
    parts: impl IntoIterator<Item = (u32, Summary)>,
    look: impl FnOnce(&mut Recovery<'_>, Record, [u64; 4]) -> R,
) -> R {
    let mut cells = Cells::new(4096);
    let mut disk = MediumDisk(&mut cells);
    format(&mut disk, &FormatOptions::new(Kind::LFS, 1000, 9)).expect("it fits");
    let superblock = read_superblock(&mut disk).expect("it was just made");
    let geometry = geometry_of(&superblock).expect("it was just made");
    let (id, sums) = (superblock.identity(), superblock.sums);
    let mut links = [0; 4];
    for (segment, part) in parts {
        let place = geometry.start_of(segment);
        let (body, link) = part.encode(id, place);
        links[segment as usize] = link;
        disk.write(BlockNr::from(place), Data::block_of(body)).expect("memory");
    }
    let steps = &mut RecoverySteps::new(None);
    let mut recovery = Recovery { disk: &mut disk, id, sums, geometry, steps, lost: None };
    let record = recovery.newest_record().expect("it was just made");
    // Three mounts have written since.
    let record = Record { mounts: 3, clean: false, ..record };
    look(&mut recovery, record, links)
}

/// The first part behind the checkpoint, of a mount.
fn first_part(mount: u32) -> Summary {
    Summary {
        sequence: 1,
        link: 0,
        durable: 0,
        mount,
        ends: true,
        checkpoint: 0,
        ways: [0; WAYS],
        items: Vec::new(),
        before: None,
    }
}

/// The mount of the part that follows the checkpoint, in the first two segments.
fn following(parts: impl IntoIterator<Item = (u32, Summary)>) -> Option<u32> {
    with_parts(parts, |recovery, record, _| {
        // A mount to come has not judged anything yet.
        let record = Record { judged: Some(Judged { sequence: 9, link: 0 }), ..record };
        recovery.next_part(&record.start, 0, &record).map(|found| found.summary.mount)
    })
}

#[test]
fn a_part_follows_the_one_of_its_link() {
    assert_eq!(following([(0, first_part(1))]), Some(1));
    assert_eq!(following([(0, Summary { link: 77, ..first_part(1) })]), None);
}

#[test]
fn a_part_is_of_a_mount_that_there_was() {
    assert_eq!(following([(0, first_part(3))]), Some(3));
    assert_eq!(following([(0, first_part(4))]), None);
}

#[test]
fn of_two_parts_that_follow_that_of_the_later_mount_counts() {
    assert_eq!(following([(0, first_part(1)), (1, first_part(2))]), Some(2));
    assert_eq!(following([(0, first_part(2)), (1, first_part(1))]), Some(2));
}

#[test]
fn a_part_that_names_what_does_not_exist_is_none() {
    let named = |block| {
        let zeros = Item::Zeros { block, count: 1 };
        following([(0, Summary { items: vec![zeros], ..first_part(1) })])
    };
    assert_eq!(named(999), Some(1));
    assert_eq!(named(1000), None);
}

/// What follows a log whose first part a mount has judged.
fn judged_as(link: impl FnOnce(u64) -> u64, there: bool) -> Result<usize, LayoutError> {
    with_parts(there.then_some((0, first_part(3))), |recovery, record, links| {
        let judged = Judged { sequence: 1, link: link(links[0]) };
        let record = Record { judged: Some(judged), ..record };
        recovery.follow(&record).map(|found| found.parts.len())
    })
}

#[test]
fn a_log_ends_where_a_mount_has_found_its_end() {
    assert_eq!(judged_as(|link| link, true), Ok(1));
    assert!(judged_as(|link| link + 1, true).is_err(), "it is another part");
}

#[test]
fn a_part_that_a_mount_has_found_is_missed() {
    assert!(judged_as(|_| 5, false).is_err());
}
