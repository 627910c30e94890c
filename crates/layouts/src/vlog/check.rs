//! Checking and printing a mounted volume.

use super::Vlog;
use super::format::{SLICE_ENTRIES, TAIL_BLOCK, decode_header, may_be_tail};
use crate::eager::{Mapped, check};
use seekless_engine::data::Piece;
use seekless_engine::disk::Disk;
use seekless_engine::layout::{CheckReport, LayoutError};
use std::fmt;

/// Reads every stored block and every live map block and compares them with the map.
pub(super) fn check(volume: &Vlog, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
    let mut report = CheckReport::default();
    let stored = check::stored(volume.map.range(0, volume.blocks), volume.sums, disk, &mut report);
    for slice in volume.tree.unreachable() {
        report
            .problems
            .push(format!("the map block of slice {slice} is not reachable from the root"));
    }
    let used = stored + u64::from(volume.tree.live());
    let pool = volume.device_blocks - super::FIXED_BLOCKS;
    if used + volume.free.free() != pool {
        let free = volume.free.free();
        report.problems.push(format!("{used} blocks are in use and {free} free, of {pool}"));
    }
    check_map_blocks(volume, disk, &mut report);
    report.facts.push(("stored blocks", stored.to_string()));
    report.facts.push(("map blocks", volume.tree.live().to_string()));
    report.facts.push(("free blocks", volume.free.free().to_string()));
    report.facts.push(("empty tracks", volume.free.empty_tracks().to_string()));
    Ok(report)
}

/// Reads the tail record, if there is one, and every live map block.
fn check_map_blocks(volume: &Vlog, disk: &mut dyn Disk, report: &mut CheckReport) {
    let mut has = |at: u64, is_whole: &dyn Fn(u32, &Piece) -> bool| {
        !disk.is_asked(at, 1)
            || disk.read_whole(at, 1, is_whole).is_ok_and(|data| is_whole(0, &data.block(0)))
    };
    if !has(TAIL_BLOCK, &|_, block| may_be_tail(volume.id, block)) {
        // A scan finds all that it would say, so it is no problem.
        report.damaged.push(TAIL_BLOCK);
    }
    for slice in (0..volume.tree.slices()).filter(|&slice| volume.tree.node(slice).place != 0) {
        let node = volume.tree.node(slice);
        let (place, sequence) = (node.place, node.sequence);
        // An older version of any slice makes the sum smaller.
        report.youngest += u128::from(sequence);
        let is_whole = |_, block: &Piece| {
            let header = decode_header(volume.id, place, &block.to_bytes());
            header.is_some_and(|it| it.slice == slice && it.sequence == sequence)
        };
        if !has(u64::from(place), &is_whole) {
            let problem = format!("the map block at device block {place} is damaged");
            report.damage(u64::from(place), problem);
        }
    }
}

/// Prints the log, youngest map block first, and the map as runs.
pub(super) fn dump(
    volume: &Vlog,
    disk: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    let cannot_print = |_| LayoutError::Damaged("the output cannot be written".into());
    let tail = volume.tail();
    writeln!(
        out,
        "log: last commit {}, next sequence {}, {} map blocks",
        tail.commit, tail.next_sequence, tail.live
    )
    .map_err(cannot_print)?;
    let mut slices: Vec<u32> =
        (0..volume.tree.slices()).filter(|&slice| volume.tree.node(slice).place != 0).collect();
    slices.sort_by_key(|&slice| std::cmp::Reverse(volume.tree.node(slice).sequence));
    for slice in slices {
        let node = volume.tree.node(slice);
        let is_whole =
            |_, block: &Piece| decode_header(volume.id, node.place, &block.to_bytes()).is_some();
        let block = disk.read_whole(u64::from(node.place), 1, &is_whole)?.to_bytes();
        let Some(header) = decode_header(volume.id, node.place, &block) else {
            return Err(LayoutError::Damaged(format!("map block {} is unreadable", node.place)));
        };
        writeln!(
            out,
            "map block at {}: slice {slice} (blocks {}..), sequence {}, commit {} ({} of {}), \
             durable up to {}, pointers {}",
            node.place,
            slice as usize * SLICE_ENTRIES,
            header.sequence,
            header.commit,
            header.index + 1,
            header.members,
            header.durable,
            Pointers(&header.pointers),
        )
        .map_err(cannot_print)?;
    }
    dump_map(volume, out).map_err(cannot_print)
}

fn dump_map(volume: &Vlog, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut from = 0;
    while from < volume.blocks {
        let first = volume.map.get(from);
        if !first.is_mapped() {
            from += 1;
            continue;
        }
        let count = check::run(from, volume.blocks, |block| volume.map.get(block));
        writeln!(out, "blocks {from}+{count} at {}", first.place())?;
        from += count;
    }
    Ok(())
}

struct Pointers<'p>(&'p [super::format::Pointer]);

impl fmt::Display for Pointers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pointer) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{}#{}", pointer.place, pointer.sequence)?;
        }
        if self.0.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}
