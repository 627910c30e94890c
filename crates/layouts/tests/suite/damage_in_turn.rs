//! Damage to every single metadata block of every layout in turn: a salvage loses at most what that
//! block maps, and reads nothing old or wrong. A repair makes the volume mountable again.
//!
//! The table in docs/manual/salvage.md is what this measures.
#![allow(clippy::unwrap_used, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, LayoutError, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::planted::{PlantedBug, with_bug};
use seekless_engine::rng::Rng;
use seekless_layouts::Kind;
use seekless_layouts::salvage::Repaired;
use seekless_layouts::shared::SALVAGE;
use std::collections::BTreeMap;

/// Six map blocks of `vlog`, five of `lfs`, thirteen blocks of the trim map of `loge`.
const VOLUME: u64 = 2500;
const PAGE: &str = include_str!("../../../../docs/manual/salvage.md");

struct Worked {
    cells: Cells,
    content: Vec<Data>,
}

fn node(medium: &Shared, options: &MountOptions<'_>) -> Result<Node, LayoutError> {
    let options = MountOptions { volatile: true, ..options.clone() };
    let (layer, ..) = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options)?;
    Ok(Node::new(layer, vec![Box::new(Ram::volatile(Box::new(medium.clone())))], 1))
}

/// Two epochs of writes and trims; the second one ends with a flush, and cleanly or not.
fn worked(kind: Kind, seed: u64, is_clean: bool) -> Worked {
    let mut cells = Cells::new(kind.device_blocks(VOLUME));
    let format = FormatOptions::new(kind, VOLUME, 7);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &format).unwrap();
    let medium = Shared::new(cells);
    let mut content = vec![Data::zeros(1); VOLUME as usize];
    let mut rng = Rng::stream(seed, "damage in turn");
    for epoch in 0..2 {
        let mut node = node(&medium, &MountOptions::default()).unwrap();
        let now = &mut 0;
        for version in 1..150 {
            let count = 1 + rng.below(12) * rng.below(2);
            let at = rng.below(VOLUME - count);
            let io = match rng.below(8) {
                0 => {
                    content[at as usize..(at + count) as usize].fill(Data::zeros(1));
                    Io::trim(0, at, count as u32)
                }
                _ => {
                    let version = epoch * 1000 + version;
                    for block in at..at + count {
                        content[block as usize] = Data::stamp(1, block, version);
                    }
                    Io::write(0, at, Data::stamp(count as u32, at, version))
                }
            };
            node.run(now, io).unwrap();
            if rng.below(5) == 0 {
                node.run(now, Io::flush(0)).unwrap();
            }
        }
        node.run(now, Io::flush(0)).unwrap();
        if epoch == 0 || is_clean {
            node.finish(now);
        }
    }
    Worked { cells: medium.with(|cells| cells.clone()), content }
}

fn bytes(cells: &mut Cells, at: u64) -> Vec<u8> {
    cells.read(at, 1).unwrap().to_bytes().to_vec()
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The metadata blocks of an image: what they are, and how many blocks each maps at most.
fn metadata(kind: Kind, cells: &mut Cells) -> Vec<(u64, &'static str, u64)> {
    let device = cells.blocks();
    let mut all = vec![(0, "superblock", 0), (device - 1, "superblock", 0)];
    if kind == Kind::LOGE {
        let start = 3 + VOLUME.div_ceil(200);
        all.extend([(1, "record", 0), (2, "record", 0)]);
        all.extend((3..start).map(|at| (at, "block of the trim map", 200)));
        let labels = (start / 128..device / 128).map(|group| (group * 128).max(start));
        all.extend(labels.map(|at| (at, "label block", 127)));
    }
    if kind == Kind::VLOG {
        all.push((1, "tail record", 0));
    }
    for at in 1..device - 1 {
        let block = bytes(cells, at);
        match &block[..8] {
            b"SKLSMAP1" => all.push((at, "map block", 448)),
            b"SKLSDCR2" => {
                let listed = u16::from_le_bytes([block[62], block[63]]);
                all.push((at, "header of a record", u64::from(listed)));
            }
            b"SKLSCKPT" => all.push((at, "checkpoint record", 0)),
            b"SKLSSEG1" => {
                all.push((at, "summary", 0));
                let (mut item, mut next) = (96, at + 1);
                for _ in 0..le32(&block, 64) {
                    match block[item] {
                        3 => all.push((next, "map block", 512)),
                        4 => all.push((next, "index block", 512 * 512)),
                        _ => {}
                    }
                    next += u64::from(matches!(block[item], 1 | 3 | 4));
                    item += if block[item] == 5 { 13 } else { 9 };
                }
            }
            _ => {}
        }
    }
    all
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Flip(usize),
    Unreadable,
}

const HOWS: [How; 5] =
    [How::Flip(0), How::Flip(30), How::Flip(101), How::Flip(2000), How::Unreadable];

fn strike(cells: &mut Cells, at: u64, how: How) {
    match how {
        How::Flip(byte) => {
            let mut bytes = bytes(cells, at);
            bytes[byte] ^= 1;
            cells.write(at, &Data::bytes(bytes.into())).unwrap();
        }
        How::Unreadable => cells.lose(at),
    }
}

/// The blocks that a salvage has lost. Whatever it reads must be right.
fn lost(cells: &mut Cells, content: &[Data], what: &str) -> Vec<u64> {
    let disk = &mut MediumDisk(cells);
    let salvage = seekless_layouts::open_salvage(disk).unwrap();
    let mut lost = Vec::new();
    for (block, right) in (0..).zip(content) {
        match salvage.read(disk, block, false) {
            Ok(data) => assert_eq!(&data, right, "block {block}: {what}"),
            Err(_) => lost.push(block),
        }
    }
    lost
}

fn read_only() -> MountOptions<'static> {
    MountOptions { read_only: true, ..MountOptions::default() }
}

fn mounts(cells: &mut Cells) -> bool {
    seekless_layouts::mount(&mut MediumDisk(cells), &read_only()).is_ok()
}

/// Repairs a volume that does not mount. What was certain is there, what was lost is an error or,
/// given up, zeros; and it can be written.
fn repair(struck: &Cells, content: &[Data], lost: &[u64], what: &str) {
    let mut cells = struck.clone();
    let marking = seekless_layouts::repair(&mut MediumDisk(&mut cells), false);
    let repaired = marking.unwrap_or_else(|refused| {
        assert!(refused.to_string().contains("lost"), "{what}: {refused}");
        cells = struck.clone();
        seekless_layouts::repair(&mut MediumDisk(&mut cells), true).expect(what)
    });
    let Repaired { lost: given_up, marked } = repaired;
    assert_eq!(given_up, lost, "{what}");
    let medium = Shared::new(cells);
    let now = &mut 0;
    let mut volume = node(&medium, &read_only()).expect(what);
    for (block, right) in (0..).zip(content) {
        let read = volume.run(now, Io::read(0, block, 1));
        match (lost.binary_search(&block).is_ok(), marked) {
            (false, _) => assert_eq!(&read.expect(what), right, "block {block}: {what}"),
            (true, true) => assert!(read.is_err(), "block {block}: {what}"),
            (true, false) => assert_eq!(read.expect(what), Data::zeros(1), "{block}: {what}"),
        }
    }
    let mut volume = node(&medium, &MountOptions::default()).expect(what);
    for &block in lost {
        volume.run(now, Io::write(0, block, Data::stamp(1, block, 5000))).expect(what);
    }
    volume.finish(now);
    let mut volume = node(&medium, &MountOptions::default()).expect(what);
    for (block, right) in (0..).zip(content) {
        let new = Data::stamp(1, block, 5000);
        let right = if lost.binary_search(&block).is_ok() { &new } else { right };
        assert_eq!(&volume.run(now, Io::read(0, block, 1)).expect(what), right, "{what}");
    }
    volume.finish(now);
    let (.., report) = seekless_layouts::check(&mut MediumDisk(&mut medium.clone())).expect(what);
    let problems = &report.problems;
    assert!(problems.iter().all(|one| !one.contains("checksum")), "{what}: {problems:?}");
}

/// A served salvage reads what a copy does.
fn serve(struck: &Cells, content: &[Data], lost: &[u64], what: &str) {
    let medium = Shared::new(struck.clone());
    let mut options = read_only();
    options.options.set(&SALVAGE, true);
    let mut volume = node(&medium, &options).expect(what);
    let now = &mut 0;
    for first in (0..VOLUME).step_by(50) {
        let count = 50.min(VOLUME - first);
        let whole = !lost.iter().any(|block| (first..first + count).contains(block));
        let read = volume.run(now, Io::read(0, first, count as u32));
        assert_eq!(read.is_ok(), whole, "{what}");
        for (block, piece) in (first..).zip(read.iter().flat_map(|data| data.each())) {
            assert_eq!(Data::block_of(piece.body), content[block as usize], "{what}");
        }
    }
    assert!(volume.run(now, Io::write(0, 0, Data::zeros(1))).is_err(), "it is read-only");
}

/// Of each kind of metadata block: how many there were, how many blocks each maps, and how many a
/// flipped byte and an unreadable block have lost at most.
type Rows = BTreeMap<&'static str, (u64, u64, u64, u64)>;

fn strike_each(kind: Kind, seed: u64, rows: &mut Rows) {
    let Worked { mut cells, content } = worked(kind, seed, true);
    assert_eq!(lost(&mut cells, &content, "undamaged"), []);
    let mut repairs = 0;
    for (at, name, maps) in metadata(kind, &mut cells) {
        let row = rows.entry(name).or_default();
        (row.0, row.1) = (row.0 + 1, row.1.max(maps));
        for how in HOWS {
            let what = format!("{kind}, seed {seed}, {name} at {at}, {how:?}");
            let mut struck = cells.clone();
            strike(&mut struck, at, how);
            let lost = lost(&mut struck, &content, &what);
            assert!(lost.len() as u64 <= maps || is_exempt(kind, name, how), "{what}: {lost:?}");
            let most = if how == How::Unreadable { &mut row.3 } else { &mut row.2 };
            *most = (*most).max(lost.len() as u64);
            if !mounts(&mut struck) && lost.len() as u64 != VOLUME && repairs < 12 {
                repairs += 1;
                serve(&struck, &content, &lost, &what);
                repair(&struck, &content, &lost, &what);
            }
        }
    }
}

/// The header that ends the log cannot be told from one of a younger record if it is unreadable.
fn is_exempt(kind: Kind, name: &str, how: How) -> bool {
    kind == Kind::DCD && name == "header of a record" && how == How::Unreadable
}

fn measure(kind: Kind) {
    let mut rows = Rows::new();
    for seed in 0..2 {
        strike_each(kind, seed, &mut rows);
    }
    let lacking = rows.into_iter().filter_map(|(name, (count, maps, flipped, unreadable))| {
        assert!(count > 1, "{kind}: {name}");
        let maps = if maps == 0 { "–".to_owned() } else { maps.min(VOLUME).to_string() };
        let row = format!("| `{kind}` | {name} | {maps} | {flipped} | {unreadable} |");
        (!PAGE.contains(&row)).then_some(row)
    });
    let lacking: Vec<String> = lacking.collect();
    assert!(lacking.is_empty(), "docs/manual/salvage.md lacks\n{}", lacking.join("\n"));
}

#[test]
fn inplace() {
    measure(Kind::INPLACE);
}

#[test]
fn vlog() {
    measure(Kind::VLOG);
}

#[test]
fn loge() {
    measure(Kind::LOGE);
}

#[test]
fn dcd() {
    measure(Kind::DCD);
}

#[test]
fn lfs() {
    measure(Kind::LFS);
}

#[test]
fn wolf() {
    measure(Kind::WOLF);
}

#[test]
fn hylog() {
    measure(Kind::HYLOG);
}

#[test]
fn lld() {
    measure(Kind::LLD);
}

/// The same as before, with a bug: the check above must fail.
#[test]
#[should_panic(expected = "block")]
fn damage_that_a_salvage_overlooks_is_found() {
    let overlooks = || strike_each(Kind::LFS, 0, &mut Rows::new());
    with_bug(Some(PlantedBug::ChecksumNotVerified), overlooks);
}

/// After a crash a mount takes damage to the youngest metadata for unfinished writes. Where it
/// refuses, a salvage reads nothing that is old.
#[test]
fn after_a_crash_nothing_old_is_read_where_a_mount_refuses() {
    for kind in Kind::ALL {
        let Worked { mut cells, content } = worked(kind, 3, false);
        assert_eq!(lost(&mut cells, &content, "undamaged"), []);
        let mut refused = 0;
        for (at, name, _) in metadata(kind, &mut cells) {
            for how in HOWS {
                let what = format!("{kind}, {name} at {at}, {how:?}");
                let mut struck = cells.clone();
                strike(&mut struck, at, how);
                if !mounts(&mut struck) {
                    refused += 1;
                    let lost = lost(&mut struck, &content, &what);
                    if lost.len() as u64 != VOLUME && refused < 6 {
                        repair(&struck, &content, &lost, &what);
                    }
                }
            }
        }
        assert!(refused > 0 || kind == Kind::INPLACE, "{kind}: no damage was noticed");
    }
}
