//! Checking and printing a mounted volume.

use super::Dcd;
use super::read::is_sum_of;
use super::table::{DIRTY, ESCAPED};
use seekless_engine::disk::Disk;
use seekless_engine::io::{Expected, IoError};
use seekless_engine::layout::{CheckReport, LayoutError};
use std::fmt;

/// Reads every block that is in the log only and compares it with its checksum, then everything at
/// home, where only the medium can tell that something is wrong.
pub(super) fn check(volume: &Dcd, disk: &mut dyn Disk) -> Result<CheckReport, LayoutError> {
    let mut report = CheckReport::default();
    check_log(volume, disk, &mut report);
    check_home(volume, disk, &mut report);
    facts(volume, &mut report);
    report.youngest = u128::from(volume.log.written);
    Ok(report)
}

/// What is worth knowing of the log.
pub(super) fn facts(volume: &Dcd, report: &mut CheckReport) {
    let log = &volume.log;
    report.facts.push(("dirty blocks", log.dirty().to_string()));
    report.facts.push(("log segments", volume.areas.segments.to_string()));
    report.facts.push(("free segments", log.free_segments().to_string()));
    report.facts.push(("last record", log.written.to_string()));
    report.facts.push(("lives", (log.life - 1).to_string()));
}

pub(super) fn check_log(volume: &Dcd, disk: &mut dyn Disk, report: &mut CheckReport) {
    let table = &volume.log.table;
    for addr in 0..volume.areas.log_blocks() as u32 {
        if !table.is(addr, DIRTY) {
            continue;
        }
        let (block, at) = (table.block(addr), volume.log.device_block(addr));
        if !disk.is_asked(at, 1) {
            continue;
        }
        let (sum, escaped) = (table.sum(addr), table.is(addr, ESCAPED));
        // The checksum of an escaped block is not that of what is stored, and zeros have none.
        let each = [(!escaped && sum != 0).then_some(sum)].into_iter().collect();
        let expected = Expected { sums: volume.areas.sums, each };
        let outcome = disk.read_expecting(at, expected).and_then(|data| {
            let piece = data.block(0);
            let piece = if escaped { super::format::escape(&piece) } else { piece };
            let whole = is_sum_of(volume.areas.sums, sum, &piece);
            whole.then_some(()).ok_or(IoError::Checksum { block: block.into() })
        });
        if let Err(error) = outcome {
            report.damage(at, format!("block {block} (device block {at}): {error}"));
        }
    }
}

pub(super) fn check_home(volume: &Dcd, disk: &mut dyn Disk, report: &mut CheckReport) {
    let first = volume.areas.origin_first;
    let end = first + volume.areas.blocks;
    let (mut at, mut read) = (first, 0);
    while let Some(start) = disk.next_data(at).filter(|&block| block < end) {
        let count = (end - start).min(256) as u32;
        if let Err(error) = read_asked(disk, start, count) {
            report.problems.push(format!("blocks {}+{count}: {error}", start - first));
        }
        read += u64::from(count);
        at = start + u64::from(count);
    }
    report.facts.push(("blocks read at home", read.to_string()));
}

/// Reads what the disk asks about: without checksums only the medium can say something.
fn read_asked(disk: &mut dyn Disk, at: u64, count: u32) -> Result<(), IoError> {
    if disk.is_asked(at, count) { disk.read(at, count).map(drop) } else { Ok(()) }
}

/// Prints where what is not at home lies.
pub(super) fn dump(
    volume: &Dcd,
    _disk: &mut dyn Disk,
    out: &mut dyn fmt::Write,
) -> Result<(), LayoutError> {
    print(volume, out).map_err(|_| LayoutError::Damaged("the output cannot be written".into()))
}

fn print(volume: &Dcd, out: &mut dyn fmt::Write) -> fmt::Result {
    let (areas, log) = (&volume.areas, &volume.log);
    writeln!(
        out,
        "dcd: log of {} segments of {} blocks from device block {}, block b of the volume at home \
         in block {} + b",
        areas.segments, areas.segment, areas.log_first, areas.origin_first
    )?;
    writeln!(
        out,
        "segments {}..={} in use, last record {}, {} blocks dirty",
        log.tail,
        log.head,
        log.written,
        log.dirty()
    )?;
    for number in log.tail..=log.head {
        let place = log.place(number);
        let (first, dirty) = (log.segments[place].first_seq, log.segments[place].dirty);
        writeln!(out, "segment {number} from record {first}: {dirty} dirty")?;
        let slots = place as u32 * areas.segment..(place as u32 + 1) * areas.segment;
        for addr in slots.filter(|&addr| log.table.is(addr, DIRTY)) {
            writeln!(out, "block {} at {}", log.table.block(addr), log.device_block(addr))?;
        }
    }
    Ok(())
}
