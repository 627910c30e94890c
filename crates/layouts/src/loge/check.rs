//! Checking and printing a mounted volume.

use super::Loge;
use crate::eager::{Mapped, check};
use seekless_engine::disk::Disk;
use seekless_engine::layout::{CheckReport, LayoutError};
use std::fmt;

/// Reads every stored block and compares it with its label.
pub(super) fn check(volume: &Loge, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
    let mut report = CheckReport::default();
    let stored =
        check::stored(volume.table.range(0, volume.areas.blocks), volume.sums, disk, &mut report);
    let (pool, free) = (volume.areas.pool(), volume.free.free() + volume.free.free_by_name());
    if stored + free != pool {
        report.problems.push(format!("{stored} blocks are in use and {free} free, of {pool}"));
    }
    for &at in &volume.mended {
        let what = if at < volume.areas.start() { "trim map" } else { "label" };
        let problem = format!(
            "the {what} block at device block {at} is damaged; what it said is known for certain: \
             serve the volume once, not --read-only, to write it anew"
        );
        report.damage(at, problem);
    }
    let labels = if volume.areas.headers { "sector headers" } else { "label blocks" };
    report.youngest = u128::from(volume.next_stamp);
    report.facts.push(("stored blocks", stored.to_string()));
    report.facts.push(("capacity in blocks", volume.capacity.to_string()));
    report.facts.push(("free blocks", free.to_string()));
    report.facts.push(("labels", labels.to_owned()));
    report.facts.push(("last time stamp", (volume.next_stamp - 1).to_string()));
    report.facts.push(("heuristic", volume.placer.heuristic().to_string()));
    report.facts.push(("table", volume.table_form()));
    Ok(report)
}

/// Prints where everything lies, as runs.
pub(super) fn dump(
    volume: &Loge,
    _disk: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    print(volume, out).map_err(|_| LayoutError::Damaged("the output cannot be written".into()))
}

fn print(volume: &Loge, out: &mut dyn fmt::Write) -> fmt::Result {
    let labels = if volume.areas.headers { "in sector headers" } else { "in label blocks" };
    writeln!(
        out,
        "loge: labels {labels}, last time stamp {}, last record {}, heuristic {}",
        volume.next_stamp - 1,
        volume.record,
        volume.placer.heuristic()
    )?;
    let (start, end) = (volume.areas.start(), volume.areas.end());
    writeln!(out, "trim map at 3+{}, data at {start}..{end}", volume.areas.trim_blocks())?;
    let mut from = 0;
    while from < volume.areas.blocks {
        let first = volume.table.get(from);
        let mut count = 1;
        if first.is_mapped() {
            count = check::run(from, volume.areas.blocks, |block| volume.table.get(block));
            writeln!(out, "blocks {from}+{count} at {}", first.place())?;
        } else if volume.trims.get(from).stamp > 0 {
            writeln!(out, "block {from} forgotten at {}", volume.trims.get(from).stamp)?;
        }
        from += count;
    }
    Ok(())
}
