//! The log of a file system: a group for each operation, with what it changes.

use super::sink::{Style, hex};
use super::{Found, no_journal};
use crate::failure::{Exit, Failure};
use crate::filesystem::{blame, names};
use seekless_engine::units::{BLOCK_BYTES, SECTOR_BYTES};
use seekless_formats::log::{Lsn, Stat, of_file_system};
use seekless_fs::log::{GroupView, LogError, Record, Scanned};
use seekless_serve::files::Volume;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

fn scan(images: &[PathBuf], volume: &mut Volume) -> Result<(Scanned, Option<LogError>), Failure> {
    let found = of_file_system(volume).map_err(|error| blame(images, &error))?;
    found.ok_or_else(|| no_journal(images))
}

/// Prints groups from a position on, which moves behind them. Gives damage behind them.
pub fn print(
    images: &[PathBuf],
    volume: &mut Volume,
    (from, until): (&mut Lsn, Option<Lsn>),
    style: Style,
    out: &mut dyn Write,
) -> Result<Option<Failure>, Failure> {
    let (scanned, damage) = scan(images, volume)?;
    let begin = *from;
    for group in scanned.groups().filter(|group| group.lsn() >= begin) {
        let at = group.lsn();
        match style.is_json() {
            true => writeln!(out, "{}", object(&group))?,
            false => text(&group, out)?,
        }
        *from = Lsn(at.0 + 1);
        if until.is_some_and(|until| at >= until) {
            return Ok(None);
        }
    }
    Ok(damage.map(|error| {
        Failure::new(Exit::Image, format!("{}: {error}", names(images)))
            .hint("run `seekless fsck --repair` or mount --read-only")
    }))
}

/// What `stat` prints.
pub fn stat(images: &[PathBuf], volume: &mut Volume) -> Result<Found, Failure> {
    let (scanned, damage) = scan(images, volume)?;
    let superblock = scanned.superblock;
    let (start, end) = (superblock.start, scanned.end);
    let count = scanned.groups().len() as u64;
    let sectors = (end.number() + u64::from(end.offset() > 0)).saturating_sub(start.number());
    let stat = Stat {
        size: u64::from(superblock.shape.blocks) * BLOCK_BYTES as u64,
        used: if count == 0 { 0 } else { sectors * SECTOR_BYTES as u64 },
        start,
        durable: end.max(superblock.durable),
        end,
        epoch: superblock.epoch,
        unit: superblock.shape.unit,
        most_record: 0,
    };
    Ok(Found { stat, records: count, damage: damage.map(|error| error.to_string()) })
}

fn text(group: &GroupView<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let Ok(records) = group.records() else {
        return writeln!(out, "{} malformed", group.lsn());
    };
    writeln!(out, "{} {} records", group.lsn(), records.len())?;
    for record in records {
        writeln!(out, "    {}", line(&record))?;
    }
    Ok(())
}

/// A record in words.
fn line(record: &Record<'_>) -> String {
    match *record {
        Record::Bytes { seal, at, block, bytes } => {
            format!("block {block}, byte {at}, seal {seal}: {} bytes", bytes.len())
        }
        Record::Fresh { seal, at, block, length } => {
            format!("block {block}, byte {at}, seal {seal}: {length} zeros")
        }
        Record::Free { what, first, count } => format!("give up {}", space(what, first, count)),
        Record::Freed { what, first, count } => format!("free {}", space(what, first, count)),
        Record::Orphan(inode) => format!("inode {inode} has no name"),
        Record::Adopted(inode) => format!("inode {inode} is free or has a name"),
        Record::Checkpoint(count) => format!("checkpoint of {count} records"),
        Record::Entry(bytes) => format!("a record of {} bytes", bytes.len()),
        Record::Epoch { before, end } => format!("epoch {before} has ended at {end}"),
    }
}

fn space(what: u8, first: u32, count: u16) -> String {
    let noun = if what == 0 { "fragments" } else { "inodes" };
    format!("{noun} {first}..{}", u64::from(first) + u64::from(count))
}

fn object(group: &GroupView<'_>) -> Value {
    let records = group.records().map(|all| all.iter().map(fields).collect::<Vec<_>>());
    json!({ "lsn": group.lsn().0, "time": group.time(), "records": records.ok() })
}

fn fields(record: &Record<'_>) -> Value {
    match *record {
        Record::Bytes { seal, at, block, bytes } => {
            json!({ "kind": "bytes", "block": block, "at": at, "seal": seal, "hex": hex(bytes) })
        }
        Record::Fresh { seal, at, block, length } => {
            json!({ "kind": "fresh", "block": block, "at": at, "seal": seal, "length": length })
        }
        Record::Free { what, first, count } => {
            json!({ "kind": "free", "what": what, "first": first, "count": count })
        }
        Record::Freed { what, first, count } => {
            json!({ "kind": "freed", "what": what, "first": first, "count": count })
        }
        Record::Orphan(inode) => json!({ "kind": "orphan", "inode": inode }),
        Record::Adopted(inode) => json!({ "kind": "adopted", "inode": inode }),
        Record::Checkpoint(count) => json!({ "kind": "checkpoint", "count": count }),
        Record::Entry(bytes) => json!({ "kind": "entry", "hex": hex(bytes) }),
        Record::Epoch { before, end } => {
            json!({ "kind": "epoch", "before": before, "end": end.0 })
        }
    }
}
