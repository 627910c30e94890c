//! Blocks of metadata that power cuts have torn, in one life after the other.
#![allow(clippy::unwrap_used, clippy::disallowed_types, missing_docs)]

mod support;

use seekless_engine::data::Data;
use seekless_engine::device::medium::{Cells, Medium};
use seekless_engine::device::ram::Ram;
use seekless_engine::disk::MediumDisk;
use seekless_engine::io::Io;
use seekless_engine::layout::{self, FormatOptions, Kind, MountOptions};
use seekless_engine::node::Node;
use seekless_engine::units::SECTOR_BYTES;
use support::Shared;

const DEVICE: u64 = 700;
/// So far up in its map block that the first sector does not have its entry.
const HIGH: u64 = 440;

fn mount(medium: &Shared) -> Node {
    let options = MountOptions { volatile: true, ..MountOptions::default() };
    let mounted = layout::mount(&mut MediumDisk(&mut medium.clone()), &options).unwrap();
    Node::new(mounted.0, vec![Box::new(Ram::volatile(Box::new(medium.clone())))], 1)
}

/// Where the youngest map block lies, and its bytes.
fn youngest_map_block(medium: &Shared) -> (u64, Vec<u8>) {
    let block = |at| (at, medium.with(|cells| cells.read(at, 1)).unwrap().to_bytes().to_vec());
    let maps = (0..DEVICE).map(block).filter(|(_, bytes)| bytes.starts_with(b"SKLSMAP1"));
    let sequence = |bytes: &[u8]| u64::from_le_bytes(bytes[24..32].try_into().unwrap());
    maps.max_by_key(|(_, bytes)| sequence(bytes)).unwrap()
}

/// Half a map block stays on the medium. What a later cut leaves of a write to the same place may
/// be the other half.
#[test]
fn a_map_block_that_was_torn_is_never_made_whole() {
    let mut cells = Cells::new(DEVICE);
    let options = FormatOptions::new(Kind::Vlog, HIGH + 1, 7);
    layout::format(&mut MediumDisk(&mut cells), &options).unwrap();
    let medium = Shared::new(cells);
    let write = |node: &mut Node, version| {
        node.run(&mut 0, Io::write(0, HIGH, Data::stamp(1, HIGH, version)).with_fua()).unwrap();
    };
    let mut node = mount(&medium);
    write(&mut node, 1);
    write(&mut node, 2);
    let (place, whole) = youngest_map_block(&medium);
    let put = |first: usize, bytes: &[u8]| {
        let mut block = medium.with(|cells| cells.read(place, 1)).unwrap().to_bytes().to_vec();
        block[first * SECTOR_BYTES..][..bytes.len()].copy_from_slice(bytes);
        medium.with(|cells| cells.write(place, &Data::bytes(block.into()))).unwrap();
    };
    // The second commit is torn; the first one counts, and new ones follow it.
    put(1, &vec![0; 7 * SECTOR_BYTES]);
    let mut node = mount(&medium);
    assert_eq!(node.run(&mut 0, Io::read(0, HIGH, 1)), Ok(Data::stamp(1, HIGH, 1)));
    let left = medium.with(|cells| cells.read(place, 1)).unwrap();
    assert!(left.to_bytes().iter().all(|&byte| byte == 0), "its first half waits for the other");
    write(&mut node, 3);
    // A write to the place of the torn one is torn, too.
    put(1, &whole[SECTOR_BYTES..]);
    let mut node = mount(&medium);
    assert_eq!(node.run(&mut 0, Io::read(0, HIGH, 1)), Ok(Data::stamp(1, HIGH, 3)));
}
