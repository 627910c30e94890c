//! Repairs whose power is cut, with a volatile cache: what they had not flushed is there or not. No
//! address leads to what is free, and the next repair leaves what one without a cut leaves.

use super::damage::{bytes, change, geometry, inode, put, sample};
use super::{mount, node_of};
use seekless_crash::device::cut::CutMedium;
use seekless_crash::fate::Fate;
use seekless_engine::device::medium::Cells;
use seekless_engine::disk::MediumDisk;
use seekless_formats::minix::{check, repair};
use seekless_fs::call::{Answer, FileKind, Ino, ROOT, Request, by_inode};
use seekless_fs::policy::PolicyKind;
use std::collections::BTreeMap;

/// Size of a block.
const BLOCK: u32 = 1024;
/// The sample makes them in this order.
const DIRECTORY: u32 = 3;
const FILE: u32 = 4;
const SMALL: u32 = 5;

/// Kind and size of each name.
fn tree(cells: &Cells) -> BTreeMap<String, (FileKind, u64)> {
    let mut fs = mount(node_of(cells.clone(), true), PolicyKind::Async);
    let (mut todo, mut all) = (vec![(ROOT as Ino, String::new())], BTreeMap::new());
    while let Some((dir, path)) = todo.pop() {
        let list = Request::List { handle: by_inode(dir), cookie: 0, most_bytes: 1 << 20 };
        let Ok(Answer::Entries(entries)) = fs.run(list) else { panic!("{path} is a directory") };
        for entry in entries.iter().filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
            let lookup = Request::Lookup { dir, name: entry.name.clone() };
            let Ok(Answer::Object(attr, _)) = fs.run(lookup) else { panic!("{path} has names") };
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            all.insert(path.clone(), (attr.kind, attr.size));
            if attr.kind == FileKind::Directory {
                todo.push((attr.ino, path));
            }
        }
    }
    all
}

/// Addresses of inodes that lead to zones which the map says are free.
fn free_but_named(cells: &mut Cells) -> Vec<(u32, u32)> {
    let geometry = geometry(cells);
    let mut marked = |bit: u32| {
        let map = geometry.zmap();
        let place = geometry.place_of(map.first + bit / map.zone_bits);
        let bit = bit % map.zone_bits;
        let at = place.page * 4096 + place.at as u64 + u64::from(bit / 8);
        bytes(cells, at, 1)[0] & 1 << (bit % 8) != 0
    };
    let used: Vec<bool> = (0..geometry.zones())
        .map(|zone| geometry.is_data(zone) && marked(geometry.bit_of(zone)))
        .collect();
    let mut wrong = Vec::new();
    for ino in 1..60 {
        let inode = inode(cells, ino);
        let leads = |zone: &&u32| geometry.is_data(**zone) && !used[**zone as usize];
        wrong.extend(inode.zones.iter().filter(leads).map(|&zone| (ino, zone)));
    }
    wrong
}

/// Fates of pending writes: none or all are there, one alone, all but one.
fn fates(pending: usize) -> Vec<Box<dyn Fn(usize) -> Fate>> {
    let is = |kept: bool| if kept { Fate::Kept } else { Fate::Lost };
    let mut all: Vec<Box<dyn Fn(usize) -> Fate>> =
        vec![Box::new(move |_| is(false)), Box::new(move |_| is(true))];
    for one in 0..pending {
        all.push(Box::new(move |number| is(number == one)));
        all.push(Box::new(move |number| is(number != one)));
    }
    all
}

fn repaired(cells: &mut Cells) {
    repair(&mut MediumDisk(cells)).expect("repairable");
    let left = check(&mut MediumDisk(cells)).expect("it can be read").list;
    assert!(left.is_empty(), "after a repair: {left:?}");
}

/// Cuts the repair of a damaged sample after each of its writes; returns their number.
fn cut_each(damaged: &Cells) -> u64 {
    let mut whole = damaged.clone();
    repaired(&mut whole);
    let right = tree(&whole);
    assert!(right.len() > 3, "the sample has files: {right:?}");
    let mut writes = 0;
    loop {
        let mut medium = CutMedium::new(damaged.clone());
        medium.die_after(writes);
        let done = repair(&mut MediumDisk(&mut medium)).is_ok();
        for fate in fates(medium.pending()) {
            let mut left = medium.cut(fate);
            let wrong = free_but_named(&mut left);
            assert!(wrong.is_empty(), "cut after write {writes}: inodes and zones {wrong:?}");
            if done {
                let found = check(&mut MediumDisk(&mut left)).expect("it can be read").list;
                assert!(found.is_empty(), "not durable: {found:?}");
            }
            repaired(&mut left);
            assert_eq!(tree(&left), right, "cut after write {writes}");
        }
        if done {
            return writes;
        }
        writes += 1;
    }
}

#[test]
fn an_address_is_gone_before_its_zone_is_free() {
    let mut cells = sample(BLOCK);
    assert!(free_but_named(&mut cells).is_empty());
    // The file ends before its last direct zone.
    change(&mut cells, FILE, |inode| inode.size = BLOCK);
    let writes = cut_each(&cells);
    assert!(writes >= 2, "{writes} writes");
}

#[test]
fn the_first_entries_of_a_directory_are_durable_before_its_inode_has_them() {
    let mut cells = sample(BLOCK);
    change(&mut cells, DIRECTORY, |inode| inode.zones[0] = 0);
    let mut whole = cells.clone();
    repaired(&mut whole);
    // What lies where the repair puts them names a file.
    let zone = inode(&mut whole, DIRECTORY).zones[0];
    let at = u64::from(zone) * u64::from(BLOCK);
    let mut name = [0; 64];
    name[..4].copy_from_slice(&SMALL.to_le_bytes());
    name[4..9].copy_from_slice(b"stale");
    put(&mut cells, at + 5 * 64, &name);
    let writes = cut_each(&cells);
    assert!(writes >= 3, "{writes} writes");
}
