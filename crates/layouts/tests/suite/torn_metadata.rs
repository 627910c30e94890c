//! Blocks of metadata that power cuts have torn, over several epochs.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

use crate::support::Shared;
use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{FormatOptions, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_layouts::Kind;
use seekless_layouts::shared::PAST_UNREADABLE;

const DEVICE: u64 = 1200;
/// A block whose entry is not in the first sector of its map block.
const HIGH: u64 = 440;

fn mount(medium: &Shared) -> Node {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let mounted = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
    Node::new(mounted.0, vec![Box::new(Ram::volatile(Box::new(medium.clone())))], 1)
}

fn block(medium: &Shared, at: u64) -> Vec<u8> {
    medium.with(|cells| cells.read(at, 1)).unwrap().to_bytes().to_vec()
}

/// Address and bytes of the youngest block with this magic number.
fn youngest(medium: &Shared, magic: &[u8]) -> (u64, Vec<u8>) {
    let all = (0..DEVICE).map(|at| (at, block(medium, at)));
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().unwrap());
    let of_kind = all.filter(|(_, bytes)| bytes.starts_with(magic));
    of_kind.max_by_key(|(_, bytes)| number(bytes)).unwrap()
}

fn formatted(kind: Kind) -> Shared {
    let mut cells = Cells::new(DEVICE);
    seekless_layouts::format(&mut MediumDisk(&mut cells), &FormatOptions::new(kind, HIGH + 1, 7))
        .unwrap();
    Shared::new(cells)
}

/// Half a map block stays on the medium. A later cut may leave the other half of a write to the
/// same place.
#[test]
fn a_map_block_that_was_torn_is_never_made_whole() {
    let medium = formatted(Kind::VLOG);
    let write = |node: &mut Node, version| {
        node.run(&mut 0, Io::write(0, HIGH, Data::stamp(1, HIGH, version)).with_fua()).unwrap();
    };
    let mut node = mount(&medium);
    write(&mut node, 1);
    write(&mut node, 2);
    let (place, whole) = youngest(&medium, b"SKLSMAP1");
    let put = |first: usize, bytes: &[u8]| {
        let mut block = block(&medium, place);
        block[first * SECTOR_BYTES..][..bytes.len()].copy_from_slice(bytes);
        medium.with(|cells| cells.write(place, &Data::bytes(block.into()))).unwrap();
    };
    // The second commit is torn; the first one counts, and new ones follow it.
    put(1, &vec![0; 7 * SECTOR_BYTES]);
    let mut node = mount(&medium);
    assert_eq!(node.run(&mut 0, Io::read(0, HIGH, 1)), Ok(Data::stamp(1, HIGH, 1)));
    assert!(block(&medium, place) == [0; BLOCK_BYTES], "its first half waits for the other");
    write(&mut node, 3);
    // A write to the address of the torn block is torn, too.
    put(1, &whole[SECTOR_BYTES..]);
    let mut node = mount(&medium);
    assert_eq!(node.run(&mut 0, Io::read(0, HIGH, 1)), Ok(Data::stamp(1, HIGH, 3)));
}

/// The same with a header of the log of `dcd`, whose checksum is at its other end.
#[test]
fn a_header_that_was_torn_is_never_made_whole() {
    let medium = formatted(Kind::DCD);
    let mut node = mount(&medium);
    for version in 1..3 {
        node.run(&mut 0, Io::write(0, 9, Data::stamp(1, 9, version)).with_fua()).unwrap();
    }
    let (place, whole) = youngest(&medium, b"SKLSDCR2");
    let mut torn = whole.clone();
    torn[3 * SECTOR_BYTES..4 * SECTOR_BYTES].fill(7);
    medium.with(|cells| cells.write(place, &Data::bytes(torn.into()))).unwrap();
    let mut node = mount(&medium);
    assert!(block(&medium, place) == [0; BLOCK_BYTES], "it waits for a sector of zeros");
    assert_eq!(node.run(&mut 0, Io::read(0, 9, 1)), Ok(Data::stamp(1, 9, 1)));
}

/// A recovery drops a write of which one block is torn. Clients have read the older content. The
/// write must not come back when that block is unreadable and its tear is not visible.
#[test]
fn what_was_dropped_stays_dropped_though_damage_hides_why() {
    for stopped in [false, true] {
        let medium = formatted(Kind::LFS);
        let mut node = mount(&medium);
        node.run(&mut 0, Io::write(0, 3, Data::stamp(1, 3, 1)).with_fua()).unwrap();
        node.run(&mut 0, Io::write(0, 8, Data::stamp(2, 8, 1)).with_fua()).unwrap();
        let (part, _) = youngest(&medium, b"SKLSSEG1");
        let torn = part + 2;
        medium.with(|cells| cells.write(torn, &Data::zeros(1))).unwrap();
        let mut node = mount(&medium);
        let holds = |node: &mut Node| {
            assert_eq!(node.run(&mut 0, Io::read(0, 3, 1)), Ok(Data::stamp(1, 3, 1)));
            assert_eq!(node.run(&mut 0, Io::read(0, 8, 2)), Ok(Data::zeros(2)), "{stopped}");
        };
        holds(&mut node);
        if stopped {
            let mut now = 0;
            node.stop(now);
            while !node.stopped() {
                node.settle(now, &mut Vec::new());
                now = node.next_event().unwrap_or(now).max(now);
            }
        }
        medium.with(|cells| cells.lose(torn));
        holds(&mut mount(&medium));
        // Later writes are appended behind the new end of the log.
        let mut node = mount(&medium);
        node.run(&mut 0, Io::write(0, 4, Data::stamp(1, 4, 2)).with_fua()).unwrap();
        let mut node = mount(&medium);
        assert_eq!(node.run(&mut 0, Io::read(0, 4, 1)), Ok(Data::stamp(1, 4, 2)));
        holds(&mut node);
    }
}

/// A mount records how far the log reaches. If a later mount cannot read that part, it reports
/// damage, not the end of the log.
#[test]
fn a_part_that_was_found_before_is_missed() {
    let medium = formatted(Kind::LFS);
    let mut node = mount(&medium);
    for at in 1..4 {
        node.run(&mut 0, Io::write(0, at, Data::stamp(1, at, 1)).with_fua()).unwrap();
    }
    let (part, _) = youngest(&medium, b"SKLSSEG1");
    drop(mount(&medium));
    medium.with(|cells| cells.write(part, &Data::zeros(1))).unwrap();
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let error =
        seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap_err();
    assert!(error.to_string().contains("though a mount has found it"), "{error}");
}

/// An unreadable block of a virtual log may have held its youngest commits. After a crash, a mount
/// fails instead of returning older content, unless an option allows that.
#[test]
fn a_virtual_log_is_not_mounted_past_what_cannot_be_read() {
    let medium = formatted(Kind::VLOG);
    let mut node = mount(&medium);
    for version in 1..3 {
        node.run(&mut 0, Io::write(0, 5, Data::stamp(1, 5, version)).with_fua()).unwrap();
    }
    let whole = medium.with(|cells| cells.clone());
    let (map, _) = youngest(&medium, b"SKLSMAP1");
    let try_mount = |lost: &[u64], past_unreadable| {
        let mut cells = whole.clone();
        lost.iter().for_each(|&at| cells.lose(at));
        let medium = Shared::new(cells);
        let mut options = MountOptions { volatile: true, ..MountOptions::default() };
        options.options.set(&PAST_UNREADABLE, past_unreadable);
        let mounted = seekless_layouts::mount(&mut MediumDisk(&mut medium.clone()), &options)?;
        let device = Ram::volatile(Box::new(medium.clone()));
        let mut node = Node::new(mounted.0, vec![Box::new(device)], 1);
        Ok::<_, seekless_engine::layout::LayoutError>((medium, node.run(&mut 0, Io::read(0, 5, 1))))
    };
    let everything: Vec<u64> = (5..DEVICE - 1).collect();
    for lost in [&[map][..], &[DEVICE - 20], &everything] {
        let refused = try_mount(lost, false).unwrap_err().to_string();
        assert!(refused.contains("--past-unreadable"), "{refused}");
    }
    // The map names the block with the data: the mount succeeds, and only a read of that block
    // fails.
    let data = (5..DEVICE - 1).find(|&at| {
        let found = medium.with(|cells| cells.read(at, 1)).unwrap();
        found == Data::stamp(1, 5, 2)
    });
    let (_, read) = try_mount(&[data.unwrap()], false).unwrap();
    assert!(read.is_err(), "{read:?}");
    // A mount with that option is final: the commit does not come back when the block is readable
    // again.
    let (went_on, read) = try_mount(&[map], true).unwrap();
    assert_eq!(read, Ok(Data::stamp(1, 5, 1)));
    assert_eq!(block(&went_on, map), [0; BLOCK_BYTES]);
    let read = mount(&went_on).run(&mut 0, Io::read(0, 5, 1));
    assert_eq!(read, Ok(Data::stamp(1, 5, 1)));
}
