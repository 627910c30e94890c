//! Opening a log: what a crash has left, and whether a new epoch begins.
//!
//! The epoch goes on if no sector lies behind its end. Else a crash has left some, and with what is
//! appended they might make records that a client never appended. So a new epoch begins behind
//! them. Order: first group of the epoch, flush, superblock, flush, the other one, flush. Until the
//! first of these superblocks is there the log is what it was, so opening that is cut off starts
//! over.

use super::error::Error;
use super::view::View;
use super::window::{AHEAD, Window};
use super::writer::Writer;
use seekless_engine::data::Data;
use seekless_engine::disk::Disk;
use seekless_engine::edge::Edge;
use seekless_engine::planted::{PlantedBug, planted};
use seekless_engine::units::BLOCK_SECTORS;
use seekless_fs::log::format::{MOST_NUMBER, MOST_SEQUENCE, NO_FILE_SYSTEM};
use seekless_fs::log::scan::{EpochSpan, scan_to_damage, superblock};
use seekless_fs::log::{Begun, GroupBuilder, LogError, LogSuperblock, Lsn, Record, Ring, Scanned};

/// Epochs and superblocks that an opened log may still give out, at least.
const MARGIN: u32 = 1 << 16;

/// Reads a log up to damage, if there is some.
///
/// # Errors
/// No log, and errors of the volume.
pub fn read(disk: &mut dyn Disk) -> Result<(Scanned, Option<Error>), Error> {
    let blocks = disk.blocks();
    let stated = u32::try_from(blocks).unwrap_or(u32::MAX);
    let mut window = Window::new(disk, 0..blocks, AHEAD);
    let found = superblock(&mut window, stated, NO_FILE_SYSTEM);
    let blocks = match found {
        // The volume has grown.
        Err(LogError::Size { stated, blocks }) if stated < blocks => stated,
        _ => stated,
    };
    let scanned = scan_to_damage(&mut window, blocks, NO_FILE_SYSTEM);
    if let Some(error) = window.failed() {
        return Err(error.into());
    }
    let (scanned, damage) = scanned.map_err(|error| Error::of_scan(error, None))?;
    if scanned.superblock.kept.is_none() {
        return Err(Error::NoLog);
    }
    let shape = scanned.superblock.shape;
    Ok((scanned, damage.map(|error| Error::of_scan(error, Some(shape)))))
}

/// Opens a log for writing.
pub fn open(disk: &mut dyn Disk) -> Result<Writer, Error> {
    // A process that was killed may have left writes in caches: what counts must not go again.
    disk.flush_for(Edge::RecordsFound)?;
    let (scanned, damage) = read(disk)?;
    if let Some(damage) = damage {
        return Err(damage);
    }
    if is_exhausted(&scanned) {
        return Err(Error::NoSpaceToBegin);
    }
    let view = View::of(&scanned);
    let last = *scanned.epochs.last().expect("an undamaged log has an epoch");
    if goes_on(&scanned, last) {
        let before = scanned.last_group();
        let before = before.filter(|&lsn| lsn >= last.start).unwrap_or_default();
        let ring = Ring::resume(&scanned.superblock, last.next, before);
        let mut writer = Writer::new(ring, view);
        if scanned.lacks_copy {
            writer.attest(disk)?;
        }
        return Ok(writer);
    }
    begin(disk, &scanned, view, last)
}

/// True if numbers are near their end, which no use of a log comes to.
fn is_exhausted(scanned: &Scanned) -> bool {
    let LogSuperblock { shape, sequence, .. } = scanned.superblock;
    scanned.epoch > u32::MAX - MARGIN
        || scanned.next + 2 * shape.sectors() > MOST_NUMBER
        || sequence > MOST_SEQUENCE - u64::from(MARGIN)
}

/// True if nothing lies behind the end of the newest epoch.
fn goes_on(scanned: &Scanned, last: EpochSpan) -> bool {
    let is_bare = scanned.next == last.next || planted(PlantedBug::EpochReused);
    let is_newest = scanned.epoch == scanned.superblock.epoch;
    is_bare && is_newest && !last.is_cut_off && last.next.is_multiple_of(BLOCK_SECTORS)
}

fn begin(
    disk: &mut dyn Disk,
    scanned: &Scanned,
    mut view: View,
    last: EpochSpan,
) -> Result<Writer, Error> {
    let is_empty = scanned.groups().len() == 0;
    let found = LogSuperblock { clean: is_empty, ..scanned.superblock };
    let groups = if is_empty { Vec::new() } else { vec![link(last)] };
    let newest = (scanned.next, scanned.epoch);
    let begun = Ring::begin_with(&found, newest, false, groups);
    let Begun { ring, carried, superblocks } = begun.map_err(|_| Error::NoSpaceToBegin)?;
    for write in &carried {
        disk.write(write.sector / BLOCK_SECTORS, Data::bytes(write.bytes.clone()))?;
    }
    if !carried.is_empty() {
        disk.flush_for(Edge::LogCarried)?;
    }
    for (superblock, edge) in superblocks.iter().zip([Edge::LogEpoch, Edge::LogBegun]) {
        disk.write(superblock.block(), Data::bytes(superblock.encode().into()))?;
        disk.flush_for(edge)?;
    }
    let [_, newest] = superblocks;
    if is_empty {
        view.spans.clear();
    }
    let begin = newest.kept.map_or(0, |kept| kept.begin);
    view.begin_epoch(newest.epoch, Lsn::new(begin, 0), ring.durable());
    Ok(Writer::new(ring, view))
}

/// The group that a new epoch begins with.
fn link(last: EpochSpan) -> GroupBuilder {
    let mut group = GroupBuilder::new(0, 0, 0);
    let fits = group.push(Record::Epoch { before: last.epoch, end: last.end });
    assert!(fits, "one record fits in a group");
    group
}
