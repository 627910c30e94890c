//! Damage to map blocks of a virtual log, one at a time and several at once: a salvage reads what
//! is certain, and never anything old or wrong.
#![allow(clippy::unwrap_used, missing_docs)]

use crate::worked::Worked;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::disk::MediumDisk;
use seekless_engine::layout::MountOptions;
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use seekless_layouts::salvage::Lost;
use seekless_layouts::vlog::salvage as vlog;
use std::collections::BTreeSet;

/// Six map blocks.
const VOLUME: u64 = 2500;
const DEVICE: u64 = 4000;
const MAGIC: &[u8] = b"SKLSMAP1";

/// What a device holds of a volume, and what the volume holds.
struct Device {
    cells: Cells,
    content: Vec<Data>,
}

fn worked(seed: u64, is_clean: bool) -> Device {
    let mut worked = Worked::new(Kind::VLOG, VOLUME, DEVICE);
    worked.work(&mut Rng::stream(seed, "salvage"), 400);
    if is_clean {
        worked.finish();
    }
    Device { cells: worked.cells(), content: worked.content }
}

#[derive(Clone, Copy, Debug)]
enum How {
    Flip(usize),
    Zeros,
    Unreadable,
}

fn strike(cells: &mut Cells, at: u64, how: How) {
    match how {
        How::Flip(byte) => {
            let mut bytes = cells.read(at, 1).unwrap().to_bytes().to_vec();
            bytes[byte] ^= 1;
            cells.write(at, &Data::bytes(bytes.into())).unwrap();
        }
        How::Zeros => cells.write(at, &Data::zeros(1)).unwrap(),
        How::Unreadable => cells.lose(at),
    }
}

fn map_blocks(cells: &mut Cells) -> Vec<u64> {
    let begins = |at: &u64| cells.read(*at, 1).unwrap().to_bytes().starts_with(MAGIC);
    (0..DEVICE).filter(begins).collect()
}

/// Slices with blocks whose map is lost. Whatever is read must be right.
fn lost(cells: &mut Cells, content: &[Data]) -> BTreeSet<u64> {
    let disk = &mut MediumDisk(cells);
    let superblock = seekless_layouts::read_superblock(disk).unwrap();
    let lost_map_blocks = vlog::open(disk, &superblock).unwrap().lost_map_blocks();
    let salvage = seekless_layouts::open_salvage(disk).unwrap();
    let mut lost = BTreeSet::new();
    for (block, right) in (0..).zip(content) {
        match salvage.read(disk, block, false) {
            Ok(data) => assert_eq!(&data, right, "block {block}"),
            Err(Lost::Map { .. }) => {
                lost.insert(block / vlog::Salvage::blocks_per_map_block());
            }
            Err(Lost::Content(error)) => panic!("block {block}: {error}"),
        }
    }
    assert_eq!(lost.len(), lost_map_blocks);
    lost
}

const HOWS: [How; 5] = [How::Flip(0), How::Flip(100), How::Flip(2000), How::Zeros, How::Unreadable];

/// Strikes each map block in turn. Returns how many strikes lost a slice, and how many none.
fn strike_each(seed: u64) -> (u32, u32) {
    let Device { mut cells, content } = worked(seed, true);
    assert_eq!(lost(&mut cells, &content), BTreeSet::new(), "undamaged");
    let mut lost_slices = BTreeSet::new();
    let mut counts = (0, 0);
    for at in map_blocks(&mut cells) {
        let block = cells.read(at, 1).unwrap().to_bytes();
        let slice = u64::from(u32::from_le_bytes(block[64..68].try_into().unwrap()));
        for how in HOWS {
            let mut struck = cells.clone();
            strike(&mut struck, at, how);
            let mut disk = MediumDisk(&mut struck);
            let options = MountOptions { read_only: true, ..MountOptions::default() };
            let mounts = seekless_layouts::mount(&mut disk, &options).is_ok();
            let lost = lost(&mut struck, &content);
            if lost.is_empty() {
                counts.1 += 1;
            } else {
                assert_eq!(lost, BTreeSet::from([slice]), "map block {at}, {how:?}");
                assert!(!mounts, "map block {at}, {how:?}: lost, though it can be mounted");
                lost_slices.insert(slice);
                counts.0 += 1;
            }
        }
    }
    assert_eq!(lost_slices.len() as u64, VOLUME.div_ceil(448), "each slice has a map block");
    counts
}

#[test]
fn a_damaged_map_block_loses_what_it_maps_and_nothing_else() {
    for seed in 0..4 {
        let (lost, none) = strike_each(seed);
        assert_eq!(lost as usize, 6 * HOWS.len(), "the newest map blocks");
        assert!(none > 0, "superseded map blocks are struck too");
    }
}

/// The same as before, with a bug: the check above must fail.
#[test]
#[should_panic(expected = "block")]
fn old_versions_in_place_of_lost_ones_are_noticed() {
    with_bug(Some(PlantedBug::DigestIgnored), || strike_each(0));
}

/// After a crash, too: what is lost is more at times, but what is read is right.
#[test]
fn what_is_read_after_damage_to_several_blocks_is_right() {
    let mut rng = Rng::stream(5, "strikes");
    for seed in 0..40 {
        let Device { mut cells, content } = worked(seed, true);
        let places = map_blocks(&mut cells);
        for count in [2, 3, 9] {
            let mut struck = cells.clone();
            let mut chosen = Vec::new();
            for _ in 0..count {
                let at = places[rng.below(places.len() as u64) as usize];
                if !chosen.contains(&at) {
                    strike(&mut struck, at, HOWS[1 + rng.below(4) as usize]);
                    chosen.push(at);
                }
            }
            lost(&mut struck, &content);
        }
    }
}

#[test]
fn stale_content_is_read_only_if_allowed() {
    let Device { mut cells, content } = worked(1, true);
    let at = map_blocks(&mut cells).into_iter().find(|&at| {
        let mut struck = cells.clone();
        strike(&mut struck, at, How::Flip(700));
        !lost(&mut struck, &content).is_empty()
    });
    strike(&mut cells, at.unwrap(), How::Flip(700));
    let disk = &mut MediumDisk(&mut cells);
    let salvage = seekless_layouts::open_salvage(disk).unwrap();
    let count = |disk: &mut MediumDisk<'_>, allow_stale| {
        (0..VOLUME).filter(|&block| salvage.read(disk, block, allow_stale).is_ok()).count()
    };
    let (certain, any) = (count(disk, false), count(disk, true));
    assert!(certain < any, "{certain} certain, {any} found");
}

/// Without a tail record a mount takes what is damaged in the youngest commits for unfinished.
/// Where it refuses, a salvage reads nothing that is old.
#[test]
fn after_a_crash_nothing_old_is_read_where_a_mount_refuses() {
    let (mut refused, mut all_lost) = (0, 0);
    for seed in 0..6 {
        let Device { mut cells, content } = worked(seed, false);
        assert_eq!(lost(&mut cells, &content), BTreeSet::new(), "undamaged");
        for at in map_blocks(&mut cells) {
            for how in HOWS {
                let mut struck = cells.clone();
                strike(&mut struck, at, how);
                let options = MountOptions { read_only: true, ..MountOptions::default() };
                if seekless_layouts::mount(&mut MediumDisk(&mut struck), &options).is_err() {
                    refused += 1;
                    let lost = lost(&mut struck, &content).len() as u64;
                    all_lost += u32::from(lost == VOLUME.div_ceil(448));
                }
            }
        }
    }
    assert!(refused > all_lost, "{refused} refused, {all_lost} of them lost all");
}
