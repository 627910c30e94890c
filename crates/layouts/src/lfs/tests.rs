//! What a volume takes of memory, and what it keeps room for.

use super::Lfs;
use super::format::{Entry, Geometry, Mark, RESERVE};
use super::hylog::Hylog;
use super::map::Map;
use super::segments::{Owner, Segments};
use crate::Kind;
use seekless_engine::checksum::Sums;
use seekless_engine::layout::MountOptions;
use seekless_engine::rng::Rng;
use seekless_engine::superblock::Superblock;

const SEGMENT: u32 = 256;

/// A map of so many blocks, its segments, and what counts their writes.
struct Tables {
    geometry: Geometry,
    map: Map,
    segments: Segments,
    hylog: Hylog,
}

impl Tables {
    fn new(blocks: u64) -> Tables {
        let device_blocks = blocks + blocks / 8;
        let geometry =
            Geometry { blocks, device_blocks, segment: SEGMENT, aligned: false, reserve: RESERVE };
        let hylog = Hylog::new(blocks, super::hylog::INTERVAL, None);
        Tables { geometry, map: Map::new(&geometry), segments: Segments::new(geometry), hylog }
    }

    /// Writes a block to the log behind the last one; each segment begins with a summary.
    fn write(&mut self, at: u64, number: u32) {
        let (segment, index) = (number / (SEGMENT - 1), number % (SEGMENT - 1));
        if index == 0 {
            assert!(self.segments.take(segment), "the segment is free");
        }
        let place = self.geometry.start_of(segment) + 1 + index;
        let old = self.map.replace(at, Entry::new(place, Mark::default(), place ^ 0x5555));
        if old.is_mapped() {
            self.segments.vacate(old.place());
        }
        self.segments.occupy(place, Owner::Data(at as u32));
    }

    fn bytes(&self) -> usize {
        self.map.bytes() + self.segments.bytes()
    }
}

#[test]
fn an_empty_volume_of_a_tebibyte_takes_next_to_nothing() {
    let tables = Tables::new(1 << 28);
    let bytes = tables.bytes() + tables.hylog.bytes();
    assert!(bytes < 20 << 20, "{bytes} bytes");
}

/// 1.1 GiB for each TiB is 4.4 bytes for each block.
#[test]
fn what_is_written_in_order_takes_little_more_than_its_checksums() {
    let blocks = 1 << 18;
    let mut tables = Tables::new(blocks);
    for at in 0..blocks {
        tables.write(at, at as u32);
    }
    let bytes = tables.bytes() as f64 / blocks as f64;
    assert!(bytes < 4.5, "{bytes} bytes for each block");
    assert!(tables.hylog.bytes() < 5000, "nothing was counted");
}

#[test]
fn what_is_written_in_any_order_takes_a_dozen_bytes() {
    let blocks = 1 << 16;
    let mut order: Vec<u64> = (0..blocks).collect();
    let mut rng = Rng::stream(1, "order");
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    let mut tables = Tables::new(blocks);
    for (number, &at) in (0..).zip(&order) {
        tables.write(at, number);
    }
    let bytes = tables.bytes() as f64 / blocks as f64;
    assert!(bytes < 13.0, "{bytes} bytes for each block");
    for at in 0..blocks {
        let entry = tables.map.get(at);
        assert_eq!(tables.segments.owner(entry.place()), Some(Owner::Data(at as u32)));
        tables.map.replace(at, Entry::UNMAPPED);
    }
    let empty = Tables::new(blocks);
    assert_eq!(tables.map.bytes(), empty.map.bytes(), "what was trimmed takes nothing");
}

/// Where blocks have become cold the whole map is to be written. Writes of clients do not wait for
/// room for it: on a full volume there may never be that much.
#[test]
fn a_conversion_that_waits_takes_no_room_from_writes() {
    let blocks = 1 << 20;
    let geometry = Geometry {
        blocks,
        device_blocks: blocks + blocks / 8,
        segment: SEGMENT,
        aligned: false,
        reserve: RESERVE,
    };
    let superblock = Superblock {
        layout: Kind::HYLOG.into(),
        version: 1,
        id: 7,
        blocks,
        device_blocks: geometry.device_blocks,
        options: SEGMENT.ilog2(),
        sums: Sums::NEWEST,
    };
    let mut volume = Lfs::empty(&superblock, geometry, &MountOptions::default());
    let state = |volume: &mut Lfs, converting: bool| {
        volume.policy.hylog().expect("a hylog volume").converting = converting;
        let needed = (1..2000).find(|&count| !volume.has_room(count * 1000)).expect("it is full");
        (needed, volume.low())
    };
    let (room, low) = state(&mut volume, false);
    let (room_then, low_then) = state(&mut volume, true);
    assert_eq!(room, room_then, "room for writes");
    // The cleaner makes room for the map.
    let map = (geometry.slices() + geometry.indices()).div_ceil(u64::from(SEGMENT - 1));
    assert_eq!(low_then, low + map);
}
