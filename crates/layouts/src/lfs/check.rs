//! Checking and printing a mounted volume.

use super::Lfs;
use super::format::Record;
use super::read::verify;
use super::segments::State;
use seekless_engine::checksum::are_zeros;
use seekless_engine::data::Piece;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{CheckReport, LayoutError};
use seekless_engine::units::BlockNr;
use std::fmt;

/// Reads every stored block and every block of the map and compares them with their checksums.
pub(super) fn check(volume: &Lfs, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
    let mut report = CheckReport::default();
    for (block, entry) in volume.map.all() {
        let place = entry.place();
        if !disk.is_asked(BlockNr::from(place), 1) {
            continue;
        }
        let outcome = disk
            .read_expecting(BlockNr::from(place), entry.expected(volume.sums))
            .and_then(|data| verify(volume.sums, std::slice::from_ref(&entry), data, block));
        if let Err(error) = outcome {
            let problem = format!("block {block} (device block {place}): {error}");
            report.damage(BlockNr::from(place), problem);
        }
    }
    let meta = volume.map.slices().iter().chain(volume.map.roots());
    for entry in meta.clone().filter(|entry| entry.is_mapped()) {
        if !disk.is_asked(BlockNr::from(entry.place()), 1) {
            continue;
        }
        let data =
            disk.read_expecting(BlockNr::from(entry.place()), entry.expected(volume.sums))?;
        if !volume.sums.has(&data.block(0), entry.checksum()) {
            let place = entry.place();
            let problem = format!("the block of the map at device block {place} is damaged");
            report.damage(BlockNr::from(place), problem);
        }
    }
    let kept = meta.filter(|entry| entry.is_mapped()).count() as u64;
    let live: u64 = volume.segments.iter().map(|(_, one)| u64::from(one.live)).sum();
    if live != volume.map.stored() + kept {
        let stored = volume.map.stored();
        report.problems.push(format!("{live} live blocks in segments, but {stored} + {kept}"));
    }
    report.damaged.extend(damaged_records(volume, disk));
    report.youngest = u128::from(volume.log.position.sequence);
    report.facts.push(("stored blocks", volume.map.stored().to_string()));
    report.facts.push(("map blocks", kept.to_string()));
    report.facts.push(("segments", volume.geometry.segments().to_string()));
    report.facts.push(("free segments", volume.segments.free().to_string()));
    Ok(report)
}

/// Blocks of copies of checkpoint records that are not whole. A slot that was never written holds
/// zeros.
fn damaged_records(volume: &Lfs, disk: &mut dyn Disk) -> Vec<BlockNr> {
    let (blocks, roots) = (volume.geometry.record_blocks(), volume.geometry.indices() as usize);
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let places = places.map(|(slot, copy)| volume.geometry.record_at(slot, copy));
    let mut damaged = Vec::new();
    for at in places {
        let is_whole = |index: u32, block: &Piece| {
            let bytes = block.to_bytes();
            are_zeros(&bytes) || Record::is_block(volume.id, index as usize, &bytes)
        };
        let whole = disk.read_whole(at, blocks as u32, &is_whole).is_ok_and(|data| {
            let bytes = data.to_bytes();
            bytes.iter().all(|&byte| byte == 0)
                || Record::decode(volume.id, &bytes, roots).is_some()
        });
        if !whole {
            damaged.extend(at..at + blocks);
        }
    }
    damaged
}

/// Prints the segments that are in use, and the map as runs.
pub(super) fn dump(
    volume: &Lfs,
    _disk: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    print(volume, out).map_err(|_| LayoutError::Damaged("the output cannot be written".into()))
}

fn print(volume: &Lfs, out: &mut dyn fmt::Write) -> fmt::Result {
    let geometry = &volume.geometry;
    writeln!(
        out,
        "log: {} segments of {} blocks from block {}, last part {}, checkpoint {} (log from part \
         {})",
        geometry.segments(),
        geometry.segment,
        geometry.first(),
        volume.log.position.sequence,
        volume.checkpoint.number(),
        volume.checkpoint.start() + 1,
    )?;
    for (segment, one) in volume.segments.iter().filter(|(_, one)| one.state != State::Free) {
        writeln!(out, "segment {segment} at {}: {} live", geometry.start_of(segment), one.live)?;
    }
    let (map, mut from) = (&volume.map, 0);
    while let Some(at) = map.next_stored(from, geometry.blocks) {
        let first = map.get(at);
        let rest = map.range(at, geometry.blocks - at).zip(first.place()..);
        let count = rest.take_while(|&(entry, place)| entry.place() == place).count() as u64;
        writeln!(out, "blocks {at}+{count} at {}", first.place())?;
        from = at + count;
    }
    Ok(())
}
