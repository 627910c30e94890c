//! Repairs whose power is cut, with a volatile cache: what they had not flushed is there or not,
//! and the next repair leaves what one without a cut leaves.

use super::tests::{checked, direct, repaired, tree};
use super::*;
use crate::ffs::kit::sample::*;
use crate::ffs::offline::superblocks;
use crate::ffs::ondisk::geometry::Geometry;
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::checksum::crc32c;
use seekless_engine::data::Data;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;

/// Damage, and the sizes of the file system that has it.
type Damage = fn(&mut Cells, &Geometry);

/// What files have: mode, size, and a checksum of the bytes that direct addresses lead to. A repair
/// after a cut may find them below other names, since a directory that has just been made may have
/// no name itself.
type Files = Vec<(u16, u64, u32)>;

fn files(cells: &mut Cells) -> Files {
    let geometry = examine(&mut MediumDisk(cells)).expect("readable").superblock.geometry();
    let geometry = geometry.expect("made");
    let all = tree(cells).into_iter().filter(|(_, inode)| inode.mode & 0o170_000 != 0o040_000);
    let mut files = Files::new();
    for (_, inode) in all {
        let mut bytes = Vec::new();
        let is_file = inode.mode & 0o170_000 == 0o100_000;
        for &address in inode.direct.iter().filter(|&&one| is_file && one != 0) {
            let place = geometry.place_of(address);
            let sealer = crate::ffs::Sealer::new(0xfeed);
            let mut disk = MediumDisk(cells);
            let block = Store::new(&mut disk, geometry.clone(), sealer).read(place.block, 1);
            bytes.extend_from_slice(&block.expect("memory")[place.at..][..1024]);
        }
        files.push((inode.mode, inode.size, crc32c(&bytes)));
    }
    files.sort_unstable();
    files
}

/// Fates of pending writes: none or all are there, one alone, all but one.
fn fates(pending: usize) -> Vec<Box<dyn Fn(usize) -> Fate>> {
    let is = |kept: bool| if kept { Fate::Kept } else { Fate::Lost };
    let mut all: Vec<Box<dyn Fn(usize) -> Fate>> =
        vec![Box::new(move |_| is(false)), Box::new(move |_| is(true))];
    for one in (0..pending).step_by(pending.div_ceil(12).max(1)) {
        all.push(Box::new(move |number| is(number == one)));
        all.push(Box::new(move |number| is(number != one)));
    }
    all
}

/// Cuts the repair of a damaged sample after each of its writes; returns their number.
fn cut_each((block, fragment): (u32, u32), damage: Damage) -> u64 {
    let mut damaged = sample(block, fragment);
    let geometry = geometry(block, fragment);
    damage(&mut damaged, &geometry);
    let mut whole = damaged.clone();
    repaired(&mut whole);
    let right = files(&mut whole);
    assert!(right.len() > 3, "the sample has files: {right:?}");
    let mut writes = 0;
    loop {
        let mut medium = CutMedium::new(damaged.clone());
        medium.die_after(writes);
        let done = repair(&mut MediumDisk(&mut medium)).is_ok();
        for fate in fates(medium.pending()) {
            let mut left = medium.cut(fate);
            if done {
                let found = checked(&mut left);
                assert!(found.is_clean() && found.unmounted, "not durable: {found}");
            }
            repaired(&mut left);
            assert_eq!(files(&mut left), right, "cut after write {writes}");
        }
        if done {
            return writes;
        }
        writes += 1;
    }
}

#[test]
fn a_repair_of_a_lost_directory_makes_its_new_one_durable_first() {
    let cuts = cut_each((8192, 4096), |cells, geometry| {
        change_inode(cells, geometry, DIR, |inode| inode.mode = 0);
        MediumDisk(cells).write(16, Data::zeros(1)).expect("memory");
    });
    assert!(cuts > 10, "{cuts} writes");
}

#[test]
fn a_repair_of_a_lost_root_makes_the_new_one_durable_first() {
    let cuts = cut_each((8192, 4096), |cells, geometry| {
        change_inode(cells, geometry, ROOT as u32, |inode| inode.mode = 0);
    });
    assert!(cuts > 10, "{cuts} writes");
}

#[test]
fn a_copy_of_a_shared_block_is_durable_before_an_inode_names_it() {
    let cuts = cut_each((8192, 4096), |cells, geometry| {
        let address = direct(cells, geometry, SMALL);
        let block = geometry.place_of(address).block * 2;
        MediumDisk(cells).write(block, Data::stamp(1, 1, 2)).expect("memory");
        change_inode(cells, geometry, LARGE, |inode| inode.direct[3] = address);
    });
    assert!(cuts > 3, "{cuts} writes");
}

#[test]
fn a_new_part_of_an_inode_table_is_durable_before_it_counts() {
    let cuts = cut_each((4096, 1024), |cells, geometry| {
        // All inodes of the parts that are there are in use, and none has a name.
        let known = examine(&mut MediumDisk(cells)).expect("readable").known;
        let per_group = geometry.sizes().inodes_per_group;
        for (group, &mark) in (0..).zip(&known.marks) {
            for ino in (group * per_group..group * per_group + mark).filter(|&ino| ino > PIPE) {
                change_inode(cells, geometry, ino, |inode| {
                    *inode = Inode { mode: 0o100_600, links: 1, size: 10, ..Inode::default() };
                });
            }
        }
    });
    assert!(cuts > 10, "{cuts} writes");
}

#[test]
fn copies_of_a_superblock_that_are_completed_are_durable() {
    let mut cells = sample(8192, 4096);
    let superblock = examine(&mut MediumDisk(&mut cells)).expect("readable").superblock;
    let places = superblocks::places(&MediumDisk(&mut cells), &superblock).expect("made");
    let places: Vec<_> = places.collect();
    assert!(!places.is_empty(), "it has copies");
    for &at in &places {
        MediumDisk(&mut cells).write(at, Data::zeros(1)).expect("memory");
    }
    let mut medium = CutMedium::new(cells);
    superblocks::complete(&mut MediumDisk(&mut medium), &superblock).expect("memory");
    let mut left = medium.cut(|_| Fate::Lost);
    for at in places {
        let found = superblocks::look(&mut MediumDisk(&mut left), at, &superblock);
        assert_eq!(found.expect("memory"), superblocks::Spare::Whole, "block {at}");
    }
}
