//! The bytes of checkpoints.

use super::*;
use seekless_engine::checksum::Sums;
use seekless_engine::device::medium::{Cells, Medium as _};
use seekless_engine::disk::MediumDisk;
use seekless_engine::superblock::{LayoutNumber, Superblock};

fn volume(number: u128, device_blocks: u64) -> Superblock {
    Superblock {
        layout: LayoutNumber(9),
        version: Superblock::version_for(Sums::NEWEST, 1),
        id: number,
        blocks: (700 * 128) << super::super::address::WITHIN_BITS,
        device_blocks,
        options: 0,
        sums: Sums::NEWEST,
    }
}

const HEAD: Head =
    Head { number: 3, commit: 9, next_sequence: 20, digest: 0xfeed, durable: 10, is_exact: true };

fn is_used(at: BlockNr) -> bool {
    at.is_multiple_of(3) || at % 1000 < 70
}

fn map() -> Vec<Pointer> {
    (0..700).map(|slice| Pointer { place: slice * 5, sequence: u64::from(slice) * 9 }).collect()
}

fn written(volume: &Superblock, area: usize, head: Head) -> Cells {
    let (id, areas) = (volume.identity(), Areas::of(volume));
    let mut cells = Cells::new(volume.device_blocks);
    for index in 0..areas.blocks() {
        let block = match index {
            0 => head.encode(id, areas, false),
            index if index == areas.blocks() - 1 => head.encode(id, areas, true),
            index => encode_block((id, areas, &head), index, &map(), is_used),
        };
        cells.write(areas.start(area) + index, &data(vec![block])).expect("memory");
    }
    cells
}

fn found(volume: &Superblock, cells: &mut Cells) -> Found {
    find(&mut MediumDisk(cells), volume).expect("memory")
}

#[test]
fn a_checkpoint_comes_back() {
    let volume = volume(7, 100_000);
    let areas = Areas::of(&volume);
    assert_eq!(areas.blocks(), 2 + 3 + 4, "headers, 700 slices, 100,000 bits");
    assert_eq!(areas.end(), 2 + 2 * 9);
    for area in [0, 1] {
        let found = found(&volume, &mut written(&volume, area, HEAD));
        let (at, one) = found.newest.expect("it is whole");
        assert_eq!((at, one.head, found.last_number), (area, HEAD, 3));
        assert_eq!(one.map, map());
        let used: Vec<u32> = (0..100_000).filter(|&at| is_used(at.into())).collect();
        assert!(one.used().eq(used));
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let volume = volume(7, 40_000);
    let areas = Areas::of(&volume);
    let cells = written(&volume, 0, HEAD);
    for at in (0..areas.blocks() * BLOCK_BYTES as u64).step_by(13) {
        let mut bad = cells.clone();
        let place = areas.start(0) + at / BLOCK_BYTES as u64;
        let mut bytes = bad.read(place, 1).expect("memory").to_bytes().to_vec();
        bytes[at as usize % BLOCK_BYTES] ^= 4;
        bad.write(place, &data(vec![bytes])).expect("memory");
        assert!(found(&volume, &mut bad).newest.is_none(), "byte {at}");
    }
}

#[test]
fn blocks_of_two_checkpoints_are_none() {
    let volume = volume(7, 40_000);
    let areas = Areas::of(&volume);
    let mut old = written(&volume, 0, HEAD);
    let mut new = written(&volume, 0, Head { number: 5, ..HEAD });
    for index in 0..areas.blocks() {
        let block = new.read(areas.start(0) + index, 1).expect("memory");
        old.write(areas.start(0) + index, &block).expect("memory");
        let found = found(&volume, &mut old);
        assert_eq!(found.newest.is_some(), index == areas.blocks() - 1, "{index} are new");
        assert_eq!(found.last_number, 5);
    }
    assert!(
        found(&super::tests::volume(8, 40_000), &mut new).newest.is_none(),
        "of another volume"
    );
}

/// A power cut leaves the blocks between the headers; the next checkpoint gets the same number.
#[test]
fn blocks_of_one_that_was_cut_off_are_not_of_the_next() {
    let volume = volume(7, 40_000);
    let areas = Areas::of(&volume);
    let mut whole = written(&volume, 0, HEAD);
    let others = [
        (volume, Head { commit: HEAD.commit - 1, ..HEAD }),
        (volume, Head { digest: 0xfade, ..HEAD }),
        (super::tests::volume(8, 40_000), HEAD),
    ];
    for (of, head) in others {
        let mut cut = written(&of, 0, head);
        for at in (1..areas.blocks() - 1).map(|index| areas.start(0) + index) {
            let mut mixed = whole.clone();
            mixed.write(at, &cut.read(at, 1).expect("memory")).expect("memory");
            assert!(found(&volume, &mut mixed).newest.is_none(), "block {at} of {head:?}");
        }
    }
    assert!(found(&volume, &mut whole).newest.is_some());
}
